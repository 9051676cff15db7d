//! Wraps a store, so that a test can watch, delay, fail or replace its calls by writing only that.

use std::{ops::Deref, sync::Arc};

use async_trait::async_trait;
use futures::future::join_all;
use keepline_stores::{
    BreakerState, BucketId, BucketPage, Deadline, DeleteRequest, Deletion, Failure, IndexedReceipt, IndexedTransaction,
    RemovalOutcome, Store, StoreInfo, TransferStore, Writer, check,
    transfer::{
        BucketHead, BucketWeight, IncomingBucket, KeyedPart, PieceOutcome, TransferPiece, WeighedBucket, WriterStamp,
    },
};

/// Hooks around the calls of a store. By default every call goes through unchanged.
#[async_trait]
pub trait Intercept: Send + Sync + std::fmt::Debug + 'static {
    /// Runs before each call of [`Store`] that waits.
    ///
    /// # Errors
    /// Those with which the call fails.
    async fn before(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Replaces each transaction.
    ///
    /// # Errors
    /// Those with which the transaction fails.
    async fn transact(
        &self,
        store: &dyn Store,
        writer: &Writer,
        transaction: &IndexedTransaction,
        deadline: Deadline,
    ) -> Result<IndexedReceipt, Failure> {
        self.before().await?;
        store.transact(writer, transaction, deadline).await
    }

    /// Replaces several transactions that wait once.
    async fn transact_each(
        &self,
        store: &dyn Store,
        writer: &Writer,
        transactions: &[IndexedTransaction],
        deadline: Deadline,
    ) -> Vec<Result<IndexedReceipt, Failure>> {
        join_all(transactions.iter().map(|transaction| self.transact(store, writer, transaction, deadline))).await
    }

    /// Replaces several deletions that wait once.
    async fn delete_each(
        &self,
        store: &dyn Store,
        writer: &Writer,
        requests: &[DeleteRequest],
        deadline: Deadline,
    ) -> Vec<Result<Deletion, Failure>> {
        let delete = async |request| {
            self.before().await?;
            self.before_deletion().await;
            store.delete(writer, request, deadline).await
        };
        join_all(requests.iter().map(delete)).await
    }

    /// Runs before each deletion, after [`Intercept::before`].
    async fn before_deletion(&self) {}

    /// Runs before each call of [`TransferStore`] but marks.
    async fn before_transfer(&self) {}

    /// Runs after the records of a bucket have been read for a transfer.
    async fn after_records(&self, _store: &dyn Store, _bucket: &BucketId) {}

    /// Replaces what the store says of itself.
    fn about(&self, of_store: StoreInfo) -> StoreInfo {
        of_store
    }

    /// Replaces the state of the store's breaker.
    fn breaker(&self, of_store: Option<BreakerState>) -> Option<BreakerState> {
        of_store
    }
}

/// A store whose calls are intercepted. `T` is what its transfers go through: `()` for a store that transfers nothing.
#[derive(Debug)]
pub struct Intercepted<I, T = ()> {
    store: Arc<dyn Store>,
    transfer: T,
    intercept: I,
}

impl<I> Intercepted<I> {
    /// Intercepts the calls of a store.
    pub fn new(store: Arc<dyn Store>, intercept: I) -> Self {
        Self { store, transfer: (), intercept }
    }

    /// The store behind.
    pub fn behind(&self) -> &Arc<dyn Store> {
        &self.store
    }
}

impl<I> Intercepted<I, Arc<dyn TransferStore>> {
    /// Intercepts the calls of a store, and those of transfers from and to it.
    pub fn with_transfers(store: Arc<dyn TransferStore>, intercept: I) -> Self {
        Self { store: store.clone(), transfer: store, intercept }
    }
}

/// Tests ask the hooks what they saw.
impl<I, T> Deref for Intercepted<I, T> {
    type Target = I;

    fn deref(&self) -> &I {
        &self.intercept
    }
}

#[async_trait]
impl<I: Intercept, T: Send + Sync + std::fmt::Debug + 'static> Store for Intercepted<I, T> {
    async fn transact(
        &self,
        writer: &Writer,
        transaction: &IndexedTransaction,
        deadline: Deadline,
    ) -> Result<IndexedReceipt, Failure> {
        self.intercept.transact(&*self.store, writer, transaction, deadline).await
    }

    async fn transact_each(
        &self,
        writer: &Writer,
        transactions: &[IndexedTransaction],
        deadline: Deadline,
    ) -> Vec<Result<IndexedReceipt, Failure>> {
        if let Err(failure) = check::validate_batch(transactions) {
            return vec![Err(failure); transactions.len()];
        }
        self.intercept.transact_each(&*self.store, writer, transactions, deadline).await
    }

    async fn list_buckets(
        &self,
        kind: &str,
        cursor: &str,
        limit: u32,
        deadline: Deadline,
    ) -> Result<BucketPage, Failure> {
        self.intercept.before().await?;
        self.store.list_buckets(kind, cursor, limit, deadline).await
    }

    async fn delete(&self, writer: &Writer, request: &DeleteRequest, deadline: Deadline) -> Result<Deletion, Failure> {
        self.intercept.before().await?;
        self.intercept.before_deletion().await;
        self.store.delete(writer, request, deadline).await
    }

    async fn delete_each(
        &self,
        writer: &Writer,
        requests: &[DeleteRequest],
        deadline: Deadline,
    ) -> Vec<Result<Deletion, Failure>> {
        if let Err(failure) = check::validate_deletions(requests) {
            return vec![Err(failure); requests.len()];
        }
        self.intercept.delete_each(&*self.store, writer, requests, deadline).await
    }

    fn about(&self) -> StoreInfo {
        self.intercept.about(self.store.about())
    }

    fn breaker(&self) -> Option<BreakerState> {
        self.intercept.breaker(self.store.breaker())
    }

    fn round_trips(&self) -> u64 {
        self.store.round_trips()
    }

    async fn check(&self) -> Result<(), Failure> {
        self.intercept.before().await?;
        self.store.check().await
    }
}

#[async_trait]
impl<I: Intercept> TransferStore for Intercepted<I, Arc<dyn TransferStore>> {
    async fn head(&self, bucket: &BucketId) -> Result<Option<BucketHead>, Failure> {
        self.intercept.before_transfer().await;
        self.transfer.head(bucket).await
    }

    async fn entries(
        &self,
        bucket: &BucketId,
        of: KeyedPart<'_>,
        keys: &[Vec<u8>],
    ) -> Result<Vec<Option<Vec<u8>>>, Failure> {
        self.intercept.before_transfer().await;
        self.transfer.entries(bucket, of, keys).await
    }

    async fn records(&self, bucket: &BucketId, log: &[u8], before: u64) -> Result<Vec<Vec<u8>>, Failure> {
        self.intercept.before_transfer().await;
        let records = self.transfer.records(bucket, log, before).await;
        self.intercept.after_records(&*self.store, bucket).await;
        records
    }

    async fn stamps(&self, bucket: &BucketId) -> Result<Vec<WriterStamp>, Failure> {
        self.intercept.before_transfer().await;
        self.transfer.stamps(bucket).await
    }

    async fn import(&self, incoming: IncomingBucket<'_>, piece: TransferPiece<'_>) -> Result<PieceOutcome, Failure> {
        self.intercept.before_transfer().await;
        self.transfer.import(incoming, piece).await
    }

    async fn weigh(&self, bucket: &BucketId) -> Result<WeighedBucket, Failure> {
        self.intercept.before_transfer().await;
        self.transfer.weigh(bucket).await
    }

    async fn remove_if(&self, bucket: &BucketId, weight: &BucketWeight) -> Result<RemovalOutcome, Failure> {
        self.intercept.before_transfer().await;
        self.transfer.remove_if(bucket, weight).await
    }

    async fn has_moved(&self, bucket: &BucketId, generation: &[u8]) -> Result<bool, Failure> {
        self.intercept.before_transfer().await;
        self.transfer.has_moved(bucket, generation).await
    }

    async fn kinds(&self) -> Result<Vec<String>, Failure> {
        self.transfer.kinds().await
    }

    async fn scan_buckets(&self) -> Result<Vec<BucketId>, Failure> {
        self.transfer.scan_buckets().await
    }
}
