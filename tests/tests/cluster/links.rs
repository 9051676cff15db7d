//! Connections to nodes: slow ones, silent ones, IPv6, and slots whose move was interrupted.

use keepline::store::Deadline;
use keepline_tests::{lanes::look, proxy::Weather, servers::proxied};
use tokio::net::TcpListener;

use super::*;

async fn comes_back(node: &mut Node, session: &str) {
    let end = Instant::now() + LONG;
    while node.say(session, "after").await.effect != Effect::Stored {
        assert!(Instant::now() < end, "{session} does not come back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_cluster_on_a_slow_link_starts() {
    const DELAY: Duration = Duration::from_millis(180);
    let cluster = RedisCluster::start(2, 0).unwrap();
    let proxies = proxied(&cluster).await;
    let nodes = proxies.iter().map(|proxy| format!("127.0.0.1:{}", proxy.port())).collect();
    let behind = RedisOptions { nodes, ..options(&cluster) };
    proxies.iter().for_each(|proxy| proxy.weather(Weather::Slow(DELAY)));
    let store = |timeout| {
        // The breaker stays out of it.
        let options = RedisOptions { store_timeout: timeout, breaker_failures: 1_000_000, ..behind.clone() };
        store(options)
    };
    let patient = store(Duration::from_secs(5));
    for session in sessions() {
        look(&patient, &session, Deadline::NEVER).await.unwrap();
    }
    patient.check().await.unwrap();
    // Less time than it takes to find the nodes: the first requests fail, in time, and the later ones don't.
    for (timeout, deadline) in [(Duration::from_millis(300), None), (LONG, Some(Duration::from_millis(300)))] {
        let hasty = store(timeout);
        let deadline = || deadline.map_or(Deadline::NEVER, Deadline::after);
        let began = Instant::now();
        let first = look(&hasty, "s0", deadline()).await.unwrap_err();
        assert_eq!(first.code, FailureCode::TimedOut);
        assert!(began.elapsed() < Duration::from_millis(1800), "{:?}", began.elapsed());
        let end = Instant::now() + LONG;
        for session in sessions() {
            while look(&hasty, &session, deadline()).await.is_err() {
                assert!(Instant::now() < end, "{session} is never reached");
            }
        }
    }
}

#[tokio::test]
async fn silent_nodes_do_not_use_up_the_time_to_reach_the_others() {
    let cluster = shared_cluster();
    let mut silent = Vec::new();
    for _ in 0..6 {
        // Nobody accepts, and the kernel says hello.
        silent.push(TcpListener::bind(("127.0.0.1", 0)).await.unwrap());
    }
    let mut options = options(cluster);
    let last = options.nodes.pop().unwrap();
    options.nodes = silent.iter().map(|silent| silent.local_addr().unwrap().to_string()).collect();
    options.nodes.push(last);
    options.store_timeout = Duration::from_secs(4);
    let store = store(options);
    for session in sessions() {
        look(&store, &session, Deadline::NEVER).await.unwrap();
    }
}

#[tokio::test]
async fn a_call_waits_for_the_map_no_longer_than_its_own_deadline() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let options = RedisOptions {
        cluster: true,
        nodes: vec![silent.local_addr().unwrap().to_string()],
        store_timeout: LONG,
        ..RedisOptions::default()
    };
    let store = store(options);
    let patient = look(&store, "s", Deadline::NEVER);
    let hasty = async {
        // Behind the one that asks for it.
        tokio::task::yield_now().await;
        let began = Instant::now();
        let failure = look(&store, "s", Deadline::after(Duration::from_millis(100))).await.unwrap_err();
        (failure.code, began.elapsed())
    };
    tokio::select! {
        biased;
        outcome = patient => panic!("{outcome:?}"),
        (code, took) = hasty => {
            assert_eq!(code, FailureCode::TimedOut);
            assert!(took < Duration::from_secs(2), "{took:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_slot_move_delays_only_a_few_entries() {
    let cluster = shared_cluster();
    let timeout = Duration::from_millis(400);
    let cooldown = Duration::from_secs(2);
    let mut node = node(RedisOptions { store_timeout: timeout, breaker_cooldown: cooldown, ..options(cluster) }).await;
    let session = "broken-off";
    assert_eq!(node.say(session, "before").await.effect, Effect::Stored);
    let half = SlotMove::begin(cluster, session);
    half.keys(1000).iter().skip(1).for_each(|key| half.carry(key));
    // Of the same node, in other slots.
    let known = known(cluster, 0);
    let neighbour = |name: &String| {
        let slot = slot_of(cluster, name);
        slot != half.slot && owner_of(&known, slot).at == half.from.0
    };
    let neighbours: Vec<_> = (0..200).map(|n| format!("n{n}")).filter(neighbour).take(4).collect();
    let (mut slow, mut left_alone) = (0, 0);
    for _ in 0..60 {
        let began = Instant::now();
        let passed = node.say(session, "meanwhile").await;
        slow += u32::from(began.elapsed() >= timeout);
        assert_eq!(passed.effect, Effect::Failed);
        assert!(problem_message(&passed).contains("slot is being moved"), "{passed:?}");
        left_alone += u32::from(problem_message(&passed).contains("suspended for a moment"));
        for name in &neighbours {
            assert_eq!(node.say(name, "fine").await.effect, Effect::Stored, "{name}");
        }
    }
    // The first, and one each time that it is looked whether the slot has arrived.
    assert!(slow <= 5 && left_alone >= 50, "{slow} waited, {left_alone} did not");
    half.end();
    comes_back(&mut node, session).await;
    for _ in 0..5 {
        assert_eq!(node.say(session, "and on").await.effect, Effect::Stored);
    }
}

#[tokio::test]
async fn nodes_that_disagree_on_one_slot_still_serve_the_others() {
    let cluster = shared_cluster();
    let short = Duration::from_millis(200);
    let mut node = node(RedisOptions { store_timeout: short, breaker_failures: 1, ..options(cluster) }).await;
    let session = "disagreed-on";
    assert_eq!(node.say(session, "before").await.effect, Effect::Stored);
    let half = SlotMove::begin(cluster, session);
    half.keys(1000).iter().for_each(|key| half.carry(key));
    // One has been told that the move has ended, and the other has never heard of it.
    half.forget(half.to.0);
    half.tell(half.from.0);
    for _ in 0..20 {
        assert_eq!(node.say(session, "meanwhile").await.effect, Effect::Failed);
        for other in sessions() {
            assert_eq!(node.say(&other, "fine").await.effect, Effect::Stored, "{other}");
        }
    }
    half.end();
    comes_back(&mut node, session).await;
}

#[tokio::test]
async fn a_redirection_to_an_ipv6_address_is_followed() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("this machine has no IPv6; nothing is tested here");
        return;
    }
    let arguments = ["--bind", "127.0.0.1", "::1", "--cluster-announce-ip", "::1"];
    let cluster = RedisCluster::start_with(2, 0, &arguments).unwrap();
    let nodes = cluster.nodes().iter().map(|node| format!("[::1]:{}", node.port())).collect();
    let options = RedisOptions { nodes, ..options(&cluster) };
    let store = store(options);
    // Both nodes are connected to.
    for session in sessions() {
        look(&store, &session, Deadline::NEVER).await.unwrap();
    }
    SlotMove::begin(&cluster, "moved").end();
    let before = store.round_trips();
    look(&store, "moved", Deadline::NEVER).await.unwrap();
    assert_eq!(store.round_trips() - before, 2, "one to be sent away, and one to be answered");
    look(&store, "moved", Deadline::NEVER).await.unwrap();
    assert_eq!(store.round_trips() - before, 3);
}
