//! Tracks how far a transcript was indexed, and which records come next.

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
}

/// What came of it.
pub(crate) struct CutStretch<'a> {
    pub cut: PassageBatch<'a>,
    pub read: IndexCursor,
    /// Whether there is more to read.
    pub is_more: bool,
}

impl TranscriptStretch {
    /// The next one. None: all was read.
    pub(crate) fn next_after(mut read: IndexCursor, newest: LogRun) -> Option<Self> {
        let later = read.again.split_off(read.again.len().min(AGAIN));
        read.to = read.to.clamp(newest.extent.first, newest.extent.next());
        if read.again.is_empty() && read.to == newest.extent.next() {
            return None;
        }
        let mut spans: Vec<_> = read.again.iter().map(|&position| Span { position, count: 1 }).collect();
        if spans.is_empty() && read.to < newest.first {
            // The message before tells whether something new begins.
            spans.push(Span { position: read.to.saturating_sub(1).max(newest.extent.first), count: 65 });
        }
        Some(Self { read, later, newest, spans })
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
        let Self { read: IndexCursor { to, again }, later, newest, .. } = self;
        let end = newest.extent.next();
        let runs = runs.unwrap_or_else(|| vec![newest]);
        let mut next = to;
        for run in &runs {
            let mut before = None;
            for (position, text) in (run.first..).zip(&run.records) {
                let record = StoredRecord::parse(text);
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
            next = runs.last().map_or(end, |run| (run.first + run.records.len() as u64).max(to + 1));
        }
        let is_more = next < end || !again.is_empty();
        CutStretch { cut, read: IndexCursor { to: next, again: later }, is_more }
    }
}
