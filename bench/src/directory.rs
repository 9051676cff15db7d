//! A directory: pairs by way of syncing and number of pipes, beside the same statements by SQLite alone and beside a sync
//! of the disk; and questions beside writers.

use std::{
    fs::File,
    io::{Seek, Write},
    path::Path,
    sync::Arc,
};

use anyhow::Result;
use keepline::store::{DirectorySync, Store};
use rusqlite::{Connection, params};

use crate::{
    Bench,
    contenders::{ANSWER, Piped, RECORD, SESSIONS, answer_of, pipes},
    measure::{BesideWriters, Comparison, Contender, SideBySide},
    report::Section,
    stores::{keepline, open_directory},
};

const WAYS: [(&str, DirectorySync); 3] =
    [("off", DirectorySync::Off), ("group", DirectorySync::Group), ("always", DirectorySync::Always)];

pub async fn measure(bench: &Bench) -> Result<Vec<Section>> {
    let mut ways = Vec::new();
    for (name, sync) in WAYS {
        let store = open_directory(&bench.disk.join(name), sync)?;
        let lent: Arc<dyn Store> = store.clone();
        ways.push((name, store, keepline(&bench.plugin, &lent, "{}").await?));
    }
    let mut pairs = Comparison::new("Directory: pairs by way of syncing", "");
    pairs.counted = Some("syncs a pair");
    pairs.baseline("the same statements by SQLite alone", Statements::new(&bench.disk)?)?;
    for count in [1, 8, 64] {
        for (name, store, keepline) in &ways {
            let label = format!("{name}, {count} pipe{}", if count == 1 { "" } else { "s" });
            let contender = SideBySide(pipes(keepline, count));
            pairs.enter(count > 1 && *name == "off", label, contender)?;
            pairs.count(|| store.counters().syncs);
        }
    }
    pairs.baseline(format!("a write of {} KiB and its sync", Sync::BYTES / 1024), Sync::new(&bench.disk)?)?;
    pairs.note("×: of 1 pipe to the statements alone, which sync off and make checkpoints; of more pipes to off");
    let pairs = pairs.run(bench.effort).await?;

    // A question that waited for a sync would take as long as an answer.
    let mut questions = Comparison::new("Directory: questions beside 8 writers", "");
    questions.sides = ["question", "an answer meanwhile"];
    for (name, count) in [("without writers", 0), ("off", 8), ("group", 8), ("always", 8)] {
        let Some((.., keepline)) = ways.iter().find(|(way, ..)| *way == name).or(ways.first()) else { continue };
        let mut asking = Piped::new(keepline, "asks", SESSIONS);
        asking.fill(1).await?;
        let contender = BesideWriters { asking, writers: pipes(keepline, count) };
        questions.enter(count == 0, name, contender)?;
    }
    Ok(vec![pairs, questions.run(bench.effort).await?])
}

/// What a pair does to the tables, without buckets, rules, threads or a sandbox. Checkpoints, which a directory leaves to a
/// thread of its own, are made in between, with their syncs.
struct Statements {
    db: Connection,
    text: String,
    number: i64,
}

impl Statements {
    fn new(parent: &Path) -> Result<Self> {
        let db = Connection::open(parent.join("bare.db"))?;
        db.set_prepared_statement_cache_capacity(64);
        db.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
             CREATE TABLE store (one INTEGER PRIMARY KEY, now INTEGER, stamp INTEGER) STRICT;
             CREATE TABLE bucket (kind TEXT, name TEXT, life INTEGER, PRIMARY KEY (kind, name)) STRICT, WITHOUT ROWID;
             CREATE TABLE part (life INTEGER, form INTEGER, name TEXT, id INTEGER, first INTEGER, length INTEGER,
                 PRIMARY KEY (life, form, name)) STRICT, WITHOUT ROWID;
             CREATE TABLE entry (map INTEGER, key TEXT, text TEXT, PRIMARY KEY (map, key)) STRICT, WITHOUT ROWID;
             CREATE TABLE record (log INTEGER, position INTEGER, text TEXT, PRIMARY KEY (log, position)) STRICT, WITHOUT ROWID;
             CREATE TABLE writer (kind TEXT, bucket TEXT, id TEXT, sequence INTEGER, until INTEGER,
                 PRIMARY KEY (kind, bucket, id)) STRICT, WITHOUT ROWID;
             INSERT INTO store VALUES (1, 0, 0);",
        )?;
        for n in 0..SESSIONS as i64 {
            db.execute("INSERT INTO bucket VALUES ('session', ?1, ?2)", params![format!("s{n}"), n])?;
            db.execute("INSERT INTO part VALUES (?1, 0, 'values', ?1, 0, 2), (?1, 1, 'history', ?1, 0, 0)", [n])?;
            db.execute("INSERT INTO entry VALUES (?1, 'answer_count', '0'), (?1, 'last_answer', '')", [n])?;
        }
        Ok(Self { db, text: format!("\"{}\"", answer_of(ANSWER)), number: 0 })
    }

    fn session(&self) -> String {
        format!("s{}", self.number % SESSIONS as i64)
    }

    /// The bucket's life, and its map of values.
    fn bucket(&self) -> Result<(i64, i64)> {
        self.db.prepare_cached("SELECT now, stamp FROM store")?.query_row([], |row| row.get::<_, i64>(0))?;
        let life: i64 = self
            .db
            .prepare_cached("SELECT life FROM bucket WHERE kind = 'session' AND name = ?1")?
            .query_row([self.session()], |row| row.get(0))?;
        let mut part =
            self.db.prepare_cached("SELECT id FROM part WHERE life = ?1 AND form = 0 AND name = 'values'")?;
        Ok((life, part.query_row([life], |row| row.get(0))?))
    }
}

impl Contender for Statements {
    async fn question(&mut self) -> Result<()> {
        self.number += 1;
        self.db.prepare_cached("BEGIN")?.execute([])?;
        let (_, map) = self.bucket()?;
        let mut entries = self.db.prepare_cached("SELECT key, text FROM entry WHERE map = ?1 ORDER BY key")?;
        let found: Vec<(String, String)> =
            entries.query_map([map], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
        std::hint::black_box(found);
        self.db.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    async fn answer(&mut self) -> Result<()> {
        let db = &self.db;
        db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let (life, map) = self.bucket()?;
        let mut log =
            db.prepare_cached("SELECT first, length FROM part WHERE life = ?1 AND form = 1 AND name = 'history'")?;
        let (first, length): (i64, i64) = log.query_row([life], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut entry = db.prepare_cached(
            "INSERT INTO entry VALUES (?1, ?2, ?3) ON CONFLICT (map, key) DO UPDATE SET text = excluded.text",
        )?;
        entry.execute(params![map, "last_answer", self.text])?;
        entry.execute(params![map, "answer_count", self.number.to_string()])?;
        let mut record = db.prepare_cached("INSERT INTO record VALUES (?1, ?2, ?3)")?;
        for next in [first + length, first + length + 1] {
            record.execute(params![life, next, RECORD])?;
        }
        // As long as a history gets.
        let (first, length) = if length >= 100 { (first + 2, length) } else { (first, length + 2) };
        db.prepare_cached("DELETE FROM record WHERE log = ?1 AND position < ?2")?.execute([life, first])?;
        db.prepare_cached("UPDATE part SET first = ?2, length = ?3 WHERE life = ?1 AND form = 1 AND name = 'history'")?
            .execute([life, first, length])?;
        db.prepare_cached(
            "INSERT INTO writer VALUES ('session', ?1, 'bare', ?2, ?2) ON CONFLICT (kind, bucket, id) DO UPDATE
             SET sequence = excluded.sequence, until = excluded.until",
        )?
        .execute(params![self.session(), self.number])?;
        db.prepare_cached("UPDATE store SET now = ?1, stamp = ?1")?.execute([self.number])?;
        db.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}

/// Writes some pages over and over, as a write-ahead log does, and syncs them.
struct Sync {
    file: File,
    number: usize,
}

impl Sync {
    /// About what a commit of an answer writes.
    const BYTES: usize = 32 * 1024;
    const WRITES: usize = 128;

    fn new(parent: &Path) -> Result<Self> {
        let mut file = File::create(parent.join("synced"))?;
        file.write_all(&vec![0; Self::BYTES * Self::WRITES])?;
        file.sync_all()?;
        Ok(Self { file, number: 0 })
    }
}

impl Contender for Sync {
    async fn question(&mut self) -> Result<()> {
        if self.number.is_multiple_of(Self::WRITES) {
            self.file.rewind()?;
        }
        self.number += 1;
        Ok(self.file.write_all(&[7; Self::BYTES])?)
    }

    async fn answer(&mut self) -> Result<()> {
        Ok(self.file.sync_data()?)
    }
}
