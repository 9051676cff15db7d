//! Reads messages of a transcript: by id, thread, role or text, and whole texts in parts.
//!
//! A page costs the same however long the transcript is; where little matches, it returns early with the position to continue
//! from.

use std::ops::Range;

use crate::admin::message_form::to_message;
use crate::admin::sessions::read_bucket;
use crate::context::Context;
use crate::contract::transcripts::{MessageContent, MessagePage};
use crate::contract::{Host, LogEnd, LogExtent, LogRun, Operation, Precondition, Problem, Span, codes};
use crate::entry::session_problem::{SessionResult, conflict_problem};
use crate::text::ids::to_map_key;
use crate::text::json_values::parse_count;
use crate::text::quoting::python_repr;
use crate::transcript::address::{TranscriptAddress, TranscriptId};
use crate::transcript::record::{RecordKind, StoredRecord};
use crate::transcript::schema::{BRANCHES, IMPORT, MESSAGES, RESULTS, SESSION, TRANSCRIPT, newest_shown, parse_import};
use crate::transcript::thread::{Branches, ConversationThread, ReadRecords};

/// How often to begin again when others come in between.
const TRIES: u32 = 8;

/// What one call looks at.
const LOOK_RECORDS: u64 = 2048;

const LOOK_BYTES: u64 = 4 << 20;

const LIMIT: u32 = 100;

const LIMIT_MAX: u32 = 1000;

const NO_MESSAGES: MessagePage = MessagePage { messages: Vec::new(), older: None };

/// Longer ones are not searched for.
pub(crate) const CONTAINS_MAX: usize = 256;

/// Characters of a part of a message.
const PART: u32 = 50_000;

const PART_MAX: u32 = 200_000;

/// Of a whole result: as many as a value has at most.
const RESULT_BYTES: u64 = 16 << 20;

/// Which messages are wanted. All that is said must hold.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessageQuery<'a> {
    /// With this id.
    pub id: Option<&'a str>,
    /// On the way to the message with this id.
    pub thread: Option<&'a str>,
    /// `user`, `assistant` or `tool`.
    pub role: Option<&'a str>,
    /// With this text in them.
    pub contains: Option<&'a str>,
    /// Below this position.
    pub before: Option<u64>,
    /// At most so many; 0: 100.
    pub limit: u32,
}

/// Find messages, the newest first to be looked at.
pub fn find_messages(
    context: &Context<impl Host>,
    transcript: &TranscriptId<'_>,
    query: &MessageQuery<'_>,
) -> SessionResult<MessagePage> {
    let at = transcript.resolve_address()?;
    let mut stood = None;
    for _ in 0..TRIES {
        if let Some(page) = message_page(context, &at, query, &mut stood)? {
            return Ok(page);
        }
    }
    Err(conflict_problem(at.session))
}

/// None: what was to be read made room for others meanwhile, since the transcript does not stand where it `stood`.
fn message_page(
    context: &Context<impl Host>,
    at: &TranscriptAddress<'_>,
    query: &MessageQuery<'_>,
    stood: &mut Option<LogExtent>,
) -> SessionResult<Option<MessagePage>> {
    if query.contains.is_some_and(|text| text.len() > CONTAINS_MAX) {
        let message = format!("A text of more than {CONTAINS_MAX} bytes can't be searched for");
        return Err(Problem::invalid("contains", message));
    }
    if let Some(role) = query.role.filter(|role| !matches!(*role, "user" | "assistant" | "tool")) {
        let message = ["The role of messages must be user, assistant or tool, not ", &python_repr(role)].concat();
        return Err(Problem::invalid("role", message));
    }
    let names: Vec<_> = [query.id, query.thread].into_iter().flatten().collect();
    let tokens: Vec<_> = names.iter().map(|name| to_map_key(name)).collect();
    let mut keys: Vec<&str> = tokens.iter().map(|key| &**key).collect();
    keys.dedup();
    let operations = [
        match query.takes_newest() {
            true => Operation::read(TRANSCRIPT, LogEnd::Newest, query.most().into(), LOOK_BYTES),
            false => crate::transcript::address::TRANSCRIPT_EXTENT,
        },
        Operation::get_some(MESSAGES, &keys, 1024),
        match query.thread {
            Some(_) => Operation::get_all(BRANCHES, 10_000, 1 << 20),
            None => Operation::get_some(BRANCHES, &[], 0),
        },
        Operation::get(SESSION, &IMPORT, 64),
    ];
    let mut outcomes = read_bucket(context, at.session, at.bucket(), Precondition::LOOK, &operations)?;
    let newest_run = outcomes.take_records()?;
    let extent = newest_run.extent;
    let known = outcomes.take_readable_entries()?;
    let branches = outcomes.take_readable_entries()?;
    // What is being set in pieces is not there yet.
    let hidden = outcomes.take_text()?.as_deref().map(parse_import).unwrap_or_default();
    if query.takes_newest() {
        let looked_at = newest_run.records.len();
        let found = query.page_of(all(&[newest_run], extent), &hidden);
        if query.is_answered_by(&found, looked_at) {
            return Ok(Some(found));
        }
    }
    let branches = if query.thread.is_some() { Branches::of(&branches) } else { Branches::skipping(&hidden) };
    let position = |name: &str| {
        let key = to_map_key(name);
        let found = known.iter().find(|entry| *entry.key == *key).and_then(|entry| parse_count(&entry.text));
        found.filter(|at| (extent.first..extent.next()).contains(at)).ok_or_else(|| {
            let message = format!("Session {} has no message {}", python_repr(at.session), python_repr(name));
            Problem::new(codes::NOT_FOUND, "message", message)
        })
    };

    // Also where there are no messages at all.
    let named = query.id.map(position).transpose()?;
    let newest = match query.thread {
        Some(name) => Some(position(name)?),
        None => extent.next().checked_sub(1),
    };
    let end = match query.before {
        Some(before) => before
            .checked_sub(1)
            .filter(|end| newest.is_some_and(|newest| *end <= newest))
            .or(newest.filter(|newest| before > *newest)),
        None => newest,
    };
    let Some(end) = newest_shown(&hidden, end).filter(|end| *end >= extent.first && extent.length > 0) else {
        return Ok(Some(NO_MESSAGES));
    };
    if let Some(at) = named
        && !(at <= end && (query.thread.is_none() || branches.is_on_thread(end, at)))
    {
        return Ok(Some(NO_MESSAGES));
    }
    let mut look = query.first_look();
    loop {
        let spans = match named {
            Some(at) => vec![Span { position: at, count: 1 }],
            None => branches.newest_spans(end, extent.first, look),
        };
        let runs = read_runs(context, at, &outcomes.generation, &spans)?;
        if runs.is_empty() && stood.replace(extent) != Some(extent) {
            return Ok(None);
        }
        let candidates = match (query.id, query.thread) {
            (None, Some(_)) => on_thread(&runs, &branches, end),
            (None, None) => all(&runs, extent),
            (Some(_), _) => (all(&runs, extent).0, None),
        };
        let looked_at = candidates.0.len();
        let found = query.page_of(candidates, &hidden);
        if look == LOOK_RECORDS || query.is_answered_by(&found, looked_at) {
            return Ok(Some(found));
        }
        // There are removed ones among them.
        look = LOOK_RECORDS;
    }
}

/// A message's text, or a part of it by characters.
pub fn read_message_content(
    context: &Context<impl Host>,
    transcript: &TranscriptId<'_>,
    position: u64,
    offset: u64,
    limit: u32,
) -> SessionResult<MessageContent> {
    let at = transcript.resolve_address()?;
    let text = read_whole_text(context, &at, position)?;
    let limit = if limit == 0 { PART } else { limit.min(PART_MAX) };
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let part = text.chars().skip(offset).take(usize::try_from(limit).unwrap_or(usize::MAX)).collect();
    let length = text.chars().count() as u64;
    Ok(MessageContent { text: part, length })
}

/// All that a message says: of a tool's result that was cut, the whole.
pub(crate) fn read_whole_text(
    context: &Context<impl Host>,
    at: &TranscriptAddress<'_>,
    position: u64,
) -> SessionResult<String> {
    let span = [Span { position, count: 1 }];
    let read = Operation::read_at(TRANSCRIPT, &span, LOOK_BYTES);
    let mut outcomes = read_bucket(context, at.session, at.bucket(), Precondition::LOOK, &[read])?;
    let run = outcomes.take_records()?;
    let record = run.records.first().and_then(|text| StoredRecord::parse(text));
    let Some(record) = record.filter(|record| !record.is_removed()) else {
        return Err(at.missing_message_problem(position));
    };
    if let Some(key) = record.tool.as_ref().and_then(|tool| tool.whole.as_deref()) {
        let get = [Operation::get(RESULTS, &key, RESULT_BYTES)];
        let precondition = Precondition::life(&outcomes.generation);
        if let Some(whole) = read_bucket(context, at.session, at.bucket(), precondition, &get)?.take_text()? {
            return Ok(whole);
        }
    }
    Ok(said(&record).to_owned())
}

/// Read spans, the newest first, as far as they come whole.
fn read_runs(
    context: &Context<impl Host>,
    at: &TranscriptAddress<'_>,
    life: &str,
    spans: &[Span],
) -> SessionResult<Vec<LogRun>> {
    let read = |spans: &[Span]| {
        let read = [Operation::read_at(TRANSCRIPT, spans, LOOK_BYTES)];
        let mut runs = read_bucket(context, at.session, at.bucket(), Precondition::life(life), &read)?.take_spans()?;
        LogRun::keep_whole(&mut runs, spans);
        Ok(runs)
    };
    let runs = read(spans)?;
    if !runs.is_empty() {
        return Ok(runs);
    }
    // Their records are long: one by one, the newest first.
    let Some(first) = spans.first() else { return Ok(runs) };
    let single = (first.position..first.position + u64::from(first.count)).rev();
    let single: Vec<Span> = single.map(|position| Span { position, count: 1 }).collect();
    read(&single)
}

impl MessageQuery<'_> {
    /// At most so many messages.
    fn most(&self) -> u32 {
        if self.limit == 0 { LIMIT } else { self.limit.min(LIMIT_MAX) }
    }

    /// Whether any message will do that is on the way: most records are one.
    fn takes_any(&self) -> bool {
        self.id.is_none() && self.role.is_none() && self.contains.is_none()
    }

    /// Whether it is the newest messages, which the first look brings along.
    fn takes_newest(&self) -> bool {
        self.takes_any() && self.thread.is_none() && self.before.is_none()
    }

    /// How many records are looked at first.
    fn first_look(&self) -> u64 {
        if self.takes_any() { self.most().into() } else { LOOK_RECORDS }
    }

    /// Whether no more has to be looked at: the page is full, or holds all that was looked at, of which a look reads so many
    /// bytes at most.
    fn is_answered_by(&self, page: &MessagePage, looked_at: usize) -> bool {
        let most = usize::try_from(self.most()).unwrap_or(usize::MAX);
        page.older.is_none() || page.messages.len() >= most.min(looked_at.max(1))
    }

    /// The newest messages that fit, of those that are not `hidden`.
    fn page_of(&self, (candidates, mut rest): MessageCandidates<'_>, hidden: &[Range<u64>]) -> MessagePage {
        let most = usize::try_from(self.most()).unwrap_or(usize::MAX);
        let (mut messages, mut members) = (Vec::with_capacity(most.min(candidates.len())), Vec::new());
        for (position, text) in candidates.into_iter().rev() {
            if messages.len() >= most {
                rest = Some(position);
                break;
            }
            let is_hidden = hidden.iter().any(|hidden| hidden.contains(&position));
            members.clear();
            let record = StoredRecord::parse_with_members(text, Some(&mut members));
            let record = record.filter(|record| !is_hidden && self.fits(record));
            messages.extend(record.map(|record| to_message(position, &record, &members)));
        }
        messages.reverse();
        MessagePage { messages, older: rest.map(|position| position + 1) }
    }

    fn fits(&self, record: &StoredRecord<'_>) -> bool {
        let has = |text: &str| self.contains.is_none_or(|wanted| find_text(text, wanted, true).is_some());
        !record.is_removed()
            && self.role.is_none_or(|role| role == record.role.name())
            && (has(said(record)) || record.tool.as_ref().is_some_and(|tool| has(&tool.name)))
    }
}

/// The text of a message, the arguments of a call, or content that is no text.
fn said<'r>(record: &'r StoredRecord<'_>) -> &'r str {
    let arguments = record.tool.as_ref().and_then(|tool| tool.arguments.as_deref());
    match arguments.filter(|_| record.kind == RecordKind::ToolCall) {
        Some(arguments) => arguments,
        None => record.body(),
    }
}

/// Where a text holds another one. ASCII letters may match in either case.
pub(crate) fn find_text(text: &str, wanted: &str, ignore_case: bool) -> Option<usize> {
    let (text, wanted) = (text.as_bytes(), wanted.as_bytes());
    let is_same = |part: &[u8]| if ignore_case { part.eq_ignore_ascii_case(wanted) } else { part == wanted };
    if wanted.is_empty() { Some(0) } else { text.windows(wanted.len()).position(is_same) }
}

type MessageCandidates<'r> = (Vec<(u64, &'r str)>, Option<u64>);

/// All that was read, and where it goes on.
fn all(runs: &[LogRun], extent: LogExtent) -> MessageCandidates<'_> {
    let lowest = runs.last().map(|run| run.first);
    let runs = runs.iter().rev();
    let found = runs.flat_map(|run| (run.first..).zip(run.records.iter().map(String::as_str)));
    (found.collect(), lowest.filter(|lowest| *lowest > extent.first).map(|lowest| lowest - 1))
}

/// What of it is on the thread that ends there, and where it goes on.
fn on_thread<'r>(runs: &'r [LogRun], branches: &Branches, end: u64) -> MessageCandidates<'r> {
    let mut read = ReadRecords::default();
    for run in runs {
        read.add(run);
    }
    let thread = ConversationThread::from_records(&read, branches, Some(end));
    let found = thread.records().into_iter().filter_map(|(position, _)| Some((position, read.text(position)?)));
    (found.collect(), thread.missing)
}
