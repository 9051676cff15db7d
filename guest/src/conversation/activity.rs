//! A user's sessions, the one used last first.
//!
//! Promises that a page costs the same however many sessions there are, and that what it tells of a session is how it is
//! now; only the order is as of the last note. A session's first turn notes it, in the step that registers it. After that
//! deferred work does when its question saw that another session was used last: who goes on with one session costs nothing.
//! Each note is a record of the log `activity`, and the session's entry in the map `sessions` has its time: the records
//! whose time another one has taken the place of are passed over, and dropped now and then. Refuses to note what is not
//! registered, or for a user who was forgotten since.

use keepline_json::{self as json, push_number, push_string};

use super::cuts::up_to;
use super::owner::{self, ACTIVITY, SESSIONS};
use super::profile::valid_user;
use super::record::Record;
use super::state::State;
use super::upkeep::{self, Job, Progress, Step};
use super::{OWNER, SESSION, TITLE, TRANSCRIPT};
use crate::config::MAX_KEYS;
use crate::filter::{Filter, Task};
use crate::names::is_session;
use crate::reply::{self, Found, Outcomes, is_incarnation};
use crate::session_id::{ID, kept_id};
use crate::sessions::{Answer, Sessions};
use crate::store::{
    Bucket, Expectation, Failure, FoundEntries, Host, LogEnd, LogExtent, Opening, Operation, Receipt, Transaction,
};

/// The task.
pub(super) const TASK: &str = "activity";
/// After so many notes records are dropped that are no longer true.
const TIDY_EVERY: u64 = 512;
/// What is kept of a list that is too long all the same.
const RECORDS_MAX: u64 = 20_000;
const TIDY_BYTES: u64 = 4 << 20;
/// Sessions of a page.
const PAGE: u32 = 20;
const PAGE_MAX: u32 = 100;
/// Records that one page looks at.
const LOOK: u32 = 512;
const LOOK_BYTES: u64 = 1 << 20;
/// Stretches of logs in one call of the store.
const RANGES: usize = 16;
/// Characters of a message, and what is read of it.
const PREVIEW: usize = 100;
const PREVIEW_BYTES: u64 = 64 << 10;

/// A page of a user's sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserSessions {
    /// The name of the user's bucket.
    pub user: String,
    /// JSON objects.
    pub sessions: Vec<String>,
    /// Where to go on, as `before`.
    pub older: Option<u64>,
}

/// A use of a session, noted: its record, and its session's entry.
pub(super) struct Note {
    pub record: String,
    pub entry: String,
}

impl Note {
    pub(super) fn new(session: &str, incarnation: &str, at: &str) -> Self {
        let text = |name: &str, text: &str| {
            let mut out = ["{\"", name, "\":"].concat();
            push_string(&mut out, text);
            out.push_str(",\"at\":");
            out.push_str(at);
            out.push('}');
            out
        };
        Self { record: text("session", session), entry: text("incarnation", incarnation) }
    }
}

/// Whether a session's entry is about this life of it.
pub(super) fn is_about(entry: &str, incarnation: &str) -> bool {
    let mut is_its_life = false;
    let read = json::members(entry, |key, raw| {
        is_its_life |= json::key_is(key, "incarnation") && json::string(raw).as_deref() == Some(incarnation);
    });
    read.is_some() && is_its_life
}

/// Whether it is time to drop records, after one was added.
pub(super) fn is_long(extent: LogExtent) -> bool {
    extent.next().is_multiple_of(TIDY_EVERY)
}

/// To note that a session was used.
pub(super) fn note(user: &str, state: &State<'_>, incarnation: &str, at: &str) -> Task {
    // None of them has blanks in it.
    let forgotten = state.forgotten.as_deref().unwrap_or_default();
    Task { state: [&state.session, incarnation, at, forgotten].join(" "), ..tidying(user) }
}

/// To drop records.
pub(super) fn tidying(user: &str) -> Task {
    upkeep::bare_task(owner::bucket(user), TASK)
}

/// The session that a record of the list is about.
pub(super) fn session_of(record: &str) -> Option<String> {
    Some(Noted::parse(record)?.session)
}

impl<H: Host> Filter<H> {
    /// Note what the state tells, or drop records: with an empty state.
    pub(super) fn note_activity(&self, user: Bucket<'_>, job: &Job<'_>) -> Result<Progress, Failure> {
        if job.state.is_empty() {
            return self.tidy(user);
        }
        let mut parts = job.state.split(' ');
        let mut next = || parts.next().unwrap_or_default();
        let (session, incarnation, at, forgotten) = (next(), next(), next(), next());
        if !is_session(session) || !is_incarnation(incarnation) || json::number(at).is_none() {
            return Ok(upkeep::unreadable(job));
        }
        let Note { record, entry } = Note::new(session, incarnation, at);
        let (record, forgotten) = ([&*record], Some(forgotten).filter(|stamp| !stamp.is_empty()));
        let operations = [
            Operation::Append { log: ACTIVITY, records: &record, marks: &[] },
            Operation::Put { map: SESSIONS, key: session, text: &entry },
        ];
        let expectations = [owner::unforgotten(forgotten), Expectation::Present { map: SESSIONS, key: session }];
        let (bucket, opening) = (user, Opening::LOOK);
        let noted = Transaction { bucket, opening, expectations: &expectations, operations: &operations };
        let receipt = reply::transact(&self.host, &noted)?;
        if !receipt.is_applied() {
            return Ok(Progress::of(Step::Ended));
        }
        let extent = Outcomes::of(receipt).extent()?;
        let step = if is_long(extent) { Step::Again } else { Step::Done };
        Ok(Progress { state: Some(String::new()), ..Progress::of(step) })
    }

    fn tidy(&self, bucket: Bucket<'_>) -> Result<Progress, Failure> {
        let operations = [
            Operation::Read { log: ACTIVITY, end: LogEnd::Oldest, max_records: MAX_KEYS, max_bytes: TIDY_BYTES },
            Operation::GetAll { map: SESSIONS, max_entries: MAX_KEYS, max_bytes: TIDY_BYTES },
        ];
        let opening = Opening::LOOK;
        let look = Transaction { bucket, opening, expectations: &[], operations: &operations };
        let receipt = reply::transact(&self.host, &look)?;
        if !receipt.is_applied() {
            return Ok(Progress::of(Step::Ended));
        }
        let mut outcomes = Outcomes::of(receipt);
        let run = outcomes.records()?;
        let known = match outcomes.entries()? {
            Found::Entries(found) => Some(found),
            // Of so many nothing is known: all are kept, as far as there is room.
            Found::Oversize { .. } => None,
        };
        let is_true =
            |text: &&str| known.as_ref().is_none_or(|known| Noted::parse(text).is_some_and(|it| it.is_in(known)));
        let mut kept: Vec<&str> = run.records.iter().map(String::as_str).filter(is_true).collect();
        let count = run.records.len() as u64;
        let room = RECORDS_MAX.saturating_sub(run.extent.length - count);
        let surplus = kept.len().saturating_sub(usize::try_from(room).unwrap_or(usize::MAX));
        kept.drain(..surplus);
        if kept.len() as u64 == count {
            return Ok(Progress::of(Step::Done));
        }
        let expectations = [Expectation::Log { log: ACTIVITY, first: Some(run.extent.first), next: None }];
        let operations = [Operation::ReplaceOldest { log: ACTIVITY, count, records: &kept }];
        let tidied = Transaction { bucket, opening, expectations: &expectations, operations: &operations };
        // Somebody else has done it otherwise.
        reply::transact(&self.host, &tidied)?;
        Ok(Progress::of(Step::Done))
    }
}

impl<H: Host> Sessions<H> {
    /// The sessions of a user that are there, the one used last first.
    pub fn user_sessions(&self, user: &str, before: Option<u64>, limit: u32) -> Answer<UserSessions> {
        let name = valid_user(user)?;
        let limit = if limit == 0 { PAGE } else { limit.min(PAGE_MAX) };
        let max_bytes = LOOK_BYTES;
        let read = match before {
            None => Operation::Read { log: ACTIVITY, end: LogEnd::Newest, max_records: LOOK.into(), max_bytes },
            Some(before) => {
                let position = before.saturating_sub(LOOK.into());
                let count = u32::try_from(before - position).unwrap_or(LOOK);
                Operation::ReadAt { log: ACTIVITY, position, count, max_bytes }
            }
        };
        let Some(mut outcomes) = self.of_user(&name, &[read])? else { return Ok(none(name)) };
        let run = self.told(&name, outcomes.records())?;
        if before.is_some_and(|before| before > run.extent.next()) {
            return self.user_sessions(user, None, limit);
        }
        let mut noted: Vec<(u64, Noted)> = Vec::with_capacity(run.records.len());
        noted.extend((run.first..).zip(&run.records).filter_map(|(at, text)| Some((at, Noted::parse(text)?))));
        let mut names: Vec<String> = noted.iter().map(|(_, noted)| noted.session.clone()).collect();
        reply::sort(&mut names);
        let keys: Vec<&str> = names.iter().map(String::as_str).collect();
        let get = Operation::GetSome { map: SESSIONS, keys: &keys, max_bytes };
        let Some(mut outcomes) = self.of_user(&name, &[get])? else { return Ok(none(name)) };
        let Found::Entries(known) = self.told(&name, outcomes.entries())? else { return Ok(none(name)) };
        let mut page: Vec<&Noted> = Vec::new();
        let mut older = Some(run.first).filter(|first| !run.records.is_empty() && *first > run.extent.first);
        for (position, noted) in noted.iter().rev() {
            // In one wait each bucket comes once.
            if !noted.is_in(&known) || page.iter().any(|other| other.session == noted.session) {
                continue;
            }
            page.push(noted);
            if page.len() as u64 == u64::from(limit) {
                older = Some(*position).filter(|position| *position > run.extent.first);
                break;
            }
        }
        let receipts = self.look_each(&page);
        let sessions = page.iter().zip(receipts).filter_map(|(noted, receipt)| noted.shown(receipt.ok()?, &name));
        let sessions = sessions.collect();
        Ok(UserSessions { user: name.into_owned(), sessions, older })
    }

    /// In as few waits as a call's stretches of logs allow, one each.
    fn look_each(&self, sessions: &[&Noted]) -> Vec<Result<Receipt, Failure>> {
        let operations = [
            Operation::GetSome { map: SESSION, keys: &[OWNER, TITLE, ID], max_bytes: 1 << 16 },
            Operation::Read { log: TRANSCRIPT, end: LogEnd::Newest, max_records: 1, max_bytes: PREVIEW_BYTES },
        ];
        let mut receipts = Vec::with_capacity(sessions.len());
        for chunk in sessions.chunks(RANGES) {
            let mut transactions = Vec::with_capacity(chunk.len());
            for noted in chunk {
                let (bucket, opening) = (Bucket::session(&noted.session), Opening::LOOK);
                transactions.push(Transaction { bucket, opening, expectations: &[], operations: &operations });
            }
            receipts.extend(reply::transact_each(self.host(), &transactions));
        }
        receipts
    }
}

fn none(name: std::borrow::Cow<'_, str>) -> UserSessions {
    UserSessions { user: name.into_owned(), ..UserSessions::default() }
}

/// A record of the list.
struct Noted {
    session: String,
    /// JSON.
    at: String,
}

impl Noted {
    fn parse(text: &str) -> Option<Self> {
        let (mut session, mut at) = (None, None);
        json::members(text, |key, raw| {
            if json::key_is(key, "session") {
                session = json::string(raw).map(std::borrow::Cow::into_owned);
            } else if json::key_is(key, "at") && json::number(raw).is_some() {
                at = Some(raw.to_owned());
            }
        })?;
        Some(Self { session: session.filter(|name| is_session(name))?, at: at? })
    }

    /// Whether the session's entry, of these that are sorted by key, has its time.
    fn is_in(&self, entries: &FoundEntries) -> bool {
        let Ok(at) = entries.entries.binary_search_by(|entry| entry.key.cmp(&self.session)) else { return false };
        let mut is_its_time = false;
        let read = entries.entries.get(at).and_then(|entry| {
            json::members(&entry.text, |key, raw| is_its_time |= json::key_is(key, "at") && raw == self.at)
        });
        read.is_some() && is_its_time
    }

    /// As JSON, if it is there and this user's.
    fn shown(&self, mut receipt: Receipt, user: &str) -> Option<String> {
        if !receipt.is_applied() {
            return None;
        }
        let incarnation = std::mem::take(&mut receipt.incarnation);
        let mut outcomes = Outcomes::of(receipt);
        let Found::Entries(found) = outcomes.entries().ok()? else { return None };
        let of = |key: &str| found.entries.iter().find(|entry| entry.key == key).map(|entry| &*entry.text);
        if of(OWNER) != Some(user) {
            return None;
        }
        let run = outcomes.records().ok()?;
        let mut out = String::from("{\"session\":");
        push_string(&mut out, kept_id(&self.session, of(ID)).unwrap_or(&self.session));
        // Stores name a life by the second that it began.
        if json::number(&incarnation).is_some() {
            out.push_str(",\"began_at\":");
            out.push_str(&incarnation);
        }
        if let Some(title) = of(TITLE) {
            out.push_str(",\"title\":");
            push_string(&mut out, title);
        }
        out.push_str(",\"records\":");
        push_number(&mut out, run.extent.length);
        if let Some(record) = run.records.first().and_then(|text| Record::parse(text)) {
            out.push_str(",\"last_at\":");
            out.push_str(&record.at);
            if !record.is_removed() {
                let end = record.content.char_indices().nth(PREVIEW).map_or(record.content.len(), |(at, _)| at);
                out.push_str(",\"preview\":");
                push_string(&mut out, up_to(&record.content, end, usize::MAX));
            }
        }
        out.push('}');
        Some(out)
    }
}
