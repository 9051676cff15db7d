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
    decode::Said,
    layout::{BucketKeys, Layouts},
    scripts::Scripts,
    servers::{
        cluster::{Cluster, Servers},
        node::{Node, Wire},
        permissions::Needs,
        request::Requester,
    },
    transact::MOST_SHAPES,
};
pub use self::{
    maintenance::{BucketDamage, CheckedBuckets, RepairedBuckets},
    options::{RedisOptions, RedisOptionsError},
};
use super::{
    BucketId, BucketKind, BucketPage, Deadline, Deletion, Failure, Receipt, Status, Store, StoreCapabilities,
    Transaction, Writer, check,
    guard::breaker::{BreakerOptions, BreakerState},
    names::{check_bucket, check_token},
};

/// A store in Redis 6.2 or newer, or in anything that speaks its protocol and runs its scripts. It connects
/// when it is first used, and again whenever it has to. Needs a tokio runtime.
pub struct RedisStore {
    layout: Layouts,
    scripts: Arc<Scripts>,
    requester: Arc<Requester>,
}

impl RedisStore {
    /// # Errors
    /// When the options contradict each other or the URL is no Redis URL. That no server answers there is
    /// reported by the first use, or by [`check`](Store::check).
    pub fn new(options: RedisOptions) -> Result<Self, RedisOptionsError> {
        let clients = options.clients()?;
        let breaker = BreakerOptions { failures: options.breaker_failures, cooldown: options.breaker_cooldown };
        let wire = Wire::new(options.store_timeout, breaker, options.wait_replicas, &options.key_prefix);
        let wire = Arc::new(wire.encrypted(clients.is_tls()));
        let (layout, servers) = match options.cluster {
            true => (Layouts::cluster(&options.key_prefix), Servers::Cluster(Arc::new(Cluster::new(clients)))),
            false => {
                let (address, client) = clients.only()?;
                (Layouts::single(&options.key_prefix), Servers::One(Arc::new(Node::new(address, client, &wire))))
            }
        };
        let requester = Arc::new(Requester::new(servers, wire, options.store_timeout));
        Ok(Self { layout, scripts: Arc::new(Scripts::new(MOST_SHAPES)), requester })
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
        self.scripts = Arc::new(Scripts::new(most));
        self
    }
}

/// The keys of a script on one bucket, with their count.
fn keys(command: &mut Cmd, keys: &BucketKeys) {
    command.arg(4 + usize::from(keys.registry.guard.is_some()));
    command.arg(&keys.meta).arg(&keys.keys).arg(&keys.writers).arg(&keys.registry.key).arg(&keys.registry.guard);
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("layout", &self.layout)
            .field("requester", &self.requester)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn transact(
        &self,
        writer: &Writer,
        transaction: &Transaction,
        deadline: Deadline,
    ) -> Result<Receipt, Failure> {
        check::transaction(transaction, &StoreCapabilities::ALL)?;
        let keys = self.layout.bucket(&transaction.bucket);
        let request = transact::encode::Request::new(transaction);
        let writes = check::new_life(&transaction.opening).is_some() || check::writes(&transaction.operations);
        let chosen = self.scripts.transact.choose(request.parts());
        let arguments = |command: &mut Cmd, deadline| {
            self::keys(command, &keys);
            request.write(command, writer, deadline, chosen.holds_shape);
        };
        let read = |reply| decode::receipt(reply, transaction);
        let needs = if writes { Needs::Writing } else { Needs::Reading };
        self.requester.run(&keys.registry, (&chosen.script, needs), arguments, read, deadline).await
    }

    async fn list_buckets(
        &self,
        kind: BucketKind,
        cursor: &str,
        limit: u32,
        deadline: Deadline,
    ) -> Result<BucketPage, Failure> {
        self.page(self.layout.of(kind), cursor, limit, deadline).await
    }

    async fn delete_bucket(
        &self,
        writer: &Writer,
        bucket: &BucketId,
        incarnation: Option<&str>,
        max_keys: u32,
        deadline: Deadline,
    ) -> Result<Deletion, Failure> {
        check_bucket(bucket)?;
        incarnation.map_or(Ok(()), |incarnation| check_token("incarnation", incarnation))?;
        let keys = self.layout.bucket(bucket);
        let arguments = |command: &mut Cmd, deadline: u64| {
            self::keys(command, &keys);
            command.arg(&keys.base).arg(&bucket.name).arg(writer.id()).arg(writer.sequence());
            command.arg(deadline).arg(incarnation.unwrap_or_default());
        };
        let read = |reply| read_deletion(reply, max_keys);
        self.requester.run(&keys.registry, (&self.scripts.delete, Needs::Writing), arguments, read, deadline).await
    }

    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities::ALL
    }

    fn breaker(&self) -> Option<BreakerState> {
        Some(self.requester.breaker())
    }

    fn round_trips(&self) -> u64 {
        self.requester.round_trips()
    }

    async fn warnings(&self) -> Vec<String> {
        self.requester.warnings().await
    }

    async fn check(&self) -> Result<(), Failure> {
        self.requester.ping().await?;
        self.look_at_each_server().await
    }
}

fn read_deletion(reply: Value, max_keys: u32) -> Result<(Said<Deletion>, u64), Failure> {
    decode::answer(reply, |status, now, mut reply| {
        let (values, mut keys) = (reply.unsigned()?, reply.keys()?);
        keys.truncate(max_keys as usize);
        let deletion = Deletion { status, now, values, keys };
        // What is not there any more may have been deleted by an earlier try.
        Ok(if status == Status::Applied { Said::Written(deletion) } else { Said::Found(deletion) })
    })
}
