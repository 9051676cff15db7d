//! Buckets as rows: finds, creates, renews and buries them, each at a cost that does not depend on what they hold.

use rusqlite::{OptionalExtension as _, params};

use crate::{
    BucketId, BucketPage, TimeToLive,
    bucket::{Expiry, format_generation},
    directory::{
        error::TransactionError,
        time::{TransactionContext, from_column, to_column},
    },
    failure::expiry_in_doubt,
    limits::{MAX_RECORDS, PAGE},
    names::is_part,
};

/// A bucket that has a row.
pub(crate) struct BucketRow {
    pub(crate) stamp: u64,
    pub(crate) generation: String,
    pub(crate) expiry: Expiry,
}

impl TransactionContext<'_> {
    /// # Errors
    /// `unavailable` where it has expired only by a clock that was set ahead just now.
    pub(crate) fn find_bucket(&self, id: &BucketId) -> Result<Option<BucketRow>, TransactionError> {
        let found = self.find_row(id)?;
        let over_at = |now_ms| found.as_ref().is_some_and(|life| life.expiry.is_over(now_ms));
        if over_at(self.shown_ms) && !over_at(self.now_ms) {
            return Err(expiry_in_doubt().into());
        }
        Ok(found)
    }

    pub(crate) fn find_row(&self, id: &BucketId) -> Result<Option<BucketRow>, rusqlite::Error> {
        let mut found = self.db.prepare_cached(
            "SELECT life, milliseconds, sliding, expires_at, incarnation FROM bucket WHERE kind = ?1 AND name = ?2",
        )?;
        let life = found.query_row([&id.kind, &id.name], |row| {
            let (stamp, milliseconds, sliding, at) =
                (from_column(row.get(0)?), row.get::<_, Option<i64>>(1)?, row.get(2)?, row.get::<_, Option<i64>>(3)?);
            let time_to_live = milliseconds.map(|time| TimeToLive { milliseconds: from_column(time), sliding });
            let expiry = Expiry { time_to_live, at: at.map(from_column) };
            let generation = row.get::<_, Option<String>>(4)?.unwrap_or_else(|| format_generation(stamp).into());
            Ok(BucketRow { stamp, generation, expiry })
        });
        life.optional()
    }

    /// A bucket that begins now, without a row yet.
    pub(crate) fn new_bucket(&self, time_to_live: Option<TimeToLive>) -> BucketRow {
        let stamp = self.next_stamp();
        BucketRow { stamp, generation: format_generation(stamp).into(), expiry: Expiry::new(time_to_live, self.now_ms) }
    }

    pub(crate) fn settle(&self, id: &BucketId, life: &BucketRow) -> Result<(), rusqlite::Error> {
        let ttl = life.expiry.time_to_live;
        let foreign = Some(&life.generation).filter(|foreign| **foreign != format_generation(life.stamp));
        let mut settle = self.db.prepare_cached("INSERT INTO bucket VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
        settle.execute(params![
            id.kind,
            id.name,
            to_column(life.stamp),
            ttl.map(|ttl| to_column(ttl.milliseconds)),
            ttl.is_some_and(|ttl| ttl.sliding),
            life.expiry.at.map(to_column),
            foreign,
        ])?;
        Ok(())
    }

    /// Note when a bucket ends that has been renewed.
    pub(crate) fn put_expiry(&self, id: &BucketId, expiry: Expiry) -> Result<(), rusqlite::Error> {
        let mut renew = self.db.prepare_cached("UPDATE bucket SET expires_at = ?3 WHERE kind = ?1 AND name = ?2")?;
        renew.execute(params![id.kind, id.name, expiry.at.map(to_column)])?;
        Ok(())
    }

    /// End a bucket. What it held is erased later.
    pub(crate) fn retire_bucket(&self, id: &BucketId, stamp: u64) -> Result<(), rusqlite::Error> {
        let life = to_column(stamp);
        self.db
            .prepare_cached("INSERT OR REPLACE INTO dead SELECT id, ?2 FROM part WHERE life = ?1")?
            .execute([life, i64::MAX])?;
        self.db.prepare_cached("DELETE FROM part WHERE life = ?1")?.execute([life])?;
        self.db.prepare_cached("DELETE FROM lease WHERE life = ?1")?.execute([life])?;
        self.db.prepare_cached("DELETE FROM field WHERE life = ?1")?.execute([life])?;
        self.remove_row(id)
    }

    /// Forget a bucket, and leave what it holds to another.
    pub(crate) fn remove_row(&self, id: &BucketId) -> Result<(), rusqlite::Error> {
        let mut remove = self.db.prepare_cached("DELETE FROM bucket WHERE kind = ?1 AND name = ?2")?;
        remove.execute([&id.kind, &id.name])?;
        Ok(())
    }

    /// Kinds of which there are buckets, without those that are hidden. Each is looked for behind the one before it,
    /// whatever the number of buckets.
    pub(crate) fn kinds(&self) -> Result<Vec<String>, rusqlite::Error> {
        let mut next = self.db.prepare_cached("SELECT kind FROM bucket WHERE kind > ?1 ORDER BY kind LIMIT 1")?;
        let (mut kinds, mut last) = (Vec::new(), String::new());
        while let Some(kind) = next.query_row([&last], |row| row.get::<_, String>(0)).optional()? {
            last.clone_from(&kind);
            kinds.push(kind);
        }
        kinds.retain(|kind| is_part(kind));
        Ok(kinds)
    }

    /// A page of names. The cursor is the last name of the page before, whether or not that bucket is still there.
    pub(crate) fn list(&self, kind: &str, cursor: &str, limit: u32) -> Result<BucketPage, rusqlite::Error> {
        let most = if limit == 0 { PAGE } else { MAX_RECORDS.min(limit.into()) };
        let mut listed = self.db.prepare_cached(
            "SELECT name, coalesce(expires_at, 9223372036854775807) > ?3 FROM bucket
             WHERE kind = ?1 AND name > ?2 ORDER BY name LIMIT ?4",
        )?;
        let mut rows = listed.query(params![kind, cursor, self.now_as_column(), to_column(most + 1)])?;
        let (mut names, mut seen, mut last) = (Vec::new(), 0, String::new());
        while let Some(row) = rows.next()? {
            if seen == most {
                return Ok(BucketPage { names, cursor: last });
            }
            seen += 1;
            last = row.get(0)?;
            if row.get(1)? {
                names.push(last.clone());
            }
        }
        Ok(BucketPage { names, cursor: String::new() })
    }
}
