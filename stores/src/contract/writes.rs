//! Describes what each operation writes, in one exhaustive function: a new operation does not compile without a case
//! there. Whatever counts, limits or looks up the writes of a transaction uses it.

use super::{Entry, Operation, PositionMark, PositionedRecord};

/// What one operation writes.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(feature = "redis"),
    expect(dead_code, reason = "only Redis takes writes that make room when it is full")
)]
pub(crate) struct OperationWrites<'a> {
    /// The entries that it sets.
    pub(crate) entries: SetEntries<'a>,
    records: NewRecords<'a>,
    /// Whether something that was there is gone afterwards.
    pub(crate) removes: bool,
    /// Whether a log, an index or the leases may grow by it.
    pub(crate) grows: bool,
}

/// The entries that an operation sets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SetEntries<'a> {
    None,
    /// Those of one map.
    MapEntries(&'a str, &'a [Entry]),
    /// The counter with this key in this map.
    Counter(&'a str, &'a str),
    /// The positions of records, each where its mark says.
    Marks(&'a [PositionMark]),
}

#[derive(Clone, Copy, Debug)]
enum NewRecords<'a> {
    None,
    Appended(&'a [String]),
    Rewritten(&'a [PositionedRecord]),
}

/// An operation that only removes.
const REMOVAL: OperationWrites<'_> =
    OperationWrites { entries: SetEntries::None, records: NewRecords::None, removes: true, grows: false };
/// One that makes something grow that is no map.
const GROWTH: OperationWrites<'_> = OperationWrites { removes: false, grows: true, ..REMOVAL };

impl Operation {
    /// Whether it only reads.
    pub fn is_read(&self) -> bool {
        self.describe_writes().is_none()
    }

    /// What it writes; `None` if it only reads.
    pub(crate) fn describe_writes(&self) -> Option<OperationWrites<'_>> {
        let set = |entries| OperationWrites { entries, removes: false, ..REMOVAL };
        Some(match self {
            Self::Put(put) => set(SetEntries::MapEntries(&put.map_name, &put.entries)),
            Self::Increment(increment) => set(SetEntries::Counter(&increment.map_name, &increment.key)),
            Self::Remove(remove) => OperationWrites { removes: !remove.keys.is_empty(), ..REMOVAL },
            Self::ResetMap(reset) => {
                OperationWrites { entries: SetEntries::MapEntries(&reset.map_name, &reset.entries), ..REMOVAL }
            }
            Self::Append(append) => OperationWrites { entries: SetEntries::Marks(&append.marks), ..GROWTH },
            Self::ReplaceOldest(_) | Self::Lease(_) | Self::Post(_) => GROWTH,
            Self::Rewrite(rewrite) => {
                OperationWrites { records: NewRecords::Rewritten(&rewrite.records), ..set(SetEntries::None) }
            }
            Self::ResetLog(reset) => OperationWrites {
                entries: SetEntries::Marks(&reset.marks),
                records: NewRecords::Appended(&reset.records),
                ..REMOVAL
            },
            Self::Unpost(unpost) => OperationWrites { removes: !unpost.positions.is_empty(), ..REMOVAL },
            Self::Get(_)
            | Self::GetAll(_)
            | Self::Page(_)
            | Self::Read(_)
            | Self::ReadAt(_)
            | Self::Overflow(_)
            | Self::Match(_)
            | Self::Describe(_) => return None,
        })
    }
}

#[cfg(feature = "redis")]
impl OperationWrites<'_> {
    /// How many bytes of entries and records it writes, but for marks, which are short.
    pub(crate) fn written_bytes(&self) -> usize {
        /// The longest counter, -2^63, has as many.
        const COUNTER_BYTES: usize = 20;
        let entries = match self.entries {
            SetEntries::None | SetEntries::Marks(_) => 0,
            SetEntries::MapEntries(_, entries) => entries.iter().map(|entry| entry.key.len() + entry.text.len()).sum(),
            SetEntries::Counter(_, key) => key.len() + COUNTER_BYTES,
        };
        let records: usize = match self.records {
            NewRecords::None => 0,
            NewRecords::Appended(records) => records.iter().map(String::len).sum(),
            NewRecords::Rewritten(records) => records.iter().map(|record| record.text.len()).sum(),
        };
        entries + records
    }
}

impl<'a> SetEntries<'a> {
    pub(crate) fn count(self) -> usize {
        match self {
            Self::None => 0,
            Self::MapEntries(_, entries) => entries.len(),
            Self::Counter(..) => 1,
            Self::Marks(marks) => marks.len(),
        }
    }

    /// Calls a function with the map and the key of each.
    pub(crate) fn try_each<E>(self, mut see: impl FnMut(&'a str, &'a str) -> Result<(), E>) -> Result<(), E> {
        match self {
            Self::None => Ok(()),
            Self::MapEntries(map, entries) => entries.iter().try_for_each(|entry| see(map, &entry.key)),
            Self::Counter(map, key) => see(map, key),
            Self::Marks(marks) => marks.iter().try_for_each(|mark| see(&mark.map_name, &mark.key)),
        }
    }

    /// Calls a function with the key of each that is in this map.
    #[cfg(feature = "redis")]
    pub(crate) fn each_in(self, map: &str, mut see: impl FnMut(&'a str)) {
        match self {
            Self::MapEntries(other, _) | Self::Counter(other, _) if other != map => {}
            Self::None => {}
            Self::MapEntries(_, entries) => entries.iter().for_each(|entry| see(&entry.key)),
            Self::Counter(_, key) => see(key),
            Self::Marks(marks) => marks.iter().filter(|mark| mark.map_name == map).for_each(|mark| see(&mark.key)),
        }
    }
}
