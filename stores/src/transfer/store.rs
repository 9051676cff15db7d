//! The operations of a store whose buckets can be transferred: reads and writes buckets in pieces, hides them until they are
//! complete, and detects changes.
//!
//! The form in between belongs to no store. A bucket is its metadata as named texts, its maps, its logs and its indexes,
//! which are fields of bytes in the form of `index/segments.rs`. Names of the metadata that all stores know:
//!
//! | field | text |
//! |---|---|
//! | `created_at` | the generation |
//! | `ttl_seconds` | seconds, or `None` |
//! | `sliding_ms` | milliseconds, if the time to live slides |
//! | `log:NAME` | the position of the log's first record |
//! | `map:NAME` | `1`: there is that map beside the values |
//! | `index:NAME` | one more than the highest position, how many documents there are, and how many terms they have together |
//! | `lease:NAME` | when it ends in milliseconds since 1970, a space, who holds it |
//!
//! Other fields are somebody else's and go along unread. All of it is bytes: what is no text arrives at a store that takes
//! it, and is refused by one that does not.

use async_trait::async_trait;

use super::{RemovalOutcome, list_all_buckets};
use crate::{BucketId, Failure, Store, kind};

/// The name of a part, and the keys in it.
pub type NamedKeys = (Vec<u8>, Vec<Vec<u8>>);

/// What a bucket is, apart from its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketHead {
    /// Milliseconds since 1970; none: never.
    pub expires_at: Option<u64>,
    /// Of the metadata, sorted.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// Names and keys of the maps, sorted: the values, and each that a field names.
    pub maps: Vec<NamedKeys>,
    /// Names and fields of the indexes that hold something, sorted.
    pub indexes: Vec<NamedKeys>,
    /// Names and lengths of the logs that have records, sorted.
    pub logs: Vec<(Vec<u8>, u64)>,
}

impl BucketHead {
    /// Which life of the bucket this is.
    pub fn generation(&self) -> &[u8] {
        let created_at = self.fields.iter().find(|(name, _)| name == b"created_at");
        created_at.map_or(b"", |(_, text)| text)
    }

    /// Logs, maps and indexes, as fields of the metadata name them.
    pub(crate) fn named_parts(&self) -> impl Iterator<Item = Vec<u8>> {
        let named = |kind: &str, name: &[u8]| [kind.as_bytes(), name].concat();
        let logs = self.logs.iter().map(move |(log, _)| named("log:", log));
        let maps = self.maps.iter().map(move |(map, _)| named("map:", map));
        logs.chain(maps).chain(self.indexes.iter().map(move |(index, _)| named("index:", index)))
    }

    /// As far as a head tells: every write of ours and of the original's is shown by a log or by the metadata.
    pub(crate) fn is_copy_of(&self, original: &Self) -> bool {
        // A key whose value was evicted is not copied, and a life that slides is renewed by every use.
        self.fields == original.fields
            && self.logs == original.logs
            && self.indexes == original.indexes
            && self.maps.len() == original.maps.len()
            && self.maps.iter().zip(&original.maps).all(|((map, names), (same, theirs))| {
                map == same && names.iter().all(|name| theirs.binary_search(name).is_ok())
            })
    }
}

/// The last call of a writer that may still be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterStamp {
    /// The writer's name.
    pub writer: String,
    /// The number of its call.
    pub sequence: u64,
    /// After which it can't be repeated, milliseconds since 1970.
    pub deadline: u64,
}

/// What has texts under keys: a part of a bucket, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyedPart<'a> {
    /// A map, with keys and texts.
    Map(&'a [u8]),
    /// An index, with fields and their bytes.
    Index(&'a [u8]),
}

/// A bucket on its way in.
#[derive(Clone, Copy, Debug)]
pub struct IncomingBucket<'a> {
    /// Which one.
    pub bucket: &'a BucketId,
    /// What it was when the copying began.
    pub head: &'a BucketHead,
    /// The name of this copying, random: no two write to one place.
    pub id: &'a str,
}

/// What a bucket that arrives may take the place of.
#[derive(Clone, Debug)]
pub enum ReplaceCondition {
    /// Of none.
    Nothing,
    /// Of whatever is there.
    Anything,
    /// Of the one that it was made of, as long as that comes to this. It keeps that one's expiry.
    Unchanged(BucketWeight),
    /// Of the one that was found there, as long as that comes to this.
    Seen(BucketWeight),
}

/// A step of a bucket's arrival. Each can be repeated at once if its answer was lost.
#[derive(Clone, Copy, Debug)]
pub enum TransferPiece<'a> {
    /// Clears away what an earlier arrival left.
    Begin {
        /// Whether a bucket that is there may be replaced.
        overwrite: bool,
    },
    /// Keys and texts.
    Entries {
        /// Of what.
        of: KeyedPart<'a>,
        /// Not empty.
        entries: &'a [(&'a [u8], &'a [u8])],
    },
    /// Records in order.
    Records {
        /// Of which log.
        log: &'a [u8],
        /// How many came before.
        before: u64,
        /// Not empty.
        records: &'a [Vec<u8>],
    },
    /// Calls that must not count a second time. Later ones of the same writers stay.
    Stamps(&'a [WriterStamp]),
    /// From now on it is there, whole, in the place of one that may be there.
    End {
        /// Which.
        replaces: &'a ReplaceCondition,
    },
    /// Clears away what has arrived: it will not be ended.
    Abandon,
}

/// What became of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceOutcome {
    /// It was taken in.
    Yes,
    /// There is a bucket of that name which this one may not replace. Nothing was changed.
    Exists,
    /// Another arrival of the same bucket has taken this one's place, or part of it has expired. Nothing was changed.
    Displaced,
}

/// What a bucket comes to: equal where everything in it is equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketWeight {
    /// Of all contents and of the metadata, as `digest.rs` reckons it.
    pub digest: String,
    /// Milliseconds since 1970; none: never.
    pub expires_at: Option<u64>,
    /// Whether the store's list of buckets has it.
    pub is_listed: bool,
}

/// A bucket, or the time at which there was none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WeighedBucket {
    /// It is there.
    There(BucketWeight),
    /// It is not.
    Absent {
        /// The store's clock, milliseconds since 1970.
        now: u64,
    },
}

/// A store whose buckets can be transferred. Names and sizes are as they are stored: also those that no call of
/// [`Store`] would make.
#[async_trait]
pub trait TransferStore: Store {
    /// None: there is no such bucket.
    async fn head(&self, bucket: &BucketId) -> Result<Option<BucketHead>, Failure>;

    /// The texts under these keys, or under the first of them, as many as make a part; at least one. None: there is
    /// nothing under that key.
    async fn entries(
        &self,
        bucket: &BucketId,
        of: KeyedPart<'_>,
        keys: &[Vec<u8>],
    ) -> Result<Vec<Option<Vec<u8>>>, Failure>;

    /// As many records as make a part, beginning with the one that so many precede. None at the log's end.
    async fn records(&self, bucket: &BucketId, log: &[u8], before: u64) -> Result<Vec<Vec<u8>>, Failure>;

    /// Who wrote to it lately and may repeat that.
    async fn stamps(&self, bucket: &BucketId) -> Result<Vec<WriterStamp>, Failure>;

    /// Take a piece of a bucket in.
    async fn import(&self, incoming: IncomingBucket<'_>, piece: TransferPiece<'_>) -> Result<PieceOutcome, Failure>;

    /// Read all of a bucket: at one go, or piece by piece where that would keep others waiting. What is read of one that
    /// changes meanwhile comes to something that it never was.
    async fn weigh(&self, bucket: &BucketId) -> Result<WeighedBucket, Failure>;

    /// Remove a bucket if it still comes to this, in one step, and [remember](Self::has_moved) that for some minutes.
    async fn remove_if(&self, bucket: &BucketId, weight: &BucketWeight) -> Result<RemovalOutcome, Failure>;

    /// Whether a transfer has removed this life of a bucket lately, because the same was in its target.
    async fn has_moved(&self, bucket: &BucketId, generation: &[u8]) -> Result<bool, Failure>;

    /// The kinds of which the store lists buckets. By default those that are registered.
    async fn kinds(&self) -> Result<Vec<String>, Failure> {
        Ok(kind::REGISTERED.map(ToOwned::to_owned).to_vec())
    }

    /// All buckets, also those that the list has lost, in order. By default those of the list, for stores that
    /// lose none.
    async fn scan_buckets(&self) -> Result<Vec<BucketId>, Failure> {
        list_all_buckets(self).await
    }
}
