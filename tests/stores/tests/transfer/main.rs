//! Carrying buckets from one store to another, a directory, a Redis and a Redis Cluster in all directions: all that a
//! bucket holds arrives, whatever its kind, and nobody sees it before it is whole.

mod at_once;
mod directory;
mod meddling;
mod replacing;

use std::{path::Path, sync::Arc, time::Duration};

use keepline_local_redis::{RedisCluster, RedisServer};
use keepline_stores::{
    BucketId, Deadline, DirectoryOptions, DirectoryStore, DirectorySync, FoundDocuments, IndexedTransaction, NotApart,
    Outcome, Receipt, RedisOptions, RedisStore, RemovalOutcome, Status, Store, Transfer, TransferStore, Transferred,
    Writer, kind, transfer::list_all_buckets,
};
use keepline_stores_tests::{
    intercept::{Intercept, Intercepted},
    requests::{
        Work, add, add_documents, append, append_marked, create, create_sliding, deletion_of, describe, document, get,
        get_all, get_all_in, lease, put, put_in, read_all, read_marks, remove, remove_documents, replace_oldest,
        reset_log, search, session, transaction, unused,
    },
};
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(30);

fn options(server: &RedisServer) -> RedisOptions {
    RedisOptions { url: Some(server.url().into()), store_timeout: TIMEOUT, ..RedisOptions::default() }
}

fn redis(server: &RedisServer) -> Arc<dyn TransferStore> {
    Arc::new(RedisStore::new(options(server)).unwrap())
}

fn spread(cluster: &RedisCluster) -> Arc<dyn TransferStore> {
    let options = RedisOptions { nodes: cluster.addresses(), cluster: true, ..RedisOptions::default() };
    Arc::new(RedisStore::new(RedisOptions { store_timeout: TIMEOUT, ..options }).unwrap())
}

fn in_directory(path: &Path) -> Arc<dyn TransferStore> {
    let options = DirectoryOptions { sync: DirectorySync::Off, timeout: TIMEOUT, ..DirectoryOptions::default() };
    Arc::new(DirectoryStore::open(path, options).unwrap())
}

fn between(from: &Arc<dyn TransferStore>, to: &Arc<dyn TransferStore>, overwrite: bool) -> Transfer {
    Transfer { from: from.clone(), to: to.clone(), overwrite }
}

async fn ask(store: &dyn TransferStore, transaction: &IndexedTransaction) -> Receipt {
    ask_as(store, Writer::new().advance(), transaction).await
}

async fn ask_as(store: &dyn TransferStore, writer: &Writer, transaction: &IndexedTransaction) -> Receipt {
    store.transact(writer, transaction, Deadline::NEVER).await.unwrap().receipt
}

/// Some of everything.
async fn fill(store: &dyn TransferStore, id: &BucketId) {
    let precondition = if id.kind == kind::USER { create_sliding(Duration::from_secs(3600)) } else { create() };
    let records: Vec<_> = (0..700).map(|n| format!("{n}")).collect();
    let documents: Vec<_> = (0..2000).map(|n| document(7 * n, &[1, 256 + n as u32, 600_000])).collect();
    let entries: Vec<_> = (0..1200).map(|n| (format!("!:{n}~"), "x".repeat(n))).collect();
    let operations = [
        put("a", "1"),
        put("empty", ""),
        put("text", "\"größer\""),
        put_in("notes", &entries),
        append("history", &["{}", "{}"]),
        append_marked("turns", &records, &[("places", "last", 699)]),
        append("emptied", &["1"]),
    ];
    let steps: Work = (add_documents("recall", documents), add_documents("emptied", [document(3, &[1])])).into();
    let work = (operations, (steps, lease("work", "me", Duration::from_secs(3600))));
    ask(store, &transaction(id, precondition, work)).await;
    let cut = [replace_oldest::<&str>("emptied", 1, &[]), replace_oldest::<&str>("turns", 300, &[])];
    let cut = (cut, (remove_documents("recall", [7, 700]), remove_documents("emptied", [3])));
    ask(store, &transaction(id, unused(), cut)).await;
}

/// What is in a bucket: its generation, what its indexes are found to have, and what all else is read as.
type Contents = ((Option<String>, Vec<FoundDocuments>), Vec<Outcome>);

async fn contents(store: &dyn TransferStore, id: &BucketId) -> Contents {
    let operations = [
        get_all(),
        get_all_in("notes"),
        get_all_in("places"),
        read_all("history"),
        read_all("turns"),
        read_all("emptied"),
        describe(),
    ];
    let steps: Work = (search("recall", &[1, 300, 600_000]), search("emptied", &[1])).into();
    let asked = transaction(id, unused(), (operations, (steps, read_marks("recall", 0, u32::MAX))));
    let receipt = store.transact(Writer::new().advance(), &asked, Deadline::NEVER).await.unwrap();
    let (found, mut outcomes) = (receipt.found, receipt.receipt.outcomes);
    if let Some(Outcome::Described(description)) = outcomes.last_mut() {
        // The time that is left passes.
        assert_eq!(description.expires_in.take().is_some(), description.time_to_live.is_some());
    }
    ((receipt.receipt.generation, found), outcomes)
}

fn send(server: &RedisServer, command: &[&str]) {
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let _: redis::Value = redis::cmd(command[0]).arg(&command[1..]).query(&mut connection).unwrap();
}

fn keys(server: &RedisServer) -> Vec<String> {
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    redis::cmd("KEYS").arg("*").query(&mut connection).unwrap()
}

fn is_copied(transferred: Transferred) -> bool {
    matches!(transferred, Transferred::Copied { .. })
}

#[tokio::test]
async fn buckets_of_every_kind_survive_transfers_through_every_kind_of_store() {
    let (first, last) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    let cluster = RedisCluster::start(3, 0).unwrap();
    let places: [TempDir; 4] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    // Each kind of store leads to each other.
    let way = [
        in_directory(places[0].path()),
        redis(&first),
        in_directory(places[1].path()),
        spread(&cluster),
        in_directory(places[2].path()),
        in_directory(places[3].path()),
        spread(&cluster),
        redis(&last),
    ];
    let mut before = Vec::new();
    let mut writer = Writer::new();
    writer.advance();
    for kind in kind::REGISTERED {
        let id = BucketId::new(kind, "same-name");
        fill(&*way[0], &id).await;
        ask_as(&*way[0], &writer, &transaction(&id, unused(), [add("n", 1)])).await;
        before.push((contents(&*way[0], &id).await, id));
    }
    for (step, stores) in way.windows(2).enumerate() {
        let transfer = between(&stores[0], &stores[1], false);
        transfer.prove_apart().await.unwrap();
        let found = transfer.from.scan_buckets().await.unwrap();
        assert_eq!(found.len(), kind::REGISTERED.len());
        assert_eq!(list_all_buckets(&*transfer.from).await.unwrap(), found);
        for (was, id) in &before {
            let told = format!("step {step}, {id:?}");
            assert!(found.contains(id), "{told}");
            assert!(is_copied(transfer.copy_bucket(id).await.unwrap()), "{told}");
            assert!(matches!(transfer.copy_bucket(id).await.unwrap(), Transferred::AlreadyThere { .. }), "{told}");
            assert_eq!(contents(&*transfer.to, id).await, *was, "{told}");
            // Who did not hear of it over there asks again here.
            let again = ask_as(&*transfer.to, &writer, &transaction(id, unused(), [add("n", 1)])).await;
            assert_eq!(again.status, Status::Repeated, "{told}");
            assert_eq!(contents(&*transfer.to, id).await, *was, "{told}");
            assert_eq!(transfer.remove(id).await.unwrap(), RemovalOutcome::Done, "{told}");
            assert_eq!(transfer.remove(id).await.unwrap(), RemovalOutcome::Moved, "{told}");
        }
        assert_eq!(transfer.from.scan_buckets().await.unwrap(), []);
    }
    // Who wrote there lately may still repeat it.
    assert!(keys(&first).iter().all(|key| key.ends_with(":__writers__")), "{:?}", keys(&first));
    // Others, and the same one's next call, write on.
    for (_, id) in &before {
        let mut next = writer.clone();
        for writer in [next.advance(), Writer::new().advance()] {
            let receipt = ask_as(&*way[7], writer, &transaction(id, unused(), [add("n", 1)])).await;
            assert_eq!(receipt.status, Status::Applied);
        }
        let n = ask(&*way[7], &transaction(id, unused(), [get("n")])).await.outcomes;
        assert_eq!(n, [keepline_stores_tests::requests::entries(&[("n", "3")])]);
    }
}

#[tokio::test]
async fn a_bucket_written_after_the_comparison_is_not_deleted() {
    let (from, to) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    let place = tempfile::tempdir().unwrap();
    for to in [redis(&to), in_directory(place.path())] {
        let transfer = between(&redis(&from), &to, true);
        let id = session("s");
        fill(&*transfer.from, &id).await;
        transfer.copy_bucket(&id).await.unwrap();
        for change in [
            ["HSET", "rr:memory:s:__map.notes__", "!:1~", "y"],
            ["HSET", "rr:memory:s:__map.notes__", "new", "y"],
            ["HDEL", "rr:memory:s:__map.notes__", "!:1~", "!:2~"],
            ["LSET", "rr:memory:s:__log.turns__", "1", "y"],
            ["HSET", "rr:memory:s:__meta__", "lease:work", "1 you"],
            ["HSET", "rr:memory:s:__meta__", "somebody's", "own"],
            ["HDEL", "rr:memory:s:__meta__", "map:places", "log:turns"],
        ] {
            send(&from, &change);
            let changed = contents(&*transfer.from, &id).await;
            assert_eq!(transfer.remove(&id).await.unwrap(), RemovalOutcome::Differs, "{change:?}");
            assert_eq!(contents(&*transfer.from, &id).await, changed, "{change:?}");
            assert!(is_copied(transfer.copy_bucket(&id).await.unwrap()), "{change:?}");
            assert_eq!(contents(&*transfer.to, &id).await, changed, "{change:?}");
        }
        assert_eq!(transfer.remove(&id).await.unwrap(), RemovalOutcome::Done);
    }
}

#[tokio::test]
async fn a_directory_bucket_written_after_the_comparison_is_not_deleted() {
    let (server, places) = (RedisServer::start().unwrap(), [(); 2].map(|()| tempfile::tempdir().unwrap()));
    let from = in_directory(places[0].path());
    for to in [redis(&server), in_directory(places[1].path())] {
        let transfer = between(&from, &to, true);
        let id = session("s");
        fill(&*from, &id).await;
        transfer.copy_bucket(&id).await.unwrap();
        for change in [
            put("a", "2"),
            put("new", "2"),
            remove("new"),
            put_in("notes", &[("!:1~", "y")]),
            append("turns", &["y"]),
            reset_log("history", &["{}"]),
        ]
        .map(Work::from)
        .into_iter()
        .chain([lease("other", "you", Duration::from_secs(60)).into()])
        {
            ask(&*from, &transaction(&id, unused(), change.clone())).await;
            let changed = contents(&*from, &id).await;
            assert_eq!(transfer.remove(&id).await.unwrap(), RemovalOutcome::Differs, "{change:?}");
            assert_eq!(contents(&*from, &id).await, changed, "{change:?}");
            assert!(is_copied(transfer.copy_bucket(&id).await.unwrap()), "{change:?}");
            assert_eq!(contents(&*to, &id).await, changed, "{change:?}");
        }
        assert_eq!(transfer.remove(&id).await.unwrap(), RemovalOutcome::Done);
    }
}

#[tokio::test]
async fn one_directory_by_two_paths_is_one_store() {
    let place = tempfile::tempdir().unwrap();
    let link = place.path().join("link");
    std::fs::create_dir(place.path().join("store")).unwrap();
    std::os::unix::fs::symlink(place.path().join("store"), &link).unwrap();
    let transfer = between(&in_directory(&place.path().join("store")), &in_directory(&link), true);
    assert!(matches!(transfer.prove_apart().await, Err(NotApart::Same)));
    // A copy of a store has its name and is another one.
    fill(&*transfer.from, &session("s")).await;
    let copy = place.path().join("copy");
    keepline_stores::directory::backup(&link, &copy, &DirectoryOptions::default(), |_, _| {}).unwrap();
    let transfer = between(&transfer.from, &in_directory(&copy), false);
    transfer.prove_apart().await.unwrap();
    assert!(matches!(transfer.copy_bucket(&session("s")).await.unwrap(), Transferred::AlreadyThere { .. }));
}

#[tokio::test]
async fn a_transfer_keeps_the_later_number_of_a_known_writer() {
    let (server, place) = (RedisServer::start().unwrap(), tempfile::tempdir().unwrap());
    let (redis, directory) = (redis(&server), in_directory(place.path()));
    for (name, from, to) in [("s", &redis, &directory), ("t", &directory, &redis)] {
        let id = session(name);
        let (first, fifth) = (Writer::resumed("w", 1), Writer::resumed("w", 5));
        ask_as(&**from, &first, &transaction(&id, create(), [add("n", 1)])).await;
        ask_as(&**to, &fifth, &transaction(&id, create(), [add("n", 7)])).await;
        assert!(is_copied(between(from, to, true).copy_bucket(&id).await.unwrap()));
        for writer in [&first, &fifth] {
            let again = ask_as(&**to, writer, &transaction(&id, unused(), [add("n", 1)])).await;
            assert_eq!(again.status, Status::Repeated);
        }
        let sixth = ask_as(&**to, &Writer::resumed("w", 6), &transaction(&id, unused(), [add("n", 1)])).await;
        assert_eq!((sixth.status, sixth.outcomes), (Status::Applied, vec![counter(2)]));
    }
}

fn counter(value: i64) -> Outcome {
    keepline_stores_tests::requests::counter(value)
}
