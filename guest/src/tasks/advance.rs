//! Dispatches a step to its task.

use crate::context::Context;
use crate::contract::{BucketId, Host, codes, kind};
use crate::entry::types::TaskBucket;
use crate::tasks::activity::record_activity;
use crate::tasks::checkpoint::Checkpoint;
use crate::tasks::copy_to_user::{copy_to_user, reset_copies};
use crate::tasks::embed::embed_passages;
use crate::tasks::generate_title::generate_title;
use crate::tasks::index_passages::{index_passages, reset_recall};
use crate::tasks::job::{Job, NeedOutcome, NeedResult, Progress};
use crate::tasks::retention::enforce_limits;
use crate::tasks::summarize::summarize_thread;
use crate::tasks::task::{NEED_ID, TaskStep, unreadable_state};
use crate::tasks::{activity, embed, generate_title, index_passages, retention, summarize};
use crate::text;
use crate::text::ids::is_session;
use crate::text::quoting::python_repr;

/// One step of deferred work: at most three waits for the store, and one more if others came in between.
pub fn advance_task(context: &Context<impl Host>, job: &Job<'_>) -> Progress {
    let (Some(options), Some((bucket, user))) = (&context.config.conversation, named_buckets(job)) else {
        return unknown(job);
    };
    if bucket.kind == kind::USER {
        let refused = (!job.results.is_empty()).then(|| unasked_result(job));
        return refused.unwrap_or_else(|| record_activity(context, bucket, job).unwrap_or_else(Progress::from));
    }
    let Some(basis) = Checkpoint::parse(job.state) else { return unreadable_state(job) };
    let (result, is_asked) = match job.results {
        [] => (None, true),
        [NeedResult { id: NEED_ID, outcome }] => (Some(outcome), basis.has_need && is_of_kind(job.name, outcome)),
        _ => (None, false),
    };
    let step = TaskStep { context, options, bucket, job: *job, result, basis };
    let done = match (job.name, user) {
        // The next holder need not wait for the lease to run out.
        _ if !is_asked => step.finish().map(|_| unasked_result(job)),
        (summarize::TASK | generate_title::TASK, None) if matches!(result, Some(NeedOutcome::Failed(_))) => {
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

/// The bucket that a task is about, and the user of a session's task that takes both. None: no task is about these.
fn named_buckets<'a>(job: &Job<'a>) -> Option<(BucketId<'a>, Option<&'a str>)> {
    let (first, user) = match job.buckets {
        [first] => (first, None),
        [first, user] if first.kind == kind::SESSION && user.kind == kind::USER => (first, Some(&*user.name)),
        _ => return None,
    };
    let is_taken = match &*first.kind {
        kind::SESSION | kind::NODE => true,
        kind::USER => job.name == activity::TASK,
        _ => false,
    };
    let are_names = is_taken && is_session(&first.name) && user.is_none_or(is_session);
    are_names.then_some((BucketId { kind: &first.kind, name: &first.name }, user))
}

fn unknown(job: &Job<'_>) -> Progress {
    let buckets: Vec<String> =
        job.buckets.iter().map(|TaskBucket { kind, name }| [&**kind, " ", &python_repr(name)].concat()).collect();
    let buckets = text::join(&buckets, ", ");
    Progress::failed(codes::UNSUPPORTED, format!("There is no task called {} for {buckets}", python_repr(job.name)))
}

/// Whether a result is what a task asks for: a text or vectors. Without either, it may be missing or have failed.
fn is_of_kind(task: &str, outcome: &NeedOutcome) -> bool {
    match outcome {
        NeedOutcome::Text(_) => matches!(task, summarize::TASK | generate_title::TASK),
        NeedOutcome::Vectors(_) => task == embed::TASK,
        NeedOutcome::Missing(_) | NeedOutcome::Failed(_) => true,
    }
}

fn unasked_result(job: &Job<'_>) -> Progress {
    let results: Vec<String> = job
        .results
        .iter()
        .map(|NeedResult { id, outcome }| {
            let kind = match outcome {
                NeedOutcome::Text(_) => "text",
                NeedOutcome::Vectors(_) => "vectors",
                NeedOutcome::Missing(_) => "missing",
                NeedOutcome::Failed(_) => "failed",
            };
            format!("{id} ({kind})")
        })
        .collect();
    let message =
        ["Task ", &*python_repr(job.name), " did not ask for the results ", &text::join(&results, ", ")].concat();
    Progress::failed(codes::INVALID, message)
}
