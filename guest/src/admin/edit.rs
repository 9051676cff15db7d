//! Rewrites or removes messages of a transcript, and clears whole branches.
//!
//! Promises that threads stay connected and that recall, the summary and a title made from the old words go with them. A rewritten
//! message keeps its position.

use crate::admin::sessions::read_bucket;
use crate::admin::version::{SeenTranscript, TranscriptVersion};
use crate::answer::turn_records;
use crate::context::Context;
use crate::contract::transcripts::TranscriptChanged;
use crate::contract::{
    Expectation, Host, Operation, PositionedRecord, Precondition, Problem, Span, Status, Transaction,
};
use crate::entry::session_problem::{SessionResult, check_status, conflict_problem, write_problem};
use crate::options::conversation::Options;
use crate::recall::invalidate::{MessageFate, remove_copies, remove_passages};
use crate::recall::schema::PASSAGES;
use crate::recall::{invalidate, remove};
use crate::store;
use crate::store::{EntriesOutcome, Outcomes};
use crate::tasks::checkpoint::expect_session_entry;
use crate::text::quoting::python_repr;
use crate::transcript::address::{TRANSCRIPT_EXTENT, TranscriptAddress, TranscriptId};
use crate::transcript::record::{RecordKind, StoredRecord};
use crate::transcript::schema::{
    BRANCHES, BYTES, HEAD, IMPORT, MESSAGES, OWNER, RESULTS, REVISION, SESSION, SETTINGS, SUMMARY, TITLE, TITLE_OF,
    TOTAL, TRANSCRIPT, UNTITLED, revision_number,
};
use crate::transcript::skip_counters::COUNTERS;
use crate::transcript::summary::ThreadSummary;
use crate::transcript::thread::Branches;
use crate::transcript::{sanitize, title};

/// How often to begin again when others come in between.
const TRIES: u32 = 8;

/// Records of a branch that are looked for, and changed, at a time.
const READ_RECORDS: u32 = 1000;

const CHANGED_RECORDS: usize = 100;

const READ_BYTES: u64 = 8 << 20;

/// What there is once, the summary among it.
const SESSION_BYTES: u64 = 1 << 20;

/// Put other words in a message's place; none: remove it. What was removed already is not changed.
pub fn rewrite_message(
    context: &Context<impl Host>,
    transcript: &TranscriptId<'_>,
    position: u64,
    content: Option<&str>,
) -> SessionResult<TranscriptChanged> {
    let at = transcript.resolve_address()?;
    match edit_messages(context, &at, &[position], content)? {
        EditOutcome { looked: 0, .. } => Err(at.missing_message_problem(position)),
        EditOutcome { changed: 0, .. } if content.is_some() => Err(at.missing_message_problem(position)),
        EditOutcome { changed, next, .. } => Ok(TranscriptChanged { count: changed, next }),
    }
}

/// Remove all messages, or a branch: those from a position on that go on from there.
pub fn clear_messages(
    context: &Context<impl Host>,
    transcript: &TranscriptId<'_>,
    branch: Option<u64>,
) -> SessionResult<TranscriptChanged> {
    let at = transcript.resolve_address()?;
    let Some(from) = branch else { return clear_transcript(context, &at) };
    let mut members = find_branch_members(context, &at, from)?;
    if members.is_empty() {
        return Err(at.missing_message_problem(from));
    }
    let (mut count, mut next) = (0, 0);
    while !members.is_empty() {
        let newest = members.split_off(members.len().saturating_sub(CHANGED_RECORDS));
        let mut rest = &*newest;
        while !rest.is_empty() {
            let done = edit_messages(context, &at, rest, None)?;
            (count, next) = (count + done.changed, done.next);
            // Retention may have taken the rest.
            let looked = if done.looked == 0 { rest.len() } else { done.looked };
            rest = rest.get(..rest.len().saturating_sub(looked)).unwrap_or_default();
        }
    }
    Ok(TranscriptChanged { count, next })
}

fn clear_transcript(context: &Context<impl Host>, at: &TranscriptAddress<'_>) -> SessionResult<TranscriptChanged> {
    for _ in 0..TRIES {
        let seen = SeenTranscript::read(context, at, Precondition::ANY)?;
        let mut expectations = seen.version().expectations(context)?;
        let life = &seen.life;
        let (owner, revision) = (seen.text(OWNER).filter(|_| at.node.is_none()), seen.text(REVISION));
        expectations.push(expect_session_entry(REVISION, revision));
        remove_copies(context, at.session, life, owner, revision_number(revision), MessageFate::Replaced)?;
        let gone = [HEAD, TOTAL, BYTES, SUMMARY, TITLE, TITLE_OF, UNTITLED, IMPORT, invalidate::INDEX_CURSOR_KEY];
        let gone = [gone.as_slice(), COUNTERS.as_slice()].concat();
        let mut operations = vec![
            TRANSCRIPT_EXTENT,
            Operation::reset_log(TRANSCRIPT, &[]),
            Operation::reset_map(MESSAGES),
            Operation::reset_map(BRANCHES),
            Operation::reset_map(RESULTS),
            Operation::remove(SESSION, &gone),
            Operation::add(SESSION, REVISION, 1),
        ];
        operations.extend(remove::RESET_PASSAGES);
        let (bucket, precondition) = (at.bucket(), Precondition::life(life));
        let cleared = Transaction { bucket, precondition, expectations: &expectations, operations: &operations };
        let receipt = store::transact(&context.host, &cleared).map_err(|failure| write_problem(at.session, failure))?;
        if receipt.status == Status::Unmet {
            continue;
        }
        check_status(at.session, bucket, receipt.status)?;
        let passages = store::appended_extent(&cleared, &receipt, PASSAGES).map_or(0, |extent| extent.first);
        let extent = Outcomes::of(receipt).take_records()?.extent;
        remove::drop_orphans(&context.host, bucket, passages)?;
        return Ok(TranscriptChanged { count: extent.length, next: extent.next() });
    }
    Err(conflict_problem(at.session))
}

/// The positions of a message and of all that goes on from it, ascending. None: there is no such message.
fn find_branch_members(context: &Context<impl Host>, at: &TranscriptAddress<'_>, from: u64) -> SessionResult<Vec<u64>> {
    let mut members: Vec<u64> = Vec::new();
    let (mut position, mut life) = (from, String::new());
    loop {
        let span = [Span { position, count: READ_RECORDS }];
        let operations =
            [Operation::get_all(BRANCHES, 10_000, 1 << 20), Operation::read_at(TRANSCRIPT, &span, READ_BYTES)];
        let precondition = if life.is_empty() { Precondition::ANY } else { Precondition::life(&life) };
        let mut outcomes = read_bucket(context, at.session, at.bucket(), precondition, &operations)?;
        if life.is_empty() {
            life.clone_from(&outcomes.generation);
        }
        let branches = Branches::of(&outcomes.take_readable_entries()?);
        let run = outcomes.take_records()?;
        if run.records.is_empty() || (position == from && run.first != from) {
            return Ok(members);
        }
        for (here, text) in (run.first..).zip(&run.records) {
            let after =
                StoredRecord::parse(text).and_then(|record| record.after).or_else(|| branches.fork_position(here));
            let before = after.or(here.checked_sub(1));
            let is_one = here == from || before.is_some_and(|before| members.binary_search(&before).is_ok());
            if is_one {
                members.push(here);
            }
        }
        position = run.end();
        if position >= run.extent.next() {
            return Ok(members);
        }
    }
}

/// Change some messages, as many of the newest of them as can be read at once.
fn edit_messages(
    context: &Context<impl Host>,
    at: &TranscriptAddress<'_>,
    positions: &[u64],
    content: Option<&str>,
) -> SessionResult<EditOutcome> {
    let spans: Vec<Span> = positions.iter().rev().map(|&position| Span { position, count: 1 }).collect();
    for _ in 0..TRIES {
        let operations = [
            TRANSCRIPT_EXTENT,
            Operation::get_some(
                SESSION,
                &[SUMMARY, TITLE, TITLE_OF, UNTITLED, REVISION, OWNER, SETTINGS, invalidate::INDEX_CURSOR_KEY],
                SESSION_BYTES,
            ),
            Operation::read_at(TRANSCRIPT, &spans, READ_BYTES),
        ];
        let mut outcomes = read_bucket(context, at.session, at.bucket(), Precondition::ANY, &operations)?;
        let extent = outcomes.take_records()?.extent;
        let once = match outcomes.take_entries()? {
            EntriesOutcome::Entries(found) => found.entries,
            EntriesOutcome::Oversize { .. } => return Err(conflict_problem(at.session)),
        };
        let runs = outcomes.take_spans()?;
        let life = &outcomes.generation;
        let of = |key: &str| once.iter().find(|entry| entry.key == key).map(|entry| &*entry.text);
        let (summary, title, revision) = (of(SUMMARY), of(TITLE), of(REVISION));
        let mut expectations = TranscriptVersion::of(life, extent.next(), &once).expectations(context)?;
        let origin = title::TitleOrigin::parse(of(TITLE_OF), title.unwrap_or_default());
        let is_settled = of(UNTITLED) == Some(title::SETTLED);

        let options = &context.config.conversation.clone().unwrap_or_default();
        let (mut texts, mut results, mut is_title) = (Vec::new(), Vec::new(), false);
        let (mut before, mut after, mut lowest) = (0, 0, u64::MAX);
        for (position, text) in runs.iter().filter_map(|run| Some((run.first, run.records.first()?))) {
            let Some(mut record) = StoredRecord::parse(text) else {
                let message =
                    format!("Message at position {position} of session {} can't be read", python_repr(at.session));
                return Err(Problem::invalid("message", message));
            };
            if record.is_removed() {
                continue;
            }
            results.extend(record.tool.as_ref().and_then(|tool| tool.whole.as_deref()).map(ToOwned::to_owned));
            is_title |= title.is_some_and(|title| origin.is_of(title, &record, is_settled));
            match content {
                Some(content) => edit(options, &mut record, content),
                None => record.clear_content(),
            }
            let new = record.write();
            before += text.len();
            after += new.len();
            lowest = lowest.min(position);
            texts.push((position, new));
        }
        let done = EditOutcome { looked: runs.len(), changed: texts.len() as u64, next: extent.next() };
        if texts.is_empty() {
            return Ok(done);
        }
        let records: Vec<_> =
            texts.iter().map(|(position, text)| PositionedRecord { position: *position, text }).collect();
        let results: Vec<&str> = results.iter().map(String::as_str).collect();
        let amount = i64::try_from(after).unwrap_or(0) - i64::try_from(before).unwrap_or(0);
        let reach = summary.and_then(|entry| ThreadSummary::all(entry).iter().map(|summary| summary.to).max());
        let is_covered = reach.is_some_and(|to| to >= lowest) || (summary.is_some() && reach.is_none());
        let gone = [(is_covered, SUMMARY), (is_title, TITLE), (is_title, TITLE_OF), (is_title, UNTITLED)];
        let gone: Vec<&str> = gone.into_iter().filter(|(is_gone, _)| *is_gone).map(|(_, key)| key).collect();
        let changed: Vec<u64> = texts.iter().map(|(position, _)| *position).collect();
        let owner = of(OWNER).filter(|_| at.node.is_none());
        remove_copies(context, at.session, life, owner, revision_number(revision), MessageFate::Changed(&changed))?;
        let recalled = remove_passages(context, at, life, of(invalidate::INDEX_CURSOR_KEY), &changed)?;
        let operations = [
            Operation::rewrite(TRANSCRIPT, &records),
            Operation::remove(RESULTS, &results),
            Operation::remove(SESSION, &gone),
            Operation::add(SESSION, BYTES, amount),
            Operation::add(SESSION, REVISION, 1),
        ];
        expectations.extend_from_slice(&[
            expect_session_entry(REVISION, revision),
            expect_session_entry(invalidate::INDEX_CURSOR_KEY, recalled.as_deref()),
            expect_session_entry(SUMMARY, summary),
            expect_session_entry(TITLE, title),
            Expectation::log(TRANSCRIPT, Some(extent.first), None),
        ]);
        let (bucket, precondition) = (at.bucket(), Precondition::life(life));
        let transaction = Transaction { bucket, precondition, expectations: &expectations, operations: &operations };
        let receipt = store::transact(&context.host, &transaction);
        match receipt.map_err(|failure| write_problem(at.session, failure))?.status {
            Status::Unmet => {}
            status => return check_status(at.session, bucket, status).map(|()| done),
        }
    }
    Err(conflict_problem(at.session))
}

struct EditOutcome {
    /// How many of the newest positions were read.
    looked: usize,
    changed: u64,
    /// Where the transcript stands.
    next: u64,
}

/// Other words in a record, by the rules of those that are stored. What else tells of the old ones goes.
fn edit(options: &Options, record: &mut StoredRecord<'_>, content: &str) {
    let is_answer = record.role != crate::transcript::record::Role::User;
    let taken = sanitize::sanitize_message(options, content, is_answer);
    let mut new = record.clone();
    (new.raw, new.metadata, new.parts, new.tokens, new.truncated) = (None, None, None, None, taken.is_cut);
    new.vector = None;
    if let Some(tool) = &mut new.tool {
        (tool.whole, tool.error) = (None, None);
    }
    let text = taken.text.into_owned();
    match &mut new.tool {
        Some(tool) if record.kind == RecordKind::ToolCall => tool.arguments = Some(text.into()),
        _ => (new.content, new.parts) = (text.into(), taken.parts.map(Into::into)),
    }
    // The weight is for ever: where the window begins depends on it. What fits is told by the tokens.
    let weight = new.weight;
    let mut weighed = turn_records::weigh_record(new);
    weighed.tokens = Some(weighed.weight).filter(|tokens| *tokens != weight).map(|all| all - weighed.attached_weight());
    weighed.weight = weight;
    *record = weighed;
}
