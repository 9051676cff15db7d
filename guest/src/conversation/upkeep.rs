//! Deferred work: what an answer makes due, and one step of it at a time.
//!
//! Promises that no step waits for a model: what is needed is returned, and the step after it gets what came of that. Each
//! write expects what the work was based on, and each step holds a lease, so that what others do meanwhile is neither lost
//! nor done twice; a task may be abandoned at any point. Refuses tasks that it does not know.

use keepline_json::{self as json, push_string};

use super::options::Options;
use super::record::integer;
use super::{SESSION, activity, recall, retention, summary, title};
use crate::filter::{Filter, Problem, Task};
use crate::names::{self, is_session, repr};
use crate::reply::{self, Outcomes, is_incarnation};
use crate::store::{
    Bucket, BucketKind, Expectation, Failure, FailureCode, Host, Opening, Operation, Outcome, Receipt, Status,
    Transaction,
};

/// What a host that has a model is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A summary of what was said.
    Summary,
    /// A title for it.
    Title,
}

/// What is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// A text of a model's.
    Completion(CompletionNeed),
    /// Embeddings of texts.
    Vectors(VectorsNeed),
}

/// A completion that is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionNeed {
    /// Comes back with the result.
    pub id: u32,
    /// What for.
    pub purpose: Purpose,
    /// What the model is to do.
    pub instructions: String,
    /// What it is to do it with, quoted and fenced.
    pub input: String,
    /// Tokens of the result, at most.
    pub max_tokens: u32,
}

/// Embeddings that are needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorsNeed {
    /// Comes back with the result.
    pub id: u32,
    /// Of what, in order.
    pub texts: Vec<String>,
}

/// An embedding as a model has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vector {
    /// The model.
    pub model: String,
    /// Base64 of 32-bit little-endian floats.
    pub data: String,
}

/// What came of a need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NeedResult {
    /// The completion.
    Text(String),
    /// A vector for each text, in order, or for the first of them. Without data: the model refuses that text.
    Vectors(Vec<Vector>),
    /// The host has nobody to ask.
    Missing,
    /// The host could not get it this time.
    Failed,
}

/// A step of a task.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// `{kind}/{name}` of the bucket; of two with a blank between them, the lease is on the first.
    pub subject: &'a str,
    /// What is to be done.
    pub name: &'a str,
    /// As the last step left it.
    pub state: &'a str,
    /// Who works on it.
    pub holder: &'a str,
    /// How long a step's lease has to last.
    pub lease_milliseconds: u64,
    /// What the last step needed; none at the first.
    pub result: Option<&'a NeedResult>,
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Get what is needed, then go on.
    Needs,
    /// Go on whenever it suits.
    Again,
    /// There is no more to do.
    Done,
    /// Somebody else is at work on it, or has done it.
    Taken,
    /// The bucket is gone.
    Ended,
    /// It will be due again.
    Failed,
}

/// What became of a step, and what is needed for the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What became of it.
    pub step: Step,
    /// The task's new state; none: as it was.
    pub state: Option<String>,
    /// What is needed.
    pub need: Option<Need>,
    /// Why it failed.
    pub problem: Option<Problem>,
}

impl Progress {
    pub(super) fn of(step: Step) -> Self {
        Self { step, state: None, need: None, problem: None }
    }

    pub(super) fn needs(state: String, need: Need) -> Self {
        Self { state: Some(state), need: Some(need), ..Self::of(Step::Needs) }
    }

    pub(super) fn failed(code: &'static str, message: String) -> Self {
        Self { problem: Some(Problem { code, message }), ..Self::of(Step::Failed) }
    }
}

/// The state of a task: what its next write expects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Basis {
    pub incarnation: String,
    /// The entry that is to be replaced, as it was; none: there was none.
    pub before: Option<String>,
    /// Which state of the messages it is made of.
    pub revision: Option<String>,
    /// The last position that was looked at, and what the thread weighs up to there.
    pub to: u64,
    pub total: u64,
    /// What is stored if no model helps.
    pub fallback: String,
    /// Tokens of what is stored, at most.
    pub max_tokens: u64,
    pub is_low_trust: bool,
}

impl Basis {
    pub(super) fn write(&self) -> String {
        let mut out = String::from("{\"i\":");
        push_string(&mut out, &self.incarnation);
        let texts = [("b", self.before.as_deref()), ("r", self.revision.as_deref()), ("f", Some(&*self.fallback))];
        for (name, text) in texts {
            if let Some(text) = text.filter(|_| name != "f" || !self.fallback.is_empty()) {
                out.push_str(",\"");
                out.push_str(name);
                out.push_str("\":");
                push_string(&mut out, text);
            }
        }
        let low = u64::from(self.is_low_trust);
        for (name, count) in [("t", self.to), ("w", self.total), ("m", self.max_tokens), ("l", low)] {
            if count > 0 {
                out.push_str(",\"");
                out.push_str(name);
                out.push_str("\":");
                json::push_number(&mut out, count);
            }
        }
        out.push('}');
        super::state::ascii(&out)
    }

    /// Of an empty text: nothing is expected yet, whichever life the bucket has.
    fn parse(text: &str) -> Option<Self> {
        let mut basis = Self::default();
        if text.is_empty() {
            return Some(basis);
        }
        json::members(text, |key, raw| {
            let text = || json::string(raw).unwrap_or_default().into_owned();
            match key.trim_matches('"') {
                "i" => basis.incarnation = text(),
                "b" => basis.before = Some(text()),
                "r" => basis.revision = Some(text()),
                "f" => basis.fallback = text(),
                "t" => basis.to = integer(raw).unwrap_or(0),
                "w" => basis.total = integer(raw).unwrap_or(0),
                "m" => basis.max_tokens = integer(raw).unwrap_or(0),
                "l" => basis.is_low_trust = raw == "1",
                _ => {}
            }
        })?;
        (basis.incarnation.is_empty() || is_incarnation(&basis.incarnation)).then_some(basis)
    }

    /// The bucket is the one that the task is about; to look after it is no use of it.
    fn opening(&self) -> Opening<'_> {
        Opening::life(&self.incarnation)
    }

    /// From here on it is about the life that the first step met.
    fn meet(&mut self, receipt: &Receipt) {
        if self.incarnation.is_empty() {
            self.incarnation.clone_from(&receipt.incarnation);
        }
    }

    /// The entry, and the messages, are as they were.
    pub(super) fn unchanged<'a>(&'a self, key: &'a str) -> [Expectation<'a>; 2] {
        [unchanged(key, self.before.as_deref()), unchanged(super::REVISION, self.revision.as_deref())]
    }
}

/// What there is once is as it was.
pub(super) fn unchanged<'a>(key: &'a str, text: Option<&'a str>) -> Expectation<'a> {
    match text {
        Some(text) => Expectation::Equal { map: SESSION, key, text },
        None => Expectation::Absent { map: SESSION, key },
    }
}

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
    /// One step of deferred work: at most three waits for the store.
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

    /// Write what came of a task, if what it was based on is as it was, and give its lease back.
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
            Status::Unmet => Step::Taken,
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
