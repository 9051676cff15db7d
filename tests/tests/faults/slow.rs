//! A Redis that is slow, or pauses.

use super::*;

#[tokio::test]
async fn entries_pass_within_the_time_out_while_redis_is_paused() {
    let server = servers::start();
    let timeout = Duration::from_millis(300);
    let node = node(RedisOptions { store_timeout: timeout, ..options(server.port()) }).await;
    assert_eq!(node.pipe_says("s1").await.effect, Effect::Stored);
    server.pause().unwrap();
    let lanes = (0..16).map(|_| async {
        let mut pipe = node.keepline.pipe();
        let mut fast = 0;
        for _ in 0..30 {
            let began = Instant::now();
            let passed = pipe.answer("lost", &metadata_of("s1")).await.unwrap();
            assert!(began.elapsed() < timeout + MARGIN, "{:?}", began.elapsed());
            assert_forwarded(&passed, &["timed-out", "unavailable"]);
            fast += u32::from(began.elapsed() < timeout);
        }
        fast
    });
    let fast: u32 = join_all(lanes).await.into_iter().sum();
    assert!(fast > 16 * 25, "{fast}");
    server.resume().unwrap();
    until_true("memory", async || node.pipe_says("s1").await.effect == Effect::Stored).await;
    // Nothing that timed out was applied later.
    assert_answers(&node, "s1", 2).await;
}

#[tokio::test]
async fn pipes_that_share_a_dead_connection_wait_no_longer_than_the_time_out() {
    let server = servers::start();
    let proxy = Proxy::start(server.port()).await;
    let timeout = Duration::from_millis(500);
    // The breaker stays out of it.
    let options = RedisOptions { store_timeout: timeout, breaker_failures: 1_000_000, ..options(proxy.port()) };
    let node = node(options).await;
    node.pipe_says("s1").await;
    for weather in [Weather::BlackHole, Weather::Closed, Weather::Slow(timeout * 2)] {
        proxy.weather(weather);
        let lanes = (0..16).map(|pipe| {
            let node = &node;
            async move {
                tokio::time::sleep(timeout * pipe / 16).await;
                for _ in 0..3 {
                    let began = Instant::now();
                    assert_forwarded(&node.pipe_says("s1").await, &["timed-out", "unavailable"]);
                    assert!(began.elapsed() < timeout + MARGIN, "{weather:?}: {:?}", began.elapsed());
                }
            }
        });
        join_all(lanes).await;
        proxy.weather(Weather::Fair);
        until_true("memory", async || node.pipe_says("s2").await.effect == Effect::Stored).await;
    }
    // What the slow way delivered after the time-out was not applied.
    assert_answers(&node, "s1", 1).await;
}

#[tokio::test]
async fn a_write_that_timed_out_never_overtakes_a_newer_one() {
    let server = servers::start();
    let timeout = Duration::from_millis(150);
    let hasty = RedisOptions { store_timeout: timeout, breaker_failures: 1_000_000, ..options(server.port()) };
    let (mut hasty, mut patient) = (node(hasty).await, node(options(server.port())).await);
    patient.sessions.create("s1").await.unwrap();
    let mut writes = 0;
    for round in 0..12 {
        hasty.sessions.get("s1", "k").await.unwrap();
        server.pause().unwrap();
        let old = hasty.sessions.put("s1", "k", "\"old\"").await.unwrap_err();
        assert!(old.message.contains("150"), "{old}");
        tokio::time::sleep(Duration::from_millis(50)).await;
        match round % 3 {
            // Another process, while both requests wait to be read.
            0 => {
                let (put, ()) = tokio::join!(patient.sessions.put("s1", "k", "\"new\""), async {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    server.resume().unwrap();
                });
                put.unwrap();
            }
            // Another process, after it.
            1 => {
                server.resume().unwrap();
                patient.sessions.put("s1", "k", "\"new\"").await.unwrap();
            }
            // The same pipe.
            _ => {
                server.resume().unwrap();
                hasty.sessions.put("s1", "k", "\"new\"").await.unwrap();
            }
        }
        writes += 1;
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert_eq!(patient.sessions.get("s1", "k").await.unwrap().value(), Some("\"new\""), "{round}");
        assert_eq!(operations_told(&patient.history("s1").await), writes, "{round}");
    }
}

/// The store's clock is learned from a first reply that comes late; a later write must not gain by that.
#[tokio::test]
async fn a_connection_made_during_a_pause_applies_no_timed_out_write() {
    let server = servers::start();
    let mut patient = node(options(server.port())).await;
    patient.sessions.create("s1").await.unwrap();
    patient.sessions.put("s1", "k", "\"new\"").await.unwrap();
    let hasty = RedisOptions { store_timeout: Duration::from_millis(800), ..options(server.port()) };
    let mut hasty = node(hasty).await;
    server.pause().unwrap();
    let (first, ()) = tokio::join!(hasty.sessions.put("s1", "first", "1"), async {
        tokio::time::sleep(Duration::from_millis(600)).await;
        server.resume().unwrap();
    });
    first.unwrap();
    server.pause().unwrap();
    hasty.sessions.put("s1", "k", "\"old\"").await.unwrap_err();
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.resume().unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(patient.sessions.get("s1", "k").await.unwrap().value(), Some("\"new\""));
}
