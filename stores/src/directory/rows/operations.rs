//! Applies each operation to a bucket's rows, and answers it.
//!
//! Nothing is checked before the first write, unlike in memory: a transaction that can't be applied is rolled back.

use super::BucketRows;
use crate::{
    CounterValue, EntryCount, Operation, Outcome, PositionMark,
    bucket::{BucketContents as _, increment_counter, parse_counter},
    directory::error::TransactionError,
};

/// The longest counter, -2^63, has as many.
const COUNTER_BYTES: u64 = 20;

impl BucketRows<'_, '_> {
    /// Apply operations in order.
    pub(crate) fn apply_operations(&self, operations: &[Operation]) -> Result<Vec<Outcome>, TransactionError> {
        operations.iter().map(|operation| self.apply_one(operation)).collect()
    }

    /// Answer operations that write nothing, or that were applied before.
    pub(crate) fn answer_operations(&self, operations: &[Operation]) -> Result<Vec<Outcome>, TransactionError> {
        operations.iter().map(|operation| Ok(self.answer_operation(operation)?)).collect()
    }

    fn apply_one(&self, operation: &Operation) -> Result<Outcome, TransactionError> {
        match operation {
            Operation::Put(put) => return Ok(changed_outcome(self.set_all(&put.map_name, &put.entries)?)),
            Operation::Increment(increment) => {
                let found = self.entry_within(&increment.map_name, &increment.key, COUNTER_BYTES)?;
                // A longer one is no counter, and neither is an empty text.
                let text = found.map(|found| found.text.unwrap_or_default());
                let value = increment_counter(text.as_deref(), increment)?;
                self.set_entry(&increment.map_name, &increment.key, &value.to_string())?;
                return Ok(Outcome::Counter(CounterValue { value }));
            }
            Operation::Remove(remove) => return Ok(changed_outcome(self.remove(&remove.map_name, &remove.keys)?)),
            Operation::ResetMap(reset) => return Ok(changed_outcome(self.reset_map(reset)?)),
            Operation::Append(append) => {
                let first = self.append(&append.log, &append.records)?;
                self.write_position_marks(first, &append.marks)?;
            }
            Operation::ResetLog(reset) => {
                let first = self.reset_log(reset)?;
                self.write_position_marks(first, &reset.marks)?;
            }
            Operation::ReplaceOldest(replace) => self.replace_oldest(replace)?,
            Operation::Rewrite(rewrite) => self.rewrite(rewrite)?,
            Operation::Lease(lease) => self.apply_lease(lease)?,
            Operation::Post(post) => self.post_documents(post)?,
            Operation::Unpost(unpost) => self.unpost_documents(unpost)?,
            Operation::Get(_)
            | Operation::GetAll(_)
            | Operation::Page(_)
            | Operation::Read(_)
            | Operation::ReadAt(_)
            | Operation::Overflow(_)
            | Operation::Match(_)
            | Operation::Describe(_) => {}
        }
        Ok(self.answer_operation(operation)?)
    }

    /// Answer an operation from what is there and write nothing: for one that reads, its whole work.
    fn answer_operation(&self, operation: &Operation) -> Result<Outcome, rusqlite::Error> {
        Ok(match operation {
            Operation::Get(get) => self.read_entries(&get.map_name, &get.keys, get.max_bytes)?,
            Operation::GetAll(all) => self.read_all_entries(&all.map_name, all.max_entries, all.max_bytes)?,
            Operation::Page(page) => Outcome::Page(self.page(page)?),
            Operation::Put(_) | Operation::Remove(_) | Operation::ResetMap(_) => changed_outcome(0),
            Operation::Increment(increment) => {
                let found = self.entry_within(&increment.map_name, &increment.key, COUNTER_BYTES)?;
                let value = found.and_then(|found| parse_counter(&found.text?)).unwrap_or_default();
                Outcome::Counter(CounterValue { value })
            }
            Operation::Append(append) => Outcome::Extent(self.log_extent(&append.log)?),
            Operation::ReplaceOldest(replace) => Outcome::Extent(self.log_extent(&replace.log)?),
            Operation::Rewrite(rewrite) => Outcome::Extent(self.log_extent(&rewrite.log)?),
            Operation::ResetLog(reset) => Outcome::Extent(self.log_extent(&reset.log)?),
            Operation::Read(read) => Outcome::Records(self.read_records(read)?),
            Operation::Overflow(overflow) => match self.read_overflow(overflow)? {
                Some(surplus) => Outcome::Records(surplus),
                None => Outcome::Extent(self.log_extent(&overflow.log)?),
            },
            Operation::ReadAt(read) => Outcome::Spans(self.read_at(read)?),
            Operation::Lease(lease) => Outcome::Lease(self.lease_state(lease)?),
            Operation::Describe(describe) => Outcome::Described(self.describe(describe.parts)?),
            Operation::Post(post) => Outcome::Indexed(self.index_extent(&post.index)?),
            Operation::Unpost(unpost) => Outcome::Indexed(self.index_extent(&unpost.index)?),
            Operation::Match(step) => Outcome::Matches(self.find_matches(step)?),
        })
    }

    fn write_position_marks(&self, first: u64, marks: &[PositionMark]) -> Result<(), rusqlite::Error> {
        for mark in marks {
            let position = first.saturating_add(mark.record_index.into());
            self.set_entry(&mark.map_name, &mark.key, &position.to_string())?;
        }
        Ok(())
    }
}

fn changed_outcome(count: u64) -> Outcome {
    Outcome::Changed(EntryCount { count })
}
