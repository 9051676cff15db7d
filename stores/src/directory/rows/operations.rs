//! Applies a transaction's operations, lease, and index steps to a bucket's rows, and answers them.
//!
//! Nothing is checked before the first write, unlike in memory: a transaction that can't be applied is rolled back.

use super::BucketRows;
use crate::{
    ChangedEntries, CounterValue, FoundDocuments, IndexStep, IndexedTransaction, Operation, Outcome,
    bucket::{Answers, BucketContents as _, add_to_counter, parse_counter},
    directory::error::TransactionError,
    index,
};

/// The longest counter, -2^63, has as many.
const COUNTER_BYTES: u64 = 20;

impl BucketRows<'_, '_> {
    /// Apply a transaction in order.
    pub(crate) fn apply(&self, transaction: &IndexedTransaction) -> Result<Answers, TransactionError> {
        let IndexedTransaction { lease, transaction, steps } = transaction;
        Ok(Answers {
            lease: lease.as_ref().map(|lease| self.apply_lease(lease)).transpose()?,
            outcomes: transaction.operations.iter().map(|step| self.apply_operation(step)).collect::<Result<_, _>>()?,
            found: steps.iter().map(|step| self.apply_index_step(step)).collect::<Result<_, _>>()?,
        })
    }

    /// Answer a transaction that was applied before.
    pub(crate) fn answer(&self, transaction: &IndexedTransaction) -> Result<Answers, TransactionError> {
        let IndexedTransaction { lease, transaction, steps } = transaction;
        Ok(Answers {
            lease: lease.as_ref().map(|lease| self.lease_state(lease)).transpose()?,
            outcomes: transaction
                .operations
                .iter()
                .map(|step| self.answer_operation(step))
                .collect::<Result<_, _>>()?,
            found: steps.iter().map(|step| self.answer_index_step(step)).collect::<Result<_, _>>()?,
        })
    }

    fn apply_operation(&self, operation: &Operation) -> Result<Outcome, TransactionError> {
        match operation {
            Operation::Set(set) => return Ok(Outcome::Changed(self.set(set)?)),
            Operation::Add(add) => {
                let found = self.entry_within(&add.map_name, &add.key, COUNTER_BYTES)?;
                // A longer one is no counter, and neither is an empty text.
                let text = found.map(|found| found.text.unwrap_or_default());
                let value = add_to_counter(text.as_deref(), add)?;
                self.set_entry(&add.map_name, &add.key, &value.to_string())?;
                return Ok(Outcome::Counter(CounterValue { value }));
            }
            Operation::Append(append) => self.append(append)?,
            Operation::ReplaceOldest(replace) => self.replace_oldest(replace)?,
            Operation::Rewrite(rewrite) => self.rewrite(rewrite)?,
            Operation::Get(_)
            | Operation::GetAll(_)
            | Operation::Read(_)
            | Operation::ReadAt(_)
            | Operation::Describe(_) => {}
        }
        Ok(self.answer_operation(operation)?)
    }

    /// Answer an operation from what is there and write nothing: for one that reads, its whole work.
    fn answer_operation(&self, operation: &Operation) -> Result<Outcome, rusqlite::Error> {
        Ok(match operation {
            Operation::Get(get) => Outcome::Entries(self.read_entries(get)?),
            Operation::GetAll(all) => Outcome::Entries(self.read_map(all)?),
            Operation::Set(_) => Outcome::Changed(ChangedEntries { added: 0, removed: 0 }),
            Operation::Add(add) => {
                let found = self.entry_within(&add.map_name, &add.key, COUNTER_BYTES)?;
                let value = found.and_then(|found| parse_counter(&found.text?)).unwrap_or_default();
                Outcome::Counter(CounterValue { value })
            }
            Operation::Append(append) => Outcome::Extent(self.log_extent(&append.log)?),
            Operation::ReplaceOldest(replace) => Outcome::Extent(self.log_extent(&replace.log)?),
            Operation::Rewrite(rewrite) => Outcome::Extent(self.log_extent(&rewrite.log)?),
            Operation::Read(read) => self.read_records(read)?,
            Operation::ReadAt(read) => Outcome::Records(self.read_at(read)?),
            Operation::Describe(describe) => Outcome::Described(self.describe(describe.parts)?),
        })
    }

    fn apply_index_step(&self, step: &IndexStep) -> Result<FoundDocuments, TransactionError> {
        match step {
            IndexStep::AddDocuments(add) => self.add_documents(add)?,
            IndexStep::RemoveDocuments(remove) => self.remove_documents(remove)?,
            IndexStep::Search(_) | IndexStep::ReadMarks(_) => {}
        }
        Ok(self.answer_index_step(step)?)
    }

    fn answer_index_step(&self, step: &IndexStep) -> Result<FoundDocuments, rusqlite::Error> {
        Ok(match step {
            IndexStep::AddDocuments(add) => index::found_nothing(self.index_extent(&add.index)?),
            IndexStep::RemoveDocuments(remove) => index::found_nothing(self.index_extent(&remove.index)?),
            IndexStep::Search(search) => self.search(search)?,
            IndexStep::ReadMarks(read) => self.read_marks(read)?,
        })
    }
}
