//! Logs: records and their positions, which go up and are never reused.

use std::{collections::VecDeque, ops::Range};

use super::{
    room::{AnswerBudget, TransactionBudget},
    saturating_usize,
};
use crate::{
    LogExtent, LogRecords, PositionedRecord, ReadAtOperation, ReadOperation, RecordRun,
    limits::{MAX_RECORDS, PIECE_BYTES},
};

/// What a log takes beside its name and records: its node in a tree that is mostly its alone, and a queue.
const LOG_OVERHEAD: u64 = 896;

#[derive(Debug, Default)]
pub(super) struct BucketLog {
    /// The position of the oldest record, or of the next one when there is none.
    first: u64,
    records: VecDeque<Box<str>>,
    /// Of all records.
    bytes: u64,
}

impl BucketLog {
    pub(super) const EMPTY: Self = Self { first: 0, records: VecDeque::new(), bytes: 0 };

    pub(super) fn extent(&self) -> LogExtent {
        LogExtent { first: self.first, length: self.records.len() as u64 }
    }

    /// The position that the next record gets.
    pub(super) fn next(&self) -> u64 {
        self.first.saturating_add(self.records.len() as u64)
    }

    /// How many of the oldest records are replaced where so many are to be.
    pub(super) fn count_replaceable(&self, count: u64) -> usize {
        self.records.len().min(saturating_usize(count.min(MAX_RECORDS)))
    }

    /// The record at a position.
    pub(super) fn record_at(&self, position: u64) -> Option<&str> {
        self.records.get(self.index_of_position(position)?).map(AsRef::as_ref)
    }

    /// What all records take.
    pub(super) fn cost(&self) -> u64 {
        (self.records.len() as u64).saturating_mul(PIECE_BYTES).saturating_add(self.bytes)
    }

    /// What the oldest records take.
    pub(super) fn cost_of_oldest(&self, count: usize) -> u64 {
        records_cost(self.records.iter().take(count))
    }

    /// The cost, counted again from what is there.
    #[cfg(test)]
    pub(super) fn counted_cost(&self) -> u64 {
        records_cost(&self.records)
    }

    pub(super) fn append(&mut self, records: &[String]) {
        self.bytes = self.bytes.saturating_add(total_text_bytes(records));
        self.records.extend(records.iter().map(|record| record.as_str().into()));
    }

    pub(super) fn replace_oldest(&mut self, count: usize, records: &[String]) {
        let count = count.min(self.records.len());
        self.first = self.first.saturating_add(count.saturating_sub(records.len()) as u64);
        let dropped = total_text_bytes(self.records.drain(..count));
        self.bytes = self.bytes.saturating_sub(dropped).saturating_add(total_text_bytes(records));
        for record in records.iter().rev() {
            self.records.push_front(record.as_str().into());
        }
        self.shrink_capacity();
    }

    pub(super) fn rewrite(&mut self, records: &[PositionedRecord]) {
        for new in records {
            if let Some(record) = self.index_of_position(new.position).and_then(|place| self.records.get_mut(place)) {
                let (old, text) = (record.len() as u64, &*new.text);
                *record = text.into();
                self.bytes = self.bytes.saturating_sub(old).saturating_add(text.len() as u64);
            }
        }
    }

    /// Take all records out. Positions go on.
    pub(super) fn take_records(&mut self) -> VecDeque<Box<str>> {
        self.first = self.next();
        self.bytes = 0;
        std::mem::take(&mut self.records)
    }

    /// Records from one end, as far as they may be read; none: there are none, or the log is not that long.
    pub(super) fn read_records(&self, step: &ReadOperation, room: &mut TransactionBudget) -> Option<LogRecords> {
        let length = self.records.len();
        let is_read = length > saturating_usize(step.only_over);
        let readable = if is_read { length.saturating_sub(saturating_usize(step.leave)) } else { 0 };
        let mut answer = room.answer_budget(step.max_records, step.max_bytes);
        let records = self.records.range(..readable);
        let range = if step.newest {
            readable - room.take_fitting_records(records.rev(), &mut answer)..readable
        } else {
            0..room.take_fitting_records(records, &mut answer)
        };
        (!range.is_empty()).then(|| LogRecords { extent: self.extent(), runs: vec![self.run(range)] })
    }

    pub(super) fn read_at(&self, step: &ReadAtOperation, room: &mut TransactionBudget) -> LogRecords {
        let mut answer: AnswerBudget = room.answer_budget(MAX_RECORDS, step.max_bytes);
        let mut runs = Vec::new();
        for span in &step.spans {
            let end = span.position.saturating_add(span.count.into()).min(self.next());
            let (Some(from), Some(to)) =
                (self.index_of_position(span.position.max(self.first)), self.index_of_position(end))
            else {
                continue;
            };
            if from >= to {
                continue;
            }
            let fit = room.take_fitting_records(self.records.range(from..to), &mut answer);
            if fit == 0 {
                break;
            }
            runs.push(self.run(from..from + fit));
        }
        LogRecords { extent: self.extent(), runs }
    }

    /// The records at these indices, which are within the log.
    fn run(&self, range: Range<usize>) -> RecordRun {
        let first = self.first.saturating_add(range.start as u64);
        RecordRun { first, records: self.records.range(range).map(ToString::to_string).collect() }
    }

    /// The index of a position, if it is not before the first.
    fn index_of_position(&self, position: u64) -> Option<usize> {
        position.checked_sub(self.first).map(saturating_usize)
    }

    /// A log that was long once would keep its capacity.
    fn shrink_capacity(&mut self) {
        if self.records.capacity() > 64 && self.records.capacity() / 4 > self.records.len() {
            self.records.shrink_to(self.records.len().saturating_mul(2));
        }
    }
}

pub(super) fn log_cost(name: &str) -> u64 {
    LOG_OVERHEAD.saturating_add(name.len() as u64)
}

pub(super) fn records_cost<T: AsRef<str>>(records: impl IntoIterator<Item = T>) -> u64 {
    records
        .into_iter()
        .fold(0, |sum, record| sum.saturating_add(PIECE_BYTES).saturating_add(total_text_bytes([record])))
}

/// Bytes of all of them.
fn total_text_bytes<T: AsRef<str>>(records: impl IntoIterator<Item = T>) -> u64 {
    records.into_iter().fold(0, |sum: u64, record| sum.saturating_add(record.as_ref().len() as u64))
}
