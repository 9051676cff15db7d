//! Remembers the recent writers of a bucket, so that a repeated call counts once: also in another process, and after the one
//! that applied it was killed.
//!
//! A writer's number is kept until the deadline of its call is over, and some time longer. Their number is not limited: each
//! is a row, and a disk has room for rows. So no writer is ever refused.

use rusqlite::{OptionalExtension as _, params};

use crate::{
    BucketId, Deadline, Writer,
    directory::time::{TransactionContext, from_column, to_column},
};

/// For how long a number is kept whose call has no deadline.
pub(crate) const MEMORY_MS: u64 = 10 * 60 * 1000;
/// For how long after a deadline. More than the machine's clock and the one of deadlines are ever apart.
pub(crate) const MARGIN_MS: u64 = 60 * 1000;
/// Rows looked at in one step of the walk.
const LOOKED_AT: i64 = 256;

/// For how long a number has to be kept, in milliseconds.
pub(crate) fn writer_memory_ms(deadline: Deadline) -> u64 {
    let left = deadline.left().map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
    left.map_or(MEMORY_MS, |left| left.saturating_add(MARGIN_MS).min(MEMORY_MS))
}

/// Where a walk through all writers is: kind, bucket and id.
pub(crate) type WriterKey = (String, String, String);

/// What one step of a walk found.
pub(crate) struct OverdueWriters {
    /// Writers that can be forgotten.
    pub(crate) overdue: Vec<WriterKey>,
    /// Where to go on; none: there are no others.
    pub(crate) next: Option<WriterKey>,
}

impl TransactionContext<'_> {
    /// Whether this call, or a later one of the same writer, has been applied.
    pub(crate) fn has_seen(&self, writer: &Writer, id: &BucketId) -> Result<bool, rusqlite::Error> {
        let mut known = self
            .db
            .prepare_cached("SELECT sequence FROM writer WHERE kind = ?1 AND bucket = ?2 AND id = ?3 AND until > ?4")?;
        let known = known.query_row(params![id.kind, id.name, writer.id(), self.now_as_column()], |row| row.get(0));
        Ok(known.optional()?.is_some_and(|sequence| writer.sequence() <= from_column(sequence)))
    }

    /// Note that the writer's call is applied.
    pub(crate) fn remember(&self, writer: &Writer, id: &BucketId, memory: u64) -> Result<(), rusqlite::Error> {
        if writer.id().is_empty() {
            return Ok(());
        }
        let until = to_column(self.now_ms.saturating_add(memory));
        let mut remember = self.db.prepare_cached(
            "INSERT INTO writer VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (kind, bucket, id) DO UPDATE
             SET sequence = excluded.sequence, until = excluded.until",
        )?;
        remember.execute(params![id.kind, id.name, writer.id(), to_column(writer.sequence()), until])?;
        Ok(())
    }

    /// Look at some writers.
    pub(crate) fn overdue_writers(&self, (kind, bucket, id): &WriterKey) -> Result<OverdueWriters, rusqlite::Error> {
        let mut next = self.db.prepare_cached(
            "SELECT kind, bucket, id, until <= ?4 FROM writer WHERE (kind, bucket, id) > (?1, ?2, ?3)
             ORDER BY kind, bucket, id LIMIT ?5",
        )?;
        let mut rows = next.query(params![kind, bucket, id, self.now_as_column(), LOOKED_AT])?;
        let (mut overdue, mut last, mut count) = (Vec::new(), None, 0);
        while let Some(row) = rows.next()? {
            let writer: WriterKey = (row.get(0)?, row.get(1)?, row.get(2)?);
            if row.get(3)? {
                overdue.push(writer.clone());
            }
            last = Some(writer);
            count += 1;
        }
        Ok(OverdueWriters { overdue, next: last.filter(|_| count == LOOKED_AT) })
    }

    /// Forget those of these writers that did not write again meanwhile.
    pub(crate) fn forget_writers(&self, writers: &[WriterKey]) -> Result<(), rusqlite::Error> {
        let mut forget =
            self.db.prepare_cached("DELETE FROM writer WHERE kind = ?1 AND bucket = ?2 AND id = ?3 AND until <= ?4")?;
        for (kind, bucket, id) in writers {
            forget.execute(params![kind, bucket, id, self.now_as_column()])?;
        }
        Ok(())
    }
}
