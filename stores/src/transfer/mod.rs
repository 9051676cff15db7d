//! Carrying buckets from one store to another: from a directory to Redis, from a single server to a cluster and back, to
//! another prefix, to another machine.
//!
//! A bucket is copied part by part, so that its size does not matter, and is not there before it is whole. Then both
//! sides are read and compared. What was copied is left alone by a second transfer, so that one which was broken off
//! goes on where it was. The source is only read.
//!
//! Values, records, metadata, incarnation and expiry arrive as they were. So do the numbers of the writers' last calls:
//! one that is repeated over there after the move counts once. Whoever transfers stops the pipes first, or has what they
//! write meanwhile found out by the comparison.

mod apart;
#[cfg(feature = "directory")]
pub(crate) mod digest;
pub(crate) mod metadata;
mod removal;
mod store;

use std::{cmp::Reverse, sync::Arc};

pub use self::{
    apart::NotApart,
    removal::{Arrival, Removed},
    store::{Head, Incoming, Keyed, Mark, NamedKeys, Piece, Replaces, Stamp, TransferStore, Weighed, Weight},
};
use crate::{
    BucketId, BucketKind, Deadline, Failure, FailureCode, Store, failure, limits::MAX_WRITERS, names::check_bucket,
};

/// Bytes of a part; one value or record may be larger.
pub(crate) const PART_BYTES: usize = 1 << 20;
/// Keys or records of a part. Lua's `unpack` ends at about 8000.
pub(crate) const PART_COUNT: usize = 500;
/// Names of a page of the list.
const PAGE: u32 = 1000;
/// How often a bucket that changes meanwhile is copied anew.
const TRIES: u32 = 3;
/// Two servers' reckoning of one instant, milliseconds, where it has to be computed (Redis before 7).
pub(crate) const SAME_INSTANT_MS: u64 = 10;

/// From where to where. Whoever replaces or removes by it proves first that they are [apart](Transfer::prove_apart).
#[derive(Clone, Debug)]
pub struct Transfer {
    /// Where the buckets are.
    pub from: Arc<dyn TransferStore>,
    /// Where they are to be.
    pub to: Arc<dyn TransferStore>,
    /// Whether a bucket that is there already, with other contents, is replaced.
    pub overwrite: bool,
}

/// What became of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transferred {
    /// It was copied, and both sides were found to be the same.
    Copied {
        /// Values and records, bytes.
        bytes: u64,
        /// When it expires, milliseconds since 1970; none: never.
        expires_at: Option<u64>,
    },
    /// The same is there already.
    AlreadyThere {
        /// When it expires, milliseconds since 1970; none: never.
        expires_at: Option<u64>,
    },
    /// There is one of that name with other contents. Nothing was changed.
    Conflict,
    /// It has expired or was deleted meanwhile.
    Gone,
    /// It was changed each time while it was copied. The copy may be of a state that never was: stop the
    /// pipes and transfer it again, with `overwrite`.
    Changing,
}

/// All buckets in a store's list, in order.
///
/// # Errors
/// When the store fails.
pub async fn listed<S: Store + ?Sized>(store: &S) -> Result<Vec<BucketId>, Failure> {
    let mut buckets = Vec::new();
    for kind in BucketKind::ALL {
        let mut cursor = String::new();
        loop {
            let page = store.list_buckets(kind, &cursor, PAGE, Deadline::NEVER).await?;
            buckets.extend(page.names.into_iter().map(|name| BucketId { kind, name }));
            cursor = page.cursor;
            if cursor.is_empty() {
                break;
            }
        }
    }
    // A name may come twice.
    buckets.sort_unstable();
    buckets.dedup();
    Ok(buckets)
}

impl Transfer {
    /// Copies one bucket and compares both sides.
    ///
    /// # Errors
    /// When one of the two stores fails, when what is stored has other types than it should have, or when the target
    /// can't hold it. What was copied so far is no bucket; it is cleared away now, if the target can, or by the next
    /// transfer.
    pub async fn bucket(&self, bucket: &BucketId) -> Result<Transferred, Failure> {
        check_bucket(bucket)?;
        let Some(mut head) = self.from.head(bucket).await? else { return Ok(Transferred::Gone) };
        if let Some(there) = self.to.head(bucket).await? {
            if self.is_same(bucket, &head, &there).await? {
                return Ok(Transferred::AlreadyThere { expires_at: head.expires_at });
            }
            if !self.overwrite {
                return Ok(Transferred::Conflict);
            }
        }
        let mut replaces = if self.overwrite { Replaces::Anything } else { Replaces::Nothing };
        for _ in 0..TRIES {
            let Some(bytes) = self.copy(bucket, &head, replaces).await? else { return Ok(Transferred::Conflict) };
            // What it replaces now is its own.
            replaces = Replaces::Anything;
            let Some(now) = self.from.head(bucket).await? else {
                self.take_back(bucket, &head).await?;
                return Ok(Transferred::Gone);
            };
            if let Some(there) = self.to.head(bucket).await?
                && self.is_same(bucket, &now, &there).await?
            {
                return Ok(Transferred::Copied { bytes, expires_at: now.expires_at });
            }
            head = now;
        }
        Ok(Transferred::Changing)
    }

    /// Removes a copy whose original has gone meanwhile, unless somebody has used it already.
    async fn take_back(&self, bucket: &BucketId, head: &Head) -> Result<(), Failure> {
        let Weighed::There(weight) = self.to.weigh(bucket).await? else { return Ok(()) };
        if self.to.head(bucket).await?.is_some_and(|there| there.is_copy_of(head)) {
            self.to.remove_if(bucket, &weight).await?;
        }
        Ok(())
    }

    /// Puts a bucket in the place of one that is there and still comes to this: a new version of it, made from a copy. It
    /// keeps the expiry of the one that it replaces. `Conflict`: that has changed, or is gone.
    ///
    /// # Errors
    /// As [`bucket`](Self::bucket).
    pub async fn replace(&self, bucket: &BucketId, weight: &Weight) -> Result<Transferred, Failure> {
        check_bucket(bucket)?;
        let Some(head) = self.from.head(bucket).await? else { return Ok(Transferred::Gone) };
        Ok(match self.copy(bucket, &head, Replaces::Unchanged(weight)).await? {
            Some(bytes) => Transferred::Copied { bytes, expires_at: head.expires_at },
            None => Transferred::Conflict,
        })
    }

    /// None: somebody else has made a bucket of that name there.
    async fn copy(&self, bucket: &BucketId, head: &Head, replaces: Replaces<'_>) -> Result<Option<u64>, Failure> {
        let id = format!("{:016x}", fastrand::u64(..));
        let incoming = Incoming { bucket, head, id: &id };
        let copied = self.copy_pieces(incoming, replaces).await;
        if !matches!(copied, Ok(Some(_))) {
            // Would be cleared away later, too.
            let _ = self.to.import(incoming, Piece::Abandon).await;
        }
        copied
    }

    async fn copy_pieces(&self, incoming: Incoming<'_>, replaces: Replaces<'_>) -> Result<Option<u64>, Failure> {
        let Incoming { bucket, head, .. } = incoming;
        let overwrite = !matches!(replaces, Replaces::Nothing);
        if !self.to.import(incoming, Piece::Begin { overwrite }).await? {
            return Ok(None);
        }
        let mut copied = 0;
        for (of, keys) in keyed(head) {
            let mut left = keys;
            while !left.is_empty() {
                let (part, rest) = entries(&*self.from, bucket, of, left).await?;
                let held: Vec<_> = part.iter().filter_map(|(key, text)| Some((*key, text.as_deref()?))).collect();
                copied += held.iter().map(|(_, text)| text.len() as u64).sum::<u64>();
                let piece = Piece::Entries { of, entries: &held };
                if !held.is_empty() && !self.to.import(incoming, piece).await? {
                    return Ok(None);
                }
                left = rest;
            }
        }
        for (log, length) in &head.logs {
            let mut before = 0;
            while before < *length {
                let records = self.from.records(bucket, log, before).await?;
                if records.is_empty() {
                    break;
                }
                copied += records.iter().map(|record| record.len() as u64).sum::<u64>();
                if !self.to.import(incoming, Piece::Records { log, before, records: &records }).await? {
                    return Ok(None);
                }
                before += records.len() as u64;
            }
        }
        // Before anybody can repeat a call over there. What is written from now on changes the bucket, and is found out.
        let mut stamps = self.from.stamps(bucket).await?;
        // More than a store remembers of its own would keep others from writing.
        stamps.sort_unstable_by_key(|stamp| Reverse(stamp.deadline));
        stamps.truncate(usize::try_from(MAX_WRITERS).unwrap_or(usize::MAX));
        for stamps in stamps.chunks(PART_COUNT) {
            if !self.to.import(incoming, Piece::Stamps(stamps)).await? {
                return Ok(None);
            }
        }
        Ok(self.to.import(incoming, Piece::End { replaces }).await?.then_some(copied))
    }

    /// Whether both sides hold the same, byte for byte.
    async fn is_same(&self, bucket: &BucketId, here: &Head, there: &Head) -> Result<bool, Failure> {
        if !same_instant(here.expires_at, there.expires_at) || here.fields != there.fields || here.logs != there.logs {
            return Ok(false);
        }
        if here.maps.len() != there.maps.len() || here.indexes.len() != there.indexes.len() {
            return Ok(false);
        }
        for ((of, keys), (same, theirs)) in keyed(here).zip(keyed(there)) {
            if of != same || !self.is_same_map(bucket, of, keys, theirs.len()).await? {
                return Ok(false);
            }
        }
        for (log, length) in &here.logs {
            let mut before = 0;
            while before < *length {
                let mine = self.from.records(bucket, log, before).await?;
                if mine.is_empty() || !self.has_records(bucket, log, before, &mine).await? {
                    return Ok(false);
                }
                before += mine.len() as u64;
            }
        }
        Ok(true)
    }

    /// Whether the target has these records there.
    async fn has_records(
        &self,
        bucket: &BucketId,
        log: &[u8],
        mut before: u64,
        mut records: &[Vec<u8>],
    ) -> Result<bool, Failure> {
        while !records.is_empty() {
            // A part of one store need not be one of the other.
            let theirs = self.to.records(bucket, log, before).await?;
            let common = theirs.len().min(records.len());
            let Some((these, rest)) = records.split_at_checked(common) else { return Ok(false) };
            if common == 0 || !theirs.starts_with(these) {
                return Ok(false);
            }
            before += common as u64;
            records = rest;
        }
        Ok(true)
    }

    /// Whether both sides hold the same under these keys, of which there are so many on the other side.
    async fn is_same_map(
        &self,
        bucket: &BucketId,
        of: Keyed<'_>,
        keys: &[Vec<u8>],
        theirs: usize,
    ) -> Result<bool, Failure> {
        // A key whose value was evicted is none: it is not copied.
        let mut missing = 0;
        let mut left = keys;
        while !left.is_empty() {
            let (mine, rest) = entries(&*self.from, bucket, of, left).await?;
            let asked: Vec<_> = mine.iter().filter(|(_, text)| text.is_some()).map(|(key, _)| key.to_vec()).collect();
            missing += mine.len() - asked.len();
            let mut unseen = asked.as_slice();
            let mut wanted = mine.iter().filter(|(_, text)| text.is_some());
            while !unseen.is_empty() {
                let (theirs, rest) = entries(&*self.to, bucket, of, unseen).await?;
                if !theirs.iter().all(|part| wanted.next() == Some(part)) {
                    return Ok(false);
                }
                unseen = rest;
            }
            left = rest;
        }
        Ok(keys.len() == theirs + missing)
    }
}

/// Whether two stores mean one instant.
pub(crate) fn same_instant(one: Option<u64>, other: Option<u64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.abs_diff(other) <= SAME_INSTANT_MS,
        (one, other) => one == other,
    }
}

/// Some keys with their texts, if they have one, and the keys that are left.
type Entries<'a> = (Vec<(&'a [u8], Option<Vec<u8>>)>, &'a [Vec<u8>]);

/// The parts of a bucket that have texts under keys, with those.
fn keyed(head: &Head) -> impl Iterator<Item = (Keyed<'_>, &[Vec<u8>])> {
    let maps = head.maps.iter().map(|(map, keys)| (Keyed::Map(map), keys.as_slice()));
    maps.chain(head.indexes.iter().map(|(index, fields)| (Keyed::Index(index), fields.as_slice())))
}

/// As many entries as make a part.
async fn entries<'a>(
    store: &dyn TransferStore,
    bucket: &BucketId,
    of: Keyed<'_>,
    keys: &'a [Vec<u8>],
) -> Result<Entries<'a>, Failure> {
    let asked = keys.get(..PART_COUNT).unwrap_or(keys);
    let texts = store.entries(bucket, of, asked).await?;
    match keys.split_at_checked(texts.len()) {
        Some((_, rest)) if !texts.is_empty() && texts.len() <= asked.len() => {
            Ok((keys.iter().map(Vec::as_slice).zip(texts).collect(), rest))
        }
        _ => Err(failure(FailureCode::Other, "", "the store answered another question")),
    }
}
