//! Logs as rows: records by position. A log that is cut keeps its place; what it loses is erased later.

use rusqlite::params;

use super::{BucketRows, PartKind, PartState};
use crate::{
    LogEnd, LogExtent, LogRecords, LogSpans, OverflowOperation, ReadAtOperation, ReadOperation, ReplaceOldestOperation,
    ResetLogOperation, RewriteOperation, SpanRecords,
    bucket::{AnswerBudget, BucketContents as _, check_replacement, no_record_at},
    directory::{error::TransactionError, time::to_column},
    limits::{MAX_RECORD_BYTES, MAX_RECORDS},
};

impl PartState {
    fn next(self) -> u64 {
        self.first.saturating_add(self.length)
    }

    fn extent(self) -> LogExtent {
        LogExtent { first: self.first, length: self.length }
    }

    /// How many records there are beside the newest `keep`, up to a maximum.
    fn surplus(self, keep: u64, maximum: u64) -> u64 {
        self.length.saturating_sub(keep).min(maximum)
    }
}

impl BucketRows<'_, '_> {
    /// Append records; returns the position of the first one.
    pub(crate) fn append(&self, log: &str, records: &[String]) -> Result<u64, rusqlite::Error> {
        let mut part = self.load_part(PartKind::Log, log)?;
        let first = part.next();
        if records.is_empty() {
            return Ok(first);
        }
        let id = *part.id.get_or_insert_with(|| to_column(self.at.next_stamp()));
        let mut append = self.prepare_statement("INSERT INTO record VALUES (?1, ?2, ?3)")?;
        for (position, record) in (first..).zip(records) {
            append.execute(params![id, to_column(position), record])?;
        }
        part.length = part.length.saturating_add(records.len() as u64);
        self.set_part(PartKind::Log, log, part);
        Ok(first)
    }

    /// Drop all records, then append these; returns the position of the first one.
    pub(crate) fn reset_log(&self, step: &ResetLogOperation) -> Result<u64, rusqlite::Error> {
        let part = self.load_part(PartKind::Log, &step.log)?;
        if let Some(id) = part.id
            && part.length > 0
        {
            self.mark_dead(id, i64::MAX)?;
            let emptied =
                PartState { id: Some(to_column(self.at.next_stamp())), first: part.next(), ..PartState::default() };
            self.set_part(PartKind::Log, &step.log, emptied);
        }
        self.append(&step.log, &step.records)
    }

    pub(crate) fn replace_oldest(&self, step: &ReplaceOldestOperation) -> Result<(), TransactionError> {
        let mut part = self.load_part(PartKind::Log, &step.log)?;
        let oldest = part.surplus(0, step.count.min(MAX_RECORDS));
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

    pub(crate) fn read_records(&self, step: &ReadOperation) -> Result<LogRecords, rusqlite::Error> {
        let part = self.load_part(PartKind::Log, &step.log)?;
        let mut room = self.room.borrow().answer_budget(step.max_records, step.max_bytes);
        match step.end {
            LogEnd::Oldest => self.records_between(part, part.first, part.next(), &mut room),
            LogEnd::Newest => {
                let mut records = self.fitting(part, LogEnd::Newest, part.first, part.next(), &mut room)?;
                records.reverse();
                let first = part.next().saturating_sub(records.len() as u64);
                Ok(LogRecords { extent: part.extent(), first, records })
            }
        }
    }

    /// The oldest of a log that is too long; none: it is not, or none may be read.
    pub(crate) fn read_overflow(&self, step: &OverflowOperation) -> Result<Option<LogRecords>, rusqlite::Error> {
        let part = self.load_part(PartKind::Log, &step.log)?;
        let surplus = if part.length > step.limit { part.surplus(step.keep, step.max_records) } else { 0 };
        let mut room = self.room.borrow().answer_budget(surplus, step.max_bytes);
        let found = self.records_between(part, part.first, part.next(), &mut room)?;
        Ok((!found.records.is_empty()).then_some(found))
    }

    pub(crate) fn read_at(&self, step: &ReadAtOperation) -> Result<LogSpans, rusqlite::Error> {
        let part = self.load_part(PartKind::Log, &step.log)?;
        let mut room = self.room.borrow().answer_budget(MAX_RECORDS, step.max_bytes);
        let mut spans = Vec::new();
        for span in &step.spans {
            let from = span.position.max(part.first);
            let to = span.position.saturating_add(span.count.into()).min(part.next());
            if from >= to {
                continue;
            }
            let LogRecords { first, records, .. } = self.records_between(part, from, to, &mut room)?;
            if records.is_empty() {
                break;
            }
            spans.push(SpanRecords { first, records });
        }
        Ok(LogSpans { extent: self.log_extent(&step.log)?, spans })
    }

    /// As many as there is room for, from a position on.
    fn records_between(
        &self,
        part: PartState,
        from: u64,
        to: u64,
        room: &mut AnswerBudget,
    ) -> Result<LogRecords, rusqlite::Error> {
        let records = self.fitting(part, LogEnd::Oldest, from, to, room)?;
        let first = if records.is_empty() { part.next() } else { from };
        Ok(LogRecords { extent: part.extent(), first, records })
    }

    /// No more are read than fit, and one. Others may have written one of hundreds of megabytes: the text of a record that
    /// is longer than any may be is not read, and is empty here.
    fn fitting(
        &self,
        part: PartState,
        end: LogEnd,
        from: u64,
        to: u64,
        room: &mut AnswerBudget,
    ) -> Result<Vec<String>, rusqlite::Error> {
        let (mut records, mut bytes) = (Vec::new(), 0_u64);
        let Some(id) = part.id.filter(|_| room.is_left()) else { return Ok(records) };
        let mut found = self.prepare_statement(match end {
            LogEnd::Oldest => {
                "SELECT CASE WHEN octet_length(text) <= ?4 THEN text ELSE '' END FROM record
                 WHERE log = ?1 AND position >= ?2 AND position < ?3 ORDER BY position"
            }
            LogEnd::Newest => {
                "SELECT CASE WHEN octet_length(text) <= ?4 THEN text ELSE '' END FROM record
                 WHERE log = ?1 AND position >= ?2 AND position < ?3 ORDER BY position DESC"
            }
        })?;
        let mut rows = found.query(params![id, to_column(from), to_column(to), to_column(MAX_RECORD_BYTES)])?;
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
