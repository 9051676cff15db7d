//! Transfers that replace a bucket: the old one stays readable until the new one is whole, whatever stops
//! it, and what was written to the old one meanwhile is not lost to a version that was made without it.

use keepline_stores::transfer::{
    BucketHead, BucketWeight, IncomingBucket, KeyedPart, PieceOutcome, ReplaceCondition, TransferPiece, WeighedBucket,
};
use keepline_stores_tests::{
    random::is_long,
    requests::{entries, existing},
};

use super::*;

struct Stores {
    _server: RedisServer,
    _cluster: RedisCluster,
    _directory: TempDir,
    all: [Arc<dyn TransferStore>; 3],
}

fn stores() -> Stores {
    let (server, cluster) = (RedisServer::start().unwrap(), RedisCluster::start(3, 0).unwrap());
    let directory = tempfile::tempdir().unwrap();
    let all = [redis(&server), spread(&cluster), in_directory(directory.path())];
    Stores { _server: server, _cluster: cluster, _directory: directory, all }
}

async fn weight(store: &dyn TransferStore, id: &BucketId) -> BucketWeight {
    match store.weigh(id).await.unwrap() {
        WeighedBucket::There(weight) => weight,
        WeighedBucket::Absent { .. } => panic!("{id:?} is not there"),
    }
}

/// A bucket in a store of its own, and what it looks like.
async fn source(id: &BucketId) -> (TempDir, Arc<dyn TransferStore>, BucketHead) {
    let place = tempfile::tempdir().unwrap();
    let store = in_directory(place.path());
    fill(&*store, id).await;
    let head = store.head(id).await.unwrap().unwrap();
    (place, store, head)
}

#[tokio::test]
async fn an_existing_bucket_stays_until_its_replacement_is_complete() {
    let stores = stores();
    for (number, kind) in kind::REGISTERED.into_iter().enumerate() {
        let id = BucketId::new(kind, "a");
        let (_place, from, head) = source(&id).await;
        // Each kind in one of the stores, and each store with two of the kinds; a long run tries all in all.
        let own = number % stores.all.len();
        for (_, to) in stores.all.iter().enumerate().filter(|(store, _)| is_long() || *store == own) {
            ask(&**to, &transaction(&id, create(), [put("old", "1"), append("history", &["{}"])])).await;
            let before = contents(&**to, &id).await;
            let incoming = IncomingBucket { bucket: &id, head: &head, id: "1" };
            let records = [b"1".to_vec(), b"2".to_vec()];
            let pieces = [
                TransferPiece::Begin { overwrite: true },
                TransferPiece::Entries { of: KeyedPart::Map(b"values"), entries: &[(b"new", b"2"), (b"newer", b"3")] },
                TransferPiece::Entries { of: KeyedPart::Map(b"notes"), entries: &[(b"new", b"2")] },
                TransferPiece::Records { log: b"history", before: 0, records: &records },
                TransferPiece::Records { log: b"history", before: 0, records: &records },
            ];
            for piece in pieces {
                assert_eq!(to.import(incoming, piece).await.unwrap(), PieceOutcome::Yes);
                assert_eq!(contents(&**to, &id).await, before);
                assert_eq!(list_all_buckets(&**to).await.unwrap(), std::slice::from_ref(&id));
            }
            // Nobody else goes on with it, and what is abandoned leaves everything as it was.
            let other = IncomingBucket { id: "2", ..incoming };
            for piece in [pieces[1], pieces[3]] {
                assert_eq!(to.import(other, piece).await.unwrap(), PieceOutcome::Displaced);
            }
            to.import(other, TransferPiece::Abandon).await.unwrap();
            let end = TransferPiece::End { replaces: &ReplaceCondition::Nothing };
            assert_eq!(to.import(incoming, end).await.unwrap(), PieceOutcome::Exists);
            to.import(incoming, TransferPiece::Abandon).await.unwrap();
            assert_eq!(to.import(incoming, pieces[1]).await.unwrap(), PieceOutcome::Displaced);
            assert_eq!(contents(&**to, &id).await, before);

            assert!(is_copied(between(&from, to, true).copy_bucket(&id).await.unwrap()));
            assert_eq!(contents(&**to, &id).await, contents(&*from, &id).await);
            let gone = ask(&**to, &transaction(&id, unused(), [get("old")])).await;
            assert_eq!(gone.outcomes, [entries::<&str, &str>(&[])]);
            let mut writer = Writer::new();
            to.delete(writer.advance(), &deletion_of(&id), Deadline::NEVER).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_bucket_takes_the_place_of_the_one_that_was_seen_and_of_no_other() {
    let (stores, id) = (stores(), session("a"));
    let (_place, from, _) = source(&id).await;
    for to in &stores.all {
        let put_over = between(&from, to, true);
        ask(&**to, &transaction(&id, create(), [put("old", "1")])).await;
        let seen = weight(&**to, &id).await;
        ask(&**to, &transaction(&id, unused(), [put("meanwhile", "1")])).await;
        let before = contents(&**to, &id).await;
        assert_eq!(put_over.replace_seen(&id, &seen).await.unwrap(), Transferred::Conflict);
        assert_eq!(contents(&**to, &id).await, before);
        let seen = weight(&**to, &id).await;
        assert!(is_copied(put_over.replace_seen(&id, &seen).await.unwrap()));
        // Its expiry came along.
        assert_eq!(contents(&**to, &id).await, contents(&*from, &id).await);
        assert_eq!(weight(&**to, &id).await.digest, weight(&*from, &id).await.digest);
        to.delete(Writer::new().advance(), &deletion_of(&id), Deadline::NEVER).await.unwrap();
        assert_eq!(put_over.replace_seen(&id, &seen).await.unwrap(), Transferred::Conflict);
        assert!(to.head(&id).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_new_version_replaces_only_the_version_that_it_was_made_from() {
    let (stores, id) = (stores(), session("a"));
    for to in &stores.all {
        let first = [put("a", "1"), append("turns", &["1", "2"])];
        let first = (first, add_documents("recall", [document(3, &[1])]));
        ask(&**to, &transaction(&id, create_sliding(Duration::from_secs(200)), first)).await;
        let place = tempfile::tempdir().unwrap();
        let aside = in_directory(place.path());
        let before = weight(&**to, &id).await;
        assert!(is_copied(between(to, &aside, true).copy_bucket(&id).await.unwrap()));
        ask(&*aside, &transaction(&id, unused(), [put("version", "2"), reset_log("turns", &["new"])])).await;
        let back = between(&aside, to, false);

        ask(&**to, &transaction(&id, unused(), [put("meanwhile", "1")])).await;
        assert_eq!(back.replace(&id, &before).await.unwrap(), Transferred::Conflict);
        let told = ask(&**to, &transaction(&id, unused(), [get("meanwhile"), get("version")])).await;
        assert_eq!(told.outcomes, [entries(&[("meanwhile", "1")]), entries::<&str, &str>(&[])]);

        // To use it is no change, though it lives longer for it.
        ask(&**to, &transaction(&id, unused(), [remove("meanwhile")])).await;
        while weight(&**to, &id).await.expires_at <= before.expires_at.map(|at| at + 50) {
            ask(&**to, &transaction(&id, existing(), [get("a")])).await;
        }
        let expires_at = weight(&**to, &id).await.expires_at;
        assert!(is_copied(back.replace(&id, &before).await.unwrap()));
        assert_eq!(weight(&**to, &id).await.expires_at, expires_at);
        let ((_, new), (_, made)) = (contents(&**to, &id).await, contents(&*aside, &id).await);
        assert_eq!(new[..new.len() - 1], made[..made.len() - 1]);
        // Done once, it is another one.
        assert_eq!(back.replace(&id, &before).await.unwrap(), Transferred::Conflict);

        // One that another copying has cleared away is not taken for done, though both were made of one life.
        let was = weight(&**to, &id).await;
        let head = aside.head(&id).await.unwrap().unwrap();
        let incoming = IncomingBucket { bucket: &id, head: &head, id: "1" };
        for begun in [incoming, IncomingBucket { id: "2", ..incoming }] {
            assert_eq!(to.import(begun, TransferPiece::Begin { overwrite: true }).await.unwrap(), PieceOutcome::Yes);
        }
        let end = TransferPiece::End { replaces: &ReplaceCondition::Unchanged(was.clone()) };
        assert_eq!(to.import(incoming, end).await.unwrap(), PieceOutcome::Displaced);
        assert_eq!(weight(&**to, &id).await, was);

        let mut writer = Writer::new();
        to.delete(writer.advance(), &deletion_of(&id), Deadline::NEVER).await.unwrap();
        assert_eq!(back.replace(&id, &before).await.unwrap(), Transferred::Conflict);
        assert_eq!(list_all_buckets(&**to).await.unwrap(), []);
    }
}

#[tokio::test]
async fn keys_evicted_during_a_transfer_to_redis_are_detected() {
    let server = RedisServer::start().unwrap();
    let (to, id) = (redis(&server), session("a"));
    ask(&*to, &transaction(&id, create(), [put("a", "1")])).await;
    let was = weight(&*to, &id).await;
    let place = tempfile::tempdir().unwrap();
    let aside = in_directory(place.path());
    assert!(is_copied(between(&to, &aside, true).copy_bucket(&id).await.unwrap()));
    let more = [append("turns", &["1", "2"]), put("b", "2"), put_in("notes", &[("c", "1"), ("d", "2")])];
    ask(&*aside, &transaction(&id, unused(), more)).await;
    let (head, is) = (aside.head(&id).await.unwrap().unwrap(), weight(&*aside, &id).await);
    let [one, two] = [[b"1".to_vec()], [b"2".to_vec()]];
    for evicted in ["__log.turns__", "__keys__", "__map.notes__", "a", "__meta__", ""] {
        let incoming = IncomingBucket { bucket: &id, head: &head, id: evicted };
        let before = [
            TransferPiece::Begin { overwrite: true },
            TransferPiece::Entries { of: KeyedPart::Map(b"values"), entries: &[(b"a", b"1")] },
            TransferPiece::Entries { of: KeyedPart::Map(b"notes"), entries: &[(b"c", b"1")] },
            TransferPiece::Records { log: b"turns", before: 0, records: &one },
        ];
        for piece in before {
            assert_eq!(to.import(incoming, piece).await.unwrap(), PieceOutcome::Yes);
        }
        send(&server, &["DEL", &format!("rr:memory:~a:{evicted}")]);
        let after = [
            TransferPiece::Entries { of: KeyedPart::Map(b"values"), entries: &[(b"b", b"2")] },
            TransferPiece::Entries { of: KeyedPart::Map(b"notes"), entries: &[(b"d", b"2")] },
            TransferPiece::Records { log: b"turns", before: 1, records: &two },
        ];
        for piece in after {
            let _ = to.import(incoming, piece).await;
        }
        let end = TransferPiece::End { replaces: &ReplaceCondition::Unchanged(was.clone()) };
        let ended = to.import(incoming, end).await;
        if evicted.is_empty() {
            assert_eq!(ended.unwrap(), PieceOutcome::Yes);
            // Its answer was lost.
            assert_eq!(to.import(incoming, end).await.unwrap(), PieceOutcome::Yes);
            assert_eq!(weight(&*to, &id).await.digest, is.digest);
        } else {
            assert_eq!(ended.unwrap(), PieceOutcome::Displaced);
            assert_eq!(weight(&*to, &id).await, was);
        }
    }
    assert!(!keys(&server).iter().any(|key| key.contains('~')));
}

#[tokio::test]
async fn an_abandoned_transfer_to_redis_expires_automatically() {
    let server = RedisServer::start().unwrap();
    let (to, id) = (redis(&server), session("a"));
    let (_place, _from, head) = source(&id).await;
    let incoming = IncomingBucket { bucket: &id, head: &head, id: "1" };
    let records = [b"1".to_vec()];
    let pieces = [
        TransferPiece::Begin { overwrite: false },
        TransferPiece::Entries { of: KeyedPart::Map(b"values"), entries: &[(b"new", b"2")] },
        TransferPiece::Entries { of: KeyedPart::Map(b"notes"), entries: &[(b"new", b"2")] },
        TransferPiece::Entries { of: KeyedPart::Index(b"recall"), entries: &[(b"0", b"1234")] },
        TransferPiece::Records { log: b"turns", before: 0, records: &records },
    ];
    for piece in pieces {
        assert_eq!(to.import(incoming, piece).await.unwrap(), PieceOutcome::Yes);
    }
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let left = keys(&server);
    assert_eq!(left.len(), 6, "{left:?}");
    for key in &left {
        let expires: i64 = redis::cmd("PTTL").arg(key).query(&mut connection).unwrap();
        assert!(expires > 0, "{key} stays for ever");
    }
    assert_eq!(to.scan_buckets().await.unwrap(), []);
    // The next try finds nothing of it.
    let next = IncomingBucket { id: "2", ..incoming };
    assert_eq!(to.import(next, TransferPiece::Begin { overwrite: false }).await.unwrap(), PieceOutcome::Yes);
    assert_eq!(keys(&server).len(), 1);
}
