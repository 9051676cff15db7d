//! Finds where to append a step whose expected parent no longer matches.
//!
//! Reads the message that the step follows and the turn around it, in two waits, and more for a turn of many records.

use crate::answer::turn_records::TurnRecords;
use crate::contract::{Host, LogEnd, LogRun, Operation, Problem, Span, Transaction};
use crate::entry::turn_token::ForkPoint;
use crate::store;
use crate::store::Outcomes;
use crate::text::json_values::parse_count;
use crate::transcript::record::{RecordKind, Role, StoredRecord};
use crate::transcript::schema::{MESSAGES, TRANSCRIPT};
use crate::transcript::thread::Branches;
use crate::transcript::turns::{Turn, group_into_turns};

/// Records before a message, and after it, among which its turn is looked for.
const LOOK_BACK: u64 = 256;

const LOOK_AHEAD: u32 = 256;

const LOOK_BYTES: u64 = 1 << 20;

/// How often more is read where a turn is longer than that, and how many records at a time.
const ROUNDS: u32 = 8;

const MORE_RECORDS: u64 = 1024;

/// A message, and the records around it.
pub(crate) struct LocatedMessage {
    pub position: u64,
    /// The position of the log's oldest record.
    first: u64,
    /// The position that the next record gets.
    pub next: u64,
    runs: Vec<LogRun>,
}

/// The turn that a question began.
pub(crate) struct QuestionTurn {
    /// Its id.
    pub turn: String,
    /// Whether a call lacks its result.
    pub is_open: bool,
    /// Whether it has its answer.
    pub is_answered: bool,
    /// Whether it has all that the step has: the answer to the letter, and the same calls.
    pub is_repeated: bool,
    /// Where another answer to the question goes; none: the question's message is not there.
    pub fork: Option<ForkPoint>,
    /// After its last record.
    pub end: ForkPoint,
}

impl LocatedMessage {
    /// Where to look: the bucket and its precondition are those of `transaction`. `None`: the message is unknown.
    pub(crate) fn find_by_key(
        host: &impl Host,
        transaction: &Transaction<'_>,
        key: &str,
    ) -> Result<Option<Self>, Box<Problem>> {
        let marked = read_existing(host, transaction, &[Operation::get(MESSAGES, &key, 32)])?.take_text()?;
        let Some(position) = marked.as_deref().and_then(parse_count) else { return Ok(None) };
        // With an id of its own, a turn's answer comes after the message.
        let ahead = Span { position: position + 1, count: LOOK_AHEAD };
        let back = Branches::default().newest_spans(position, 0, LOOK_BACK);
        let spans: Vec<_> = [ahead].into_iter().chain(back).collect();
        let read =
            [Operation::read(TRANSCRIPT, LogEnd::Newest, 0, 0), Operation::read_at(TRANSCRIPT, &spans, LOOK_BYTES)];
        let mut outcomes = read_existing(host, transaction, &read)?;
        let extent = outcomes.take_records()?.extent;
        let (first, next, runs) = (extent.first, extent.next(), outcomes.take_spans()?);
        Ok((first..next).contains(&position).then_some(Self { position, first, next, runs }))
    }

    /// Reads on until the turn of the message is whole: back to its question, or to where it begins, and ahead to its answer.
    /// A turn has as many records as its tools made, and others may lie between.
    pub(crate) fn read_turn(&mut self, host: &impl Host, transaction: &Transaction<'_>) -> Result<(), Box<Problem>> {
        for _ in 0..ROUNDS {
            let Some(spans) = self.missing() else { break };
            let read = [Operation::read_at(TRANSCRIPT, &spans, LOOK_BYTES)];
            let more = read_existing(host, transaction, &read)?.take_spans()?;
            if more.iter().all(|run| run.records.is_empty()) {
                break;
            }
            self.runs.extend(more);
        }
        Ok(())
    }

    /// What is to be read next for the turn to be whole. None: it is, or all was read.
    fn missing(&self) -> Option<Vec<Span>> {
        let (low, high) = self.covered();
        let back = |from: u64, count: u64| Branches::default().newest_spans(from, self.first, count);
        if low == high {
            return Some(back(self.position, LOOK_BACK));
        }
        let records = self.records();
        let turn = &records.iter().find(|(at, _)| *at == self.position)?.1.turn;
        let mut of_turn = records.iter().filter(|(at, record)| (low..high).contains(at) && record.turn == *turn);
        let has_beginning = of_turn.clone().any(|(at, record)| {
            *at <= self.position && (record.begins || (record.kind == RecordKind::Message && record.role == Role::User))
        });
        if !has_beginning && low > self.first {
            return Some(back(low - 1, MORE_RECORDS));
        }
        if high < self.next && !of_turn.any(|(_, record)| is_said(record)) {
            let count = u32::try_from(MORE_RECORDS.min(self.next - high)).unwrap_or(u32::MAX);
            return Some(vec![Span { position: high, count }]);
        }
        None
    }

    /// The positions around the message that were read without a gap: from the first to before the second. The same: not
    /// even itself.
    fn covered(&self) -> (u64, u64) {
        let (mut low, mut high) = (self.position, self.position);
        loop {
            let before = (low, high);
            for run in &self.runs {
                if run.first <= high && run.end() >= low {
                    (low, high) = (low.min(run.first), high.max(run.end()));
                }
            }
            if before == (low, high) {
                return before;
            }
        }
    }

    /// The position that the next record gets.
    pub(crate) fn next_position(host: &impl Host, transaction: &Transaction<'_>) -> Result<u64, Box<Problem>> {
        let read = [Operation::read(TRANSCRIPT, LogEnd::Newest, 0, 0)];
        Ok(read_existing(host, transaction, &read)?.take_records()?.extent.next())
    }

    /// All that was read, oldest first.
    fn records(&self) -> Vec<(u64, StoredRecord<'_>)> {
        let mut runs: Vec<&LogRun> = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            runs.insert(runs.partition_point(|earlier| earlier.first <= run.first), run);
        }
        let mut records = Vec::new();
        for run in runs {
            for (at, text) in (run.first..).zip(&run.records) {
                records.extend(StoredRecord::parse(text).map(|record| (at, record)));
            }
        }
        // Runs may overlap.
        records.dedup_by_key(|(at, _)| *at);
        records
    }

    /// What the thread weighs up to the message, as its turn knew it.
    pub(crate) fn thread_weight(&self) -> u64 {
        let mut sum = 0;
        for (_, record) in self.records().iter().rev().filter(|(at, _)| *at <= self.position) {
            sum += record.weight;
            if let Some(before) = record.total {
                return before.saturating_add(sum);
            }
        }
        sum
    }

    /// The turn that the message is a part of, and whether it has this step. None: the message can't be read.
    pub(crate) fn question_turn(&self, step: Option<&TurnRecords<'_>>) -> Option<QuestionTurn> {
        let records = self.records();
        let (_, last) = records.iter().find(|(at, _)| *at == self.position)?;
        let of_turn: Vec<_> =
            records.iter().filter(|(_, record)| record.turn == last.turn).map(|(at, record)| (*at, record)).collect();
        let is_open = group_into_turns(&of_turn, 0).first().is_some_and(Turn::is_open);
        let fork_after = |after: u64| {
            let up_to = of_turn.iter().take_while(|(at, _)| *at <= after);
            let total = up_to.map(|(_, record)| record.total.unwrap_or(0) + record.weight).sum();
            ForkPoint { after, total, next: self.next }
        };
        let before = of_turn.iter().rev().skip_while(|(at, _)| *at > self.position);
        // A turn that was continued may have another one.
        let question =
            before.clone().find(|(_, record)| record.kind == RecordKind::Message && record.role == Role::User);
        let fork = question.map(|(after, _)| fork_after(*after));
        let end = fork_after(of_turn.last().map_or(self.position, |(at, _)| *at));
        let is_answered = !is_open && of_turn.iter().any(|(_, record)| is_said(record));
        let is_repeated = step.is_none_or(|step| step.is_among(of_turn.iter().map(|(_, record)| *record)));
        Some(QuestionTurn { turn: last.turn.to_string(), is_open, is_answered, is_repeated, fork, end })
    }
}

fn is_said(record: &StoredRecord<'_>) -> bool {
    record.kind == RecordKind::Message && record.role == Role::Assistant
}

/// Reads from the bucket of a transaction, which has to be there.
fn read_existing(
    host: &impl Host,
    Transaction { bucket, precondition, .. }: &Transaction<'_>,
    operations: &[Operation<'_>],
) -> Result<Outcomes, Box<Problem>> {
    store::read_bucket(host, *bucket, *precondition, operations)?.ok_or_else(Problem::out_of_turn)
}
