//! Others who have the store open: while they hold its lock, while they read, while they take the files away.

use std::time::Instant;

use keepline_stores::{FailureCode, NewBucket, kind};

use super::*;

#[test]
fn writers_time_out_and_readers_are_served_while_a_hung_process_holds_the_lock() {
    let bench = Bench::new();
    let store = bench.open();
    block_on(async {
        apply(&store, "b", create(), [put("k", "1")]).await;
        let hung = bench.raw();
        hung.execute_batch("BEGIN IMMEDIATE").unwrap();
        let write = transaction("b", existing(), [add("n", 1)]);
        let mut writer = Writer::new();
        for deadline in [50, 200] {
            let (began, deadline) = (Instant::now(), Duration::from_millis(deadline));
            let failure = store.transact(writer.advance(), &write, Deadline::after(deadline)).await.unwrap_err();
            assert_eq!(failure.code, FailureCode::TimedOut);
            assert!(began.elapsed() >= deadline);
            assert_eq!(apply(&store, "b", existing(), [get("k")]).await, [entries(&[("k", "1")])]);
            let listed = store.list_buckets(kind::SESSION, "", 10, Deadline::NEVER).await;
            assert_eq!(listed.unwrap().names, ["b"]);
        }
        hung.execute_batch("COMMIT").unwrap();
        // What timed out was not applied later, and whoever comes now is served.
        assert_eq!(apply(&store, "b", existing(), [add("n", 1)]).await, [counter(1)]);
    });
}

#[test]
fn reads_are_answered_while_the_lock_is_held() {
    let bench = Bench::new();
    let store = bench.open();
    block_on(async {
        apply(&store, "b", create_sliding(HOUR), [put("k", "1")]).await;
        let hung = bench.raw();
        hung.execute_batch("BEGIN IMMEDIATE").unwrap();
        let life = NewBucket { time_to_live: None };
        for precondition in [existing(), unused(), Precondition::Create(life)] {
            assert_eq!(apply(&store, "b", precondition, [get("k")]).await, [entries(&[("k", "1")])]);
        }
        assert_eq!(send(&store, &transaction("absent", existing(), [])).await.unwrap().status, Status::Absent);
        hung.execute_batch("COMMIT").unwrap();
    });
}

#[test]
fn a_hung_reader_does_not_block_writers() {
    let bench = Bench::new();
    let store = bench.open();
    block_on(async {
        apply(&store, "b", create(), [put("k", "1")]).await;
        let hung = bench.raw();
        hung.execute_batch("BEGIN; SELECT * FROM entry").unwrap();
        let text = "x".repeat(100_000);
        for n in 1..=300 {
            assert_eq!(apply(&store, "b", existing(), [add("n", 1), put("k", &text)]).await[0], counter(n));
        }
        hung.execute_batch("COMMIT").unwrap();
    });
}

#[cfg(unix)]
#[test]
fn a_store_whose_files_were_removed_reports_unavailable() {
    let bench = Bench::new();
    let options = DirectoryOptions { sync: DirectorySync::Group, ..bench.options.clone() };
    let store = DirectoryStore::open(bench.path(), options).unwrap();
    block_on(async {
        apply(&store, "b", create(), [put("k", "1")]).await;
        for file in ["keepline.db", "keepline.db-wal", "keepline.db-shm"] {
            std::fs::remove_file(bench.path().join(file)).unwrap();
        }
        for _ in 0..2 {
            let failure = send(&store, &transaction("b", create(), [put("k", "2")])).await.unwrap_err();
            assert_eq!(failure.code, FailureCode::Unavailable);
        }
        assert_eq!(store.check().await.unwrap_err().code, FailureCode::Unavailable);
    });
}
