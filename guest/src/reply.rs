//! What a store replies, checked against what it was asked.
//!
//! Promises that whoever calls [`transact`] gets a receipt that the contract allows: a status that the opening and
//! the expectations explain, and for each operation an outcome of its kind, within its limits, sorted and without
//! duplicates. Small faults are mended, larger ones are a failed store. A host is not our enemy, but it may be
//! new. Refuses to look at the texts themselves.

mod entries;
mod indexes;
mod logs;
mod outcomes;
#[cfg(test)]
mod tests;

use std::collections::BinaryHeap;
use std::slice::from_ref;

use crate::store::{
    Bucket, Deletion, Expectation, Failure, Host, LogRecords, Opening, Operation, Outcome, Receipt, Span, Status,
    Transaction,
};

pub(crate) use outcomes::{Found, Once, Outcomes};

/// Incarnations are the store's; this bounds what we carry for it.
const INCARNATION_MAX: usize = 256;

/// Let the store apply a transaction.
pub(crate) fn transact(host: &impl Host, transaction: &Transaction<'_>) -> Result<Receipt, Failure> {
    checked(host.transact(transaction)?, transaction)
}

/// The text of one entry of a bucket, without using it. None: it is not there.
pub(crate) fn text_of(host: &impl Host, bucket: Bucket<'_>, map: &str, key: &str) -> Result<Option<String>, Failure> {
    let get = [Operation::Get { map, key, max_bytes: 256 }];
    let receipt = transact(host, &Transaction { bucket, opening: Opening::LOOK, expectations: &[], operations: &get })?;
    if !receipt.is_applied() {
        return Ok(None);
    }
    match Outcomes::of(receipt).entries()? {
        Found::Entries(mut found) => Ok(found.entries.pop().map(|entry| entry.text)),
        Found::Oversize { .. } => Err(Failure::out_of_turn()),
    }
}

/// Let the store apply transactions, each on a bucket of its own, in one wait.
pub(crate) fn transact_each(host: &impl Host, transactions: &[Transaction<'_>]) -> Vec<Result<Receipt, Failure>> {
    let mut replies = host.transact_each(transactions).into_iter();
    let checked = transactions.iter().map(|transaction| {
        let receipt = replies.next().unwrap_or_else(|| Err(Failure::out_of_turn()))?;
        checked(receipt, transaction)
    });
    checked.collect()
}

fn checked(mut receipt: Receipt, transaction: &Transaction<'_>) -> Result<Receipt, Failure> {
    if !is_incarnation(&receipt.incarnation) {
        receipt.incarnation.clear();
    }
    if mend(&mut receipt, transaction) { Ok(receipt) } else { Err(Failure::out_of_turn()) }
}

/// Delete a bucket (that incarnation, if one is named), and name up to `max_keys` of its values.
pub(crate) fn delete(
    host: &impl Host,
    bucket: Bucket<'_>,
    incarnation: Option<&str>,
    max_keys: u32,
) -> Result<Deletion, Failure> {
    let mut deletion = host.delete(bucket, incarnation, max_keys)?;
    match deletion.status {
        Status::Applied | Status::Repeated | Status::Absent | Status::Expired => {}
        Status::AnotherLife if incarnation.is_some() => {}
        _ => return Err(Failure::out_of_turn()),
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
        (Operation::Get { key, max_bytes, .. }, outcome) => entries::mend_some(outcome, from_ref(key), *max_bytes),
        (Operation::GetSome { keys, max_bytes, .. }, outcome) => entries::mend_some(outcome, keys, *max_bytes),
        (Operation::GetAll { max_entries, max_bytes, .. }, outcome) => {
            entries::mend_all(outcome, *max_entries, *max_bytes)
        }
        (Operation::PageKeys { .. }, Outcome::Page(page)) => {
            sort(&mut page.keys);
            true
        }
        (Operation::Put { .. }, Outcome::Changed(count)) => *count <= 1,
        (Operation::Remove { keys, .. }, Outcome::Changed(count)) => *count <= keys.len() as u64,
        (Operation::PutSome { .. } | Operation::ResetMap { .. }, Outcome::Changed(_))
        | (Operation::Increment { .. }, Outcome::Counter(_))
        | (Operation::Lease { .. }, Outcome::Lease(_))
        | (Operation::Describe { .. }, Outcome::Described(_)) => true,
        (
            Operation::Append { .. }
            | Operation::ReplaceOldest { .. }
            | Operation::Overflow { .. }
            | Operation::Rewrite { .. }
            | Operation::ResetLog { .. },
            Outcome::Extent(extent),
        ) => logs::is_sane(*extent),
        (Operation::Read { end, max_records, .. }, Outcome::Records(found)) => logs::is_end(found, *end, *max_records),
        (Operation::ReadAt { position, count, .. }, Outcome::Spans(extent, found)) => {
            logs::are_spans(*extent, found, &[Span { position: *position, count: *count }])
        }
        (Operation::ReadSpans { spans, .. }, Outcome::Spans(extent, found)) => logs::are_spans(*extent, found, spans),
        (Operation::Overflow { limit, keep, max_records, .. }, Outcome::Records(found)) => {
            logs::is_surplus(found, *limit, *keep, *max_records)
        }
        (Operation::Post { .. } | Operation::Unpost { .. }, Outcome::Indexed(extent)) => indexes::is_sane(*extent),
        (Operation::Match { terms, newest, max_bytes, .. }, Outcome::Matches(found)) => {
            indexes::are_matches(found, terms.len(), *newest, *max_bytes)
        }
        _ => false,
    }
}

/// Sort names and drop duplicates.
pub(crate) fn sort(names: &mut Vec<String>) {
    if !names.is_sorted_by(|a, b| a < b) {
        *names = sorted(std::mem::take(names));
        names.dedup();
    }
}

/// Through a heap: next to nothing needs to be sorted, and the standard library's sorts are a tenth of the component.
pub(crate) fn sorted<T: Ord>(items: Vec<T>) -> Vec<T> {
    BinaryHeap::from(items).into_sorted_vec()
}
