//! Redis as a store: each transaction is one server-side script on one bucket's keys, in one round trip.
//!
//! What it refuses: to wait longer than the time-out, to apply anything twice, and to apply anything late.

mod acl;
mod breaker;
mod codec;
pub mod fuzzing;
mod layout;
mod link;
mod options;
mod script;

use std::fmt;

use async_trait::async_trait;
use redis::{Cmd, Value};

pub use self::options::{RedisOptions, RedisOptionsError};
use self::{
    breaker::Breaker,
    codec::Said,
    layout::{BucketKeys, Layout},
    link::Link,
    script::Scripts,
};
use super::{
    BucketPage, Deletion, Description, Failure, LogDescription, Receipt, Status, Store, StoreCapabilities, TimeToLive,
    Transaction, Writer,
    names::{check_bucket, is_bucket, is_log},
    request,
};

/// A store in Redis 6.2 or newer, or in anything that speaks its protocol and runs its scripts. It connects
/// when it is first used, and again whenever it has to. Needs a tokio runtime.
pub struct RedisStore {
    layout: Layout,
    scripts: Scripts,
    link: Link,
}

impl RedisStore {
    /// # Errors
    /// When the options contradict each other or the URL is no Redis URL. That nobody answers there is
    /// told by the first use, or by [`check`](Store::check).
    pub fn new(options: RedisOptions) -> Result<Self, RedisOptionsError> {
        let client = options.client()?;
        let breaker = Breaker::new(options.breaker_failures, options.breaker_cooldown);
        Ok(Self {
            layout: Layout::new(&options.key_prefix),
            scripts: Scripts::new(),
            link: Link::new(client, options.store_timeout, breaker),
        })
    }

    fn keys(&self, command: &mut Cmd, keys: &BucketKeys) {
        command.arg(4).arg(&keys.meta).arg(&keys.keys).arg(&keys.writers).arg(self.layout.registry());
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("layout", &self.layout).field("link", &self.link).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn transact(&self, writer: &Writer, transaction: &Transaction) -> Result<Receipt, Failure> {
        request::check(transaction)?;
        let keys = self.layout.bucket(&transaction.bucket);
        let arguments = |command: &mut Cmd, deadline| {
            self.keys(command, &keys);
            let writer = (writer.id(), writer.sequence());
            codec::transact_arguments(command, writer, deadline, transaction);
        };
        self.link.run(&self.scripts.transact, arguments, |reply| codec::receipt(reply, transaction)).await
    }

    async fn list_buckets(&self, cursor: &str, limit: u32) -> Result<BucketPage, Failure> {
        // SSCAN takes a number, and begins anew with what is none.
        let cursor = cursor.parse::<u64>().unwrap_or(0);
        let arguments = |command: &mut Cmd, _| {
            command.arg(1).arg(self.layout.registry()).arg(self.layout.prefix()).arg(cursor).arg(limit.max(1));
        };
        let read = |reply| {
            let (said, now) = codec::begun(reply)?;
            let Said::Answer((_, mut reply)) = said else { return Ok((Said::Late, now)) };
            let cursor = reply.text()?;
            // Names are not checked by whoever else writes to this set.
            let names = codec::Reply::new(reply.next()?)?.rest().filter_map(|name| codec::text(name).ok());
            let mut buckets: Vec<_> = names.filter(|name| is_bucket(name)).collect();
            buckets.sort_unstable();
            let cursor = if cursor == "0" { String::new() } else { cursor };
            Ok((Said::Answer(BucketPage { buckets, cursor }), now))
        };
        self.link.run(&self.scripts.list, arguments, read).await
    }

    async fn delete_bucket(&self, writer: &Writer, bucket: &str) -> Result<Deletion, Failure> {
        check_bucket(bucket)?;
        let keys = self.layout.bucket(bucket);
        let arguments = |command: &mut Cmd, deadline: u64| {
            self.keys(command, &keys);
            command.arg(&keys.base).arg(bucket).arg(writer.id()).arg(writer.sequence());
            command.arg(deadline);
        };
        self.link.run(&self.scripts.delete, arguments, read_deletion).await
    }

    async fn describe_bucket(&self, bucket: &str) -> Result<Description, Failure> {
        check_bucket(bucket)?;
        let keys = self.layout.bucket(bucket);
        let arguments = |command: &mut Cmd, _| {
            self.keys(command, &keys);
            command.arg(&keys.base).arg(bucket);
        };
        self.link.run(&self.scripts.describe, arguments, read_description).await
    }

    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities { atomic: true, expiring: true, exactly_once: true, listing: true }
    }

    fn round_trips(&self) -> u64 {
        self.link.round_trips()
    }

    async fn check(&self) -> Result<(), Failure> {
        self.link.ping().await
    }
}

fn read_deletion(reply: Value) -> Result<(Said<Deletion>, u64), Failure> {
    let (said, now) = codec::begun(reply)?;
    let Said::Answer((status, mut reply)) = said else { return Ok((Said::Late, now)) };
    Ok((Said::Answer(Deletion { status, keys: reply.keys()? }), now))
}

fn read_description(reply: Value) -> Result<(Said<Description>, u64), Failure> {
    let (said, now) = codec::begun(reply)?;
    let Said::Answer((status, mut reply)) = said else { return Ok((Said::Late, now)) };
    Ok((Said::Answer(description(status, &mut reply)?), now))
}

fn description(status: Status, reply: &mut codec::Reply) -> Result<Description, Failure> {
    let incarnation = reply.text()?;
    let (ttl_seconds, sliding_ms) = (reply.text()?, reply.text()?);
    let expires_in = u64::try_from(reply.integer()?).ok();
    let keys = reply.unsigned()?;
    let mut logs = Vec::new();
    let mut pairs = codec::Reply::new(reply.next()?)?.rest();
    while let (Some(log), Some(Value::Int(length))) = (pairs.next(), pairs.next()) {
        let log = codec::text(log)?;
        // A field of the meta-data that somebody else put there is not seen.
        if is_log(&log) {
            logs.push(LogDescription { log, length: u64::try_from(length).unwrap_or(0) });
        }
    }
    logs.sort_unstable_by(|a, b| a.log.cmp(&b.log));
    let time_to_live = match sliding_ms.parse() {
        Ok(milliseconds) => Some(TimeToLive { milliseconds, sliding: true }),
        // As the original writes it: seconds as a float, or the word None.
        Err(_) => ttl_seconds.parse::<f64>().ok().map(|seconds| {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
            let milliseconds = (seconds * 1000.0).round() as u64;
            TimeToLive { milliseconds, sliding: false }
        }),
    };
    Ok(Description { status, incarnation, time_to_live, expires_in, keys, logs })
}
