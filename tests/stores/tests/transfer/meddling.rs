//! A source that is written to while it is copied: what arrives is a state that it had, or it is said that it changes.

use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use keepline_stores::{
    BucketPage, Deletion, Failure, StoreCapabilities,
    transfer::{Head, Incoming, Keyed, Mark, Piece, Stamp, Taken, Weighed, Weight},
};

use super::*;

/// A store in which each reading of records is followed by somebody's writing, so many times.
#[derive(Debug)]
struct Meddled {
    store: Arc<dyn TransferStore>,
    left: AtomicI64,
}

#[async_trait]
impl Store for Meddled {
    async fn transact(&self, writer: &Writer, what: &Transaction, deadline: Deadline) -> Result<Receipt, Failure> {
        self.store.transact(writer, what, deadline).await
    }

    async fn list_buckets(
        &self,
        kind: BucketKind,
        cursor: &str,
        limit: u32,
        deadline: Deadline,
    ) -> Result<BucketPage, Failure> {
        self.store.list_buckets(kind, cursor, limit, deadline).await
    }

    async fn delete_bucket(
        &self,
        writer: &Writer,
        bucket: &BucketId,
        incarnation: Option<&str>,
        max_keys: u32,
        deadline: Deadline,
    ) -> Result<Deletion, Failure> {
        self.store.delete_bucket(writer, bucket, incarnation, max_keys, deadline).await
    }

    fn capabilities(&self) -> StoreCapabilities {
        self.store.capabilities()
    }
}

#[async_trait]
impl TransferStore for Meddled {
    async fn head(&self, bucket: &BucketId) -> Result<Option<Head>, Failure> {
        self.store.head(bucket).await
    }

    async fn entries(
        &self,
        bucket: &BucketId,
        of: Keyed<'_>,
        keys: &[Vec<u8>],
    ) -> Result<Vec<Option<Vec<u8>>>, Failure> {
        self.store.entries(bucket, of, keys).await
    }

    async fn records(&self, bucket: &BucketId, log: &[u8], before: u64) -> Result<Vec<Vec<u8>>, Failure> {
        let records = self.store.records(bucket, log, before).await;
        if self.left.fetch_sub(1, Ordering::SeqCst) > 0 {
            ask(&*self.store, &transaction(bucket, unused(), [increment("n", 1), append("turns", &["x"])])).await;
        }
        records
    }

    async fn stamps(&self, bucket: &BucketId) -> Result<Vec<Stamp>, Failure> {
        self.store.stamps(bucket).await
    }

    async fn import(&self, incoming: Incoming<'_>, piece: Piece<'_>) -> Result<Taken, Failure> {
        self.store.import(incoming, piece).await
    }

    async fn weigh(&self, bucket: &BucketId) -> Result<Weighed, Failure> {
        self.store.weigh(bucket).await
    }

    async fn remove_if(&self, bucket: &BucketId, weight: &Weight) -> Result<Removed, Failure> {
        self.store.remove_if(bucket, weight).await
    }

    async fn has_moved(&self, bucket: &BucketId, incarnation: &[u8]) -> Result<bool, Failure> {
        self.store.has_moved(bucket, incarnation).await
    }

    async fn mark(&self, what: Mark, name: &str) -> Result<bool, Failure> {
        self.store.mark(what, name).await
    }
}

#[tokio::test]
async fn what_changes_while_it_is_copied_is_copied_again_or_told() {
    let servers = [(); 2].map(|()| RedisServer::start().unwrap());
    let places = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [redis_a, redis_b] = servers.each_ref().map(redis);
    let [directory_a, directory_b] = places.each_ref().map(|place| in_directory(place.path()));
    for (from, to) in
        [(&redis_a, &directory_a), (&directory_a, &redis_b), (&redis_b, &redis_a), (&directory_a, &directory_b)]
    {
        let id = session("s");
        for store in [from, to] {
            store.delete_bucket(Writer::new().advance(), &id, None, 0, Deadline::NEVER).await.unwrap();
        }
        fill(&**from, &id).await;
        let meddled = Arc::new(Meddled { store: from.clone(), left: AtomicI64::new(2) });
        let transfer = Transfer { from: meddled.clone(), to: to.clone(), overwrite: false };
        assert!(is_copied(transfer.bucket(&id).await.unwrap()));
        assert!(meddled.left.load(Ordering::SeqCst) < 0, "nobody meddled");
        assert_eq!(contents(&**to, &id).await, contents(&**from, &id).await);

        meddled.left.store(i64::MAX, Ordering::SeqCst);
        ask(&**from, &transaction(&id, unused(), [increment("n", 1)])).await;
        assert_eq!(transfer.bucket(&id).await.unwrap(), Transferred::Conflict);
        let transfer = Transfer { overwrite: true, ..transfer };
        assert_eq!(transfer.bucket(&id).await.unwrap(), Transferred::Changing);
        assert_eq!(transfer.remove(&id).await.unwrap(), Removed::Differs);
        meddled.left.store(0, Ordering::SeqCst);
        assert!(is_copied(transfer.bucket(&id).await.unwrap()));
        assert_eq!(transfer.remove(&id).await.unwrap(), Removed::Done);
    }
}
