//! The store in Redis: each transaction is one server-side script on one bucket's keys, in one round trip.
//!
//! Never waits longer than the time-out, never applies a transaction twice, and never applies one late.

mod cursor;
mod decode;
mod eviction;
pub mod fuzzing;
mod layout;
mod listing;
mod maintenance;
mod options;
mod reply;
mod scan;
mod scripts;
mod servers;
mod transact;
mod transfer;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use redis::{Cmd, Value};

use self::{
    decode::ScriptReply,
    layout::{BucketKeys, KeyLayout},
    scripts::ScriptSet,
    servers::{
        cluster::{Cluster, RedisServers},
        node::{RedisNode, WireConfig},
        permissions::CommandNeeds,
        request::Requester,
    },
    transact::MOST_SHAPES,
};
pub use self::{
    maintenance::{BucketDamage, CheckedBuckets, RepairedBuckets},
    options::{RedisOptions, RedisOptionsError},
};
use super::{
    BucketPage, Deadline, DeleteRequest, Deletion, Failure, IndexedReceipt, IndexedTransaction, Status, Store,
    StoreInfo, Writer, capability, check, guard::breaker::BreakerState,
};

/// A store in Redis 6.2 or newer, or in anything that speaks its protocol and runs its scripts. It connects
/// when it is first used, and again whenever it has to. Needs a tokio runtime.
pub struct RedisStore {
    layout: KeyLayout,
    scripts: Arc<ScriptSet>,
    requester: Arc<Requester>,
}

impl RedisStore {
    /// # Errors
    /// When the options contradict each other or the URL is no Redis URL. That no server answers there is
    /// reported by the first use, or by [`check`](Store::check).
    pub fn new(options: RedisOptions) -> Result<Self, RedisOptionsError> {
        let clients = options.build_clients()?;
        let wire = Arc::new(WireConfig::new(&options, clients.is_tls()));
        let layout = KeyLayout::new(&options.key_prefix, options.cluster);
        let servers = if options.cluster {
            RedisServers::Cluster(Arc::new(Cluster::new(clients, wire)))
        } else {
            let (address, client) = clients.single_client()?;
            RedisServers::Single(Arc::new(RedisNode::new(address, client, wire)))
        };
        let requester = Arc::new(Requester::new(servers, options.store_timeout));
        Ok(Self { layout, scripts: Arc::new(ScriptSet::new(MOST_SHAPES)), requester })
    }

    /// A store of another tenant: the same servers, connections, circuit breakers and time-outs, under another key
    /// prefix. The Redis user must be allowed to use it.
    ///
    /// # Errors
    /// When the prefix is not one that [`RedisOptions::key_prefix`] may be.
    pub fn with_key_prefix(&self, prefix: &str) -> Result<Self, RedisOptionsError> {
        options::check_key_prefix(prefix)?;
        Ok(Self {
            layout: self.layout.with_prefix(prefix),
            scripts: self.scripts.clone(),
            requester: self.requester.clone(),
        })
    }

    /// How many shapes of transactions have a script of their own at a time, 64 by default. All others are served by
    /// one script that is sent the shape, too, which is slower. A shape that is asked for often takes the place of one
    /// that is not; since Redis never forgets a script, a store makes no more than 16 times as many in its life.
    #[must_use]
    pub fn with_shapes(mut self, most: usize) -> Self {
        self.scripts = Arc::new(ScriptSet::new(most));
        self
    }
}

/// The keys of a script on one bucket, with their count.
fn write_bucket_keys(command: &mut Cmd, keys: &BucketKeys) {
    command.arg(4 + usize::from(keys.registry.guard.is_some()));
    command.arg(&keys.meta).arg(&keys.keys).arg(&keys.writers).arg(&keys.registry.key).arg(&keys.registry.guard);
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("layout", &self.layout).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn transact(
        &self,
        writer: &Writer,
        transaction: &IndexedTransaction,
        deadline: Deadline,
    ) -> Result<IndexedReceipt, Failure> {
        check::validate_transaction(transaction, &capability::ALL)?;
        let keys = self.layout.bucket_keys(&transaction.transaction.bucket);
        let request = transact::encode::EncodedRequest::new(transaction);
        let writes = check::new_bucket(&transaction.transaction.precondition).is_some() || transaction.has_writes();
        let chosen = self.scripts.transact.choose_script(request.parts());
        let arguments = |command: &mut Cmd, deadline| {
            self::write_bucket_keys(command, &keys);
            request.write_arguments(command, writer, deadline, chosen.holds_shape);
        };
        let read = |reply| decode::read_receipt(reply, transaction);
        let needs = if writes { CommandNeeds::Writing } else { CommandNeeds::Reading };
        self.requester.run_script(&keys.registry, (&chosen.script, needs), arguments, read, deadline).await
    }

    async fn list_buckets(
        &self,
        kind: &str,
        cursor: &str,
        limit: u32,
        deadline: Deadline,
    ) -> Result<BucketPage, Failure> {
        self.list_page(kind, cursor, limit, deadline).await
    }

    async fn delete(&self, writer: &Writer, request: &DeleteRequest, deadline: Deadline) -> Result<Deletion, Failure> {
        check::validate_deletion(request)?;
        let DeleteRequest { bucket, generation, max_keys } = request;
        let keys = self.layout.bucket_keys(bucket);
        let arguments = |command: &mut Cmd, deadline: u64| {
            self::write_bucket_keys(command, &keys);
            command.arg(&keys.base).arg(&bucket.name).arg(writer.id()).arg(writer.sequence());
            command.arg(deadline).arg(generation.as_deref().unwrap_or_default());
        };
        let read = |reply| read_deletion(reply, *max_keys);
        self.requester
            .run_script(&keys.registry, (&self.scripts.delete, CommandNeeds::Writing), arguments, read, deadline)
            .await
    }

    fn about(&self) -> StoreInfo {
        StoreInfo::new(&capability::ALL)
    }

    fn breaker(&self) -> Option<BreakerState> {
        Some(self.requester.breaker())
    }

    fn round_trips(&self) -> u64 {
        self.requester.round_trips()
    }

    async fn warnings(&self) -> Vec<String> {
        self.requester.eviction_warnings().await
    }

    async fn check(&self) -> Result<(), Failure> {
        self.requester.ping().await?;
        self.look_at_each_server().await
    }
}

fn read_deletion(reply: Value, max_keys: u32) -> Result<(ScriptReply<Deletion>, u64), Failure> {
    decode::answer(reply, |status, now, mut reply| {
        let (values, mut keys) = (reply.unsigned()?, reply.keys()?);
        keys.truncate(max_keys as usize);
        let deletion = Deletion { status, now, values, keys };
        // What is not there any more may have been deleted by an earlier try.
        Ok(if status == Status::Applied { ScriptReply::Written(deletion) } else { ScriptReply::Found(deletion) })
    })
}
