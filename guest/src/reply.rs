//! What a store replies, checked against what it was asked.
//!
//! Promises that whoever calls [`transact`] gets a receipt that the contract allows: a status that the opening and
//! the expectations explain, and for each operation an outcome of its kind, within its limits, sorted and without
//! duplicates. Small faults are mended, larger ones are a failed store. A host is not our enemy, but it may be
//! new. Refuses to look at the texts themselves.

use std::collections::BinaryHeap;

use crate::store::{
    Deletion, Expectation, Failure, FoundEntries, Host, KeyPage, LogEnd, LogExtent, LogRecords, Opening, Operation,
    Outcome, Receipt, Status, Transaction,
};

/// Incarnations are the store's; this bounds what we carry for it.
const INCARNATION_MAX: usize = 256;

/// Let the store apply a transaction.
pub(crate) fn transact(host: &impl Host, transaction: &Transaction<'_>) -> Result<Receipt, Failure> {
    let mut receipt = host.transact(transaction)?;
    if !is_incarnation(&receipt.incarnation) {
        receipt.incarnation.clear();
    }
    if mend(&mut receipt, transaction) { Ok(receipt) } else { Err(Failure::out_of_turn()) }
}

/// Delete a session, and name up to `max_keys` of its values.
pub(crate) fn delete(host: &impl Host, session: &str, max_keys: u32) -> Result<Deletion, Failure> {
    let mut deletion = host.delete_session(session, max_keys)?;
    if !matches!(deletion.status, Status::Applied | Status::Repeated | Status::Absent | Status::Expired) {
        return Err(Failure::out_of_turn());
    }
    sort(&mut deletion.keys);
    deletion.keys.truncate(usize::try_from(max_keys).unwrap_or(usize::MAX));
    deletion.values = deletion.values.max(deletion.keys.len() as u64);
    Ok(deletion)
}

/// Whether this can be named in an opening, and carried in a turn.
pub(crate) fn is_incarnation(text: &str) -> bool {
    (1..=INCARNATION_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The answers of an applied transaction, to be read in the order of its operations.
pub(crate) struct Outcomes(std::vec::IntoIter<Outcome>);

/// Entries, unless there is too much of them.
pub(crate) enum Found {
    Entries(FoundEntries),
    Oversize { bytes: u64, entries: u64 },
}

impl Outcomes {
    pub(crate) fn of(receipt: Receipt) -> Self {
        Self(receipt.outcomes.into_iter())
    }

    /// Of `Get` and `GetAll`.
    pub(crate) fn entries(&mut self) -> Result<Found, Failure> {
        match self.0.next() {
            Some(Outcome::Entries(found)) => Ok(Found::Entries(found)),
            Some(Outcome::Oversize { bytes, entries }) => Ok(Found::Oversize { bytes, entries }),
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `PageKeys`.
    pub(crate) fn keys(&mut self) -> Result<KeyPage, Failure> {
        match self.0.next() {
            Some(Outcome::Page(page)) => Ok(page),
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `Put`, `Remove` and `ResetMap`.
    pub(crate) fn changed(&mut self) -> Result<u64, Failure> {
        match self.0.next() {
            Some(Outcome::Changed(count)) => Ok(count),
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `Increment`.
    pub(crate) fn counter(&mut self) -> Result<i64, Failure> {
        match self.0.next() {
            Some(Outcome::Counter(value)) => Ok(value),
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `Read`, `ReadAt` and `Overflow`.
    pub(crate) fn records(&mut self) -> Result<LogRecords, Failure> {
        match self.0.next() {
            Some(Outcome::Records(found) | Outcome::Span(found)) => Ok(found),
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `Describe`.
    pub(crate) fn described(&mut self) -> Result<crate::store::Description, Failure> {
        match self.0.next() {
            Some(Outcome::Described(found)) => Ok(found),
            _ => Err(Failure::out_of_turn()),
        }
    }
}

/// What an applied transaction was told of the surplus of this log, if there is any.
pub(crate) fn surplus<'r>(transaction: &Transaction<'_>, receipt: &'r Receipt, wanted: &str) -> Option<&'r LogRecords> {
    let mut answered = transaction.operations.iter().zip(&receipt.outcomes);
    answered.find_map(|(operation, outcome)| match (operation, outcome) {
        (Operation::Overflow { log, .. }, Outcome::Records(found)) if *log == wanted => {
            Some(found).filter(|found| !found.records.is_empty())
        }
        _ => None,
    })
}

/// Whether it fits; what does little harm is put right.
fn mend(receipt: &mut Receipt, transaction: &Transaction<'_>) -> bool {
    let opening = transaction.opening;
    match receipt.status {
        Status::Applied | Status::Repeated => {
            receipt.outcomes.len() == transaction.operations.len()
                && receipt.outcomes.iter_mut().zip(transaction.operations).all(|(outcome, asked)| fits(outcome, asked))
        }
        // Also what is created may be gone when an earlier try of the call had created it.
        Status::Absent | Status::Expired => true,
        Status::Exists => matches!(opening, Opening::CreateNew { .. }),
        Status::AnotherLife => matches!(opening, Opening::Existing { incarnation: Some(_), .. }),
        Status::Unmet => unmet(receipt, transaction).is_some(),
    }
}

/// The expectation that did not hold.
pub(crate) fn unmet<'t>(receipt: &Receipt, transaction: &Transaction<'t>) -> Option<&'t Expectation<'t>> {
    transaction.expectations.get(usize::try_from(receipt.unmet?).ok()?)
}

/// Whether an outcome is one of that operation.
fn fits(outcome: &mut Outcome, asked: &Operation<'_>) -> bool {
    match (asked, outcome) {
        (Operation::Get { key, max_bytes, .. }, outcome) => mend_one(outcome, key, *max_bytes),
        (Operation::GetAll { max_entries, max_bytes, .. }, outcome) => mend_all(outcome, *max_entries, *max_bytes),
        (Operation::PageKeys { .. }, Outcome::Page(page)) => {
            sort(&mut page.keys);
            true
        }
        (Operation::Put { .. }, Outcome::Changed(count)) => *count <= 1,
        (Operation::Remove { keys, .. }, Outcome::Changed(count)) => *count <= keys.len() as u64,
        (Operation::ResetMap { .. }, Outcome::Changed(_))
        | (Operation::Increment { .. }, Outcome::Counter(_))
        | (Operation::Describe { .. }, Outcome::Described(_)) => true,
        (Operation::Append { .. } | Operation::ReplaceOldest { .. }, Outcome::Extent(extent)) => is_sane(*extent),
        (Operation::Read { end, max_records, .. }, Outcome::Records(found)) => {
            is_run(found)
                && found.records.len() as u64 <= *max_records
                && match end {
                    _ if found.records.is_empty() => true,
                    LogEnd::Oldest => found.first == found.extent.first,
                    LogEnd::Newest => found.first + found.records.len() as u64 == found.extent.next(),
                }
        }
        (Operation::ReadAt { position, count, .. }, Outcome::Span(found)) => {
            let end = position.saturating_add(u64::from(*count));
            is_run(found)
                && (found.records.is_empty()
                    || (found.first >= *position && found.first + found.records.len() as u64 <= end))
        }
        (Operation::Overflow { limit, keep, max_records, .. }, Outcome::Records(found)) => {
            let surplus = found.extent.length.saturating_sub(*keep).min(*max_records);
            let most = if found.extent.length > *limit { surplus } else { 0 };
            is_run(found)
                && (found.records.is_empty()
                    || (found.first == found.extent.first && found.records.len() as u64 <= most))
        }
        _ => false,
    }
}

/// One entry: what was not asked for is not there.
fn mend_one(outcome: &mut Outcome, key: &str, max_bytes: u64) -> bool {
    let Outcome::Entries(found) = outcome else { return matches!(outcome, Outcome::Oversize { .. }) };
    found.unreadable.retain(|name| name == key);
    found.unreadable.truncate(1);
    found.entries.retain(|entry| entry.key == key);
    found.entries.truncate(usize::from(found.unreadable.is_empty()));
    let bytes = found.entries.first().map_or(0, |entry| entry.text.len() as u64);
    if bytes > max_bytes {
        *outcome = Outcome::Oversize { bytes, entries: 1 };
    }
    true
}

/// All entries: too much is too much, also if it was handed over.
fn mend_all(outcome: &mut Outcome, max_entries: u64, max_bytes: u64) -> bool {
    let Outcome::Entries(found) = outcome else { return matches!(outcome, Outcome::Oversize { .. }) };
    if !found.entries.is_sorted_by(|a, b| a.key < b.key) {
        found.entries = sorted(std::mem::take(&mut found.entries));
        found.entries.dedup_by(|a, b| a.key == b.key);
    }
    sort(&mut found.unreadable);
    let bytes = found.entries.iter().map(|entry| (entry.key.len() + entry.text.len()) as u64).sum();
    let entries = (found.entries.len() + found.unreadable.len()) as u64;
    if bytes > max_bytes || entries > max_entries {
        *outcome = Outcome::Oversize { bytes, entries };
    }
    true
}

/// Sort names and drop duplicates.
pub(crate) fn sort(names: &mut Vec<String>) {
    if !names.is_sorted_by(|a, b| a < b) {
        *names = sorted(std::mem::take(names));
        names.dedup();
    }
}

/// Through a heap: next to nothing needs to be sorted, and the standard library's sorts are a tenth of the component.
fn sorted<T: Ord>(items: Vec<T>) -> Vec<T> {
    BinaryHeap::from(items).into_sorted_vec()
}

/// Whether the log has a next position.
fn is_sane(extent: LogExtent) -> bool {
    extent.first.checked_add(extent.length).is_some()
}

/// Whether the records are some of the log's.
fn is_run(found: &LogRecords) -> bool {
    let end = found.first.checked_add(found.records.len() as u64);
    is_sane(found.extent)
        && (found.records.is_empty()
            || (found.first >= found.extent.first && end.is_some_and(|end| end <= found.extent.next())))
}
