//! The disk itself, shown on bare SQLite: what SQLite promises survives, and what it does not promise is seen to be
//! lost. So a test of a store on this disk can fail.

#![cfg(target_os = "linux")]

use std::path::Path;

use fastrand::Rng;
use keepline_power_cut::{Disk, Recording, Syncs};
use rusqlite::{Connection, Error};
use tempfile::TempDir;

const ROWS: i64 = 60;
/// Of each of the databases.
const CUTS: usize = 50;
const DATABASES: u64 = 6;

/// Rows are added and changed, each change is marked when it is committed, and the file is checkpointed and reused.
fn recorded(pragmas: &str, syncs: Syncs, seed: u64) -> Recording {
    let directory = TempDir::new().unwrap();
    let disk = Disk::record(directory.path()).unwrap();
    let mut random = Rng::with_seed(seed);
    {
        let mut database = Connection::open(directory.path().join("test.db")).unwrap();
        database.execute_batch(pragmas).unwrap();
        let tables = "CREATE TABLE row (id INTEGER PRIMARY KEY, filling BLOB, mark TEXT); CREATE INDEX by_mark ON row (mark);
             CREATE TABLE total (id INTEGER PRIMARY KEY CHECK (id = 1), count INTEGER); INSERT INTO total VALUES (1, 0)";
        database.execute_batch(tables).unwrap();
        disk.set_syncs(syncs);
        for id in 1..=ROWS {
            let transaction = database.transaction().unwrap();
            let size: i64 = 1 << random.u32(4..13);
            transaction.execute("INSERT INTO row VALUES (?1, randomblob(?2), hex(randomblob(8)))", (id, size)).unwrap();
            let changed = random.i64(1..=id);
            transaction
                .execute("UPDATE row SET filling = randomblob(?2), mark = 'new' WHERE id = ?1", (changed, size))
                .unwrap();
            transaction.execute("UPDATE total SET count = count + 1", ()).unwrap();
            transaction.commit().unwrap();
            disk.mark(id as u64);
        }
    }
    let recording = disk.stop();
    assert!(recording.is_complete(directory.path()).unwrap(), "changes were made that are not in the record");
    recording
}

#[derive(Debug)]
struct Unsound;

impl From<Error> for Unsound {
    fn from(_: Error) -> Self {
        Self
    }
}

/// How many transactions are there, in a database that is sound.
fn survived(directory: &Path) -> Result<i64, Unsound> {
    let database = Connection::open(directory.join("test.db"))?;
    let verdict: String = database.query_row("PRAGMA integrity_check", (), |row| row.get(0))?;
    if verdict != "ok" {
        return Err(Unsound);
    }
    let is_there: bool =
        database.query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'total'", (), |row| row.get(0))?;
    if !is_there {
        return Ok(0);
    }
    let query = "SELECT count(*), coalesce(max(id), 0), (SELECT coalesce(max(count), 0) FROM total) FROM row";
    let numbers: [i64; 3] = database.query_row(query, (), |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?;
    // Each transaction is there as a whole, and with those before it.
    if numbers.iter().any(|number| *number != numbers[0]) { Err(Unsound) } else { Ok(numbers[0]) }
}

/// What came of many power cuts.
#[derive(Debug, Default)]
struct Outcome {
    cuts: usize,
    /// Of them, with something lost that was committed.
    lossy: usize,
    unsound: usize,
}

fn cut_often(pragmas: &str, syncs: Syncs) -> Outcome {
    let mut outcome = Outcome::default();
    for seed in 0..DATABASES {
        let recording = recorded(pragmas, syncs, seed);
        let mut random = Rng::with_seed(seed);
        let directory = TempDir::new().unwrap();
        for n in 0..CUTS {
            let moment = recording.moment(&mut random);
            let after = directory.path().join(n.to_string());
            recording.cut(moment, &mut random, &after).unwrap();
            let promised = recording.marks(moment).last().unwrap_or(0);
            outcome.cuts += 1;
            match survived(&after) {
                Ok(there) => outcome.lossy += usize::from((there as u64) < promised),
                Err(Unsound) => outcome.unsound += 1,
            }
        }
    }
    println!("{pragmas} {syncs:?}: {outcome:?}");
    outcome
}

const WAL: &str = "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 20;";

#[test]
fn sqlite_loses_no_commit_if_each_one_is_synced() {
    for pragmas in [
        format!("{WAL} PRAGMA synchronous = FULL;"),
        // With FULL, the journal's name may come back, and the transaction is undone.
        "PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA;".to_owned(),
        "PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = FULL;".to_owned(),
    ] {
        let outcome = cut_often(&pragmas, Syncs::Kept);
        assert_eq!((outcome.cuts, outcome.lossy, outcome.unsound), (300, 0, 0), "{pragmas}");
    }
}

#[test]
fn sqlite_stays_sound_but_loses_commits_if_only_checkpoints_are_synced() {
    let outcome = cut_often(&format!("{WAL} PRAGMA synchronous = NORMAL;"), Syncs::Kept);
    assert!(outcome.lossy > 30 && outcome.unsound == 0, "{outcome:?}");
}

#[test]
fn sqlite_loses_commits_and_is_corrupted_if_nothing_is_synced() {
    let outcome = cut_often(&format!("{WAL} PRAGMA synchronous = OFF;"), Syncs::Kept);
    assert!(outcome.lossy > 30 && outcome.unsound > 10, "{outcome:?}");
}

#[test]
fn sqlite_loses_commits_and_is_corrupted_if_the_disk_ignores_syncs() {
    let outcome = cut_often(&format!("{WAL} PRAGMA synchronous = FULL;"), Syncs::Ignored);
    assert!(outcome.lossy > 30 && outcome.unsound > 10, "{outcome:?}");
}

#[test]
fn sqlite_may_undo_a_commit_if_the_deletion_of_its_journal_is_not_synced() {
    let outcome = cut_often("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL;", Syncs::Kept);
    assert!(outcome.lossy > 0 && outcome.unsound == 0, "{outcome:?}");
}
