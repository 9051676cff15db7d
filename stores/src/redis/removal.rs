//! The end of a transfer: what has arrived is removed where it came from, and nothing else.
//!
//! Both servers reckon a digest of what they hold, and the source compares them and removes the bucket in one step.
//! So a write that the comparison did not see, whoever wrote it and however, is not lost: the bucket stays.

use redis::{Cmd, Value};

use super::{
    RedisStore, Transfer,
    decode::{self, Said},
    keys,
    transfer::SAME_INSTANT_MS,
};
use crate::{BucketId, Deadline, Failure, Status, Writer, names::check_bucket};

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

/// What a bucket comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Weight {
    digest: String,
    /// Milliseconds since 1970; -1: never.
    expires_at: i64,
    is_listed: bool,
}

/// With the store's clock.
pub(super) enum Weighed {
    There(Weight),
    Absent { now: u64 },
}

impl Transfer {
    /// Removes a bucket from the source, if the target holds and lists the same at that moment. Both servers read all
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

impl RedisStore {
    pub(super) async fn weigh(&self, bucket: &BucketId) -> Result<Weighed, Failure> {
        let bucket = self.layout.bucket(bucket);
        let arguments = |command: &mut Cmd, deadline: u64| {
            keys(command, &bucket);
            command.arg(deadline).arg("weigh");
        };
        let read = |reply: Value| {
            let (said, now) = decode::begun(reply)?;
            let weighed = match said {
                Said::Late => return Ok((Said::Late, now)),
                Said::Answer((Status::Applied, mut reply)) | Said::Written((Status::Applied, mut reply)) => {
                    let (expires_at, digest) = (reply.integer()?, reply.text()?);
                    Weighed::There(Weight { digest, expires_at, is_listed: reply.integer()? == 1 })
                }
                _ => Weighed::Absent { now },
            };
            Ok((Said::Answer(weighed), now))
        };
        self.link.run(bucket.registry.slot, &self.scripts.weigh, arguments, read, Deadline::NEVER).await
    }

    /// Removes a bucket that still is what it was.
    pub(super) async fn remove_if(&self, bucket: &BucketId, weight: &Weight) -> Result<Removed, Failure> {
        let mut writer = Writer::new();
        writer.advance();
        let bucket = self.layout.bucket(bucket);
        let arguments = |command: &mut Cmd, deadline: u64| {
            keys(command, &bucket);
            command.arg(deadline).arg("remove").arg(writer.id()).arg(writer.sequence());
            command.arg(&weight.digest).arg(weight.expires_at).arg(SAME_INSTANT_MS);
        };
        let read = |reply: Value| {
            let (said, now) = decode::begun(reply)?;
            Ok(match said {
                Said::Late => (Said::Late, now),
                Said::Answer((status, _)) | Said::Written((status, _)) => {
                    let removed = match status {
                        Status::Applied | Status::Repeated => Removed::Done,
                        Status::Absent => Removed::Gone,
                        Status::Unmet => Removed::Differs,
                        _ => return Err(decode::garbled()),
                    };
                    (Said::Answer(removed), now)
                }
            })
        };
        self.link.run(bucket.registry.slot, &self.scripts.weigh, arguments, read, Deadline::NEVER).await
    }
}
