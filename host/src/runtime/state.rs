//! What one instance is lent, and its budgets: the store's data in wasmtime's sense.

use std::{pin::Pin, sync::Arc, task::Poll, time::Duration};

use futures::poll;
use tokio::time::timeout_at;
use wasmtime::{UpdateDeadline, bail};

use super::{Due, convert::Convert, epoch::TICK, growth::Growth};
use crate::{
    contract::{
        key_value::{self as wit, Host as KeyValue},
        wasi::{
            clocks::wall_clock::{Datetime, Host as WallClock},
            logging::logging::{Host as Logging, Level},
        },
    },
    lend::{Clock, RateLimitedLog},
    plugin::Sandbox,
    store::{Deadline, Failure, FailureCode, Operation, Store, Transaction, Writer},
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
    pub(super) growth: Growth,
    /// Whose call the instance is serving.
    pub(super) writer: Writer,
    /// By when that call has to be over.
    due: Due,
    store_calls: Budget,
    log_lines: Budget,
    cpu_time: CpuTime,
    /// The most that an answer of the store may bring in: the instance could not hold more.
    memory_bytes: u64,
}

/// More of a bucket's names and logs in one transaction nobody needs. A log's record comes whatever its size.
const MAX_RANGES: usize = 8;
/// More buckets on one page nobody needs.
const MAX_PAGE: u32 = 10_000;
/// The longest name of a key.
const KEY_BYTES: u64 = 256;

/// How long an instance may still compute when its call's deadline is over: long enough to reply, whatever the entry.
const REPLY_TIME: Duration = Duration::from_millis(250);
/// What a store gets beyond the deadline. One that keeps to it answers first, and says more than can be said here.
const STORE_MARGIN: Duration = Duration::from_millis(20);

impl InstanceState {
    pub(super) fn new(lent: Lent, sandbox: &Sandbox) -> Self {
        Self {
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

    /// Lowers the limits of all reads of a transaction so far that what they bring is no more than the instance
    /// could hold. Else one value, stored once and read ten thousand times, would fill the host's memory.
    fn limit_reads(&self, operations: &mut [Operation]) -> wasmtime::Result<()> {
        let ranges = operations.iter().filter(|operation| is_range(operation)).count();
        if ranges > MAX_RANGES {
            bail!("it asked for more than {MAX_RANGES} lists of keys and ranges of logs in one transaction");
        }
        let reads = operations.iter().filter(|operation| matches!(operation, Operation::Get(_))).count() + ranges;
        let share = self.memory_bytes / u64::try_from(reads).unwrap_or(u64::MAX).max(1);
        for operation in operations {
            match operation {
                Operation::Get(get) => get.max_bytes = get.max_bytes.min(share),
                Operation::GetAll(all) => all.max_bytes = all.max_bytes.min(share),
                Operation::Read(read) => read.max_bytes = read.max_bytes.min(share),
                Operation::Overflow(overflow) => overflow.max_bytes = overflow.max_bytes.min(share),
                Operation::ListKeys(list) => list.max_keys = list.max_keys.min(share / KEY_BYTES),
                Operation::RemoveAll(remove) => remove.max_names = remove.max_names.min(share / KEY_BYTES),
                _ => {}
            }
        }
        Ok(())
    }

    fn begin_store_call(&mut self) -> wasmtime::Result<()> {
        if !self.store_calls.take() {
            bail!("it called the store more than {} times for one entry", self.store_calls.full);
        }
        Ok(())
    }

    /// What an instance is told of a call of the store.
    fn answered<T>(&mut self, answer: Result<Result<T, Failure>, Missed>) -> Result<T, Failure> {
        self.cpu_time.arm();
        let missed = match answer {
            Ok(answer) => return answer,
            Err(missed) => missed,
        };
        let told = match missed {
            Missed::NotAsked => "this entry ran out of time (entry_timeout), so the store was not asked",
            Missed::Abandoned => {
                // What it sent last may still be on its way.
                self.writer = Writer::new();
                "the store did not answer within the time for this entry (entry_timeout)"
            }
        };
        Err(Failure::new(FailureCode::TimedOut, "", told))
    }
}

/// Why there is no answer of the store.
enum Missed {
    /// The deadline was over already.
    NotAsked,
    /// It came and went while the store was at work: what was asked for may be done or not.
    Abandoned,
}

/// The store's answer, if it comes by the deadline: whatever the store does, its caller goes on.
async fn by_deadline<T>(due: &mut Due, mut call: Pin<Box<dyn Future<Output = T> + Send + '_>>) -> Result<T, Missed> {
    if due.is_over() {
        return Err(Missed::NotAsked);
    }
    // A store that keeps everything in memory answers at once, and needs no timer.
    if let Poll::Ready(answer) = poll!(&mut call) {
        return Ok(answer);
    }
    due.waited();
    let Some(end) = due.deadline.instant() else { return Ok(call.await) };
    timeout_at(end.checked_add(STORE_MARGIN).unwrap_or(end), call).await.map_err(|_| Missed::Abandoned)
}

fn is_range(operation: &Operation) -> bool {
    use Operation::{GetAll, ListKeys, Overflow, Read, RemoveAll};
    matches!(operation, GetAll(_) | ListKeys(_) | Read(_) | Overflow(_) | RemoveAll(_))
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

impl KeyValue for InstanceState {
    async fn transact(
        &mut self,
        bucket: String,
        opening: wit::Opening,
        expectations: Vec<wit::Expectation>,
        operations: Vec<wit::Operation>,
    ) -> wasmtime::Result<Result<wit::Receipt, wit::Failure>> {
        self.begin_store_call()?;
        let mut transaction = Transaction {
            bucket,
            opening: opening.convert(),
            expectations: expectations.convert(),
            operations: operations.convert(),
        };
        self.limit_reads(&mut transaction.operations)?;
        let call = self.lent.store.transact(self.writer.advance(), &transaction, self.due.deadline);
        let answer = by_deadline(&mut self.due, call).await;
        Ok(self.answered(answer).convert())
    }

    async fn list_buckets(
        &mut self,
        cursor: String,
        limit: u32,
    ) -> wasmtime::Result<Result<wit::BucketPage, wit::Failure>> {
        self.begin_store_call()?;
        let call = self.lent.store.list_buckets(&cursor, limit.min(MAX_PAGE), self.due.deadline);
        let answer = by_deadline(&mut self.due, call).await;
        Ok(self.answered(answer).convert())
    }

    async fn delete_bucket(&mut self, bucket: String) -> wasmtime::Result<Result<wit::Deletion, wit::Failure>> {
        self.begin_store_call()?;
        let call = self.lent.store.delete_bucket(self.writer.advance(), &bucket, self.due.deadline);
        let answer = by_deadline(&mut self.due, call).await;
        Ok(self.answered(answer).convert())
    }

    async fn describe_bucket(&mut self, bucket: String) -> wasmtime::Result<Result<wit::Description, wit::Failure>> {
        self.begin_store_call()?;
        let call = self.lent.store.describe_bucket(&bucket, self.due.deadline);
        let answer = by_deadline(&mut self.due, call).await;
        Ok(self.answered(answer).convert())
    }

    async fn capabilities(&mut self) -> wasmtime::Result<wit::StoreCapabilities> {
        Ok(self.lent.store.capabilities().convert())
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
