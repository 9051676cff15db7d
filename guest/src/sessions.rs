//! What an operator, or another part of a pipeline, does to a session.
//!
//! Promises the lanes' rules for names, values, history and limits, and the original node's words when
//! it refuses. Refuses to create a session by the way: all but `create` want one that is there.

use keepline_json as json;

use crate::config::{Config, KEYS_BYTES, MAX_KEYS};
use crate::history;
use crate::log;
use crate::names::{ANSWER_COUNT, check_key, check_session, is_key, is_session, repr};
use crate::reply::{self, Found, Outcomes};
use crate::store::{
    Bucket, Expectation, Failure, FailureCode, Host, LogEnd, LogExtent, Opening, Operation, Status, Transaction, VALUES,
};

mod problem;
mod read;

pub(crate) use problem::{Code, check_status, conflict, store_problem};
pub use problem::{SessionProblem, SessionProblemCode};
pub use read::HistoryPage;

use problem::{no_count, out_of_turn};

/// What a session looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionState {
    /// Its creation stamp.
    pub incarnation: String,
    /// How many keys it has.
    pub key_count: u64,
    /// How many history records it has.
    pub history_length: u64,
    /// Milliseconds of life left; none: it does not expire.
    pub expires_in: Option<u64>,
}

/// A page of session ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionPage {
    /// Sorted.
    pub sessions: Vec<String>,
    /// Empty after the last page.
    pub cursor: String,
}

/// Of a value that would make a question's line unreadable.
const NOT_PORTABLE: &str =
    "is refused by strict JSON parsers: allowed are 120 levels, numbers of 100 characters, and whole surrogate pairs";

/// A deleted session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDeleted {
    /// How many values it had.
    pub key_count: u64,
    /// The first of their keys, sorted.
    pub keys_cleared: Vec<String>,
}

pub(crate) type Answer<T> = Result<T, SessionProblem>;

/// How often to begin again when other writers come between two transactions.
const TRIES: u32 = 8;
/// What is said of a session that is deleted and can't be read.
const NOT_FOUND: &str = ": it is deleted, but its nodes and what its user's memory has of it could not be found";
/// Pages of keys that one reply may cost: of hosts that give a hundred keys at a time, and some slack.
const KEY_PAGES: u32 = 120;
/// A page when the caller does not say.
const PAGE: u32 = 100;
const PAGE_MAX: u32 = 10_000;
/// The most that an operator may set the count of answers to: all readers of JSON read it exactly, and it leaves
/// room for more answers than there will ever be.
const MAX_COUNT: i64 = (1 << 53) - 1;

/// The operations on sessions: options, and a host to work with.
#[derive(Clone, Debug)]
pub struct Sessions<H> {
    host: H,
    config: Config,
}

impl<H: Host> Sessions<H> {
    /// Operations with these options.
    pub fn new(host: H, config: Config) -> Self {
        Self { host, config }
    }

    /// Create a session that must not be there; its incarnation.
    pub fn create(&self, session: &str) -> Answer<String> {
        valid_session(session)?;
        let opening = Opening::CreateNew { time_to_live: self.config.time_to_live() };
        self.transact(session, opening, &[]).map(|(incarnation, _)| incarnation)
    }

    /// Look at a session, which counts as a use of it.
    pub fn resume(&self, session: &str) -> Answer<SessionState> {
        valid_session(session)?;
        let describe = Operation::Describe { parts: true };
        let (incarnation, mut outcomes) = self.transact(session, Opening::ANY, &[describe])?;
        let found = outcomes.described().map_err(|failure| store_problem(session, &failure))?;
        let history = found.logs.iter().find(|(log, _)| log == history::LOG);
        Ok(SessionState {
            incarnation,
            key_count: found.values,
            history_length: history.map_or(0, |(_, extent)| extent.length),
            expires_in: found.expires_in,
        })
    }

    /// A page of session ids, from the empty cursor on.
    pub fn list(&self, cursor: &str, limit: u32) -> Answer<SessionPage> {
        if !self.host.capabilities().listing {
            let failure = Failure::new(FailureCode::Unsupported, "The store can't list sessions");
            return Err(store_problem("", &failure));
        }
        let limit = if limit == 0 { PAGE } else { limit.min(PAGE_MAX) };
        let page = self.host.list_sessions(cursor, limit);
        let page = page.map_err(|failure| store_problem("", &failure))?;
        let mut sessions = page.names;
        sessions.retain(|name| is_session(name));
        reply::sort(&mut sessions);
        Ok(SessionPage { sessions, cursor: page.cursor })
    }

    /// Delete a session.
    pub fn delete(&self, session: &str) -> Answer<SessionDeleted> {
        valid_session(session)?;
        match self.remove_elsewhere(session) {
            // What is broken can be deleted, too. What it has elsewhere nobody can tell.
            Err(problem) if problem.store_code == FailureCode::WrongType.as_str() => {
                let what = ["Session ", session, " is damaged (", &problem.message, ")", NOT_FOUND];
                log::warn(&self.host, log::SESSION, &what);
            }
            removed => removed?,
        }
        let deletion = reply::delete(&self.host, Bucket::session(session), None, PAGE_MAX);
        let deletion = deletion.map_err(|failure| store_problem(session, &failure))?;
        check_status(session, deletion.status)?;
        Ok(SessionDeleted { key_count: deletion.values, keys_cleared: deletion.keys })
    }

    /// Store a value, which is JSON text.
    pub fn put(&self, session: &str, key: &str, value: &str) -> Answer<()> {
        valid_session(session)?;
        let value = self.checked_value(key, value)?;
        if key == ANSWER_COUNT && !is_plain_count(value) {
            return Err(no_count(session));
        }
        let put = Operation::Put { map: VALUES, key, text: value };
        self.write(session, key, put, "put").map(drop)
    }

    /// What is stored of a value, which has to be JSON and within the limit.
    pub(crate) fn checked_value<'v>(&self, key: &str, value: &'v str) -> Answer<&'v str> {
        valid_key(key)?;
        let limit = self.config.max_value_bytes;
        if value.len() as u64 > limit {
            let size = value.len();
            return Err(self.limit(format!("Value of {size} bytes is over max_value_bytes ({limit})")));
        }
        json::portable(value).ok_or_else(|| {
            let why = if json::value(value).is_none() { "is not valid JSON" } else { NOT_PORTABLE };
            SessionProblem::new(Code::InvalidValue, ["Value of key ", &repr(key), " ", why].concat())
        })
    }

    /// The value of a key, as JSON text; none: there is no such key.
    pub fn get(&self, session: &str, key: &str) -> Answer<Option<String>> {
        valid_names(session, key)?;
        let limit = self.config.max_value_bytes;
        let get = Operation::Get { map: VALUES, key, max_bytes: limit };
        let (_, mut outcomes) = self.transact(session, Opening::ANY, &[get])?;
        let text = match outcomes.entries().map_err(|failure| store_problem(session, &failure))? {
            Found::Entries(found) if found.entries.is_empty() && found.unreadable.is_empty() => return Ok(None),
            Found::Entries(found) => found.entries.into_iter().next().map(|entry| entry.text),
            Found::Oversize { .. } => {
                return Err(self.limit(format!("Stored value of key {} is over max_value_bytes ({limit})", repr(key))));
            }
        };
        let value = text.as_deref().and_then(json::value);
        if value.is_some() && value.map(str::len) == text.as_ref().map(String::len) {
            return Ok(text);
        }
        value.map(|value| Some(value.to_owned())).ok_or_else(|| {
            let message = format!("Stored value of key {} is not valid JSON", repr(key));
            SessionProblem::new(Code::InvalidValue, message)
        })
    }

    /// The keys of a session, sorted.
    pub fn keys(&self, session: &str) -> Answer<Vec<String>> {
        valid_session(session)?;
        self.list_keys(session, &[page_keys("")]).map(|(keys, ..)| keys)
    }

    /// Clear one key, or all; the keys that were cleared.
    pub fn clear(&self, session: &str, key: Option<&str>) -> Answer<Vec<String>> {
        valid_session(session)?;
        let Some(key) = key else {
            return self.clear_all(session);
        };
        valid_key(key)?;
        let mut outcomes = self.write(session, key, Operation::Remove { map: VALUES, keys: &[key] }, "clear")?;
        let removed = outcomes.changed().map_err(|failure| store_problem(session, &failure))?;
        Ok(if removed > 0 { vec![key.to_owned()] } else { Vec::new() })
    }

    /// The record of it names the keys, so they are listed first. Every write appends to history: as long as that
    /// stands where it stood, the keys are those that were listed.
    fn clear_all(&self, session: &str) -> Answer<Vec<String>> {
        for _ in 0..TRIES {
            let (cleared, incarnation, mut outcomes) =
                self.list_keys(session, &[page_keys(""), WHERE_HISTORY_STANDS])?;
            let history = outcomes.records().map_err(|failure| store_problem(session, &failure))?;
            let keys: Vec<&str> = cleared.iter().map(String::as_str).collect();
            let stamp = history::timestamp(self.host.now_micros());
            let record = history::record_clear_all(&keys, &stamp);
            let applied = self.apply(
                session,
                Opening::life(&incarnation),
                &[unmoved(history.extent)],
                Operation::ResetMap { map: VALUES, entries: &[] },
                &record,
                &stamp,
            )?;
            if applied.is_some() {
                // A repeated call finds nothing left to remove: the expectation tells what was there.
                return Ok(cleared);
            }
        }
        Err(conflict(session))
    }

    /// Add to a counter; its new value.
    pub fn increment(&self, session: &str, key: &str, amount: i64) -> Answer<i64> {
        valid_names(session, key)?;
        let increment = Operation::Increment { map: VALUES, key, amount };
        let outcomes = if key == ANSWER_COUNT {
            self.increment_count(session, increment, amount)
        } else {
            self.write(session, key, increment, "increment")
        };
        outcomes?.counter().map_err(|failure| store_problem(session, &failure))
    }

    /// The count of answers must stay one: look at it, and add to it if nobody has written since.
    fn increment_count(&self, session: &str, increment: Operation<'_>, amount: i64) -> Answer<Outcomes> {
        let get = Operation::Get { map: VALUES, key: ANSWER_COUNT, max_bytes: self.config.max_value_bytes };
        for _ in 0..TRIES {
            let (incarnation, mut outcomes) = self.transact(session, Opening::ANY, &[get, WHERE_HISTORY_STANDS])?;
            let looked = outcomes.entries().and_then(|found| Ok((found, outcomes.records()?.extent)));
            let (found, extent) = looked.map_err(|failure| store_problem(session, &failure))?;
            let count = match &found {
                Found::Entries(found) => match &*found.entries {
                    [] if found.unreadable.is_empty() => Some(0),
                    [entry] => entry.text.parse::<i64>().ok(),
                    _ => None,
                },
                Found::Oversize { .. } => None,
            };
            // What is no counter, the increment itself will say so.
            let sum = count.map(|count| count.checked_add(amount));
            if sum.is_some_and(|sum| !sum.is_some_and(|sum| (0..=MAX_COUNT).contains(&sum))) {
                return Err(no_count(session));
            }
            let stamp = history::timestamp(self.host.now_micros());
            let record = history::record("increment", ANSWER_COUNT, &stamp);
            let expectations = [unmoved(extent), self.room()];
            let opening = Opening::life(&incarnation);
            if let Some(outcomes) = self.apply(session, opening, &expectations, increment, &record, &stamp)? {
                return Ok(outcomes);
            }
        }
        Err(conflict(session))
    }

    /// The keys of a session, sorted; its incarnation; and what came with the first page of them, by these operations.
    fn list_keys(&self, session: &str, operations: &[Operation<'_>]) -> Answer<(Vec<String>, String, Outcomes)> {
        let (incarnation, mut outcomes) = self.transact(session, Opening::ANY, operations)?;
        let mut found = outcomes.keys().map_err(|failure| store_problem(session, &failure))?;
        let mut keys = found.keys;
        // A host may give less at a time than is asked for.
        for _ in 0..KEY_PAGES {
            if found.cursor.is_empty() || keys.len() as u64 > MAX_KEYS {
                break;
            }
            let (_, mut outcomes) = self.transact(session, Opening::life(&incarnation), &[page_keys(&found.cursor)])?;
            let next = outcomes.keys().map_err(|failure| store_problem(session, &failure))?;
            found.cursor = next.cursor;
            keys.extend(next.keys);
        }
        keys.retain(|key| is_key(key));
        reply::sort(&mut keys);
        if keys.len() as u64 > MAX_KEYS || !found.cursor.is_empty() {
            let session = repr(session);
            return Err(self.limit(format!("Session {session} holds more than the {MAX_KEYS} keys that can be listed")));
        }
        Ok((keys, incarnation, outcomes))
    }

    /// Write to one key, with its history record.
    fn write(&self, session: &str, key: &str, write: Operation<'_>, op: &str) -> Answer<Outcomes> {
        let stamp = history::timestamp(self.host.now_micros());
        let record = history::record(op, key, &stamp);
        let applied = self.apply(session, Opening::ANY, &[self.room()], write, &record, &stamp)?;
        applied.ok_or_else(|| out_of_turn(session))
    }

    /// Write to a session, with a history record. None: its history has moved, or it is another session by now.
    fn apply(
        &self,
        session: &str,
        opening: Opening<'_>,
        expectations: &[Expectation<'_>],
        write: Operation<'_>,
        record: &str,
        stamp: &str,
    ) -> Answer<Option<Outcomes>> {
        let records = [record];
        let mut operations = Vec::with_capacity(3);
        operations.push(write);
        history::append(&mut operations, &self.config, &records);
        let transaction =
            Transaction { bucket: Bucket::session(session), opening, expectations, operations: &operations };
        let receipt = reply::transact(&self.host, &transaction).map_err(|failure| store_problem(session, &failure))?;
        match receipt.status {
            Status::AnotherLife => return Ok(None),
            Status::Unmet if matches!(reply::unmet(&receipt, &transaction), Some(Expectation::Room { .. })) => {
                let (session, limit) = (repr(session), self.config.max_keys);
                return Err(self.limit(format!("Session {session} holds max_keys ({limit}) keys")));
            }
            Status::Unmet => return Ok(None),
            status => check_status(session, status)?,
        }
        history::tidy(&self.host, &self.config, &transaction, &receipt, stamp);
        Ok(Some(Outcomes::of(receipt)))
    }

    /// Read from a session, or create it: its incarnation, and what was found.
    fn transact(
        &self,
        session: &str,
        opening: Opening<'_>,
        operations: &[Operation<'_>],
    ) -> Answer<(String, Outcomes)> {
        self.look(session, Bucket::session(session), opening, operations)
    }

    /// The same with any bucket of the session's: its incarnation, if the opening did not name it, and what was found.
    pub(crate) fn look(
        &self,
        session: &str,
        bucket: Bucket<'_>,
        opening: Opening<'_>,
        operations: &[Operation<'_>],
    ) -> Answer<(String, Outcomes)> {
        let transaction = Transaction { bucket, opening, expectations: &[], operations };
        let mut receipt =
            reply::transact(&self.host, &transaction).map_err(|failure| store_problem(session, &failure))?;
        check_status(session, receipt.status)?;
        Ok((std::mem::take(&mut receipt.incarnation), Outcomes::of(receipt)))
    }

    pub(crate) fn host(&self) -> &H {
        &self.host
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    fn room(&self) -> Expectation<'static> {
        Expectation::Room { map: VALUES, limit: self.config.max_keys }
    }

    /// A refusal for a limit is logged, as on the lanes: the operator may not be who called.
    pub(crate) fn limit(&self, message: String) -> SessionProblem {
        log::warn(&self.host, log::LIMIT, &[&message]);
        SessionProblem::new(Code::Limit, message)
    }
}

/// No record is read, only where the log stands.
const WHERE_HISTORY_STANDS: Operation<'static> =
    Operation::Read { log: history::LOG, end: LogEnd::Newest, max_records: 0, max_bytes: 0 };

fn page_keys(cursor: &str) -> Operation<'_> {
    Operation::PageKeys { map: VALUES, cursor, max_entries: MAX_KEYS, max_bytes: KEYS_BYTES }
}

/// History still stands there.
fn unmoved(extent: LogExtent) -> Expectation<'static> {
    Expectation::Log { log: history::LOG, first: None, next: Some(extent.next()) }
}

pub(crate) fn valid_session(session: &str) -> Answer<()> {
    check_session(session).map_err(|message| SessionProblem::new(Code::InvalidSession, message))
}

pub(crate) fn valid_key(key: &str) -> Answer<()> {
    check_key(key).map_err(|message| SessionProblem::new(Code::InvalidKey, message))
}

fn valid_names(session: &str, key: &str) -> Answer<()> {
    valid_session(session)?;
    valid_key(key)
}

/// An integer that the count of answers may be, spelt as a counter is.
fn is_plain_count(value: &str) -> bool {
    let is_canonical = value == "0" || value.starts_with(|digit: char| matches!(digit, '1'..='9'));
    is_canonical && value.parse::<i64>().is_ok_and(|count| count <= MAX_COUNT)
}
