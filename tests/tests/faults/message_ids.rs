//! An answer that is sent again with its id, because its caller does not know whether it was stored, counts once.

use keepline_tests::lanes::untouched;

use super::*;

/// Its id is its text.
fn metadata_with(session: &str, id: &str) -> String {
    format!(r#"{{"session_id":"{session}","message_id":"{id}"}}"#)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_with_an_id_that_are_retried_until_confirmed_count_once() {
    const IDS: u64 = 60;
    let server = servers::start();
    let proxy = Proxy::start(server.port()).await;
    // So short that hosts give up, and don't know what has become of their answers.
    let hasty = RedisOptions {
        store_timeout: Duration::from_millis(100),
        breaker_failures: 1_000_000,
        ..options(proxy.port())
    };
    let (one, other) = (node(hasty.clone()).await, node(hasty).await);
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    proxy.cut_at_random(Some(3), seed);
    let lanes = (0..6_u64).map(|lane| {
        let (mut pipe, proxy) = (if lane % 2 == 0 { one.keepline.pipe() } else { other.keepline.pipe() }, &proxy);
        async move {
            let mut told_stored = 0;
            // Each session's are sent by three of them.
            let session = format!("s{}", lane % 2);
            for id in (0..IDS).map(|id| (id + lane * 7) % IDS) {
                let end = Instant::now() + LONG;
                loop {
                    if fastrand::u8(..8) == 0 {
                        proxy.cut_next(Cut::BeforeReply);
                    }
                    let passed = pipe.answer("x", &metadata_with(&session, &format!("m-{id}"))).await.unwrap();
                    match passed.effect {
                        Effect::Stored => break told_stored += 1,
                        Effect::Repeated => break,
                        _ => assert_eq!(passed.effect, Effect::Failed, "{passed:?}"),
                    }
                    assert!(Instant::now() < end, "it never comes: {passed:?}");
                }
            }
            (session, told_stored)
        }
    });
    let told = join_all(lanes).await;
    proxy.cut_at_random(None, 0);
    assert!(proxy.cuts() > 20, "{}", proxy.cuts());
    let direct = node(options(server.port())).await;
    for session in ["s0", "s1"] {
        assert_answers(&direct, session, IDS).await;
        let stored: u64 = told.iter().filter(|lane| lane.0 == session).map(|lane| lane.1).sum();
        // One that nobody was told of counts as well; none was told to two.
        assert!(stored <= IDS, "{session}: {stored}");
    }
}

#[tokio::test]
async fn a_server_that_dies_at_any_moment_neither_loses_nor_doubles_acknowledged_answers() {
    let mut server = servers::start_with(&["--appendonly", "yes", "--appendfsync", "always"]).unwrap();
    let timeout = Duration::from_millis(300);
    let mut node = node(RedisOptions { store_timeout: timeout, ..options(server.port()) }).await;
    for id in 0..8_u64 {
        let metadata = metadata_with("s1", &format!("m-{id}"));
        if id % 2 == 0 {
            server.kill();
            assert_forwarded(&node.answer("lost", &metadata).await, &["unavailable", "timed-out"]);
            server.restart().unwrap();
        }
        until_true("an answer", async || {
            let passed = node.answer("x", &metadata).await;
            matches!(passed.effect, Effect::Stored | Effect::Repeated)
        })
        .await;
        server.restart().unwrap();
        until_true("the same answer", async || untouched(Effect::Repeated, &node.answer("x", &metadata).await)).await;
        assert_answers(&node, "s1", id + 1).await;
    }
}
