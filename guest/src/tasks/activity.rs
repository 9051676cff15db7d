//! The task `activity`: records that a session was used, and compacts the log of activity.

use keepline_json as json;

use crate::context::Context;
use crate::contract::{BucketId, Expectation, Host, LogEnd, Operation, Precondition, PutEntry, Transaction};
use crate::entry::turn_token::TurnToken;
use crate::entry::types::Task;
use crate::options::config::MAX_KEYS;
use crate::store;
use crate::store::{EntriesOutcome, Outcomes, is_generation};
use crate::tasks::job::{Job, Progress, Step};
use crate::tasks::task;
use crate::tasks::task::StepResult;
use crate::text::ids::is_session;
use crate::users::activity_log::{ActivityRecord, ListedSession, is_compaction_due};
use crate::users::registry;
use crate::users::registry::{ACTIVITY, SESSIONS};

/// The task.
pub(crate) const TASK: &str = "activity";

/// How much of a list that is still too long is kept.
const RECORDS_MAX: u64 = 20_000;

const TIDY_BYTES: u64 = 4 << 20;

/// To note that a session was used.
pub(crate) fn activity_task(user: &str, state: &TurnToken<'_>, generation: &str, at: &str) -> Task {
    // None of them has blanks in it.
    let forgotten = state.forgotten.as_deref().unwrap_or_default();
    Task { state: [&state.session, generation, at, forgotten].join(" "), ..tidy_task(user) }
}

/// To drop records.
pub(crate) fn tidy_task(user: &str) -> Task {
    task::bare_task(registry::user_bucket(user), TASK)
}

/// Note what the state tells, or drop records: with an empty state.
pub(crate) fn record_activity(context: &Context<impl Host>, bucket: BucketId<'_>, job: &Job<'_>) -> StepResult {
    if job.state.is_empty() {
        return tidy_activity(context, bucket);
    }
    let mut parts = job.state.split(' ');
    let mut next = || parts.next().unwrap_or_default();
    let (session, generation, at, forgotten) = (next(), next(), next(), next());
    if !is_session(session) || !is_generation(generation) || json::parse_number(at).is_none() {
        return Ok(task::unreadable_state(job));
    }
    let ActivityRecord { record, entry } = ActivityRecord::new(session, generation, at);
    let (record, forgotten) = ([&*record], Some(forgotten).filter(|stamp| !stamp.is_empty()));
    let listed = [PutEntry { key: session, text: &entry }];
    let operations = [Operation::append(ACTIVITY, &record, &[]), Operation::put(SESSIONS, &listed)];
    let expectations = [registry::expect_not_forgotten(forgotten), Expectation::present(SESSIONS, session)];
    let precondition = Precondition::LOOK;
    let noted = Transaction { bucket, precondition, expectations: &expectations, operations: &operations };
    let receipt = store::transact(&context.host, &noted)?;
    if !receipt.is_applied() {
        return Ok(Progress::of(Step::Ended));
    }
    let extent = Outcomes::of(receipt).take_extent()?;
    let step = if is_compaction_due(extent) { Step::Again } else { Step::Done };
    Ok(Progress { state: Some(String::new()), ..Progress::of(step) })
}

fn tidy_activity(context: &Context<impl Host>, bucket: BucketId<'_>) -> StepResult {
    let limits = context.config.limits;
    let (max_records, max_bytes) = (MAX_KEYS.min(limits.call_pieces / 2), TIDY_BYTES.min(limits.call_bytes / 4));
    let operations = [
        Operation::read(ACTIVITY, LogEnd::Oldest, max_records, max_bytes),
        Operation::get_all(SESSIONS, MAX_KEYS, TIDY_BYTES),
    ];
    let precondition = Precondition::LOOK;
    let Some(mut outcomes) = store::read_bucket(&context.host, bucket, precondition, &operations)? else {
        return Ok(Progress::of(Step::Ended));
    };
    let run = outcomes.take_records()?;
    let known = match outcomes.take_entries()? {
        EntriesOutcome::Entries(found) => Some(found),
        // Of so many nothing is known: all are kept, as far as there is room.
        EntriesOutcome::Oversize { .. } => None,
    };
    let is_true = |text: &&str| {
        known.as_ref().is_none_or(|known| ListedSession::parse(text).is_some_and(|it| it.is_latest_in(known)))
    };
    let mut kept: Vec<&str> = run.records.iter().map(String::as_str).filter(is_true).collect();
    let count = run.records.len() as u64;
    let room = RECORDS_MAX.saturating_sub(run.extent.length - count);
    let surplus = kept.len().saturating_sub(usize::try_from(room).unwrap_or(usize::MAX));
    kept.drain(..surplus);
    if kept.len() as u64 == count {
        return Ok(Progress::of(Step::Done));
    }
    let expectations = [Expectation::log(ACTIVITY, Some(run.extent.first), None)];
    let operations = [Operation::replace_oldest(ACTIVITY, count, &kept)];
    let tidied = Transaction { bucket, precondition, expectations: &expectations, operations: &operations };
    // Somebody else has done it otherwise.
    store::transact(&context.host, &tidied)?;
    Ok(Progress::of(Step::Done))
}
