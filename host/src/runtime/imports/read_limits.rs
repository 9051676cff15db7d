//! Bounds what the reads of a call bring into the host.

use wasmtime::bail;

use crate::store::{IndexStep, IndexedTransaction, Operation, limits::MAX_RANGES};

/// What the marks of a position take.
const MARK_BYTES: u64 = 2;

/// Lowers the limits of all reads so far that what they bring together is no more than that, which is asked for if there
/// are any. Else one value, stored once and read ten thousand times, would fill the host's memory.
pub(super) fn limit_reads(
    transactions: &mut [IndexedTransaction],
    max_bytes: impl FnOnce() -> wasmtime::Result<u64>,
) -> wasmtime::Result<()> {
    let (mut reads, mut ranges) = (0_u64, 0);
    for read in transactions.iter_mut().flat_map(BoundedRead::all_of) {
        reads += 1;
        ranges += u64::from(read.is_range);
    }
    if reads == 0 {
        return Ok(());
    }
    if ranges > MAX_RANGES {
        bail!("it asked for more than {MAX_RANGES} whole maps, stretches of logs and searches in one call");
    }
    let share = max_bytes()? / reads;
    for read in transactions.iter_mut().flat_map(BoundedRead::all_of) {
        match read.limit {
            ReadLimit::Bytes(max_bytes) => *max_bytes = (*max_bytes).min(share),
            ReadLimit::Marks(count) => *count = (*count).min(u32::try_from(share / MARK_BYTES).unwrap_or(u32::MAX)),
        }
    }
    Ok(())
}

/// An operation or a step that reads as much as it is allowed to.
struct BoundedRead<'a> {
    limit: ReadLimit<'a>,
    /// Of many entries, records or positions; else of those that it names.
    is_range: bool,
}

enum ReadLimit<'a> {
    Bytes(&'a mut u64),
    /// So many positions of an index.
    Marks(&'a mut u32),
}

impl<'a> BoundedRead<'a> {
    fn all_of(transaction: &'a mut IndexedTransaction) -> impl Iterator<Item = Self> {
        let IndexedTransaction { lease: _, transaction, steps } = transaction;
        let operations = transaction.operations.iter_mut().filter_map(Self::from_operation);
        operations.chain(steps.iter_mut().filter_map(Self::from_step))
    }

    fn from_operation(operation: &'a mut Operation) -> Option<Self> {
        let (max_bytes, is_range) = match operation {
            Operation::Get(get) => (&mut get.max_bytes, false),
            Operation::GetAll(all) => (&mut all.max_bytes, true),
            Operation::Read(read) => (&mut read.max_bytes, true),
            Operation::ReadAt(read) => (&mut read.max_bytes, true),
            // What these answer is small, whatever is stored.
            Operation::Set(_)
            | Operation::Add(_)
            | Operation::Append(_)
            | Operation::ReplaceOldest(_)
            | Operation::Rewrite(_)
            | Operation::Describe(_) => return None,
        };
        Some(Self { limit: ReadLimit::Bytes(max_bytes), is_range })
    }

    fn from_step(step: &'a mut IndexStep) -> Option<Self> {
        let limit = match step {
            IndexStep::Search(search) => ReadLimit::Bytes(&mut search.max_bytes),
            IndexStep::ReadMarks(marks) => ReadLimit::Marks(&mut marks.count),
            IndexStep::AddDocuments(_) | IndexStep::RemoveDocuments(_) => return None,
        };
        Some(Self { limit, is_range: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{
        BucketId, ExistingBucket, GetOperation, Precondition, ReadMarksStep, ReadOperation, Transaction,
    };

    fn transaction(operations: Vec<Operation>) -> IndexedTransaction {
        let transaction = Transaction {
            bucket: BucketId::session("s"),
            precondition: Precondition::Existing(ExistingBucket { generation: None, renew: true }),
            expectations: vec![],
            operations,
        };
        transaction.into()
    }

    fn get() -> Operation {
        Operation::Get(GetOperation { map_name: "values".into(), keys: vec!["a".into()], max_bytes: u64::MAX })
    }

    fn read(max_bytes: u64) -> Operation {
        let log = "history".into();
        Operation::Read(ReadOperation { log, newest: true, only_over: 0, leave: 0, max_records: 9, max_bytes })
    }

    #[test]
    fn all_reads_of_a_call_share_the_remaining_memory_of_the_instance() {
        let mut calls = vec![transaction(vec![get(), read(7)]), transaction(vec![get()])];
        let marks = ReadMarksStep { index: "i".into(), from_position: 0, count: 9000 };
        calls[1].steps.push(IndexStep::ReadMarks(marks));
        limit_reads(&mut calls, || Ok(4000)).unwrap();
        let left = |read: BoundedRead<'_>| match read.limit {
            ReadLimit::Bytes(bytes) => *bytes,
            ReadLimit::Marks(count) => u64::from(*count),
        };
        let lowered: Vec<u64> = calls.iter_mut().flat_map(BoundedRead::all_of).map(left).collect();
        assert_eq!(lowered, [1000, 7, 1000, 500]);
    }

    #[test]
    fn log_reads_are_counted_across_all_transactions() {
        let each = |count| (0..count).map(|_| transaction(vec![read(1)])).collect::<Vec<_>>();
        let nothing = || Err(wasmtime::Error::msg("nothing is left"));
        assert!(limit_reads(&mut each(1), nothing).is_err());
        assert!(limit_reads(&mut [transaction(vec![])], nothing).is_ok());
        assert!(limit_reads(&mut each(16), || Ok(1 << 20)).is_ok());
        assert!(limit_reads(&mut each(17), || Ok(1 << 20)).is_err());
        assert!(limit_reads(&mut [transaction((0..1000).map(|_| get()).collect())], || Ok(1 << 20)).is_ok());
    }
}
