//! Names tasks, and takes their steps: each reads and writes under its task's lease.

use crate::context::Context;
use crate::contract::{
    BucketId, Expectation, Host, IndexStep, IndexedReceipt, IndexedTransaction, LeaseRequest, Operation, Problem,
    Receipt, Status, Transaction, codes,
};
use crate::entry::types::{Task, TaskBucket};
use crate::options::conversation::Options;
use crate::store;
use crate::store::Outcomes;
use crate::tasks::checkpoint::Checkpoint;
use crate::tasks::job::{Job, Need, NeedOutcome, Progress, Step};
use crate::text::quoting::python_repr;

/// A task about a life of a bucket.
pub(crate) fn generation_task(bucket: BucketId<'_>, name: &str, generation: &str) -> Task {
    Task { state: initial_state(generation), ..bare_task(bucket, name) }
}

/// Of a task about a life of a bucket, of which nothing else is known.
pub(crate) fn initial_state(generation: &str) -> String {
    Checkpoint { generation: generation.to_owned(), ..Checkpoint::default() }.write()
}

/// A task about a bucket, in whichever life.
pub(crate) fn bare_task(bucket: BucketId<'_>, name: &str) -> Task {
    Task { buckets: vec![task_bucket(bucket)], name: name.to_owned(), state: String::new() }
}

/// A bucket as tasks name it.
pub(crate) fn task_bucket(bucket: BucketId<'_>) -> TaskBucket {
    TaskBucket { kind: bucket.kind.to_owned(), name: bucket.name.to_owned() }
}

/// The id of what a step needs. No step needs more than one thing.
pub(crate) const NEED_ID: u32 = 1;

/// A step of a task, on a bucket.
pub(crate) struct TaskStep<'a, H> {
    pub context: &'a Context<H>,
    pub options: &'a Options,
    pub bucket: BucketId<'a>,
    pub job: Job<'a>,
    /// What the last step needed; none at the first.
    pub result: Option<&'a NeedOutcome>,
    /// What the steps before it have found out.
    pub basis: Checkpoint,
}

/// What a step comes to. `Err`: it ends before it comes to that.
pub(crate) type StepResult<T = Progress> = Result<T, StepEnd>;

/// Why a step ends.
pub(crate) enum StepEnd {
    /// The bucket is gone, or somebody else is at work.
    Step(Step),
    Failed(Box<Problem>),
}

impl From<Box<Problem>> for StepEnd {
    fn from(failure: Box<Problem>) -> Self {
        Self::Failed(failure)
    }
}

impl From<StepEnd> for Progress {
    fn from(end: StepEnd) -> Self {
        match end {
            StepEnd::Step(step) => Self::of(step),
            StepEnd::Failed(failure) => Self::failed(&failure.code, failure.message),
        }
    }
}

impl<H: Host> TaskStep<'_, H> {
    /// Reads what the step is about, under the task's lease: for as long as a step may take. (Stores without leases rely on
    /// what is expected.)
    pub(crate) fn read(&mut self, operations: &[Operation<'_>]) -> StepResult<Outcomes> {
        let receipt = store::transact_indexed(&self.context.host, &self.leased(operations))?;
        self.take_outcomes(receipt)
    }

    /// The same, and what another transaction reads in the same wait.
    pub(crate) fn read_beside(
        &mut self,
        operations: &[Operation<'_>],
        beside: Transaction<'_>,
    ) -> StepResult<(Outcomes, Receipt)> {
        let receipts = store::transact_each(&self.context.host, &[self.leased(operations), beside.into()]);
        let mut receipts = receipts.into_iter();
        let mut next = || receipts.next().unwrap_or_else(|| Err(Problem::out_of_turn()));
        let (receipt, other) = (next()?, next()?);
        Ok((self.take_outcomes(receipt)?, other.receipt))
    }

    /// Reads more of the life that the step is about.
    pub(crate) fn read_more(&self, operations: &[Operation<'_>]) -> StepResult<Outcomes> {
        let found = store::read_bucket(&self.context.host, self.bucket, self.basis.precondition(), operations)?;
        found.ok_or(StepEnd::Step(Step::Ended))
    }

    /// Writes what came of a task, if what it was based on is as it was, and gives its lease back, whether it was or not.
    pub(crate) fn write(
        &self,
        expectations: &[Expectation<'_>],
        operations: &[Operation<'_>],
    ) -> Result<Step, Box<Problem>> {
        self.write_indexed(expectations, operations, &[])
    }

    /// The same, and steps of an index.
    pub(crate) fn write_indexed(
        &self,
        expectations: &[Expectation<'_>],
        operations: &[Operation<'_>],
        steps: &[IndexStep<'_>],
    ) -> Result<Step, Box<Problem>> {
        let lease = self.lease(0);
        if operations.is_empty() && steps.is_empty() && lease.is_none() {
            return Ok(Step::Done);
        }
        let transaction = self.transaction(expectations, operations);
        let written = store::transact_indexed(&self.context.host, &IndexedTransaction { lease, transaction, steps })?;
        Ok(match written.receipt.status {
            Status::Applied | Status::Repeated => Step::Done,
            Status::Unmet => {
                // Nothing was written, the lease's end neither. That of another holder stays as it is.
                self.write(&[], &[])?;
                Step::Taken
            }
            _ => Step::Ended,
        })
    }

    /// There is nothing to do, or no more: gives the lease back.
    pub(crate) fn finish(&self) -> StepResult {
        Ok(Progress::of(self.write(&[], &[])?))
    }

    /// Everything stays as it was, and the next one need not wait for the lease to run out.
    pub(crate) fn give_up(&self) -> StepResult {
        self.write(&[], &[])?;
        Ok(Progress::failed(codes::OTHER, "What the task needs was not available".to_owned()))
    }

    /// The step is done; what comes after it knows the life of the bucket, and nothing else.
    pub(crate) fn begin_anew(&self, step: Step) -> Progress {
        Progress { state: Some(initial_state(&self.basis.generation)), ..Progress::of(step) }
    }

    /// The next step goes on with what was found out, and with what it needs.
    pub(crate) fn need(&mut self, need: Need) -> Progress {
        self.basis.has_need = true;
        Progress { state: Some(self.basis.write()), need: Some(need), ..Progress::of(Step::Needs) }
    }

    /// The task's lease for so long, if the store has leases.
    pub(crate) fn lease(&self, milliseconds: u64) -> Option<LeaseRequest<'_>> {
        let Job { name, holder, .. } = self.job;
        self.context.host.store_profile().leases.then_some(LeaseRequest { name, holder, milliseconds })
    }

    fn leased<'t>(&'t self, operations: &'t [Operation<'t>]) -> IndexedTransaction<'t> {
        let lease = self.lease(self.job.lease_milliseconds.max(1));
        IndexedTransaction { lease, transaction: self.transaction(&[], operations), steps: &[] }
    }

    fn transaction<'t>(
        &'t self,
        expectations: &'t [Expectation<'t>],
        operations: &'t [Operation<'t>],
    ) -> Transaction<'t> {
        Transaction { bucket: self.bucket, precondition: self.basis.precondition(), expectations, operations }
    }

    /// From here on the step is about the life that it met. What was read, if the lease is held.
    fn take_outcomes(&mut self, reply: IndexedReceipt) -> StepResult<Outcomes> {
        if !reply.receipt.is_applied() {
            return Err(StepEnd::Step(Step::Ended));
        }
        if self.basis.generation.is_empty() {
            reply.receipt.named_generation().clone_into(&mut self.basis.generation);
        }
        if reply.lease.as_ref().is_some_and(|lease| !lease.held) {
            return Err(StepEnd::Step(Step::Taken));
        }
        Ok(Outcomes::of_indexed(reply))
    }
}

pub(crate) fn unreadable_state(job: &Job<'_>) -> Progress {
    Progress::failed("invalid", format!("The state of task {} can't be read", python_repr(job.name)))
}
