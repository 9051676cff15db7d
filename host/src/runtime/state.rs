//! What one instance is lent, and its budgets: the store's data in wasmtime's sense.

use std::{sync::Arc, time::Duration};

use wasmtime::{UpdateDeadline, bail};

use super::{Due, epoch::TICK, growth::Growth};
use crate::{
    contract::logging::LogLevel,
    lend::{Clock, RateLimitedLog},
    sandbox::Sandbox,
    store::{Deadline, Guard, Writer},
};

/// What every instance of a Keepline is lent.
#[derive(Clone)]
pub(crate) struct Lent {
    /// Each call may have another.
    pub(crate) store: Arc<Guard>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) log: Arc<RateLimitedLog>,
}

/// One instance's share of the host.
pub(crate) struct InstanceState {
    pub(super) lent: Lent,
    /// Of the call that the instance is serving.
    pub(super) store: Arc<Guard>,
    pub(super) growth: Growth,
    /// Whose call the instance is serving.
    pub(super) writer: Writer,
    /// By when that call has to be over.
    pub(super) due: Due,
    store_calls: Budget,
    log_lines: Budget,
    cpu_time: CpuTime,
    /// The most that an answer of the store may bring in: the instance could not hold more.
    pub(super) memory_bytes: u64,
}

/// How long an instance may still compute when its call's deadline is over: long enough to reply, whatever the entry.
const REPLY_TIME: Duration = Duration::from_millis(250);

impl InstanceState {
    pub(super) fn new(lent: Lent, sandbox: &Sandbox) -> Self {
        Self {
            store: lent.store.clone(),
            lent,
            growth: Growth::new(sandbox),
            writer: Writer::nobody(),
            due: Due::by(Deadline::NEVER),
            store_calls: Budget::new(sandbox.store_calls_per_entry),
            log_lines: Budget::new(sandbox.log_lines_per_entry),
            cpu_time: CpuTime::new(sandbox.cpu_time),
            memory_bytes: sandbox.memory_bytes as u64,
        }
    }

    /// A new call begins, with full budgets, and has to be over by the deadline.
    pub(super) fn begin(&mut self, writer: Writer, due: Due) {
        (self.writer, self.due) = (writer, due);
        self.store_calls.refill();
        self.log_lines.refill();
        self.cpu_time.begin();
    }

    /// Asked at every tick while the instance computes. It makes way for other tasks then, so that one
    /// that loops does not hold up the pipes which share its thread.
    pub(super) fn on_tick(&mut self) -> wasmtime::Result<UpdateDeadline> {
        if self.cpu_time.is_over_after_tick() {
            bail!("it computed for longer than {} ms", self.cpu_time.allowed.as_millis());
        }
        self.due.waited();
        if self.due.is_over() && self.cpu_time.is_over_after_late_tick() {
            bail!("it went on computing for {} ms after its entry's deadline", REPLY_TIME.as_millis());
        }
        Ok(UpdateDeadline::Yield(1))
    }

    /// So many calls of the store are about to be made.
    pub(super) fn begin_store_calls(&mut self, count: usize) -> wasmtime::Result<()> {
        if !self.store_calls.take(count) {
            bail!("it called the store more than {} times for one entry", self.store_calls.full);
        }
        Ok(())
    }

    /// The store has been waited for, which is not computing.
    pub(super) fn waited_for_store(&mut self) {
        self.cpu_time.arm();
    }

    pub(super) fn log(&mut self, level: LogLevel, context: &str, message: &str) {
        // Dropped, not refused: chatter is no reason to lose an entry's memory.
        if self.log_lines.take(1) {
            self.lent.log.log(level, context, message);
        }
    }

    pub(super) fn lent(&self) -> &Lent {
        &self.lent
    }
}

/// So many times a call.
struct Budget {
    full: u32,
    left: u32,
}

impl Budget {
    fn new(full: u32) -> Self {
        Self { full, left: full }
    }

    fn refill(&mut self) {
        self.left = self.full;
    }

    fn take(&mut self, count: usize) -> bool {
        let left = u32::try_from(count).ok().and_then(|count| self.left.checked_sub(count));
        self.left = left.unwrap_or(0);
        left.is_some()
    }
}

/// How long an instance may compute, in ticks that found it computing. It is armed anew after each wait
/// for the store: waiting is the deadline's business.
struct CpuTime {
    allowed: Duration,
    allowed_ticks: u64,
    ticks: u64,
    /// Those after the deadline, which nothing arms anew.
    late_ticks: u64,
}

impl CpuTime {
    fn new(allowed: Duration) -> Self {
        Self { allowed, allowed_ticks: ticks(allowed), ticks: 0, late_ticks: 0 }
    }

    fn begin(&mut self) {
        (self.ticks, self.late_ticks) = (0, 0);
    }

    fn arm(&mut self) {
        self.ticks = 0;
    }

    fn is_over_after_tick(&mut self) -> bool {
        self.ticks = self.ticks.saturating_add(1);
        self.ticks > self.allowed_ticks
    }

    fn is_over_after_late_tick(&mut self) -> bool {
        self.late_ticks = self.late_ticks.saturating_add(1);
        self.late_ticks > ticks(REPLY_TIME)
    }
}

fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_nanos() / TICK.as_nanos()).unwrap_or(u64::MAX).max(1)
}
