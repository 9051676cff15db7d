//! The pool of instances: calls take a warm one and give it back.
//!
//! Instances hold no conversation, so any of them will do. There are as many as concurrent calls, up to a bound; beyond
//! it calls queue, and the queue is bounded in length and in time, because memory must not be the reason that a
//! pipeline stands still. An instance that faulted is dropped, and so is one whose call was abandoned half-way (a
//! dropped future takes its instance with it and frees its place) and one that has grown far beyond its first size.
//! [`Isolation`] says which calls may share an instance.
//!
//! All instances of a pool share a budget of memory: where none can be made within it, a call goes on without one, at
//! once. A program whose instances keep faulting is left alone for a while, and then tried by one call; a program that
//! replaces it starts with a clean record.

mod idle;

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout},
};

use self::idle::Idle;
use super::{
    fault::PluginFault,
    instance::PluginInstance,
    instance_state::HostServices,
    limits::{call_deadline::CallDeadline, memory::MemoryReservation},
    plugin_info::PluginInfo,
    program::PluginProgram,
};
use crate::{
    contract::{logging::LogLevel, shared::Problem},
    sandbox::Isolation,
    store::{Breaker, BreakerOptions, BreakerPermit, StoreGuard},
};

/// How far a pool grows. See [`Options`](crate::Options).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolLimits {
    pub(crate) instances: u32,
    pub(crate) waiting: usize,
    pub(crate) wait: Duration,
    /// When a program is left alone.
    pub(crate) breaker: BreakerOptions,
}

/// Why a call gets no instance.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallRefusal {
    #[error("all {} instances are busy and {} calls are already waiting", .0.instances, .0.waiting)]
    Full(PoolLimits),
    #[error("no instance became free within {} ms", .0.as_millis())]
    Late(Duration),
    #[error(
        "the instances of the plugin hold {0} bytes together, and there is no room for more (sandbox_pool_memory_bytes)"
    )]
    NoMemory(usize),
    #[error("this Keepline has been shut down")]
    Closed,
    #[error("the plugin was stopped too often (plugin_breaker_failures: {0}) and is left alone for a while")]
    LeftAlone(u32),
    #[error(transparent)]
    Fault(PluginFault),
}

pub(crate) struct InstancePool {
    services: HostServices,
    /// What each new instance is configured with.
    options: String,
    limits: PoolLimits,
    /// A permit for each instance that may be at work. First come, first served.
    places: Semaphore,
    waiting: AtomicUsize,
    is_closed: AtomicBool,
    /// Of the current program. It opens when the program's faults have reached the limit.
    breaker: Breaker,
    /// Each fault counts for two, and each call that ends well takes one away: a program is left alone after so many
    /// faults in a row, and as well if more than every third call faults. Written under the lock of what is current.
    faults: AtomicU32,
    /// Whether there are any: else the breaker need not be asked.
    is_troubled: AtomicBool,
    /// From the current program's information, read for each entry.
    wants_turns: AtomicBool,
    /// So are these.
    most_attached: AtomicUsize,
    is_by_node: AtomicBool,
    current: Mutex<CurrentProgram>,
}

/// The program that new calls are served by.
struct CurrentProgram {
    program: PluginProgram,
    version: u64,
    info: PluginInfo,
    idle: Idle,
    /// What an instance holds when it is configured.
    instance_bytes: usize,
}

impl CurrentProgram {
    fn new(program: PluginProgram, version: u64, instance: PluginInstance, info: PluginInfo) -> Self {
        let instance_bytes = instance.held_bytes();
        Self { program, version, info, idle: Idle::with_instance(instance), instance_bytes }
    }
}

/// An instance at work, and its place.
pub(crate) struct PooledInstance<'a> {
    pub(crate) instance: PluginInstance,
    version: u64,
    /// To try a program that was left alone.
    leave: Option<BreakerPermit<'a>>,
    // Last, so that it is released last: the next call then finds the instance.
    _place: SemaphorePermit<'a>,
}

impl InstancePool {
    /// Makes the first instance and configures it.
    pub(crate) async fn new(
        program: PluginProgram,
        services: HostServices,
        options: String,
        limits: PoolLimits,
        due: CallDeadline,
    ) -> Result<Result<Self, Problem>, PluginFault> {
        // More than any machine holds, and less than a semaphore does.
        let limits = PoolLimits { instances: limits.instances.clamp(1, 1 << 20), ..limits };
        let (instance, info) = match create_instance(&program, &services, &options, due).await? {
            Ok(first) => first,
            Err(problem) => return Ok(Err(problem)),
        };
        info.log_warnings(&services.log);
        let (wants_turns, most_attached) = (info.wants_turns.into(), info.most_attached.into());
        let is_by_node = info.is_by_node.into();
        let current = CurrentProgram::new(program, 0, instance, info);
        Ok(Ok(Self {
            services,
            options,
            limits,
            places: Semaphore::new(usize::try_from(limits.instances).unwrap_or(1)),
            waiting: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            breaker: Breaker::new(BreakerOptions { failures: 1, ..limits.breaker }),
            faults: AtomicU32::new(0),
            is_troubled: AtomicBool::new(false),
            wants_turns,
            most_attached,
            is_by_node,
            current: Mutex::new(current),
        }))
    }

    /// An instance to be used with that store, at once if there can be one, else when it is this call's turn, if that
    /// comes by the deadline.
    pub(crate) async fn take_instance(
        &self,
        store: &Arc<StoreGuard>,
        due: &mut CallDeadline,
    ) -> Result<PooledInstance<'_>, CallRefusal> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(CallRefusal::Closed);
        }
        // While calls wait, no permit is free here: the queue can't be jumped.
        let place = match self.places.try_acquire() {
            Ok(place) => place,
            Err(_) => self.wait_for_place(due).await?,
        };
        let leave = self.check_breaker()?;
        let (program, version, others) = {
            let mut current = self.current.lock();
            let is_shared = current.program.sandbox().isolation != Isolation::Tenant;
            if let Some(instance) = current.idle.take_newest(|instance| is_shared || instance.is_using_store(store)) {
                return Ok(PooledInstance { instance, version: current.version, leave, _place: place });
            }
            // Where there may be no more, those that are at rest for others make way.
            let held = self.services.memory.held_bytes();
            let is_full = held.saturating_add(current.instance_bytes) > current.program.sandbox().pool_memory_bytes;
            if is_full && current.idle.len() == 0 {
                return Err(CallRefusal::NoMemory(held));
            }
            let others = if is_full {
                current.idle.empty()
            } else if self.busy_instances() + current.idle.len() > self.most() {
                current.idle.oldest().into_iter().collect()
            } else {
                VecDeque::new()
            };
            (current.program.clone(), current.version, others)
        };
        others.into_iter().for_each(drop_in_background);
        // Boxed: it is rare, and otherwise every call would be as large as this.
        let made = match Box::pin(create_instance(&program, &self.services, &self.options, *due)).await {
            Ok(Ok((instance, _))) => Ok(instance),
            // It was accepted once: an instance that refuses its options now is one that can't be used.
            Ok(Err(problem)) => {
                Err(PluginFault::from_reason(format!("it rejects its own options: {}", problem.message)))
            }
            Err(fault) => Err(fault),
        };
        match made {
            Ok(instance) => Ok(PooledInstance { instance, version, leave, _place: place }),
            Err(fault) => Err(self.failed(fault, version, leave)),
        }
    }

    /// Leave to try the program, if it needs any.
    fn check_breaker(&self) -> Result<Option<BreakerPermit<'_>>, CallRefusal> {
        if !self.is_troubled.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let leave = self.breaker.admit(Instant::now());
        leave.map(Some).ok_or(CallRefusal::LeftAlone(self.limits.breaker.failures.max(1)))
    }

    /// A call of this instance has faulted.
    pub(crate) fn discard_faulted(&self, taken: PooledInstance<'_>, fault: PluginFault) -> CallRefusal {
        let PooledInstance { instance, version, leave, _place } = taken;
        let refusal = self.failed(fault, version, leave);
        drop_in_background(instance);
        refusal
    }

    fn failed(&self, fault: PluginFault, version: u64, leave: Option<BreakerPermit<'_>>) -> CallRefusal {
        if fault.is_pool_exhausted {
            return CallRefusal::NoMemory(self.services.memory.held_bytes());
        }
        // Nothing that a program did which was replaced meanwhile is held against the current one.
        let current = self.current.lock();
        if version == current.version {
            let was_open = self.breaker.is_open();
            self.is_troubled.store(true, Ordering::Relaxed);
            let most = self.most_faults();
            let faults = self.faults.load(Ordering::Relaxed).saturating_add(2).min(most);
            self.faults.store(faults, Ordering::Relaxed);
            if faults >= most {
                self.breaker.record_failure(Instant::now());
            }
            if let Some(leave) = leave {
                leave.mark_reported(&self.breaker);
            }
            if !was_open && self.breaker.is_open() {
                drop(current);
                let BreakerOptions { failures, cooldown } = self.limits.breaker;
                let message = format!(
                    "the plugin was stopped too often ({failures} times in a row, or more than every third time): entries \
                     go on without memory; it is tried again after {} ms, and then more rarely",
                    cooldown.as_millis()
                );
                self.services.log.log_from_host(LogLevel::Error, "keepline.plugin.left-alone", &message);
            }
        }
        CallRefusal::Fault(fault)
    }

    /// A call of the program has ended well.
    fn succeeded(&self, version: u64, leave: Option<BreakerPermit<'_>>) {
        let current = self.current.lock();
        if version != current.version || !self.is_troubled.load(Ordering::Relaxed) {
            return;
        }
        let was_open = self.breaker.is_open();
        // One that has just been tried again is left alone sooner than one that never was.
        let faults = self.faults.load(Ordering::Relaxed);
        let faults = if was_open { self.most_faults() / 2 } else { faults.saturating_sub(1) };
        self.faults.store(faults, Ordering::Relaxed);
        self.is_troubled.store(faults > 0, Ordering::Relaxed);
        self.breaker.record_success();
        drop(current);
        if let Some(leave) = leave {
            leave.mark_reported(&self.breaker);
        }
        if was_open {
            let message = "the plugin has served an entry again: it is left alone no longer";
            self.services.log.log_from_host(LogLevel::Warn, "keepline.plugin.left-alone", message);
        }
    }

    /// Whether the program is left alone.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.is_troubled.load(Ordering::Relaxed) && self.breaker.is_open()
    }

    async fn wait_for_place(&self, due: &mut CallDeadline) -> Result<SemaphorePermit<'_>, CallRefusal> {
        let _waiting =
            WaitingCall::try_begin(&self.waiting, self.limits.waiting).ok_or(CallRefusal::Full(self.limits))?;
        due.mark_waited();
        let patience = due.deadline.left().map_or(self.limits.wait, |left| left.min(self.limits.wait));
        if patience.is_zero() {
            return Err(CallRefusal::Late(patience));
        }
        let place = timeout(patience, self.places.acquire()).await;
        place.map_err(|_| CallRefusal::Late(patience))?.map_err(|_| CallRefusal::Closed)
    }

    pub(crate) fn return_instance(&self, taken: PooledInstance<'_>) {
        let PooledInstance { instance, version, leave, _place } = taken;
        if self.is_troubled.load(Ordering::Relaxed) {
            self.succeeded(version, leave);
        }
        if instance.is_worn() || self.places.is_closed() {
            return drop_in_background(instance);
        }
        let mut current = self.current.lock();
        // Else those at rest would leave nothing to those at work.
        let sandbox = current.program.sandbox();
        if sandbox.isolation == Isolation::Entry || self.services.memory.held_bytes() > sandbox.pool_memory_bytes / 2 {
            drop(current);
            return drop_in_background(instance);
        }
        // That of a program that was replaced meanwhile has done its last call.
        let surplus = if version == current.version { current.idle.give_back(instance) } else { Some(instance) };
        drop(current);
        surplus.into_iter().for_each(drop_in_background);
    }

    /// New calls are served by this program from now on; those under way finish with the one they began with.
    pub(crate) async fn replace_program(
        &self,
        program: PluginProgram,
        due: CallDeadline,
    ) -> Result<Result<(), Problem>, PluginFault> {
        let (instance, info) = match create_instance(&program, &self.services, &self.options, due).await? {
            Ok(first) => first,
            Err(problem) => return Ok(Err(problem)),
        };
        info.log_warnings(&self.services.log);
        let mut current = self.current.lock();
        self.wants_turns.store(info.wants_turns, Ordering::Relaxed);
        self.most_attached.store(info.most_attached, Ordering::Relaxed);
        self.is_by_node.store(info.is_by_node, Ordering::Relaxed);
        let version = current.version + 1;
        let replaced = std::mem::replace(&mut *current, CurrentProgram::new(program, version, instance, info));
        self.breaker.record_success();
        self.faults.store(0, Ordering::Relaxed);
        self.is_troubled.store(false, Ordering::Relaxed);
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
        let unfinished =
            if matches!(all, Ok(Ok(_))) { 0 } else { self.busy_instances() + self.waiting.load(Ordering::Relaxed) };
        // While all places are held, so that no call slips in.
        self.places.close();
        let idle = self.current.lock().idle.empty();
        drop(idle);
        unfinished
    }

    pub(crate) fn plugin_info(&self) -> PluginInfo {
        self.current.lock().info.clone()
    }

    #[cfg(test)]
    pub(crate) fn want_turns(&self) {
        self.wants_turns.store(true, Ordering::Relaxed);
    }

    pub(crate) fn wants_turns(&self) -> bool {
        self.wants_turns.load(Ordering::Relaxed)
    }

    /// Whether entries that don't say so are about the transcripts of nodes.
    pub(crate) fn is_by_node(&self) -> bool {
        self.is_by_node.load(Ordering::Relaxed)
    }

    /// So much of what all instances may hold, for what they have the host hold. None: there is no room.
    pub(crate) fn reserve_memory(&self, bytes: usize) -> Option<MemoryReservation> {
        let limit = self.current.lock().program.sandbox().pool_memory_bytes;
        MemoryReservation::try_reserve(&self.services.memory, bytes, limit)
    }

    /// What all instances hold, bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.services.memory.held_bytes()
    }

    /// How much longer an entry's metadata may become, bytes.
    pub(crate) fn max_attached_bytes(&self) -> usize {
        self.most_attached.load(Ordering::Relaxed)
    }

    /// How many instances are at work and at rest, and how many calls wait for one.
    pub(crate) fn read_gauges(&self) -> (usize, usize, usize) {
        (self.busy_instances(), self.current.lock().idle.len(), self.waiting.load(Ordering::Relaxed))
    }

    /// What faults may come to.
    fn most_faults(&self) -> u32 {
        self.limits.breaker.failures.max(1).saturating_mul(2)
    }

    fn most(&self) -> usize {
        usize::try_from(self.limits.instances).unwrap_or(1)
    }

    fn busy_instances(&self) -> usize {
        self.most().saturating_sub(self.places.available_permits())
    }

    pub(crate) fn services(&self) -> &HostServices {
        &self.services
    }
}

/// A configured instance, and what its plugin reported.
async fn create_instance(
    program: &PluginProgram,
    services: &HostServices,
    options: &str,
    due: CallDeadline,
) -> Result<Result<(PluginInstance, PluginInfo), Problem>, PluginFault> {
    let mut instance = PluginInstance::new(program, services.clone(), due).await?;
    let configured = instance.configure(options, services.log.lowest_wanted(), due).await?;
    Ok(configured.map(|configured| (instance, PluginInfo::from_configured(configured, options))))
}

/// Drops an instance in the background: unmapping takes the longer the larger it is, and no finished entry waits for it.
fn drop_in_background(instance: PluginInstance) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn_blocking(move || drop(instance));
    }
}

/// A call in the queue; leaves it when dropped.
struct WaitingCall<'a>(&'a AtomicUsize);

impl<'a> WaitingCall<'a> {
    fn try_begin(waiting: &'a AtomicUsize, most: usize) -> Option<Self> {
        let one_more = |waiting| (waiting < most).then_some(waiting + 1);
        waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Self(waiting))
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
