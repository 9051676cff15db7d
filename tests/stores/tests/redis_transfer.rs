//! Carrying buckets from one Redis to another: all that a bucket holds arrives, byte for byte, whatever its kind.

use std::time::Duration;

use keepline_local_redis::{RedisCluster, RedisServer};
use keepline_stores::{
    BucketId, BucketKind, Deadline, Outcome, Receipt, RedisOptions, RedisStore, Removed, Store, Transaction, Transfer,
    Transferred, Writer,
};
use keepline_stores_tests::requests::{
    append, append_marked, bucket, create, create_sliding, describe, get_all, get_all_in, lease, put, put_in, read_all,
    replace_oldest, session, transaction, unused,
};

const KINDS: [BucketKind; 6] = [
    BucketKind::Session,
    BucketKind::User,
    BucketKind::Node,
    BucketKind::Definition,
    BucketKind::Dataset,
    BucketKind::Service,
];

fn options(server: &RedisServer) -> RedisOptions {
    RedisOptions { url: Some(server.url().into()), store_timeout: Duration::from_secs(30), ..RedisOptions::default() }
}

async fn ask(store: &RedisStore, transaction: &Transaction) -> Receipt {
    let mut writer = Writer::new();
    store.transact(writer.advance(), transaction, Deadline::NEVER).await.unwrap()
}

/// Some of everything.
async fn fill(store: &RedisStore, id: &BucketId) {
    let opening = if id.kind == BucketKind::User { create_sliding(Duration::from_secs(3600)) } else { create() };
    let records: Vec<_> = (0..700).map(|n| format!("{n}")).collect();
    let entries: Vec<_> = (0..1200).map(|n| (format!("!:{n}~"), "x".repeat(n))).collect();
    let operations = [
        put("a", "1"),
        put("empty", ""),
        put_in("notes", &entries),
        append("history", &["{}", "{}"]),
        append_marked("turns", &records, &[("places", "last", 699)]),
        append("emptied", &["1"]),
        lease("work", "me", Duration::from_secs(3600)),
    ];
    ask(store, &transaction(id, opening, operations)).await;
    ask(store, &transaction(id, unused(), [replace_oldest::<&str>("emptied", 1, &[])])).await;
}

async fn contents(store: &RedisStore, id: &BucketId) -> (String, Vec<Outcome>) {
    let operations = [
        get_all(),
        get_all_in("notes"),
        get_all_in("places"),
        read_all("history"),
        read_all("turns"),
        read_all("emptied"),
        describe(),
    ];
    let receipt = ask(store, &transaction(id, unused(), operations)).await;
    let mut outcomes = receipt.outcomes;
    if let Some(Outcome::Described(description)) = outcomes.last_mut() {
        // The time that is left passes.
        assert_eq!(description.expires_in.take().is_some(), description.time_to_live.is_some());
    }
    (receipt.incarnation, outcomes)
}

fn send(server: &RedisServer, command: &[&str]) {
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let _: redis::Value = redis::cmd(command[0]).arg(&command[1..]).query(&mut connection).unwrap();
}

fn keys(server: &RedisServer) -> Vec<String> {
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    redis::cmd("KEYS").arg("*").query(&mut connection).unwrap()
}

#[tokio::test]
async fn buckets_of_every_kind_arrive_with_all_that_they_hold_and_go() {
    let (from, to) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = |server| RedisStore::new(options(server)).unwrap();
    let spread = || {
        let options = RedisOptions { nodes: cluster.addresses(), cluster: true, ..RedisOptions::default() };
        RedisStore::new(RedisOptions { store_timeout: Duration::from_secs(30), ..options }).unwrap()
    };
    let mut before = Vec::new();
    for kind in KINDS {
        let id = bucket(kind, "same-name");
        fill(&store(&from), &id).await;
        before.push((contents(&store(&from), &id).await, id));
    }
    for transfer in [
        Transfer { from: store(&from), to: spread(), overwrite: false },
        Transfer { from: spread(), to: store(&to), overwrite: false },
    ] {
        let found = transfer.from.scan_buckets().await.unwrap();
        assert_eq!(found.len(), KINDS.len());
        for (was, id) in &before {
            assert!(found.contains(id), "{id:?}");
            assert!(matches!(transfer.bucket(id).await.unwrap(), Transferred::Copied { .. }), "{id:?}");
            assert!(matches!(transfer.bucket(id).await.unwrap(), Transferred::AlreadyThere { .. }), "{id:?}");
            assert_eq!(contents(&transfer.to, id).await, *was);
            assert_eq!(transfer.remove(id).await.unwrap(), Removed::Done, "{id:?}");
            assert_eq!(transfer.remove(id).await.unwrap(), Removed::Gone, "{id:?}");
        }
        assert_eq!(transfer.from.scan_buckets().await.unwrap(), []);
    }
    // Who wrote there lately may still repeat it.
    assert!(keys(&from).iter().all(|key| key.ends_with(":__writers__")), "{:?}", keys(&from));
}

#[tokio::test]
async fn what_was_written_to_a_map_after_it_was_compared_is_not_deleted() {
    let (from, to) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    let store = |server| RedisStore::new(options(server)).unwrap();
    let transfer = Transfer { from: store(&from), to: store(&to), overwrite: true };
    let id = session("s");
    fill(&transfer.from, &id).await;
    transfer.bucket(&id).await.unwrap();
    for change in [
        ["HSET", "rr:memory:s:__map.notes__", "!:1~", "y"],
        ["HSET", "rr:memory:s:__map.notes__", "new", "y"],
        ["HDEL", "rr:memory:s:__map.notes__", "!:1~", "!:2~"],
        ["LSET", "rr:memory:s:__log.turns__", "1", "y"],
        ["HSET", "rr:memory:s:__meta__", "lease:work", "1 you"],
        ["HDEL", "rr:memory:s:__meta__", "map:places", "log:turns"],
    ] {
        send(&from, &change);
        let changed = contents(&transfer.from, &id).await;
        assert_eq!(transfer.remove(&id).await.unwrap(), Removed::Differs, "{change:?}");
        assert_eq!(contents(&transfer.from, &id).await, changed, "{change:?}");
        assert!(matches!(transfer.bucket(&id).await.unwrap(), Transferred::Copied { .. }), "{change:?}");
        assert_eq!(contents(&transfer.to, &id).await, changed, "{change:?}");
    }
    assert_eq!(transfer.remove(&id).await.unwrap(), Removed::Done);
}
