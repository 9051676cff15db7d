//! Redis Cluster: the guarantees of a single server hold while slots move and nodes go. The cluster is real: three
//! masters and three replicas, on loopback.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use keepline::{
    pipe::Effect,
    store::{FailureCode, RedisOptions, RedisOptionsError, RedisStore, Store},
};
use keepline_local_redis::{RedisCluster, RedisServer};
use keepline_tests::{
    lanes::{Node, metadata_of, problem_code, problem_message},
    servers::{allowed_on_cluster, dead_port},
    stores::{MASTERS, shared_cluster},
};
use tokio::task::{JoinSet, spawn_blocking};

mod links;
mod nodes;
mod slots;

use slots::*;

/// Longer than a failover and a move of slots take on a busy machine.
const LONG: Duration = Duration::from_secs(30);
const PIPES: usize = 8;

fn options(cluster: &RedisCluster) -> RedisOptions {
    let options = RedisOptions {
        key_prefix: format!("test-{:016x}", fastrand::u64(..)),
        store_timeout: LONG,
        // Not all wait; all may.
        wait_replicas: 1,
        ..RedisOptions::default()
    };
    RedisOptions { wait_replicas: 0, ..allowed_on_cluster(cluster, options) }
}

fn store(options: RedisOptions) -> Arc<dyn Store> {
    Arc::new(RedisStore::new(options).unwrap())
}

async fn node(options: RedisOptions) -> Node {
    Node::new(&store(options), r#"{"max_history":4}"#).await
}

/// All keys of a prefix, wherever they are.
fn keys(cluster: &RedisCluster, prefix: &str) -> Vec<String> {
    let of = |node| cluster.ask::<Vec<String>>(node, &format!("KEYS {prefix}:*")).unwrap();
    let mut keys: Vec<_> = (0..MASTERS).flat_map(of).collect();
    keys.sort_unstable();
    keys
}

/// What the entries of one session came to.
#[derive(Default)]
struct Came {
    stored: u64,
    failed: u64,
}

/// Pipes that answer, each in a session of its own, until they are stopped; then what came of it.
struct Load {
    stop: Arc<AtomicBool>,
    pipes: JoinSet<(String, Came)>,
}

impl Load {
    fn start(node: &Node, sessions: &[String]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut pipes = JoinSet::new();
        for session in sessions.iter().cloned() {
            let (mut pipe, stop) = (node.keepline.pipe(), stop.clone());
            pipes.spawn(async move {
                let mut came = Came::default();
                while !stop.load(Ordering::Relaxed) {
                    let asked = pipe.question("?", &metadata_of(&session)).await.unwrap();
                    assert!([Effect::Enriched, Effect::Resumed, Effect::Failed].contains(&asked.effect), "{asked:?}");
                    let text = format!("answer {}", came.stored + came.failed);
                    let passed = pipe.answer(&text, &metadata_of(&session)).await.unwrap();
                    match passed.effect {
                        Effect::Stored => came.stored += 1,
                        Effect::Failed => came.failed += 1,
                        effect => panic!("{effect:?}: {:?}", passed.problem),
                    }
                    // The machine is the cluster's, too.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                (session, came)
            });
        }
        Self { stop, pipes }
    }

    async fn stop(mut self) -> BTreeMap<String, Came> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = BTreeMap::new();
        while let Some(ended) = self.pipes.join_next().await {
            all.extend([ended.unwrap()]);
        }
        all
    }
}

/// How many answers a session tells of: by its counter, which its history has to agree with.
async fn answers(node: &Node, session: &str) -> u64 {
    let memory: serde_json::Value = serde_json::from_str(&node.memory(session).await.unwrap()).unwrap();
    let count = memory["answer_count"].as_u64().unwrap();
    let told: u64 = keepline_tests::lanes::operations_told(&node.history(session).await);
    assert_eq!(told, 2 * count, "history of {session}");
    count
}

fn sessions() -> Vec<String> {
    (0..PIPES).map(|n| format!("s{n}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_of_eight_pipes_are_stored_exactly_once_while_slots_move() {
    let cluster = shared_cluster();
    let node = node(options(cluster)).await;
    let sessions = sessions();
    let load = Load::start(&node, &sessions);
    let moving = sessions.clone();
    spawn_blocking(move || {
        for round in 0..5 {
            moving.iter().for_each(|session| SlotMove::begin(cluster, session).end());
            std::thread::sleep(Duration::from_millis(20 * round));
        }
    })
    .await
    .unwrap();
    for (session, came) in load.stop().await {
        assert_eq!(came.failed, 0, "{session}");
        assert_eq!(answers(&node, &session).await, came.stored, "{session}");
        assert!(came.stored > 10);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_pass_and_nothing_is_applied_in_part_while_a_slot_is_half_moved() {
    let cluster = shared_cluster();
    let short = RedisOptions { store_timeout: Duration::from_millis(300), ..options(cluster) };
    let prefix = short.key_prefix.clone();
    let mut node = node(short).await;
    let (session, other) = ("half-moved", "elsewhere");
    node.say(session, "before").await;
    let half = SlotMove::begin(cluster, session);
    let before = keys(cluster, &prefix);
    // Each key moves by itself; after each, the session is in two places.
    for key in half.keys(100) {
        half.carry(&key);
        let passed = node.say(session, "meanwhile").await;
        assert_eq!(passed.effect, Effect::Failed);
        assert!(problem_message(&passed).contains("slot is being moved"), "{passed:?}");
        assert_eq!(node.say(other, "fine").await.effect, Effect::Stored, "other sessions do not care");
        node.keepline.sessions().delete(other).await.unwrap();
    }
    half.end();
    let after: Vec<_> = keys(cluster, &prefix).into_iter().filter(|key| !key.contains(other)).collect();
    let registered = |keys: &[String]| keys.iter().filter(|key| key.ends_with(":__sessions__")).count();
    assert_eq!(registered(&after), registered(&before), "an emptied registry is gone, too");
    assert_eq!(after, before);
    // The breaker of a node that could not serve it may be open for a moment.
    let end = Instant::now() + LONG;
    while node.say(session, "after").await.effect != Effect::Stored {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(answers(&node, session).await, 2);
}

#[tokio::test]
async fn sessions_named_like_bookkeeping_keys_work_like_any_other() {
    let cluster = shared_cluster();
    let options = options(cluster);
    let prefix = options.key_prefix.clone();
    let mut node = node(options).await;
    let names = ["__sessions__", "__keys__", "__meta__", "__none__", "0a3f", "-", "_"];
    for name in names {
        assert_eq!(node.say(name, name).await.effect, Effect::Stored);
        assert_eq!(node.memory(name).await.unwrap(), format!(r#"{{"answer_count":1,"last_answer":"{name}"}}"#));
    }
    let mut listed = node.keepline.sessions().list("", 100).await.unwrap().sessions;
    listed.sort_unstable();
    let mut expected = names.map(str::to_owned).to_vec();
    expected.sort_unstable();
    assert_eq!(listed, expected);
    for name in names {
        let tag = tag_of(cluster, name);
        let all = keys(cluster, &format!("{prefix}:{{{tag}}}:{name}"));
        let names: Vec<_> = all.iter().map(|key| key.rsplit(':').next().unwrap()).collect();
        assert_eq!(names, ["__history__", "__keys__", "__meta__", "__writers__", "answer_count", "last_answer"]);
        assert!(keys(cluster, &format!("{prefix}:{{{tag}}}")).contains(&format!("{prefix}:{{{tag}}}:__sessions__")));
        node.keepline.sessions().delete(name).await.unwrap();
    }
    let left = keys(cluster, &prefix);
    assert!(left.iter().all(|key| key.ends_with(":__writers__")), "{left:?}");
}

#[tokio::test]
async fn one_reachable_node_is_enough_to_discover_the_cluster() {
    let cluster = shared_cluster();
    let mut options = options(cluster);
    let replica = format!("localhost:{}", cluster.nodes().last().unwrap().port());
    options.nodes = vec![format!("127.0.0.1:{}", dead_port()), replica];
    let mut node = node(options).await;
    for session in sessions() {
        assert_eq!(node.say(&session, "found").await.effect, Effect::Stored);
    }
    node.keepline.store().check().await.unwrap();
}

#[tokio::test]
async fn a_cluster_configured_as_a_single_server_and_the_reverse_are_reported() {
    let cluster = shared_cluster();
    let single = RedisServer::start().unwrap();
    let short = Duration::from_millis(500);
    let all_alone =
        RedisOptions { url: Some(single.url().into()), cluster: true, store_timeout: short, ..RedisOptions::default() };
    let failure = store(all_alone.clone()).check().await.unwrap_err();
    assert_eq!(failure.message, "this Redis is not a cluster node: leave redis_cluster unset");
    assert_eq!(failure.code, FailureCode::Other);

    let not_told =
        RedisOptions { url: Some(cluster.nodes()[0].url().into()), store_timeout: short, ..options(cluster) };
    let not_told = RedisOptions { cluster: false, nodes: vec![], ..not_told };
    let mut node = node(not_told.clone()).await;
    let messages: Vec<_> = {
        let mut messages = Vec::new();
        for session in sessions() {
            let passed = node.say(&session, "?").await;
            assert_eq!(passed.effect, Effect::Failed);
            messages.push(problem_message(&passed).to_owned());
        }
        messages
    };
    assert!(messages.iter().any(|message| message.contains("set redis_cluster")), "{messages:?}");

    let refused = |options: RedisOptions| RedisStore::new(options).unwrap_err();
    let nodes = RedisOptions { nodes: vec!["a:1".into()], ..not_told };
    assert_eq!(refused(nodes), RedisOptionsError::NodesOfNoCluster);
    let database = RedisOptions { database: 3, url: None, ..all_alone.clone() };
    assert_eq!(refused(database), RedisOptionsError::Database);
    let node = RedisOptions { nodes: vec!["a:b".into()], ..all_alone };
    assert_eq!(refused(node), RedisOptionsError::Node("a:b".into()));
}
