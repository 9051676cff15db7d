//! Looking, copying, giving back, mending.

use std::sync::atomic::{AtomicBool, Ordering};

use keepline_stores::{DirectoryError, directory};

use super::*;

#[test]
fn a_backup_of_a_store_in_use_is_a_consistent_snapshot_that_opens() {
    let bench = Bench::new();
    let store = bench.open();
    let target = tempfile::tempdir().unwrap();
    block_on(async {
        let records: Vec<_> = (0..3000).map(|n| format!("{n:1000}")).collect();
        apply(&store, "large", create(), [append("l", &records)]).await;
        apply(&store, "b", create(), [add("n", 1), append("l", &["x"])]).await;
    });
    let (done, started) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut told = Vec::new();
    std::thread::scope(|scope| {
        // Somebody writes all the while.
        scope.spawn(|| {
            block_on(async {
                while !done.load(Ordering::Relaxed) {
                    apply(&store, "b", existing(), [add("n", 1), append("l", &["x"])]).await;
                    started.store(true, Ordering::Relaxed);
                }
            });
        });
        while !started.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        directory::backup(bench.path(), target.path(), &bench.options, |copied, all| told.push((copied, all))).unwrap();
        done.store(true, Ordering::Relaxed);
    });
    assert!(told.len() > 2 && told.is_sorted(), "{told:?}");
    assert!(told.last().is_some_and(|(copied, all)| copied == all), "{told:?}");
    assert_eq!(directory::check(target.path(), &bench.options).unwrap().problems, [""; 0]);
    let copy = DirectoryStore::open(target.path(), bench.options.clone()).unwrap();
    assert_eq!(copy.id(), store.id());
    block_on(async {
        let outcomes = apply(&copy, "b", existing(), [get("n"), count("l")]).await;
        assert_eq!(outcomes[0], entries(&[("n", extent_of(&outcomes[1]).length.to_string())]));
        // Each goes its own way.
        apply(&copy, "b", existing(), [put("k", "copy")]).await;
        assert_eq!(apply(&store, "b", existing(), [get("k")]).await, [entries::<&str, &str>(&[])]);
    });
    let occupied = directory::backup(bench.path(), target.path(), &bench.options, |_, _| {}).unwrap_err();
    assert!(matches!(occupied, DirectoryError::InUse { .. } | DirectoryError::Occupied { .. }), "{occupied}");
    drop(copy);
    let occupied = directory::backup(bench.path(), target.path(), &bench.options, |_, _| {}).unwrap_err();
    assert!(matches!(occupied, DirectoryError::Occupied { .. }), "{occupied}");
}

#[test]
fn a_check_finds_inconsistencies_and_a_repair_fixes_them() {
    let bench = Bench::new();
    let store = bench.open();
    block_on(apply(&store, "b", create(), [put("k", "1"), put_in("notes", &[("a", "1"), ("b", "2")])]));
    block_on(apply_step(&store, "b", add_documents("i", [document(0, &[1, 2]), document(5, &[1])])));
    let whole = directory::check(bench.path(), &bench.options).unwrap();
    assert_eq!((&whole.problems[..], whole.buckets), (&[][..], 1));
    drop(store);
    bench
        .raw()
        .execute_batch(
            "UPDATE part SET length = 7 WHERE name = 'notes';
             INSERT INTO entry VALUES (5, 'lost', 'x');
             INSERT INTO record VALUES (6, 0, 'lost');
             INSERT INTO lease VALUES (7, 'lost', 'x', 0);
             UPDATE part SET length = 7, terms = 8 WHERE name = 'i';
             INSERT INTO segment VALUES (8, 0, x'00');",
        )
        .unwrap();
    assert_eq!(directory::check(bench.path(), &bench.options).unwrap().problems.len(), 7);
    let repaired = directory::repair(bench.path(), &bench.options).unwrap();
    assert_eq!((repaired.recounted, repaired.removed, repaired.clock_set_back), (2, 4, None));
    assert_eq!(directory::check(bench.path(), &bench.options).unwrap().problems, [""; 0]);
    let store = bench.open();
    assert_eq!(block_on(apply(&store, "b", existing(), [get_all_in("notes")])), [entries(&[("a", "1"), ("b", "2")])]);
    let found = found(index_at(6, 2, 3), 0, &[(0, &[1]), (5, &[6])], &[&[0, 5], &[0]]);
    assert_eq!(block_on(apply_step(&store, "b", search("i", &[1, 2]))), found);
}

#[test]
fn maintenance_of_a_missing_store_is_refused() {
    let bench = Bench::new();
    let errors = [
        directory::check(bench.path(), &bench.options).unwrap_err(),
        directory::repair(bench.path(), &bench.options).unwrap_err(),
        directory::compact(bench.path(), &bench.options, |_, _| {}).unwrap_err(),
        directory::backup(bench.path(), bench.path().join("copy"), &bench.options, |_, _| {}).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, DirectoryError::Missing { .. }), "{error}");
    }
    assert_eq!(std::fs::read_dir(bench.path()).unwrap().count(), 0);
}

#[test]
fn nothing_deleted_is_left_in_the_files_of_a_compacted_store() {
    let bench = Bench::new();
    let store = bench.open();
    block_on(async {
        let records: Vec<_> = (0..400).map(|n| format!("{n:1000} zwirbelkopf")).collect();
        apply(&store, "b", create(), [append("l", &records)]).await;
        apply(&store, "b", existing(), [reset_log("l", &["silberpfote"])]).await;
    });
    // Whoever deletes does not stay to clear up.
    drop(store);
    directory::compact(bench.path(), &bench.options, |_, _| {}).unwrap();
    let files = std::fs::read_dir(bench.path()).unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap());
    let files: Vec<Vec<u8>> = files.collect();
    let holds = |text: &[u8]| files.iter().any(|file| file.windows(text.len()).any(|window| window == text));
    assert!(holds(b"silberpfote") && !holds(b"zwirbelkopf"));
}

#[test]
fn compacting_a_store_in_use_frees_empty_pages_and_the_log() {
    let bench = Bench::new();
    let store = bench.open();
    block_on(async {
        let records: Vec<_> = (0..400).map(|n| format!("{n:2000}")).collect();
        apply(&store, "b", create(), [append("l", &records)]).await;
        apply(&store, "b", existing(), [reset_log("l", &["x"])]).await;
        // Fewer than a store gives back by itself.
        until_true("the records are erased", async || {
            bench.raw().query_row("SELECT count(*) FROM record", [], |row| row.get::<_, i64>(0)).unwrap() == 1
        })
        .await;
    });
    let before = directory::check(bench.path(), &bench.options).unwrap();
    assert!(before.free_bytes > 0);
    let mut last = (0, 0);
    let freed = directory::compact(bench.path(), &bench.options, |done, all| last = (done, all)).unwrap();
    let after = directory::check(bench.path(), &bench.options).unwrap();
    // The store at work may take and give back pages of its own meanwhile.
    assert!(freed > 0 && after.bytes < before.bytes && after.free_bytes < before.free_bytes, "{before:?} {after:?}");
    assert_eq!(last.0, last.1);
    assert_eq!(block_on(apply(&store, "b", existing(), [count("l")])), [extent(400, 1)]);
}
