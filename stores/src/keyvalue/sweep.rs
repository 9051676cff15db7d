//! Finds what has expired and removes it: each creation of a bucket may look at some keys, from where the one before stopped.
//!
//! Nobody can compare and delete, and a bucket that has expired may be created again at any time. So a sweep first says that it is
//! under way, then looks who is creating, and leaves that bucket alone; a creation in the place of an expired bucket first says so,
//! then waits until no sweep is under way. One of the two always sees the other.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Fault, KeyValue, Lent,
    head::Head,
    parts::{KeyName, Parts, creation_key, head_key, key_name, made_at, part_key},
    transact::all_parts,
};
use crate::{BucketId, Clock, FailureCode, failure};

/// Where the next sweep goes on: the slot of the last one, and a cursor.
const PLACE: &str = "keepline_sweep";
/// There while a sweep is under way: since when, in seconds since 1970.
const UNDER_WAY: &str = "keepline_sweeping";
/// Of all processes one sweeps in each slot of so many seconds.
const SLOT_SECONDS: u64 = 2;
/// How many keys a sweep looks at, and one page more.
const KEYS: usize = 2000;
/// How many heads are read at a time.
const HEADS: usize = 100;
/// A sweep ends after this time, and who finds an older sign of one ignores it.
const MOST_SECONDS: u64 = 5;
const IGNORED_AFTER_SECONDS: u64 = 10;
/// Clocks of hosts differ: what has expired stays for so long, in milliseconds.
const GRACE_MS: u64 = 60_000;
/// Parts of no bucket, and signs of a creation, this old are left behind by a process that ended.
const LEFT_BEHIND_SECONDS: u64 = 600;
/// How often a creation looks whether a sweep is over.
const LOOKS: usize = 1000;

fn seconds(clock: &dyn Clock) -> u64 {
    clock.now().as_secs()
}

fn number(bytes: Option<Vec<u8>>) -> Option<u64> {
    std::str::from_utf8(&bytes?).ok()?.parse().ok()
}

/// Waits until no sweep is under way that began before this.
pub(super) fn wait_for_sweep(store: &dyn KeyValue, clock: &dyn Clock) -> Result<(), Fault> {
    for _ in 0..LOOKS {
        match number(store.get(UNDER_WAY)?) {
            Some(since) if since.saturating_add(IGNORED_AFTER_SECONDS) > seconds(clock) => {}
            _ => return Ok(()),
        }
    }
    let message = "this bucket has expired and may be being removed; try again in a few seconds";
    Err(failure(FailureCode::Unavailable, "", message).into())
}

impl Lent {
    /// Looks at some keys, if nobody has in this slot.
    pub(super) fn sweep(&self, clock: &dyn Clock) -> Result<(), Fault> {
        let (store, began) = (&*self.store, seconds(clock));
        let slot = began / SLOT_SECONDS;
        let claim = |slot: u64| format!("keepline_sweep.{slot}");
        if store.increment(&claim(slot), 1)? != 1 {
            return Ok(());
        }
        let place = store.get(PLACE)?.and_then(|place| String::from_utf8(place).ok()).unwrap_or_default();
        let (last, cursor) = place.split_once(' ').unwrap_or_default();
        let mut cursor = cursor.parse().ok();
        store.set(UNDER_WAY, began.to_string().as_bytes())?;
        let mut seen = 0;
        while seen < KEYS && seconds(clock) < began + MOST_SECONDS {
            let (keys, next) = store.list_keys(cursor)?;
            seen += keys.len().max(1);
            self.sweep_page(&keys, clock, began)?;
            cursor = next;
            if next.is_none() {
                break;
            }
        }
        let cursor = cursor.map(|cursor: u64| cursor.to_string()).unwrap_or_default();
        store.set(PLACE, format!("{slot} {cursor}").as_bytes())?;
        let mut over = vec![UNDER_WAY.to_owned()];
        over.extend(last.parse().ok().filter(|last| *last != slot).map(claim));
        store.delete_many(&over)?;
        Ok(())
    }

    fn sweep_page(&self, keys: &[String], clock: &dyn Clock, began: u64) -> Result<(), Fault> {
        let mut buckets: BTreeMap<BucketId, BTreeSet<u64>> = BTreeMap::new();
        let mut creations = Vec::new();
        for name in keys.iter().filter_map(|key| key_name(key)) {
            match name {
                KeyName::Head(bucket) => _ = buckets.entry(bucket).or_default(),
                KeyName::Part(bucket, id) => _ = buckets.entry(bucket).or_default().insert(id),
                KeyName::Creation(bucket) => creations.push(creation_key(&bucket)),
            }
        }
        let buckets: Vec<_> = buckets.into_iter().collect();
        for some in buckets.chunks(HEADS) {
            let heads: Vec<String> = some.iter().map(|(bucket, _)| head_key(bucket)).collect();
            let heads = self.store.get_many(&heads)?;
            let expired: Vec<(&BucketId, Head)> = some
                .iter()
                .zip(&heads)
                .filter_map(|((bucket, _), head)| Some((bucket, Head::decode(head.as_deref()?)?)))
                .filter(|(_, head)| head.expiry.is_over((began * 1000).saturating_sub(GRACE_MS)))
                .collect();
            self.remove_expired(expired, clock, began)?;
            let left_behind =
                some.iter().zip(&heads).filter(|(_, head)| head.is_none()).flat_map(|((bucket, ids), _)| {
                    let is_old = |id: &&u64| made_at(**id).saturating_add(LEFT_BEHIND_SECONDS) < began;
                    ids.iter().filter(is_old).map(|id| part_key(bucket, *id))
                });
            self.delete_keys(&left_behind.collect::<Vec<_>>())?;
        }
        self.delete_old_creations(&creations, began)
    }

    fn remove_expired(&self, expired: Vec<(&BucketId, Head)>, clock: &dyn Clock, began: u64) -> Result<(), Fault> {
        if expired.is_empty() {
            return Ok(());
        }
        let creations: Vec<String> = expired.iter().map(|(bucket, _)| creation_key(bucket)).collect();
        let creations = self.store.get_many(&creations)?;
        // Read again: one that was created before its sign was looked for is no longer the one that has expired.
        let heads: Vec<String> = expired.iter().map(|(bucket, _)| head_key(bucket)).collect();
        let heads = self.store.get_many(&heads)?;
        for (((bucket, head), creation), again) in expired.into_iter().zip(creations).zip(heads) {
            let is_same =
                again.and_then(|again| Head::decode(&again)).is_some_and(|again| again.generation == head.generation);
            if creation.is_some() || !is_same || seconds(clock) >= began + MOST_SECONDS {
                continue;
            }
            let parts = Parts { store: &*self.store, bucket, ids: &self.ids, now_seconds: began };
            let ids = match all_parts(head, parts) {
                // Those that are left are found without their head.
                Err(Fault::Missing | Fault::Damaged) => Vec::new(),
                ids => ids?,
            };
            self.delete_keys(&[head_key(bucket)])?;
            self.delete_keys(&parts.keys(&ids))?;
        }
        Ok(())
    }

    fn delete_old_creations(&self, creations: &[String], began: u64) -> Result<(), Fault> {
        if creations.is_empty() {
            return Ok(());
        }
        let since = self.store.get_many(creations)?;
        let is_old = |since: Option<Vec<u8>>| {
            number(since).is_none_or(|since| since.saturating_add(LEFT_BEHIND_SECONDS) < began)
        };
        let old = creations.iter().zip(since).filter_map(|(key, since)| is_old(since).then(|| key.clone()));
        self.delete_keys(&old.collect::<Vec<_>>())
    }

    fn delete_keys(&self, keys: &[String]) -> Result<(), Fault> {
        if keys.is_empty() { Ok(()) } else { Ok(self.store.delete_many(keys)?) }
    }
}
