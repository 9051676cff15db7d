//! A Redis Cluster of one's own on loopback: masters, each with its replicas.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use redis::{Client, Connection, FromRedisValue};

use super::RedisServer;

/// Slots of any Redis Cluster.
const SLOTS: usize = 16_384;
/// Forming a cluster takes a few seconds: nodes wait until they trust what they hear of each other.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running cluster. Its nodes are stopped when it is dropped.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
    masters: usize,
}

impl RedisCluster {
    /// Starts so many masters, with the slots spread evenly, and so many replicas of each.
    ///
    /// # Errors
    /// When a node does not start, or they come to no agreement within a minute.
    pub fn start(masters: usize, replicas_each: usize) -> Result<Self> {
        Self::start_with(masters, replicas_each, &[])
    }

    /// Starts a cluster whose nodes get further arguments of redis-server.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(masters: usize, replicas_each: usize, arguments: &[&str]) -> Result<Self> {
        let count = masters * (1 + replicas_each);
        let nodes = (0..count).map(|_| node(arguments)).collect::<Result<Vec<_>>>()?;
        let cluster = Self { nodes, masters };
        cluster.form(replicas_each).context("the cluster does not come about")?;
        Ok(cluster)
    }

    /// How many of the nodes were started as masters; they are the first ones.
    #[must_use]
    pub const fn masters(&self) -> usize {
        self.masters
    }

    /// All nodes: the first masters, then the first's replicas, the second's, and so on. After a failover the
    /// roles are others.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// To stop, pause and restart them.
    pub fn nodes_mut(&mut self) -> &mut [RedisServer] {
        &mut self.nodes
    }

    /// As `redis_nodes` takes them.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect()
    }

    /// One command to one node.
    ///
    /// # Errors
    /// When the node is gone or refuses.
    pub fn ask<T: FromRedisValue>(&self, node: usize, command: &str) -> Result<T> {
        let mut words = command.split(' ');
        let mut request = redis::cmd(words.next().unwrap_or_default());
        words.for_each(|word| {
            request.arg(word);
        });
        let node = self.nodes.get(node).context("no such node")?;
        request.query(&mut connect(node)?).with_context(|| command.to_owned())
    }

    fn form(&self, replicas_each: usize) -> Result<()> {
        let of = |node: usize| self.ask::<String>(node, "CLUSTER MYID");
        for node in 0..self.nodes.len() {
            let _: () = self.ask(node, &format!("CLUSTER SET-CONFIG-EPOCH {}", node + 1))?;
        }
        for master in 0..self.masters {
            let (from, to) = (SLOTS * master / self.masters, SLOTS * (master + 1) / self.masters - 1);
            let _: () = self.ask(master, &format!("CLUSTER ADDSLOTSRANGE {from} {to}"))?;
        }
        for node in self.nodes.iter().skip(1) {
            let bus = node.bus_port().context("not a node of a cluster")?;
            let _: () = self.ask(0, &format!("CLUSTER MEET 127.0.0.1 {} {bus}", node.port()))?;
        }
        let known = format!("cluster_known_nodes:{}\r", self.nodes.len());
        self.wait_until("CLUSTER INFO", |info| info.contains(&known))?;
        for replica in self.masters..self.nodes.len() {
            let master = of((replica - self.masters) / replicas_each.max(1))?;
            // A node learns of the others one by one.
            retry(|| self.ask::<()>(replica, &format!("CLUSTER REPLICATE {master}")))?;
        }
        self.wait_until("CLUSTER INFO", |info| info.contains("cluster_state:ok"))?;
        self.wait_until("INFO replication", |info| {
            info.contains("role:master") && info.contains(&format!("connected_slaves:{replicas_each}\r"))
                || info.contains("master_link_status:up")
        })
    }

    /// Waits until every node answers like that.
    fn wait_until(&self, command: &str, holds: impl Fn(&str) -> bool) -> Result<()> {
        (0..self.nodes.len()).try_for_each(|node| {
            retry(|| match self.ask::<String>(node, command)? {
                info if holds(&info) => Ok(()),
                info => bail!("{info}"),
            })
        })
    }
}

fn node(arguments: &[&str]) -> Result<RedisServer> {
    let mut all = vec!["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"];
    // A master waits five seconds for more replicas before it sends one what it has, unless told otherwise.
    all.extend(["--repl-diskless-sync-delay", "0"]);
    all.extend_from_slice(arguments);
    RedisServer::start_on_free_ports(&all, true)
}

fn connect(node: &RedisServer) -> Result<Connection> {
    let client = Client::open(node.url())?;
    let connection = client.get_connection_with_timeout(Duration::from_secs(5))?;
    connection.set_read_timeout(Some(Duration::from_secs(30)))?;
    Ok(connection)
}

fn retry<T>(attempt: impl Fn() -> Result<T>) -> Result<T> {
    let end = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Err(error) if Instant::now() > end => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(20)),
            done => return done,
        }
    }
}
