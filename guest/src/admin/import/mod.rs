//! Replaces a transcript's messages, or appends to them: imports from files and other systems.
//!
//! Promises that readers see the old transcript or the new one. A large import comes in pieces, each of which expects the
//! position where the previous one ended.

pub(crate) mod chat_form;
pub(crate) mod layout;
pub(crate) mod sanitize;

use std::borrow::Cow;

use crate::admin::import::chat_form::ChatConverter;
use crate::admin::import::layout::{
    GivenRecord, ImportBase, ImportLayout, ImportedCall, PrecedingMessage, invalid_message,
};
use crate::admin::message_form;
use crate::admin::sessions::limit_problem;
use crate::answer::insertion_point::LocatedMessage;
use crate::context::Context;
use crate::contract::transcripts::{NewMessage, TranscriptChanged};
use crate::contract::{
    Expectation, Host, LogEnd, Operation, Precondition, Problem, PutEntry, Status, Transaction, codes, kind,
};
use crate::entry::directives;
use crate::entry::session_problem::{SessionResult, check_status, conflict_problem, write_problem};
use crate::options::conversation::Options;
use crate::recall::invalidate::{MessageFate, remove_copies};
use crate::recall::schema::PASSAGES;
use crate::recall::{invalidate, remove};
use crate::store::Outcomes;
use crate::tasks::checkpoint::expect_session_entry;
use crate::text::json_values::parse_count;
use crate::text::quoting::python_repr;
use crate::transcript::address::{TRANSCRIPT_EXTENT, TranscriptAddress, TranscriptId};
use crate::transcript::record::{RecordKind, Role, StoredRecord, is_user_message};
use crate::transcript::schema::{
    BRANCHES, BYTES, HEAD, MESSAGES, OWNER, RESULTS, REVISION, SESSION, SUMMARY, TITLE, TITLE_OF, TOTAL, TRANSCRIPT,
    UNTITLED, revision_number,
};
use crate::transcript::skip_counters::COUNTERS;
use crate::transcript::title;
use crate::{log, store};

/// How often to begin again when others come in between.
const TRIES: u32 = 8;

/// Messages of a call; with ids, branches and whole results, pieces of its transaction, and bytes of it.
const MESSAGES_MAX: usize = 10_000;

const PIECES_MAX: usize = 19_900;

const BYTES_MAX: usize = 16 << 20;

/// What each piece counts beside its bytes.
const PIECE_BYTES: usize = 96;

/// What is read of an old transcript to find the message that its title was made of.
const FIRST_BYTES: u64 = 2 << 20;

const SESSION_BYTES: u64 = 1 << 20;

/// Put messages in the place of all that there are, or after them, where the transcript has to stand at `next`. How
/// many.
pub fn set_messages(
    context: &Context<impl Host>,
    transcript: &TranscriptId<'_>,
    messages: &[NewMessage],
    next: Option<u64>,
) -> SessionResult<TranscriptChanged> {
    let at = transcript.resolve_address()?;
    if messages.len() > MESSAGES_MAX {
        return Err(too_many(context, "messages", MESSAGES_MAX, &format!("{} messages", messages.len())));
    }
    let options = &context.config.conversation.clone().unwrap_or_default();
    let (mut given, mut ids) = (Vec::with_capacity(messages.len()), Vec::new());
    let mut converter = ChatConverter::default();
    for (number, message) in (1..).zip(messages) {
        let text = match message {
            NewMessage::Chat(chat) => Cow::Borrowed(&*chat.text),
            NewMessage::Message(message) => {
                message_form::to_json(message).map_err(|what| invalid_message(number, &what))?.into()
            }
        };
        GivenRecord::convert_and_add(&mut given, &mut converter, number, &text, &mut ids)?;
    }
    let ids = store::heap_sorted(ids);
    for pair in ids.windows(2) {
        if let [(first, _), (second, index)] = pair
            && first == second
            && let Some(given) = given.get(*index)
        {
            return Err(given.invalid(&["an earlier message has its id ", &python_repr(first), ", too"].concat()));
        }
    }
    for _ in 0..TRIES {
        let basis = import_basis(context, &at, next)?;
        let base = ImportBase { next: basis.next, micros: context.host.now_micros() };
        let mut placed = ImportLayout { ids: &ids, is_added_to: basis.is_added_to, ..ImportLayout::default() };
        placed.calls.extend(basis.calls.iter().map(|(turn, id)| ImportedCall::of(turn, id)));
        placed.turns.extend(basis.turns.iter().cloned());
        placed.is_answered = basis.is_answered;
        for given in &given {
            let follows = follow(context, &at, &placed, &basis, given)?;
            placed.place_message(options, base, given, follows)?;
        }
        let (status, passages) = write_messages(context, &at, options, &placed, &basis, next.is_some())?;
        match status {
            Status::Unmet if next.is_some() => break,
            Status::Unmet => {}
            status => {
                check_status(at.session, at.bucket(), status)?;
                if next.is_none() {
                    remove::drop_orphans(&context.host, at.bucket(), passages)?;
                }
                for number in &placed.unpaired {
                    converter.notes.add("results that no call waits for are stored, but not shown to models", *number);
                }
                if let Some(told) = converter.notes.format_report() {
                    log::warn(&context.host, log::MESSAGES, &["Session ", &python_repr(at.session), ": ", &told]);
                }
                let next = basis.next + placed.records.len() as u64;
                return Ok(TranscriptChanged { count: given.len() as u64, next });
            }
        }
    }
    Err(conflict_problem(at.session))
}

fn too_many(context: &Context<impl Host>, name: &str, limit: usize, what: &str) -> Problem {
    let message =
        format!("{what} are too many for one call: it takes {limit}. Set the first, and add the others with `next`");
    limit_problem(context, name, limit as u64, message)
}

/// The transcript does not stand where the messages are to be added.
fn wrong_next(session: &str, next: u64, stands: u64) -> Problem {
    let message = format!("The transcript of session {} stands at {stands}, not at {next}", python_repr(session));
    Problem::new(codes::CONFLICT, "next", message)
}

fn import_basis(
    context: &Context<impl Host>,
    at: &TranscriptAddress<'_>,
    next: Option<u64>,
) -> SessionResult<ImportBasis> {
    let operations = [
        TRANSCRIPT_EXTENT,
        Operation::get_some(SESSION, &[HEAD, TITLE, TITLE_OF, UNTITLED, TOTAL, REVISION, OWNER], SESSION_BYTES),
        // What a title was made of; where messages are added, the calls that may still have no result.
        match next {
            None => Operation::read(TRANSCRIPT, LogEnd::Oldest, 8, FIRST_BYTES),
            Some(_) => Operation::read(TRANSCRIPT, LogEnd::Newest, 2048, FIRST_BYTES),
        },
    ];
    let (bucket, precondition) = (at.bucket(), Precondition::LOOK);
    let look = Transaction { bucket, precondition, expectations: &[], operations: &operations };
    let receipt = store::transact(&context.host, &look)?;
    let mut basis = ImportBasis::default();
    if receipt.is_applied() {
        let mut outcomes = Outcomes::of(receipt);
        basis.life.clone_from(&outcomes.generation);
        basis.next = outcomes.take_records()?.extent.next();
        let mut once = outcomes.take_entries_by_key()?;
        (basis.head, basis.title, basis.revision) = (once.take(HEAD), once.take(TITLE), once.take(REVISION));
        let (of, is_settled) = (once.take(TITLE_OF), once.take(UNTITLED).as_deref() == Some(title::SETTLED));
        basis.owner = once.take(OWNER).filter(|_| at.node.is_none());
        basis.total = once.take(TOTAL).as_deref().and_then(parse_count).unwrap_or(0);
        let read = outcomes.take_records()?.records;
        if next.is_some() {
            basis.read_open(&read);
        }
        let mut said = read.iter().filter_map(|text| StoredRecord::parse(text)).filter(is_user_message);
        let first = said.next();
        basis.has_title_of_its_own = basis.title.as_deref().is_some_and(|title| {
            let origin = title::TitleOrigin::parse(of.as_deref(), title);
            let is_of = |record: &StoredRecord<'_>| origin.is_of(title, record, is_settled);
            !matches!(origin, title::TitleOrigin::Message(_)) && !first.as_ref().is_some_and(is_of)
        });
    } else if bucket.kind == kind::SESSION || next.is_some() {
        // A node's transcript is made by what is written to it.
        check_status(at.session, bucket, receipt.status)?;
    }
    basis.is_added_to = next.is_some();
    match next {
        Some(next) if next != basis.next => Err(wrong_next(at.session, next, basis.next)),
        _ => Ok(basis),
    }
}

/// What another message comes after; none: it is the first.
fn follow(
    context: &Context<impl Host>,
    at: &TranscriptAddress<'_>,
    placed: &ImportLayout<'_>,
    basis: &ImportBasis,
    given: &GivenRecord,
) -> SessionResult<Option<PrecedingMessage>> {
    let here = placed.spots.len();
    let newest = match placed.spots.last() {
        Some(spot) => Some(spot.as_preceding(basis.next + here as u64 - 1)),
        None if basis.is_added_to && basis.next > 0 => {
            let turn = basis.turns.last().cloned().unwrap_or_default();
            Some(PrecedingMessage { after: basis.next - 1, total: basis.total, turn })
        }
        None => None,
    };
    let Some(parent) = given.parent.as_deref() else { return Ok(newest) };
    if let Ok(found) = placed.ids.binary_search_by(|(id, _)| (**id).cmp(parent)) {
        let index = placed.ids.get(found).map_or(here, |(_, index)| *index);
        // Who asks next follows the whole turn.
        let end = placed.spots.get(index).map(|spot| if given.role == Role::User { spot.end } else { index });
        if let Some((end, spot)) = end.and_then(|end| Some((end, placed.spots.get(end)?))) {
            return Ok(Some(spot.as_preceding(basis.next + end as u64)));
        }
    } else if basis.is_added_to {
        if here == 0 && basis.head.as_deref() == Some(parent) {
            return Ok(newest);
        }
        let (bucket, precondition) = (at.bucket(), Precondition::LOOK);
        let look = Transaction { bucket, precondition, expectations: &[], operations: &[] };
        if let Some(found) = LocatedMessage::find_by_key(&context.host, &look, parent)? {
            let turn = found.question_turn(None).map(|asked| asked.turn).unwrap_or_default();
            return Ok(Some(PrecedingMessage { after: found.position, total: found.thread_weight(), turn }));
        }
    }
    Err(given.invalid(&["its parent ", &python_repr(parent), " is not the id of an earlier message"].concat()))
}

/// What became of it, and where the passages begin then if there may be more of them in the index.
fn write_messages(
    context: &Context<impl Host>,
    at: &TranscriptAddress<'_>,
    options: &Options,
    placed: &ImportLayout<'_>,
    basis: &ImportBasis,
    is_added: bool,
) -> SessionResult<(Status, u64)> {
    let records: Vec<&str> = placed.records.iter().map(String::as_str).collect();
    let mut keys = Vec::with_capacity(placed.keys.len());
    for (key, index) in &placed.keys {
        let end = placed.spots.get(*index).map_or(*index, |spot| spot.end);
        keys.push((key.clone(), (basis.next + end as u64).to_string()));
    }
    let entries = [(MESSAGES, pairs(&keys)), (BRANCHES, pairs(&placed.branches)), (RESULTS, pairs(&placed.results))];
    let count: usize = entries.iter().map(|(_, entries)| entries.len()).sum();
    let expected = if is_added { keys.len() } else { 0 };
    let bytes: usize = records.iter().map(|text| text.len()).sum();
    let texts = entries.iter().flat_map(|(_, entries)| entries);
    let all = bytes + texts.map(|entry| entry.key.len() + entry.text.len()).sum::<usize>();
    let pieces = records.len() + count + expected;
    if pieces > PIECES_MAX || all + (pieces + 64) * PIECE_BYTES > BYTES_MAX {
        return Err(too_many(context, "call-pieces", PIECES_MAX, &format!("{pieces} records, ids and branches")));
    }

    let fate = if is_added { MessageFate::Changed(&[]) } else { MessageFate::Replaced };
    let owner = basis.owner.as_deref();
    remove_copies(context, at.session, &basis.life, owner, revision_number(basis.revision.as_deref()), fate)?;
    let before = if is_added { basis.total } else { 0 };
    let total = placed.spots.last().map_or(before, |spot| spot.total).to_string();
    let stored = bytes.to_string();
    let first = placed
        .first
        .as_ref()
        .map(|(_, text)| &**text)
        .filter(|_| options.auto_generate_titles && options.title_from_first_message);
    let named = first.map(|text| title::title_from_message(text, options.title_max_length));
    let key = placed.first.as_ref().and_then(|(first, _)| placed.keys.iter().find(|(_, index)| index == first));
    let of = named.as_deref().zip(key).map(|(title, (key, _))| title::format_origin(key, title));
    let mut once = vec![PutEntry { key: TOTAL, text: &total }];
    let mut gone = vec![SUMMARY];
    match placed.head.as_deref() {
        Some(head) => once.push(PutEntry { key: HEAD, text: head }),
        None if !is_added => gone.push(HEAD),
        None => {}
    }
    if !is_added {
        gone.push(invalidate::INDEX_CURSOR_KEY);
        gone.extend(COUNTERS);
        once.push(PutEntry { key: BYTES, text: &stored });
        match named.as_deref() {
            Some(title) if !basis.has_title_of_its_own => once.push(PutEntry { key: TITLE, text: title }),
            None if !basis.has_title_of_its_own => gone.extend([TITLE, UNTITLED]),
            _ => {}
        }
        match of.as_deref() {
            _ if basis.has_title_of_its_own => {}
            Some(of) => once.push(PutEntry { key: TITLE_OF, text: of }),
            None => gone.push(TITLE_OF),
        }
    }
    let mut operations = vec![
        if is_added {
            Operation::append(TRANSCRIPT, &records, &[])
        } else {
            Operation::reset_log(TRANSCRIPT, &records)
        },
        Operation::put(SESSION, &once),
        Operation::remove(SESSION, &gone),
        Operation::add(SESSION, REVISION, 1),
    ];
    operations.extend(entries.iter().map(|(map, entries)| match is_added {
        true => Operation::put(map, entries),
        false => Operation::replace_map(map, entries),
    }));
    if !is_added {
        operations.extend(remove::RESET_PASSAGES);
    }
    if is_added {
        let amount = i64::try_from(bytes).unwrap_or(0);
        operations.push(Operation::add(SESSION, BYTES, amount));
    }
    let mut expectations = vec![
        Expectation::log(TRANSCRIPT, None, Some(basis.next)),
        expect_session_entry(REVISION, basis.revision.as_deref()),
        expect_session_entry(TITLE, basis.title.as_deref()),
    ];
    let new = keys.iter().filter(|_| is_added);
    expectations.extend(new.map(|(key, _)| Expectation::absent(MESSAGES, key)));
    let bucket = at.bucket();
    let precondition =
        if bucket.kind == kind::NODE { directives::node_precondition(options) } else { Precondition::ANY };
    let transaction = Transaction { bucket, precondition, expectations: &expectations, operations: &operations };
    let receipt = store::transact(&context.host, &transaction);
    let receipt = receipt.map_err(|failure| write_problem(at.session, failure))?;
    let passages = store::appended_extent(&transaction, &receipt, PASSAGES).map_or(0, |extent| extent.first);
    Ok((receipt.status, passages))
}

fn pairs<T: AsRef<str>>(entries: &[(String, T)]) -> Vec<PutEntry<'_>> {
    entries.iter().map(|(key, text)| PutEntry { key, text: text.as_ref() }).collect()
}

/// The transcript as it is.
#[derive(Default)]
struct ImportBasis {
    next: u64,
    total: u64,
    head: Option<String>,
    title: Option<String>,
    /// It was not made of the first message.
    has_title_of_its_own: bool,
    revision: Option<String>,
    owner: Option<String>,
    life: String,
    /// The messages come after those that there are.
    is_added_to: bool,
    /// Of the newest records: turns, and the calls without a result, with their turns.
    turns: Vec<String>,
    calls: Vec<(String, String)>,
    /// The newest is an answer.
    is_answered: bool,
}

impl ImportBasis {
    fn read_open(&mut self, records: &[String]) {
        for record in records.iter().filter_map(|text| StoredRecord::parse(text)) {
            if self.turns.last().is_none_or(|turn| *turn != record.turn) {
                self.turns.push(record.turn.to_string());
            }
            self.is_answered = record.kind == RecordKind::Message && record.role == Role::Assistant;
            let Some(tool) = &record.tool else { continue };
            let found = self.calls.iter().position(|(turn, id)| *turn == record.turn && *id == tool.call_id);
            match (record.kind, found) {
                (RecordKind::ToolCall, _) => self.calls.push((record.turn.to_string(), tool.call_id.to_string())),
                (RecordKind::ToolResult, Some(index)) => drop(self.calls.remove(index)),
                _ => {}
            }
        }
    }
}
