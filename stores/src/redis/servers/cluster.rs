//! Finds the server that has a slot: the only server, or one of a cluster's masters.
//!
//! The map of a cluster is asked for on first use and whenever a node fails; in between, each redirection corrects one slot.
//! Waiters share one look at the map that outlives their deadlines, and a silent node does not keep the next from being asked.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::stream::{FuturesUnordered, StreamExt};
use parking_lot::{Mutex, RwLock};
use redis::Value;
use tokio::time::{Instant, timeout};

use super::{
    clock::instant_after,
    node::{RedisNode, RequestError, WireConfig},
    single_flight::SingleFlight,
};
use crate::{
    Failure,
    guard::breaker::BreakerState,
    redis::{
        decode,
        layout::HashSlot,
        options::{
            ClientFactory,
            address::{self, ServerAddress},
        },
    },
};

pub(crate) const SLOTS: usize = 16_384;
/// The map is not asked for more often than this, however many pipes suspect it.
const REFRESH_PAUSE: Duration = Duration::from_millis(50);
/// How long is asked for it at one go: as long as the slowest connection may need to come about.
const REFRESH_LIMIT: Duration = WireConfig::MOST_CONNECTING;
/// Nodes that redirections may name before those that have no slots are forgotten.
const MOST_NODES: usize = 2048;

pub(crate) enum RedisServers {
    Single(Arc<RedisNode>),
    Cluster(Arc<Cluster>),
}

pub(crate) struct Cluster {
    clients: ClientFactory,
    wire: Arc<WireConfig>,
    map: RwLock<SlotMap>,
    /// Something said that the map is not as it was.
    suspect: AtomicBool,
    refreshing: SingleFlight<()>,
    /// When it was asked for last.
    refreshed_at: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct SlotMap {
    nodes: HashMap<ServerAddress, Arc<RedisNode>>,
    /// The master of each slot; empty before a node has reported them.
    owners: Vec<Option<Arc<RedisNode>>>,
}

impl RedisServers {
    pub(super) fn wire(&self) -> &WireConfig {
        match self {
            Self::Single(node) => &node.wire,
            Self::Cluster(cluster) => &cluster.wire,
        }
    }

    /// The server that has a slot, as far as it is known without asking.
    pub(crate) fn known_owner(&self, slot: HashSlot) -> Option<Arc<RedisNode>> {
        match self {
            Self::Single(node) => Some(node.clone()),
            Self::Cluster(cluster) => cluster.known_owner(slot),
        }
    }

    pub(crate) async fn find_owner(&self, slot: HashSlot, deadline: Instant) -> Result<Arc<RedisNode>, RequestError> {
        match self {
            Self::Single(node) => Ok(node.clone()),
            Self::Cluster(cluster) => cluster.find_owner(slot, deadline).await,
        }
    }

    /// The worst that the circuit breakers of the servers stand. None: no server is known yet.
    pub(crate) fn breaker(&self) -> Option<BreakerState> {
        match self {
            Self::Single(node) => Some(node.breaker.state()),
            Self::Cluster(cluster) => {
                let map = cluster.map.read();
                let mut owners: Vec<&Arc<RedisNode>> = map.owners.iter().flatten().collect();
                // A node's slots are neighbours, as a rule.
                owners.dedup_by(|one, other| Arc::ptr_eq(one, other));
                owners.into_iter().map(|node| node.breaker.state()).max()
            }
        }
    }

    /// Servers that answer for some part of the data.
    pub(crate) async fn list_slot_owners(&self, deadline: Instant) -> Result<Vec<Arc<RedisNode>>, RequestError> {
        match self {
            Self::Single(node) => Ok(vec![node.clone()]),
            Self::Cluster(cluster) => {
                cluster.refresh(deadline).await?;
                let map = cluster.map.read();
                let owns = |node: &&Arc<RedisNode>| map.owners.iter().flatten().any(|owner| Arc::ptr_eq(owner, node));
                Ok(map.nodes.values().filter(owns).cloned().collect())
            }
        }
    }
}

impl Cluster {
    pub(crate) fn new(clients: ClientFactory, wire: Arc<WireConfig>) -> Self {
        Self {
            clients,
            wire,
            map: RwLock::default(),
            suspect: AtomicBool::new(false),
            refreshing: SingleFlight::default(),
            refreshed_at: Mutex::default(),
        }
    }

    fn known_owner(&self, slot: HashSlot) -> Option<Arc<RedisNode>> {
        self.map.read().owners.get(usize::from(slot.0)).cloned().flatten()
    }

    async fn find_owner(self: &Arc<Self>, slot: HashSlot, deadline: Instant) -> Result<Arc<RedisNode>, RequestError> {
        let Some(known) = self.known_owner(slot) else {
            let refreshed = self.refresh(deadline).await;
            // A redirection may have named it meanwhile.
            return self.known_owner(slot).ok_or_else(|| refreshed.err().unwrap_or(RequestError::NoOwner));
        };
        if self.suspect.load(Ordering::Relaxed) && !self.is_fresh() {
            self.refreshing.start_if_idle(|| self.fetch_map());
        }
        // Meanwhile the old map is as good as any: to wait for the new one could take the time that this needs.
        Ok(known)
    }

    /// Somebody had trouble that another map may end.
    pub(crate) fn suspect_map(&self) {
        self.suspect.store(true, Ordering::Relaxed);
    }

    /// `MOVED`: this slot is there now.
    pub(crate) fn record_moved_slot(&self, slot: u16, to: &str, said_by: &ServerAddress) {
        let Ok(address) = ServerAddress::of_redirection(to, said_by) else { return self.suspect_map() };
        let mut map = self.map.write();
        let Some(node) = map.node(address, self) else { return self.suspect_map() };
        if let Some(owner) = map.owners.get_mut(usize::from(slot)) {
            *owner = Some(node);
        }
        if map.nodes.len() > MOST_NODES {
            map.forget_the_idle(self.clients.seeds());
        }
    }

    /// Has the map as it is now, if it can be had by then.
    async fn refresh(self: &Arc<Self>, deadline: Instant) -> Result<(), RequestError> {
        if self.is_fresh() {
            return Ok(());
        }
        self.refreshing.join_or_start(|| self.fetch_map(), deadline).await
    }

    /// Whether it was asked for just now, and is there.
    fn is_fresh(&self) -> bool {
        self.refreshed_at.lock().is_some_and(|at| at.elapsed() < REFRESH_PAUSE) && !self.map.read().owners.is_empty()
    }

    /// Whom to ask for the map: the nodes that are known first, and the configured ones then.
    fn candidates(&self) -> Vec<Arc<RedisNode>> {
        let mut map = self.map.write();
        let mut nodes: Vec<Arc<RedisNode>> = map.nodes.values().cloned().collect();
        // Not always the same node first, and last those that failed lately.
        fastrand::shuffle(&mut nodes);
        nodes.sort_by_key(|node| node.breaker.has_failures());
        for seed in self.clients.seeds() {
            match map.node(seed.clone(), self) {
                Some(node) if !nodes.iter().any(|known| Arc::ptr_eq(known, &node)) => nodes.push(node),
                _ => {}
            }
        }
        nodes
    }

    /// Asks for the map until one answers. It holds no reference to the cluster: dropping the cluster stops it.
    fn fetch_map(self: &Arc<Self>) -> impl Future<Output = Result<(), RequestError>> + Send + use<> {
        Self::fetch_map_from_any(Arc::downgrade(self), self.candidates(), self.wire.patience)
    }

    /// One node after the other, and the next as soon as one fails, or is silent for a moment.
    async fn fetch_map_from_any(
        cluster: Weak<Self>,
        nodes: Vec<Arc<RedisNode>>,
        patience: Duration,
    ) -> Result<(), RequestError> {
        let deadline = instant_after(Instant::now(), REFRESH_LIMIT);
        let mut nodes = nodes.into_iter();
        let mut asked = FuturesUnordered::new();
        let mut outcome = Err(RequestError::NotConnected);
        loop {
            asked.extend(nodes.next().map(|node| Self::fetch_slot_ranges(node, deadline)));
            // A node that is silent must not take all the time that there is; it may just be far away, though.
            let answered = match nodes.len() {
                0 => asked.next().await,
                _ => match timeout(patience, asked.next()).await {
                    Ok(answered) => answered,
                    Err(_) => continue,
                },
            };
            match answered {
                Some(Ok(ranges)) => {
                    let Some(cluster) = cluster.upgrade() else { break };
                    cluster.install_map(ranges);
                    outcome = Ok(());
                    break;
                }
                Some(Err(error)) => outcome = Err(error),
                None => break,
            }
        }
        if let Some(cluster) = cluster.upgrade() {
            *cluster.refreshed_at.lock() = Some(Instant::now());
        }
        outcome
    }

    async fn fetch_slot_ranges(node: Arc<RedisNode>, deadline: Instant) -> Result<Vec<SlotRange>, RequestError> {
        let mut command = redis::cmd("CLUSTER");
        command.arg("SLOTS");
        let reply = node.send_command(&command, deadline).await?;
        slot_ranges(reply, &node.address).map_err(RequestError::Refused)
    }

    fn install_map(&self, ranges: Vec<SlotRange>) {
        let mut map = self.map.write();
        let mut owners = vec![None; SLOTS];
        for SlotRange { first, last, master } in ranges {
            let Some(node) = map.node(master, self) else { continue };
            for slot in first..=last {
                if let Some(owner) = owners.get_mut(usize::from(slot)) {
                    *owner = Some(node.clone());
                }
            }
        }
        map.owners = owners;
        map.forget_the_idle(self.clients.seeds());
        self.suspect.store(false, Ordering::Relaxed);
    }
}

impl SlotMap {
    fn node(&mut self, address: ServerAddress, cluster: &Cluster) -> Option<Arc<RedisNode>> {
        if let Some(node) = self.nodes.get(&address) {
            return Some(node.clone());
        }
        let client = cluster.clients.client_for(&address).ok()?;
        let node = Arc::new(RedisNode::new(address.clone(), client, cluster.wire.clone()));
        self.nodes.insert(address, node.clone());
        Some(node)
    }

    /// Nodes that have no slots any more are not held on to; replicas and such.
    fn forget_the_idle(&mut self, seeds: &[ServerAddress]) {
        let owning: HashSet<&ServerAddress> = self.owners.iter().flatten().map(|node| &node.address).collect();
        self.nodes.retain(|address, _| owning.contains(address) || seeds.contains(address));
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SlotRange {
    pub(crate) first: u16,
    pub(crate) last: u16,
    master: ServerAddress,
}

/// What `CLUSTER SLOTS` answers: `[first, last, [host, port, …], replicas…]` for each range of slots.
pub(crate) fn slot_ranges(reply: Value, asked: &ServerAddress) -> Result<Vec<SlotRange>, Failure> {
    let mut ranges = Vec::new();
    for range in decode::ReplyReader::new(reply)?.into_remaining() {
        let mut range = decode::ReplyReader::new(range)?;
        let number = |value: u64| u16::try_from(value).ok().filter(|slot| usize::from(*slot) < SLOTS);
        let (first, last) = (number(range.unsigned()?), number(range.unsigned()?));
        let mut master = decode::ReplyReader::new(range.next_value()?)?;
        // No host, or an empty one: the one that was asked. `?`: a node that does not know its own name.
        let host = match master.next_value()? {
            Value::Nil => asked.host.clone(),
            host => match decode::value_to_text(host)? {
                host if address::is_unknown(&host) => asked.host.clone(),
                host => host,
            },
        };
        let port = u16::try_from(master.unsigned()?).ok().filter(|port| *port != 0);
        let (Some(first), Some(last), Some(port)) = (first, last, port) else { return Err(decode::unexpected_reply()) };
        ranges.push(SlotRange { first, last, master: ServerAddress { host, port } });
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn the_slot_map_is_read_however_its_nodes_are_named() {
        let asked: ServerAddress = "asked:7000".parse().unwrap();
        let node = |host, port| Value::Array(vec![host, Value::Int(port), text("id"), Value::Array(vec![])]);
        let range = |first, last, node| Value::Array(vec![Value::Int(first), Value::Int(last), node]);
        let reply = Value::Array(vec![
            range(0, 99, node(text("10.0.0.1"), 7001)),
            range(100, 199, node(Value::Nil, 7002)),
            range(200, 299, node(text(""), 7003)),
            range(300, 399, node(text("?"), 7004)),
            range(400, 16_383, node(text("2001:db8::1"), 7005)),
        ]);
        let read = slot_ranges(reply, &asked).unwrap();
        let masters: Vec<_> = read.iter().map(|range| range.master.to_string()).collect();
        assert_eq!(masters, ["10.0.0.1:7001", "asked:7002", "asked:7003", "asked:7004", "[2001:db8::1]:7005"]);
        assert_eq!((read[4].first, read[4].last), (400, 16_383));
        for bad in [
            Value::Nil,
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![range(0, 16_384, node(text("a"), 1))]),
            Value::Array(vec![range(-1, 3, node(text("a"), 1))]),
            Value::Array(vec![range(0, 3, node(text("a"), 0))]),
            Value::Array(vec![range(0, 3, node(text("a"), 70_000))]),
            Value::Array(vec![range(0, 3, Value::Array(vec![]))]),
        ] {
            assert!(slot_ranges(bad, &asked).is_err());
        }
    }
}
