//! The files of a store belong together: what was emptied, left behind, put over another store or taken away is refused or
//! told, and nothing that could still be saved is written to.

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Stdio},
};

use keepline_stores::{DirectoryError, FailureCode, directory};

use super::*;

/// The directory as a process leaves it that is killed now, with the log that it has written so far.
fn killed(bench: &Bench) -> Bench {
    let left = Bench { clock: bench.clock.clone(), options: bench.options.clone(), ..Bench::new() };
    for file in fs::read_dir(bench.path()).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), left.path().join(file.file_name())).unwrap();
    }
    assert!(fs::metadata(left.path().join("keepline.db-wal")).unwrap().len() > 0);
    left
}

/// What can hold data.
fn data(bench: &Bench) -> BTreeMap<&'static str, Option<Vec<u8>>> {
    ["keepline.db", "keepline.db-wal"].map(|file| (file, fs::read(bench.path().join(file)).ok())).into()
}

fn value(bench: &Bench) -> Outcome {
    let store = bench.open();
    block_on(apply(&store, "b", existing(), [get("k")])).remove(0)
}

#[test]
fn an_emptied_or_missing_database_is_refused_and_its_log_is_left() {
    let bench = Bench::new();
    let store = bench.open();
    block_on(apply(&store, "b", create(), [put("k", "1")]));
    for has_log in [true, false] {
        for is_there in [true, false] {
            let left = killed(&bench);
            if !has_log {
                drop(left.open());
            }
            let database = left.path().join("keepline.db");
            if is_there {
                fs::write(&database, "").unwrap()
            } else {
                fs::remove_file(&database).unwrap()
            }
            let before = data(&left);
            let mut errors = vec![
                directory::check(left.path(), &left.options).unwrap_err(),
                directory::compact(left.path(), &left.options, |_, _| {}).unwrap_err(),
                directory::repair(left.path(), &left.options).unwrap_err(),
            ];
            if has_log || is_there {
                errors.push(left.try_open().unwrap_err());
                assert!(errors.iter().all(|error| matches!(error, DirectoryError::Damaged { .. })), "{errors:?}");
            } else {
                assert!(errors.iter().all(|error| matches!(error, DirectoryError::Missing { .. })), "{errors:?}");
            }
            assert!(data(&left) == before, "log: {has_log}, database: {is_there}");
        }
    }
}

#[test]
fn a_check_writes_neither_to_the_database_nor_to_its_log() {
    let bench = Bench::new();
    let store = bench.open();
    block_on(apply(&store, "b", create(), [put("k", "1")]));
    let left = killed(&bench);
    let before = data(&left);
    for _ in 0..2 {
        assert_eq!(directory::check(left.path(), &left.options).unwrap().problems, [""; 0]);
        assert!(data(&left) == before);
    }
    assert_eq!(value(&left), entries(&[("k", "1")]));
    // Closed as it should be, it is left without anything beside it.
    let before = data(&left);
    assert_eq!(directory::check(left.path(), &left.options).unwrap().problems, [""; 0]);
    assert!(data(&left) == before);
}

#[test]
fn a_backup_is_not_made_beside_the_log_of_another_store() {
    let (bench, other) = (Bench::new(), Bench::new());
    let stores = [&bench, &other].map(Bench::open);
    block_on(apply(&stores[0], "b", create(), [put("k", "1")]));
    block_on(apply(&stores[1], "b", create(), [put("k", "2")]));
    let target = killed(&other);
    fs::remove_file(target.path().join("keepline.db")).unwrap();
    let before = data(&target);
    let refused = directory::backup(bench.path(), target.path(), &bench.options, |_, _| {}).unwrap_err();
    assert!(matches!(refused, DirectoryError::Occupied { .. }), "{refused}");
    assert!(data(&target) == before);
}

#[test]
fn a_backup_that_was_put_beside_the_log_of_a_killed_store_is_refused() {
    let bench = Bench::new();
    let store = bench.open();
    let backup = Bench::new();
    block_on(apply(&store, "b", create(), [put("k", "\"before\"")]));
    directory::backup(bench.path(), backup.path(), &bench.options, |_, _| {}).unwrap();
    block_on(apply(&store, "b", existing(), [put("k", "\"after\"")]));
    let (before, after) = (entries(&[("k", "\"before\"")]), entries(&[("k", "\"after\"")]));

    let left = killed(&bench);
    let own = fs::read(left.path().join("keepline.db")).unwrap();
    let replace = || fs::copy(backup.path().join("keepline.db"), left.path().join("keepline.db")).unwrap();
    replace();
    let files = data(&left);
    let errors = [
        left.try_open().unwrap_err(),
        directory::check(left.path(), &left.options).unwrap_err(),
        directory::repair(left.path(), &left.options).unwrap_err(),
        directory::compact(left.path(), &left.options, |_, _| {}).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, DirectoryError::Replaced), "{error}");
        assert!(error.to_string().contains("keepline store restore"), "{error}");
    }
    assert!(data(&left) == files);
    // Three ways out: the former database, a restoration, or the backup without the log.
    fs::write(left.path().join("keepline.db"), own).unwrap();
    assert_eq!(value(&left), after);

    let left = killed(&bench);
    fs::copy(backup.path().join("keepline.db"), left.path().join("keepline.db")).unwrap();
    directory::restore(backup.path(), left.path(), &left.options, |_, _| {}).unwrap();
    assert_eq!(value(&left), before);

    let left = killed(&bench);
    fs::copy(backup.path().join("keepline.db"), left.path().join("keepline.db")).unwrap();
    fs::remove_file(left.path().join("keepline.db-wal")).unwrap();
    assert_eq!(value(&left), before);
    // It is that store's from now on.
    block_on(apply(&left.open(), "b", existing(), [put("k", "\"later\"")]));
    assert_eq!(value(&left), entries(&[("k", "\"later\"")]));
}

#[test]
fn a_backup_is_restored_over_any_store_that_is_not_in_use() {
    let bench = Bench::new();
    let store = bench.open();
    block_on(apply(&store, "b", create(), [put("k", "1")]));
    let backup = Bench::new();
    directory::backup(bench.path(), backup.path(), &bench.options, |_, _| {}).unwrap();
    let restore = |to: &Path| directory::restore(backup.path(), to, &bench.options, |_, _| {});
    let in_use = restore(bench.path()).unwrap_err();
    assert!(matches!(in_use, DirectoryError::InUse { .. }), "{in_use}");
    for spoil in ["nothing", "empty", "garbage", "absent"] {
        let left = killed(&bench);
        let database = left.path().join("keepline.db");
        match spoil {
            "empty" => fs::write(&database, "").unwrap(),
            "garbage" => fs::write(&database, "garbage").unwrap(),
            "absent" => fs::remove_file(&database).unwrap(),
            _ => {}
        }
        restore(left.path()).unwrap();
        assert_eq!(value(&left), entries(&[("k", "1")]), "{spoil}");
        assert_eq!(directory::check(left.path(), &left.options).unwrap().problems, [""; 0]);
    }
    let target = Bench::new();
    let missing =
        directory::restore(target.path().join("none"), target.path(), &target.options, |_, _| {}).unwrap_err();
    assert!(matches!(missing, DirectoryError::Missing { .. }), "{missing}");
}

/// As earlier releases make it: without a number in `keepline.lock`, and with the same in every database.
#[test]
fn a_store_of_an_earlier_release_gets_a_number_of_its_own() {
    let bench = Bench::new();
    block_on(apply(&bench.open(), "b", create(), [put("k", "1")]));
    let number = |bench: &Bench| bench.raw().pragma_query_value(None, "schema_version", |row| row.get::<_, i64>(0));
    bench.raw().pragma_update(None, "schema_version", 12).unwrap();
    fs::write(bench.path().join("keepline.lock"), "").unwrap();
    let backup = Bench::new();
    fs::copy(bench.path().join("keepline.db"), backup.path().join("keepline.db")).unwrap();
    let store = bench.open();
    block_on(apply(&store, "b", existing(), [put("k", "2")]));
    assert_ne!(number(&bench).unwrap(), 12);
    let left = killed(&bench);
    assert_eq!(value(&left), entries(&[("k", "2")]));
    let left = killed(&bench);
    fs::copy(backup.path().join("keepline.db"), left.path().join("keepline.db")).unwrap();
    assert!(matches!(left.try_open().unwrap_err(), DirectoryError::Replaced));
}

#[cfg(unix)]
#[test]
fn a_replaced_directory_refuses_writes_under_every_sync_mode() {
    for sync in [DirectorySync::Off, DirectorySync::Group, DirectorySync::Always] {
        let bench = Bench::new();
        let (path, away) = (bench.path().join("store"), bench.path().join("away"));
        let open = || DirectoryStore::open(&path, DirectoryOptions { sync, ..bench.options.clone() }).unwrap();
        let store = open();
        block_on(apply(&store, "b", create(), [put("k", "1")]));
        fs::rename(&path, &away).unwrap();
        let other = open();
        for _ in 0..2 {
            let failure = block_on(send(&store, &transaction("b", create(), [put("k", "2")]))).unwrap_err();
            assert_eq!(failure.code, FailureCode::Unavailable, "{sync:?}");
        }
        block_on(apply(&other, "b", create(), [put("k", "3")]));
    }
}

#[test]
fn processes_that_start_on_a_new_directory_all_have_their_store() {
    for round in 0..20 {
        let bench = Bench::new();
        let path = bench.path().join("new");
        let mut workers: Vec<_> = (0..4)
            .map(|tag| {
                let mut worker = Command::new(env!("CARGO_BIN_EXE_directory-worker"));
                worker.arg(&path).args(["off", &tag.to_string(), "1", "1"]);
                worker.stdout(Stdio::null()).spawn().unwrap()
            })
            .collect();
        for worker in &mut workers {
            assert!(worker.wait().unwrap().success(), "round {round}");
        }
    }
}

/// What others wrote, and no call could: hundreds of megabytes in a place. SQLite itself reads one that a look-up passes, to
/// compare its key; here it may not take as much memory as for two of them.
#[test]
fn an_overlong_text_is_reported_without_being_copied() {
    const BYTES: i64 = 192 << 20;
    let bench = Bench::new();
    let store = bench.open();
    block_on(apply(&store, "b", create(), [put("k", "1"), put("n", "1"), put("z", "1"), append("l", &["1", "2"])]));
    drop(store);
    let raw = bench.raw();
    raw.execute("UPDATE entry SET text = CAST(zeroblob(?1) AS TEXT) WHERE key = 'n'", [BYTES]).unwrap();
    raw.execute("UPDATE record SET text = CAST(zeroblob(?1) AS TEXT) WHERE position = 0", [BYTES]).unwrap();
    raw.pragma_update(None, "hard_heap_limit", BYTES + BYTES / 2).unwrap();
    drop(raw);
    let problems = directory::check(bench.path(), &bench.options).unwrap().problems;
    assert!(problems.len() == 2 && problems[0].ends_with("longer than any may be: n"), "{problems:?}");
    let store = bench.open();
    block_on(async {
        for read in [get("n"), get_all()] {
            let outcomes = apply(&store, "b", existing(), [read]).await;
            assert!(oversize_of(&outcomes[0]).bytes >= 192 << 20, "{outcomes:?}");
        }
        assert_eq!(apply(&store, "b", existing(), [get("k")]).await, [entries(&[("k", "1")])]);
        let outcomes = apply(&store, "b", existing(), [read_all("l"), read_newest("l", 5, ALL)]).await;
        for outcome in outcomes {
            assert_eq!(records_of(&outcome), ["", "2"]);
        }
        let refused = send(&store, &transaction("b", existing(), [add("n", 1)])).await.unwrap_err();
        assert_eq!(refused.code, FailureCode::NotACounter);
        let expected = expecting("b", existing(), [equal("n", "1")], [put("k", "2")]);
        assert_eq!(send(&store, &expected).await.unwrap().status, Status::Unmet);
        // It can be replaced and removed like any other.
        apply(&store, "b", existing(), [put("n", "2")]).await;
        assert_eq!(apply(&store, "b", existing(), [get("n")]).await, [entries(&[("n", "2")])]);
    });
}

#[test]
fn repair_removes_texts_that_are_too_long_for_any_call() {
    let bench = Bench::new();
    let store = bench.open();
    block_on(apply(&store, "b", create(), [put("k", "1"), put("n", "1"), append("l", &["1", "2"])]));
    drop(store);
    let raw = bench.raw();
    raw.execute("UPDATE entry SET text = CAST(zeroblob(?1) AS TEXT) WHERE key = 'n'", [9 << 20]).unwrap();
    raw.execute("UPDATE record SET text = CAST(zeroblob(?1) AS TEXT) WHERE position = 0", [3 << 20]).unwrap();
    drop(raw);
    assert_eq!(directory::repair(bench.path(), &bench.options).unwrap().too_long, 2);
    assert_eq!(directory::check(bench.path(), &bench.options).unwrap().problems, [""; 0]);
    assert_eq!(directory::repair(bench.path(), &bench.options).unwrap().too_long, 0);
    let store = bench.open();
    block_on(async {
        assert_eq!(apply(&store, "b", existing(), [get_all()]).await, [entries(&[("k", "1")])]);
        assert_eq!(records_of(&apply(&store, "b", existing(), [read_all("l")]).await[0]), ["", "2"]);
    });
}
