//! Deferred work: what an answer makes due, and one step of it at a time.
//!
//! Promises that no step waits for a model: what is needed is returned, and the step after it gets what came of that. Each
//! write expects what the work was based on, and each step holds a lease, so that what others do meanwhile is neither lost
//! nor done twice; a task may be abandoned at any point. Refuses tasks that it does not know.

mod basis;
mod job;

pub(super) use basis::{Basis, unchanged};
pub use job::{CompletionNeed, Job, Need, NeedResult, Progress, Purpose, Step, Vector, VectorsNeed};

use super::options::Options;
use super::{activity, recall, retention, summary, title};
use crate::filter::{Filter, Task};
use crate::names::{self, is_session, repr};
use crate::reply::{self, Outcomes};
use crate::store::{
    Bucket, BucketKind, Expectation, Failure, FailureCode, Host, Operation, Outcome, Receipt, Status, Transaction,
};

/// A task about a life of a bucket.
pub(super) fn task(bucket: Bucket<'_>, name: &'static str, incarnation: &str) -> Task {
    Task { state: state(incarnation), ..bare_task(bucket, name) }
}

/// Of a task about a life of a bucket, of which nothing else is known.
pub(super) fn state(incarnation: &str) -> String {
    Basis { incarnation: incarnation.to_owned(), ..Basis::default() }.write()
}

/// A task about a bucket, in whichever life.
pub(super) fn bare_task(bucket: Bucket<'_>, name: &'static str) -> Task {
    Task { subject: subject(bucket), name, state: String::new() }
}

/// What a task about a bucket is about.
pub(super) fn subject(bucket: Bucket<'_>) -> String {
    let kind = match bucket.kind {
        BucketKind::Session => "session/",
        BucketKind::User => "user/",
        BucketKind::Node => "node/",
    };
    [kind, bucket.name].concat()
}

/// The same of a task that takes two.
pub(super) fn subject_of_two(bucket: Bucket<'_>, other: Bucket<'_>) -> String {
    [&*subject(bucket), " ", &subject(other)].concat()
}

impl<H: Host> Filter<H> {
    /// One step of deferred work: at most three waits for the store, and one more if others came in between.
    pub fn advance(&self, job: &Job<'_>) -> Progress {
        let (subject, user) = match names::split_once(job.subject, " user/") {
            Some((subject, user)) => (subject, Some(user)),
            None => (job.subject, None),
        };
        let bucket = match subject.split_once('/') {
            Some(("session", name)) => Some(Bucket::session(name)),
            Some(("node", name)) => Some(Bucket { kind: BucketKind::Node, name }),
            Some(("user", name)) if job.name == activity::TASK => Some(Bucket { kind: BucketKind::User, name }),
            _ => None,
        };
        let (Some(options), Some(bucket)) =
            (&self.config.conversation, bucket.filter(|bucket| is_session(bucket.name)))
        else {
            return unknown(job);
        };
        if let Some(user) = user {
            return self.advance_with(options, bucket, user, job);
        }
        if bucket.kind == BucketKind::User {
            return self.note_activity(bucket, job).unwrap_or_else(failed);
        }
        let Some(basis) = Basis::parse(job.state) else { return unreadable(job) };
        let done = match job.name {
            summary::TASK | title::TASK | retention::TASK if job.result == Some(&NeedResult::Failed) => {
                self.leave(bucket, job, &basis)
            }
            summary::TASK => self.summarize(options, bucket, job, basis),
            title::TASK => self.entitle(options, bucket, job, basis),
            retention::TASK => self.retain(options, bucket, job, basis),
            recall::keep::TASK => self.recollect(options, bucket, job, basis),
            recall::keep::RESET => self.reset_recall(bucket, job, basis),
            recall::vectors::TASK => self.embed(options, bucket, None, job, basis),
            _ => return unknown(job),
        };
        done.unwrap_or_else(failed)
    }

    /// The same where a user's bucket takes part in it.
    fn advance_with(&self, options: &Options, session: Bucket<'_>, user: &str, job: &Job<'_>) -> Progress {
        if session.kind != BucketKind::Session || !is_session(user) {
            return unknown(job);
        }
        let Some(basis) = Basis::parse(job.state) else { return unreadable(job) };
        let done = match job.name {
            recall::keep::TASK => self.post(options, session, user, job, basis),
            recall::keep::RESET => self.reset_posted(session, user),
            recall::vectors::TASK => self.embed(options, session, Some(user), job, basis),
            _ => return unknown(job),
        };
        done.unwrap_or_else(failed)
    }

    /// Everything stays as it was, and the next one need not wait for the lease to run out.
    pub(super) fn leave(&self, bucket: Bucket<'_>, job: &Job<'_>, basis: &Basis) -> Result<Progress, Failure> {
        self.write_back(bucket, job, basis, &[], &[])?;
        Ok(Progress::failed(FailureCode::Other.as_str(), "What the task needs was not available".to_owned()))
    }

    /// Read what a step is about, under the task's lease: for as long as a step may take. (Stores without leases rely on
    /// what is expected.) `Err`: what becomes of the step without it.
    pub(super) fn read_leased<'a>(
        &self,
        bucket: Bucket<'_>,
        job: &Job<'a>,
        basis: &mut Basis,
        operations: &[Operation<'a>],
    ) -> Result<Result<Outcomes, Progress>, Failure> {
        Ok(self.lease_and_read(bucket, job, basis, operations, None)?.map(|(outcomes, _)| outcomes))
    }

    /// The same, and what another transaction reads in the same wait.
    pub(super) fn read_leased_beside<'a>(
        &self,
        bucket: Bucket<'_>,
        job: &Job<'a>,
        basis: &mut Basis,
        operations: &[Operation<'a>],
        beside: &Transaction<'_>,
    ) -> Result<Result<(Outcomes, Receipt), Progress>, Failure> {
        match self.lease_and_read(bucket, job, basis, operations, Some(beside))? {
            Ok((outcomes, Some(receipt))) => Ok(Ok((outcomes, receipt))),
            Ok((_, None)) => Err(Failure::out_of_turn()),
            Err(progress) => Ok(Err(progress)),
        }
    }

    fn lease_and_read<'a>(
        &self,
        bucket: Bucket<'_>,
        job: &Job<'a>,
        basis: &mut Basis,
        operations: &[Operation<'a>],
        beside: Option<&Transaction<'_>>,
    ) -> Result<Result<(Outcomes, Option<Receipt>), Progress>, Failure> {
        let lease = self.lease(job, job.lease_milliseconds.max(1));
        let mut operations = operations.to_vec();
        operations.extend(lease);
        let transaction = Transaction { bucket, opening: basis.opening(), expectations: &[], operations: &operations };
        let (mut receipt, other) = match beside {
            None => (reply::transact(&self.host, &transaction)?, None),
            Some(beside) => {
                let mut receipts = reply::transact_each(&self.host, &[transaction, *beside]).into_iter();
                let mut next = || receipts.next().unwrap_or_else(|| Err(Failure::out_of_turn()));
                (next()?, Some(next()?))
            }
        };
        if !receipt.is_applied() {
            return Ok(Err(Progress::of(Step::Ended)));
        }
        basis.meet(&receipt);
        if lease.is_some() && receipt.outcomes.pop() != Some(Outcome::Lease(true)) {
            return Ok(Err(Progress::of(Step::Taken)));
        }
        Ok(Ok((Outcomes::of(receipt), other)))
    }

    /// Write what came of a task, if what it was based on is as it was, and give its lease back, whether it was or not.
    pub(super) fn write_back(
        &self,
        bucket: Bucket<'_>,
        job: &Job<'_>,
        basis: &Basis,
        expectations: &[Expectation<'_>],
        operations: &[Operation<'_>],
    ) -> Result<Step, Failure> {
        let mut operations = operations.to_vec();
        operations.extend(self.lease(job, 0));
        if operations.is_empty() {
            return Ok(Step::Done);
        }
        let opening = basis.opening();
        let status =
            reply::transact(&self.host, &Transaction { bucket, opening, expectations, operations: &operations })?;
        Ok(match status.status {
            Status::Applied | Status::Repeated => Step::Done,
            Status::Unmet => {
                // Nothing was written, the lease's end neither. That of another holder stays as it is.
                self.write_back(bucket, job, basis, &[], &[])?;
                Step::Taken
            }
            _ => Step::Ended,
        })
    }

    pub(super) fn lease<'a>(&self, job: &Job<'a>, milliseconds: u64) -> Option<Operation<'a>> {
        let (lease, holder) = (job.name, job.holder);
        self.host.capabilities().leases.then_some(Operation::Lease { lease, holder, milliseconds })
    }
}

fn failed(failure: Failure) -> Progress {
    Progress::failed(failure.code.as_str(), failure.sentence())
}

pub(super) fn unreadable(job: &Job<'_>) -> Progress {
    Progress::failed("invalid", format!("The state of task {} can't be read", repr(job.name)))
}

fn unknown(job: &Job<'_>) -> Progress {
    let message = format!("There is no deferred work called {} for {}", repr(job.name), repr(job.subject));
    Progress::failed(FailureCode::Unsupported.as_str(), message)
}
