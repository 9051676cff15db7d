//! Embedding the library: many conversations on few instances, a bounded queue, a plugin that is replaced at work, a
//! clean shutdown, one deadline per entry, and turns that end with the next question.

mod deadlines;
mod events;
mod guarded;
mod host_kit;
mod new_plugin;
mod pool;
mod records;
mod replacement;
mod service;
mod shutdown;
mod turns;
mod writers;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::poll;
use keepline::store::{Deadline, Failure, FailureCode, IndexedReceipt, IndexedTransaction, MemoryStore, Store, Writer};
use keepline_tests::intercept::{Intercept, Intercepted};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// More than any of this takes, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// As many calls, each as far as it gets now. A tick of the clock that interrupts instances may have one make way
/// for others before it gets there: so each is asked to go on a few times.
async fn begin<'a, F: Future + Unpin + 'a>(calls: impl IntoIterator<Item = &'a mut F>) {
    for call in calls {
        for _ in 0..20 {
            assert!(poll!(&mut *call).is_pending());
        }
    }
}

/// The same, until so many of them wait at the gate: one that made way goes on with a later tick.
async fn begin_until<F: Future + Unpin>(calls: &mut [F], gate: &Gate, at_work: usize) {
    begin(calls.iter_mut()).await;
    while gate.at_work() < at_work {
        tokio::time::sleep(Duration::from_millis(1)).await;
        begin(calls.iter_mut()).await;
    }
}

/// A store before which transactions wait until it is opened.
type Gated = Intercepted<Gate>;

#[derive(Debug)]
struct Gate {
    gate: Semaphore,
    arrived: Mutex<Vec<String>>,
    /// Who sent them, and by when they have to end.
    seen: Mutex<Vec<(Writer, Deadline)>>,
    at_work: AtomicUsize,
    most: AtomicUsize,
    /// Whether the next transaction fails instead of waiting.
    refuses: AtomicBool,
}

impl Gate {
    fn closed() -> Arc<Gated> {
        let gate = Self {
            gate: Semaphore::new(0),
            arrived: Mutex::default(),
            seen: Mutex::default(),
            at_work: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            refuses: AtomicBool::new(false),
        };
        Arc::new(Intercepted::new(Arc::new(MemoryStore::default()), gate))
    }

    /// For so many transactions.
    fn admit(&self, transactions: usize) {
        self.gate.add_permits(transactions);
    }

    /// The next transaction fails as it would without a connection.
    fn refuse_next(&self) {
        self.refuses.store(true, Ordering::SeqCst);
    }

    /// From now on for all.
    fn open(&self) {
        self.gate.close();
    }

    /// The deadlines of all transactions so far, in order.
    fn deadlines(&self) -> Vec<Deadline> {
        self.seen.lock().iter().map(|(_, deadline)| *deadline).collect()
    }

    /// The names of the writers of all transactions so far, in order.
    fn writers(&self) -> Vec<String> {
        self.seen.lock().iter().map(|(writer, _)| writer.id().to_owned()).collect()
    }

    /// The buckets of all transactions so far, in order.
    fn arrived(&self) -> Vec<String> {
        self.arrived.lock().clone()
    }

    fn at_work(&self) -> usize {
        self.at_work.load(Ordering::SeqCst)
    }

    /// The most transactions that there were at one time.
    fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

struct AtWork<'a>(&'a AtomicUsize);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Intercept for Gate {
    async fn transact(
        &self,
        store: &dyn Store,
        writer: &Writer,
        transaction: &IndexedTransaction,
        deadline: Deadline,
    ) -> Result<IndexedReceipt, Failure> {
        self.arrived.lock().push(transaction.transaction.bucket.name.clone());
        self.seen.lock().push((writer.clone(), deadline));
        self.most.fetch_max(self.at_work.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let _at_work = AtWork(&self.at_work);
        if self.refuses.swap(false, Ordering::SeqCst) {
            return Err(Failure::new(FailureCode::Unavailable, "", "the gate refuses it"));
        }
        if let Ok(admitted) = self.gate.acquire().await {
            admitted.forget();
        }
        store.transact(writer, transaction, deadline).await
    }
}
