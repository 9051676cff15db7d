//! What a directory is measured beside: the statements of a pair by SQLite alone, in one thread without a store, and a
//! sync of the disk.

use std::{
    fs::File,
    io::{Seek, Write},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;
use rusqlite::{Connection, params};

use crate::{
    contenders::{RECORD, SESSIONS, answer_text},
    measure::{Samples, nanos},
};

/// Bytes of a commit of an answer in the write-ahead log, about: some pages.
pub const SYNCED_BYTES: usize = 32 * 1024;
/// As the write-ahead log, the file is written over: a sync need not make it longer.
const FILE_BYTES: usize = 4 * 1024 * 1024;

/// What a pair does to the tables, without buckets, rules, threads or a sandbox. What a directory leaves to a thread of
/// its own is done here in between: checkpoints, with their syncs.
pub struct Statements {
    db: Connection,
    text: String,
    number: i64,
}

impl Statements {
    pub fn new(parent: &Path) -> Result<Self> {
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
        Ok(Self { db, text: format!("\"{}\"", answer_text()), number: 0 })
    }

    pub fn round(&mut self, pairs: u64, samples: &mut Samples) -> Result<()> {
        let begin = Instant::now();
        for _ in 0..pairs {
            let started = Instant::now();
            pair(&mut self.db, self.number, &self.text)?;
            self.number += 1;
            samples.pair.saturating_record(nanos(started.elapsed()));
        }
        samples.add_rate(pairs, begin);
        Ok(())
    }
}

fn pair(db: &mut Connection, number: i64, text: &str) -> Result<()> {
    let name = format!("s{}", number % SESSIONS as i64);
    let head = |db: &Connection| -> Result<(i64, i64)> {
        db.prepare_cached("SELECT now, stamp FROM store")?.query_row([], |row| row.get::<_, i64>(0))?;
        let life: i64 = db
            .prepare_cached("SELECT life FROM bucket WHERE kind = 'session' AND name = ?1")?
            .query_row([&name], |row| row.get(0))?;
        let mut part = db.prepare_cached("SELECT id FROM part WHERE life = ?1 AND form = 0 AND name = 'values'")?;
        Ok((life, part.query_row([life], |row| row.get(0))?))
    };
    // The question.
    let question = db.transaction()?;
    let (_, map) = head(&question)?;
    let mut entries = question.prepare_cached("SELECT key, text FROM entry WHERE map = ?1 ORDER BY key")?;
    let found: Vec<(String, String)> =
        entries.query_map([map], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    std::hint::black_box(found);
    drop(entries);
    question.commit()?;
    // The answer.
    db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let (life, map) = head(db)?;
    let mut log =
        db.prepare_cached("SELECT first, length FROM part WHERE life = ?1 AND form = 1 AND name = 'history'")?;
    let (first, length): (i64, i64) = log.query_row([life], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut entry = db.prepare_cached(
        "INSERT INTO entry VALUES (?1, ?2, ?3) ON CONFLICT (map, key) DO UPDATE SET text = excluded.text",
    )?;
    entry.execute(params![map, "last_answer", text])?;
    entry.execute(params![map, "answer_count", number.to_string()])?;
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
    .execute(params![name, number])?;
    db.prepare_cached("UPDATE store SET now = ?1, stamp = ?1")?.execute([number])?;
    db.prepare_cached("COMMIT")?.execute([])?;
    Ok(())
}

/// What the disk takes for one sync, so many times.
pub fn syncs(parent: &Path, count: u64) -> Result<Samples> {
    let (mut file, bytes) = (File::create(parent.join("synced"))?, vec![7; SYNCED_BYTES]);
    file.write_all(&vec![0; FILE_BYTES])?;
    file.sync_all()?;
    let mut samples = Samples::new()?;
    for n in 0..count {
        if n % (FILE_BYTES / SYNCED_BYTES) as u64 == 0 {
            file.rewind()?;
        }
        let started = Instant::now();
        file.write_all(&bytes)?;
        file.sync_data()?;
        samples.pair.saturating_record(nanos(started.elapsed()));
    }
    Ok(samples)
}

/// The median of one.
pub fn median(syncs: &Samples) -> Duration {
    Duration::from_nanos(syncs.pair.value_at_quantile(0.5))
}
