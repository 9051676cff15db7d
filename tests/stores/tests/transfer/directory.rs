//! Transfers into a directory: unseen until whole, whatever stops them, and refused where a directory can't hold them.

use std::{fs, time::Instant};

use keepline_stores::{
    FailureCode,
    directory::check,
    transfer::{IncomingBucket, KeyedPart, PieceOutcome, ReplaceCondition, TransferPiece},
};
use keepline_stores_tests::random::rounds;

use super::*;

/// Buckets of the table, whoever sees them.
fn rows(place: &Path, table: &str) -> i64 {
    let db = rusqlite::Connection::open(place.join("keepline.db")).unwrap();
    db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

fn problems(place: &Path) -> Vec<String> {
    check(place, &DirectoryOptions::default()).unwrap().problems
}

#[tokio::test]
async fn an_unfinished_transfer_is_invisible_and_starts_over() {
    let (server, place) = (RedisServer::start().unwrap(), tempfile::tempdir().unwrap());
    let (from, id) = (redis(&server), session("s"));
    fill(&*from, &id).await;
    let head = from.head(&id).await.unwrap().unwrap();
    let texts = from
        .entries(&id, KeyedPart::Map(b"values"), &head.maps.iter().find(|(map, _)| map == b"values").unwrap().1)
        .await;
    let texts = texts.unwrap();
    let entries = [(b"a".as_slice(), texts[0].as_deref().unwrap())];
    let records = from.records(&id, b"turns", 0).await.unwrap();
    let records = TransferPiece::Records { log: b"turns", before: 0, records: &records };
    for last in 0..4 {
        // As a process that was killed leaves it.
        let to = in_directory(place.path());
        let incoming = IncomingBucket { bucket: &id, head: &head, id: &format!("copying-{last}") };
        let pieces = [
            TransferPiece::Begin { overwrite: false },
            TransferPiece::Entries { of: KeyedPart::Map(b"values"), entries: &entries },
            records,
            // A piece whose answer was lost is sent again.
            records,
        ];
        for piece in &pieces[..=last] {
            assert_eq!(to.import(incoming, *piece).await.unwrap(), PieceOutcome::Yes);
        }
        assert_eq!(ask(&*to, &transaction(&id, unused(), [])).await.status, Status::Absent);
        assert_eq!((to.head(&id).await.unwrap(), list_all_buckets(&*to).await.unwrap()), (None, vec![]));
        // What another copying sends does not get in.
        let other = IncomingBucket { id: "other", ..incoming };
        for piece in [records, TransferPiece::End { replaces: &ReplaceCondition::Anything }] {
            assert_eq!(to.import(other, piece).await.unwrap(), PieceOutcome::Displaced);
        }
        drop(to);
        assert_eq!((rows(place.path(), "bucket"), problems(place.path())), (1, vec![]));
        assert_eq!(check(place.path(), &DirectoryOptions::default()).unwrap().buckets, 0);
    }
    let transfer = between(&from, &in_directory(place.path()), false);
    assert!(is_copied(transfer.copy_bucket(&id).await.unwrap()));
    assert_eq!(contents(&*transfer.to, &id).await, contents(&*from, &id).await);
    assert_eq!((rows(place.path(), "bucket"), problems(place.path())), (1, vec![]));
}

#[tokio::test]
async fn an_existing_directory_bucket_stays_until_its_replacement_is_complete() {
    let places = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (from, to, id) = (in_directory(places[0].path()), in_directory(places[1].path()), session("s"));
    fill(&*from, &id).await;
    ask(&*to, &transaction(&id, create(), [put("k", "1")])).await;
    let was = contents(&*to, &id).await;
    assert_eq!(between(&from, &to, false).copy_bucket(&id).await.unwrap(), Transferred::Conflict);
    assert_eq!(rows(places[1].path(), "bucket"), 1);
    let head = from.head(&id).await.unwrap().unwrap();
    let incoming = IncomingBucket { bucket: &id, head: &head, id: "copying" };
    for (piece, taken) in [
        (TransferPiece::Begin { overwrite: false }, PieceOutcome::Exists),
        (TransferPiece::Begin { overwrite: true }, PieceOutcome::Yes),
        (TransferPiece::End { replaces: &ReplaceCondition::Nothing }, PieceOutcome::Exists),
    ] {
        assert_eq!(to.import(incoming, piece).await.unwrap(), taken);
    }
    assert_eq!(contents(&*to, &id).await, was);
    to.import(incoming, TransferPiece::Abandon).await.unwrap();
    assert_eq!(contents(&*to, &id).await, was);
    assert!(is_copied(between(&from, &to, true).copy_bucket(&id).await.unwrap()));
    assert_eq!(contents(&*to, &id).await, contents(&*from, &id).await);
}

#[tokio::test]
async fn a_bucket_that_does_not_fit_leaves_nothing_and_others_still_arrive() {
    let places = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let from = in_directory(places[0].path());
    let options = DirectoryOptions { max_bytes: 2 << 20, timeout: TIMEOUT, ..DirectoryOptions::default() };
    let to: Arc<dyn TransferStore> = Arc::new(DirectoryStore::open(places[1].path(), options).unwrap());
    let records: Vec<_> = (0..40).map(|_| "x".repeat(100_000)).collect();
    for part in records.chunks(20) {
        ask(&*from, &transaction(session("large"), create(), [append("l", part)])).await;
    }
    ask(&*from, &transaction(session("small"), create(), [append("l", &records[..10])])).await;
    let transfer = between(&from, &to, false);
    for _ in 0..2 {
        let failure = transfer.copy_bucket(&session("large")).await.unwrap_err();
        assert_eq!((failure.code, failure.limit), (FailureCode::Full, 2 << 20));
        assert_eq!(rows(places[1].path(), "bucket"), 0);
    }
    assert!(is_copied(transfer.copy_bucket(&session("small")).await.unwrap()));
    assert_eq!(problems(places[1].path()), Vec::<String>::new());
}

#[tokio::test]
async fn tens_of_thousands_of_records_go_there_and_back() {
    let parts = rounds(3_u64);
    let (server, places) = (RedisServer::start().unwrap(), [(); 2].map(|()| tempfile::tempdir().unwrap()));
    let (first, id) = (in_directory(places[0].path()), session("long"));
    for part in 0..parts {
        let records: Vec<_> = (0..10_000).map(|n| format!("{{\"op\":\"put\",\"n\":{}}}", part * 10_000 + n)).collect();
        ask(&*first, &transaction(&id, create(), [append("history", &records)])).await;
    }
    ask(&*first, &transaction(&id, unused(), [replace_oldest("history", 7, &["{}"])])).await;
    let way = [first, redis(&server), in_directory(places[1].path())];
    for stores in way.windows(2) {
        assert!(is_copied(between(&stores[0], &stores[1], false).copy_bucket(&id).await.unwrap()));
    }
    let all = async |store: &dyn TransferStore| {
        let mut all = Vec::new();
        loop {
            let part = store.records(&id, b"history", all.len() as u64).await.unwrap();
            if part.is_empty() {
                return (store.head(&id).await.unwrap().unwrap(), all);
            }
            all.extend(part);
        }
    };
    let (head, records) = all(&*way[0]).await;
    assert_eq!(records.len() as u64, parts * 10_000 - 6);
    assert!(head.fields.contains(&(b"log:history".to_vec(), b"6".to_vec())));
    for store in &way[1..] {
        assert!(all(&**store).await == (head.clone(), records.clone()));
    }
}

#[tokio::test]
async fn data_that_a_directory_cannot_hold_are_refused_by_name_and_leave_nothing() {
    let (server, place) = (RedisServer::start().unwrap(), tempfile::tempdir().unwrap());
    let transfer = between(&redis(&server), &in_directory(place.path()), true);
    let id = session("s");
    let bytes = |words: &[&[u8]]| {
        let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        let mut command = redis::Cmd::new();
        words.iter().for_each(|word| _ = command.arg(*word));
        command.exec(&mut connection).unwrap();
    };
    for (change, name) in [
        (&[&b"SET"[..], b"rr:memory:s:a", b"\xff"][..], "the value of a is not UTF-8"),
        (&[b"SADD", b"rr:memory:s:__keys__", b"a b"], "the key name \"a b\" is not allowed"),
        (&[b"RPUSH", b"rr:memory:s:__history__", b"\xff"], "a record of the log history is not UTF-8"),
        (&[b"HSET", b"rr:memory:s:__meta__", b"own", b"\xff"], "the field own of the metadata is not UTF-8"),
        (&[b"HSET", b"rr:memory:s:__meta__", b"\xff", b"own"], "the name of a field of the metadata"),
        (&[b"HSET", b"rr:memory:s:__map.notes__", b"a b", b""], "the key name \"a b\" is not allowed"),
    ] {
        fill(&*transfer.from, &id).await;
        bytes(&[b"SET", b"rr:memory:s:a b", b"1"]);
        bytes(change);
        let failure = transfer.copy_bucket(&id).await.unwrap_err();
        assert!(failure.code == FailureCode::Invalid && failure.message.contains(name), "{failure:?}");
        assert_eq!(rows(place.path(), "bucket"), 0, "{name}");
        transfer.from.delete(Writer::new().advance(), &deletion_of(&id), Deadline::NEVER).await.unwrap();
    }
}

/// Metadata of the original and of others come back as they were, and go on where they are used meanwhile.
#[tokio::test]
async fn foreign_metadata_survive_a_round_trip_through_a_directory() {
    let (from, back) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    let place = tempfile::tempdir().unwrap();
    let meta = "rr:memory:s:__meta__";
    send(&from, &["HSET", meta, "created_at", "1700000000.5", "ttl_seconds", "3960.0000000000005", "map:gone", "1"]);
    send(&from, &["HSET", meta, "lease:work", "99999999999999 me", "lease:odd", "soon", "log:x!", "7", "own", "1"]);
    send(&from, &["RPUSH", "rr:memory:s:__history__", "{}", "{}"]);
    send(&from, &["SADD", "rr:memory:s:__keys__", "evicted", "k"]);
    send(&from, &["SET", "rr:memory:s:k", "1"]);
    send(&from, &["SADD", "rr:memory:__sessions__", "s"]);
    let (directory, id) = (in_directory(place.path()), session("s"));
    assert!(is_copied(between(&redis(&from), &directory, false).copy_bucket(&id).await.unwrap()));
    assert_eq!(ask(&*directory, &transaction(&id, unused(), [])).await.generation.as_deref(), Some("1700000000.5"));
    assert!(is_copied(between(&directory, &redis(&back), false).copy_bucket(&id).await.unwrap()));
    let fields = async |server| redis(server).head(&id).await.unwrap().unwrap().fields;
    assert_eq!(fields(&back).await, fields(&from).await);
    assert_eq!(between(&redis(&back), &directory, false).remove(&id).await.unwrap(), RemovalOutcome::Done);
    // What is the directory's own by then leaves as it has become, and the rest as it came.
    ask(&*directory, &transaction(&id, unused(), [replace_oldest::<&str>("history", 1, &[])])).await;
    assert!(is_copied(between(&directory, &redis(&back), false).copy_bucket(&id).await.unwrap()));
    let mut expected = fields(&from).await;
    expected.push((b"log:history".to_vec(), b"1".to_vec()));
    expected.sort_unstable();
    assert_eq!(fields(&back).await, expected);
    // Nothing of it outlives the bucket.
    directory.delete(Writer::new().advance(), &deletion_of(&id), Deadline::NEVER).await.unwrap();
    drop(directory);
    assert_eq!((rows(place.path(), "field"), problems(place.path())), (0, vec![]));
}

#[tokio::test]
async fn a_transferred_bucket_expires_at_its_original_instant() {
    let (server, place) = (RedisServer::start().unwrap(), tempfile::tempdir().unwrap());
    let (from, to, id) = (redis(&server), in_directory(place.path()), session("s"));
    fill(&*from, &id).await;
    send(&server, &["PEXPIRE", "rr:memory:s:__meta__", "1500"]);
    let Transferred::Copied { expires_at: Some(expires_at), .. } =
        between(&from, &to, false).copy_bucket(&id).await.unwrap()
    else {
        panic!("it was not copied with its expiry")
    };
    assert_eq!(to.head(&id).await.unwrap().unwrap().expires_at, Some(expires_at));
    let end = Instant::now() + TIMEOUT;
    while to.head(&id).await.unwrap().is_some() {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let over = ask(&*to, &transaction(&id, unused(), [])).await.status;
    assert!(matches!(over, Status::Expired | Status::Absent), "{over:?}");
    assert!(fs::exists(place.path().join("keepline.db")).unwrap());
}
