//! A page of buckets: of one registry on a single server, of thousands in a cluster.
//!
//! A page looks at one registry, and where that does not fill it
//! at twice as many next, side by side: so a store of many buckets gives no page out of proportion, and one of
//! few is listed at one go, which costs at most a look at each of 4096 registries, well under a tenth of a
//! second. What a page reads and does not use, the next one reads again.
//!
//! A position is one server's own. Where another one has the registry by now, or has been started again, that
//! registry is listed from its beginning: names may come twice, and none that is there all the while is left out.

use futures::future::join_all;
use redis::{Cmd, Value};

use super::{
    RedisStore,
    cursor::ScanCursor,
    decode::{self, ScriptReply},
    servers::permissions::CommandNeeds,
};
use crate::{
    BucketPage, Deadline, Failure, kind,
    names::{check_kind, is_bucket},
};

/// Registries that are asked at one time.
const MOST_AT_ONCE: u16 = 64;
/// Looks after which a page ends, however few it has: all registries, once each. There may be more where a large
/// one holds nothing but dead names, or where a Redis answers without end.
const MOST_FOR_A_PAGE: u16 = 4096 + MOST_AT_ONCE;

/// Names on a page when the caller does not say.
const PAGE_OF_BUCKETS: u32 = 100;
/// The most buckets that are looked at in one registry at one go.
const MOST_AT_ONE_GO: u32 = 10_000;
/// What is in a registry from some position on.
pub(super) struct RegistryPage {
    pub(super) buckets: Vec<String>,
    /// 0: that was the last of it.
    next: u64,
    server: u32,
    /// Whether it was begun again.
    again: bool,
}

/// What `list.lua` answers.
pub(super) fn read_part(reply: Value) -> Result<(ScriptReply<RegistryPage>, u64), Failure> {
    decode::answer(reply, |_, _, mut reply| {
        let next = reply.text()?.parse().map_err(|_| decode::unexpected_reply())?;
        // Other clients may write any names to this set.
        let names = reply.parse::<Vec<_>>()?.into_iter().filter_map(|name| String::from_utf8(name).ok());
        let buckets = names.filter(|name| is_bucket(name)).collect();
        Ok(ScriptReply::Answer(RegistryPage { buckets, next, server: reply.server()?, again: reply.integer()? == 1 }))
    })
}

impl RedisStore {
    pub(super) async fn list_page(
        &self,
        kind: &str,
        cursor: &str,
        limit: u32,
        deadline: Deadline,
    ) -> Result<BucketPage, Failure> {
        check_kind(kind)?;
        let limit = if limit == 0 { PAGE_OF_BUCKETS } else { limit.min(MOST_AT_ONE_GO) };
        let end = self.layout.registry_count();
        let mut cursor = ScanCursor::parse_or_start(cursor);
        let mut buckets = Vec::new();
        let (mut at_once, mut asked) = (1, 0);
        while cursor.registry < end && buckets.len() < limit as usize && asked < MOST_FOR_A_PAGE {
            let last = cursor.registry.saturating_add(at_once).min(end);
            let parts = join_all((cursor.registry..last).map(|registry| {
                let begun = if registry == cursor.registry { cursor } else { ScanCursor::at_start_of(registry) };
                self.fetch_registry_page(kind, begun, limit, (CommandNeeds::Reading, deadline))
            }));
            for part in parts.await {
                let RegistryPage { buckets: more, next, server, again } = part?;
                buckets.extend(more);
                cursor =
                    cursor.next_cursor(next, server, again).unwrap_or(ScanCursor::at_start_of(cursor.registry + 1));
                if next != 0 || buckets.len() >= limit as usize {
                    break;
                }
            }
            asked += at_once;
            at_once = (2 * at_once).min(MOST_AT_ONCE);
        }
        buckets.sort_unstable();
        let cursor = if cursor.registry < end { cursor.text() } else { String::new() };
        Ok(BucketPage { names: buckets, cursor })
    }

    /// Asks each server for a name in one of its registries, and whether the user may do all that entries need.
    pub(super) async fn look_at_each_server(&self) -> Result<(), Failure> {
        let kind = kind::SESSION;
        let numbers = 0..self.layout.registry_count();
        let registries = numbers.map(|number| (number, self.layout.registry_at(kind, number).slot));
        let looks = self.requester.one_for_each_server(registries).into_iter();
        let looks = looks.map(|number| {
            let begun = ScanCursor::at_start_of(number);
            self.fetch_registry_page(kind, begun, 1, (CommandNeeds::Writing, Deadline::NEVER))
        });
        join_all(looks).await.into_iter().try_for_each(|looked| looked.map(|_| ()))
    }

    async fn fetch_registry_page(
        &self,
        kind: &str,
        cursor: ScanCursor,
        limit: u32,
        (needs, deadline): (CommandNeeds, Deadline),
    ) -> Result<RegistryPage, Failure> {
        let registry = self.layout.registry_at(kind, cursor.registry);
        let arguments = |command: &mut Cmd, _| {
            command.arg(1 + usize::from(registry.guard.is_some())).arg(&registry.key).arg(&registry.guard);
            let server = cursor.expected_server().map(|server| format!("{server:08x}"));
            command.arg(&registry.prefix).arg(cursor.position).arg(limit).arg(server.unwrap_or_default());
        };
        self.requester.run_script(&registry, (&self.scripts.list, needs), arguments, read_part, deadline).await
    }
}
