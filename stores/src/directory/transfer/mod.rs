//! Exports a bucket's rows in the form of a transfer, see [`crate::transfer`].
//!
//! Its metadata are made from the rows. Fields that arrived with another text leave with that text, as long as the rows still
//! say what they said then: a bucket that passes through a directory stays the same.

pub(crate) mod import;

use std::collections::BTreeMap;

use async_trait::async_trait;
use rusqlite::{Row, params};

use crate::{
    BucketId, Failure, Writer,
    directory::{
        DirectoryStore, WriteDurability,
        error::TransactionError,
        rows::{
            BucketRows, PartKind,
            buckets::BucketRow,
            writers::{MARGIN_MS, MEMORY_MS},
        },
        time::{TransactionContext, from_column, to_column},
    },
    names::VALUES,
    transfer::{
        BucketHead, BucketWeight, IncomingBucket, KeyedPart, MOVED, PART_BYTES, PART_COUNT, PieceOutcome,
        RemovalOutcome, TransferPiece, TransferStore, WeighedBucket, WriterStamp,
        digest::{BucketDigest, LogDigest},
        metadata, same_instant,
    },
};

#[async_trait]
impl TransferStore for DirectoryStore {
    async fn head(&self, bucket: &BucketId) -> Result<Option<BucketHead>, Failure> {
        let bucket = bucket.clone();
        self.run_job(WriteDurability::Nothing, false, move |at| at.head(&bucket)).await
    }

    async fn entries(
        &self,
        bucket: &BucketId,
        of: KeyedPart<'_>,
        keys: &[Vec<u8>],
    ) -> Result<Vec<Option<Vec<u8>>>, Failure> {
        let (bucket, keys) = (bucket.clone(), keys.iter().map(|key| lossy_text(key)).collect::<Vec<_>>());
        let (form, name) = match of {
            KeyedPart::Map(map) => (PartKind::Map, lossy_text(map)),
            KeyedPart::Index(index) => (PartKind::Index, lossy_text(index)),
        };
        self.run_job(WriteDurability::Nothing, false, move |at| at.some_entries(&bucket, form, &name, &keys)).await
    }

    async fn records(&self, bucket: &BucketId, log: &[u8], before: u64) -> Result<Vec<Vec<u8>>, Failure> {
        let (bucket, log) = (bucket.clone(), lossy_text(log));
        self.run_job(WriteDurability::Nothing, false, move |at| at.some_records(&bucket, &log, before)).await
    }

    async fn stamps(&self, bucket: &BucketId) -> Result<Vec<WriterStamp>, Failure> {
        let bucket = bucket.clone();
        self.run_job(WriteDurability::Nothing, false, move |at| Ok(at.stamps(&bucket)?)).await
    }

    async fn import(&self, incoming: IncomingBucket<'_>, piece: TransferPiece<'_>) -> Result<PieceOutcome, Failure> {
        self.import_piece(incoming, piece).await
    }

    async fn weigh(&self, bucket: &BucketId) -> Result<WeighedBucket, Failure> {
        let bucket = bucket.clone();
        self.run_job(WriteDurability::Nothing, false, move |at| at.weigh(&bucket)).await
    }

    async fn remove_if(&self, bucket: &BucketId, weight: &BucketWeight) -> Result<RemovalOutcome, Failure> {
        let (bucket, weight) = (bucket.clone(), weight.clone());
        self.run_job(WriteDurability::ToDisk, true, move |at| at.remove_if(&bucket, &weight)).await
    }

    async fn has_moved(&self, bucket: &BucketId, generation: &[u8]) -> Result<bool, Failure> {
        let (bucket, mover) = (bucket.clone(), mover_of(&lossy_text(generation)));
        self.run_job(WriteDurability::Nothing, false, move |at| Ok(at.has_seen(&mover, &bucket)?)).await
    }

    async fn kinds(&self) -> Result<Vec<String>, Failure> {
        self.run_job(WriteDurability::Nothing, false, |at| Ok(at.kinds()?)).await
    }
}

/// The writer whose one call, as far as those who ask later can tell, moved this generation of a bucket.
fn mover_of(generation: &str) -> Writer {
    Writer::resumed(&[MOVED, generation].concat(), 1)
}

/// A name that came from this store, and so is text.
fn lossy_text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

impl TransactionContext<'_> {
    /// A bucket whose time is not over.
    pub(crate) fn find_living_bucket(&self, id: &BucketId) -> Result<Option<BucketRow>, TransactionError> {
        Ok(self.find_bucket(id)?.filter(|life| !life.expiry.is_over(self.now_ms)))
    }

    /// The metadata that a bucket's rows make.
    pub(crate) fn own_fields(&self, life: &BucketRow) -> Result<BTreeMap<String, String>, rusqlite::Error> {
        let ttl = life.expiry.time_to_live;
        let mut fields = BTreeMap::from([
            ("created_at".to_owned(), life.generation.clone()),
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
        let mut rows = parts.query(params![to_column(life.stamp), VALUES])?;
        while let Some(row) = rows.next()? {
            fields.insert(row.get(0)?, row.get(1)?);
        }
        let mut leases =
            self.db.prepare_cached("SELECT 'lease:' || name, ends_at || ' ' || holder FROM lease WHERE life = ?1")?;
        let mut rows = leases.query([to_column(life.stamp)])?;
        while let Some(row) = rows.next()? {
            fields.insert(row.get(0)?, row.get(1)?);
        }
        Ok(fields)
    }

    /// The same, as it came from elsewhere where it is still that.
    fn fields(&self, life: &BucketRow) -> Result<BTreeMap<String, String>, rusqlite::Error> {
        let mut fields = self.own_fields(life)?;
        let mut foreign = self.db.prepare_cached("SELECT name, own, text FROM field WHERE life = ?1")?;
        let mut rows = foreign.query([to_column(life.stamp)])?;
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

    fn head(&self, id: &BucketId) -> Result<Option<BucketHead>, TransactionError> {
        let Some(life) = self.find_living_bucket(id)? else { return Ok(None) };
        let rows = BucketRows::new(self, &life);
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
        let log = |row: &Row<'_>| Ok((row.get::<_, String>(0)?.into_bytes(), from_column(row.get(1)?)));
        let logs = logs.query_map([to_column(life.stamp)], log)?.collect::<Result<_, _>>()?;
        let fields = fields.into_iter().map(|(name, text)| (name.into_bytes(), text.into_bytes())).collect();
        Ok(Some(BucketHead { expires_at: life.expiry.at, fields, maps, indexes, logs }))
    }

    fn some_entries(
        &self,
        id: &BucketId,
        form: PartKind,
        name: &str,
        keys: &[String],
    ) -> Result<Vec<Option<Vec<u8>>>, TransactionError> {
        // Gone meanwhile: there are no values any more.
        let Some(life) = self.find_living_bucket(id)? else { return Ok(vec![None; keys.len()]) };
        let rows = BucketRows::new(self, &life);
        let (mut texts, mut bytes) = (Vec::new(), 0);
        for key in keys {
            let text = match form {
                PartKind::Index => rows.field_named(name, key)?,
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

    fn some_records(&self, id: &BucketId, log: &str, before: u64) -> Result<Vec<Vec<u8>>, TransactionError> {
        let Some(life) = self.find_living_bucket(id)? else { return Ok(Vec::new()) };
        let rows = BucketRows::new(self, &life);
        let part = rows.load_part(PartKind::Log, log)?;
        let Some(log) = part.id else { return Ok(Vec::new()) };
        let (from, to) = (part.first.saturating_add(before), part.first.saturating_add(part.length));
        let to = to.min(from.saturating_add(PART_COUNT as u64));
        let mut found = self.db.prepare_cached(
            "SELECT text FROM record WHERE log = ?1 AND position >= ?2 AND position < ?3 ORDER BY position",
        )?;
        let mut rows = found.query([log, to_column(from), to_column(to)])?;
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
    fn stamps(&self, id: &BucketId) -> Result<Vec<WriterStamp>, rusqlite::Error> {
        // What is kept for ever is of the clock.
        let mut stamps = self.db.prepare_cached(
            "SELECT id, sequence, until FROM writer
             WHERE kind = ?1 AND bucket = ?2 AND until > ?3 AND until < 9223372036854775807",
        )?;
        let stamp = |row: &Row<'_>| {
            let (sequence, until) = (from_column(row.get(1)?), from_column(row.get(2)?));
            Ok(WriterStamp { writer: row.get(0)?, sequence, deadline: until.saturating_sub(MARGIN_MS) })
        };
        stamps.query_map(params![id.kind, id.name, self.now_as_column()], stamp)?.collect()
    }

    fn weigh(&self, id: &BucketId) -> Result<WeighedBucket, TransactionError> {
        let Some(life) = self.find_living_bucket(id)? else { return Ok(WeighedBucket::Absent { now: self.now_ms }) };
        let digest = self.digest(&life)?;
        // A bucket is a row of the table that is listed.
        Ok(WeighedBucket::There(BucketWeight { digest, expires_at: life.expiry.at, is_listed: true }))
    }

    pub(crate) fn digest(&self, life: &BucketRow) -> Result<String, rusqlite::Error> {
        let mut digest = BucketDigest::default();
        self.fields(life)?.iter().for_each(|(name, text)| digest.field(name, text));
        let mut parts = self.db.prepare_cached("SELECT form, name, id, first, length FROM part WHERE life = ?1")?;
        let mut entries = self.db.prepare_cached("SELECT key, text FROM entry WHERE map = ?1")?;
        let mut records = self.db.prepare_cached(
            "SELECT text FROM record WHERE log = ?1 AND position >= ?2 AND position < ?2 + ?3 ORDER BY position",
        )?;
        let mut rows = parts.query([to_column(life.stamp)])?;
        while let Some(row) = rows.next()? {
            let (form, name, id): (i64, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let (first, length): (i64, i64) = (row.get(3)?, row.get(4)?);
            if form == PartKind::Log as i64 {
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
            if form == PartKind::Index as i64 {
                self.each_field(id, |field, bytes| digest.field_of_index(&name, field.name(), bytes))?;
                continue;
            }
            let mut rows = entries.query([id])?;
            while let Some(row) = rows.next()? {
                digest.entry(&name, row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
            }
        }
        Ok(digest.finish())
    }

    fn remove_if(&self, id: &BucketId, weight: &BucketWeight) -> Result<RemovalOutcome, TransactionError> {
        let Some(life) = self.find_living_bucket(id)? else { return Ok(RemovalOutcome::Gone) };
        if !same_instant(life.expiry.at, weight.expires_at) || self.digest(&life)? != weight.digest {
            return Ok(RemovalOutcome::Differs);
        }
        let fields = self.fields(&life)?;
        self.remember(&mover_of(fields.get("created_at").map_or("", String::as_str)), id, MEMORY_MS)?;
        self.retire_bucket(id, life.stamp)?;
        Ok(RemovalOutcome::Done)
    }
}
