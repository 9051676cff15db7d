//! Buckets that no list names: a store's lists can be evicted, or lose names by somebody's hand, and the buckets stay.

use redis::Value;

use super::{RedisStore, decode};
use crate::{BucketId, Failure};

/// Keys that a server looks at for one answer.
const STEP: u32 = 1000;

impl RedisStore {
    /// All buckets, of any kind, also those that are in no list, in order.
    ///
    /// It asks each server for all names of keys in the database, a thousand at a time, whatever they belong to; so it
    /// takes as long as there are keys, some hundred thousand a second. The user must be allowed `SCAN`, which none of
    /// the other methods needs and which tells the names of all keys, those of others as well. In a cluster no slots
    /// may move meanwhile.
    ///
    /// # Errors
    /// When a server fails, or denies `SCAN` to the user.
    pub async fn scan_buckets(&self) -> Result<Vec<BucketId>, Failure> {
        let pattern = self.layout.meta_pattern();
        let mut buckets = Vec::new();
        for node in self.link.servers().await? {
            let mut cursor = "0".to_owned();
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(STEP);
                let (next, keys) = read_step(self.link.ask(&node, &scan).await?)?;
                buckets.extend(keys.iter().filter_map(|key| self.layout.bucket_of(key)));
                cursor = next;
                if cursor == "0" {
                    break;
                }
            }
        }
        // A name may come twice.
        buckets.sort_unstable();
        buckets.dedup();
        Ok(buckets)
    }
}

/// Where it goes on, and some keys. Those that are no text are nobody's here.
fn read_step(reply: Value) -> Result<(String, Vec<String>), Failure> {
    let mut reply = decode::Reply::new(reply)?;
    let next = reply.text()?;
    let keys = decode::Reply::new(reply.next()?)?.rest().filter_map(|key| decode::text(key).ok()).collect();
    Ok((next, keys))
}
