//! Lists buckets by their heads among all keys of the key-value store, page by page as that one lists them.

use super::{
    Lent,
    head::Head,
    parts::{KeyName, head_key, key_name},
};
use crate::{
    BucketId, BucketPage, Clock, Failure, FailureCode, failure,
    limits::{MAX_RECORDS, PAGE},
};

/// How many of the key-value store's pages a page is looked for in. With none of the kind in them, it is empty.
const PAGES: usize = 32;

impl Lent {
    /// A page of names. The cursor is that of the key-value store, and the last name of what was listed of its page.
    pub(super) fn list_buckets(
        &self,
        clock: &dyn Clock,
        kind: &str,
        cursor: &str,
        limit: u32,
    ) -> Result<BucketPage, Failure> {
        let most = if limit == 0 { PAGE } else { MAX_RECORDS.min(limit.into()) };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let (mut place, mut after) = parse_cursor(cursor)?;
        let mut names = Vec::new();
        for _ in 0..PAGES {
            let (keys, next) = self.store.list_keys(place)?;
            let mut found: Vec<String> = keys.iter().filter_map(|key| name_of(key, kind)).collect();
            found.sort_unstable();
            found.dedup();
            found.retain(|name| *name > after);
            let is_cut = found.len() > most.saturating_sub(names.len());
            found.truncate(most.saturating_sub(names.len()));
            if is_cut && let Some(last) = found.last() {
                after.clone_from(last);
            }
            names.append(&mut found);
            if is_cut {
                break;
            }
            (place, after) = (next, String::new());
            if next.is_none() || names.len() >= most {
                break;
            }
        }
        let cursor = match (place, &*after) {
            (None, "") => String::new(),
            (None, after) => format!(".{after}"),
            (Some(place), after) => format!("{place}.{after}"),
        };
        let mut names = self.without_expired(clock, kind, names)?;
        names.sort_unstable();
        names.dedup();
        Ok(BucketPage { names, cursor })
    }

    fn without_expired(&self, clock: &dyn Clock, kind: &str, names: Vec<String>) -> Result<Vec<String>, Failure> {
        if names.is_empty() {
            return Ok(names);
        }
        let now_ms = u64::try_from(clock.now().as_millis()).unwrap_or(u64::MAX);
        let keys: Vec<String> = names.iter().map(|name| head_key(&BucketId::new(kind, name))).collect();
        let is_alive = |head: Option<Vec<u8>>| {
            // A damaged one is there, and can be deleted.
            head.is_some_and(|head| Head::decode(&head).is_none_or(|head| !head.expiry.is_over(now_ms)))
        };
        let heads = self.store.get_many(&keys)?;
        Ok(names.into_iter().zip(heads).filter_map(|(name, head)| is_alive(head).then_some(name)).collect())
    }
}

/// The name of a bucket of this kind, if the key is that of its head.
fn name_of(key: &str, kind: &str) -> Option<String> {
    match key_name(key)? {
        KeyName::Head(bucket) if bucket.kind == kind => Some(bucket.name),
        _ => None,
    }
}

/// Where the page begins in the key-value store, and after which name.
fn parse_cursor(cursor: &str) -> Result<(Option<u64>, String), Failure> {
    if cursor.is_empty() {
        return Ok((None, String::new()));
    }
    let parsed = cursor.split_once('.').and_then(|(place, after)| {
        let place = if place.is_empty() { None } else { Some(place.parse().ok()?) };
        Some((place, after.to_owned()))
    });
    parsed.ok_or_else(|| failure(FailureCode::Invalid, "cursor", "this cursor is none that a store gave"))
}
