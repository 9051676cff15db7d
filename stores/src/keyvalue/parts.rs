//! Names of what a bucket is kept as: its head, and parts that are written once and never changed.
//!
//! A part's id says when it was made, and no two parts have the same: the numbers come from a counter that the key-value
//! store adds to atomically, many at a time.

use std::cell::Cell;

use super::{Fault, KeyValue};
use crate::BucketId;

/// The counter that ids are taken from.
const IDS: &str = "keepline_ids";
/// How many ids are taken at a time.
const BLOCK: u64 = 256;

/// What a key of the key-value store names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyName {
    Head(BucketId),
    Part(BucketId, u64),
    /// See [`creation_key`].
    Creation(BucketId),
}

/// The key of a bucket's head.
pub(super) fn head_key(bucket: &BucketId) -> String {
    format!("keepline.{}.{}", bucket.kind, bucket.name)
}

/// The key of a part of a bucket.
pub(super) fn part_key(bucket: &BucketId, id: u64) -> String {
    format!("keepline.{}.{}.{id:016x}", bucket.kind, bucket.name)
}

/// The key that is there while a bucket is created in the place of one that has expired.
pub(super) fn creation_key(bucket: &BucketId) -> String {
    format!("keepline_create.{}.{}", bucket.kind, bucket.name)
}

/// What a key names; none: nothing of a bucket. Neither kinds nor names have dots.
pub(super) fn key_name(key: &str) -> Option<KeyName> {
    let mut words = key.split('.');
    let (first, kind, name) = (words.next()?, words.next()?, words.next()?);
    let bucket = BucketId::new(kind, name);
    match (first, words.next(), words.next()) {
        ("keepline", None, _) => Some(KeyName::Head(bucket)),
        ("keepline", Some(id), None) => Some(KeyName::Part(bucket, u64::from_str_radix(id, 16).ok()?)),
        ("keepline_create", None, _) => Some(KeyName::Creation(bucket)),
        _ => None,
    }
}

/// When a part was made, in seconds since 1970.
pub(super) fn made_at(id: u64) -> u64 {
    id >> 32
}

/// Ids that this process has taken and not yet used.
#[derive(Debug, Default)]
pub(super) struct PartIds {
    next: Cell<u64>,
    left: Cell<u64>,
}

impl PartIds {
    /// An id that no other part has or will have.
    pub(super) fn take(&self, store: &dyn KeyValue, now_seconds: u64) -> Result<u64, Fault> {
        if self.left.get() == 0 {
            self.next.set(store.increment(IDS, BLOCK)?.wrapping_sub(BLOCK));
            self.left.set(BLOCK);
        }
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        self.left.set(self.left.get() - 1);
        Ok(now_seconds << 32 | number & u64::from(u32::MAX))
    }
}

/// The parts of a bucket.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) store: &'a dyn KeyValue,
    pub(super) bucket: &'a BucketId,
    pub(super) ids: &'a PartIds,
    pub(super) now_seconds: u64,
}

impl Parts<'_> {
    pub(super) fn take_id(&self) -> Result<u64, Fault> {
        self.ids.take(self.store, self.now_seconds)
    }

    /// Reads parts, in the order of their ids.
    pub(super) fn read(&self, ids: &[u64]) -> Result<Vec<Vec<u8>>, Fault> {
        let keys: Vec<String> = ids.iter().map(|id| part_key(self.bucket, *id)).collect();
        self.store.get_many(&keys)?.into_iter().map(|found| found.ok_or(Fault::Missing)).collect()
    }

    pub(super) fn keys(&self, ids: &[u64]) -> Vec<String> {
        ids.iter().map(|id| part_key(self.bucket, *id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_what_they_name() {
        let bucket = BucketId::session("a_b-C");
        assert_eq!(key_name(&head_key(&bucket)), Some(KeyName::Head(bucket.clone())));
        assert_eq!(key_name(&part_key(&bucket, 300 << 32)), Some(KeyName::Part(bucket.clone(), 300 << 32)));
        assert_eq!(key_name(&creation_key(&bucket)), Some(KeyName::Creation(bucket)));
        for other in [IDS, "", "keepline", "keepline.a", "keepline.a.b.xyz", "keepline.a.b.1.2", "theirs.a.b"] {
            assert_eq!(key_name(other), None, "{other}");
        }
        assert_eq!(made_at(300 << 32 | 5), 300);
    }
}
