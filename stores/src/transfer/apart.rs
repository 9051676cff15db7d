//! Proves that two stores are apart, so that no session of the one is a session of the other.
//!
//! Addresses don't tell: one server has many names, a cluster's nodes, replicas and proxies have more, and a directory
//! has as many as there are links and mounts. So a bucket with a random name is created in each store, as a mark, and the
//! other store must not have it. Prefixes and layouts are tried by that, too. A mark is not a session, and is deleted
//! afterwards; one that is left behind expires.

use std::time::Duration;

use super::{Transfer, TransferStore};
use crate::{
    BucketId, Deadline, DeleteRequest, ExistingBucket, Failure, FailureCode, NewBucket, Precondition, Status,
    TimeToLive, Transaction, Writer, kind,
};

/// What is written on one server may be seen on another a little later, where that is its replica.
const LAG: Duration = Duration::from_millis(200);
/// Longer than both stores take to answer.
const MARK_TTL: TimeToLive = TimeToLive { milliseconds: 60_000, sliding: false };

/// Why two stores are not known to be apart.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotApart {
    /// What the one writes, the other reads.
    #[error("source and target are the same store, even if they are addressed differently")]
    Same,
    /// The source can't be read or written.
    #[error("the source can't be used: {}", .0.message)]
    Source(Failure),
    /// The target can't be read or written.
    #[error("the target can't be used: {}", .0.message)]
    Target(Failure),
}

const MARK_PREFIX: &str = "transfer-mark-";

/// A bucket that is there to be found, and holds nothing.
struct Mark(BucketId);

/// Whether a bucket is the mark of some transfer.
pub(super) fn is_mark(bucket: &BucketId) -> bool {
    bucket.kind == kind::SERVICE && bucket.name.starts_with(MARK_PREFIX)
}

impl Mark {
    fn new() -> Self {
        Self(BucketId::new(kind::SERVICE, format!("{MARK_PREFIX}{:032x}", fastrand::u128(..))))
    }

    async fn leave(&self, store: &dyn TransferStore) -> Result<(), Failure> {
        let life = NewBucket { time_to_live: Some(MARK_TTL) };
        self.transact(store, Precondition::CreateNew(life)).await.map(drop)
    }

    async fn is_in(&self, store: &dyn TransferStore) -> Result<bool, Failure> {
        let life = ExistingBucket { generation: None, renew: false };
        Ok(self.transact(store, Precondition::Existing(life)).await? == Status::Applied)
    }

    async fn remove(&self, store: &dyn TransferStore) {
        let request = DeleteRequest { bucket: self.0.clone(), generation: None, max_keys: 0 };
        // Otherwise it expires.
        let _ = store.delete(&new_writer(), &request, Deadline::NEVER).await;
    }

    async fn transact(&self, store: &dyn TransferStore, precondition: Precondition) -> Result<Status, Failure> {
        let (expectations, operations) = (Vec::new(), Vec::new());
        let transaction = Transaction { bucket: self.0.clone(), precondition, expectations, operations };
        Ok(store.transact(&new_writer(), &transaction.into(), Deadline::NEVER).await?.receipt.status)
    }
}

fn new_writer() -> Writer {
    let mut writer = Writer::new();
    writer.advance();
    writer
}

impl Transfer {
    /// Proves that both stores are apart: before anything is replaced or removed in one of them because of what the
    /// other holds. Some ten round trips and a fifth of a second.
    ///
    /// A source that is full takes no mark. Then it suffices that the target takes one, and that the source
    /// does not see it.
    ///
    /// # Errors
    /// When they are the same, or when one of them can't be read or written, so that it can't be proved.
    pub async fn prove_apart(&self) -> Result<(), NotApart> {
        let (of_source, of_target) = (Mark::new(), Mark::new());
        let outcome = self.look_for_marks(&of_source, &of_target).await;
        of_source.remove(&*self.from).await;
        of_target.remove(&*self.to).await;
        outcome
    }

    async fn look_for_marks(&self, of_source: &Mark, of_target: &Mark) -> Result<(), NotApart> {
        match of_source.leave(&*self.from).await {
            Err(failure) if !matches!(failure.code, FailureCode::Full | FailureCode::TooManyBuckets) => {
                return Err(NotApart::Source(failure));
            }
            _ => {}
        }
        of_target.leave(&*self.to).await.map_err(NotApart::Target)?;
        tokio::time::sleep(LAG).await;
        let is_in_source = of_target.is_in(&*self.from).await.map_err(NotApart::Source)?;
        if is_in_source || of_source.is_in(&*self.to).await.map_err(NotApart::Target)? {
            return Err(NotApart::Same);
        }
        Ok(())
    }
}
