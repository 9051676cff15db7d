//! A page of buckets: of one registry on a single server, of thousands in a cluster.
//!
//! A cursor is `registry.position.server.restarts`. A page looks at one registry, and where that does not fill it
//! at twice as many next, side by side: so a store of many buckets gives no page out of proportion, and one of
//! few is listed at one go, which costs at most a look at each of 4096 registries, well under a tenth of a
//! second. What a page reads and does not use, the next one reads again.
//!
//! A position is one server's own. Where another one has the registry by now, or has been started anew, that
//! registry is listed from its beginning: names may come twice, and none that is there all the while is left out.

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

/// The most buckets that are looked at in one registry at one go.
const MOST_AT_ONE_GO: u32 = 10_000;
/// How often one registry is listed from its beginning again. What answers there may be many servers at a time that
/// differ each time, and a listing has to end.
const MOST_RESTARTS: u8 = 3;

/// Where the next page begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cursor {
    registry: u16,
    /// Redis's own cursor in it; 0: its beginning.
    position: u64,
    /// Whose cursor that is.
    server: u32,
    /// How often this registry was begun anew.
    restarts: u8,
}

impl Cursor {
    /// What is no cursor of ours begins anew.
    fn read(text: &str) -> Self {
        let read = || {
            let mut parts = text.split('.');
            let (registry, position) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            let server = u32::from_str_radix(parts.next()?, 16).ok()?;
            let restarts = parts.next()?.parse().ok()?;
            parts.next().is_none().then_some(Self { registry, position, server, restarts })
        };
        read().unwrap_or_default()
    }

    fn text(self) -> String {
        format!("{}.{}.{:08x}.{}", self.registry, self.position, self.server, self.restarts)
    }
}

/// What is in a registry from some position on.
pub(super) struct Part {
    pub(super) buckets: Vec<String>,
    /// 0: that was the last of it.
    next: u64,
    server: u32,
    /// Whether it was begun anew.
    anew: bool,
}

/// What `list.lua` answers.
pub(super) fn read_part(reply: Value) -> Result<(Said<Part>, u64), Failure> {
    let (said, now) = codec::begun(reply)?;
    let Said::Answer((_, mut reply)) = said else { return Ok((Said::Late, now)) };
    let next = reply.text()?.parse().map_err(|_| codec::garbled())?;
    // Names are not checked by whoever else writes to this set.
    let names = codec::Reply::new(reply.next()?)?.rest().filter_map(|name| codec::text(name).ok());
    let buckets = names.filter(|name| is_bucket(name)).collect();
    let server = u32::from_str_radix(&reply.text()?, 16).map_err(|_| codec::garbled())?;
    let anew = reply.integer()? == 1;
    Ok((Said::Answer(Part { buckets, next, server, anew }), now))
}

impl RedisStore {
    pub(super) async fn page(&self, cursor: &str, limit: u32, deadline: Deadline) -> Result<BucketPage, Failure> {
        let limit = limit.clamp(1, MOST_AT_ONE_GO);
        let end = self.layout.registries();
        let mut cursor = Cursor::read(cursor);
        let mut buckets = Vec::new();
        let (mut at_once, mut asked) = (1, 0);
        while cursor.registry < end && buckets.len() < limit as usize && asked < MOST_FOR_A_PAGE {
            let last = cursor.registry.saturating_add(at_once).min(end);
            let parts = join_all((cursor.registry..last).map(|registry| {
                let begun = if registry == cursor.registry { cursor } else { Cursor::default() };
                self.part(Cursor { registry, ..begun }, limit, deadline)
            }));
            for part in parts.await {
                let Part { buckets: more, next, server, anew } = part?;
                buckets.extend(more);
                cursor = match next {
                    0 => Cursor { registry: cursor.registry + 1, ..Cursor::default() },
                    position => {
                        Cursor { position, server, restarts: cursor.restarts.saturating_add(u8::from(anew)), ..cursor }
                    }
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
            let is_checked = cursor.position != 0 && cursor.restarts < MOST_RESTARTS;
            let server = if is_checked { format!("{:08x}", cursor.server) } else { String::new() };
            command.arg(&registry.prefix).arg(cursor.position).arg(limit).arg(server);
        };
        self.link.run(registry.slot, &self.scripts.list, arguments, read_part, deadline).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_back_and_anything_else_begins_anew() {
        let cursor = Cursor { registry: 4095, position: u64::MAX, server: 0xf00d, restarts: 3 };
        assert_eq!(Cursor::read(&cursor.text()), cursor);
        for text in
            ["", "5", ".", "1.2", "a.b.c.d", "1.-1.0.0", "70000.0.0.0", "1.2.3", "1.2.x.0", "1.2.3.4.5", "1.2.3.256"]
        {
            assert_eq!(Cursor::read(text), Cursor::default(), "{text}");
        }
    }
}
