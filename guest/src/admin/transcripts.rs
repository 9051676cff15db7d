//! Describes a transcript, and sets its title and settings.

use crate::admin::sessions::read_bucket;
use crate::context::Context;
use crate::contract::{Host, LogEnd, Opening, Operation, PutEntry, VALUES};
use crate::entry::session_problem::{SessionProblem, SessionProblemCode as Code, SessionResult, store_result};
use crate::options::settings::Settings;
use crate::text::ids::ANSWER_COUNT;
use crate::text::json_values::parse_count;
use crate::text::timestamp::parse_milliseconds;
use crate::transcript::address::TranscriptId;
use crate::transcript::record::StoredRecord;
use crate::transcript::schema::{BYTES, OWNER, SESSION, SETTINGS, SUMMARY, TITLE, TITLE_OF, TOTAL, TRANSCRIPT};
use crate::transcript::summary::ThreadSummary;
use crate::transcript::title;

/// What there is once, the summary among it.
const SESSION_BYTES: u64 = 1 << 20;

/// What is read of the newest record.
const RECORD_BYTES: u64 = 64 << 10;

/// Characters of a title.
const TITLE_MAX: usize = 200;

/// What there is to tell of a transcript.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TranscriptState {
    /// Its creation stamp.
    pub incarnation: String,
    /// The name of the owner's bucket.
    pub owner: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// What is set for it in place of the configuration.
    pub settings: Settings,
    /// What was said up to a position.
    pub summary: Option<(String, u64)>,
    /// The position of the oldest record.
    pub oldest: u64,
    /// The position of the next record.
    pub next: u64,
    /// Of the newest thread.
    pub weight: u64,
    /// Of all records.
    pub bytes: u64,
    /// How many answers it has had.
    pub answers: u64,
    /// When it began: milliseconds since 1970, if the store tells.
    pub created_at: Option<u64>,
    /// When its newest record was written: milliseconds since 1970.
    pub last_at: Option<u64>,
    /// Milliseconds of life left; none: it does not expire.
    pub expires_in: Option<u64>,
}

/// What there is to tell of a transcript.
pub fn describe_transcript(
    context: &Context<impl Host>,
    transcript: &TranscriptId<'_>,
) -> SessionResult<TranscriptState> {
    let at = transcript.resolve_address()?;
    let keys = [OWNER, TITLE, SUMMARY, TOTAL, BYTES, SETTINGS];
    let operations = [
        Operation::read(TRANSCRIPT, LogEnd::Newest, 1, RECORD_BYTES),
        Operation::get_some(SESSION, &keys, SESSION_BYTES),
        Operation::get(VALUES, &ANSWER_COUNT, 32),
        Operation::describe(false),
    ];
    let (incarnation, mut outcomes) = read_bucket(context, at.session, at.bucket(), Opening::LOOK, &operations)?;
    let newest = store_result(at.session, outcomes.take_records())?;
    let record = newest.records.first().and_then(|text| StoredRecord::parse(text));
    let mut state = TranscriptState {
        // Stores name a life by the second that it began.
        created_at: parse_milliseconds(&incarnation),
        last_at: record.and_then(|record| parse_milliseconds(&record.at)),
        incarnation,
        oldest: newest.extent.first,
        next: newest.extent.next(),
        ..TranscriptState::default()
    };
    let mut once = store_result(at.session, outcomes.take_entries_by_key())?;
    let mut number = |key| once.take(key).as_deref().and_then(parse_count).unwrap_or(0);
    (state.weight, state.bytes) = (number(TOTAL), number(BYTES));
    (state.owner, state.title) = (once.take(OWNER), once.take(TITLE));
    state.settings = once.take(SETTINGS).map_or_else(Settings::default, |text| Settings::parse(&text));
    let summary = once.take(SUMMARY);
    let summary = summary.as_deref().and_then(|entry| ThreadSummary::all(entry).into_iter().next());
    state.summary = summary.map(|found| (found.text.into_owned(), found.to));
    state.answers = store_result(at.session, outcomes.take_text())?.as_deref().and_then(parse_count).unwrap_or(0);
    state.expires_in = store_result(at.session, outcomes.take_description())?.expires_in;
    Ok(state)
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
        return Err(SessionProblem::new(Code::Limit, format!("A title has at most {TITLE_MAX} characters")));
    }
    let given = title.as_deref().map(|title| title::format_origin("", title)).unwrap_or_default();
    let text = title.as_deref().unwrap_or_default();
    let entries = [PutEntry { key: TITLE, text }, PutEntry { key: TITLE_OF, text: &given }];
    let write = match &title {
        Some(_) => Operation::put(SESSION, &entries),
        None => Operation::remove(SESSION, &[TITLE, TITLE_OF]),
    };
    read_bucket(context, at.session, at.bucket(), Opening::ANY, &[write])?;
    Ok(title)
}

/// Set these for a transcript in place of all that was set; of none, the configuration holds again.
pub fn set_settings(
    context: &Context<impl Host>,
    transcript: &TranscriptId<'_>,
    settings: &Settings,
) -> SessionResult<()> {
    let at = transcript.resolve_address()?;
    settings.check().map_err(|message| SessionProblem::new(Code::InvalidValue, message))?;
    let set = [PutEntry { key: SETTINGS, text: &settings.write() }];
    let write = match settings == &Settings::default() {
        false => Operation::put(SESSION, &set),
        true => Operation::remove(SESSION, &[SETTINGS]),
    };
    read_bucket(context, at.session, at.bucket(), Opening::ANY, &[write]).map(drop)
}
