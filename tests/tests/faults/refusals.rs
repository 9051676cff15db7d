//! A Redis that refuses: out of memory, read-only, or without access.

use super::*;

#[tokio::test]
async fn a_redis_out_of_memory_refuses_writes_but_still_reads_and_deletes() {
    let server = servers::start();
    let mut connection = raw(&server);
    let mut node = node(options(server.port())).await;
    for _ in 0..3 {
        node.say("s1", "yes").await;
        node.say("s2", "yes").await;
    }
    send(&mut connection, "CONFIG SET maxmemory 1");
    let before = dump(&mut connection);
    for session in ["s1", "new"] {
        assert_forwarded(&node.say(session, "lost").await, &["full"]);
    }
    let refused = node.sessions.put("s1", "k", "1").await.unwrap_err();
    assert!(refused.message.contains("out of memory"), "{refused}");
    assert_eq!(dump(&mut connection), before);
    assert_eq!(node.ask("s1").await.effect, Effect::Enriched);
    send(&mut connection, "SCRIPT FLUSH");
    assert_eq!(node.sessions.delete("s2").await.unwrap().keys.len(), 2);
    assert_eq!(node.memory("s2").await, None);
    assert_eq!(node.ask("s1").await.effect, Effect::Enriched);
    send(&mut connection, "CONFIG SET maxmemory 0");
    assert_eq!(node.say("s1", "yes").await.effect, Effect::Stored);
    assert_answers(&node, "s1", 4).await;
}

#[tokio::test]
async fn a_redis_out_of_memory_still_deletes_sessions_and_forgets_users() {
    let server = servers::start();
    let mut connection = raw(&server);
    let mut node = Node::new(&store(options(server.port())), r#"{"conversation":true,"recall":"user"}"#).await;
    for session in ["s1", "s2", "s3"] {
        let metadata = format!(r#"{{"session_id":"{session}","user_id":"anna"}}"#);
        let mut pipe = node.keepline.pipe();
        assert_ne!(pipe.question("My secret?", &metadata).await.unwrap().effect, Effect::Failed);
        assert_eq!(pipe.answer("A secret", &metadata).await.unwrap().effect, Effect::Stored);
    }
    send(&mut connection, "CONFIG SET maxmemory 1");
    let lost = node.keepline.pipe().answer("x", r#"{"session_id":"s1","user_id":"anna"}"#).await.unwrap();
    assert_forwarded(&lost, &["full"]);
    node.sessions.delete("s1").await.unwrap();
    let mut forgotten = 0;
    loop {
        let done = node.sessions.forget_user("anna").await.unwrap();
        forgotten += done.sessions;
        if done.remaining == 0 {
            break;
        }
    }
    assert_eq!(forgotten, 2);
    let left: Vec<_> = dump(&mut connection).into_iter().filter(|(key, _)| !key.ends_with(":__writers__")).collect();
    assert!(!left.iter().any(|(_, value)| String::from_utf8_lossy(value).contains("secret")), "{left:?}");
    send(&mut connection, "CONFIG SET maxmemory 0");
    assert_eq!(node.say("s1", "yes").await.effect, Effect::Stored);
}

#[tokio::test]
async fn a_read_only_replica_is_reported_and_works_once_it_is_the_master() {
    let server = servers::start();
    node(options(server.port())).await.say("s1", "yes").await;
    let replica = servers::start_with(&["--replicaof", "127.0.0.1", &server.port().to_string()]).unwrap();
    let mut connection = raw(&replica);
    let mut node = node(options(replica.port())).await;
    until_true("the replica's copy", async || redis::cmd("DBSIZE").query::<u64>(&mut connection).unwrap() > 0).await;
    let refused = node.say("s1", "lost").await;
    assert_forwarded(&refused, &["read-only"]);
    assert!(problem_message(&refused).contains("read-only replica"));
    assert_forwarded(&node.say("new", "lost").await, &["read-only"]);
    assert_eq!(node.ask("s1").await.effect, Effect::Enriched);
    send(&mut connection, "REPLICAOF NO ONE");
    assert_eq!(node.say("s1", "yes").await.effect, Effect::Stored);
    assert_answers(&node, "s1", 2).await;
}

#[tokio::test]
async fn a_refused_login_is_reported_without_secrets() {
    let server = RedisServer::start_with(&["--requirepass", "correct-horse"]).unwrap();
    let mut connection = redis::Client::open(format!("redis://:correct-horse@127.0.0.1:{}", server.port()))
        .unwrap()
        .get_connection()
        .unwrap();
    send(&mut connection, "ACL SETUSER weak on >battery-staple -@all +ping +time ~*");
    send(&mut connection, "ACL SETUSER elsewhere on >battery-staple +@all ~other:*");
    let user = |name: &str| RedisOptions {
        username: Some(name.into()),
        password: Some("battery-staple".into()),
        ..anonymous(server.port())
    };
    let cases = [
        ("no password", anonymous(server.port())),
        ("wrong password", RedisOptions { password: Some("wrong-horse".into()), ..anonymous(server.port()) }),
        ("unknown user", user("nobody-of-that-name")),
        ("few commands", user("weak")),
        ("other keys", user("elsewhere")),
        (
            "a URL",
            RedisOptions {
                url: Some(format!("redis://weak:battery-staple@localhost:{}/0", server.port()).into()),
                ..RedisOptions::default()
            },
        ),
    ];
    for (case, options) in cases {
        let store = store(RedisOptions { store_timeout: Duration::from_secs(5), ..options });
        let mut node = Node::new(&store, "{}").await;
        for _ in 0..2 {
            let began = Instant::now();
            let passed = node.say("s1", "lost").await;
            assert_forwarded(&passed, &["denied"]);
            assert!(began.elapsed() < Duration::from_secs(4), "{case}: tried for too long");
            assert_tells_no_secret(&node, &passed, server.port());
        }
        assert_eq!(store.check().await.unwrap_err().code, FailureCode::Denied, "{case}");
        assert!(!format!("{store:?}").contains("horse"));
    }
    let right = RedisOptions { password: Some("correct-horse".into()), ..anonymous(server.port()) };
    assert_eq!(node(right).await.say("s1", "yes").await.effect, Effect::Stored);
}
