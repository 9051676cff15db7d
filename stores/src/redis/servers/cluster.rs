//! Finds the server that has a slot: the only server, or one of a cluster's masters.
//!
//! The map of a cluster is asked for on first use and whenever a node fails; in between, each redirection corrects one slot.
//! Waiters share one look at the map that outlives their deadlines, and a silent node does not keep the next from being asked.

use std::{
    collections::{HashMap, HashSet},
    fmt,
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
    clock::later,
    node::{Node, Unanswered, Wire, broken},
    single_flight::{Missed, SingleFlight},
};
use crate::{
    Failure,
    guard::breaker::BreakerState,
    redis::{
        decode,
        layout::Slot,
        options::{
            Clients,
            address::{self, Address},
        },
    },
};

pub(crate) const SLOTS: usize = 16_384;
/// The map is not asked for more often than this, however many pipes suspect it.
const REFRESH_PAUSE: Duration = Duration::from_millis(50);
/// How long is asked for it at one go: as long as the slowest connection may need to come about.
const REFRESH_LIMIT: Duration = Wire::MOST_CONNECTING;
/// Nodes that redirections may name before those that have no slots are forgotten.
const MOST_NODES: usize = 2048;

pub(crate) enum Servers {
    One(Arc<Node>),
    Cluster(Arc<Cluster>),
}

pub(crate) struct Cluster {
    clients: Clients,
    map: RwLock<Map>,
    /// Something said that the map is not as it was.
    suspect: AtomicBool,
    refreshing: SingleFlight<Result<(), Unanswered>>,
    /// When it was asked for last.
    refreshed_at: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Map {
    nodes: HashMap<Address, Arc<Node>>,
    /// The master of each slot; empty before a node has reported them.
    owners: Vec<Option<Arc<Node>>>,
}

impl Servers {
    /// The server that has a slot, as far as it is known without asking.
    pub(crate) fn owner(&self, slot: Slot) -> Option<Arc<Node>> {
        match self {
            Self::One(node) => Some(node.clone()),
            Self::Cluster(cluster) => cluster.owner(slot),
        }
    }

    /// The server that has a slot.
    pub(crate) async fn find(&self, slot: Slot, wire: &Arc<Wire>, deadline: Instant) -> Result<Arc<Node>, Unanswered> {
        match self {
            Self::One(node) => Ok(node.clone()),
            Self::Cluster(cluster) => cluster.find(slot, wire, deadline).await,
        }
    }

    /// The worst that the circuit breakers of the servers stand. None: no server is known yet.
    pub(crate) fn breaker(&self) -> Option<BreakerState> {
        match self {
            Self::One(node) => Some(node.breaker.state()),
            Self::Cluster(cluster) => {
                let map = cluster.map.read();
                let mut owners: Vec<&Arc<Node>> = map.owners.iter().flatten().collect();
                // A node's slots are neighbours, as a rule.
                owners.dedup_by(|one, other| Arc::ptr_eq(one, other));
                owners.into_iter().map(|node| node.breaker.state()).max()
            }
        }
    }

    /// Servers that answer for some part of the data.
    pub(crate) async fn all(&self, wire: &Arc<Wire>, deadline: Instant) -> Result<Vec<Arc<Node>>, Unanswered> {
        match self {
            Self::One(node) => Ok(vec![node.clone()]),
            Self::Cluster(cluster) => {
                cluster.refresh(wire, deadline).await?;
                let map = cluster.map.read();
                let owns = |node: &&Arc<Node>| map.owners.iter().flatten().any(|owner| Arc::ptr_eq(owner, node));
                Ok(map.nodes.values().filter(owns).cloned().collect())
            }
        }
    }
}

impl Cluster {
    pub(crate) fn new(clients: Clients) -> Self {
        Self {
            clients,
            map: RwLock::default(),
            suspect: AtomicBool::new(false),
            refreshing: SingleFlight::default(),
            refreshed_at: Mutex::default(),
        }
    }

    fn owner(&self, slot: Slot) -> Option<Arc<Node>> {
        self.map.read().owners.get(usize::from(slot.0)).cloned().flatten()
    }

    async fn find(self: &Arc<Self>, slot: Slot, wire: &Arc<Wire>, deadline: Instant) -> Result<Arc<Node>, Unanswered> {
        let Some(known) = self.owner(slot) else {
            let refreshed = self.refresh(wire, deadline).await;
            // A redirection may have told it meanwhile.
            return self.owner(slot).ok_or_else(|| refreshed.err().unwrap_or(Unanswered::NoOwner));
        };
        if self.suspect.load(Ordering::Relaxed) && !self.is_fresh() {
            self.refreshing.begin(|| self.look(wire));
        }
        // Meanwhile the old map is as good as any: to wait for the new one could take the time that this needs.
        Ok(known)
    }

    /// Somebody had trouble that another map may end.
    pub(crate) fn suspect(&self) {
        self.suspect.store(true, Ordering::Relaxed);
    }

    /// `MOVED`: this slot is there now.
    pub(crate) fn moved(&self, slot: u16, to: &str, said_by: &Address, wire: &Wire) {
        let Ok(address) = Address::of_redirection(to, said_by) else { return self.suspect() };
        let mut map = self.map.write();
        let Some(node) = map.node(address, &self.clients, wire) else { return self.suspect() };
        if let Some(owner) = map.owners.get_mut(usize::from(slot)) {
            *owner = Some(node);
        }
        if map.nodes.len() > MOST_NODES {
            map.forget_the_idle(self.clients.seeds());
        }
    }

    /// Has the map as it is now, if it can be had by then.
    async fn refresh(self: &Arc<Self>, wire: &Arc<Wire>, deadline: Instant) -> Result<(), Unanswered> {
        if self.is_fresh() {
            return Ok(());
        }
        match self.refreshing.join(|| self.look(wire), deadline).await {
            Ok(refreshed) => refreshed,
            Err(Missed::Deadline) => Err(Unanswered::NotConnected),
            Err(Missed::Stopped) => Err(broken()),
        }
    }

    /// Whether it was asked for just now, and is there.
    fn is_fresh(&self) -> bool {
        self.refreshed_at.lock().is_some_and(|at| at.elapsed() < REFRESH_PAUSE) && !self.map.read().owners.is_empty()
    }

    /// Whom to ask for the map: the nodes that are known first, and the configured ones then.
    fn candidates(&self, wire: &Wire) -> Vec<Arc<Node>> {
        let mut map = self.map.write();
        let mut nodes: Vec<Arc<Node>> = map.nodes.values().cloned().collect();
        // Not always the same node first, and last those that failed lately.
        fastrand::shuffle(&mut nodes);
        nodes.sort_by_key(|node| node.breaker.has_failures());
        for seed in self.clients.seeds() {
            match map.node(seed.clone(), &self.clients, wire) {
                Some(node) if !nodes.iter().any(|known| Arc::ptr_eq(known, &node)) => nodes.push(node),
                _ => {}
            }
        }
        nodes
    }

    /// Asks for the map until one answers. It holds no reference to the cluster: dropping the cluster stops it.
    fn look(self: &Arc<Self>, wire: &Arc<Wire>) -> impl Future<Output = Result<(), Unanswered>> + Send + use<> {
        Self::ask_around(Arc::downgrade(self), self.candidates(wire), wire.clone())
    }

    /// One node after the other, and the next as soon as one fails, or is silent for a moment.
    async fn ask_around(cluster: Weak<Self>, nodes: Vec<Arc<Node>>, wire: Arc<Wire>) -> Result<(), Unanswered> {
        let deadline = later(Instant::now(), REFRESH_LIMIT);
        let mut nodes = nodes.into_iter();
        let mut asked = FuturesUnordered::new();
        let mut outcome = Err(Unanswered::NotConnected);
        loop {
            asked.extend(nodes.next().map(|node| Self::ask(node, &wire, deadline)));
            // A node that is silent must not take all the time that there is; it may just be far away, though.
            let answered = match nodes.len() {
                0 => asked.next().await,
                _ => match timeout(wire.patience, asked.next()).await {
                    Ok(answered) => answered,
                    Err(_) => continue,
                },
            };
            match answered {
                Some(Ok(ranges)) => {
                    let Some(cluster) = cluster.upgrade() else { break };
                    cluster.take(ranges, &wire);
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

    async fn ask(node: Arc<Node>, wire: &Arc<Wire>, deadline: Instant) -> Result<Vec<Range>, Unanswered> {
        let mut command = redis::cmd("CLUSTER");
        command.arg("SLOTS");
        let reply = node.command(wire, &command, deadline).await?;
        slot_ranges(reply, &node.address).map_err(Unanswered::Refused)
    }

    /// The map is this.
    fn take(&self, ranges: Vec<Range>, wire: &Wire) {
        let mut map = self.map.write();
        let mut owners = vec![None; SLOTS];
        for Range { first, last, master } in ranges {
            let Some(node) = map.node(master, &self.clients, wire) else { continue };
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

impl Map {
    fn node(&mut self, address: Address, clients: &Clients, wire: &Wire) -> Option<Arc<Node>> {
        if let Some(node) = self.nodes.get(&address) {
            return Some(node.clone());
        }
        let client = clients.at(&address).ok()?;
        let node = Arc::new(Node::new(address.clone(), client, wire));
        self.nodes.insert(address, node.clone());
        Some(node)
    }

    /// Nodes that have no slots any more are not held on to; replicas and such.
    fn forget_the_idle(&mut self, seeds: &[Address]) {
        let owning: HashSet<&Address> = self.owners.iter().flatten().map(|node| &node.address).collect();
        self.nodes.retain(|address, _| owning.contains(address) || seeds.contains(address));
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u16,
    pub(crate) last: u16,
    master: Address,
}

/// What `CLUSTER SLOTS` answers: `[first, last, [host, port, …], replicas…]` for each range of slots.
pub(crate) fn slot_ranges(reply: Value, asked: &Address) -> Result<Vec<Range>, Failure> {
    let mut ranges = Vec::new();
    for range in decode::Reply::new(reply)?.rest() {
        let mut range = decode::Reply::new(range)?;
        let number = |value: u64| u16::try_from(value).ok().filter(|slot| usize::from(*slot) < SLOTS);
        let (first, last) = (number(range.unsigned()?), number(range.unsigned()?));
        let mut master = decode::Reply::new(range.next()?)?;
        // No host, or an empty one: the one that was asked. `?`: a node that does not know its own name.
        let host = match master.next()? {
            Value::Nil => asked.host.clone(),
            host => match decode::text(host)? {
                host if address::is_unknown(&host) => asked.host.clone(),
                host => host,
            },
        };
        let port = u16::try_from(master.unsigned()?).ok().filter(|port| *port != 0);
        let (Some(first), Some(last), Some(port)) = (first, last, port) else { return Err(decode::garbled()) };
        ranges.push(Range { first, last, master: Address { host, port } });
    }
    Ok(ranges)
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(node) => f.debug_tuple("One").field(node).finish(),
            Self::Cluster(cluster) => {
                f.debug_struct("Cluster").field("nodes", &cluster.map.read().nodes.len()).finish_non_exhaustive()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn the_map_is_read_whatever_way_nodes_are_named_in_it() {
        let asked: Address = "asked:7000".parse().unwrap();
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
