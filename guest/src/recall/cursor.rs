//! Tracks how far a transcript was indexed, and which records come next.

use std::ops::Range;

use crate::contract::{LogEnd, LogRun, Operation, Span, StoreLimits};
use crate::options::conversation::bounded;
use crate::recall::passage::PassageBatch;
use crate::text::json_values::parse_count;
use crate::text::timestamp::parse_milliseconds;
use crate::transcript::record::StoredRecord;
use crate::transcript::schema::TRANSCRIPT;

/// What one step reads of the transcript, and how many passages it makes, but for those of one more message.
const READ_RECORDS: u64 = 64;

const READ_BYTES: u64 = 2 << 20;

const PASSAGES_MAX: usize = 512;

/// Messages that one step reads once more.
const AGAIN: usize = 4;

/// Messages that are noted to be read once more; of others the new words are not recalled.
const AGAIN_MAX: usize = 256;

/// After so long without a word, or where what was said at other times was put together, something else is talked about.
const PAUSE: u64 = 4 * 3600 * 1000;

/// What may be next.
pub(crate) const READ_NEWEST_RECORDS: Operation<'static> =
    Operation::read(TRANSCRIPT, LogEnd::Newest, READ_RECORDS, READ_BYTES);

/// How far a transcript was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexCursor {
    /// The position to go on from.
    pub to: u64,
    /// Positions before it that are to be read once more.
    pub again: Vec<u64>,
}

impl IndexCursor {
    /// Of what can't be read: nothing was.
    pub(crate) fn parse(text: &str) -> Self {
        let mut numbers = text.split(' ').map_while(parse_count);
        Self { to: numbers.next().unwrap_or(0), again: numbers.collect() }
    }

    pub(crate) fn write(&self) -> String {
        let mut out = self.to.to_string();
        for position in &self.again {
            out.push(' ');
            keepline_json::push_number(&mut out, *position);
        }
        out
    }

    /// Note messages to be read once more, if they were read.
    pub(crate) fn schedule_reread(&mut self, positions: &[u64]) {
        for position in positions.iter().filter(|&&position| position < self.to) {
            if let Err(at) = self.again.binary_search(position) {
                self.again.insert(at, *position);
            }
        }
        self.again.truncate(AGAIN_MAX);
    }
}

/// A stretch of a transcript that is to be cut.
pub(crate) struct TranscriptStretch {
    read: IndexCursor,
    /// What is put off.
    later: Vec<u64>,
    newest: LogRun,
    spans: Vec<Span>,
    /// What no thread leads to.
    hidden: Vec<Range<u64>>,
    /// Where what can be read ends.
    end: u64,
}

/// What came of it.
pub(crate) struct CutStretch<'a> {
    pub cut: PassageBatch<'a>,
    pub read: IndexCursor,
    /// Whether there is more to read.
    pub is_more: bool,
}

impl TranscriptStretch {
    /// The next one. None: all was read. Hidden records are passed over; those at the end wait until their import is over.
    pub(crate) fn next_after(mut read: IndexCursor, newest: LogRun, hidden: Vec<Range<u64>>) -> Option<Self> {
        let later = read.again.split_off(read.again.len().min(AGAIN));
        let (first, next) = (newest.extent.first, newest.extent.next());
        let end = hidden.last().filter(|last| last.end == next).map_or(next, |last| last.start.clamp(first, next));
        read.to = read.to.clamp(first, next);
        if read.again.is_empty() && read.to >= end {
            return None;
        }
        let mut spans: Vec<_> = read.again.iter().map(|&position| Span { position, count: 1 }).collect();
        if spans.is_empty() && read.to < newest.first {
            // The message before tells whether something new begins.
            spans.push(Span { position: read.to.saturating_sub(1).max(newest.extent.first), count: 65 });
        }
        Some(Self { read, later, newest, spans, hidden, end })
    }

    /// What is to be read, if it is not among the newest records.
    pub(crate) fn read_operation(&self) -> Option<Operation<'_>> {
        (!self.spans.is_empty()).then_some(Operation::read_at(TRANSCRIPT, &self.spans, READ_BYTES))
    }

    /// Cut it; `runs` is what that operation has read.
    pub(crate) fn cut_records<'a>(
        self,
        runs: Option<Vec<LogRun>>,
        mut cut: PassageBatch<'a>,
        limits: StoreLimits,
    ) -> CutStretch<'a> {
        // Each is a record and its terms, of up to 2 KiB.
        let most = bounded(PASSAGES_MAX, (limits.call_pieces / 8).min(limits.call_bytes >> 12));
        let Self { read: IndexCursor { to, again }, later, newest, hidden, end, .. } = self;
        let is_hidden = |position: u64| hidden.iter().any(|hidden| hidden.contains(&position));
        let runs = runs.unwrap_or_else(|| vec![newest]);
        let mut next = to;
        for run in &runs {
            let mut before = None;
            for (position, text) in (run.first..).zip(&run.records) {
                if position >= end {
                    break;
                }
                let record = StoredRecord::parse(text).filter(|_| !is_hidden(position));
                let at = record.as_ref().and_then(|record| parse_milliseconds(&record.at));
                if again.is_empty() && position < to {
                    before = at.or(before);
                    continue;
                }
                if again.is_empty() && cut.passages.len() >= most {
                    break;
                }
                let is_first = (cut.begins && cut.passages.is_empty())
                    || before.zip(at).is_none_or(|(before, at)| at.abs_diff(before) > PAUSE);
                if let Some(record) = &record {
                    cut.add(position, record, is_first);
                }
                before = at.or(before);
                if again.is_empty() {
                    next = position + 1;
                }
            }
        }
        // What can't be read is passed over.
        if again.is_empty() && next == to {
            next = runs.last().map_or(end, |run| run.end().max(to + 1)).min(end);
        }
        let is_more = next < end || !again.is_empty();
        CutStretch { cut, read: IndexCursor { to: next, again: later }, is_more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::LogExtent;

    fn cursor(to: u64) -> IndexCursor {
        IndexCursor { to, again: Vec::new() }
    }

    fn newest(length: u64) -> LogRun {
        let record = |number: u64| format!(r#"{{"v":1,"turn":"t","role":"user","content":"word{number}","weight":1}}"#);
        LogRun { extent: LogExtent { first: 0, length }, first: 0, records: (0..length).map(record).collect() }
    }

    fn read(to: u64, hidden: &[(u64, u64)]) -> Option<(u64, usize)> {
        let stretch =
            TranscriptStretch::next_after(cursor(to), newest(6), hidden.iter().map(|(from, to)| *from..*to).collect())?;
        let cut = stretch.cut_records(None, PassageBatch::default(), StoreLimits::default());
        Some((cut.read.to, cut.cut.passages.len()))
    }

    #[test]
    fn hidden_records_are_not_indexed() {
        assert_eq!(read(0, &[]), Some((6, 6)));
        assert_eq!(read(0, &[(0, 2)]), Some((6, 4)));
        assert_eq!(read(0, &[(0, 2), (3, 4)]), Some((6, 3)));
    }

    #[test]
    fn records_of_an_import_under_way_wait_for_its_end() {
        assert_eq!(read(0, &[(4, 6)]), Some((4, 4)));
        assert_eq!(read(4, &[(4, 6)]), None);
        assert_eq!(read(4, &[]), Some((6, 2)));
    }
}
