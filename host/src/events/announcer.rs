//! Appends announced events to the store, in the background.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use super::{EventLogInner, call_deadline};
use crate::store::{
    AppendOperation, Deadline, ExistingBucket, Expectation, ExpectedLog, Failure, LogExtent, NewBucket, Operation,
    Outcome, Precondition, ReplaceOldestOperation, TimeToLive, Transaction, Writer, capability,
};

pub(super) const LOG: &str = "events";
/// What stands in the log where events are missing.
pub(super) const MISSING: &str = "";

/// The most bytes of one event.
const MAX_EVENT_BYTES: usize = 1 << 20;
/// The most events that wait, and their bytes.
const MAX_WAITING: usize = 10_000;
const MAX_WAITING_BYTES: usize = 16 << 20;
/// The most of a transaction.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 1 << 20;
/// How long after a transaction the next one begins, unless there is a full batch: events gather meanwhile, so that a busy
/// service adds less than one write to each answer. The first after a pause doesn't wait.
const GATHERING: Duration = Duration::from_millis(10);
/// Between two tries, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Events that are not in the store yet.
#[derive(Default)]
pub(super) struct Announcer {
    queue: Mutex<Queue>,
    /// Whether a task is at work. Changes under the queue's lock.
    is_busy: watch::Sender<bool>,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<String>,
    bytes: usize,
    /// When the last transaction was done.
    written: Option<Instant>,
    /// Of the tasks, one after the other. None while one is at work, and after one that was dropped: its number may be in
    /// use.
    writer: Option<Writer>,
}

impl Queue {
    fn add(&mut self, event: String) {
        let is_over = self.events.len() >= MAX_WAITING || self.bytes + event.len() > MAX_WAITING_BYTES;
        // Nobody looks for an empty event: it says that some are missing.
        let event = if is_over || event.len() > MAX_EVENT_BYTES { MISSING.to_owned() } else { event };
        if event.is_empty() && self.events.back().is_some_and(String::is_empty) {
            return;
        }
        self.bytes += event.len();
        self.events.push_back(event);
    }

    /// Until when events gather. None: they are to be written now.
    fn gathers_until(&self) -> Option<Instant> {
        let until = self.written? + GATHERING;
        let gathers = (1..BATCH).contains(&self.events.len()) && self.bytes < BATCH_BYTES && until > Instant::now();
        gathers.then_some(until)
    }

    fn take_batch(&mut self) -> Vec<String> {
        let mut bytes = 0;
        let fits = |event: &&String| {
            bytes += event.len();
            bytes <= BATCH_BYTES
        };
        let count = self.events.iter().take(BATCH).take_while(fits).count();
        let batch: Vec<String> = self.events.drain(..count).collect();
        self.bytes -= batch.iter().map(String::len).sum::<usize>();
        batch
    }
}

impl Announcer {
    pub(super) async fn wait_until_idle(&self) {
        let mut is_busy = self.is_busy.subscribe();
        // It can't fail: the sender is here.
        let _ = is_busy.wait_for(|is_busy| !is_busy).await;
    }
}

/// Queues an event, and sees to it that somebody writes it.
pub(super) fn announce(log: &Arc<EventLogInner>, event: String) {
    let mut queue = log.announcer.queue.lock();
    queue.add(event);
    if !log.announcer.is_busy.send_replace(true) {
        tokio::spawn(write_all(log.clone()));
    }
}

async fn write_all(log: Arc<EventLogInner>) {
    let mut writer = log.announcer.queue.lock().writer.take().unwrap_or_default();
    loop {
        let gathers_until = log.announcer.queue.lock().gathers_until();
        if let Some(until) = gathers_until {
            tokio::time::sleep_until(until).await;
        }
        let batch = {
            let mut queue = log.announcer.queue.lock();
            let batch = queue.take_batch();
            if batch.is_empty() {
                queue.writer = Some(writer);
                log.announcer.is_busy.send_replace(false);
                return;
            }
            batch
        };
        let appended = append(&log, &mut writer, batch).await;
        log.announcer.queue.lock().written = Some(Instant::now());
        match appended {
            Ok(extent) => {
                log.poke.notify_one();
                trim(&log, &mut writer, extent).await;
            }
            Err(failure) => {
                tracing::warn!(target: "keepline.events", "events were not announced: {failure}");
                let mut queue = log.announcer.queue.lock();
                if queue.events.front().is_none_or(|event| !event.is_empty()) {
                    queue.events.push_front(MISSING.to_owned());
                }
                // The next event tries again.
                if queue.events.len() == 1 {
                    queue.writer = Some(writer);
                    log.announcer.is_busy.send_replace(false);
                    return;
                }
            }
        }
    }
}

/// Appends events once, however often it takes to reach the store.
async fn append(log: &EventLogInner, writer: &mut Writer, records: Vec<String>) -> Result<LogExtent, Failure> {
    let about = log.store.about();
    let milliseconds = u64::try_from(log.options.time_to_live.as_millis()).unwrap_or(u64::MAX);
    let time_to_live = TimeToLive { milliseconds, sliding: true };
    let expires = milliseconds > 0 && about.can(capability::EXPIRING);
    let append = AppendOperation { log: LOG.to_owned(), reset: false, records, marks: Vec::new() };
    let transaction = Transaction {
        bucket: log.bucket.clone(),
        precondition: Precondition::Create(NewBucket { time_to_live: expires.then_some(time_to_live) }),
        expectations: Vec::new(),
        operations: vec![Operation::Append(append)],
    };
    let transaction = transaction.into();
    let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
    // All tries are one call, which counts once where the store can tell.
    let writer = writer.advance();
    let deadline = Deadline::after(log.options.patience);
    let can_repeat = about.can(capability::EXACTLY_ONCE);
    loop {
        match log.store.transact(writer, &transaction, deadline).await {
            Ok(receipt) => {
                return match receipt.receipt.outcomes.first() {
                    Some(Outcome::Extent(extent)) => Ok(*extent),
                    _ => Ok(LogExtent { first: 0, length: 0 }),
                };
            }
            Err(failure)
                if !can_repeat || !failure.is_store_failure() || began.elapsed() + pause >= log.options.patience =>
            {
                return Err(failure);
            }
            Err(_) => tokio::time::sleep(pause).await,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Removes the oldest events, once there is an eighth more than are kept. What fails is done the next time.
async fn trim(log: &EventLogInner, writer: &mut Writer, extent: LogExtent) {
    let keep = log.options.keep;
    if extent.length <= keep + keep / 8 {
        return;
    }
    let remove = ReplaceOldestOperation { log: LOG.to_owned(), count: extent.length - keep, records: Vec::new() };
    let transaction = Transaction {
        bucket: log.bucket.clone(),
        precondition: Precondition::Existing(ExistingBucket { generation: None, renew: false }),
        // Another process may have removed them.
        expectations: vec![Expectation::Log(ExpectedLog {
            log: LOG.to_owned(),
            first: Some(extent.first),
            next: None,
        })],
        operations: vec![Operation::ReplaceOldest(remove)],
    };
    let _ = log.store.transact(writer.advance(), &transaction.into(), call_deadline()).await;
}
