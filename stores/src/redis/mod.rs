//! Redis as a store: each transaction is one server-side script on one bucket's keys, in one round trip.
//!
//! What it refuses: to wait longer than the time-out, to apply anything twice, and to apply anything late.

mod acl;
mod address;
mod apart;
mod clock;
mod cluster;
mod codec;
mod flight;
pub mod fuzzing;
mod judge;
mod layout;
mod link;
mod listing;
mod moving;
mod node;
mod options;
mod removal;
mod replicas;
mod scan;
mod script;
mod shapes;
mod transact;
mod transfer;

use crate::breaker;
use std::{fmt, sync::Arc};

use async_trait::async_trait;
use redis::{Cmd, Value};

pub use self::{
    apart::NotApart,
    options::{RedisOptions, RedisOptionsError},
    removal::{Arrival, Removed},
    transfer::{Transfer, Transferred},
};
use self::{
    breaker::BreakerOptions,
    cluster::{Cluster, Servers},
    codec::Said,
    layout::{BucketKeys, Layout},
    link::Link,
    node::{Node, Wire},
    script::Scripts,
    transact::Transact,
};
use super::{
    BucketPage, Deadline, Deletion, Description, Failure, LogDescription, Receipt, Status, Store, StoreCapabilities,
    TimeToLive, Transaction, Writer,
    names::{check_bucket, is_log},
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
        let clients = options.clients()?;
        let breaker = BreakerOptions { failures: options.breaker_failures, cooldown: options.breaker_cooldown };
        let wire = Arc::new(Wire::new(options.store_timeout, breaker, options.wait_replicas));
        let (layout, servers) = match options.cluster {
            true => (Layout::cluster(&options.key_prefix), Servers::Cluster(Arc::new(Cluster::new(clients)))),
            false => {
                let (address, client) = clients.only()?;
                (Layout::single(&options.key_prefix), Servers::One(Arc::new(Node::new(address, client, &wire))))
            }
        };
        Ok(Self { layout, scripts: Scripts::new(), link: Link::new(servers, wire, options.store_timeout) })
    }

    /// How many shapes of transactions have a script of their own at a time, 64 unless told. All others are served by
    /// one script that is sent the shape, too, which is slower. A shape that is asked for often takes the place of one
    /// that is not; since Redis never forgets a script, a store makes no more than 16 times as many in its life.
    #[must_use]
    pub fn with_shapes(mut self, most: usize) -> Self {
        self.scripts.transact = Transact::new(most);
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
        f.debug_struct("RedisStore").field("layout", &self.layout).field("link", &self.link).finish_non_exhaustive()
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
        request::check(transaction)?;
        let keys = self.layout.bucket(&transaction.bucket);
        let request = codec::Request::new(transaction);
        let chosen = self.scripts.transact.choose(request.parts());
        let arguments = |command: &mut Cmd, deadline| {
            self::keys(command, &keys);
            request.write(command, writer, deadline, chosen.holds_shape);
        };
        let read = |reply| codec::receipt(reply, transaction);
        self.link.run(keys.registry.slot, &chosen.script, arguments, read, deadline).await
    }

    async fn list_buckets(&self, cursor: &str, limit: u32, deadline: Deadline) -> Result<BucketPage, Failure> {
        self.page(cursor, limit, deadline).await
    }

    async fn delete_bucket(&self, writer: &Writer, bucket: &str, deadline: Deadline) -> Result<Deletion, Failure> {
        check_bucket(bucket)?;
        let keys = self.layout.bucket(bucket);
        let arguments = |command: &mut Cmd, deadline: u64| {
            self::keys(command, &keys);
            command.arg(&keys.base).arg(bucket).arg(writer.id()).arg(writer.sequence());
            command.arg(deadline);
        };
        self.link.run(keys.registry.slot, &self.scripts.delete, arguments, read_deletion, deadline).await
    }

    async fn describe_bucket(&self, bucket: &str, deadline: Deadline) -> Result<Description, Failure> {
        check_bucket(bucket)?;
        let keys = self.layout.bucket(bucket);
        let arguments = |command: &mut Cmd, _| {
            self::keys(command, &keys);
            command.arg(&keys.base).arg(bucket);
        };
        self.link.run(keys.registry.slot, &self.scripts.describe, arguments, read_description, deadline).await
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
        Ok(milliseconds @ 1..) => Some(TimeToLive { milliseconds, sliding: true }),
        _ => milliseconds(&ttl_seconds).map(|milliseconds| TimeToLive { milliseconds, sliding: false }),
    };
    Ok(Description { status, incarnation, time_to_live, expires_in, keys, logs })
}

/// What the original writes for a time to live: `str()` of a Python float of seconds, or the word `None`. It rounds
/// up to a millisecond what is less, and takes nothing, less than that, and what is no number for never.
fn milliseconds(ttl_seconds: &str) -> Option<u64> {
    let seconds = ttl_seconds.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds > 0.0)?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let milliseconds = (seconds * 1000.0).round() as u64;
    Some(milliseconds.max(1))
}

#[cfg(test)]
mod tests {
    use super::milliseconds;

    #[test]
    fn a_time_to_live_is_read_as_python_writes_floats() {
        for (text, expected) in [
            ("86400.0", Some(86_400_000)),
            ("0.5", Some(500)),
            ("3960.0000000000005", Some(3_960_000)),
            ("90061.001", Some(90_061_001)),
            ("0.001", Some(1)),
            ("0.0001", Some(1)),
            ("1e-05", Some(1)),
            ("5e-324", Some(1)),
            ("1e+16", Some(10_000_000_000_000_000_000)),
            ("1.7976931348623157e+308", Some(u64::MAX)),
            ("None", None),
            ("0.0", None),
            ("-1.0", None),
            ("nan", None),
            ("inf", None),
            ("", None),
        ] {
            assert_eq!(milliseconds(text), expected, "{text}");
        }
    }
}
