//! The host's state for one instance, its store data in wasmtime's sense: services, scope, and what is left of its
//! budgets.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use wasmtime::bail;

use super::{
    limits::{
        budget::Budget,
        call_deadline::CallDeadline,
        cpu_meter::CpuMeter,
        epoch::{TICK, Ticks, duration_to_ticks},
        memory::{MemoryLimiter, PoolMemory},
    },
    scope::{CallScope, NamedSubjects, TaskSubject},
};
use crate::{
    contract::{lanes::Task, logging::LogLevel},
    logging::{Clock, RateLimitedLog},
    sandbox::Sandbox,
    store::{Deadline, StoreGuard, Writer},
};
#[cfg(test)]
use crate::{
    logging::{SystemClock, TracingLog},
    store::{BreakerOptions, MemoryStore},
};

/// What every instance of a Keepline is lent.
#[derive(Clone)]
pub(crate) struct HostServices {
    /// Each call may have another.
    pub(crate) store: Arc<StoreGuard>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) log: Arc<RateLimitedLog>,
    pub(crate) memory: Arc<PoolMemory>,
    /// Calls of the store that were out of their scope.
    pub(crate) denied: Arc<AtomicU64>,
    /// Subjects that replies to entries have named.
    pub(crate) named: Arc<NamedSubjects>,
}

#[cfg(test)]
impl HostServices {
    /// An empty store in memory, the system's clock, and a log that goes to `tracing`.
    pub(super) fn for_tests() -> Self {
        Self {
            store: Arc::new(StoreGuard::new(Arc::new(MemoryStore::default()), BreakerOptions::default())),
            clock: Arc::new(SystemClock),
            log: Arc::new(RateLimitedLog::new(Arc::new(TracingLog))),
            memory: Arc::default(),
            denied: Arc::default(),
            named: Arc::default(),
        }
    }
}

/// One instance's share of the host.
pub(crate) struct InstanceState {
    pub(super) services: HostServices,
    /// Of the call that the instance is serving.
    pub(super) store: Arc<StoreGuard>,
    pub(super) memory: MemoryLimiter,
    /// Whose call the instance is serving.
    pub(super) writer: Writer,
    /// By when that call has to be over.
    pub(super) due: CallDeadline,
    /// What it may reach.
    pub(super) scope: CallScope,
    time: ComputeTime,
    host_calls: Budget,
    copied: Budget,
    store_calls: Budget,
    store_pieces: Budget,
    read: Budget,
    log_lines: Budget,
    /// The most that an answer of the store may bring in: the instance could not hold more.
    memory_bytes: u64,
}

/// How long an instance has to reply when its call's deadline is over: long enough, whatever the entry.
const REPLY_TIME: Duration = Duration::from_millis(250);

impl InstanceState {
    pub(super) fn new(services: HostServices, sandbox: &Sandbox, ticks: Arc<Ticks>) -> Self {
        Self {
            store: services.store.clone(),
            memory: MemoryLimiter::new(sandbox, services.memory.clone()),
            services,
            writer: Writer::placeholder(),
            due: CallDeadline::by(Deadline::NEVER),
            scope: CallScope::Nothing,
            time: ComputeTime::new(sandbox.cpu_time, Arc::new(CpuMeter::new(ticks))),
            host_calls: Budget::new(sandbox.host_calls_per_entry.into()),
            copied: Budget::new(sandbox.copy_bytes as u64),
            store_calls: Budget::new(sandbox.store_calls_per_entry.into()),
            store_pieces: Budget::new(sandbox.store_pieces_per_entry.into()),
            read: Budget::new(sandbox.read_bytes_per_entry as u64),
            log_lines: Budget::new(sandbox.log_lines_per_entry.into()),
            memory_bytes: sandbox.memory_bytes as u64,
        }
    }

    /// A new call begins, with full budgets, and has to be over by the deadline.
    pub(super) fn begin_call(&mut self, writer: Writer, due: CallDeadline, scope: CallScope) {
        let entries = scope.entry_allowance();
        (self.writer, self.due, self.scope) = (writer, due, scope);
        let Self { host_calls, copied, store_calls, store_pieces, read, log_lines, .. } = self;
        for budget in [host_calls, copied, store_calls, store_pieces, read] {
            budget.refill(entries);
        }
        log_lines.refill(1);
        self.memory.begin();
        self.time.begin(entries);
    }

    pub(super) fn meter(&self) -> &Arc<CpuMeter> {
        &self.time.meter
    }

    /// A call of the host begins, for which so many bytes were copied.
    pub(super) fn begin_host_call(&mut self, bytes: u64) -> wasmtime::Result<()> {
        if !self.host_calls.try_spend(1) {
            bail!("it called the host more than {} times for one entry", self.host_calls.full());
        }
        if !self.copied.try_spend(bytes) {
            bail!("it made the host copy more than {} bytes for one entry", self.copied.full());
        }
        Ok(())
    }

    /// For a call of the host: as [`on_tick`](Self::on_tick), if there was a tick since the instance was last asked.
    pub(super) fn on_host_call(&mut self) -> wasmtime::Result<Option<Duration>> {
        if self.time.has_ticked() { self.on_tick() } else { Ok(None) }
    }

    /// How many bytes the host may still copy for this entry.
    pub(super) fn copy_bytes_left(&self) -> usize {
        usize::try_from(self.copied.left()).unwrap_or(usize::MAX)
    }

    /// Time has passed while the instance computes. Asked at every tick, by the instance's own code and by each call of
    /// the host, until it may go on: a time is returned if it has to make way for other tasks first, for that long at
    /// most. So one that loops does not hold up the pipes which share its thread.
    pub(super) fn on_tick(&mut self) -> wasmtime::Result<Option<Duration>> {
        self.due.mark_waited();
        self.time.check(self.due.deadline)
    }

    /// So many calls of the store are about to be made, with so many pieces.
    pub(super) fn begin_store_calls(&mut self, count: usize, pieces: u64) -> wasmtime::Result<()> {
        if !self.store_calls.try_spend(count as u64) {
            bail!("it called the store more than {} times for one entry", self.store_calls.full());
        }
        if !self.store_pieces.try_spend(pieces) {
            let full = self.store_pieces.full();
            bail!("it asked the store for more than {full} operations, keys and records for one entry");
        }
        Ok(())
    }

    /// The most that the next answers of the store may bring in together, bytes.
    pub(super) fn max_read(&self) -> wasmtime::Result<u64> {
        if self.read.left() == 0 {
            bail!("it read more than {} bytes from the store for one entry", self.read.full());
        }
        Ok(self.read.left().min(self.memory_bytes))
    }

    /// The store's answer has brought in so many bytes. The last one may be over the budget: a record comes whatever
    /// its size.
    pub(super) fn record_read_bytes(&mut self, bytes: u64) {
        let _ = self.read.try_spend(bytes);
    }

    /// What a reply names is known from now on: its entry named what these tasks are about.
    pub(super) fn remember_task_buckets(&self, due: &[Task]) {
        for subject in due.iter().filter_map(|task| TaskSubject::of(&task.buckets)) {
            self.services.named.add_subject(&self.store, &subject);
        }
    }

    /// A call of the store was for what is not in its scope.
    pub(super) fn report_denied(&self, asked: &str) {
        self.services.denied.fetch_add(1, Ordering::Relaxed);
        let message = format!("the plugin asked the store {asked}, which is beyond the call that it serves: denied");
        self.services.log.log_from_host(LogLevel::Warn, "keepline.denied", &message);
    }

    pub(super) fn log_within_budget(&mut self, level: LogLevel, context: &str, message: &str) {
        // Dropped, not refused: chatter is no reason to lose an entry's memory.
        if self.log_lines.try_spend(1) {
            self.services.log.log_from_plugin(level, context, message);
        }
    }

    pub(super) fn services(&self) -> &HostServices {
        &self.services
    }
}

/// How long an instance may compute for one call, and how long it may still be at it after the call's deadline.
struct ComputeTime {
    meter: Arc<CpuMeter>,
    of_entry: Duration,
    allowed: Duration,
    /// The last tick that it was asked at.
    checked: u64,
    /// The tick at which the deadline was found to be over. None: it is not, as far as is known.
    late_since: Option<u64>,
}

impl ComputeTime {
    fn new(allowed: Duration, meter: Arc<CpuMeter>) -> Self {
        Self { meter, of_entry: allowed, allowed, checked: 0, late_since: None }
    }

    fn begin(&mut self, entries: u64) {
        self.meter.begin();
        self.allowed = self.of_entry.saturating_mul(u32::try_from(entries).unwrap_or(u32::MAX));
        (self.checked, self.late_since) = (self.meter.now(), None);
    }

    /// Whether there was a tick since it was last asked at one.
    fn has_ticked(&self) -> bool {
        self.meter.now() != self.checked
    }

    fn check(&mut self, deadline: Deadline) -> wasmtime::Result<Option<Duration>> {
        self.checked = self.meter.now();
        let computed = self.meter.computed();
        if computed > self.allowed {
            bail!("it computed for longer than {} ms", self.allowed.as_millis());
        }
        let mut patience = deadline.left().unwrap_or(Duration::MAX);
        if patience.is_zero() {
            let late = self.checked.saturating_sub(*self.late_since.get_or_insert(self.checked));
            let Some(left) = duration_to_ticks(REPLY_TIME).checked_sub(late) else {
                bail!("it went on computing for {} ms after its entry's deadline", REPLY_TIME.as_millis());
            };
            patience = TICK.saturating_mul(u32::try_from(left).unwrap_or(u32::MAX).saturating_add(1));
        }
        // The ticks of one that has computed for none passed while it waited.
        Ok(if computed.is_zero() || self.meter.has_made_way() { None } else { Some(patience) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_call_that_has_computed_for_a_tick_makes_way() {
        let ticks = Arc::new(Ticks::default());
        let meter = Arc::new(CpuMeter::new(ticks.clone()));
        let mut time = ComputeTime::new(Duration::from_secs(1), meter.clone());
        time.begin(1);
        // It waits for the store.
        ticks.advance();
        let call = async {
            assert_eq!(time.check(Deadline::NEVER).unwrap(), None);
            ticks.advance();
            assert!(time.check(Deadline::NEVER).unwrap().is_some());
        };
        meter.run_measured(std::pin::pin!(call)).await;
    }
}
