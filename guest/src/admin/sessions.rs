//! Creates, lists, reads, writes and deletes sessions, their values and their history.
//!
//! Promises the lanes' rules for names, values, history and limits, and the original node's error messages. Only `create` creates a
//! session.

use keepline_json as json;

use crate::admin::conditions::EXPECTED_VALUE;
use crate::admin::delete::delete_nodes_and_copies;
use crate::context::Context;
use crate::contract::sessions::{HistoryPage, SessionDeleted, SessionPage, SessionState};
use crate::contract::{
    BucketId, DeleteRequest, Expectation, Host, LogEnd, LogExtent, LogRun, Operation, Precondition, Problem, PutEntry,
    Span, Status, Transaction, VALUES, codes, kind,
};
use crate::entry::session_problem::{
    MAX_COUNT, SessionResult, answer_count_problem, check_status, conflict_problem, require_valid_key,
    require_valid_session, write_problem,
};
use crate::options::config::{KEYS_BYTES, MAX_KEYS};
use crate::store::{EntriesOutcome, Outcomes};
use crate::text::ids::{ANSWER_COUNT, SessionIds, check_session_name, is_hash, is_key_name, is_session};
use crate::text::quoting::python_repr;
use crate::text::timestamp;
use crate::values::history::HISTORY_LOG;
use crate::values::message_ids::{MessageId, REQUEST_IDS};
use crate::values::session_id::{is_plain, store_session_id};
use crate::values::{history, history_summary, message_ids};
use crate::{log, store, text};

/// Of a value that would make a question's line unreadable.
const NOT_PORTABLE: &str =
    "is refused by strict JSON parsers: allowed are 120 levels, numbers of 100 characters, and whole surrogate pairs";

/// How often to begin again when other writers come between two transactions.
const TRIES: u32 = 8;

/// What is said of a session that is deleted and can't be read.
const NOT_FOUND: &str = ": it is deleted, but its nodes and what its user's memory has of it could not be found";

/// Pages of keys that one reply may cost: of hosts that give a hundred keys at a time, and some slack.
const KEY_PAGES: u32 = 120;

/// A page when the caller does not say.
const PAGE: u32 = 100;

const PAGE_MAX: u32 = 10_000;

/// Create a session that must not be there.
pub fn create_session(context: &Context<impl Host>, session: &str) -> SessionResult<SessionState> {
    NamedSession { context, session }.describe(Precondition::create_new(context.config.time_to_live()))
}

/// Look at a session, which counts as a use of it.
pub fn resume_session(context: &Context<impl Host>, session: &str) -> SessionResult<SessionState> {
    NamedSession { context, session }.describe(Precondition::ANY)
}

/// A page of session ids, from the empty cursor on.
pub fn list_sessions(context: &Context<impl Host>, cursor: &str, limit: u32) -> SessionResult<SessionPage> {
    if !context.host.store_profile().listing {
        let failure = Problem::new(codes::UNSUPPORTED, "", "The store can't list sessions");
        return Err(failure);
    }
    let limit = if limit == 0 { PAGE } else { limit.min(PAGE_MAX) };
    let page = context.host.list_buckets(kind::SESSION, cursor, limit).map_err(Problem::of_store)?;
    let mut sessions = page.names;
    sessions.retain(|name| is_session(name));
    store::sort_names(&mut sessions);
    Ok(SessionPage { sessions, cursor: page.cursor })
}

/// Delete a session.
pub fn delete_session(context: &Context<impl Host>, session: &str) -> SessionResult<SessionDeleted> {
    require_valid_session(session)?;
    match delete_nodes_and_copies(context, session) {
        // A broken session can be deleted, too, but what it has elsewhere is unknown.
        Err(problem) if problem.code == codes::WRONG_TYPE => {
            let what = ["Session ", session, " is damaged (", &problem.message, ")", NOT_FOUND];
            log::warn(&context.host, log::SESSION, &what);
        }
        removed => removed?,
    }
    let bucket = BucketId::session(session);
    let request = DeleteRequest { bucket, generation: None, max_keys: PAGE_MAX };
    let deletion = store::delete_bucket(&context.host, request)?;
    check_status(session, bucket, deletion.status)?;
    Ok(SessionDeleted { key_count: deletion.values, keys: deletion.keys })
}

/// Store a value, which is JSON text. Whether the key was there before.
pub fn put_value(context: &Context<impl Host>, session: &str, key: &str, value: &str) -> SessionResult<bool> {
    require_valid_session(session)?;
    let value = require_valid_value(context, key, value)?;
    if key == ANSWER_COUNT && !is_plain_count(value) {
        return Err(answer_count_problem(session));
    }
    let entry = [PutEntry { key, text: value }];
    match (NamedSession { context, session }).write_key(key, Operation::put(VALUES, &entry), "put")? {
        Write::Applied(mut outcomes) => Ok(outcomes.take_changed()?.added == 0),
        Write::Repeated => Ok(true),
    }
}

/// What is stored of a value, which has to be JSON and within the limit.
pub(crate) fn require_valid_value<'v>(
    context: &Context<impl Host>,
    key: &str,
    value: &'v str,
) -> SessionResult<&'v str> {
    require_valid_key(key)?;
    let limit = context.config.max_value_bytes;
    if value.len() as u64 > limit {
        let size = value.len();
        let message = format!("Value of {size} bytes is over max_value_bytes ({limit})");
        return Err(limit_problem(context, "max_value_bytes", limit, message));
    }
    json::as_portable_value(value).ok_or_else(|| {
        let why = if json::as_strict_value(value).is_none() { "is not valid JSON" } else { NOT_PORTABLE };
        Problem::invalid("value", ["Value of key ", &python_repr(key), " ", why].concat())
    })
}

/// The value of a key, as JSON text; none: there is no such key.
pub fn read_value(context: &Context<impl Host>, session: &str, key: &str) -> SessionResult<Option<String>> {
    valid_names(session, key)?;
    let limit = context.config.max_value_bytes;
    let get = Operation::get(VALUES, &key, limit);
    let mut outcomes = NamedSession { context, session }.transact(Precondition::ANY, &[get])?;
    let text = match outcomes.take_entries()? {
        EntriesOutcome::Entries(found) if found.entries.is_empty() && found.unreadable.is_empty() => return Ok(None),
        EntriesOutcome::Entries(found) => found.entries.into_iter().next().map(|entry| entry.text),
        EntriesOutcome::Oversize { .. } => {
            let message = format!("Stored value of key {} is over max_value_bytes ({limit})", python_repr(key));
            return Err(limit_problem(context, "max_value_bytes", limit, message));
        }
    };
    let value = text.as_deref().and_then(json::as_strict_value);
    if value.is_some() && value.map(str::len) == text.as_ref().map(String::len) {
        return Ok(text);
    }
    value.map(|value| Some(value.to_owned())).ok_or_else(|| {
        let message = format!("Stored value of key {} is not valid JSON", python_repr(key));
        Problem::invalid("value", message)
    })
}

/// The keys of a session, sorted.
pub fn list_session_keys(context: &Context<impl Host>, session: &str) -> SessionResult<Vec<String>> {
    require_valid_session(session)?;
    Ok(NamedSession { context, session }.list_keys(&[page_keys("")])?.0)
}

/// Clear one key, or all; the keys that were cleared.
pub fn clear_values(context: &Context<impl Host>, session: &str, key: Option<&str>) -> SessionResult<Vec<String>> {
    require_valid_session(session)?;
    let Some(key) = key else {
        return NamedSession { context, session }.clear_all();
    };
    require_valid_key(key)?;
    let removed =
        match (NamedSession { context, session }).write_key(key, Operation::remove(VALUES, &[key]), "clear")? {
            Write::Applied(mut outcomes) => outcomes.take_changed()?.removed,
            Write::Repeated => 0,
        };
    Ok(if removed > 0 { vec![key.to_owned()] } else { Vec::new() })
}

/// Add to a counter; its new value. A call that was made before, by its request id, adds nothing.
pub fn increment_value(context: &Context<impl Host>, session: &str, key: &str, amount: i64) -> SessionResult<i64> {
    valid_names(session, key)?;
    let increment = Operation::add(VALUES, key, amount);
    let named = NamedSession { context, session };
    let outcomes = if key == ANSWER_COUNT {
        named.increment_count(increment, amount)?
    } else {
        named.write_key(key, increment, "increment")?
    };
    match outcomes {
        Write::Applied(mut outcomes) => outcomes.take_counter(),
        Write::Repeated => {
            let value = read_value(context, session, key)?.and_then(|value| value.parse().ok());
            value.ok_or_else(|| {
                let message = format!("Value of key {} was replaced after the call was made", python_repr(key));
                Problem::new(codes::NOT_A_COUNTER, key, message)
            })
        }
    }
}

/// What became of a write.
enum Write {
    Applied(Outcomes),
    /// Its request id is known: it was applied before.
    Repeated,
}

/// A session, by its name.
struct NamedSession<'a, H> {
    context: &'a Context<H>,
    session: &'a str,
}

impl<H: Host> NamedSession<'_, H> {
    fn describe(&self, precondition: Precondition<'_>) -> SessionResult<SessionState> {
        require_valid_session(self.session)?;
        let mut outcomes = self.transact(precondition, &[Operation::describe(true)])?;
        let found = outcomes.take_description()?;
        let history = found.parts.iter().find(|part| part.kind == "log" && part.name == HISTORY_LOG);
        Ok(SessionState {
            generation: outcomes.generation,
            key_count: found.values,
            history_length: history.map_or(0, |part| part.count),
            created_at: found.created_at,
            expires_in: found.expires_in,
            extras: None,
        })
    }

    /// The record of it names the keys, so they are listed first. Every write appends to history: as long as that
    /// stands where it stood, the keys are those that were listed.
    fn clear_all(&self) -> SessionResult<Vec<String>> {
        for _ in 0..TRIES {
            let (cleared, mut outcomes) = self.list_keys(&[page_keys(""), WHERE_HISTORY_STANDS])?;
            let history = outcomes.take_records()?;
            let precondition = Precondition::life(&outcomes.generation);
            let keys: Vec<&str> = cleared.iter().map(String::as_str).collect();
            let stamp = timestamp::format_timestamp(self.context.host.now_micros());
            let record = history::record_clear_all(&keys, &stamp);
            let (expectations, reset) = ([unmoved(history.extent)], Operation::reset_map(VALUES));
            match self.apply(precondition, &expectations, reset, &record, &stamp)? {
                // A repeated transaction finds nothing left to remove: the expectation tells what was there.
                Some(Write::Applied(_)) => return Ok(cleared),
                Some(Write::Repeated) => return Ok(Vec::new()),
                None => {}
            }
        }
        Err(conflict_problem(self.session))
    }

    /// The count of answers must stay a count: read it, and add to it if nothing was written since.
    fn increment_count(&self, increment: Operation<'_>, amount: i64) -> SessionResult<Write> {
        let get = Operation::get(VALUES, &ANSWER_COUNT, self.context.config.max_value_bytes);
        for _ in 0..TRIES {
            let mut outcomes = self.transact(Precondition::ANY, &[get, WHERE_HISTORY_STANDS])?;
            let (found, extent) = (outcomes.take_entries()?, outcomes.take_records()?.extent);
            let count = match &found {
                EntriesOutcome::Entries(found) => match &*found.entries {
                    [] if found.unreadable.is_empty() => Some(0),
                    [entry] => entry.text.parse::<i64>().ok(),
                    _ => None,
                },
                EntriesOutcome::Oversize { .. } => None,
            };
            // The increment itself reports what is not a counter.
            let sum = count.map(|count| count.checked_add(amount));
            if sum.is_some_and(|sum| !sum.is_some_and(|sum| (0..=MAX_COUNT).contains(&sum))) {
                return Err(answer_count_problem(self.session));
            }
            let stamp = timestamp::format_timestamp(self.context.host.now_micros());
            let record = history::format_record("increment", ANSWER_COUNT, &stamp);
            let expectations = [unmoved(extent), room(self.context)];
            let precondition = Precondition::life(&outcomes.generation);
            if let Some(write) = self.apply(precondition, &expectations, increment, &record, &stamp)? {
                return Ok(write);
            }
        }
        Err(conflict_problem(self.session))
    }

    /// The keys of a session, sorted, and what came with the first page of them, by these operations.
    fn list_keys(&self, operations: &[Operation<'_>]) -> SessionResult<(Vec<String>, Outcomes)> {
        let mut outcomes = self.transact(Precondition::ANY, operations)?;
        let mut found = outcomes.take_key_page()?;
        let mut keys = found.keys;
        // A host may give less at a time than is asked for.
        for _ in 0..KEY_PAGES {
            if found.cursor.is_empty() || keys.len() as u64 > MAX_KEYS {
                break;
            }
            let (precondition, read) = (Precondition::life(&outcomes.generation), [page_keys(&found.cursor)]);
            let next = self.transact(precondition, &read)?.take_key_page()?;
            found.cursor = next.cursor;
            keys.extend(next.keys);
        }
        keys.retain(|key| is_key_name(key));
        store::sort_names(&mut keys);
        if keys.len() as u64 > MAX_KEYS || !found.cursor.is_empty() {
            let message =
                format!("Session {} holds more than the {MAX_KEYS} keys that can be listed", python_repr(self.session));
            return Err(limit_problem(self.context, "keys", MAX_KEYS, message));
        }
        Ok((keys, outcomes))
    }

    /// Write to one key, with its history record, if what the call expects is there.
    fn write_key(&self, key: &str, write: Operation<'_>, op: &str) -> SessionResult<Write> {
        let stamp = timestamp::format_timestamp(self.context.host.now_micros());
        let record = history::format_record(op, key, &stamp);
        let expectations = key_expectations(self.context, key);
        let applied = self.apply(Precondition::ANY, &expectations, write, &record, &stamp)?;
        applied.ok_or_else(|| match self.context.expected_value {
            Some(_) => unexpected_value(key),
            None => Problem::out_of_turn(),
        })
    }

    /// Write to a session, with a history record. None: its history has moved, or it is another session by now.
    fn apply(
        &self,
        precondition: Precondition<'_>,
        expectations: &[Expectation<'_>],
        write: Operation<'_>,
        record: &str,
        stamp: &str,
    ) -> SessionResult<Option<Write>> {
        let records = [record];
        let mut operations = Vec::with_capacity(5);
        operations.push(write);
        history::push_history_operations(&mut operations, &self.context.config, &records);
        let request = self.context.request_id.as_deref().and_then(MessageId::of_request);
        let (id_record, id_mark) = (request.as_ref().map(MessageId::record), request.as_ref().map(MessageId::mark));
        // The id comes first: what was written before needs no room, and history has moved since.
        let expectations: Vec<_> = request.iter().map(MessageId::is_new).chain(expectations.iter().copied()).collect();
        if let Some(request) = &request {
            let limits = self.context.config.limits;
            request.push_operations(&mut operations, id_record.as_slice(), id_mark.as_slice(), limits);
        }
        let transaction = Transaction {
            bucket: BucketId::session(self.session),
            precondition,
            expectations: &expectations,
            operations: &operations,
        };
        let receipt = store::transact(&self.context.host, &transaction)
            .map_err(|failure| write_problem(self.session, failure))?;
        match receipt.status {
            Status::GenerationMismatch => return Ok(None),
            Status::Unmet if request.is_some() && receipt.unmet == Some(0) => return Ok(Some(Write::Repeated)),
            Status::Unmet
                if matches!(store::unmet_expectation(&receipt, &transaction), Some(Expectation::Room { .. })) =>
            {
                let (session, limit) = (python_repr(self.session), self.context.config.max_keys);
                let message = format!("Session {session} holds max_keys ({limit}) keys");
                return Err(limit_problem(self.context, "max_keys", limit, message));
            }
            Status::Unmet => return Ok(None),
            status => check_status(self.session, transaction.bucket, status)?,
        }
        history::compact_history(&self.context.host, &self.context.config, &transaction, &receipt, stamp);
        message_ids::forget_surplus_ids(&self.context.host, REQUEST_IDS, &transaction, &receipt);
        Ok(Some(Write::Applied(Outcomes::of(receipt))))
    }

    /// Read from a session, or create it.
    fn transact(&self, precondition: Precondition<'_>, operations: &[Operation<'_>]) -> SessionResult<Outcomes> {
        read_bucket(self.context, self.session, BucketId::session(self.session), precondition, operations)
    }

    fn newest_records(&self, limit: u32) -> SessionResult<LogRun> {
        let (end, max_records) = (LogEnd::Newest, u64::from(limit));
        self.read_records(Precondition::ANY, Operation::read(HISTORY_LOG, end, max_records, MAX_BYTES))
    }

    fn records_before(&self, before: u64, limit: u32) -> SessionResult<LogRun> {
        let mut count = u32::try_from(before).unwrap_or(limit).min(limit);
        let mut precondition = Precondition::ANY;
        loop {
            let span = [Span { position: before.saturating_sub(u64::from(count)), count }];
            let read = Operation::read_at(HISTORY_LOG, &span, MAX_BYTES);
            let mut found = self.read_records(precondition, read)?;
            if before > found.extent.next() {
                // Before what is still to come is all that there is.
                return self.newest_records(limit);
            }
            if before <= found.extent.first || found.end() == before {
                return Ok(LogRun { first: before - found.records.len() as u64, ..found });
            }
            if count == 1 {
                found.records.clear();
                return Ok(LogRun { first: before, ..found });
            }
            // They are too much, and a store leaves out the newest of them: fewer will fit. This was a use of the
            // session already.
            precondition = Precondition::LOOK;
            count = u32::try_from(found.records.len()).unwrap_or(count).min(count / 2).max(1);
        }
    }

    fn read_records(&self, precondition: Precondition<'_>, read: Operation<'_>) -> SessionResult<LogRun> {
        self.transact(precondition, &[read])?.take_records()
    }
}

/// The same with any bucket of the session's, and writes that count nothing.
pub(crate) fn read_bucket(
    context: &Context<impl Host>,
    session: &str,
    bucket: BucketId<'_>,
    precondition: Precondition<'_>,
    operations: &[Operation<'_>],
) -> SessionResult<Outcomes> {
    let transaction = Transaction { bucket, precondition, expectations: &[], operations };
    let receipt = store::transact(&context.host, &transaction)?;
    check_status(session, bucket, receipt.status)?;
    Ok(Outcomes::of(receipt))
}

/// What the call expects under the key, and room for another one. Who expects something learns that first.
pub(super) fn key_expectations<'a>(context: &'a Context<impl Host>, key: &'a str) -> Vec<Expectation<'a>> {
    let mut expectations = Vec::with_capacity(2);
    if let Some(expected) = &context.expected_value {
        expectations.push(expected.under(key));
    }
    expectations.push(room(context));
    expectations
}

fn room(context: &Context<impl Host>) -> Expectation<'static> {
    Expectation::room(VALUES, context.config.max_keys)
}

/// A refusal for a limit is logged, as on the lanes: the operator may not be who called.
pub(crate) fn limit_problem(context: &Context<impl Host>, option: &str, limit: u64, message: String) -> Box<Problem> {
    log::warn(&context.host, log::LIMIT, &[&message]);
    Problem::limit(option, limit, message)
}

/// No record is read, only where the log stands.
const WHERE_HISTORY_STANDS: Operation<'static> = Operation::read(HISTORY_LOG, LogEnd::Newest, 0, 0);

fn page_keys(cursor: &str) -> Operation<'_> {
    Operation::page_keys(VALUES, cursor, MAX_KEYS, KEYS_BYTES)
}

/// History still stands there.
fn unmoved(extent: LogExtent) -> Expectation<'static> {
    Expectation::log(HISTORY_LOG, None, Some(extent.next()))
}

/// Another value is under the key than the call expects, or none.
pub(super) fn unexpected_value(key: &str) -> Box<Problem> {
    let message = ["The value under ", &*python_repr(key), " is not as expected; nothing was changed"].concat();
    Problem::new(codes::CONFLICT, EXPECTED_VALUE, message)
}

fn valid_names(session: &str, key: &str) -> SessionResult<()> {
    require_valid_session(session)?;
    require_valid_key(key)
}

/// An integer that the count of answers may be, spelt as a counter is.
fn is_plain_count(value: &str) -> bool {
    let is_canonical = value == "0" || value.starts_with(|digit: char| matches!(digit, '1'..='9'));
    is_canonical && value.parse::<i64>().is_ok_and(|count| count <= MAX_COUNT)
}

/// Records of one reply, and their bytes.
const MAX_RECORDS: u32 = 10_000;

const MAX_BYTES: u64 = 8 << 20;

/// At most so many of the newest records before a position, or of all; 0: as many as one reply holds.
pub fn read_history(
    context: &Context<impl Host>,
    session: &str,
    before: Option<u64>,
    limit: u32,
) -> SessionResult<HistoryPage> {
    require_valid_session(session)?;
    let limit = if limit == 0 { MAX_RECORDS } else { limit.min(MAX_RECORDS) };
    let found = match before {
        None => NamedSession { context, session }.newest_records(limit)?,
        Some(before) => NamedSession { context, session }.records_before(before, limit)?,
    };
    let LogRun { extent, first, records } = found;
    let records = records.iter().map(|record| history_summary::read_record(record)).collect();
    Ok(HistoryPage { first, records, oldest: extent.first, next: extent.next() })
}

/// A call on the session with this id, by its name. What is refused names the id.
pub fn with_session_name<H: Host, T>(
    context: &Context<H>,
    id: &str,
    call: impl FnOnce(&Context<H>, &str) -> SessionResult<T>,
) -> SessionResult<T> {
    let name = session_name(context, id)?;
    call(context, &name).map_err(|problem| name_id(problem, &name, id))
}

/// The problem with the id where it names the session's bucket.
pub fn name_id(mut problem: Box<Problem>, name: &str, id: &str) -> Box<Problem> {
    if name != id {
        let mut message = String::new();
        let mut rest = &*problem.message;
        while let Some((before, after)) = text::split_once(rest, name) {
            message.extend([before, &*shown(id)]);
            rest = after;
        }
        message.push_str(rest);
        problem.message = message;
    }
    problem
}

/// Create the session with this id, which must not be there.
pub fn create_with_id(context: &Context<impl Host>, id: &str) -> SessionResult<SessionState> {
    with_session_name(context, id, |context, name| {
        let state = create_session(context, name)?;
        if name != id {
            store_session_id(&context.host, name, id)?;
        }
        Ok(state)
    })
}

/// The name of the session with this id.
pub fn session_name<'a>(context: &Context<impl Host>, id: &'a str) -> SessionResult<std::borrow::Cow<'a, str>> {
    let ids = context.config.session_ids;
    let invalid = |message: String| Problem::invalid("session", message);
    let name = match (ids.bucket_name(id), ids) {
        (Some(name), _) => name,
        (None, SessionIds::Strict) => {
            let refused = check_session_name(id).err().unwrap_or_default();
            return Err(invalid(refused + " With session_ids \"hash\", any text of at most 1,024 bytes."));
        }
        (None, SessionIds::Hash) => {
            return Err(invalid(["Invalid session_id: ", &python_repr(id), ". Must be 1-1,024 bytes."].concat()));
        }
    };
    if ids == SessionIds::Strict && is_hash(&name) && !is_plain(&context.host, &name)? {
        let why = ". There is no such session, and new ones must not have the form of a hash.";
        return Err(invalid(["Invalid session_id: ", &python_repr(id), why].concat()));
    }
    Ok(name)
}

/// Without the quotes, which are there already.
fn shown(id: &str) -> String {
    let shown = python_repr(id);
    shown.get(1..shown.len() - 1).unwrap_or(id).to_owned()
}
