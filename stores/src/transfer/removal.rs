//! Ends a transfer: removes from the source what has arrived in the target, and nothing else.
//!
//! Both stores compute a digest of what they hold, and the source compares them and removes the bucket in one step. So no
//! write is lost that the comparison did not see, by whichever program: the bucket stays.

use super::{SAME_INSTANT_MS, Transfer, WeighedBucket};
use crate::{BucketId, Failure, names::check_bucket};

/// What became of a bucket that was to be removed from the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemovalOutcome {
    /// It was the same on both sides, and is removed.
    Done,
    /// Its time is over.
    Gone,
    /// Another transfer has removed it, because it found the same in the target.
    Moved,
    /// Somebody has deleted it from the source. Its copy is in the target.
    Deleted,
    /// The two sides differ by now. Nothing was changed.
    Differs,
    /// The target does not have it, or not in its list of buckets. Nothing was changed.
    NotThere,
}

/// What there is of a bucket that was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arrival {
    /// It is there, and in the list of buckets.
    There,
    /// It is there, and can be used by its name, but is not in the list of buckets.
    NotListed,
    /// Its time is over.
    Expired,
    /// It is not there, and should be.
    Missing,
}

impl Transfer {
    /// Removes a bucket from the source, if the target holds and lists the same at that moment. Both stores read all
    /// of it once, at one go: about a second for some hundred megabytes.
    ///
    /// # Errors
    /// When one of the two stores fails, or when what is stored has other types than it should have. Unless the
    /// source did not answer in time, nothing was changed.
    pub async fn remove(&self, bucket: &BucketId) -> Result<RemovalOutcome, Failure> {
        check_bucket(bucket)?;
        match self.to.weigh(bucket).await? {
            WeighedBucket::There(weight) if weight.is_listed => match self.from.remove_if(bucket, &weight).await? {
                RemovalOutcome::Gone => match self.to.head(bucket).await? {
                    Some(copy) => self.removed_by_others(bucket, copy.generation(), weight.expires_at).await,
                    None => Ok(RemovalOutcome::NotThere),
                },
                removed => Ok(removed),
            },
            _ => Ok(RemovalOutcome::NotThere),
        }
    }

    /// Why the source does not have a bucket that it had: `Moved`, `Gone` or `Deleted`.
    pub(super) async fn removed_by_others(
        &self,
        bucket: &BucketId,
        generation: &[u8],
        expires_at: Option<u64>,
    ) -> Result<RemovalOutcome, Failure> {
        if self.from.has_moved(bucket, generation).await? {
            return Ok(RemovalOutcome::Moved);
        }
        Ok(match (self.from.weigh(bucket).await?, expires_at) {
            (WeighedBucket::Absent { now }, Some(at)) if at <= now.saturating_add(SAME_INSTANT_MS) => {
                RemovalOutcome::Gone
            }
            _ => RemovalOutcome::Deleted,
        })
    }

    /// What the target has of a bucket that was copied with this expiry (milliseconds since 1970; none: never).
    ///
    /// # Errors
    /// When the target fails.
    pub async fn arrival(&self, bucket: &BucketId, expires_at: Option<u64>) -> Result<Arrival, Failure> {
        check_bucket(bucket)?;
        Ok(match self.to.weigh(bucket).await? {
            WeighedBucket::There(weight) if weight.is_listed => Arrival::There,
            WeighedBucket::There(_) => Arrival::NotListed,
            WeighedBucket::Absent { now } if expires_at.is_some_and(|at| at <= now.saturating_add(SAME_INSTANT_MS)) => {
                Arrival::Expired
            }
            WeighedBucket::Absent { .. } => Arrival::Missing,
        })
    }
}
