//! The limit in bytes, and space that comes back.

use keepline_stores::{FailureCode, directory};

use super::*;

const MIB: u64 = 1 << 20;

fn pages(bench: &Bench, name: &str) -> i64 {
    bench.raw().pragma_query_value(None, name, |row| row.get(0)).unwrap()
}

#[test]
fn a_full_store_refuses_what_does_not_fit_and_serves_everything_else() {
    let mut bench = Bench::new();
    bench.options.max_bytes = 4 * MIB;
    let store = bench.open();
    let text = "x".repeat(100_000);
    block_on(async {
        let mut stored = 0;
        let failure = loop {
            match send(&store, &transaction("b", create(), [add("n", 1), append("l", &[&text])])).await {
                Ok(receipt) => assert_eq!(receipt.status, Status::Applied),
                Err(failure) => break failure,
            }
            stored += 1;
        };
        assert_eq!((failure.code, failure.limit), (FailureCode::Full, 4 * MIB));
        assert!((20..42).contains(&stored), "{stored} times 100,000 bytes went into 4 MiB");
        let outcomes = apply(&store, "b", existing(), [get("n"), count("l")]).await;
        assert_eq!(outcomes, [entries(&[("n", stored.to_string())]), extent(0, stored)]);
        // However full it is, it can be emptied, and then there is room again.
        apply(&store, "b", existing(), [reset_log::<&str>("l", &[])]).await;
        apply(&store, "b", existing(), [append("l", &[&text])]).await;
        while send(&store, &transaction("c", create(), [append("l", &["x".repeat(500)])])).await.is_ok() {}
        assert_eq!(delete(&store, "c").await, Status::Applied);
        apply(&store, "c", create(), [append("l", &[&text])]).await;
    });
}

#[test]
fn expired_buckets_make_room_at_once() {
    let mut bench = Bench::new();
    bench.options.max_bytes = 4 * MIB;
    let store = bench.open();
    block_on(async {
        let text = "x".repeat(1_000_000);
        for bucket in ["a", "b", "c"] {
            apply(&store, bucket, create_for(HOUR), [put("k", &text)]).await;
        }
        let more = transaction("d", create(), [append("l", &[&text, &text])]);
        assert_eq!(send(&store, &more).await.unwrap_err().code, FailureCode::Full);
        bench.clock.advance(HOUR);
        assert!(send(&store, &more).await.unwrap().created);
    });
}

#[test]
fn the_space_of_deleted_and_expired_buckets_is_freed_automatically() {
    let bench = Bench::new();
    let store = bench.open();
    block_on(async {
        let records: Vec<_> = (0..2000).map(|n| format!("{n:2000}")).collect();
        let all: Vec<_> = (0..2000).map(|n| (format!("k{n}"), format!("{n:2000}"))).collect();
        for bucket in ["deleted", "expired", "reset"] {
            let precondition = if bucket == "expired" { create_for(HOUR) } else { create() };
            apply(&store, bucket, precondition, [append("l", &records), put_in("m", &all)]).await;
        }
        let full = pages(&bench, "page_count");
        assert_eq!(delete(&store, "deleted").await, Status::Applied);
        apply(&store, "reset", existing(), [reset_log("l", &["new"]), reset_map("m", &[("k", "new")])]).await;
        bench.clock.advance(2 * HOUR);
        until_true("the pages are given back", async || pages(&bench, "page_count") < full / 20).await;
        let rest = [count("l"), get_all_in("m")];
        assert_eq!(apply(&store, "reset", existing(), rest).await, [extent(2000, 1), entries(&[("k", "new")])]);
        for table in ["entry", "record", "dead", "part", "lease"] {
            let rows = || bench.raw().query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0));
            until_true(table, async || rows().is_ok_and(|rows: i64| rows <= 2)).await;
        }
    });
    drop(store);
    assert_eq!(directory::check(bench.path(), &bench.options).unwrap().problems, [""; 0]);
}

#[test]
fn writers_that_can_no_longer_retry_are_forgotten() {
    let bench = Bench::new();
    let store = bench.open();
    block_on(async {
        for bucket in 0..1000 {
            apply(&store, &format!("b{}", bucket % 7), create(), [add("n", 1)]).await;
        }
        let rows = || {
            bench
                .raw()
                .query_row("SELECT count(*) FROM writer WHERE kind = 'session'", [], |row| row.get::<_, i64>(0))
                .unwrap()
        };
        assert_eq!(rows(), 1000);
        bench.clock.advance(HOUR);
        until_true("no writer is remembered", async || rows() == 0).await;
    });
}

/// Seen in what it costs SQLite: steps of its machine, which are the same on every computer.
#[test]
fn a_window_costs_the_same_over_a_hundred_thousand_records_and_over_a_hundred() {
    let bench = Bench::new();
    let store = bench.open();
    block_on(async {
        let records: Vec<_> = (0..10_000).map(|n| n.to_string()).collect();
        for _ in 0..10 {
            apply(&store, "long", create(), [append("l", &records)]).await;
        }
        apply(&store, "short", create(), [append("l", &records[..100])]).await;
        for bucket in ["long", "short"] {
            let read = apply(&store, bucket, existing(), [read_newest("l", 50, ALL)]).await;
            assert_eq!(records_of(&read[0]).len(), 50);
        }
    });
    let steps = |length: i64| {
        let raw = bench.raw();
        let log: i64 =
            raw.query_row("SELECT id FROM part WHERE form = 1 AND length = ?1", [length], |row| row.get(0)).unwrap();
        let mut window = raw
            .prepare(
                "SELECT text FROM record WHERE log = ?1 AND position >= 0 AND position < ?2 ORDER BY position DESC",
            )
            .unwrap();
        let mut rows = window.query([log, length]).unwrap();
        for _ in 0..50 {
            assert!(rows.next().unwrap().is_some());
        }
        drop(rows);
        window.get_status(rusqlite::StatementStatus::VmStep)
    };
    assert_eq!(steps(100_000), steps(100));
}
