//! Logs: records and their positions, which go up and are never reused.

use std::{collections::VecDeque, ops::Range};

use super::index;
use crate::{
    LogEnd, LogExtent, LogRecords, LogSpans, OverflowOperation, PositionedRecord, ReadAtOperation, ReadOperation,
    SpanRecords, request::MAX_RECORDS,
};

/// What a log takes beside its name and records.
const LOG_OVERHEAD: u64 = 160;
/// What a record takes beside its text: an allocation and a place in a queue.
const RECORD_OVERHEAD: u64 = 32;

#[derive(Debug, Default)]
pub(super) struct Log {
    /// The position of the oldest record, or of the next one when there is none.
    first: u64,
    records: VecDeque<Box<str>>,
}

impl Log {
    pub(super) fn extent(&self) -> LogExtent {
        LogExtent { first: self.first, length: self.records.len() as u64 }
    }

    /// The position that the next record gets.
    pub(super) fn next(&self) -> u64 {
        self.first.saturating_add(self.records.len() as u64)
    }

    /// How many records there are beside the newest `keep`, up to a maximum.
    pub(super) fn surplus(&self, keep: u64, maximum: u64) -> usize {
        self.records.len().saturating_sub(index(keep)).min(index(maximum))
    }

    /// The record at a position.
    pub(super) fn at(&self, position: u64) -> Option<&str> {
        self.records.get(self.place(position)?).map(AsRef::as_ref)
    }

    /// What all records take.
    pub(super) fn cost(&self) -> u64 {
        records_cost(&self.records)
    }

    /// What the oldest records take.
    pub(super) fn cost_of_oldest(&self, count: usize) -> u64 {
        records_cost(self.records.iter().take(count))
    }

    pub(super) fn append(&mut self, records: &[String]) {
        self.records.extend(records.iter().map(|record| record.as_str().into()));
    }

    pub(super) fn replace_oldest(&mut self, count: usize, records: &[String]) {
        let count = count.min(self.records.len());
        self.first = self.first.saturating_add(count.saturating_sub(records.len()) as u64);
        drop(self.records.drain(..count));
        for record in records.iter().rev() {
            self.records.push_front(record.as_str().into());
        }
        self.let_go();
    }

    pub(super) fn rewrite(&mut self, records: &[PositionedRecord]) {
        for new in records {
            if let Some(record) = self.place(new.position).and_then(|place| self.records.get_mut(place)) {
                *record = new.text.as_str().into();
            }
        }
    }

    /// Drop all records, then append these.
    pub(super) fn reset(&mut self, records: &[String]) {
        self.first = self.next();
        self.records.clear();
        self.append(records);
        self.let_go();
    }

    pub(super) fn read(&self, step: &ReadOperation) -> LogRecords {
        let length = self.records.len();
        let mut room = Room::new(step.max_records, step.max_bytes);
        self.reply(match step.end {
            LogEnd::Oldest => 0..room.fitting(self.records.iter()),
            LogEnd::Newest => length - room.fitting(self.records.iter().rev())..length,
        })
    }

    /// The oldest of a log that is too long.
    pub(super) fn overflow(&self, step: &OverflowOperation) -> LogRecords {
        let is_over = self.records.len() as u64 > step.limit;
        let surplus = if is_over { self.surplus(step.keep, step.max_records) } else { 0 };
        self.reply(0..Room::new(surplus as u64, step.max_bytes).fitting(self.records.iter()))
    }

    pub(super) fn read_at(&self, step: &ReadAtOperation) -> LogSpans {
        let mut room = Room::new(MAX_RECORDS, step.max_bytes);
        let mut spans = Vec::new();
        for span in &step.spans {
            let end = span.position.saturating_add(span.count.into()).min(self.next());
            let (Some(from), Some(to)) = (self.place(span.position.max(self.first)), self.place(end)) else { continue };
            if from >= to {
                continue;
            }
            let fit = room.fitting(self.records.range(from..to));
            if fit == 0 {
                break;
            }
            let LogRecords { first, records, .. } = self.reply(from..from + fit);
            spans.push(SpanRecords { first, records });
        }
        LogSpans { extent: self.extent(), spans }
    }

    /// The records at these indices, which are within the log.
    fn reply(&self, range: Range<usize>) -> LogRecords {
        let first = if range.is_empty() { self.next() } else { self.first.saturating_add(range.start as u64) };
        let records = self.records.range(range).map(ToString::to_string).collect();
        LogRecords { extent: self.extent(), first, records }
    }

    /// The index of a position, if it is not before the first.
    fn place(&self, position: u64) -> Option<usize> {
        position.checked_sub(self.first).map(index)
    }

    /// A log that was long once would keep its queue for ever.
    fn let_go(&mut self) {
        if self.records.capacity() > 64 && self.records.capacity() / 4 > self.records.len() {
            self.records.shrink_to(self.records.len().saturating_mul(2));
        }
    }
}

/// What there is room for in a reply.
struct Room {
    records: u64,
    max_bytes: u64,
    /// Of what is in it, from the first record on.
    bytes: Option<u64>,
}

impl Room {
    fn new(max_records: u64, max_bytes: u64) -> Self {
        Self { records: max_records.min(MAX_RECORDS), max_bytes, bytes: None }
    }

    /// How many of these fit, one after the other. The very first record does, however long it is; after one that
    /// does not, there is no room for any.
    fn fitting<'a>(&mut self, records: impl Iterator<Item = &'a Box<str>>) -> usize {
        records.take_while(|record| self.takes(record.len() as u64)).count()
    }

    fn takes(&mut self, length: u64) -> bool {
        let bytes = self.bytes.unwrap_or(0).saturating_add(length);
        if self.records == 0 || (bytes > self.max_bytes && self.bytes.is_some()) {
            self.records = 0;
            return false;
        }
        self.records -= 1;
        self.bytes = Some(bytes);
        true
    }
}

pub(super) fn log_cost(name: &str) -> u64 {
    LOG_OVERHEAD.saturating_add(name.len() as u64)
}

pub(super) fn records_cost<T: AsRef<str>>(records: impl IntoIterator<Item = T>) -> u64 {
    records
        .into_iter()
        .fold(0, |sum: u64, record| sum.saturating_add(RECORD_OVERHEAD).saturating_add(record.as_ref().len() as u64))
}
