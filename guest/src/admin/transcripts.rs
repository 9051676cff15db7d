//! Describes a transcript, and sets its title and settings.

use std::borrow::Cow;

use crate::admin::sessions::read_bucket;
use crate::admin::version::{SeenTranscript, TranscriptVersion, unexpected_version};
use crate::context::Context;
use crate::contract::transcripts::{TranscriptSettings, TranscriptState};
use crate::contract::{
    BucketId, Host, LogEnd, LogRun, Member, Operation, Precondition, Problem, PutEntry, Span, Status, Transaction,
    VALUES,
};
use crate::entry::session_problem::{SessionResult, check_status};
use crate::store;
use crate::text::ids::ANSWER_COUNT;
use crate::text::json_values::parse_count;
use crate::text::timestamp::parse_milliseconds;
use crate::transcript::address::{TranscriptAddress, TranscriptId};
use crate::transcript::record::StoredRecord;
use crate::transcript::schema::{
    BYTES, IMPORT, OWNER, REVISION, SESSION, SETTINGS, SUMMARY, TITLE, TITLE_OF, TOTAL, TRANSCRIPT, newest_shown,
    parse_import,
};
use crate::transcript::summary::ThreadSummary;
use crate::transcript::title;

/// What there is once, the summary among it.
const SESSION_BYTES: u64 = 1 << 20;

/// What is read of the newest record.
const RECORD_BYTES: u64 = 64 << 10;

/// Characters of a title.
const TITLE_MAX: usize = 200;

/// What there is to tell of a transcript.
pub fn describe_transcript(
    context: &Context<impl Host>,
    transcript: &TranscriptId<'_>,
) -> SessionResult<TranscriptState> {
    let at = transcript.resolve_address()?;
    let keys = [OWNER, TITLE, SUMMARY, TOTAL, BYTES, SETTINGS, IMPORT, REVISION];
    let operations = [
        Operation::read(TRANSCRIPT, LogEnd::Newest, 1, RECORD_BYTES),
        Operation::get_some(SESSION, &keys, SESSION_BYTES),
        Operation::get(VALUES, &ANSWER_COUNT, 32),
        Operation::describe(false),
    ];
    let mut outcomes = read_bucket(context, at.session, at.bucket(), Precondition::LOOK, &operations)?;
    let newest = outcomes.take_records()?;
    let mut once = outcomes.take_entries_by_key()?;
    let version = TranscriptVersion::of(&outcomes.generation, newest.extent.next(), once.entries()).name();
    let import = once.take(IMPORT);
    let mut number = |key| once.take(key).as_deref().and_then(parse_count).unwrap_or(0);
    let (weight, bytes) = (number(TOTAL), number(BYTES));
    let summary = once.take(SUMMARY);
    let summary = summary.as_deref().and_then(|entry| ThreadSummary::all(entry).into_iter().next());
    let (summary, summary_to) = summary.map_or((None, 0), |found| (Some(found.text.into_owned()), found.to));
    let answers = outcomes.take_text()?.as_deref().and_then(parse_count).unwrap_or(0);
    let bucket = outcomes.take_description()?;
    let text = newest_record(context, at.bucket(), &newest, import.as_deref())?;
    let record = text.as_deref().and_then(StoredRecord::parse);
    Ok(TranscriptState {
        owner: once.take(OWNER),
        title: once.take(TITLE),
        settings: once.take(SETTINGS).map(|text| TranscriptSettings::parse(&text)).unwrap_or_default(),
        summary,
        summary_to,
        oldest: newest.extent.first,
        next: newest.extent.next(),
        weight,
        bytes,
        answers,
        created_at: bucket.created_at,
        last_at: record.and_then(|record| parse_milliseconds(&record.at)).unwrap_or(0),
        expires_in: bucket.expires_in,
        // It needs no escapes.
        extras: Some(vec![Member { name: "version".to_owned(), value: ["\"", &version, "\""].concat() }]),
        generation: outcomes.generation,
    })
}

/// The newest record, of those that were read of the end of a transcript; while an import hides that, the newest one before
/// it: one read more.
pub(super) fn newest_record<'a>(
    context: &Context<impl Host>,
    bucket: BucketId<'_>,
    newest: &'a LogRun,
    import: Option<&str>,
) -> SessionResult<Option<Cow<'a, str>>> {
    let end = newest.extent.next().checked_sub(1);
    let shown = newest_shown(&import.map(parse_import).unwrap_or_default(), end);
    if shown == end {
        return Ok(newest.records.first().map(|text| Cow::Borrowed(&**text)));
    }
    let Some(position) = shown.filter(|position| *position >= newest.extent.first) else { return Ok(None) };
    let span = [Span { position, count: 1 }];
    let read = [Operation::read_at(TRANSCRIPT, &span, RECORD_BYTES)];
    let found = store::read_bucket(&context.host, bucket, Precondition::LOOK, &read)?;
    let run = found.map(|mut outcomes| outcomes.take_records()).transpose()?.unwrap_or_default();
    Ok(run.records.into_iter().next().map(Cow::Owned))
}

/// Give it a title, or none; the title that it has then.
pub fn set_title(
    context: &Context<impl Host>,
    transcript: &TranscriptId<'_>,
    title: Option<&str>,
) -> SessionResult<Option<String>> {
    let at = transcript.resolve_address()?;
    let title = title.map(|text| title::title_from_message(text, u64::MAX)).filter(|title| !title.is_empty());
    if title.as_ref().is_some_and(|title| title.chars().count() > TITLE_MAX) {
        let message = format!("A title has at most {TITLE_MAX} characters");
        return Err(Problem::limit("title", TITLE_MAX as u64, message));
    }
    let given = title.as_deref().map(|title| title::format_origin("", title)).unwrap_or_default();
    let text = title.as_deref().unwrap_or_default();
    let entries = [PutEntry { key: TITLE, text }, PutEntry { key: TITLE_OF, text: &given }];
    let write = match &title {
        Some(_) => Operation::put(SESSION, &entries),
        None => Operation::remove(SESSION, &[TITLE, TITLE_OF]),
    };
    write_once(context, &at, write)?;
    Ok(title)
}

/// Set these for a transcript in place of all that was set; of none, the configuration holds again.
pub fn set_settings(
    context: &Context<impl Host>,
    transcript: &TranscriptId<'_>,
    settings: &TranscriptSettings,
) -> SessionResult<()> {
    let at = transcript.resolve_address()?;
    settings.check().map_err(|message| Problem::invalid("settings", message))?;
    let set = [PutEntry { key: SETTINGS, text: &settings.write() }];
    let write = match settings == &TranscriptSettings::default() {
        false => Operation::put(SESSION, &set),
        true => Operation::remove(SESSION, &[SETTINGS]),
    };
    write_once(context, &at, write)
}

/// Writes what there is once of a transcript, if it is as the call expects.
fn write_once(context: &Context<impl Host>, at: &TranscriptAddress<'_>, write: Operation<'_>) -> SessionResult<()> {
    if context.expected_version.is_none() {
        return read_bucket(context, at.session, at.bucket(), Precondition::ANY, &[write]).map(drop);
    }
    let seen = SeenTranscript::read(context, at, Precondition::LOOK)?;
    let expectations = seen.version().expectations(context)?;
    let (bucket, operations) = (at.bucket(), [write]);
    let precondition = Precondition::existing(Some(&*seen.life).filter(|life| !life.is_empty()));
    let transaction = Transaction { bucket, precondition, expectations: &expectations, operations: &operations };
    match store::transact(&context.host, &transaction)?.status {
        Status::Unmet => Err(unexpected_version()),
        status => check_status(at.session, bucket, status),
    }
}
