//! Logs: what a transaction reads of them and writes to them.

use super::{
    Fault,
    contents::{Contents, record_key, record_range},
};
use crate::{
    AppendOperation, LogExtent, LogRecords, Outcome, PositionMark, ReadAtOperation, ReadOperation, RecordRun,
    ReplaceOldestOperation, RewriteOperation,
    bucket::{AnswerBudget, check_replacement, no_record_at},
    limits::MAX_RECORDS,
};

/// How many records are read first where it is not known how many fit; then, twice as many each time.
pub(super) const READ_FIRST: u64 = 32;
const READ_AT_ONCE: u64 = 1024;

pub(super) fn next(log: LogExtent) -> u64 {
    log.first.saturating_add(log.length)
}

impl Contents<'_> {
    /// Drop all records if asked to, then append others and note their positions.
    pub(super) fn append(&self, step: &AppendOperation) -> Result<(), Fault> {
        let before = self.log(&step.log);
        if step.reset && before.length > 0 {
            self.tree.borrow_mut().remove_range(&record_range(&step.log, before.first, next(before)))?;
            self.set_log(&step.log, LogExtent { first: next(before), length: 0 });
        }
        if !step.records.is_empty() {
            let mut log = self.log(&step.log);
            for record in &step.records {
                self.tree.borrow_mut().put(&record_key(&step.log, next(log)), record)?;
                log.length = log.length.saturating_add(1);
            }
            self.set_log(&step.log, log);
        }
        for PositionMark { map_name, key, record_index } in &step.marks {
            let position = next(before).saturating_add((*record_index).into());
            self.set_entry(map_name, key, &position.to_string())?;
        }
        Ok(())
    }

    pub(super) fn replace_oldest(&self, step: &ReplaceOldestOperation) -> Result<(), Fault> {
        let mut log = self.log(&step.log);
        let oldest = log.length.min(step.count).min(MAX_RECORDS);
        check_replacement(step, oldest)?;
        if oldest == 0 {
            return Ok(());
        }
        let mut tree = self.tree.borrow_mut();
        tree.remove_range(&record_range(&step.log, log.first, log.first.saturating_add(oldest)))?;
        let fewer = oldest.saturating_sub(step.records.len() as u64);
        log = LogExtent { first: log.first.saturating_add(fewer), length: log.length.saturating_sub(fewer) };
        for (position, record) in (log.first..).zip(&step.records) {
            tree.put(&record_key(&step.log, position), record)?;
        }
        self.set_log(&step.log, log);
        Ok(())
    }

    pub(super) fn rewrite(&self, step: &RewriteOperation) -> Result<(), Fault> {
        let log = self.log(&step.log);
        for record in &step.records {
            if !(log.first..next(log)).contains(&record.position) {
                return Err(no_record_at(&step.log, record.position).into());
            }
            self.tree.borrow_mut().put(&record_key(&step.log, record.position), &record.text)?;
        }
        Ok(())
    }

    /// Records from one end of the log, if it is long enough.
    pub(super) fn read_records(&self, step: &ReadOperation) -> Result<Outcome, Fault> {
        let log = self.log(&step.log);
        let end = log.first.saturating_add(readable(log, step));
        let mut room = self.room.borrow().answer_budget(step.max_records, step.max_bytes);
        let mut records = self.fitting(&step.log, step.newest, (log.first, end), step.max_records, &mut room)?;
        if records.is_empty() {
            return Ok(Outcome::Extent(log));
        }
        let mut first = log.first;
        if step.newest {
            records.reverse();
            first = end.saturating_sub(records.len() as u64);
        }
        Ok(Outcome::Records(LogRecords { extent: log, runs: vec![RecordRun { first, records }] }))
    }

    pub(super) fn read_at(&self, step: &ReadAtOperation) -> Result<LogRecords, Fault> {
        let log = self.log(&step.log);
        let mut room = self.room.borrow().answer_budget(MAX_RECORDS, step.max_bytes);
        let mut runs = Vec::new();
        for span in &step.spans {
            let first = span.position.max(log.first);
            let end = span.position.saturating_add(span.count.into()).min(next(log));
            if first >= end {
                continue;
            }
            let records = self.fitting(&step.log, false, (first, end), MAX_RECORDS, &mut room)?;
            if records.is_empty() {
                break;
            }
            runs.push(RecordRun { first, records });
        }
        Ok(LogRecords { extent: log, runs })
    }

    /// The records between two positions that fit, the newest or the oldest first. `most`: no more are asked for.
    fn fitting(
        &self,
        log: &str,
        newest: bool,
        (mut first, mut end): (u64, u64),
        most: u64,
        room: &mut AnswerBudget,
    ) -> Result<Vec<String>, Fault> {
        let (mut records, mut bytes, mut at_once) = (Vec::new(), 0_u64, READ_FIRST.min(most));
        let mut tree = self.tree.borrow_mut();
        while first < end && room.is_left() {
            let (from, to) = if newest {
                (end.saturating_sub(at_once).max(first), end)
            } else {
                (first, first.saturating_add(at_once).min(end))
            };
            let mut found = tree.scan(&record_range(log, from, to), usize::MAX)?;
            if found.len() as u64 != to - from {
                return Err(Fault::Damaged);
            }
            if newest {
                found.reverse();
                end = from;
            } else {
                first = to;
            }
            let mut fitting = Vec::new();
            for (_, text) in found {
                if !room.try_take_record(text.bytes()) {
                    break;
                }
                bytes = bytes.saturating_add(text.bytes());
                fitting.push(text);
            }
            tree.load_texts(&fitting)?;
            records.extend(fitting.into_iter().map(|text| tree.read_text(text)));
            at_once = at_once.saturating_mul(2).min(READ_AT_ONCE);
        }
        self.room.borrow_mut().consume(records.len() as u64, bytes);
        Ok(records)
    }
}

/// How many of a log's records, from the oldest, may be read.
pub(super) fn readable(log: LogExtent, step: &ReadOperation) -> u64 {
    if log.length > step.only_over { log.length.saturating_sub(step.leave) } else { 0 }
}
