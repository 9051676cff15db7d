//! Exports a bucket's rows in the form of a transfer, see [`crate::transfer`].
//!
//! Its metadata are made from the rows. Fields that arrived with another text leave with that text, as long as the rows still
//! say what they said then: a bucket that passes through a directory stays the same.

pub(crate) mod import;

use std::collections::BTreeMap;

use async_trait::async_trait;
use rusqlite::{Row, params};

use crate::{
    BucketId, Failure,
    directory::{
        DirectoryStore, Writes,
        error::Stop,
        rows::{
            Form, Rows,
            buckets::BucketRow,
            writers::{MARGIN_MS, MEMORY_MS},
        },
        time::{Moment, signed, unsigned},
    },
    names::VALUES,
    transfer::{
        Head, Incoming, Keyed, MOVED, Mark, PART_BYTES, PART_COUNT, Piece, Removed, Stamp, Taken, TransferStore,
        Weighed, Weight,
        digest::{Digest, LogDigest},
        metadata, same_instant,
    },
};

/// For how long a mark is left, in milliseconds.
const MARK_MS: u64 = 60_000;

#[async_trait]
impl TransferStore for DirectoryStore {
    async fn head(&self, bucket: &BucketId) -> Result<Option<Head>, Failure> {
        let bucket = bucket.clone();
        self.run(Writes::Nothing, false, move |at| at.head(&bucket)).await
    }

    async fn entries(
        &self,
        bucket: &BucketId,
        of: Keyed<'_>,
        keys: &[Vec<u8>],
    ) -> Result<Vec<Option<Vec<u8>>>, Failure> {
        let (bucket, keys) = (bucket.clone(), keys.iter().map(|key| text(key)).collect::<Vec<_>>());
        let (form, name) = match of {
            Keyed::Map(map) => (Form::Map, text(map)),
            Keyed::Index(index) => (Form::Index, text(index)),
        };
        self.run(Writes::Nothing, false, move |at| at.some_entries(&bucket, form, &name, &keys)).await
    }

    async fn records(&self, bucket: &BucketId, log: &[u8], before: u64) -> Result<Vec<Vec<u8>>, Failure> {
        let (bucket, log) = (bucket.clone(), text(log));
        self.run(Writes::Nothing, false, move |at| at.some_records(&bucket, &log, before)).await
    }

    async fn stamps(&self, bucket: &BucketId) -> Result<Vec<Stamp>, Failure> {
        let bucket = bucket.clone();
        self.run(Writes::Nothing, false, move |at| Ok(at.stamps(&bucket)?)).await
    }

    async fn import(&self, incoming: Incoming<'_>, piece: Piece<'_>) -> Result<Taken, Failure> {
        self.take_in(incoming, piece).await
    }

    async fn weigh(&self, bucket: &BucketId) -> Result<Weighed, Failure> {
        let bucket = bucket.clone();
        self.run(Writes::Nothing, false, move |at| at.weigh(&bucket)).await
    }

    async fn remove_if(&self, bucket: &BucketId, weight: &Weight) -> Result<Removed, Failure> {
        let (bucket, weight) = (bucket.clone(), weight.clone());
        self.run(Writes::ToDisk, true, move |at| at.remove_if(&bucket, &weight)).await
    }

    async fn has_moved(&self, bucket: &BucketId, incarnation: &[u8]) -> Result<bool, Failure> {
        let (bucket, record) = (bucket.clone(), moved(Some(&text(incarnation))));
        let has_moved = move |at: &Moment<'_>| {
            let mut found = at
                .db
                .prepare_cached("SELECT 1 FROM writer WHERE kind = ?1 AND bucket = ?2 AND id = ?3 AND until > ?4")?;
            Ok(found.exists(params![bucket.kind.name(), bucket.name, record, at.now()])?)
        };
        self.run(Writes::Nothing, false, has_moved).await
    }

    async fn mark(&self, what: Mark, name: &str) -> Result<bool, Failure> {
        let name = name.to_owned();
        let writes = if what == Mark::Look { Writes::Nothing } else { Writes::Something };
        self.run(writes, what == Mark::Take, move |at| at.mark(what, &name)).await
    }
}

/// The record that a moved bucket leaves among its writers.
fn moved(incarnation: Option<&String>) -> String {
    [MOVED, incarnation.map_or("", String::as_str)].concat()
}

/// A name that came from this store, and so is text.
fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

impl Moment<'_> {
    /// A bucket whose time is not over.
    pub(crate) fn living(&self, id: &BucketId) -> Result<Option<BucketRow>, Stop> {
        Ok(self.find(id)?.filter(|life| !life.expiry.is_over(self.now_ms)))
    }

    /// The metadata that a bucket's rows make.
    pub(crate) fn own_fields(&self, life: &BucketRow) -> Result<BTreeMap<String, String>, rusqlite::Error> {
        let ttl = life.expiry.time_to_live;
        let mut fields = BTreeMap::from([
            ("created_at".to_owned(), life.incarnation.clone()),
            ("ttl_seconds".to_owned(), metadata::ttl_seconds(ttl)),
        ]);
        if let Some(ttl) = ttl.filter(|ttl| ttl.sliding) {
            fields.insert("sliding_ms".to_owned(), ttl.milliseconds.to_string());
        }
        let mut parts = self.db.prepare_cached(
            "SELECT CASE form WHEN 0 THEN 'map:' WHEN 1 THEN 'log:' ELSE 'index:' END || name,
             CASE form WHEN 0 THEN '1' WHEN 1 THEN first || '' ELSE first || ' ' || length || ' ' || terms END FROM part
             WHERE life = ?1 AND NOT (form = 0 AND name = ?2)",
        )?;
        let mut rows = parts.query(params![signed(life.stamp), VALUES])?;
        while let Some(row) = rows.next()? {
            fields.insert(row.get(0)?, row.get(1)?);
        }
        let mut leases =
            self.db.prepare_cached("SELECT 'lease:' || name, ends_at || ' ' || holder FROM lease WHERE life = ?1")?;
        let mut rows = leases.query([signed(life.stamp)])?;
        while let Some(row) = rows.next()? {
            fields.insert(row.get(0)?, row.get(1)?);
        }
        Ok(fields)
    }

    /// The same, as it came from elsewhere where it is still that.
    fn fields(&self, life: &BucketRow) -> Result<BTreeMap<String, String>, rusqlite::Error> {
        let mut fields = self.own_fields(life)?;
        let mut foreign = self.db.prepare_cached("SELECT name, own, text FROM field WHERE life = ?1")?;
        let mut rows = foreign.query([signed(life.stamp)])?;
        while let Some(row) = rows.next()? {
            let (name, own): (String, Option<String>) = (row.get(0)?, row.get(1)?);
            if fields.get(&name) == own.as_ref() {
                match row.get(2)? {
                    Some(text) => fields.insert(name, text),
                    None => fields.remove(&name),
                };
            }
        }
        Ok(fields)
    }

    fn head(&self, id: &BucketId) -> Result<Option<Head>, Stop> {
        let Some(life) = self.living(id)? else { return Ok(None) };
        let rows = Rows::new(self, life.stamp, life.expiry);
        let fields = self.fields(&life)?;
        let keys = |map: &str| {
            let keys = rows.keys(map, u64::MAX)?.into_iter().map(String::into_bytes);
            Ok::<_, rusqlite::Error>((map.as_bytes().to_vec(), keys.collect()))
        };
        let mut maps = vec![keys(VALUES)?];
        for map in fields.keys().filter_map(|field| field.strip_prefix("map:")) {
            maps.push(keys(map)?);
        }
        maps.sort_unstable();
        let indexes = rows.indexes()?;
        let mut logs = self.db.prepare_cached(
            "SELECT name, length FROM part WHERE life = ?1 AND form = 1 AND length > 0 ORDER BY name",
        )?;
        let log = |row: &Row<'_>| Ok((row.get::<_, String>(0)?.into_bytes(), unsigned(row.get(1)?)));
        let logs = logs.query_map([signed(life.stamp)], log)?.collect::<Result<_, _>>()?;
        let fields = fields.into_iter().map(|(name, text)| (name.into_bytes(), text.into_bytes())).collect();
        Ok(Some(Head { expires_at: life.expiry.at, fields, maps, indexes, logs }))
    }

    fn some_entries(
        &self,
        id: &BucketId,
        form: Form,
        name: &str,
        keys: &[String],
    ) -> Result<Vec<Option<Vec<u8>>>, Stop> {
        // Gone meanwhile: there are no values any more.
        let Some(life) = self.living(id)? else { return Ok(vec![None; keys.len()]) };
        let rows = Rows::new(self, life.stamp, life.expiry);
        let (mut texts, mut bytes) = (Vec::new(), 0);
        for key in keys {
            let text = match form {
                Form::Index => rows.field_named(name, key)?,
                _ => rows.entry_within(name, key, u64::MAX)?.and_then(|entry| entry.text).map(String::into_bytes),
            };
            bytes += key.len() + text.as_ref().map_or(0, Vec::len);
            if bytes > PART_BYTES && !texts.is_empty() {
                break;
            }
            texts.push(text);
        }
        Ok(texts)
    }

    fn some_records(&self, id: &BucketId, log: &str, before: u64) -> Result<Vec<Vec<u8>>, Stop> {
        let Some(life) = self.living(id)? else { return Ok(Vec::new()) };
        let rows = Rows::new(self, life.stamp, life.expiry);
        let part = rows.part(Form::Log, log)?;
        let Some(log) = part.id else { return Ok(Vec::new()) };
        let (from, to) = (part.first.saturating_add(before), part.first.saturating_add(part.length));
        let to = to.min(from.saturating_add(PART_COUNT as u64));
        let mut found = self.db.prepare_cached(
            "SELECT text FROM record WHERE log = ?1 AND position >= ?2 AND position < ?3 ORDER BY position",
        )?;
        let mut rows = found.query([log, signed(from), signed(to)])?;
        let (mut records, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            let record = row.get::<_, String>(0)?.into_bytes();
            bytes += record.len();
            if bytes > PART_BYTES && !records.is_empty() {
                break;
            }
            records.push(record);
        }
        Ok(records)
    }

    /// Those that somebody may still repeat.
    fn stamps(&self, id: &BucketId) -> Result<Vec<Stamp>, rusqlite::Error> {
        let mut stamps = self
            .db
            .prepare_cached("SELECT id, sequence, until FROM writer WHERE kind = ?1 AND bucket = ?2 AND until > ?3")?;
        let stamp = |row: &Row<'_>| {
            let (sequence, until) = (unsigned(row.get(1)?), unsigned(row.get(2)?));
            Ok(Stamp { writer: row.get(0)?, sequence, deadline: until.saturating_sub(MARGIN_MS) })
        };
        stamps.query_map(params![id.kind.name(), id.name, self.now()], stamp)?.collect()
    }

    fn weigh(&self, id: &BucketId) -> Result<Weighed, Stop> {
        let Some(life) = self.living(id)? else { return Ok(Weighed::Absent { now: self.now_ms }) };
        let digest = self.digest(&life)?;
        // A bucket is a row of the table that is listed.
        Ok(Weighed::There(Weight { digest, expires_at: life.expiry.at, is_listed: true }))
    }

    pub(crate) fn digest(&self, life: &BucketRow) -> Result<String, rusqlite::Error> {
        let mut digest = Digest::default();
        self.fields(life)?.iter().for_each(|(name, text)| digest.field(name, text));
        let mut parts = self.db.prepare_cached("SELECT form, name, id, first, length FROM part WHERE life = ?1")?;
        let mut entries = self.db.prepare_cached("SELECT key, text FROM entry WHERE map = ?1")?;
        let mut records = self.db.prepare_cached(
            "SELECT text FROM record WHERE log = ?1 AND position >= ?2 AND position < ?2 + ?3 ORDER BY position",
        )?;
        let mut rows = parts.query([signed(life.stamp)])?;
        while let Some(row) = rows.next()? {
            let (form, name, id): (i64, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let (first, length): (i64, i64) = (row.get(3)?, row.get(4)?);
            if form == Form::Log as i64 {
                let mut log = LogDigest::default();
                let mut rows = records.query([id, first, length])?;
                while let Some(row) = rows.next()? {
                    log.record(row.get_ref(0)?.as_str()?);
                }
                if length > 0 {
                    digest.log(&name, log);
                }
                continue;
            }
            if form == Form::Index as i64 {
                self.each_field(id, |field, bytes| digest.field_of_index(&name, field.name(), bytes))?;
                continue;
            }
            let mut rows = entries.query([id])?;
            while let Some(row) = rows.next()? {
                let (key, text) = (row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
                if name == VALUES { digest.value(key, text) } else { digest.entry(&name, key, text) }
            }
        }
        Ok(digest.finish())
    }

    fn remove_if(&self, id: &BucketId, weight: &Weight) -> Result<Removed, Stop> {
        let Some(life) = self.living(id)? else { return Ok(Removed::Gone) };
        if !same_instant(life.expiry.at, weight.expires_at) || self.digest(&life)? != weight.digest {
            return Ok(Removed::Differs);
        }
        let fields = self.fields(&life)?;
        let mut record = self.db.prepare_cached("INSERT OR REPLACE INTO writer VALUES (?1, ?2, ?3, 1, ?4)")?;
        let until = signed(self.now_ms.saturating_add(MEMORY_MS));
        record.execute(params![id.kind.name(), id.name, moved(fields.get("created_at")), until])?;
        self.bury(id.kind.name(), &id.name, life.stamp)?;
        Ok(Removed::Done)
    }

    /// A mark is kept where a writer's number would be, of a kind that no bucket has.
    fn mark(&self, what: Mark, name: &str) -> Result<bool, Stop> {
        let is_there = || {
            let mut found = self.db.prepare_cached(
                "SELECT 1 FROM writer WHERE kind = 'mark' AND bucket = ?1 AND id = '' AND until > ?2",
            )?;
            found.exists(params![name, self.now()])
        };
        Ok(match what {
            Mark::Look => is_there()?,
            Mark::Leave => {
                let until = signed(self.now_ms.saturating_add(MARK_MS));
                let mut leave =
                    self.db.prepare_cached("INSERT OR REPLACE INTO writer VALUES ('mark', ?1, '', 0, ?2)")?;
                leave.execute(params![name, until])?;
                true
            }
            Mark::Take => {
                let was_there = is_there()?;
                self.db
                    .prepare_cached("DELETE FROM writer WHERE kind = 'mark' AND bucket = ?1 AND id = ''")?
                    .execute([name])?;
                was_there
            }
        })
    }
}
