//! Runs tasks in the background, or inline.
//!
//! Promises that tasks of one subject are done one after another, in this process and, by the lease that each step
//! holds in the store, among processes; that the numbers of accepted and of running tasks are bounded; and that a task
//! which fails, hangs or is abandoned leaves everything as it was. Nothing is persisted: a dropped task is due again at
//! the next answer of its session.

use std::{
    collections::HashMap,
    future::poll_fn,
    mem,
    sync::{Arc, Weak},
    task::{Poll, ready},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{Mutex as Gate, MutexGuard, Semaphore, SemaphorePermit},
    task::JoinSet,
    time::timeout,
};

use super::{
    Archive, CompletionNeed, Job, MaintenanceCounters, MaintenanceOptions, Model, ModelError, Need, NeedOutcome,
    NeedResult, Outcome, Step, Task, VectorsNeed,
    backoff::Backoff,
    queue::{EnqueueOutcome, Queue, TaskQueueKey, queue_key},
};
use crate::{
    entry::{Problem, ProblemCode},
    keepline::Keepline,
    logging::{LogLevel, MAX_MESSAGE, make_printable},
    runtime::{MemoryReservation, task_subject},
};

/// Steps of one task. The bundled filter's need three, and one more for each thousand records that go.
const MAX_STEPS: usize = 1000;
/// Completions for one task: a model costs, and a plugin is not trusted with that. The bundled filter asks for one.
const MAX_COMPLETIONS: usize = 16;
/// Calls for embeddings of one task. The bundled filter's asks for 64 texts at a time.
const MAX_EMBEDDINGS: usize = 512;
/// And of all texts that it has embedded: how many, and bytes, twice what an entry may copy.
const MAX_TEXTS: usize = 65_536;
const MAX_EMBEDDED: usize = 64 << 20;
/// And of all prompts, bytes. The bundled filter's summary has one of at most some 5 MiB.
const MAX_PROMPTED: usize = 16 << 20;
/// What an embedding may hold: 4096 floats in base64.
const VECTOR: usize = 4096 * 4 / 3 * 4;
/// And of each completion, tokens that are asked for, and bytes that are taken.
const MAX_TOKENS: u32 = 16_384;
const MAX_TEXT: usize = 1 << 20;
/// The bundled filter's task that removes what was said, from its second step on.
const RETENTION: &str = "retention";
/// The code of a model's failures.
const MODEL: &str = "model";

/// Does deferred work for a [`Keepline`]. Cheap to clone; one for each store is enough.
///
/// Answers name what has become due ([`Passed::due`](crate::Passed::due)): hand it to [`Self::submit`] once the answer was sent on.
/// Who can't have work done in the background awaits [`Self::run`] for each task instead, whenever it suits.
#[derive(Clone)]
pub struct Maintenance {
    inner: Arc<MaintenanceInner>,
}

struct MaintenanceInner {
    keepline: Keepline,
    model: Arc<dyn Model>,
    options: MaintenanceOptions,
    runtime: Handle,
    places: Semaphore,
    state: Mutex<RunnerState>,
}

#[derive(Default)]
struct RunnerState {
    is_closed: bool,
    tasks: JoinSet<()>,
    queue: Queue,
    backoff: Backoff,
    /// Per subject with a task at work or waiting.
    gates: HashMap<String, Weak<Gate<()>>>,
    counters: MaintenanceCounters,
}

impl Maintenance {
    /// Nothing is done yet. Background tasks run on that runtime: with one of its own, they never take time of the
    /// threads that entries pass on.
    pub fn new(keepline: Keepline, model: Arc<dyn Model>, options: MaintenanceOptions, runtime: Handle) -> Self {
        let places = Semaphore::new(options.concurrency.clamp(1, Semaphore::MAX_PERMITS));
        let state = Mutex::default();
        Self { inner: Arc::new(MaintenanceInner { keepline, model, options, runtime, places, state }) }
    }

    /// Has these tasks done in the background, and returns at once. One that the model has failed more than once in a row
    /// is not taken before its time has come, which grows to an hour. One that waits already is done once, as it was named
    /// last; one that is too many, or comes after the [end](Self::shutdown), is dropped and counted.
    pub fn submit(&self, due: impl IntoIterator<Item = Task>) {
        for task in due {
            self.inner.submit_task(task);
        }
    }

    /// Does a task now, when it is its turn: at most [`MaintenanceOptions::model_timeout`] for each thing that it needs,
    /// and the time of the store. A call that is dropped abandons the task.
    pub async fn run(&self, task: Task) -> Outcome {
        let subject = self.inner.subject_gate(&task_subject(&task));
        let _turn = self.inner.wait_for_turn(&subject).await;
        self.inner.work_counted(task).await
    }

    /// Tasks that wait or are at work in the background.
    pub fn pending(&self) -> usize {
        self.inner.state.lock().queue.len()
    }

    /// What has become of tasks so far.
    pub fn counters(&self) -> MaintenanceCounters {
        self.inner.state.lock().counters
    }

    /// Takes no more tasks in the background, finishes those that were taken, and abandons what is left after that time;
    /// returns how many that were. A call that is dropped leaves the rest at work.
    pub async fn shutdown(&self, grace: Duration) -> usize {
        self.inner.state.lock().is_closed = true;
        // Whatever is left then, how much it was is counted below.
        _ = timeout(grace, self.inner.wait_until_idle()).await;
        let abandoned = {
            let mut state = self.inner.state.lock();
            state.tasks.abort_all();
            state.queue.len()
        };
        self.inner.wait_until_idle().await;
        // Those that no worker has begun.
        let mut state = self.inner.state.lock();
        state.counters.abandoned += mem::take(&mut state.queue).len() as u64;
        abandoned
    }
}

impl RunnerState {
    /// Drops what is left of tasks that are over.
    fn reap(&mut self) {
        while self.tasks.try_join_next().is_some() {}
    }
}

/// Who works on the tasks of a key, one after the other: what is left without it is abandoned.
struct TaskWorker<'a> {
    inner: &'a MaintenanceInner,
    key: &'a TaskQueueKey,
    is_at_work: bool,
    is_over: bool,
}

impl TaskWorker<'_> {
    /// The next task.
    fn begin_next_task(&mut self) -> Option<Task> {
        let task = self.inner.state.lock().queue.take_next(self.key);
        self.is_at_work = task.is_some();
        task
    }

    /// It is over. Whether there is another one.
    fn finish_task(&mut self) -> bool {
        self.is_at_work = false;
        self.is_over = !self.inner.state.lock().queue.finish_task(self.key);
        !self.is_over
    }
}

impl Drop for TaskWorker<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let mut state = self.inner.state.lock();
            state.counters.abandoned += state.queue.give_up(self.key, self.is_at_work) as u64;
        }
    }
}

/// Leave to work on a subject; the last one takes its gate along.
struct SubjectGate<'a> {
    inner: &'a MaintenanceInner,
    name: String,
    gate: Arc<Gate<()>>,
}

impl Drop for SubjectGate<'_> {
    fn drop(&mut self) {
        let mut state = self.inner.state.lock();
        // This one only.
        if Arc::strong_count(&self.gate) == 1 {
            state.gates.remove(&self.name);
        }
    }
}

impl MaintenanceInner {
    /// Until no task is left in the background.
    async fn wait_until_idle(&self) {
        poll_fn(|context| {
            let mut state = self.state.lock();
            while ready!(state.tasks.poll_join_next(context)).is_some() {}
            Poll::Ready(())
        })
        .await;
    }

    fn submit_task(self: &Arc<Self>, task: Task) {
        let mut state = self.state.lock();
        state.reap();
        if state.backoff.is_waiting(&queue_key(&task), Instant::now()) {
            return;
        }
        let most = if state.is_closed { 0 } else { self.options.max_tasks };
        let key = match state.queue.enqueue_task(task, most) {
            EnqueueOutcome::NeedsWorker(key) => key,
            EnqueueOutcome::QueuedBehind => return,
            EnqueueOutcome::Full => {
                state.counters.dropped += 1;
                return;
            }
        };
        let inner = self.clone();
        let work = async move {
            let mut worker = TaskWorker { inner: &inner, key: &key, is_at_work: false, is_over: false };
            loop {
                let subject = inner.subject_gate(&key.0);
                let _turn = inner.wait_for_turn(&subject).await;
                let Some(task) = worker.begin_next_task() else { break };
                let outcome = inner.work_counted(task).await;
                inner.remember_failure(&key, &outcome);
                if !worker.finish_task() {
                    break;
                }
            }
        };
        state.tasks.spawn_on(work, &self.runtime);
    }

    /// Waits for the subject to be free, and for one of the places for tasks at work.
    async fn wait_for_turn<'a>(
        &'a self,
        subject: &'a SubjectGate<'_>,
    ) -> (MutexGuard<'a, ()>, Option<SemaphorePermit<'a>>) {
        let gate = subject.gate.lock().await;
        // It is never closed.
        (gate, self.places.acquire().await.ok())
    }

    async fn work_counted(&self, task: Task) -> Outcome {
        let name = task.name.clone();
        let outcome = self.run_steps(task).await;
        self.state.lock().counters.count_outcome(&name, &outcome);
        outcome
    }

    /// A task that the model has failed again waits before it is tried once more: what comes of it may be paid for.
    fn remember_failure(&self, key: &TaskQueueKey, outcome: &Outcome) {
        let is_of_model = |problem: &Problem| matches!(&problem.code, ProblemCode::Other(code) if code == MODEL);
        let mut state = self.state.lock();
        match outcome {
            Outcome::Failed(problem) if is_of_model(problem) => {
                let pause = state.backoff.record_failure(key, Instant::now());
                drop(state);
                if !pause.is_zero() {
                    let (subject, name) = key;
                    let message = format!(
                        "deferred task {name} of {subject} has failed again: it waits for {} s",
                        pause.as_secs()
                    );
                    self.keepline.inner.log().log_from_host(LogLevel::Info, "keepline.maintenance", &message);
                }
            }
            Outcome::Done => state.backoff.record_success(key),
            _ => {}
        }
    }

    fn subject_gate(&self, name: &str) -> SubjectGate<'_> {
        // Of several buckets the first is the one that is worked on.
        let name = name.split(' ').next().unwrap_or(name);
        let mut state = self.state.lock();
        let gate = state.gates.get(name).and_then(Weak::upgrade).unwrap_or_default();
        state.gates.insert(name.to_owned(), Arc::downgrade(&gate));
        SubjectGate { inner: self, name: name.to_owned(), gate }
    }

    /// Step by step, to its end.
    async fn run_steps(&self, task: Task) -> Outcome {
        let (name, subject) = (task.name.clone(), task_subject(&task));
        // The store may take its time before and after the model.
        let lease = self.options.model_timeout.saturating_add(self.keepline.inner.entry_timeout.saturating_mul(2));
        let lease_milliseconds = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        let holder = format!("{:032x}", fastrand::u128(..));
        let mut job = Job { task, holder, lease_milliseconds, results: Vec::new() };
        let mut asked = TaskUsage::default();
        let mut archive = self.options.archive.as_ref().filter(|_| name == RETENTION);
        let (mut problem, mut is_plugins) = (None, false);
        for _ in 0..MAX_STEPS {
            let progress = self.keepline.advance(&job, None).await;
            job.task = progress.task;
            job.results = Vec::new();
            match progress.step {
                Step::Done => return Outcome::Done,
                Step::Taken => return Outcome::Taken,
                Step::Ended => return Outcome::Ended,
                Step::Again => {
                    // Before anything is removed, it is archived if there is an archive.
                    if let Some(archive) = archive.take()
                        && let Err(failed) = self.archive_subject(&**archive, &subject).await
                    {
                        problem = Some(self.report_failed_need(&mut job, 0, failed).await);
                        break;
                    }
                }
                Step::Needs => match self.fulfil_needs(progress.needs, &mut asked).await {
                    Ok(results) => job.results = results,
                    Err((id, failed)) => {
                        problem = Some(self.report_failed_need(&mut job, id, failed).await);
                        break;
                    }
                },
                Step::Failed => {
                    problem = progress.problem;
                    let is_hosts = |problem: &Problem| {
                        matches!(problem.code, ProblemCode::Busy | ProblemCode::Closed | ProblemCode::Plugin)
                    };
                    is_plugins = !problem.as_ref().is_some_and(is_hosts);
                    break;
                }
            }
        }
        let problem = problem.unwrap_or_else(|| match is_plugins {
            true => problem_of(ProblemCode::Other("failed".to_owned()), "it failed".to_owned()),
            false => limit_problem(format!("it was not finished after {MAX_STEPS} steps")),
        });
        let again = "it is tried again after the session's next answer";
        // The plugin's own words are logged as such.
        let message = if is_plugins {
            self.keepline.inner.log().log_from_plugin(LogLevel::Warn, "keepline.maintenance", &problem.to_string());
            format!("deferred task '{name}' of {subject} failed, as the plugin says; {again}")
        } else {
            format!("deferred task '{name}' of {subject} failed: {problem}; {again}")
        };
        self.keepline.inner.log().log_from_host(LogLevel::Warn, "keepline.maintenance", &message);
        Outcome::Failed(problem)
    }

    /// Tells the filter that a need could not be met, so that the next attempt need not wait for the lease to run out.
    async fn report_failed_need(&self, job: &mut Job, id: u32, failed: Problem) -> Problem {
        job.results = vec![NeedResult { id, outcome: NeedOutcome::Failed(failed.message.clone()) }];
        self.keepline.advance(job, None).await;
        failed
    }

    async fn archive_subject(&self, archive: &dyn Archive, subject: &str) -> Result<(), Problem> {
        let limit = self.options.model_timeout;
        let late = |_| format!("it was not archived within {} ms", limit.as_millis());
        let kept = timeout(limit, archive.keep(subject)).await.map_err(late).flatten();
        kept.map_err(|message| problem_of(ProblemCode::Other("archive".to_owned()), message))
    }

    /// All that a step needs, one after the other.
    async fn fulfil_needs(&self, needs: Vec<Need>, asked: &mut TaskUsage) -> Result<Vec<NeedResult>, (u32, Problem)> {
        // What is needed, and what comes of it, is held until the next step has it.
        asked.held = None;
        let room = needs.iter().map(room_of).fold(0, usize::saturating_add);
        asked.held = self.keepline.inner.pool.reserve_memory(room);
        if asked.held.is_none() {
            let id = needs.first().map_or(0, id_of_need);
            let message = format!(
                "there is no room for the {room} bytes of what it needs beside the plugin's instances \
                 (sandbox_pool_memory_bytes)"
            );
            return Err((id, problem_of(ProblemCode::Busy, message)));
        }
        let mut results = Vec::with_capacity(needs.len());
        for need in needs {
            let id = id_of_need(&need);
            let fulfilled = match need {
                Need::Completion(need) => self.complete(need, asked).await,
                Need::Vectors(need) => self.embed(need, asked).await,
                // A name of a later version of the contract, or of another plugin.
                Need::Call(need) => {
                    let message = format!("this host does not know the call '{}'", need.name);
                    Ok(NeedOutcome::Missing(message))
                }
            };
            results.push(NeedResult { id, outcome: fulfilled.map_err(|problem| (id, problem))? });
        }
        Ok(results)
    }

    async fn complete(&self, mut need: CompletionNeed, asked: &mut TaskUsage) -> Result<NeedOutcome, Problem> {
        asked.completions += 1;
        if asked.completions > MAX_COMPLETIONS {
            return Err(limit_problem(format!("it asked for more than {MAX_COMPLETIONS} completions")));
        }
        asked.prompted = asked.prompted.saturating_add(need.instructions.len() + need.input.len());
        if asked.prompted > MAX_PROMPTED {
            let message = format!("it asked for completions of more than {MAX_PROMPTED} bytes of prompts");
            return Err(limit_problem(message));
        }
        need.max_tokens = need.max_tokens.min(MAX_TOKENS);
        let limit = self.options.model_timeout;
        let late = |_| ModelError(format!("the model has not answered within {} ms", limit.as_millis()));
        match timeout(limit, self.model.complete(&need)).await.map_err(late).flatten() {
            Ok(Some(text)) if text.trim().is_empty() => Err(model_problem("the model's answer is blank".to_owned())),
            Ok(Some(text)) if text.len() > MAX_TEXT => {
                Err(model_problem(format!("the model's answer is longer than {MAX_TEXT} bytes")))
            }
            Ok(Some(text)) => Ok(NeedOutcome::Text(text)),
            Ok(None) => Ok(NeedOutcome::Missing("there is no model".to_owned())),
            Err(error) => Err(model_problem(error.0)),
        }
    }

    async fn embed(
        &self,
        VectorsNeed { texts, .. }: VectorsNeed,
        asked: &mut TaskUsage,
    ) -> Result<NeedOutcome, Problem> {
        asked.embeddings += 1;
        if asked.embeddings > MAX_EMBEDDINGS {
            return Err(limit_problem(format!("it asked for embeddings more than {MAX_EMBEDDINGS} times")));
        }
        asked.texts = asked.texts.saturating_add(texts.len());
        if asked.texts > MAX_TEXTS {
            return Err(limit_problem(format!("it asked for embeddings of more than {MAX_TEXTS} texts")));
        }
        let bytes = texts.iter().map(String::len).fold(0, usize::saturating_add);
        asked.embedded = asked.embedded.saturating_add(bytes);
        if asked.embedded > MAX_EMBEDDED {
            let message = format!("it asked for embeddings of more than {MAX_EMBEDDED} bytes of text");
            return Err(limit_problem(message));
        }
        let limit = self.options.model_timeout;
        let late = |_| ModelError(format!("the embedding model has not answered within {} ms", limit.as_millis()));
        match timeout(limit, self.keepline.embed(&texts)).await.map_err(late).flatten() {
            Ok(Some(vectors)) => Ok(NeedOutcome::Vectors(vectors)),
            Ok(None) => Ok(NeedOutcome::Missing("there is no embedding model".to_owned())),
            Err(error) => Err(model_problem(error.0)),
        }
    }
}

/// What a task has asked for so far.
#[derive(Default)]
struct TaskUsage {
    completions: usize,
    /// Bytes.
    prompted: usize,
    embeddings: usize,
    texts: usize,
    /// Bytes.
    embedded: usize,
    /// Of the pool's memory.
    held: Option<MemoryReservation>,
}

fn id_of_need(need: &Need) -> u32 {
    match need {
        Need::Completion(need) => need.id,
        Need::Vectors(need) => need.id,
        Need::Call(need) => need.id,
    }
}

/// The most that a need and its result may hold, bytes.
fn room_of(need: &Need) -> usize {
    match need {
        Need::Completion(need) => need.instructions.len() + need.input.len() + MAX_TEXT,
        Need::Call(need) => need.name.len() + need.input.len(),
        Need::Vectors(need) => {
            let bytes = need.texts.iter().map(String::len).fold(0, usize::saturating_add);
            bytes.saturating_add(need.texts.len().saturating_mul(VECTOR))
        }
    }
}

fn model_problem(message: String) -> Problem {
    problem_of(ProblemCode::Other(MODEL.to_owned()), message)
}

fn limit_problem(message: String) -> Problem {
    problem_of(ProblemCode::Limit, message)
}

fn problem_of(code: ProblemCode, mut message: String) -> Problem {
    make_printable(&mut message, MAX_MESSAGE);
    Problem { code, message }
}
