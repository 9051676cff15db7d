//! The pool: calls take warm instances and give them back.
//!
//! Instances hold no conversation, so any will do. There are as many as calls at one time, up to a bound;
//! beyond it calls wait in line, and the line is bounded too, in length and in time: memory must not be the
//! reason that a pipeline stands still. An instance that faulted is not given back, nor is one whose call was
//! abandoned half-way (a dropped future takes its instance with it, and leaves its place to the next). One that has
//! grown far beyond its start is given back to the system, not to the pool.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use super::{Due, Fault, Instance, Program, state::Lent};
use crate::contract::filter::{ConfigProblem, Configured};

/// How far a pool grows. See [`Options`](crate::Options).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) instances: u32,
    pub(crate) waiting: usize,
    pub(crate) wait: Duration,
}

/// Why a call gets no instance.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("all {} instances are busy and {} calls are already waiting", .0.instances, .0.waiting)]
    Full(Limits),
    #[error("no instance became free within {} ms", .0.as_millis())]
    Late(Duration),
    #[error("this Keepline has been shut down")]
    Closed,
    #[error(transparent)]
    Fault(#[from] Fault),
}

pub(crate) struct Pool {
    lent: Lent,
    /// What each new instance is configured with.
    options: String,
    limits: Limits,
    /// A permit for each instance that may be at work. First come, first served.
    places: Semaphore,
    waiting: AtomicUsize,
    is_closed: AtomicBool,
    /// As the current program told: asked with each entry.
    wants_turns: AtomicBool,
    current: Mutex<Current>,
}

/// What the program told of itself when it was configured.
#[derive(Clone)]
pub(crate) struct Told {
    /// The options in force: a JSON object.
    pub(crate) effective: Arc<str>,
    pub(crate) wants_vectors: bool,
    pub(crate) wants_tokens: bool,
    pub(crate) wants_turns: bool,
}

impl From<Configured> for Told {
    fn from(configured: Configured) -> Self {
        let Configured { effective, wants_vectors, wants_tokens, wants_turns } = configured;
        Self { effective: effective.into(), wants_vectors, wants_tokens, wants_turns }
    }
}

/// The program that new calls are served by.
struct Current {
    program: Program,
    version: u64,
    told: Told,
    idle: Idle,
}

/// An instance at work, and its place.
pub(crate) struct Taken<'a> {
    pub(crate) instance: Instance,
    version: u64,
    // Last, so that it is given up last: whoever waits for it finds the instance.
    _place: SemaphorePermit<'a>,
}

impl Pool {
    /// Makes the first instance and configures it.
    pub(crate) async fn new(
        program: Program,
        lent: Lent,
        options: String,
        limits: Limits,
        due: Due,
    ) -> Result<Result<Self, ConfigProblem>, Fault> {
        // More than any machine holds, and less than a semaphore does.
        let limits = Limits { instances: limits.instances.clamp(1, 1 << 20), ..limits };
        let (instance, told) = match first(&program, &lent, &options, due).await? {
            Ok(first) => first,
            Err(problem) => return Ok(Err(problem)),
        };
        let wants_turns = AtomicBool::new(told.wants_turns);
        let current = Current { program, version: 0, told, idle: Idle::of(instance) };
        Ok(Ok(Self {
            lent,
            options,
            limits,
            places: Semaphore::new(usize::try_from(limits.instances).unwrap_or(1)),
            waiting: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            wants_turns,
            current: Mutex::new(current),
        }))
    }

    /// An instance, at once if there can be one, else when it is this call's turn, if that comes by the deadline.
    pub(crate) async fn take(&self, due: &mut Due) -> Result<Taken<'_>, Refusal> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(Refusal::Closed);
        }
        // While anybody waits there is no permit to be had here: nobody jumps the queue.
        let place = match self.places.try_acquire() {
            Ok(place) => place,
            Err(_) => self.wait(due).await?,
        };
        let (program, version) = {
            let mut current = self.current.lock();
            if let Some(instance) = current.idle.take() {
                return Ok(Taken { instance, version: current.version, _place: place });
            }
            (current.program.clone(), current.version)
        };
        // It was accepted once: an instance that refuses its options now is one that can't be used.
        let instance = match first(&program, &self.lent, &self.options, *due).await? {
            Ok((instance, _)) => instance,
            Err(problem) => {
                let problem = format!("it rejects its own options: {}", problem.message);
                return Err(Fault::from(wasmtime::Error::msg(problem)).into());
            }
        };
        Ok(Taken { instance, version, _place: place })
    }

    async fn wait(&self, due: &mut Due) -> Result<SemaphorePermit<'_>, Refusal> {
        let _waiting = Waiting::begin(&self.waiting, self.limits.waiting).ok_or(Refusal::Full(self.limits))?;
        due.waited();
        let patience = due.deadline.left().map_or(self.limits.wait, |left| left.min(self.limits.wait));
        if patience.is_zero() {
            return Err(Refusal::Late(patience));
        }
        let place = timeout(patience, self.places.acquire()).await;
        place.map_err(|_| Refusal::Late(patience))?.map_err(|_| Refusal::Closed)
    }

    pub(crate) fn give_back(&self, taken: Taken<'_>) {
        let Taken { instance, version, _place } = taken;
        if instance.is_worn() || self.places.is_closed() {
            return retire(instance);
        }
        let mut current = self.current.lock();
        // That of a program that was replaced meanwhile has done its last call.
        let surplus = if version == current.version { current.idle.give_back(instance) } else { Some(instance) };
        drop(current);
        surplus.into_iter().for_each(retire);
    }

    /// New calls are served by this program from now on; those under way finish with the one they began with.
    pub(crate) async fn replace(&self, program: Program, due: Due) -> Result<Result<(), ConfigProblem>, Fault> {
        let (instance, told) = match first(&program, &self.lent, &self.options, due).await? {
            Ok(first) => first,
            Err(problem) => return Ok(Err(problem)),
        };
        let mut current = self.current.lock();
        self.wants_turns.store(told.wants_turns, Ordering::Relaxed);
        let version = current.version + 1;
        let replaced = std::mem::replace(&mut *current, Current { program, version, told, idle: Idle::of(instance) });
        drop(current);
        drop(replaced);
        Ok(Ok(()))
    }

    /// Takes no new calls, and gives those under way that long. Returns how many did not finish; those of
    /// them that still wait for an instance are refused.
    pub(crate) async fn shut_down(&self, limit: Duration) -> usize {
        self.is_closed.store(true, Ordering::Relaxed);
        // Behind all who wait: it is there when everybody has come and gone.
        let all = timeout(limit, self.places.acquire_many(self.limits.instances)).await;
        let unfinished = if matches!(all, Ok(Ok(_))) {
            0
        } else {
            let instances = usize::try_from(self.limits.instances).unwrap_or(1);
            let at_work = instances.saturating_sub(self.places.available_permits());
            at_work + self.waiting.load(Ordering::Relaxed)
        };
        // While all places are held: nobody slips in between.
        self.places.close();
        let idle = self.current.lock().idle.empty();
        drop(idle);
        unfinished
    }

    pub(crate) fn told(&self) -> Told {
        self.current.lock().told.clone()
    }

    #[cfg(test)]
    pub(crate) fn want_turns(&self) {
        self.wants_turns.store(true, Ordering::Relaxed);
    }

    pub(crate) fn wants_turns(&self) -> bool {
        self.wants_turns.load(Ordering::Relaxed)
    }

    /// How many instances are at work and at rest, and how many calls wait for one.
    pub(crate) fn gauges(&self) -> (usize, usize, usize) {
        let instances = usize::try_from(self.limits.instances).unwrap_or(1);
        let at_work = instances.saturating_sub(self.places.available_permits());
        (at_work, self.current.lock().idle.len(), self.waiting.load(Ordering::Relaxed))
    }

    pub(crate) fn lent(&self) -> &Lent {
        &self.lent
    }
}

/// An instance, configured, and what it told.
async fn first(
    program: &Program,
    lent: &Lent,
    options: &str,
    due: Due,
) -> Result<Result<(Instance, Told), ConfigProblem>, Fault> {
    let mut instance = Instance::new(program, lent.clone(), due).await?;
    let configured = instance.configure(options, lent.log.lowest_wanted(), due).await?;
    Ok(configured.map(|configured| (instance, configured.into())))
}

/// To unmap an instance takes a while, the longer the larger it is: nobody waits for that whose entry is done.
fn retire(instance: Instance) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn_blocking(move || drop(instance));
    }
}

/// One who waits in line; leaves it when dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(waiting: &'a AtomicUsize, most: usize) -> Option<Self> {
        let one_more = |waiting| (waiting < most).then_some(waiting + 1);
        waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Self(waiting))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Instances at rest. The one that came last is taken first, so that those which are not needed collect at
/// the other end, where they are dropped, one a call.
struct Idle {
    instances: VecDeque<Instance>,
    /// Calls since the last look at what was needed.
    calls: u32,
    /// The fewest that were at rest at one time since: as many were not needed.
    fewest: usize,
    /// How many are to be dropped.
    surplus: usize,
}

impl Idle {
    /// Calls in which an instance that none of them needs is found out.
    const PERIOD: u32 = 1000;

    fn of(instance: Instance) -> Self {
        Self { instances: VecDeque::from([instance]), calls: 0, fewest: 0, surplus: 0 }
    }

    fn len(&self) -> usize {
        self.instances.len()
    }

    fn take(&mut self) -> Option<Instance> {
        let instance = self.instances.pop_back();
        self.fewest = self.fewest.min(self.instances.len());
        if instance.is_none() {
            self.surplus = 0;
        }
        instance
    }

    /// Returns one that is not needed any more.
    fn give_back(&mut self, instance: Instance) -> Option<Instance> {
        self.instances.push_back(instance);
        self.calls += 1;
        if self.calls >= Self::PERIOD {
            (self.calls, self.surplus, self.fewest) = (0, self.fewest, self.instances.len());
        }
        self.surplus = self.surplus.checked_sub(1)?;
        let surplus = self.instances.pop_front();
        self.fewest = self.fewest.min(self.instances.len());
        surplus
    }

    fn empty(&mut self) -> VecDeque<Instance> {
        (self.fewest, self.surplus) = (0, 0);
        std::mem::take(&mut self.instances)
    }
}
