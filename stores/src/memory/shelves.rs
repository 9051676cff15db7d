//! Buckets by kind and name: one shelf for each kind, so that a bucket is found by its name alone.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
};

use super::writers::RecentWriters;
use crate::{
    BucketKind, BucketPage,
    bucket::Bucket,
    limits::{MAX_RECORDS, PAGE},
};

/// What a bucket takes beside its contents: its places in the hash table and in the indices, and the first node of its
/// values.
const SLOT_OVERHEAD: u64 = 1184;

/// The place of a bucket. It outlives the bucket for as long as a late retry may come.
#[derive(Debug)]
pub(super) struct BucketSlot {
    pub(super) name: Arc<str>,
    pub(super) bucket: Option<Bucket>,
    pub(super) writers: RecentWriters,
    /// When the last bucket here ended, in milliseconds.
    pub(super) retired_at: u64,
}

impl BucketSlot {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self { name, bucket: None, writers: RecentWriters::default(), retired_at: 0 }
    }

    /// What it takes without its bucket.
    pub(super) fn cost(&self) -> u64 {
        slot_cost(&self.name).saturating_add(self.writers.cost())
    }
}

/// The buckets of a kind.
#[derive(Debug, Default)]
pub(super) struct KindShelf {
    pub(super) slots: HashMap<Arc<str>, BucketSlot>,
    /// The buckets that are there, for paging.
    pub(super) names: BTreeSet<Arc<str>>,
}

impl KindShelf {
    /// A page of names. The cursor is the last name of the page before, whether or not that bucket is still there.
    pub(super) fn list(&self, now_ms: u64, cursor: &str, limit: u32) -> BucketPage {
        let most = if limit == 0 { PAGE } else { MAX_RECORDS.min(limit.into()) };
        let mut rest = self.names.range::<str, _>((Bound::Excluded(cursor), Bound::Unbounded));
        let mut last = None;
        let mut names = Vec::new();
        for name in rest.by_ref().take(usize::try_from(most).unwrap_or(usize::MAX)) {
            last = Some(name);
            let bucket = self.slots.get(name).and_then(|slot| slot.bucket.as_ref());
            if bucket.is_some_and(|bucket| !bucket.expiry.is_over(now_ms)) {
                names.push(name.to_string());
            }
        }
        let more = rest.next().and(last);
        BucketPage { names, cursor: more.map(ToString::to_string).unwrap_or_default() }
    }
}

#[derive(Debug, Default)]
pub(super) struct BucketShelves([KindShelf; 6]);

impl BucketShelves {
    pub(super) fn shelf_for(&self, kind: BucketKind) -> &KindShelf {
        kind.pick_for_kind(self.0.each_ref())
    }

    pub(super) fn of_mut(&mut self, kind: BucketKind) -> &mut KindShelf {
        kind.pick_for_kind(self.0.each_mut())
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|shelf| shelf.names.len()).sum()
    }

    #[cfg(test)]
    pub(super) fn slots(&self) -> impl Iterator<Item = &BucketSlot> + Clone {
        self.0.iter().flat_map(|shelf| shelf.slots.values())
    }
}

pub(super) fn slot_cost(name: &str) -> u64 {
    SLOT_OVERHEAD.saturating_add(name.len() as u64)
}
