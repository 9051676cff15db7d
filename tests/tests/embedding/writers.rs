//! Writers are shared by the pipes and handles of a Keepline, one call after the other.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use async_trait::async_trait;
use keepline::store::{Deadline, Failure, IndexedReceipt, IndexedTransaction, MemoryStore, Store, Writer};
use keepline_tests::{
    intercept::{Intercept, Intercepted},
    lanes::Node,
};
use parking_lot::Mutex;
use tokio::sync::Barrier;

/// Notes who writes; with two at once, lets each write only when the other is there.
#[derive(Debug)]
struct WriterNames {
    seen: Mutex<BTreeSet<String>>,
    meets: AtomicBool,
    both: Barrier,
}

#[async_trait]
impl Intercept for WriterNames {
    async fn transact(
        &self,
        store: &dyn Store,
        writer: &Writer,
        transaction: &IndexedTransaction,
        deadline: Deadline,
    ) -> Result<IndexedReceipt, Failure> {
        if transaction.has_writes() {
            self.seen.lock().insert(writer.id().to_owned());
            if self.meets.load(SeqCst) {
                self.both.wait().await;
            }
        }
        store.transact(writer, transaction, deadline).await
    }
}

#[tokio::test]
async fn pipes_that_live_for_one_call_write_as_one_unless_they_write_at_once() {
    let names = WriterNames { seen: Mutex::default(), meets: AtomicBool::new(false), both: Barrier::new(2) };
    let store = Arc::new(Intercepted::new(Arc::new(MemoryStore::default()), names));
    let node = Node::new(&(store.clone() as Arc<dyn Store>), "{}").await;
    for _ in 0..20 {
        node.keepline.pipe().answer("In Bonn.", r#"{"session_id": "s"}"#).await.unwrap();
        node.keepline.sessions().increment("s", "n", 1).await.unwrap();
    }
    assert_eq!(store.seen.lock().len(), 1);
    store.meets.store(true, SeqCst);
    let (mut one, mut other) = (node.keepline.sessions(), node.keepline.sessions());
    let (one, other) = tokio::join!(one.increment("s", "n", 1), other.increment("s", "n", 1));
    assert_eq!(one.unwrap().value.max(other.unwrap().value), 22);
    assert_eq!(store.seen.lock().len(), 2);
}
