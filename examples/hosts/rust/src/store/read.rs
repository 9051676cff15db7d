//! Operations that read, within the limits of a receipt.

use crate::bindings::types::{
    Entry, FoundEntries, GetAllOperation, GetOperation, LogRecords, MissingEntries, Outcome, ReadAtOperation,
    ReadOperation, RecordRun, Size,
};
use crate::store::check::PIECE_BYTES;
use crate::store::{Bucket, Log};

const REPLY_BYTES: u64 = 16 << 20;
const REPLY_PIECES: u64 = 20_000;
const REPLY_PIECES_EACH: u64 = 10_000;

/// What a receipt has room for still.
pub(super) struct Room {
    bytes: u64,
    pieces: u64,
}

impl Default for Room {
    fn default() -> Self {
        Self { bytes: REPLY_BYTES, pieces: REPLY_PIECES }
    }
}

impl Room {
    /// Take so many pieces with so many bytes, if there is room for all of them.
    fn take(&mut self, pieces: u64, bytes: u64) -> bool {
        let bytes = bytes + pieces * PIECE_BYTES;
        let fits = pieces <= self.pieces.min(REPLY_PIECES_EACH) && bytes <= self.bytes;
        if fits {
            self.pieces -= pieces;
            self.bytes -= bytes;
        }
        fits
    }

    /// How many entries or records an outcome may have, where so many are asked for.
    fn pieces(&self, asked: u64) -> u64 {
        asked.min(REPLY_PIECES_EACH).min(self.pieces)
    }

    /// Take a record after so many others of its outcome: the first as long as there is any room at all.
    fn take_record(&mut self, before: u64, bytes: u64) -> bool {
        if before == 0 && self.pieces > 0 && self.bytes > 0 {
            self.pieces -= 1;
            self.bytes = self.bytes.saturating_sub(bytes + PIECE_BYTES);
            return true;
        }
        before < REPLY_PIECES_EACH && self.take(1, bytes)
    }
}

fn found(entries: Vec<Entry>) -> FoundEntries {
    FoundEntries { entries, missing: None }
}

fn oversize(bytes: u64, entries: u64) -> FoundEntries {
    let missing =
        MissingEntries { unreadable: Vec::new(), cursor: String::new(), oversize: Some(Size { bytes, entries }) };
    FoundEntries { entries: Vec::new(), missing: Some(missing) }
}

fn length(text: &str) -> u64 {
    text.len() as u64
}

impl Bucket {
    pub(super) fn get(&self, get: &GetOperation, room: &mut Room) -> FoundEntries {
        let there = get.keys.iter().filter_map(|key| Some((key, self.text(&get.map_name, key)?)));
        let (count, texts) = there.clone().fold((0, 0), |(count, bytes), (_, text)| (count + 1, bytes + length(text)));
        let keys: u64 = there.clone().map(|(key, _)| length(key)).sum();
        if texts > get.max_bytes || !room.take(count, keys + texts) {
            return oversize(texts, count);
        }
        found(there.map(|(key, text)| Entry { key: key.clone(), text: text.clone() }).collect())
    }

    pub(super) fn get_all(&self, all: &GetAllOperation, room: &mut Room) -> FoundEntries {
        let entry = |(key, text): (&String, &String)| Entry {
            key: key.clone(),
            text: if all.keys_only { String::new() } else { text.clone() },
        };
        let size = |(key, text): (&String, &String)| length(key) + if all.keys_only { 0 } else { length(text) };
        let map = self.maps.get(&all.map_name).into_iter().flatten();
        let (count, bytes) = map.clone().fold((0, 0), |(count, bytes), one| (count + 1, bytes + size(one)));
        let Some(cursor) = &all.cursor else {
            if count > all.max_entries || bytes > all.max_bytes || !room.take(count, bytes) {
                return oversize(bytes, count);
            }
            return found(map.map(entry).collect());
        };
        // A page is a step forward, room or not.
        let max_entries = room.pieces(if all.max_entries == 0 { 100 } else { all.max_entries }).max(1);
        let mut missing = MissingEntries { unreadable: Vec::new(), cursor: String::new(), oversize: None };
        let (mut entries, mut used, mut last) = (Vec::new(), 0, cursor);
        let mut rest = map.filter(|(key, _)| *key > cursor);
        for one in rest.by_ref().take(usize::try_from(max_entries).unwrap_or(usize::MAX)) {
            let bytes = size(one);
            last = one.0;
            if used + bytes <= all.max_bytes && room.take(1, bytes) {
                used += bytes;
                entries.push(entry(one));
            } else {
                missing.unreadable.push(last.clone());
            }
        }
        if rest.next().is_some() {
            missing.cursor.clone_from(last);
        }
        let is_whole = missing.unreadable.is_empty() && missing.cursor.is_empty();
        FoundEntries { entries, missing: Some(missing).filter(|_| !is_whole) }
    }

    pub(super) fn read(&self, read: &ReadOperation, room: &mut Room) -> Outcome {
        let extent = self.extent(&read.log);
        let Some(log) = self.logs.get(&read.log).filter(|log| log.length() > read.only_over) else {
            return Outcome::Extent(extent);
        };
        let end = log.length().saturating_sub(read.leave);
        let wanted = read.max_records.min(end);
        let (mut run, mut used) = (RecordRun { first: 0, records: Vec::new() }, 0);
        for offset in 0..wanted {
            let index = if read.newest { end - 1 - offset } else { offset };
            let Some(record) = log.at(log.first + index) else { break };
            let bytes = length(record);
            let is_too_long = !run.records.is_empty() && used + bytes > read.max_bytes;
            if is_too_long || !room.take_record(run.records.len() as u64, bytes) {
                break;
            }
            used = used.saturating_add(bytes);
            if read.newest || run.records.is_empty() {
                run.first = log.first + index;
            }
            run.records.push(record.clone());
        }
        if run.records.is_empty() {
            return Outcome::Extent(extent);
        }
        if read.newest {
            run.records.reverse();
        }
        Outcome::Records(LogRecords { extent, runs: vec![run] })
    }

    pub(super) fn read_at(&self, read: &ReadAtOperation, room: &mut Room) -> Outcome {
        let extent = self.extent(&read.log);
        let (mut runs, mut used, mut pieces) = (Vec::new(), 0, 0);
        let absent = Log::default();
        let log = self.logs.get(&read.log).unwrap_or(&absent);
        'spans: for span in &read.spans {
            let start = span.position.max(log.first);
            let end = span.position.saturating_add(span.count.into()).min(log.first + log.length());
            let mut run = RecordRun { first: start, records: Vec::new() };
            for position in start..end {
                let Some(record) = log.at(position) else { break };
                let bytes = length(record);
                let is_too_long = pieces > 0 && used + bytes > read.max_bytes;
                if is_too_long || !room.take_record(pieces, bytes) {
                    runs.push(run);
                    break 'spans;
                }
                (used, pieces) = (used.saturating_add(bytes), pieces + 1);
                run.records.push(record.clone());
            }
            runs.push(run);
        }
        runs.retain(|run| !run.records.is_empty());
        Outcome::Records(LogRecords { extent, runs })
    }
}

impl Log {
    fn at(&self, position: u64) -> Option<&String> {
        self.records.get(usize::try_from(position.checked_sub(self.first)?).ok()?)
    }
}
