//! Describes what each operation writes. No match here has a wildcard: a new operation does not compile without a case.

use super::{Entry, Operation, PositionMark};

impl Operation {
    /// Whether it only reads.
    pub fn is_read(&self) -> bool {
        match self {
            Self::Get(_)
            | Self::GetAll(_)
            | Self::Page(_)
            | Self::Read(_)
            | Self::ReadAt(_)
            | Self::Overflow(_)
            | Self::Match(_)
            | Self::Describe(_) => true,
            Self::Put(_)
            | Self::Increment(_)
            | Self::Remove(_)
            | Self::ResetMap(_)
            | Self::Append(_)
            | Self::ReplaceOldest(_)
            | Self::Rewrite(_)
            | Self::ResetLog(_)
            | Self::Lease(_)
            | Self::Post(_)
            | Self::Unpost(_) => false,
        }
    }

    /// The entries that it sets: of each its map and its key.
    pub(crate) fn set_entries(&self) -> impl Iterator<Item = (&str, &str)> {
        let no_entries: (&str, &[Entry]) = ("", &[]);
        let no_marks: &[PositionMark] = &[];
        let ((map, entries), counter, marks) = match self {
            Self::Put(put) => ((&*put.map_name, &*put.entries), None, no_marks),
            Self::ResetMap(reset) => ((&*reset.map_name, &*reset.entries), None, no_marks),
            Self::Increment(increment) => (no_entries, Some((&*increment.map_name, &*increment.key)), no_marks),
            Self::Append(append) => (no_entries, None, &*append.marks),
            Self::ResetLog(reset) => (no_entries, None, &*reset.marks),
            Self::Get(_)
            | Self::GetAll(_)
            | Self::Page(_)
            | Self::Remove(_)
            | Self::Read(_)
            | Self::ReadAt(_)
            | Self::Overflow(_)
            | Self::ReplaceOldest(_)
            | Self::Rewrite(_)
            | Self::Lease(_)
            | Self::Post(_)
            | Self::Unpost(_)
            | Self::Match(_)
            | Self::Describe(_) => (no_entries, None, no_marks),
        };
        let entries = entries.iter().map(move |entry| (map, &*entry.key));
        entries.chain(counter).chain(marks.iter().map(|mark| (&*mark.map_name, &*mark.key)))
    }
}
