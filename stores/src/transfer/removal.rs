//! The end of a transfer: what has arrived is removed where it came from, and nothing else.
//!
//! Both stores reckon a digest of what they hold, and the source compares them and removes the bucket in one step.
//! So a write that the comparison did not see, whoever wrote it and however, is not lost: the bucket stays.

use super::{SAME_INSTANT_MS, Transfer, Weighed};
use crate::{BucketId, Failure, names::check_bucket};

/// What became of a bucket that was to be removed from the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Removed {
    /// It was the same on both sides, and is removed.
    Done,
    /// It has expired in the source, or somebody has deleted it.
    Gone,
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
    pub async fn remove(&self, bucket: &BucketId) -> Result<Removed, Failure> {
        check_bucket(bucket)?;
        match self.to.weigh(bucket).await? {
            Weighed::There(weight) if weight.is_listed => self.from.remove_if(bucket, &weight).await,
            _ => Ok(Removed::NotThere),
        }
    }

    /// What the target has of a bucket that was copied with this expiry (milliseconds since 1970; none: never).
    ///
    /// # Errors
    /// When the target fails.
    pub async fn arrival(&self, bucket: &BucketId, expires_at: Option<u64>) -> Result<Arrival, Failure> {
        check_bucket(bucket)?;
        Ok(match self.to.weigh(bucket).await? {
            Weighed::There(weight) if weight.is_listed => Arrival::There,
            Weighed::There(_) => Arrival::NotListed,
            Weighed::Absent { now } if expires_at.is_some_and(|at| at <= now.saturating_add(SAME_INSTANT_MS)) => {
                Arrival::Expired
            }
            Weighed::Absent { .. } => Arrival::Missing,
        })
    }
}
