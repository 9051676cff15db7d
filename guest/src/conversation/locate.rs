//! Where a step goes that can't go where it seemed to: the message that it follows is found, and its turn looked at.

use super::record::{Kind, Record, Role, integer};
use super::state::Fork;
use super::thread::Branches;
use super::turns::{Turn, turns};
use super::{MESSAGES, TRANSCRIPT};
use crate::reply::{self, Outcomes};
use crate::store::{Failure, Host, LogEnd, LogRecords, Operation, Receipt, Span, Transaction};

/// Records before a message, and after it, among which its turn is looked for.
const LOOK_BACK: u64 = 256;
const LOOK_AHEAD: u32 = 256;
const LOOK_BYTES: u64 = 1 << 20;

/// A message, and the records around it.
pub(super) struct Located {
    pub position: u64,
    /// The position that the next record gets.
    pub next: u64,
    runs: Vec<LogRecords>,
}

/// The turn that a question began.
pub(super) struct Asked {
    /// Its id.
    pub turn: String,
    /// Whether a call lacks its result.
    pub is_open: bool,
    /// Whether it has its answer.
    pub is_answered: bool,
    /// Whether it has the answer that was looked for, to the letter, or one without a text was looked for.
    pub is_repeated: bool,
    /// Where another answer to the question goes; none: the question's message is not there.
    pub fork: Option<Fork>,
}

impl Located {
    /// Where to look: the bucket and its opening are those of `transaction`. None: nobody knows that message.
    pub(super) fn find(host: &impl Host, transaction: &Transaction<'_>, key: &str) -> Result<Option<Self>, Failure> {
        let get = [Operation::Get { map: MESSAGES, key, max_bytes: 32 }];
        let receipt = look(host, &Transaction { operations: &get, ..*transaction })?;
        let Some(position) = Outcomes::of(receipt).text()?.as_deref().and_then(integer) else { return Ok(None) };
        // With an id of its own, a turn's answer comes after the message.
        let ahead = Span { position: position + 1, count: LOOK_AHEAD };
        let back = Branches::default().spans(position, 0, LOOK_BACK);
        let spans: Vec<_> = [ahead].into_iter().chain(back).collect();
        let read = [
            Operation::Read { log: TRANSCRIPT, end: LogEnd::Newest, max_records: 0, max_bytes: 0 },
            Operation::ReadSpans { log: TRANSCRIPT, spans: &spans, max_bytes: LOOK_BYTES },
        ];
        let mut outcomes = Outcomes::of(look(host, &Transaction { operations: &read, ..*transaction })?);
        let extent = outcomes.records()?.extent;
        let runs = outcomes.spans()?;
        let next = extent.next();
        Ok((extent.first..next).contains(&position).then_some(Self { position, next, runs }))
    }

    /// The position that the next record gets.
    pub(super) fn next(host: &impl Host, transaction: &Transaction<'_>) -> Result<u64, Failure> {
        let read = [Operation::Read { log: TRANSCRIPT, end: LogEnd::Newest, max_records: 0, max_bytes: 0 }];
        let receipt = look(host, &Transaction { operations: &read, ..*transaction })?;
        Ok(Outcomes::of(receipt).records()?.extent.next())
    }

    fn records(&self) -> Vec<(u64, Record<'_>)> {
        let runs = self.runs.iter().rev();
        let texts = runs.flat_map(|run| (run.first..).zip(&run.records));
        texts.filter_map(|(at, text)| Some((at, Record::parse(text)?))).collect()
    }

    /// What the thread weighs up to the message, as its turn knew it.
    pub(super) fn total(&self) -> u64 {
        let mut sum = 0;
        for (_, record) in self.records().iter().rev().filter(|(at, _)| *at <= self.position) {
            sum += record.weight;
            if let Some(before) = record.total {
                return before.saturating_add(sum);
            }
        }
        sum
    }

    /// The turn that the message is a part of, and whether it has this answer. None: it can't be read.
    pub(super) fn asked(&self, answer: Option<&str>) -> Option<Asked> {
        let records = self.records();
        let (_, last) = records.iter().find(|(at, _)| *at == self.position)?;
        let of_turn: Vec<_> =
            records.iter().filter(|(_, record)| record.turn == last.turn).map(|(at, record)| (*at, record)).collect();
        let is_open = turns(&of_turn, 0).first().is_some_and(Turn::is_open);
        let is_said = |record: &Record<'_>| record.kind == Kind::Message && record.role == Role::Assistant;
        let mut before = of_turn.iter().rev().skip_while(|(at, _)| *at > self.position);
        // A turn that was continued may have another one.
        let question = before.find(|(_, record)| record.kind == Kind::Message && record.role == Role::User);
        let fork = question.map(|(after, record)| {
            let earlier = before.map(|(_, record)| record);
            let total =
                [record].into_iter().chain(earlier).map(|record| record.total.unwrap_or(0) + record.weight).sum();
            Fork { after: *after, total, next: self.next }
        });
        let is_answered = !is_open && of_turn.iter().any(|(_, record)| is_said(record));
        let is_same = |answer: &str| of_turn.iter().any(|(_, record)| is_said(record) && *record.content == *answer);
        let is_repeated = answer.is_none_or(is_same);
        Some(Asked { turn: last.turn.to_string(), is_open, is_answered, is_repeated, fork })
    }
}

fn look(host: &impl Host, transaction: &Transaction<'_>) -> Result<Receipt, Failure> {
    let receipt = reply::transact(host, transaction)?;
    if receipt.is_applied() { Ok(receipt) } else { Err(Failure::out_of_turn()) }
}
