//! `redis_wait_replicas`: a write that is reported as done is on a replica, whichever try made it.

use super::*;

/// A primary, and a replica that has caught up with it.
async fn replicated() -> (RedisServer, RedisServer) {
    let primary = RedisServer::start().unwrap();
    let port = primary.port().to_string();
    let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &port]).unwrap();
    let mut connection = raw(&primary);
    until_true("a replica", async || {
        send(&mut connection, "SET caught up");
        let have_it: u32 = redis::cmd("WAIT").arg(1).arg(100).query(&mut connection).unwrap();
        have_it == 1
    })
    .await;
    (primary, replica)
}

fn waiting(port: u16) -> RedisOptions {
    RedisOptions { wait_replicas: 1, store_timeout: Duration::from_secs(2), ..anonymous(port) }
}

fn assert_not_confirmed(failure: &keepline::store::Failure) {
    assert_eq!(failure.code, FailureCode::ReadOnly);
    assert!(failure.message.contains("not confirmed by 1 replicas"), "{failure:?}");
}

#[tokio::test]
async fn a_retried_write_also_waits_for_the_replica() {
    let (primary, replica) = replicated().await;
    let proxy = Proxy::start(primary.port()).await;
    let store = store(waiting(proxy.port()));
    let mut writer = Writer::new();
    let write = transaction("b", create(), [add("n", 1)]);
    store.transact(writer.advance(), &write, Deadline::NEVER).await.unwrap();
    replica.pause().unwrap();
    // The connection that has written is gone: the next one has written nothing that could be waited for.
    proxy.cut_next(Cut::BeforeReply);
    assert_not_confirmed(&store.transact(writer.advance(), &write, Deadline::NEVER).await.unwrap_err());
    assert_eq!(proxy.cuts(), 1);
    // The caller's own repetition, over a connection of its own.
    let other = self::store(waiting(primary.port()));
    assert_not_confirmed(&other.transact(&writer, &write, Deadline::NEVER).await.unwrap_err());
    replica.resume().unwrap();
    until_true("the replica's confirmation", async || other.transact(&writer, &write, Deadline::NEVER).await.is_ok())
        .await;
    let n = store.transact(&writer, &transaction("b", existing(), [get("n")]), Deadline::NEVER).await.unwrap();
    assert!(format!("{n:?}").contains("\"2\""), "{n:?}");
}

#[tokio::test]
async fn a_deletion_is_reported_once_the_replica_has_it() {
    let (primary, replica) = replicated().await;
    let store = store(waiting(primary.port()));
    store
        .transact(Writer::new().advance(), &transaction("b", create(), [put("a", "1")]), Deadline::NEVER)
        .await
        .unwrap();
    replica.pause().unwrap();
    let mut writer = Writer::new();
    writer.advance();
    let delete =
        async |store: &Arc<dyn Store>, writer: &Writer| store.delete(writer, &deletion_of("b"), Deadline::NEVER).await;
    assert_not_confirmed(&delete(&store, &writer).await.unwrap_err());
    let later = self::store(waiting(primary.port()));
    assert_not_confirmed(&delete(&later, &writer).await.unwrap_err());
    // It is not there any more, by a deletion that the replica does not know of.
    assert_not_confirmed(&delete(&later, Writer::new().advance()).await.unwrap_err());
    replica.resume().unwrap();
    until_true("the replica's confirmation", async || delete(&later, Writer::new().advance()).await.is_ok()).await;
    assert!(!dump(&mut raw(&replica)).iter().any(|(key, _)| key == "rr:memory:b:a"));
}

#[tokio::test]
async fn a_repeated_answer_is_confirmed_only_after_the_replica_has_it() {
    let (primary, replica) = replicated().await;
    let node = node(waiting(primary.port())).await;
    let answer = r#"{"session_id":"s1","message_id":"m-1"}"#;
    assert_eq!(node.pipe_says("s1").await.effect, Effect::Stored);
    replica.pause().unwrap();
    for _ in 0..2 {
        let passed = node.keepline.pipe().answer("x", answer).await.unwrap();
        assert_forwarded(&passed, &["read-only"]);
        // Nor by a process that has written nothing itself.
        let other = self::node(waiting(primary.port())).await;
        assert_forwarded(&other.keepline.pipe().answer("x", answer).await.unwrap(), &["read-only"]);
    }
    replica.resume().unwrap();
    until_true("the replica's confirmation", async || {
        node.keepline.pipe().answer("x", answer).await.unwrap().effect == Effect::Repeated
    })
    .await;
    assert_answers(&node, "s1", 2).await;
}
