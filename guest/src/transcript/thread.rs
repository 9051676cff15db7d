//! Threads: the records that lead to a message.
//!
//! A thread is found by going back from its last record, to the one before it in the log or to where the record's branch begins, so
//! that records of other branches are never met. Map `branches` has the positions where branches begin, so that what lies far back
//! can be read by spans.
//!
//! Promises to end, whatever is stored: each step goes back. A record that is missing ends the thread, which then counts as
//! incomplete.

use keepline_json as json;
use std::ops::Range;

use crate::contract::{Entry, LogRun, Span};
use crate::text::json_values::parse_count;
use crate::transcript::record::{RecordKind, StoredRecord, is_user_message};

/// Records of a log: runs of them, each with the position of its first.
#[derive(Debug, Default)]
pub(crate) struct ReadRecords<'a> {
    runs: Vec<(u64, &'a [String])>,
    /// The position of the log's oldest record.
    pub first: u64,
}

impl<'a> ReadRecords<'a> {
    pub(crate) fn add(&mut self, run: &'a LogRun) {
        self.first = run.extent.first;
        self.runs.push((run.first, &run.records));
    }

    /// What was read at a position, as it is stored.
    pub(crate) fn text(&self, position: u64) -> Option<&'a str> {
        let at = |first: u64| usize::try_from(position.checked_sub(first)?).ok();
        self.runs.iter().find_map(|(first, records)| records.get(at(*first)?).map(String::as_str))
    }

    /// What comes before the question whose turn holds the record at `position`. None: nothing, or it was not read.
    pub(crate) fn before_question(&self, branches: &Branches, position: u64) -> Option<u64> {
        let mut at = position;
        loop {
            let record = StoredRecord::parse(self.text(at)?)?;
            let before = branches.before(at, record.after);
            if record.begins || is_user_message(&record) {
                return before;
            }
            at = before?;
        }
    }
}

/// Where branches begin, in ascending order, and the positions that they go on from.
#[derive(Debug, Default)]
pub(crate) struct Branches(Vec<(u64, u64)>);

impl Branches {
    pub(crate) fn of(entries: &[Entry]) -> Self {
        let read =
            |entry: &Entry| Some((parse_count(&entry.key)?, json::member(&entry.text, "after").and_then(parse_count)?));
        let mut all = Self::default();
        for (begin, after) in entries.iter().filter_map(read) {
            let at = all.0.partition_point(|(other, _)| *other < begin);
            all.0.insert(at, (begin, after));
        }
        all
    }

    /// Those that leave out these stretches of a log.
    pub(crate) fn skipping(hidden: &[Range<u64>]) -> Self {
        // Without one before, it goes on from itself: from nothing.
        let branch = |hidden: &Range<u64>| (hidden.end, hidden.start.checked_sub(1).unwrap_or(hidden.end));
        Self(hidden.iter().map(branch).collect())
    }

    /// The last branch that begins no later.
    fn last(&self, position: u64) -> Option<(u64, u64)> {
        let count = self.0.partition_point(|(begin, _)| *begin <= position);
        self.0.get(count.checked_sub(1)?).copied()
    }

    /// Whether all that follows this record is in one branch.
    pub(crate) fn is_linear_after(&self, position: u64) -> bool {
        self.0.last().is_none_or(|(begin, _)| *begin <= position)
    }

    /// Where the branch goes on from that begins here.
    pub(crate) fn fork_position(&self, position: u64) -> Option<u64> {
        self.last(position).filter(|(begin, _)| *begin == position).map(|(_, after)| after)
    }

    /// What comes before a record that says `after`: each goes back.
    fn before(&self, position: u64, after: Option<u64>) -> Option<u64> {
        match after.or_else(|| self.fork_position(position)) {
            Some(after) => Some(after).filter(|after| *after < position),
            None => position.checked_sub(1),
        }
    }

    /// How a branch is written.
    pub(crate) fn write_entry(after: u64, total: u64) -> String {
        format!("{{\"after\":{after},\"total\":{total}}}")
    }

    /// The newest records of the thread that ends at `position`, as spans of a few each, the newest first: a store
    /// leaves out what comes after it has enough.
    pub(crate) fn newest_spans(&self, position: u64, oldest: u64, most: u64) -> Vec<Span> {
        const PIECE: u64 = 16;
        let (mut spans, mut left, mut end) = (Vec::new(), most, position);
        while left > 0 && end >= oldest {
            let begin = self.last(end);
            let start = begin.map_or(oldest, |(begin, _)| begin).max(oldest);
            let count = (end - start + 1).min(PIECE).min(left);
            let from = end + 1 - count;
            spans.push(Span { position: from, count: u32::try_from(count).unwrap_or(0) });
            left -= count;
            end = match begin {
                _ if from > start => from - 1,
                Some((begin, after)) if after < begin => after,
                _ => break,
            };
        }
        spans
    }

    /// The records from `from` on of the thread that ends at `end`, as spans of a few each, the oldest first; no more than
    /// `most`.
    pub(crate) fn spans_from(&self, from: u64, end: u64, most: u64) -> Vec<Span> {
        const PIECE: u64 = 16;
        let (mut stretches, mut last) = (Vec::new(), end);
        while last >= from {
            let begin = self.last(last);
            stretches.push((begin.map_or(from, |(begin, _)| begin).max(from), last));
            match begin {
                Some((begin, after)) if after < begin && begin > from => last = after,
                _ => break,
            }
        }
        let (mut spans, mut left) = (Vec::new(), most);
        for (mut start, last) in stretches.into_iter().rev() {
            while start <= last && left > 0 {
                let count = (last - start + 1).min(PIECE).min(left);
                spans.push(Span { position: start, count: u32::try_from(count).unwrap_or(0) });
                (start, left) = (start + count, left - count);
            }
        }
        spans
    }

    /// Whether another branch leaves the thread that ends at `end` at `from` or later.
    pub(crate) fn has_fork_after(&self, from: u64, end: u64) -> bool {
        let leaves = |&(begin, after): &(u64, u64)| {
            (from..end).contains(&after) && self.is_on_thread(end, after) && !self.is_on_thread(end, begin)
        };
        // Or what follows in the log is of another one.
        self.0.iter().any(leaves)
            || self.0.iter().any(|&(begin, after)| begin <= end && (from..begin).contains(&after) && after + 1 < begin)
    }

    /// Whether the thread that ends at `position` holds the record at `wanted`.
    pub(crate) fn is_on_thread(&self, position: u64, wanted: u64) -> bool {
        let mut end = position;
        loop {
            let begin = self.last(end);
            if (begin.map_or(0, |(begin, _)| begin)..=end).contains(&wanted) {
                return true;
            }
            match begin {
                Some((begin, after)) if after < begin && wanted <= after => end = after,
                _ => return false,
            }
        }
    }
}

/// The records that lead to a message.
#[derive(Debug, Default)]
pub(crate) struct ConversationThread<'a> {
    /// The newest first.
    records: Vec<(u64, StoredRecord<'a>)>,
    /// How many can't be read: they are passed over.
    pub unreadable: u64,
    /// The newest of its records that is not among them, if the log holds more of it than they are.
    pub older: Option<u64>,
    /// If it ends where reading did: the position that would come next, if the log holds it.
    pub missing: Option<u64>,
}

impl<'a> ConversationThread<'a> {
    /// All that was read of that of the record at `position`; of none, nothing.
    pub(crate) fn from_records(read: &ReadRecords<'a>, branches: &Branches, position: Option<u64>) -> Self {
        Self::newest_of(read, branches, position, u64::MAX)
    }

    /// Its newest turns that weigh `enough` together. Where there are results of tools among them, all: the window may
    /// hold more turns when it does not show those.
    pub(crate) fn newest_of(read: &ReadRecords<'a>, branches: &Branches, position: Option<u64>, enough: u64) -> Self {
        let mut thread = Self { missing: position, ..Self::default() };
        thread.go_back(read, branches, enough);
        thread
    }

    /// Read on where it ends, in runs that were fetched for it.
    pub(crate) fn extend_with(
        &mut self,
        runs: &'a [LogRun],
        read: &mut ReadRecords<'a>,
        branches: &Branches,
        enough: u64,
    ) {
        runs.iter().for_each(|run| read.add(run));
        self.go_back(read, branches, enough);
    }

    fn go_back(&mut self, read: &ReadRecords<'a>, branches: &Branches, enough: u64) {
        let mut next = self.missing.take();
        if next.is_some() {
            self.older = None;
        }
        let mut weight = self.records.iter().fold(0_u64, |sum, (_, record)| sum.saturating_add(record.weight));
        let mut has_results = self.records.iter().any(|(_, record)| record.kind == RecordKind::ToolResult);
        while let Some(at) = next {
            if at < read.first {
                // Retention took it: what is left is all there is.
                break;
            }
            let Some(text) = read.text(at) else {
                (self.missing, self.older) = (Some(at), Some(at));
                return;
            };
            let mut after = None;
            if let Some(record) = StoredRecord::parse(text) {
                weight = weight.saturating_add(record.weight);
                has_results |= record.kind == RecordKind::ToolResult;
                after = record.after;
                let is_enough = record.begins && weight >= enough && !has_results;
                self.records.push((at, record));
                if is_enough {
                    self.older = branches.before(at, after).filter(|older| *older >= read.first);
                    return;
                }
            } else {
                self.unreadable += 1;
            }
            next = branches.before(at, after);
        }
    }

    /// Its records with their positions, oldest first.
    pub(crate) fn records(&self) -> Vec<(u64, &StoredRecord<'a>)> {
        self.records.iter().rev().map(|(position, record)| (*position, record)).collect()
    }

    /// Whether it has none.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Whether there is a turn among its records that was read from its beginning and has something to show.
    pub(crate) fn has_whole_turn(&self) -> bool {
        let mut is_shown = false;
        self.records.iter().any(|(_, record)| {
            is_shown |= match record.kind {
                RecordKind::Message | RecordKind::Instruction => record.has_content(),
                RecordKind::ToolCall => true,
                RecordKind::ToolResult | RecordKind::Other => false,
            };
            record.begins && is_shown
        })
    }

    /// Whether the record at a position, if it is the last, may be what this id names: it, or its turn.
    pub(crate) fn ends_with(&self, position: u64, id: &str) -> bool {
        let Some((_, last)) = self.records.first().filter(|(at, _)| *at == position) else { return true };
        let is_named = |record: &StoredRecord<'_>| record.turn == last.turn && record.id.as_deref() == Some(id);
        last.id.is_none() || self.records.iter().any(|(_, record)| is_named(record))
    }

    /// How many records were read for it.
    pub(crate) fn count(&self) -> u64 {
        self.records.len() as u64 + self.unreadable
    }

    /// What its records weigh.
    pub(crate) fn weight(&self) -> u64 {
        self.records.iter().map(|(_, record)| record.weight).sum()
    }

    /// What the thread weighs: as the newest turn that knows what came before it has it.
    pub(crate) fn total_weight(&self) -> u64 {
        let mut sum = 0;
        for (_, record) in &self.records {
            sum += record.weight;
            if let Some(before) = record.total {
                return before.saturating_add(sum);
            }
        }
        sum
    }
}
