//! Moves of slots, as an operator's tools make them.

use keepline_local_redis::RedisCluster;
use parking_lot::{Mutex, MutexGuard};

use super::*;

/// Two moves at once are not safe on any cluster: a node that is being given one slot may claim another, which it has
/// just given away, with a newer epoch, and the new owner then deletes that slot's keys.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What a node of the cluster knows of another, or of itself.
#[derive(PartialEq)]
pub struct Known {
    pub id: String,
    /// Its place in [`RedisCluster::nodes`].
    pub at: usize,
    pub is_master: bool,
    pub epoch: u64,
    pub slots: Vec<(u16, u16)>,
}

/// The cluster as its `asked`th node sees it.
pub fn known(cluster: &RedisCluster, asked: usize) -> Vec<Known> {
    let text: String = cluster.ask(asked, "CLUSTER NODES").unwrap();
    let known = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let port: u16 = words[1].split('@').next().unwrap().rsplit(':').next().unwrap().parse().unwrap();
        let range = |word: &&str| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        Known {
            id: words[0].to_owned(),
            at: cluster.nodes().iter().position(|node| node.port() == port).unwrap(),
            is_master: words[2].contains("master") && !words[2].contains("fail"),
            epoch: words[6].parse().unwrap(),
            slots: words[8..].iter().filter_map(range).collect(),
        }
    };
    let mut known: Vec<_> = text.lines().map(known).collect();
    known.sort_by_key(|node| node.at);
    known
}

pub fn owner_of(known: &[Known], slot: u16) -> &Known {
    let has = |node: &&Known| node.is_master && node.slots.iter().any(|(a, b)| (*a..=*b).contains(&slot));
    known.iter().find(has).unwrap()
}

/// The tag that a session's keys have, as the README says.
pub fn tag_of(cluster: &RedisCluster, session: &str) -> String {
    let slot: u16 = cluster.ask(0, &format!("CLUSTER KEYSLOT {session}")).unwrap();
    format!("{:04x}", slot % 4096)
}

pub fn slot_of(cluster: &RedisCluster, session: &str) -> u16 {
    cluster.ask(0, &format!("CLUSTER KEYSLOT {}", tag_of(cluster, session))).unwrap()
}

/// Waits until the masters agree on who owns what, and no two have the same epoch: until then a move may be undone.
fn settled(cluster: &RedisCluster) -> Vec<Known> {
    let end = Instant::now() + LONG;
    loop {
        let mut views: Vec<_> = (0..cluster.masters()).map(|node| known(cluster, node)).collect();
        views.iter_mut().for_each(|view| view.retain(|node| node.is_master));
        let view = views.pop().unwrap();
        let mut epochs: Vec<_> = view.iter().map(|node| node.epoch).collect();
        epochs.sort_unstable();
        epochs.dedup();
        if epochs.len() == view.len() && views.iter().all(|other| *other == view) {
            return view;
        }
        assert!(Instant::now() < end, "the cluster's nodes don't come to agree");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The move of a session's slot with all its keys to the next master. No other begins before it is dropped.
pub struct SlotMove<'a> {
    cluster: &'a RedisCluster,
    pub slot: u16,
    /// Place and id of the node that has it.
    pub from: (usize, String),
    pub to: (usize, String),
    _alone: MutexGuard<'static, ()>,
}

impl<'a> SlotMove<'a> {
    pub fn begin(cluster: &'a RedisCluster, session: &str) -> Self {
        let alone = ONE_AT_A_TIME.lock();
        let (slot, known) = (slot_of(cluster, session), settled(cluster));
        let from = owner_of(&known, slot);
        let to = known.iter().find(|node| node.at == (from.at + 1) % cluster.masters()).unwrap();
        let _: () = cluster.ask(to.at, &format!("CLUSTER SETSLOT {slot} IMPORTING {}", from.id)).unwrap();
        let _: () = cluster.ask(from.at, &format!("CLUSTER SETSLOT {slot} MIGRATING {}", to.id)).unwrap();
        Self { cluster, slot, from: (from.at, from.id.clone()), to: (to.at, to.id.clone()), _alone: alone }
    }

    /// The keys that have not moved yet, so many at most.
    pub fn keys(&self, limit: usize) -> Vec<String> {
        self.cluster.ask(self.from.0, &format!("CLUSTER GETKEYSINSLOT {} {limit}", self.slot)).unwrap()
    }

    pub fn carry(&self, key: &str) {
        let port = self.cluster.nodes()[self.to.0].port();
        let _: String = self.cluster.ask(self.from.0, &format!("MIGRATE 127.0.0.1 {port} {key} 0 5000")).unwrap();
    }

    /// Forgets at a node that the slot is being moved.
    pub fn forget(&self, node: usize) {
        let _: () = self.cluster.ask(node, &format!("CLUSTER SETSLOT {} STABLE", self.slot)).unwrap();
    }

    /// Tells a node who has the slot now.
    pub fn tell(&self, node: usize) {
        let _: () = self.cluster.ask(node, &format!("CLUSTER SETSLOT {} NODE {}", self.slot, self.to.1)).unwrap();
    }

    /// Carries what is left, one key at a time, and tells all masters, as an operator's tools do:
    /// the new owner, the old one, and the others.
    pub fn end(self) {
        while let Some(key) = self.keys(1).first() {
            self.carry(key);
            std::thread::sleep(Duration::from_millis(3));
        }
        self.tell(self.to.0);
        self.tell(self.from.0);
        (0..self.cluster.masters())
            .filter(|node| ![self.to.0, self.from.0].contains(node))
            .for_each(|node| self.tell(node));
    }
}
