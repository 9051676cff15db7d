//! A page of buckets: of one registry on a single server, of thousands in a cluster.
//!
//! A cursor is `registry.position`. A page looks at one registry, and where that does not fill it at twice as
//! many next, side by side: so a store of many buckets gives no page out of proportion, and one of few is
//! listed at one go, which costs at most a look at each of 4096 registries, well under a tenth of a second.
//! What a page reads and does not use, the next one reads again.

use futures::future::join_all;
use redis::{Cmd, Value};

use super::{
    RedisStore,
    codec::{self, Said},
};
use crate::store::{BucketPage, Deadline, Failure, names::is_bucket};

/// Registries that are asked at one time.
const MOST_AT_ONCE: u16 = 64;
/// Looks after which a page ends, however few it has: all registries, once each. There may be more where a large
/// one holds nothing but dead names, or where a Redis answers without end.
const MOST_FOR_A_PAGE: u16 = 4096 + MOST_AT_ONCE;

/// Where the next page begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cursor {
    registry: u16,
    /// Redis's own cursor in it; 0: its beginning.
    position: u64,
}

impl Cursor {
    /// What is no cursor of ours begins anew.
    fn read(text: &str) -> Self {
        let read = || {
            let (registry, position) = text.split_once('.')?;
            Some(Self { registry: registry.parse().ok()?, position: position.parse().ok()? })
        };
        read().unwrap_or_default()
    }

    fn text(self) -> String {
        format!("{}.{}", self.registry, self.position)
    }
}

/// What is in a registry from some position on.
pub(super) struct Part {
    pub(super) buckets: Vec<String>,
    /// 0: that was the last of it.
    next: u64,
}

/// What `list.lua` answers.
pub(super) fn read_part(reply: Value) -> Result<(Said<Part>, u64), Failure> {
    let (said, now) = codec::begun(reply)?;
    let Said::Answer((_, mut reply)) = said else { return Ok((Said::Late, now)) };
    let next = reply.text()?.parse().map_err(|_| codec::garbled())?;
    // Names are not checked by whoever else writes to this set.
    let names = codec::Reply::new(reply.next()?)?.rest().filter_map(|name| codec::text(name).ok());
    let buckets = names.filter(|name| is_bucket(name)).collect();
    Ok((Said::Answer(Part { buckets, next }), now))
}

impl RedisStore {
    pub(super) async fn page(&self, cursor: &str, limit: u32, deadline: Deadline) -> Result<BucketPage, Failure> {
        let limit = limit.max(1);
        let end = self.layout.registries();
        let mut cursor = Cursor::read(cursor);
        let mut buckets = Vec::new();
        let (mut at_once, mut asked) = (1, 0);
        while cursor.registry < end && buckets.len() < limit as usize && asked < MOST_FOR_A_PAGE {
            let last = cursor.registry.saturating_add(at_once).min(end);
            let parts = join_all((cursor.registry..last).map(|registry| {
                let position = if registry == cursor.registry { cursor.position } else { 0 };
                self.part(Cursor { registry, position }, limit, deadline)
            }));
            for part in parts.await {
                let Part { buckets: more, next } = part?;
                buckets.extend(more);
                cursor = match next {
                    0 => Cursor { registry: cursor.registry + 1, position: 0 },
                    position => Cursor { position, ..cursor },
                };
                if next != 0 || buckets.len() >= limit as usize {
                    break;
                }
            }
            asked += at_once;
            at_once = (2 * at_once).min(MOST_AT_ONCE);
        }
        buckets.sort_unstable();
        let cursor = if cursor.registry < end { cursor.text() } else { String::new() };
        Ok(BucketPage { buckets, cursor })
    }

    async fn part(&self, cursor: Cursor, limit: u32, deadline: Deadline) -> Result<Part, Failure> {
        let registry = self.layout.registry(cursor.registry);
        let arguments = |command: &mut Cmd, _| {
            command.arg(1 + usize::from(registry.guard.is_some())).arg(&registry.key).arg(&registry.guard);
            command.arg(&registry.prefix).arg(cursor.position).arg(limit);
        };
        self.link.run(registry.slot, &self.scripts.list, arguments, read_part, deadline).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_back_and_anything_else_begins_anew() {
        let cursor = Cursor { registry: 4095, position: u64::MAX };
        assert_eq!(Cursor::read(&cursor.text()), cursor);
        for text in ["", "5", ".", "a.b", "1.-1", "70000.0", "1.2.3"] {
            assert_eq!(Cursor::read(text), Cursor::default(), "{text}");
        }
    }
}
