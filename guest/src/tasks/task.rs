//! Names tasks, and reads and writes under their leases.

use crate::context::Context;
use crate::contract::{
    BucketId, Expectation, Failure, FailureCode, Host, LeaseState, Operation, Outcome, Receipt, Status, Transaction,
};
use crate::entry::types::Task;
use crate::store;
use crate::store::Outcomes;
use crate::tasks::checkpoint::Checkpoint;
use crate::tasks::job::{Job, Progress, Step};
use crate::text::quoting::python_repr;

/// A task about a life of a bucket.
pub(crate) fn incarnation_task(bucket: BucketId<'_>, name: &str, incarnation: &str) -> Task {
    Task { state: initial_state(incarnation), ..bare_task(bucket, name) }
}

/// Of a task about a life of a bucket, of which nothing else is known.
pub(crate) fn initial_state(incarnation: &str) -> String {
    Checkpoint { incarnation: incarnation.to_owned(), ..Checkpoint::default() }.write()
}

/// A task about a bucket, in whichever life.
pub(crate) fn bare_task(bucket: BucketId<'_>, name: &str) -> Task {
    Task { subject: task_subject(bucket), name: name.to_owned(), state: String::new() }
}

/// What a task about a bucket is about.
pub(crate) fn task_subject(bucket: BucketId<'_>) -> String {
    [bucket.kind.as_str(), "/", bucket.name].concat()
}

/// The same of a task that takes two.
pub(crate) fn paired_task_subject(bucket: BucketId<'_>, other: BucketId<'_>) -> String {
    [&*task_subject(bucket), " ", &task_subject(other)].concat()
}

/// Everything stays as it was, and the next one need not wait for the lease to run out.
pub(crate) fn release_lease(
    context: &Context<impl Host>,
    bucket: BucketId<'_>,
    job: &Job<'_>,
    basis: &Checkpoint,
) -> Result<Progress, Failure> {
    write_back(context, bucket, job, basis, &[], &[])?;
    Ok(Progress::failed(FailureCode::Other.as_str(), "What the task needs was not available".to_owned()))
}

/// Read what a step is about, under the task's lease: for as long as a step may take. (Stores without leases rely on
/// what is expected.) `Err`: what becomes of the step without it.
pub(crate) fn read_leased<'a>(
    context: &Context<impl Host>,
    bucket: BucketId<'_>,
    job: &Job<'a>,
    basis: &mut Checkpoint,
    operations: &[Operation<'a>],
) -> Result<Result<Outcomes, Progress>, Failure> {
    Ok(lease_and_read(context, bucket, job, basis, operations, None)?.map(|(outcomes, _)| outcomes))
}

/// The same, and what another transaction reads in the same wait.
pub(crate) fn read_leased_beside<'a>(
    context: &Context<impl Host>,
    bucket: BucketId<'_>,
    job: &Job<'a>,
    basis: &mut Checkpoint,
    operations: &[Operation<'a>],
    beside: &Transaction<'_>,
) -> Result<Result<(Outcomes, Receipt), Progress>, Failure> {
    match lease_and_read(context, bucket, job, basis, operations, Some(beside))? {
        Ok((outcomes, Some(receipt))) => Ok(Ok((outcomes, receipt))),
        Ok((_, None)) => Err(Failure::out_of_turn()),
        Err(progress) => Ok(Err(progress)),
    }
}

fn lease_and_read<'a>(
    context: &Context<impl Host>,
    bucket: BucketId<'_>,
    job: &Job<'a>,
    basis: &mut Checkpoint,
    operations: &[Operation<'a>],
    beside: Option<&Transaction<'_>>,
) -> Result<Result<(Outcomes, Option<Receipt>), Progress>, Failure> {
    let lease = lease_operation(context, job, job.lease_milliseconds.max(1));
    let mut operations = operations.to_vec();
    operations.extend(lease);
    let transaction = Transaction { bucket, opening: basis.opening(), expectations: &[], operations: &operations };
    let (mut receipt, other) = match beside {
        None => (store::transact(&context.host, &transaction)?, None),
        Some(beside) => {
            let mut receipts = store::transact_each(&context.host, &[transaction, *beside]).into_iter();
            let mut next = || receipts.next().unwrap_or_else(|| Err(Failure::out_of_turn()));
            (next()?, Some(next()?))
        }
    };
    if !receipt.is_applied() {
        return Ok(Err(Progress::of(Step::Ended)));
    }
    basis.bind_incarnation(&receipt);
    let is_held = |outcome| matches!(outcome, Outcome::Lease(LeaseState { held: true, .. }));
    if lease.is_some() && !receipt.outcomes.pop().is_some_and(is_held) {
        return Ok(Err(Progress::of(Step::Taken)));
    }
    Ok(Ok((Outcomes::of(receipt), other)))
}

/// Write what came of a task, if what it was based on is as it was, and give its lease back, whether it was or not.
pub(crate) fn write_back(
    context: &Context<impl Host>,
    bucket: BucketId<'_>,
    job: &Job<'_>,
    basis: &Checkpoint,
    expectations: &[Expectation<'_>],
    operations: &[Operation<'_>],
) -> Result<Step, Failure> {
    let mut operations = operations.to_vec();
    operations.extend(lease_operation(context, job, 0));
    if operations.is_empty() {
        return Ok(Step::Done);
    }
    let opening = basis.opening();
    let status =
        store::transact(&context.host, &Transaction { bucket, opening, expectations, operations: &operations })?;
    Ok(match status.status {
        Status::Applied | Status::Repeated => Step::Done,
        Status::Unmet => {
            // Nothing was written, the lease's end neither. That of another holder stays as it is.
            write_back(context, bucket, job, basis, &[], &[])?;
            Step::Taken
        }
        _ => Step::Ended,
    })
}

pub(crate) fn lease_operation<'a>(
    context: &Context<impl Host>,
    job: &Job<'a>,
    milliseconds: u64,
) -> Option<Operation<'a>> {
    let (lease, holder) = (job.name, job.holder);
    context.host.capabilities().leases.then_some(Operation::lease(lease, holder, milliseconds))
}

pub(crate) fn unreadable_state(job: &Job<'_>) -> Progress {
    Progress::failed("invalid", format!("The state of task {} can't be read", python_repr(job.name)))
}
