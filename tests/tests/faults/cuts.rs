//! Connections that are cut at every point of a call.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_cuts_under_load_lose_no_entry_and_count_no_answer_twice() {
    const CUTS: u64 = 1000;
    let server = servers::start();
    let proxy = Proxy::start(server.port()).await;
    let seed = random::seed();
    let cut = node(options(proxy.port())).await;
    proxy.cut_at_random(Some(4), seed);
    let lanes = (0..8).map(|pipe_number| {
        let (mut pipe, proxy) = (cut.keepline.pipe(), &proxy);
        async move {
            let session = format!("s{}", pipe_number % 4);
            let mut answers = 0;
            while proxy.cuts() < CUTS {
                let asked = Instant::now();
                let question = pipe.question("?", &metadata_of(&session)).await.unwrap();
                assert!(matches!(question.effect, Effect::Resumed | Effect::Enriched), "{question:?}");
                let answer = pipe.answer(&format!("{pipe_number}/{answers}"), "{}").await.unwrap();
                assert_eq!(answer.effect, Effect::Stored, "{answer:?}");
                assert!(asked.elapsed() < LONG);
                answers += 1;
            }
            (session, answers)
        }
    });
    let done = join_all(lanes).await;
    proxy.cut_at_random(None, 0);
    for cut in Cut::ALL {
        assert!(proxy.cuts_of(cut) > CUTS / 8, "{cut:?}: {}", proxy.cuts_of(cut));
    }
    let direct = node(options(server.port())).await;
    for session in ["s0", "s1", "s2", "s3"] {
        let answers: u64 = done.iter().filter(|lane| lane.0 == session).map(|lane| lane.1).sum();
        assert!(answers > 10);
        assert_answers(&direct, session, answers).await;
    }
    // Nothing was restarted: the node that was cut goes on.
    assert_eq!(cut.pipe_says("s0").await.effect, Effect::Stored);
    assert_eq!(cut.counters().failed, 0);
}

#[tokio::test]
async fn each_kind_of_connection_cut_is_recovered_within_the_call() {
    let server = servers::start();
    let proxy = Proxy::start(server.port()).await;
    let mut node = node(options(proxy.port())).await;
    let mut answers = 0;
    for cut in Cut::ALL.into_iter().cycle().take(40) {
        proxy.cut_next(cut);
        assert_eq!(node.say("s1", "yes").await.effect, Effect::Stored, "{cut:?}");
        answers += 1;
        assert_eq!(
            node.sessions.increment("s2", "n", 1).await.err().map(|error| error.code),
            match answers {
                1 => Some(SessionErrorCode::NotFound),
                _ => None,
            }
        );
        if answers == 1 {
            node.sessions.create("s2").await.unwrap();
            node.sessions.increment("s2", "n", 1).await.unwrap();
        }
        proxy.cut_next(cut);
        node.sessions.increment("s2", "n", 1).await.unwrap();
    }
    assert_eq!(proxy.cuts(), 80);
    assert_answers(&node, "s1", answers).await;
    assert_eq!(node.sessions.get("s2", "n").await.unwrap().value(), Some("80"));
    // Cut at the reply, a deletion tells nevertheless that it was done.
    proxy.cut_next(Cut::BeforeReply);
    node.sessions.delete("s2").await.unwrap();
    proxy.cut_next(Cut::BeforeReply);
    node.sessions.create("s2").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_scripts_are_sent_again_even_while_connections_are_cut() {
    let server = servers::start();
    let proxy = Proxy::start(server.port()).await;
    let node = node(options(proxy.port())).await;
    proxy.cut_at_random(Some(20), 1);
    let flushing = async {
        let mut connection =
            redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
        loop {
            redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut connection).await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let lanes = (0..4).map(|_| async {
        let mut pipe = node.keepline.pipe();
        for _ in 0..100 {
            assert_ne!(pipe.question("?", &metadata_of("s1")).await.unwrap().effect, Effect::Failed);
            assert_eq!(pipe.answer("yes", "{}").await.unwrap().effect, Effect::Stored);
        }
    });
    tokio::select! {
        () = flushing => {}
        _ = join_all(lanes) => {}
    }
    proxy.cut_at_random(None, 0);
    assert_answers(&node, "s1", 400).await;
}
