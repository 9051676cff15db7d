//! Nodes that die, hang, or do not confirm.

use super::*;

/// After how long the nodes take one of them for dead, for tests in which one dies.
const NODE_TIMEOUT: [&str; 2] = ["--cluster-node-timeout", "2000"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_dies_is_replaced_by_its_replica_without_a_restart() {
    let mut cluster = RedisCluster::start_with(MASTERS, 1, &NODE_TIMEOUT).unwrap();
    let quick = RedisOptions { store_timeout: Duration::from_millis(500), wait_replicas: 1, ..options(&cluster) };
    let node = node(quick).await;
    let sessions = sessions();
    let load = Load::start(&node, &sessions);
    tokio::time::sleep(Duration::from_millis(500)).await;
    cluster.nodes_mut()[1].kill();
    // Entries pass all the while, without memory where it was lost; `Load` sees to that.
    let end = Instant::now() + Duration::from_secs(60);
    let mut pipe = node.keepline.pipe();
    for session in &sessions {
        // Its replica alone is left of that shard, and has none to confirm what is stored.
        while pipe.question("?", &metadata_of(session)).await.unwrap().effect != Effect::Enriched {
            assert!(Instant::now() < end, "{session} does not come back");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let came = load.stop().await;
    let failed: u64 = came.values().map(|came| came.failed).sum();
    assert!(failed > 0, "a failover is seen by somebody");
    for (session, came) in came {
        let count = answers(&node, &session).await;
        // What was told to be stored was on the replica, and outlives the master. What failed may be stored.
        assert!(came.stored <= count && count <= came.stored + came.failed, "{session}: {count}, {}", came.stored);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_master_affects_only_its_own_sessions() {
    let cluster = RedisCluster::start_with(MASTERS, 1, &NODE_TIMEOUT).unwrap();
    let quick = RedisOptions { store_timeout: Duration::from_millis(500), ..options(&cluster) };
    let mut node = node(quick).await;
    let known = known(&cluster, 0);
    let at = |session: &str| owner_of(&known, slot_of(&cluster, session)).at;
    let hung: Vec<_> = (0..100).map(|n| format!("s{n}")).filter(|session| at(session) == 0).take(3).collect();
    let fine: Vec<_> = (0..100).map(|n| format!("s{n}")).filter(|session| at(session) != 0).take(8).collect();
    for session in hung.iter().chain(&fine) {
        assert_eq!(node.say(session, "before").await.effect, Effect::Stored);
    }
    // Its replica may have to catch up first: what that doesn't have is lost with its master.
    let offset = |name: &str| -> u64 {
        let info: String = cluster.ask(0, "INFO replication").unwrap();
        let (_, rest) = info.split_once(name).unwrap_or_default();
        rest.split(|end: char| !end.is_ascii_digit()).next().unwrap_or_default().parse().unwrap_or(0)
    };
    let (written, end) = (offset("master_repl_offset:"), Instant::now() + LONG);
    while offset("state=online,offset=") < written {
        assert!(Instant::now() < end, "its replica never catches up");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    cluster.nodes()[0].pause().unwrap();
    assert_eq!(node.say(&hung[0], "lost").await.effect, Effect::Failed);
    for session in &fine {
        assert_eq!(node.say(session, "fine").await.effect, Effect::Stored, "{session}");
    }
    let end = Instant::now() + Duration::from_secs(60);
    for session in &hung {
        while node.say(session, "again").await.effect != Effect::Stored {
            assert!(Instant::now() < end, "{session} does not come back");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    // It wakes up and is told that it is a replica now: what was sent to it meanwhile is not applied.
    cluster.nodes()[0].resume().unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    for session in &hung {
        assert_eq!(answers(&node, session).await, 2, "{session}");
        assert_eq!(node.say(session, "and on").await.effect, Effect::Stored);
    }
}

#[tokio::test]
async fn unconfirmed_writes_are_reported_and_reads_go_on() {
    let cluster = RedisCluster::start_with(1, 1, &[]).unwrap();
    let mut node = node(RedisOptions { wait_replicas: 1, ..options(&cluster) }).await;
    let mut single = RedisOptions { wait_replicas: 2, ..options(&cluster) };
    let end = Instant::now() + LONG;
    // The replica may have to catch up first.
    while node.say("s", "one").await.effect != Effect::Stored {
        assert!(Instant::now() < end);
    }
    cluster.nodes()[1].pause().unwrap();
    for _ in 0..5 {
        let passed = node.say("s", "unconfirmed").await;
        assert_eq!(passed.effect, Effect::Failed);
        assert_eq!(problem_code(&passed), "read-only");
        assert!(problem_message(&passed).contains("not confirmed by 1 replicas"), "{passed:?}");
        assert_eq!(node.ask("s").await.effect, Effect::Enriched);
    }
    cluster.nodes()[1].resume().unwrap();
    let end = Instant::now() + LONG;
    while node.say("s", "two").await.effect != Effect::Stored {
        assert!(Instant::now() < end);
    }
    single.nodes.truncate(1);
    let mut never = self::node(single).await;
    assert_eq!(never.say("t", "one").await.effect, Effect::Failed, "there are no two replicas");
}

#[tokio::test]
async fn an_unreachable_cluster_opens_the_breaker_and_is_found_again() {
    let mut cluster = RedisCluster::start_with(1, 0, &[]).unwrap();
    let quick = RedisOptions { store_timeout: Duration::from_millis(200), ..options(&cluster) };
    cluster.nodes_mut()[0].kill();
    // Nobody has ever told which node has what.
    let mut node = node(quick.clone()).await;
    for _ in 0..3 {
        assert_eq!(node.say("s", "lost").await.effect, Effect::Failed);
    }
    let refused = node.say("s", "lost").await;
    assert!(problem_message(&refused).contains("suspended for a moment"), "{refused:?}");
    cluster.nodes_mut()[0].restart().unwrap();
    // Its users are gone with it.
    allowed_on_cluster(&cluster, quick);
    let end = Instant::now() + Duration::from_secs(60);
    while node.say("s", "found").await.effect != Effect::Stored {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
