//! Deletions by a migration, and its claims about copies.

use std::{sync::Arc, time::Instant};

use keepline::store::{Arrival, Deadline, RedisOptions, RedisStore, RemovalOutcome, Transfer, Transferred};
use keepline_tests::{
    proxy::{Cut, Proxy},
    requests::{self, append, create, put, put_in, transaction, unused},
    stores::new_writer,
};

use super::*;

fn store(server: &RedisServer) -> Arc<RedisStore> {
    let options = RedisOptions { url: Some(server.url().into()), ..RedisOptions::default() };
    Arc::new(RedisStore::new(options).unwrap())
}

/// A session with some of everything, and a transfer of it that was made.
async fn carried(from: &RedisServer, to: &RedisServer) -> Transfer {
    let transfer = Transfer { from: store(from), to: store(to), overwrite: true };
    let made = transaction(
        "s",
        create(),
        [
            put("a", "1"),
            put("b", "\"x\""),
            put_in("notes", &[("a", "1"), ("b", "2")]),
            append("turns", &["1", "2", "3"]),
        ],
    );
    transfer.from.transact(&new_writer(), &made, Deadline::NEVER).await.unwrap();
    send(from, &[b"RPUSH", b"rr:memory:s:__history__", b"{}", b"{}"]);
    assert!(matches!(transfer.copy_bucket(&requests::session("s")).await.unwrap(), Transferred::Copied { .. }));
    transfer
}

#[tokio::test]
async fn writes_after_the_comparison_are_never_deleted() {
    let (from, to) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    let transfer = carried(&from, &to).await;
    // None of them changes a length, but for the last ones.
    let changes: [&[&[u8]]; 12] = [
        &[b"HSET", b"rr:memory:s:__map.notes__", b"a", b"2"],
        &[b"SET", b"rr:memory:s:a", b"2"],
        &[b"SET", b"rr:memory:s:b", b"\xff\x00\x01"],
        &[b"LSET", b"rr:memory:s:__log.turns__", b"1", b"9"],
        &[b"LSET", b"rr:memory:s:__history__", b"0", b"[]"],
        &[b"HSET", b"rr:memory:s:__meta__", b"created_at", b"1"],
        &[b"PEXPIRE", b"rr:memory:s:__meta__", b"100000"],
        &[b"SADD", b"rr:memory:s:__keys__", b"new"],
        &[b"HDEL", b"rr:memory:s:__map.notes__", b"b"],
        &[b"RPUSH", b"rr:memory:s:__log.turns__", b"4"],
        &[b"DEL", b"rr:memory:s:a"],
        &[b"DEL", b"rr:memory:s:__log.turns__"],
    ];
    send(&from, &[b"SET", b"rr:memory:s:new", b"1"]);
    for change in changes {
        send(&from, change);
        let changed = dump(&from);
        assert_eq!(transfer.remove(&requests::session("s")).await.unwrap(), RemovalOutcome::Differs, "{change:?}");
        assert_eq!(dump(&from), changed, "{change:?}");
        // Copied again, it is the same.
        assert!(
            matches!(transfer.copy_bucket(&requests::session("s")).await.unwrap(), Transferred::Copied { .. }),
            "{change:?}"
        );
    }
    // Nor what somebody has changed in the target.
    send(&to, &[b"SET", b"rr:memory:s:b", b"\"z\""]);
    assert_eq!(transfer.remove(&requests::session("s")).await.unwrap(), RemovalOutcome::Differs);
    send(&to, &[b"SREM", b"rr:memory:__sessions__", b"s"]);
    assert_eq!(transfer.remove(&requests::session("s")).await.unwrap(), RemovalOutcome::NotThere);
    transfer.to.delete(&new_writer(), &requests::deletion_of("s"), Deadline::NEVER).await.unwrap();
    assert_eq!(transfer.remove(&requests::session("s")).await.unwrap(), RemovalOutcome::NotThere);
    transfer.copy_bucket(&requests::session("s")).await.unwrap();
    assert_eq!(transfer.remove(&requests::session("s")).await.unwrap(), RemovalOutcome::Done);
    // A value of no key of the session's is not the session's.
    assert!(dump(&from).keys().all(|key| key == "rr:memory:s:new"), "{:?}", dump(&from));
    assert_eq!(transfer.remove(&requests::session("s")).await.unwrap(), RemovalOutcome::Moved);
    // Somebody else's deletion is told from that.
    send(&from, &[b"DEL", b"rr:memory:s:__writers__"]);
    assert_eq!(transfer.remove(&requests::session("s")).await.unwrap(), RemovalOutcome::Deleted);
}

#[tokio::test]
async fn a_removal_with_a_lost_reply_is_reported_as_done() {
    let (from, to) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    let mut transfer = carried(&from, &to).await;
    let proxy = Proxy::start(from.port()).await;
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    let options = RedisOptions { url: Some(url.into()), ..RedisOptions::default() };
    transfer.from = Arc::new(RedisStore::new(options).unwrap());
    transfer.from.transact(&new_writer(), &transaction("s", unused(), []), Deadline::NEVER).await.unwrap();
    proxy.cut_next(Cut::BeforeReply);
    assert_eq!(transfer.remove(&requests::session("s")).await.unwrap(), RemovalOutcome::Done);
    assert_eq!(proxy.cuts(), 1);
}

#[tokio::test]
async fn a_missing_copy_is_an_error_unless_it_expired() {
    let (from, to) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    let transfer = carried(&from, &to).await;
    assert_eq!(transfer.arrival(&requests::session("s"), None).await.unwrap(), Arrival::There);
    send(&to, &[b"SREM", b"rr:memory:__sessions__", b"s"]);
    assert_eq!(transfer.arrival(&requests::session("s"), None).await.unwrap(), Arrival::NotListed);
    send(&to, &[b"DEL", b"rr:memory:s:__meta__"]);
    assert_eq!(transfer.arrival(&requests::session("s"), None).await.unwrap(), Arrival::Missing);

    send(&from, &[b"PEXPIRE", b"rr:memory:s:__meta__", b"1500"]);
    let Transferred::Copied { expires_at: Some(expires_at), .. } =
        transfer.copy_bucket(&requests::session("s")).await.unwrap()
    else {
        panic!("it was not copied with its expiry");
    };
    assert_eq!(transfer.arrival(&requests::session("s"), Some(expires_at)).await.unwrap(), Arrival::There);
    let end = Instant::now() + Duration::from_secs(30);
    while transfer.arrival(&requests::session("s"), Some(expires_at)).await.unwrap() != Arrival::Expired {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for not_over in [None, Some(expires_at + 60_000)] {
        assert_eq!(transfer.arrival(&requests::session("s"), not_over).await.unwrap(), Arrival::Missing);
    }
}
