//! A store with something between it and whoever uses it: what watches, delays or breaks calls says only that.

use std::{ops::Deref, sync::Arc};

use async_trait::async_trait;
use futures::future::join_all;
use keepline::store::{
    BreakerState, BucketId, BucketKind, BucketPage, Deadline, Deletion, Failure, Receipt, Store, StoreCapabilities,
    Transaction, Writer, check,
};

/// What stands between. Unless told, it lets everything through.
#[async_trait]
pub trait Between: Send + Sync + std::fmt::Debug + 'static {
    /// Before each call but a transaction.
    ///
    /// # Errors
    /// What the call fails with.
    fn before(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// In the place of each transaction.
    ///
    /// # Errors
    /// What the transaction fails with.
    async fn transact(
        &self,
        store: &dyn Store,
        writer: &Writer,
        transaction: &Transaction,
        deadline: Deadline,
    ) -> Result<Receipt, Failure> {
        self.before()?;
        store.transact(writer, transaction, deadline).await
    }

    /// In the place of several transactions that wait once.
    async fn transact_each(
        &self,
        store: &dyn Store,
        writer: &Writer,
        transactions: &[Transaction],
        deadline: Deadline,
    ) -> Vec<Result<Receipt, Failure>> {
        join_all(transactions.iter().map(|transaction| self.transact(store, writer, transaction, deadline))).await
    }

    /// Before each deletion, after [`Between::before`].
    async fn before_deletion(&self) {}

    /// What is told of the store's capabilities.
    fn capabilities(&self, told: StoreCapabilities) -> StoreCapabilities {
        told
    }
}

/// The store, with this between.
#[derive(Debug)]
pub struct With<B> {
    store: Arc<dyn Store>,
    between: B,
}

impl<B> With<B> {
    /// Put this before a store.
    pub fn new(store: Arc<dyn Store>, between: B) -> Self {
        Self { store, between }
    }

    /// The store behind.
    pub fn behind(&self) -> &Arc<dyn Store> {
        &self.store
    }
}

/// Tests ask what stands between what it saw.
impl<B> Deref for With<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.between
    }
}

#[async_trait]
impl<B: Between> Store for With<B> {
    async fn transact(
        &self,
        writer: &Writer,
        transaction: &Transaction,
        deadline: Deadline,
    ) -> Result<Receipt, Failure> {
        self.between.transact(&*self.store, writer, transaction, deadline).await
    }

    async fn transact_each(
        &self,
        writer: &Writer,
        transactions: &[Transaction],
        deadline: Deadline,
    ) -> Vec<Result<Receipt, Failure>> {
        if let Err(failure) = check::together(transactions) {
            return vec![Err(failure); transactions.len()];
        }
        self.between.transact_each(&*self.store, writer, transactions, deadline).await
    }

    async fn list_buckets(
        &self,
        kind: BucketKind,
        cursor: &str,
        limit: u32,
        deadline: Deadline,
    ) -> Result<BucketPage, Failure> {
        self.between.before()?;
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
        self.between.before()?;
        self.between.before_deletion().await;
        self.store.delete_bucket(writer, bucket, incarnation, max_keys, deadline).await
    }

    fn capabilities(&self) -> StoreCapabilities {
        self.between.capabilities(self.store.capabilities())
    }

    fn breaker(&self) -> Option<BreakerState> {
        self.store.breaker()
    }

    fn round_trips(&self) -> u64 {
        self.store.round_trips()
    }

    async fn check(&self) -> Result<(), Failure> {
        self.between.before()?;
        self.store.check().await
    }
}
