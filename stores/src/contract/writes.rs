//! Describes what each operation and each step on an index writes. No match here has a wildcard, and no pattern leaves a
//! field out: neither a new operation nor a transaction with a new list of steps compiles without a case.

use super::{Entry, IndexStep, IndexedTransaction, Operation, PositionMark};

impl IndexedTransaction {
    /// Whether it may change its bucket beyond what its precondition does: only then must a retry be recognised, and a
    /// late one refused.
    pub fn has_writes(&self) -> bool {
        let Self { lease, transaction, steps } = self;
        lease.is_some()
            || !transaction.operations.iter().all(Operation::is_read)
            || !steps.iter().all(IndexStep::is_read)
    }

    /// The entries that it sets: of each its map and its key.
    pub fn set_entries(&self) -> impl Iterator<Item = (&str, &str)> {
        // Steps on indexes set none.
        let Self { lease: _, transaction, steps: _ } = self;
        transaction.operations.iter().flat_map(Operation::set_entries)
    }
}

impl Operation {
    /// Whether it only reads.
    pub fn is_read(&self) -> bool {
        match self {
            Self::Get(_) | Self::GetAll(_) | Self::Read(_) | Self::ReadAt(_) | Self::Describe(_) => true,
            Self::Set(_) | Self::Add(_) | Self::Append(_) | Self::ReplaceOldest(_) | Self::Rewrite(_) => false,
        }
    }

    /// The entries that it sets: of each its map and its key.
    fn set_entries(&self) -> impl Iterator<Item = (&str, &str)> {
        let no_entries: (&str, &[Entry]) = ("", &[]);
        let no_marks: &[PositionMark] = &[];
        let ((map, entries), counter, marks) = match self {
            Self::Set(set) => ((&*set.map_name, &*set.put), None, no_marks),
            Self::Add(add) => (no_entries, Some((&*add.map_name, &*add.key)), no_marks),
            Self::Append(append) => (no_entries, None, &*append.marks),
            Self::Get(_)
            | Self::GetAll(_)
            | Self::Read(_)
            | Self::ReadAt(_)
            | Self::ReplaceOldest(_)
            | Self::Rewrite(_)
            | Self::Describe(_) => (no_entries, None, no_marks),
        };
        let entries = entries.iter().map(move |entry| (map, &*entry.key));
        entries.chain(counter).chain(marks.iter().map(|mark| (&*mark.map_name, &*mark.key)))
    }
}

impl IndexStep {
    /// Whether it only reads.
    pub fn is_read(&self) -> bool {
        match self {
            Self::Search(_) | Self::ReadMarks(_) => true,
            Self::AddDocuments(_) | Self::RemoveDocuments(_) => false,
        }
    }
}
