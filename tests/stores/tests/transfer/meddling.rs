//! A source that is written to while it is copied: what arrives is a state that it had, or the transfer reports that it
//! changes.

use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;

use super::*;

/// Writes to the bucket after each reading of its records, so many times.
#[derive(Debug)]
struct Meddles {
    left: AtomicI64,
}

#[async_trait]
impl Intercept for Meddles {
    async fn after_records(&self, store: &dyn Store, bucket: &BucketId) {
        if self.left.fetch_sub(1, Ordering::SeqCst) > 0 {
            let meddling = transaction(bucket, unused(), [add("n", 1), append("turns", &["x"])]);
            store.transact(Writer::new().advance(), &meddling, Deadline::NEVER).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_bucket_that_changes_while_copied_is_copied_again_or_reported() {
    let servers = [(); 2].map(|()| RedisServer::start().unwrap());
    let places = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [redis_a, redis_b] = servers.each_ref().map(redis);
    let [directory_a, directory_b] = places.each_ref().map(|place| in_directory(place.path()));
    for (from, to) in
        [(&redis_a, &directory_a), (&directory_a, &redis_b), (&redis_b, &redis_a), (&directory_a, &directory_b)]
    {
        let id = session("s");
        for store in [from, to] {
            store.delete(Writer::new().advance(), &deletion_of(&id), Deadline::NEVER).await.unwrap();
        }
        fill(&**from, &id).await;
        let meddled = Arc::new(Intercepted::with_transfers(from.clone(), Meddles { left: AtomicI64::new(2) }));
        let transfer = Transfer { from: meddled.clone(), to: to.clone(), overwrite: false };
        assert!(is_copied(transfer.copy_bucket(&id).await.unwrap()));
        assert!(meddled.left.load(Ordering::SeqCst) < 0, "nobody meddled");
        assert_eq!(contents(&**to, &id).await, contents(&**from, &id).await);

        meddled.left.store(i64::MAX, Ordering::SeqCst);
        ask(&**from, &transaction(&id, unused(), [add("n", 1)])).await;
        assert_eq!(transfer.copy_bucket(&id).await.unwrap(), Transferred::Conflict);
        let transfer = Transfer { overwrite: true, ..transfer };
        assert_eq!(transfer.copy_bucket(&id).await.unwrap(), Transferred::Changing);
        assert_eq!(transfer.remove(&id).await.unwrap(), RemovalOutcome::Differs);
        meddled.left.store(0, Ordering::SeqCst);
        assert!(is_copied(transfer.copy_bucket(&id).await.unwrap()));
        assert_eq!(transfer.remove(&id).await.unwrap(), RemovalOutcome::Done);
    }
}
