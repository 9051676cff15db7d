//! Limits on the answers of a transaction, over all its operations and within one of them.

use crate::limits::{MAX_BYTES, MAX_PIECES, MAX_RECORDS, PIECE_BYTES};

/// Room for entries and records in the answers that are still to come.
#[derive(Debug)]
pub(crate) struct TransactionBudget {
    pieces: u64,
    bytes: u64,
}

impl TransactionBudget {
    /// That of a transaction before its first operation.
    pub(crate) fn new() -> Self {
        Self { pieces: MAX_PIECES, bytes: MAX_BYTES }
    }

    /// How many entries or records the next answer may have, where so many are asked for.
    pub(crate) fn pieces(&self, asked: u64) -> u64 {
        asked.min(MAX_RECORDS).min(self.pieces)
    }

    /// How many bytes the next answer may have.
    pub(crate) fn bytes(&self, asked: u64) -> u64 {
        asked.min(self.bytes)
    }

    /// The next answer has so many.
    pub(crate) fn consume(&mut self, pieces: u64, bytes: u64) {
        self.pieces = self.pieces.saturating_sub(pieces);
        self.bytes = self.bytes.saturating_sub(bytes.saturating_add(pieces.saturating_mul(PIECE_BYTES)));
    }

    /// How many of these records fit into the next answer, one after the other, and takes their room. The first does
    /// as long as there is any room, however long it is; after one that does not fit, none does.
    pub(super) fn take_fitting_records<'a>(
        &mut self,
        records: impl Iterator<Item = &'a Box<str>>,
        answer: &mut AnswerBudget,
    ) -> usize {
        let (mut count, mut sum) = (0, 0_u64);
        for record in records {
            let length = record.len() as u64;
            if !answer.try_take_record(length) {
                break;
            }
            count += 1;
            sum = sum.saturating_add(length);
        }
        self.consume(count, sum);
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    /// Room for the records of one answer.
    pub(crate) fn answer_budget(&self, max_records: u64, max_bytes: u64) -> AnswerBudget {
        let records = if self.bytes == 0 { 0 } else { self.pieces(max_records) };
        AnswerBudget { records, max_bytes: self.bytes(max_bytes), bytes: None }
    }
}

/// Room for the records of one answer.
#[derive(Debug)]
pub(crate) struct AnswerBudget {
    records: u64,
    max_bytes: u64,
    /// Of what is in it, from the first record on.
    bytes: Option<u64>,
}

impl AnswerBudget {
    /// Whether another record could fit.
    pub(crate) fn is_left(&self) -> bool {
        self.records > 0
    }

    /// Whether the next record fits. The very first one does, however long it is; after one that does not, none does.
    pub(crate) fn try_take_record(&mut self, length: u64) -> bool {
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
