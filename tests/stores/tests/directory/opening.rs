//! Precondition a directory: what is accepted, what is refused, and the messages.

use std::fs;

use keepline_stores::DirectoryError;

use super::*;

/// Opens a directory that can't be, and gets what is said.
fn refusal(bench: &Bench) -> (DirectoryError, String) {
    let error = bench.try_open().unwrap_err();
    let said = error.to_string();
    (error, said)
}

#[test]
fn a_directory_that_is_not_there_is_made_for_its_user_alone() {
    let bench = Bench::new();
    let path = bench.path().join("a/b");
    let store = DirectoryStore::open(&path, bench.options.clone()).unwrap();
    block_on(apply(&store, "b", create(), [put("k", "1")]));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    }
    let id = store.id().to_owned();
    drop(store);
    let mut files: Vec<_> = fs::read_dir(&path).unwrap().map(|file| file.unwrap().file_name()).collect();
    files.sort_unstable();
    assert_eq!(files, ["keepline.db", "keepline.lock", "keepline.reserve"], "what was in the log is in the database");
    // The same by another path, and no other's.
    let again = DirectoryStore::open(bench.path().join("a/../a/b"), bench.options.clone()).unwrap();
    assert_eq!(again.id(), id);
    assert_ne!(Bench::new().open().id(), id);
    assert_eq!(block_on(apply(&again, "b", existing(), [get("k")])), [entries(&[("k", "1")])]);
}

#[test]
fn a_foreign_database_is_refused_and_left_unchanged() {
    let bench = Bench::new();
    let file = bench.path().join("keepline.db");
    fs::write(&file, "a letter, and no database: ".repeat(500)).unwrap();
    let before = fs::read(&file).unwrap();
    assert!(matches!(refusal(&bench).0, DirectoryError::Foreign));
    assert_eq!(fs::read(&file).unwrap(), before);

    fs::remove_file(&file).unwrap();
    bench.raw().execute_batch("CREATE TABLE mine (a); INSERT INTO mine VALUES (1)").unwrap();
    let before = fs::read(&file).unwrap();
    assert!(matches!(refusal(&bench).0, DirectoryError::Foreign));
    bench.raw().pragma_update(None, "application_id", 7).unwrap();
    assert!(matches!(refusal(&bench).0, DirectoryError::Foreign));
    assert_eq!(fs::read(&file).unwrap().len(), before.len());
}

#[test]
fn a_store_of_a_later_release_or_with_a_foreign_schema_is_refused() {
    let bench = Bench::new();
    drop(bench.open());
    bench.raw().pragma_update(None, "user_version", 9).unwrap();
    let (error, said) = refusal(&bench);
    assert!(matches!(error, DirectoryError::Newer { found: 9, known: 2 }), "{said}");

    bench.raw().pragma_update(None, "user_version", 2).unwrap();
    let trigger = "CREATE TRIGGER t AFTER INSERT ON entry BEGIN DELETE FROM bucket; END";
    bench.raw().execute_batch(trigger).unwrap();
    assert!(matches!(refusal(&bench).0, DirectoryError::Damaged { .. }));
    bench.raw().execute_batch("DROP TRIGGER t").unwrap();
    bench.open();
}

#[test]
fn a_store_of_the_first_version_is_migrated_with_all_its_data() {
    let bench = Bench::new();
    block_on(apply(&bench.open(), "b", create(), [put("k", "1"), append("l", &["x"])]));
    let back = "DROP TABLE segment; ALTER TABLE part DROP COLUMN terms; PRAGMA user_version = 1";
    bench.raw().execute_batch(back).unwrap();
    let store = bench.open();
    let outcomes = block_on(apply(&store, "b", existing(), [get("k"), count("l")]));
    assert_eq!(outcomes, [entries(&[("k", "1")]), extent(0, 1)]);
    let added = block_on(apply_step(&store, "b", add_documents("i", [document(0, &[1])])));
    assert_eq!(added, indexed(1, 1, 1));
    drop(store);
    let version: i64 = bench.raw().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 2);
    let found = found(index_at(1, 1, 1), 0, &[(0, &[1])], &[&[0]]);
    assert_eq!(block_on(apply_step(&bench.open(), "b", search("i", &[1]))), found);
}

#[test]
fn a_path_that_cannot_be_a_directory_is_refused() {
    let bench = Bench::new();
    fs::write(bench.path().join("file"), "").unwrap();
    let error = DirectoryStore::open(bench.path().join("file"), bench.options.clone()).unwrap_err();
    assert!(matches!(error, DirectoryError::Unusable { .. }), "{error}");
    assert!(error.to_string().contains("file"), "{error}");
}

/// The kernel's own, where even root may make nothing.
#[cfg(target_os = "linux")]
#[test]
fn a_store_in_an_unwritable_place_is_not_opened() {
    let error = DirectoryStore::open("/sys/keepline", DirectoryOptions::default()).unwrap_err();
    assert!(matches!(error, DirectoryError::ReadOnly | DirectoryError::Unusable { .. }), "{error}");
}

#[test]
fn simultaneous_opens_of_a_new_directory_share_one_store() {
    let bench = Bench::new();
    std::thread::scope(|scope| {
        let stores: Vec<_> = (0..8)
            .map(|n| {
                let bench = &bench;
                scope.spawn(move || {
                    let store = bench.open();
                    block_on(apply(&store, "b", create(), [add("n", 1), append("l", &[n.to_string()])]));
                    store.id().to_owned()
                })
            })
            .collect();
        let ids: std::collections::BTreeSet<_> = stores.into_iter().map(|store| store.join().unwrap()).collect();
        assert_eq!(ids.len(), 1);
    });
    let store = bench.open();
    assert_eq!(
        block_on(apply(&store, "b", existing(), [get("n"), count("l")])),
        [entries(&[("n", "8")]), extent(0, 8)]
    );
}
