//! Users: the owner of a session, their bucket, and the registration of sessions in it.
//!
//! A session gets its owner with its first turn that names a user. The registration in the user's bucket comes before that: a crash
//! in between leaves an entry for a session without an owner, which does no harm. A registration expects the tombstone that the
//! question saw, so an answer of a user forgotten meanwhile is not stored, and one of a user who came back is. An answer without a
//! question accepts a tombstone older than a day.
//!
//! Promises that no two users share a bucket, and that a session's memory goes only to its owner and to entries that name no user.

use keepline_json::ObjectWriter;
use keepline_options::bucket_names::user_bucket_name;
use std::borrow::Cow;
use std::slice::from_ref;

use crate::contract::{
    BucketId, Expectation, Host, IndexedReceipt, LogEnd, LogExtent, Operation, Precondition, Problem, PutEntry,
    ReadEntries, Status, Transaction, VALUES, kind,
};
use crate::entry::session_problem::SessionResult;
use crate::entry::turn_token::TurnToken;
use crate::store;
use crate::store::{EntriesOutcome, Outcomes};
use crate::text::json_values::parse_count;
use crate::transcript::schema::{OWNER, SESSION};
use crate::users::activity_log;
use crate::users::activity_log::ActivityRecord;

/// The map of a user's sessions: name → `{"incarnation", "at"}`.
pub(crate) const SESSIONS: &str = "sessions";

/// The map of what there is once of a user.
pub(crate) const USER: &str = "user";

/// When the user was forgotten; of that map.
pub(crate) const FORGOTTEN: &str = "forgotten";

/// The log of which session was used when.
pub(crate) const ACTIVITY: &str = "activity";

/// Of a session: the map of its nodes; of a user: that of nodes of any of their sessions.
pub(crate) const NODES: &str = "nodes";

/// Seconds: whatever is on its way is there by then.
const DAY: u64 = 86_400;

/// Longer ids of nodes and apps are not listed with them.
const ID_MAX: usize = 256;

pub(crate) fn user_bucket(name: &str) -> BucketId<'_> {
    BucketId { kind: kind::USER, name }
}

/// The session has no owner, or is this user's.
pub(crate) fn expect_owner(name: &str) -> Expectation<'_> {
    Expectation::absent_or_equal(SESSION, OWNER, name)
}

/// What is read of a user with a question.
pub(crate) fn user_read_operations(max_entries: u64, max_bytes: u64) -> [Operation<'static>; 3] {
    [
        Operation::get_all(VALUES, max_entries, max_bytes),
        Operation::get(USER, &FORGOTTEN, 64),
        Operation::read(ACTIVITY, LogEnd::Newest, 1, 1024),
    ]
}

/// What a question sees of its user.
#[derive(Default)]
pub(crate) struct UserSnapshot {
    pub values: ReadEntries,
    /// Their values are over a limit, and not among these.
    pub is_oversize: bool,
    pub forgotten: Option<String>,
    /// The session that was used last, as far as it was noted.
    pub latest: Option<String>,
}

impl UserSnapshot {
    /// Of a receipt of [`user_read_operations`], and what was asked for beside them. A user without a bucket has nothing.
    pub(crate) fn of(reply: IndexedReceipt) -> Result<(Self, Option<Outcomes>), Box<Problem>> {
        let mut seen = Self::default();
        if !reply.receipt.is_applied() {
            return Ok((seen, None));
        }
        let mut outcomes = Outcomes::of_indexed(reply);
        match outcomes.take_entries()? {
            EntriesOutcome::Entries(values) => seen.values = values,
            EntriesOutcome::Oversize { .. } => seen.is_oversize = true,
        }
        seen.forgotten = outcomes.take_text()?;
        seen.latest = outcomes.take_records()?.records.last().and_then(|record| activity_log::parse_session(record));
        Ok((seen, Some(outcomes)))
    }

    /// Adds the user's values to a session's, whose own go first; whether they fit.
    pub(crate) fn merge_into(self, values: &mut EntriesOutcome, max_entries: u64, max_bytes: u64) -> bool {
        let EntriesOutcome::Entries(own) = values else { return self.values.entries.is_empty() };
        let is_new = |key: &str| own.entries.binary_search_by(|entry| (*entry.key).cmp(key)).is_err();
        let added: Vec<_> = self.values.entries.into_iter().filter(|entry| is_new(&entry.key)).collect();
        let bytes: usize = own.entries.iter().chain(&added).map(|entry| entry.key.len() + entry.text.len()).sum();
        if self.is_oversize || bytes as u64 > max_bytes || (own.entries.len() + added.len()) as u64 > max_entries {
            return false;
        }
        own.entries.extend(added);
        own.unreadable.extend(self.values.unreadable);
        own.entries = store::heap_sorted(std::mem::take(&mut own.entries));
        true
    }
}

/// What comes before a first turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegistrationOutcome {
    Done {
        /// Whether it is time to tidy the user's list.
        is_long: bool,
    },
    /// The session belongs to somebody else.
    Foreign,
    /// The session has ended, or its user was forgotten.
    Ended,
}

/// Register the session, and the node, with the user; then the node with the session. `generation` is the session's. One
/// wait for each of the two; two more where an answer without a question meets a tombstone.
pub(crate) fn register_session(
    host: &impl Host,
    state: &mut TurnToken<'_>,
    generation: &str,
    at: &str,
    has_question: bool,
) -> Result<RegistrationOutcome, Box<Problem>> {
    let mut is_long = false;
    if let Some(user) = state.user.clone().filter(|_| !state.is_owned || state.node.is_some()) {
        let mut noted = with_user(host, state, &user, generation, at)?;
        if noted.is_none() && !has_question && outlived(host, state, &user, at)? {
            noted = with_user(host, state, &user, generation, at)?;
        }
        let Some(extent) = noted else { return Ok(RegistrationOutcome::Ended) };
        is_long = activity_log::is_compaction_due(extent);
    }
    if let Some(node) = &state.node {
        let registered = with_session(host, state, node, generation)?;
        return Ok(if registered == DONE { RegistrationOutcome::Done { is_long } } else { registered });
    }
    Ok(RegistrationOutcome::Done { is_long })
}

const DONE: RegistrationOutcome = RegistrationOutcome::Done { is_long: false };

/// Whether the user's tombstone is so old that no answer is still on its way from before it: then it is as if it had been
/// seen.
fn outlived(host: &impl Host, state: &mut TurnToken<'_>, user: &str, at: &str) -> Result<bool, Box<Problem>> {
    let stamp = store::read_entry_text(host, user_bucket(user), USER, FORGOTTEN)?;
    let seconds = |stamp: &str| stamp.split_once('.').and_then(|(whole, _)| parse_count(whole));
    let age = seconds(at).zip(stamp.as_deref().and_then(seconds)).map(|(now, then)| now.saturating_sub(then));
    state.forgotten = stamp.map(Cow::Owned);
    Ok(age.is_some_and(|age| age >= DAY))
}

/// The user was not forgotten since this tombstone was seen, or none.
pub(crate) fn expect_not_forgotten(seen: Option<&str>) -> Expectation<'_> {
    match seen {
        Some(text) => Expectation::absent_or_equal(USER, FORGOTTEN, text),
        None => Expectation::absent(USER, FORGOTTEN),
    }
}

/// Where the user's list stands then. None: the user is not there to have it.
fn with_user(
    host: &impl Host,
    state: &TurnToken<'_>,
    user: &str,
    generation: &str,
    at: &str,
) -> Result<Option<LogExtent>, Box<Problem>> {
    let ActivityRecord { record, entry } = ActivityRecord::new(&state.session, generation, at);
    let records = [&*record];
    let listed = [PutEntry { key: &state.session, text: &entry }];
    let node = state.node.as_deref().map(|node| PutEntry { key: node, text: &state.session });
    let mut operations = vec![Operation::append(ACTIVITY, &records, &[]), Operation::put(SESSIONS, &listed)];
    operations.extend(node.as_ref().map(|node| Operation::put(NODES, from_ref(node))));
    let expectations = [expect_not_forgotten(state.forgotten.as_deref())];
    let (bucket, precondition) = (user_bucket(user), Precondition::create(None));
    let transaction = Transaction { bucket, precondition, expectations: &expectations, operations: &operations };
    let receipt = store::transact(host, &transaction)?;
    if !receipt.is_applied() {
        return Ok(None);
    }
    Outcomes::of(receipt).take_extent().map(Some)
}

fn with_session(
    host: &impl Host,
    state: &TurnToken<'_>,
    node: &str,
    generation: &str,
) -> Result<RegistrationOutcome, Box<Problem>> {
    let mut ids = ObjectWriter::with_capacity(64);
    ids.text("app_id", state.app_id.as_deref());
    ids.text("node_id", state.node_id.as_deref());
    let ids = ids.finish();
    let listed = [PutEntry { key: node, text: &ids }];
    let user = state.user.as_deref().map(|text| PutEntry { key: OWNER, text });
    let mut operations = vec![Operation::put(NODES, &listed)];
    operations.extend(user.as_ref().map(|user| Operation::put(SESSION, from_ref(user))));
    let owner = state.user.as_deref().map(expect_owner);
    let generation = Some(generation).filter(|life| !life.is_empty());
    let precondition = Precondition::existing(generation);
    let (bucket, expectations) = (BucketId::session(&state.session), owner.as_slice());
    let receipt = store::transact(host, &Transaction { bucket, precondition, expectations, operations: &operations })?;
    Ok(match receipt.status {
        Status::Applied | Status::Repeated => DONE,
        Status::Unmet => RegistrationOutcome::Foreign,
        _ => RegistrationOutcome::Ended,
    })
}

/// An id that is short enough to be listed.
pub(crate) fn listable_id(id: Option<&str>) -> Option<&str> {
    id.filter(|id| id.len() <= ID_MAX)
}

/// Metadata can't name a longer id either.
const USER_ID_MAX: usize = 1024;

/// The name of a user's bucket.
pub(crate) fn checked_user_bucket_name(user: &str) -> SessionResult<Cow<'_, str>> {
    if (1..=USER_ID_MAX).contains(&user.len()) {
        return Ok(user_bucket_name(user));
    }
    let message = format!("Invalid user_id of {} bytes. Must be 1-{USER_ID_MAX} bytes.", user.len());
    Err(Problem::invalid("user", message))
}
