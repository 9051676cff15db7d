//! The places of buckets, by kind and name.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
};

use super::writers::RecentWriters;
use crate::{
    BucketId, BucketPage,
    bucket::Bucket,
    kind,
    limits::{MAX_RECORDS, PAGE},
};

/// What a bucket takes beside its contents: its places in the hash table and in the indices, and the first node of its
/// values.
const SLOT_OVERHEAD: u64 = 1216;

/// The place of a bucket. It outlives the bucket for as long as a late retry may come.
#[derive(Debug)]
pub(super) struct BucketSlot {
    pub(super) id: Arc<BucketId>,
    pub(super) bucket: Option<Bucket>,
    pub(super) writers: RecentWriters,
    /// When the last bucket here ended, in milliseconds.
    pub(super) retired_at: u64,
}

impl BucketSlot {
    pub(super) fn new(id: Arc<BucketId>) -> Self {
        Self { id, bucket: None, writers: RecentWriters::default(), retired_at: 0 }
    }

    /// What it takes without its bucket.
    pub(super) fn cost(&self) -> u64 {
        slot_cost(&self.id).saturating_add(self.writers.cost())
    }
}

/// The places of all buckets, and which of them there are.
#[derive(Debug, Default)]
pub(super) struct BucketSlots {
    pub(super) by_id: HashMap<Arc<BucketId>, BucketSlot>,
    /// The buckets that are there, for paging.
    listed: BTreeSet<Arc<BucketId>>,
    /// How many of those are sessions.
    sessions: usize,
}

impl BucketSlots {
    /// There is a bucket in this place now.
    pub(super) fn list(&mut self, id: Arc<BucketId>) {
        let is_session = is_session(&id);
        if self.listed.insert(id) && is_session {
            self.sessions += 1;
        }
    }

    /// There is none any more.
    pub(super) fn unlist(&mut self, id: &BucketId) {
        if self.listed.remove(id) && is_session(id) {
            self.sessions -= 1;
        }
    }

    pub(super) fn count_sessions(&self) -> usize {
        self.sessions
    }

    pub(super) fn count_others(&self) -> usize {
        self.listed.len() - self.sessions
    }

    /// A page of names. The cursor is the last name of the page before, whether or not that bucket is still there.
    pub(super) fn page(&self, now_ms: u64, kind: &str, cursor: &str, limit: u32) -> BucketPage {
        let most = if limit == 0 { PAGE } else { MAX_RECORDS.min(limit.into()) };
        let after = BucketId::new(kind, cursor);
        let rest = self.listed.range::<BucketId, _>((Bound::Excluded(&after), Bound::Unbounded));
        let mut rest = rest.take_while(|id| id.kind == kind);
        let mut last = None;
        let mut names = Vec::new();
        for id in rest.by_ref().take(usize::try_from(most).unwrap_or(usize::MAX)) {
            last = Some(&id.name);
            let bucket = self.by_id.get(id).and_then(|slot| slot.bucket.as_ref());
            if bucket.is_some_and(|bucket| !bucket.expiry.is_over(now_ms)) {
                names.push(id.name.clone());
            }
        }
        let more = rest.next().and(last);
        BucketPage { names, cursor: more.cloned().unwrap_or_default() }
    }
}

pub(super) fn is_session(id: &BucketId) -> bool {
    id.kind == kind::SESSION
}

pub(super) fn slot_cost(id: &BucketId) -> u64 {
    SLOT_OVERHEAD.saturating_add((id.kind.len() + id.name.len()) as u64)
}
