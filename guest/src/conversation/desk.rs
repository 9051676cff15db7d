//! What operators and tools do with a conversation as a whole: look at it, give it a title.
//!
//! Promises the lanes' rules, checked in the same place. Refuses to create what is not there.

use super::record::{Record, integer};
use super::scope;
use super::settings::Settings;
use super::{BYTES, OWNER, SESSION, SETTINGS, SUMMARY, TITLE, TITLE_OF, TOTAL, TRANSCRIPT, ask::Summary, title};
use crate::history::milliseconds_of;
use crate::names::{ANSWER_COUNT, repr};
use crate::sessions::{Answer, Code, SessionProblem, Sessions, valid_session};
use crate::store::{Bucket, Host, LogEnd, Opening, Operation, VALUES};

/// What there is once, the summary among it.
const SESSION_BYTES: u64 = 1 << 20;
/// What is read of the newest record.
const RECORD_BYTES: u64 = 64 << 10;
/// Characters of a title.
const TITLE_MAX: usize = 200;

/// No record is read, only where the transcript stands.
pub(super) const WHERE_IT_STANDS: Operation<'static> =
    Operation::Read { log: TRANSCRIPT, end: LogEnd::Newest, max_records: 0, max_bytes: 0 };

/// The transcript of a session, or of one of its nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transcript<'a> {
    /// Whose it is.
    pub session: &'a str,
    /// Of the node.
    pub app_id: Option<&'a str>,
    /// None: the session's own.
    pub node_id: Option<&'a str>,
}

/// Where a transcript is kept.
pub(super) struct Address<'a> {
    pub session: &'a str,
    /// The bucket of the node.
    pub node: Option<String>,
}

impl<'a> Transcript<'a> {
    pub(super) fn address(&self) -> Answer<Address<'a>> {
        valid_session(self.session)?;
        let node = self.node_id.filter(|node| !node.is_empty());
        let app = self.app_id.filter(|app| !app.is_empty());
        Ok(Address { session: self.session, node: node.map(|node| scope::name(app, self.session, node)) })
    }
}

impl Address<'_> {
    pub(super) fn bucket(&self) -> Bucket<'_> {
        scope::bucket(self.session, self.node.as_deref())
    }

    pub(super) fn no_message(&self, position: u64) -> SessionProblem {
        let message = format!("Session {} has no message at position {position}", repr(self.session));
        SessionProblem::new(Code::NotFound, message)
    }
}

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

impl<H: Host> Sessions<H> {
    /// What there is to tell of a transcript.
    pub fn describe(&self, transcript: &Transcript<'_>) -> Answer<TranscriptState> {
        let at = transcript.address()?;
        let keys = [OWNER, TITLE, SUMMARY, TOTAL, BYTES, SETTINGS];
        let operations = [
            Operation::Read { log: TRANSCRIPT, end: LogEnd::Newest, max_records: 1, max_bytes: RECORD_BYTES },
            Operation::GetSome { map: SESSION, keys: &keys, max_bytes: SESSION_BYTES },
            Operation::Get { map: VALUES, key: ANSWER_COUNT, max_bytes: 32 },
            Operation::Describe { parts: false },
        ];
        let (incarnation, mut outcomes) = self.look(at.session, at.bucket(), Opening::LOOK, &operations)?;
        let newest = self.told(at.session, outcomes.records())?;
        let record = newest.records.first().and_then(|text| Record::parse(text));
        let mut state = TranscriptState {
            // Stores name a life by the second that it began.
            created_at: milliseconds_of(&incarnation),
            last_at: record.and_then(|record| milliseconds_of(&record.at)),
            incarnation,
            oldest: newest.extent.first,
            next: newest.extent.next(),
            ..TranscriptState::default()
        };
        let mut once = self.told(at.session, outcomes.once())?;
        let mut number = |key| once.take(key).as_deref().and_then(integer).unwrap_or(0);
        (state.weight, state.bytes) = (number(TOTAL), number(BYTES));
        (state.owner, state.title) = (once.take(OWNER), once.take(TITLE));
        state.settings = once.take(SETTINGS).map_or_else(Settings::default, |text| Settings::parse(&text));
        let summary = once.take(SUMMARY);
        let summary = summary.as_deref().and_then(|entry| Summary::all(entry).into_iter().next());
        state.summary = summary.map(|found| (found.text.into_owned(), found.to));
        state.answers = self.told(at.session, outcomes.text())?.as_deref().and_then(integer).unwrap_or(0);
        state.expires_in = self.told(at.session, outcomes.described())?.expires_in;
        Ok(state)
    }

    /// Give it a title, or none; the title that it has then.
    pub fn set_title(&self, transcript: &Transcript<'_>, title: Option<&str>) -> Answer<Option<String>> {
        let at = transcript.address()?;
        let title = title.map(|text| title::of_message(text, u64::MAX)).filter(|title| !title.is_empty());
        if title.as_ref().is_some_and(|title| title.chars().count() > TITLE_MAX) {
            return Err(SessionProblem::new(Code::Limit, format!("A title has at most {TITLE_MAX} characters")));
        }
        let given = title.as_deref().map(|title| title::recorded("", title)).unwrap_or_default();
        let entries = [(TITLE, title.as_deref().unwrap_or_default()), (TITLE_OF, &*given)];
        let write = match &title {
            Some(_) => Operation::PutSome { map: SESSION, entries: &entries },
            None => Operation::Remove { map: SESSION, keys: &[TITLE, TITLE_OF] },
        };
        self.look(at.session, at.bucket(), Opening::ANY, &[write])?;
        Ok(title)
    }
}
