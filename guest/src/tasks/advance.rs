//! Dispatches a step to its task.

use crate::context::Context;
use crate::contract::{BucketId, BucketKind, Failure, FailureCode, Host};
use crate::options::conversation::Options;
use crate::tasks::activity::record_activity;
use crate::tasks::checkpoint::Checkpoint;
use crate::tasks::copy_to_user::{copy_to_user, reset_copies};
use crate::tasks::embed::embed_passages;
use crate::tasks::generate_title::generate_title;
use crate::tasks::index_passages::{index_passages, reset_recall};
use crate::tasks::job::{Job, NeedResult, Progress};
use crate::tasks::retention::enforce_limits;
use crate::tasks::summarize::summarize_thread;
use crate::tasks::task::{release_lease, unreadable_state};
use crate::tasks::{activity, embed, generate_title, index_passages, retention, summarize};
use crate::text;
use crate::text::ids::is_session;
use crate::text::quoting::python_repr;

/// One step of deferred work: at most three waits for the store, and one more if others came in between.
pub fn advance_task(context: &Context<impl Host>, job: &Job<'_>) -> Progress {
    let (subject, user) = match text::split_once(job.subject, " user/") {
        Some((subject, user)) => (subject, Some(user)),
        None => (job.subject, None),
    };
    let bucket = match subject.split_once('/') {
        Some(("session", name)) => Some(BucketId::session(name)),
        Some(("node", name)) => Some(BucketId { kind: BucketKind::Node, name }),
        Some(("user", name)) if job.name == activity::TASK => Some(BucketId { kind: BucketKind::User, name }),
        _ => None,
    };
    let (Some(options), Some(bucket)) = (&context.config.conversation, bucket.filter(|bucket| is_session(bucket.name)))
    else {
        return unknown(job);
    };
    if let Some(user) = user {
        return advance_with_user(context, options, bucket, user, job);
    }
    if bucket.kind == BucketKind::User {
        return record_activity(context, bucket, job).unwrap_or_else(failed);
    }
    let Some(basis) = Checkpoint::parse(job.state) else { return unreadable_state(job) };
    let done = match job.name {
        summarize::TASK | generate_title::TASK | retention::TASK
            if matches!(job.result, Some(NeedResult::Failed(_))) =>
        {
            release_lease(context, bucket, job, &basis)
        }
        summarize::TASK => summarize_thread(context, options, bucket, job, basis),
        generate_title::TASK => generate_title(context, options, bucket, job, basis),
        retention::TASK => enforce_limits(context, options, bucket, job, basis),
        index_passages::TASK => index_passages(context, options, bucket, job, basis),
        index_passages::RESET => reset_recall(context, bucket, job, basis),
        embed::TASK => embed_passages(context, options, bucket, None, job, basis),
        _ => return unknown(job),
    };
    done.unwrap_or_else(failed)
}

/// The same where a user's bucket takes part in it.
fn advance_with_user(
    context: &Context<impl Host>,
    options: &Options,
    session: BucketId<'_>,
    user: &str,
    job: &Job<'_>,
) -> Progress {
    if session.kind != BucketKind::Session || !is_session(user) {
        return unknown(job);
    }
    let Some(basis) = Checkpoint::parse(job.state) else { return unreadable_state(job) };
    let done = match job.name {
        index_passages::TASK => copy_to_user(context, options, session, user, job, basis),
        index_passages::RESET => reset_copies(context, session, user),
        embed::TASK => embed_passages(context, options, session, Some(user), job, basis),
        _ => return unknown(job),
    };
    done.unwrap_or_else(failed)
}

fn failed(failure: Failure) -> Progress {
    Progress::failed(failure.code.as_str(), failure.sentence())
}

fn unknown(job: &Job<'_>) -> Progress {
    let message =
        format!("There is no deferred work called {} for {}", python_repr(job.name), python_repr(job.subject));
    Progress::failed(FailureCode::Unsupported.as_str(), message)
}
