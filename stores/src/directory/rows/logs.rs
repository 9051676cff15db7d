//! Logs as rows: records by position. A log that is cut keeps its place; what it loses is erased later.

use rusqlite::params;

use super::{BucketRows, PartKind, PartState};
use crate::{
    AppendOperation, LogExtent, LogRecords, Outcome, PositionMark, ReadAtOperation, ReadOperation, RecordRun,
    ReplaceOldestOperation, RewriteOperation,
    bucket::{AnswerBudget, check_replacement, no_record_at},
    directory::{error::TransactionError, time::to_column},
    limits::{MAX_RECORD_BYTES, MAX_RECORDS},
};

impl PartState {
    fn next(self) -> u64 {
        self.first.saturating_add(self.length)
    }

    pub(super) fn log_extent(self) -> LogExtent {
        LogExtent { first: self.first, length: self.length }
    }
}

impl BucketRows<'_, '_> {
    /// Drop all records if asked to, then append others and note their positions.
    pub(crate) fn append(&self, step: &AppendOperation) -> Result<(), rusqlite::Error> {
        let part = self.load_part(PartKind::Log, &step.log)?;
        if step.reset
            && part.length > 0
            && let Some(id) = part.id
        {
            self.mark_dead(id, i64::MAX)?;
            let emptied =
                PartState { id: Some(to_column(self.at.next_stamp())), first: part.next(), ..PartState::default() };
            self.set_part(PartKind::Log, &step.log, emptied);
        }
        self.append_records(&step.log, &step.records)?;
        for PositionMark { map_name, key, record_index } in &step.marks {
            let position = part.next().saturating_add((*record_index).into());
            self.set_entry(map_name, key, &position.to_string())?;
        }
        Ok(())
    }

    pub(crate) fn append_records(&self, log: &str, records: &[String]) -> Result<(), rusqlite::Error> {
        if records.is_empty() {
            return Ok(());
        }
        let mut part = self.load_part(PartKind::Log, log)?;
        let id = *part.id.get_or_insert_with(|| to_column(self.at.next_stamp()));
        let mut append = self.prepare_statement("INSERT INTO record VALUES (?1, ?2, ?3)")?;
        for (position, record) in (part.next()..).zip(records) {
            append.execute(params![id, to_column(position), record])?;
        }
        part.length = part.length.saturating_add(records.len() as u64);
        self.set_part(PartKind::Log, log, part);
        Ok(())
    }

    pub(crate) fn replace_oldest(&self, step: &ReplaceOldestOperation) -> Result<(), TransactionError> {
        let mut part = self.load_part(PartKind::Log, &step.log)?;
        let oldest = part.length.min(step.count).min(MAX_RECORDS);
        check_replacement(step, oldest)?;
        let fewer = oldest.saturating_sub(step.records.len() as u64);
        part.first = part.first.saturating_add(fewer);
        part.length = part.length.saturating_sub(fewer);
        let Some(id) = part.id else { return Ok(()) };
        if fewer > 0 {
            self.mark_dead(id, to_column(part.first))?;
        }
        for (position, record) in (part.first..).zip(&step.records) {
            self.put_record(id, position, record)?;
        }
        self.set_part(PartKind::Log, &step.log, part);
        Ok(())
    }

    pub(crate) fn rewrite(&self, step: &RewriteOperation) -> Result<(), TransactionError> {
        let part = self.load_part(PartKind::Log, &step.log)?;
        for record in &step.records {
            let id = part.id.filter(|_| (part.first..part.next()).contains(&record.position));
            let id = id.ok_or_else(|| no_record_at(&step.log, record.position))?;
            self.put_record(id, record.position, &record.text)?;
        }
        Ok(())
    }

    /// In the place of one that is there.
    fn put_record(&self, id: i64, position: u64, text: &str) -> Result<(), rusqlite::Error> {
        let mut put = self.prepare_statement("UPDATE record SET text = ?3 WHERE log = ?1 AND position = ?2")?;
        put.execute(params![id, to_column(position), text])?;
        Ok(())
    }

    /// Records from one end of the log, if it is long enough.
    pub(crate) fn read_records(&self, step: &ReadOperation) -> Result<Outcome, rusqlite::Error> {
        let part = self.load_part(PartKind::Log, &step.log)?;
        let readable = if part.length > step.only_over { part.length.saturating_sub(step.leave) } else { 0 };
        let end = part.first.saturating_add(readable);
        let mut room = self.room.borrow().answer_budget(step.max_records, step.max_bytes);
        let mut records = self.fitting(part, step.newest, part.first, end, &mut room)?;
        if records.is_empty() {
            return Ok(Outcome::Extent(part.log_extent()));
        }
        let mut first = part.first;
        if step.newest {
            records.reverse();
            first = end.saturating_sub(records.len() as u64);
        }
        Ok(Outcome::Records(LogRecords { extent: part.log_extent(), runs: vec![RecordRun { first, records }] }))
    }

    pub(crate) fn read_at(&self, step: &ReadAtOperation) -> Result<LogRecords, rusqlite::Error> {
        let part = self.load_part(PartKind::Log, &step.log)?;
        let mut room = self.room.borrow().answer_budget(MAX_RECORDS, step.max_bytes);
        let mut runs = Vec::new();
        for span in &step.spans {
            let first = span.position.max(part.first);
            let end = span.position.saturating_add(span.count.into()).min(part.next());
            if first >= end {
                continue;
            }
            let records = self.fitting(part, false, first, end, &mut room)?;
            if records.is_empty() {
                break;
            }
            runs.push(RecordRun { first, records });
        }
        Ok(LogRecords { extent: part.log_extent(), runs })
    }

    /// The records between two positions that fit, the newest or the oldest first. No more are read than fit, and one.
    /// Others may have written one of hundreds of megabytes: the text of a record that is longer than any may be is not
    /// read, and is empty here.
    fn fitting(
        &self,
        part: PartState,
        newest: bool,
        first: u64,
        end: u64,
        room: &mut AnswerBudget,
    ) -> Result<Vec<String>, rusqlite::Error> {
        let (mut records, mut bytes) = (Vec::new(), 0_u64);
        let Some(id) = part.id.filter(|_| first < end && room.is_left()) else { return Ok(records) };
        let mut found = self.prepare_statement(if newest {
            "SELECT CASE WHEN octet_length(text) <= ?4 THEN text ELSE '' END FROM record
             WHERE log = ?1 AND position >= ?2 AND position < ?3 ORDER BY position DESC"
        } else {
            "SELECT CASE WHEN octet_length(text) <= ?4 THEN text ELSE '' END FROM record
             WHERE log = ?1 AND position >= ?2 AND position < ?3 ORDER BY position"
        })?;
        let mut rows = found.query(params![id, to_column(first), to_column(end), to_column(MAX_RECORD_BYTES)])?;
        while let Some(row) = rows.next()? {
            let text = row.get_ref(0)?.as_str()?;
            if !room.try_take_record(text.len() as u64) {
                break;
            }
            bytes = bytes.saturating_add(text.len() as u64);
            records.push(text.to_owned());
            if !room.is_left() {
                break;
            }
        }
        self.room.borrow_mut().consume(records.len() as u64, bytes);
        Ok(records)
    }
}
