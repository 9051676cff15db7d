//! Copies buckets from one store to another: from a directory to Redis, from a single server to a cluster and back, to
//! another prefix, to another machine.
//!
//! A bucket is copied part by part, so that its size does not matter, and appears in the target when it is complete. Then
//! both sides are read and compared. A second transfer skips buckets that were copied already, so that one that was
//! interrupted continues where it was. The source is only read.
//!
//! Values, records, metadata, generation and expiry arrive unchanged. So do the numbers of the writers' last calls: a call
//! that is repeated in the target after the move counts once. Pipes should be stopped first; what they write meanwhile is
//! found by the comparison.

mod apart;
pub(crate) mod digest;
pub(crate) mod metadata;
mod removal;
mod store;

use std::{cmp::Reverse, sync::Arc, time::Duration};

pub use self::{
    apart::NotApart,
    removal::{Arrival, RemovalOutcome},
    store::{
        BucketHead, BucketWeight, IncomingBucket, KeyedPart, NamedKeys, PieceOutcome, ReplaceCondition, TransferPiece,
        TransferStore, WeighedBucket, WriterStamp,
    },
};
use crate::{BucketId, Deadline, Failure, FailureCode, failure, limits::MAX_WRITERS, names::check_bucket};

/// Bytes of a part; one value or record may be larger.
pub(crate) const PART_BYTES: usize = 1 << 20;
/// Keys or records of a part. Lua's `unpack` ends at about 8000.
pub(crate) const PART_COUNT: usize = 500;
/// Names of a page of the list.
const PAGE: u32 = 1000;
/// How often a bucket that changes meanwhile is copied again.
const TRIES: u32 = 3;
/// How often it is begun again because somebody else writes the same bucket to the target.
const CONTESTS: u32 = 12;
/// Random pauses before that, so that two transfers don't keep stopping each other.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How the record begins that a moved bucket leaves among the stamps of its writers, before the generation.
pub(crate) const MOVED: &str = "moved.";
/// Two servers' reckoning of one instant, milliseconds, where it has to be computed (Redis before 7).
pub(crate) const SAME_INSTANT_MS: u64 = 10;

/// A transfer between two stores. Prove first that they are [apart](Transfer::prove_apart) if it replaces or removes
/// anything.
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
    /// It has expired or was deleted before anything of it had arrived, or has expired on both sides.
    Gone,
    /// Another transfer has moved it meanwhile, after it had found the same in the target.
    Moved {
        /// When it expires, milliseconds since 1970; none: never.
        expires_at: Option<u64>,
    },
    /// It was deleted from the source after it had arrived. Whether the copy is wanted is unknown: it stays in the target.
    Deleted,
    /// It was changed each time while it was copied. What is in the target may be of a state that never was: stop the
    /// pipes and transfer it again, with `overwrite`.
    Changing,
}

enum Copying {
    /// It is in its place, with so many bytes.
    Done(u64),
    /// The source changed meanwhile. Nothing was put.
    Changed,
    /// Somebody else has put one there meanwhile, or copies the same bucket. Nothing was put.
    Contested,
}

fn contested() -> Failure {
    failure(FailureCode::Other, "", "another client keeps writing the same bucket to the target")
}

/// All buckets in a store's list, in order, but for marks that a killed transfer left behind.
pub async fn list_all_buckets<S: TransferStore + ?Sized>(store: &S) -> Result<Vec<BucketId>, Failure> {
    let mut buckets = Vec::new();
    for kind in store.kinds().await? {
        let mut cursor = String::new();
        loop {
            let page = store.list_buckets(&kind, &cursor, PAGE, Deadline::NEVER).await?;
            let listed = page.names.into_iter().map(|name| BucketId::new(&*kind, name));
            buckets.extend(listed.filter(|bucket| !apart::is_mark(bucket)));
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
    /// Two transfers of one bucket agree, whatever their order: neither puts anything in the place of what the other has
    /// put there since it looked, and a bucket that the other has moved counts as [moved](Transferred::Moved).
    ///
    /// # Errors
    /// When one of the two stores fails, when what is stored has other types than it should have, or when the target
    /// can't hold it. What was copied so far is no bucket; it is cleared away now, if the target can, or by the next
    /// transfer.
    pub async fn copy_bucket(&self, bucket: &BucketId) -> Result<Transferred, Failure> {
        check_bucket(bucket)?;
        // What this transfer has put into the target.
        let mut put: Option<(BucketHead, u64)> = None;
        let (mut tries, mut contests) = (0, 0);
        loop {
            let Some(head) = self.from.head(bucket).await? else {
                return self.outcome_when_gone(bucket, put.map(|(head, _)| head)).await;
            };
            let there = self.to.head(bucket).await?;
            if let Some(there) = &there {
                if self.is_same(bucket, &head, there).await? {
                    let expires_at = head.expires_at;
                    return Ok(match put {
                        Some((_, bytes)) => Transferred::Copied { bytes, expires_at },
                        None => Transferred::AlreadyThere { expires_at },
                    });
                }
                if !self.is_there_still(bucket, &head).await? {
                    // It was compared with what is not there any more.
                    continue;
                }
            }
            if tries == TRIES {
                return Ok(Transferred::Changing);
            }
            let mut replaces = ReplaceCondition::Nothing;
            if there.is_some() {
                let WeighedBucket::There(weight) = self.to.weigh(bucket).await? else { continue };
                // Looked at after it was weighed: what somebody writes to the copy is not overwritten.
                let there = self.to.head(bucket).await?;
                let is_own = there.zip(put.as_ref()).is_some_and(|(there, (head, _))| there.is_copy_of(head));
                if !self.overwrite && !is_own {
                    return Ok(Transferred::Conflict);
                }
                replaces = ReplaceCondition::Seen(weight);
            }
            match self.copy(bucket, &head, &replaces).await? {
                Copying::Done(bytes) => {
                    put = Some((head, bytes));
                    tries += 1;
                }
                Copying::Changed => tries += 1,
                Copying::Contested if contests < CONTESTS => {
                    contests += 1;
                    let most = LONGEST_PAUSE.min(SHORTEST_PAUSE * (1 << contests));
                    tokio::time::sleep(most.mul_f64(fastrand::f64())).await;
                }
                Copying::Contested => return Err(contested()),
            }
        }
    }

    async fn outcome_when_gone(&self, bucket: &BucketId, put: Option<BucketHead>) -> Result<Transferred, Failure> {
        let Some(head) = put else { return Ok(Transferred::Gone) };
        Ok(match self.removed_by_others(bucket, head.generation(), head.expires_at).await? {
            RemovalOutcome::Moved => Transferred::Moved { expires_at: head.expires_at },
            RemovalOutcome::Gone => Transferred::Gone,
            _ => Transferred::Deleted,
        })
    }

    async fn is_there_still(&self, bucket: &BucketId, head: &BucketHead) -> Result<bool, Failure> {
        let now = self.from.head(bucket).await?;
        Ok(now.is_some_and(|now| now.generation() == head.generation()))
    }

    /// Puts a bucket in the place of one that is there and still comes to this: a new version of it, made from a copy. It
    /// keeps the expiry of the one that it replaces. `Conflict`: that has changed, or is gone.
    ///
    /// # Errors
    /// As [`bucket`](Self::copy_bucket).
    pub async fn replace(&self, bucket: &BucketId, weight: &BucketWeight) -> Result<Transferred, Failure> {
        self.put_over(bucket, ReplaceCondition::Unchanged(weight.clone())).await
    }

    /// Puts a bucket in the place of one that is there and still comes to this: another one, whose expiry it brings along.
    /// `Conflict`: what was there has changed, or is gone.
    ///
    /// # Errors
    /// As [`bucket`](Self::copy_bucket).
    pub async fn replace_seen(&self, bucket: &BucketId, weight: &BucketWeight) -> Result<Transferred, Failure> {
        self.put_over(bucket, ReplaceCondition::Seen(weight.clone())).await
    }

    async fn put_over(&self, bucket: &BucketId, replaces: ReplaceCondition) -> Result<Transferred, Failure> {
        check_bucket(bucket)?;
        let Some(head) = self.from.head(bucket).await? else { return Ok(Transferred::Gone) };
        Ok(match self.copy(bucket, &head, &replaces).await? {
            Copying::Done(bytes) => Transferred::Copied { bytes, expires_at: head.expires_at },
            Copying::Changed => Transferred::Changing,
            Copying::Contested => Transferred::Conflict,
        })
    }

    async fn copy(
        &self,
        bucket: &BucketId,
        head: &BucketHead,
        replaces: &ReplaceCondition,
    ) -> Result<Copying, Failure> {
        let id = format!("{:016x}", fastrand::u64(..));
        let incoming = IncomingBucket { bucket, head, id: &id };
        let copied = self.copy_pieces(incoming, replaces).await;
        if !matches!(copied, Ok(Copying::Done(_))) {
            // Would be cleared away later, too.
            let _ = self.to.import(incoming, TransferPiece::Abandon).await;
        }
        copied
    }

    async fn copy_pieces(&self, incoming: IncomingBucket<'_>, replaces: &ReplaceCondition) -> Result<Copying, Failure> {
        let IncomingBucket { bucket, head, .. } = incoming;
        let overwrite = !matches!(replaces, ReplaceCondition::Nothing);
        let begin = TransferPiece::Begin { overwrite };
        if self.to.import(incoming, begin).await? != PieceOutcome::Yes {
            return Ok(Copying::Contested);
        }
        let mut copied = 0;
        for (of, keys) in keyed_parts(head) {
            let mut left = keys;
            while !left.is_empty() {
                let (part, rest) = read_entries_piece(&*self.from, bucket, of, left).await?;
                let held: Vec<_> = part.iter().filter_map(|(key, text)| Some((*key, text.as_deref()?))).collect();
                copied += held.iter().map(|(_, text)| text.len() as u64).sum::<u64>();
                let piece = TransferPiece::Entries { of, entries: &held };
                if !held.is_empty() && self.to.import(incoming, piece).await? != PieceOutcome::Yes {
                    return Ok(Copying::Contested);
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
                let piece = TransferPiece::Records { log, before, records: &records };
                if self.to.import(incoming, piece).await? != PieceOutcome::Yes {
                    return Ok(Copying::Contested);
                }
                before += records.len() as u64;
            }
        }
        // Before anybody can repeat a call over there. What is written from now on changes the bucket, and is found out.
        let mut stamps = self.from.stamps(bucket).await?;
        stamps.retain(|stamp| !stamp.writer.starts_with(MOVED));
        // More than a store remembers of its own would keep others from writing.
        stamps.sort_unstable_by_key(|stamp| Reverse(stamp.deadline));
        stamps.truncate(usize::try_from(MAX_WRITERS).unwrap_or(usize::MAX));
        for stamps in stamps.chunks(PART_COUNT) {
            if self.to.import(incoming, TransferPiece::Stamps(stamps)).await? != PieceOutcome::Yes {
                return Ok(Copying::Contested);
            }
        }
        // What was read of a bucket that has gone meanwhile, or that another has followed, is not all of it.
        if !self.from.head(bucket).await?.is_some_and(|now| head.is_copy_of(&now)) {
            return Ok(Copying::Changed);
        }
        Ok(match self.to.import(incoming, TransferPiece::End { replaces }).await? {
            PieceOutcome::Yes => Copying::Done(copied),
            PieceOutcome::Exists | PieceOutcome::Displaced => Copying::Contested,
        })
    }

    /// Whether both sides hold the same, byte for byte.
    async fn is_same(&self, bucket: &BucketId, here: &BucketHead, there: &BucketHead) -> Result<bool, Failure> {
        if !same_instant(here.expires_at, there.expires_at) || here.fields != there.fields || here.logs != there.logs {
            return Ok(false);
        }
        if here.maps.len() != there.maps.len() || here.indexes.len() != there.indexes.len() {
            return Ok(false);
        }
        for ((of, keys), (same, theirs)) in keyed_parts(here).zip(keyed_parts(there)) {
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
        of: KeyedPart<'_>,
        keys: &[Vec<u8>],
        theirs: usize,
    ) -> Result<bool, Failure> {
        // A key whose value was evicted is not copied.
        let mut missing = 0;
        let mut left = keys;
        while !left.is_empty() {
            let (mut mine, rest) = read_entries_piece(&*self.from, bucket, of, left).await?;
            let asked = mine.len();
            mine.retain(|(_, text)| text.is_some());
            missing += asked - mine.len();
            let keys: Vec<_> = mine.iter().map(|(key, _)| key.to_vec()).collect();
            let (mut mine, mut unseen) = (mine.iter(), keys.as_slice());
            while !unseen.is_empty() {
                // A piece of one store need not be one of the other.
                let (theirs, rest) = read_entries_piece(&*self.to, bucket, of, unseen).await?;
                if !theirs.iter().all(|part| mine.next() == Some(part)) {
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
type EntriesPiece<'a> = (Vec<(&'a [u8], Option<Vec<u8>>)>, &'a [Vec<u8>]);

/// The parts of a bucket that have texts under keys, with those.
fn keyed_parts(head: &BucketHead) -> impl Iterator<Item = (KeyedPart<'_>, &[Vec<u8>])> {
    let maps = head.maps.iter().map(|(map, keys)| (KeyedPart::Map(map), keys.as_slice()));
    maps.chain(head.indexes.iter().map(|(index, fields)| (KeyedPart::Index(index), fields.as_slice())))
}

/// The digest of a bucket that looks like this, read in pieces: of a state that it had if it does not change meanwhile.
#[cfg(feature = "redis")]
pub(crate) async fn digest_of(
    store: &dyn TransferStore,
    bucket: &BucketId,
    head: &BucketHead,
) -> Result<String, Failure> {
    let mut digest = digest::BucketDigest::default();
    head.fields.iter().for_each(|(name, text)| digest.field(name, text));
    for (of, keys) in keyed_parts(head) {
        let mut left = keys;
        while !left.is_empty() {
            let (part, rest) = read_entries_piece(store, bucket, of, left).await?;
            for (key, text) in part {
                match (of, text) {
                    // One that was evicted is none.
                    (_, None) => {}
                    (KeyedPart::Map(map), Some(text)) => digest.entry(map, key, &text),
                    (KeyedPart::Index(index), Some(bytes)) => digest.field_of_index(index, key, &bytes),
                }
            }
            left = rest;
        }
    }
    for (log, length) in &head.logs {
        let (mut before, mut records) = (0, digest::LogDigest::default());
        while before < *length {
            let some = store.records(bucket, log, before).await?;
            if some.is_empty() {
                break;
            }
            some.iter().for_each(|record| records.record(record));
            before += some.len() as u64;
        }
        digest.log(log, records);
    }
    Ok(digest.finish())
}

async fn read_entries_piece<'a>(
    store: &dyn TransferStore,
    bucket: &BucketId,
    of: KeyedPart<'_>,
    keys: &'a [Vec<u8>],
) -> Result<EntriesPiece<'a>, Failure> {
    let asked = keys.get(..PART_COUNT).unwrap_or(keys);
    let texts = store.entries(bucket, of, asked).await?;
    match keys.split_at_checked(texts.len()) {
        Some((_, rest)) if !texts.is_empty() && texts.len() <= asked.len() => {
            Ok((keys.iter().map(Vec::as_slice).zip(texts).collect(), rest))
        }
        _ => Err(failure(FailureCode::Other, "", "the store answered another question")),
    }
}
