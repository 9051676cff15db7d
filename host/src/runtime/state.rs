//! What one instance is lent, and its budgets: the store's data in wasmtime's sense.

use std::{sync::Arc, time::Duration};

use wasmtime::{StoreLimits, StoreLimitsBuilder, UpdateDeadline, bail};

use super::epoch::TICK;
use crate::{
    contract::{
        key_value::{
            BucketPage, Deletion, Description, Expectation, Failure, Host as KeyValue, Opening, Operation, Receipt,
            StoreCapabilities,
        },
        wasi::{
            clocks::wall_clock::{Datetime, Host as WallClock},
            logging::logging::{Host as Logging, Level},
        },
    },
    lend::{Clock, RateLimitedLog},
    plugin::Sandbox,
    store::{Store, Transaction, Writer},
};

/// What every instance of a Keepline is lent.
#[derive(Clone)]
pub(crate) struct Lent {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) log: Arc<RateLimitedLog>,
}

/// One instance's share of the host.
pub(crate) struct InstanceState {
    lent: Lent,
    pub(super) limits: StoreLimits,
    /// Whose call the instance is serving.
    pub(super) writer: Writer,
    store_calls: Budget,
    log_lines: Budget,
    deadline: Deadline,
}

impl InstanceState {
    pub(super) fn new(lent: Lent, sandbox: &Sandbox) -> Self {
        let limits = StoreLimitsBuilder::new()
            .memory_size(sandbox.memory_bytes)
            .table_elements(sandbox.table_elements)
            // What one component with its adapters can need; a component can hold many modules.
            .instances(32)
            .memories(4)
            .tables(16)
            .build();
        Self {
            lent,
            limits,
            writer: Writer::new(),
            store_calls: Budget::new(sandbox.store_calls_per_entry),
            log_lines: Budget::new(sandbox.log_lines_per_entry),
            deadline: Deadline::new(sandbox.cpu_time),
        }
    }

    /// A new call begins, with full budgets.
    pub(super) fn begin(&mut self, writer: Writer) {
        self.writer = writer;
        self.store_calls.refill();
        self.log_lines.refill();
        self.deadline.arm();
    }

    /// Asked at every tick while the instance computes. It makes way for other tasks then, so that one
    /// that loops does not hold up the pipes which share its thread.
    pub(super) fn on_tick(&mut self) -> wasmtime::Result<UpdateDeadline> {
        if self.deadline.is_over_after_tick() {
            bail!("it computed for longer than {} ms", self.deadline.allowed.as_millis());
        }
        Ok(UpdateDeadline::Yield(1))
    }

    fn begin_store_call(&mut self) -> wasmtime::Result<()> {
        if !self.store_calls.take() {
            bail!("it called the store more than {} times for one entry", self.store_calls.full);
        }
        Ok(())
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

    fn take(&mut self) -> bool {
        let had = self.left > 0;
        self.left = self.left.saturating_sub(1);
        had
    }
}

/// How long an instance may compute, in ticks that found it computing. It is armed anew after each wait
/// for the store: waiting is the store's time-out's business.
struct Deadline {
    allowed: Duration,
    allowed_ticks: u64,
    ticks: u64,
}

impl Deadline {
    fn new(allowed: Duration) -> Self {
        let allowed_ticks = u64::try_from(allowed.as_nanos() / TICK.as_nanos()).unwrap_or(u64::MAX).max(1);
        Self { allowed, allowed_ticks, ticks: 0 }
    }

    fn arm(&mut self) {
        self.ticks = 0;
    }

    fn is_over_after_tick(&mut self) -> bool {
        self.ticks = self.ticks.saturating_add(1);
        self.ticks > self.allowed_ticks
    }
}

impl KeyValue for InstanceState {
    async fn transact(
        &mut self,
        bucket: String,
        opening: Opening,
        expectations: Vec<Expectation>,
        operations: Vec<Operation>,
    ) -> wasmtime::Result<Result<Receipt, Failure>> {
        self.begin_store_call()?;
        let transaction = Transaction { bucket, opening, expectations, operations };
        let answer = self.lent.store.transact(self.writer.advance(), &transaction).await;
        self.deadline.arm();
        Ok(answer)
    }

    async fn list_buckets(&mut self, cursor: String, limit: u32) -> wasmtime::Result<Result<BucketPage, Failure>> {
        self.begin_store_call()?;
        let answer = self.lent.store.list_buckets(&cursor, limit).await;
        self.deadline.arm();
        Ok(answer)
    }

    async fn delete_bucket(&mut self, bucket: String) -> wasmtime::Result<Result<Deletion, Failure>> {
        self.begin_store_call()?;
        let answer = self.lent.store.delete_bucket(self.writer.advance(), &bucket).await;
        self.deadline.arm();
        Ok(answer)
    }

    async fn describe_bucket(&mut self, bucket: String) -> wasmtime::Result<Result<Description, Failure>> {
        self.begin_store_call()?;
        let answer = self.lent.store.describe_bucket(&bucket).await;
        self.deadline.arm();
        Ok(answer)
    }

    async fn capabilities(&mut self) -> wasmtime::Result<StoreCapabilities> {
        Ok(self.lent.store.capabilities())
    }
}

impl WallClock for InstanceState {
    fn now(&mut self) -> wasmtime::Result<Datetime> {
        let now = self.lent.clock.now();
        Ok(Datetime { seconds: now.as_secs(), nanoseconds: now.subsec_nanos() })
    }

    fn resolution(&mut self) -> wasmtime::Result<Datetime> {
        Ok(Datetime { seconds: 0, nanoseconds: 1000 })
    }
}

impl Logging for InstanceState {
    fn log(&mut self, level: Level, context: String, message: String) -> wasmtime::Result<()> {
        // Dropped, not refused: chatter is no reason to lose an entry's memory.
        if self.log_lines.take() {
            self.lent.log.log(level, &context, &message);
        }
        Ok(())
    }
}
