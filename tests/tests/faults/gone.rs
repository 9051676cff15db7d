//! A Redis that is dead, comes back, or is loading its data.

use super::*;

#[tokio::test]
async fn entries_pass_while_redis_is_down_and_have_memory_after_its_restart() {
    let mut server = servers::start();
    let timeout = Duration::from_millis(300);
    let mut node = node(RedisOptions { store_timeout: timeout, ..options(server.port()) }).await;
    assert_eq!(node.say("s1", "before").await.effect, Effect::Stored);
    server.kill();
    let dead_since = Instant::now();
    for _ in 0..100 {
        let began = Instant::now();
        assert_forwarded(&node.say("s1", "lost").await, &["unavailable"]);
        assert!(began.elapsed() < timeout + MARGIN);
        assert_forwarded(&node.ask("s1").await, &["unavailable"]);
    }
    // Some wait for the time-out; were it all of them, this would take a minute.
    assert!(dead_since.elapsed() < Duration::from_secs(10), "{:?}", dead_since.elapsed());
    assert_eq!(node.counters().failed, 200);
    // Few lines, however many entries.
    assert!((1..=10).contains(&node.log.of("plugin: keepline.store").len()));
    server.restart().unwrap();
    until_true("memory", async || node.say("s1", "after").await.effect == Effect::Stored).await;
    assert!(node.memory("s1").await.unwrap().contains("\"after\""));
    assert_answers(&node, "s1", 1).await;
}

#[tokio::test]
async fn probes_detect_a_restarted_redis_without_an_entry() {
    let mut server = servers::start();
    let timeout = Duration::from_millis(300);
    let store = store(RedisOptions { store_timeout: timeout, ..options(server.port()) });
    let probed = |options: &mut keepline::Options| options.probe_interval = Some(Duration::from_millis(50));
    let mut node = Node::with(&store, "{}", probed).await;
    assert!(node.keepline.health(None).await.is_good());
    server.kill();
    until_true("an open circuit", async || {
        assert_forwarded(&node.say("s1", "lost").await, &["unavailable", "timed-out"]);
        node.keepline.metrics().store.breaker == BreakerState::Open
    })
    .await;
    let health = node.keepline.health(None).await;
    assert_eq!((health.is_good(), health.breaker), (false, BreakerState::Open), "{health:?}");
    server.restart().unwrap();
    until_true("a closed circuit", async || node.keepline.metrics().store.breaker == BreakerState::Closed).await;
    assert_eq!(node.say("s1", "after").await.effect, Effect::Stored);
}

#[tokio::test]
async fn sessions_that_redis_kept_on_disk_survive_a_crash() {
    let mut server = servers::start_with(&["--appendonly", "yes", "--appendfsync", "always"]).unwrap();
    let mut node = node(options(server.port())).await;
    for answers in 1..=5 {
        assert_eq!(node.say("s1", "yes").await.effect, Effect::Stored);
        server.restart().unwrap();
        assert_answers(&node, "s1", answers).await;
    }
    assert_eq!(node.counters().failed, 0);
}

#[tokio::test]
async fn a_redis_that_is_loading_its_data_is_waited_for() {
    let arguments = ["--key-load-delay", "700", "--loading-process-events-interval-bytes", "1024"];
    let mut server = servers::start_with(&arguments).unwrap();
    let mut patient = node(options(server.port())).await;
    let hasty = RedisOptions {
        store_timeout: Duration::from_millis(150),
        // The breaker stays out of it.
        breaker_failures: 1_000_000,
        ..options(server.port())
    };
    let hasty = node(hasty).await;
    patient.say("s1", "yes").await;
    let mut connection = raw(&server);
    let mut fill = redis::pipe();
    (0..2500).for_each(|key| {
        fill.cmd("SET").arg(format!("other:{key}")).arg("x".repeat(50)).ignore();
    });
    fill.exec(&mut connection).unwrap();
    send(&mut connection, "SAVE");
    let restarted = tokio::task::spawn_blocking(move || {
        server.restart().unwrap();
        server
    });
    // Dead at first, then loading.
    let mut told = String::new();
    until_true("loading", async || {
        told = hasty.pipe_says("s1").await.problem.map(|problem| problem.message).unwrap_or_default();
        told.contains("loading")
    })
    .await;
    assert_eq!(patient.say("s1", "again").await.effect, Effect::Stored);
    assert_answers(&patient, "s1", 2).await;
    drop(restarted.await.unwrap());
}

#[tokio::test]
async fn an_unreachable_redis_delays_only_the_first_entries() {
    let server = servers::start();
    let proxy = Proxy::start(server.port()).await;
    let timeout = Duration::from_millis(400);
    let cooldown = Duration::from_secs(3);
    let options = RedisOptions { store_timeout: timeout, breaker_cooldown: cooldown, ..options(proxy.port()) };
    let mut node = node(options).await;
    node.say("s1", "yes").await;
    proxy.weather(Weather::BlackHole);
    for _ in 0..3 {
        let began = Instant::now();
        assert_forwarded(&node.say("s1", "lost").await, &["timed-out", "unavailable"]);
        assert!(began.elapsed() >= timeout && began.elapsed() < timeout + MARGIN);
    }
    let began = Instant::now();
    for _ in 0..100 {
        let passed = node.say("s1", "lost").await;
        assert_forwarded(&passed, &["unavailable"]);
        assert!(problem_message(&passed).contains("suspended for a moment"), "{passed:?}");
    }
    assert!(began.elapsed() < timeout, "{:?}", began.elapsed());
    proxy.weather(Weather::Fair);
    until_true("memory", async || node.say("s1", "back").await.effect == Effect::Stored).await;
    for _ in 0..10 {
        assert_eq!(node.say("s1", "back").await.effect, Effect::Stored);
    }
}
