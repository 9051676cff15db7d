//! Dispatches a step to its task.

use crate::context::Context;
use crate::contract::{BucketId, Host, code, kind};
use crate::tasks::activity::record_activity;
use crate::tasks::checkpoint::Checkpoint;
use crate::tasks::copy_to_user::{copy_to_user, reset_copies};
use crate::tasks::embed::embed_passages;
use crate::tasks::generate_title::generate_title;
use crate::tasks::index_passages::{index_passages, reset_recall};
use crate::tasks::job::{Job, NeedResult, Progress};
use crate::tasks::retention::enforce_limits;
use crate::tasks::summarize::summarize_thread;
use crate::tasks::task::{TaskStep, unreadable_state};
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
        Some(("node", name)) => Some(BucketId { kind: kind::NODE, name }),
        Some(("user", name)) if job.name == activity::TASK => Some(BucketId { kind: kind::USER, name }),
        _ => None,
    };
    let (Some(options), Some(bucket)) = (&context.config.conversation, bucket.filter(|bucket| is_session(bucket.name)))
    else {
        return unknown(job);
    };
    if user.is_some_and(|user| bucket.kind != kind::SESSION || !is_session(user)) {
        return unknown(job);
    }
    if bucket.kind == kind::USER {
        return record_activity(context, bucket, job).unwrap_or_else(Progress::from);
    }
    let Some(basis) = Checkpoint::parse(job.state) else { return unreadable_state(job) };
    let step = TaskStep { context, options, bucket, job: *job, basis };
    let done = match (job.name, user) {
        (summarize::TASK | generate_title::TASK | retention::TASK, None)
            if matches!(job.result, Some(NeedResult::Failed(_))) =>
        {
            step.give_up()
        }
        (summarize::TASK, None) => summarize_thread(step),
        (generate_title::TASK, None) => generate_title(step),
        (retention::TASK, None) => enforce_limits(step),
        (index_passages::TASK, None) => index_passages(step),
        (index_passages::TASK, Some(user)) => copy_to_user(step, user),
        (index_passages::RESET, None) => reset_recall(step),
        (index_passages::RESET, Some(user)) => reset_copies(context, bucket, user),
        (embed::TASK, user) => embed_passages(step, user),
        _ => return unknown(job),
    };
    done.unwrap_or_else(Progress::from)
}

fn unknown(job: &Job<'_>) -> Progress {
    let message =
        format!("There is no deferred work called {} for {}", python_repr(job.name), python_repr(job.subject));
    Progress::failed(code::UNSUPPORTED, message)
}
