//! Walks through all keys of a server by `SCAN`, and finds the buckets that no list names: a store's lists can be evicted,
//! or lose names to another program, while the buckets stay.

use std::sync::Arc;

use super::{
    RedisStore, decode,
    servers::{node::RedisNode, request::Requester},
};
use crate::{BucketId, Failure};

/// Keys that a server looks at for one answer.
const STEP: u32 = 1000;

/// A walk through the keys of one server that match a pattern. A key may come twice.
pub(super) struct KeyScan {
    pattern: String,
    /// None: it is over.
    cursor: Option<String>,
}

impl KeyScan {
    pub(super) fn new(pattern: String) -> Self {
        Self { pattern, cursor: Some("0".to_owned()) }
    }

    /// The next keys, but for those that are no text, which are none of ours. There may be none at all on the way.
    pub(super) async fn next(
        &mut self,
        requester: &Requester,
        node: &Arc<RedisNode>,
    ) -> Result<Option<Vec<String>>, Failure> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(&self.pattern).arg("COUNT").arg(STEP);
        let reply = requester.send_until_answered(node, &scan).await?;
        let (next, keys): (String, Vec<Vec<u8>>) =
            redis::from_redis_value(reply).map_err(|_| decode::unexpected_reply())?;
        self.cursor = Some(next).filter(|next| next != "0");
        Ok(Some(keys.into_iter().filter_map(|key| String::from_utf8(key).ok()).collect()))
    }
}

impl RedisStore {
    /// All buckets, of any kind, also those that are in no list, in order.
    ///
    /// It asks each server for all names of keys in the database, a thousand at a time, whatever they belong to; so it
    /// takes as long as there are keys, some hundred thousand a second. The user must be allowed `SCAN`, which none of
    /// the methods of [`Store`](crate::Store) needs and which tells the names of all keys, those of others as well. In a
    /// cluster no slots may move meanwhile.
    ///
    /// # Errors
    /// When a server fails, or denies `SCAN` to the user.
    pub async fn scan_buckets(&self) -> Result<Vec<BucketId>, Failure> {
        let mut buckets = Vec::new();
        for node in self.requester.list_slot_owners().await? {
            let mut scan = KeyScan::new(self.layout.meta_pattern());
            while let Some(keys) = scan.next(&self.requester, &node).await? {
                buckets.extend(keys.iter().filter_map(|key| self.layout.bucket_of(key)));
            }
        }
        // A name may come twice.
        buckets.sort_unstable();
        buckets.dedup();
        Ok(buckets)
    }
}
