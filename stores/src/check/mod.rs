//! Checks requests before they reach a store: names, limits, and that each place is written once.

#[cfg(test)]
mod tests;

use super::{
    BucketId, Entry, Expectation, Failure, FailureCode, NewBucket, Operation, PositionMark, Precondition,
    StoreCapabilities, Transaction, failure,
    index::{check_documents, check_terms},
    limits::{MAX_TIME_TO_LIVE_MS, MAX_TRANSACTIONS, RequestSize, too_large},
    names::{VALUES, check_bucket, check_key, check_map, check_part, check_token},
};

/// Refuses a transaction that breaks a rule of the contract, or asks for what the store lacks: the first thing that a
/// store does.
///
/// # Errors
/// `invalid`, `too-large` or `unsupported`.
pub fn validate_transaction(transaction: &Transaction, capabilities: &StoreCapabilities) -> Result<(), Failure> {
    check_bucket(&transaction.bucket)?;
    check_precondition(&transaction.precondition, capabilities)?;
    // Before anything is done for each piece.
    RequestSize::of_transactions([transaction]).check()?;
    let mut rooms = Vec::new();
    for expectation in &transaction.expectations {
        match expectation {
            Expectation::Entry(expected) => {
                check_map(&expected.map_name)?;
                check_key(&expected.map_name, &expected.key)?;
            }
            Expectation::Log(expected) => check_part("log", &expected.log)?,
            Expectation::Room(expected) => {
                check_map(&expected.map_name)?;
                rooms.push(&*expected.map_name);
            }
        }
    }
    if let Some(map) = find_repeated(rooms) {
        let message = format!("two expectations are about the room in the map {map}");
        return Err(failure(FailureCode::Invalid, map, message));
    }
    let mut written = WriteTargets::default();
    transaction.operations.iter().try_for_each(|operation| check_operation(operation, capabilities, &mut written))?;
    written.check_written_once()
}

/// Refuses the deletion of what can't be a bucket, or a generation of one.
pub(crate) fn validate_deletion(bucket: &BucketId, generation: Option<&str>) -> Result<(), Failure> {
    check_bucket(bucket)?;
    generation.map_or(Ok(()), |generation| check_token("generation", generation))
}

/// Refuses transactions that can't be sent together, all of them.
///
/// # Errors
/// `too-large` or `invalid`.
pub fn validate_batch(transactions: &[Transaction]) -> Result<(), Failure> {
    if transactions.len() > MAX_TRANSACTIONS {
        return Err(too_large("transactions", MAX_TRANSACTIONS as u64, "transactions at a time"));
    }
    RequestSize::of_transactions(transactions).check()?;
    match find_repeated(transactions.iter().map(|transaction| &transaction.bucket).collect()) {
        None => Ok(()),
        Some(again) => {
            let message = "two transactions that are sent together are about the same bucket";
            Err(failure(FailureCode::Invalid, &*again.name, message))
        }
    }
}

/// The life that a precondition gives to a bucket that it creates.
pub(crate) fn new_bucket(precondition: &Precondition) -> Option<&NewBucket> {
    match precondition {
        Precondition::Existing(_) => None,
        Precondition::Create(life) | Precondition::CreateNew(life) | Precondition::Replace(life) => Some(life),
    }
}

fn check_precondition(precondition: &Precondition, capabilities: &StoreCapabilities) -> Result<(), Failure> {
    if let Precondition::Existing(life) = precondition {
        return life.generation.as_deref().map_or(Ok(()), |generation| check_token("generation", generation));
    }
    match new_bucket(precondition).and_then(|life| life.time_to_live) {
        Some(_) if !capabilities.expiring => Err(unsupported("expiring", "lets nothing expire")),
        Some(ttl) if !(1..=MAX_TIME_TO_LIVE_MS).contains(&ttl.milliseconds) => Err(failure(
            FailureCode::Invalid,
            "time-to-live",
            format!("a time to live is 1 to {MAX_TIME_TO_LIVE_MS} milliseconds, not {}", ttl.milliseconds),
        )),
        _ => Ok(()),
    }
}

fn check_operation<'a>(
    operation: &'a Operation,
    capabilities: &StoreCapabilities,
    written: &mut WriteTargets<'a>,
) -> Result<(), Failure> {
    match operation {
        Operation::Get(get) => {
            check_map(&get.map_name)?;
            get.keys.iter().try_for_each(|key| check_key(&get.map_name, key))?;
            if let Some(key) = find_repeated(get.keys.iter().collect()) {
                let message = format!("the key {key} is asked for twice in one operation");
                return Err(failure(FailureCode::Invalid, key, message));
            }
        }
        Operation::GetAll(all) => check_map(&all.map_name)?,
        Operation::Page(page) => {
            check_map(&page.map_name)?;
            if page.cursor.len() > 512 {
                return Err(failure(FailureCode::Invalid, "cursor", "this cursor is none that a store gave"));
            }
        }
        Operation::Put(put) => {
            check_entries(&put.map_name, &put.entries)?;
            put.entries.iter().for_each(|entry| written.add(TargetKind::Map, &put.map_name, Some(&entry.key)));
        }
        Operation::Increment(increment) => {
            check_map(&increment.map_name)?;
            check_key(&increment.map_name, &increment.key)?;
            written.add(TargetKind::Map, &increment.map_name, Some(&increment.key));
        }
        Operation::Remove(remove) => {
            check_map(&remove.map_name)?;
            for key in &remove.keys {
                check_key(&remove.map_name, key)?;
                written.add(TargetKind::Map, &remove.map_name, Some(key));
            }
        }
        Operation::ResetMap(reset) => {
            check_entries(&reset.map_name, &reset.entries)?;
            written.add(TargetKind::Map, &reset.map_name, None);
            if let Some(key) = find_repeated(reset.entries.iter().map(|entry| &*entry.key).collect()) {
                return Err(written_twice("key", key));
            }
        }
        Operation::Append(append) => {
            written.add_part(TargetKind::Log, &append.log)?;
            marks(&append.marks, append.records.len(), written)?;
        }
        Operation::Read(read) => check_part("log", &read.log)?,
        Operation::ReadAt(read) => check_part("log", &read.log)?,
        Operation::Overflow(overflow) => {
            check_part("log", &overflow.log)?;
            if overflow.keep > overflow.limit {
                let message = format!("keep ({}) is more than limit ({})", overflow.keep, overflow.limit);
                return Err(failure(FailureCode::Invalid, "keep", message));
            }
        }
        Operation::ReplaceOldest(replace) => {
            written.add_part(TargetKind::Log, &replace.log)?;
            if replace.records.len() as u64 > replace.count {
                let message = format!("{} records can't take the place of {}", replace.records.len(), replace.count);
                return Err(failure(FailureCode::Invalid, "records", message));
            }
        }
        Operation::Rewrite(rewrite) => {
            written.add_part(TargetKind::Log, &rewrite.log)?;
            if let Some(position) = find_repeated(rewrite.records.iter().map(|record| record.position).collect()) {
                return Err(written_twice("position", &position.to_string()));
            }
        }
        Operation::ResetLog(reset) => {
            written.add_part(TargetKind::Log, &reset.log)?;
            marks(&reset.marks, reset.records.len(), written)?;
        }
        Operation::Lease(lease) => {
            if !capabilities.leases {
                return Err(unsupported("leases", "has no leases"));
            }
            written.add_part(TargetKind::Lease, &lease.lease)?;
            check_token("holder", &lease.holder)?;
            if lease.milliseconds > MAX_TIME_TO_LIVE_MS {
                let message = format!("a lease lasts at most {MAX_TIME_TO_LIVE_MS} milliseconds");
                return Err(failure(FailureCode::Invalid, "milliseconds", message));
            }
        }
        Operation::Post(_) | Operation::Unpost(_) | Operation::Match(_) if !capabilities.indexes => {
            return Err(unsupported("indexes", "has no indexes"));
        }
        Operation::Post(post) => {
            written.add_part(TargetKind::Index, &post.index)?;
            check_documents(post)?;
        }
        Operation::Unpost(unpost) => written.add_part(TargetKind::Index, &unpost.index)?,
        Operation::Match(step) => {
            check_part("index", &step.index)?;
            check_terms(&step.terms)?;
        }
        Operation::Describe(_) => {}
    }
    Ok(())
}

fn check_entries(map: &str, entries: &[Entry]) -> Result<(), Failure> {
    check_map(map)?;
    entries.iter().try_for_each(|entry| check_key(map, &entry.key))
}

fn marks<'a>(marks: &'a [PositionMark], records: usize, written: &mut WriteTargets<'a>) -> Result<(), Failure> {
    for mark in marks {
        check_map(&mark.map_name)?;
        if mark.map_name == VALUES {
            return Err(failure(FailureCode::Invalid, "marks", "the values of a bucket hold no positions"));
        }
        if mark.record_index as usize >= records {
            let message = format!("the mark {} is of record {}, of {records}", mark.key, mark.record_index);
            return Err(failure(FailureCode::Invalid, "marks", message));
        }
        check_key(&mark.map_name, &mark.key)?;
        written.add(TargetKind::Map, &mark.map_name, Some(&mark.key));
    }
    Ok(())
}

fn written_twice(what: &str, name: &str) -> Failure {
    failure(FailureCode::Invalid, name, format!("a transaction writes each {what} once, {name} would be written twice"))
}

fn unsupported(capability: &str, what: &str) -> Failure {
    failure(FailureCode::Unsupported, capability, format!("this store {what}"))
}

/// What a transaction may write, in bytes, that is for removing something: a mark of what was removed.
#[cfg(feature = "redis")]
const WRITTEN_TO_MAKE_ROOM: usize = 1024;

/// Whether a transaction removes something and writes next to nothing: a store that is full takes it nevertheless.
#[cfg(feature = "redis")]
pub(crate) fn makes_room(transaction: &Transaction) -> bool {
    /// The longest counter, -2^63, has as many.
    const COUNTER_BYTES: usize = 20;
    let entry_bytes = |entries: &[Entry]| entries.iter().map(|entry| entry.key.len() + entry.text.len()).sum::<usize>();
    let (mut removes, mut written) = (matches!(transaction.precondition, Precondition::Replace(_)), 0);
    for operation in &transaction.operations {
        match operation {
            // What grows by it is no mark of something removed.
            Operation::Append(_) | Operation::ReplaceOldest(_) | Operation::Lease(_) | Operation::Post(_) => {
                return false;
            }
            Operation::Put(put) => written += entry_bytes(&put.entries),
            Operation::Increment(increment) => written += increment.key.len() + COUNTER_BYTES,
            Operation::Rewrite(rewrite) => {
                written += rewrite.records.iter().map(|record| record.text.len()).sum::<usize>();
            }
            Operation::Remove(remove) => removes |= !remove.keys.is_empty(),
            Operation::Unpost(unpost) => removes |= !unpost.positions.is_empty(),
            Operation::ResetMap(reset) => {
                removes = true;
                written += entry_bytes(&reset.entries);
            }
            Operation::ResetLog(reset) => {
                removes = true;
                written += reset.records.iter().map(String::len).sum::<usize>();
            }
            Operation::Get(_)
            | Operation::GetAll(_)
            | Operation::Page(_)
            | Operation::Read(_)
            | Operation::ReadAt(_)
            | Operation::Overflow(_)
            | Operation::Match(_)
            | Operation::Describe(_) => {}
        }
    }
    removes && written <= WRITTEN_TO_MAKE_ROOM
}

/// Whether any of the operations may change a bucket: only then must a retry be recognised, and a late one
/// refused.
pub(crate) fn has_writes(operations: &[Operation]) -> bool {
    !operations.iter().all(Operation::is_read)
}

/// What a transaction writes, each time that it does: what it is, its name and, of an entry, its key. A second write to
/// one place would depend on the first, and a store checks everything before its first write.
#[derive(Default)]
struct WriteTargets<'a>(Vec<(TargetKind, &'a str, Option<&'a str>)>);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TargetKind {
    /// As a whole, or an entry of it.
    Map,
    Log,
    Index,
    Lease,
}

impl TargetKind {
    fn name(self) -> &'static str {
        match self {
            Self::Map => "map",
            Self::Log => "log",
            Self::Index => "index",
            Self::Lease => "lease",
        }
    }
}

impl<'a> WriteTargets<'a> {
    fn add(&mut self, kind: TargetKind, name: &'a str, key: Option<&'a str>) {
        self.0.push((kind, name, key));
    }

    fn add_part(&mut self, kind: TargetKind, name: &'a str) -> Result<(), Failure> {
        check_part(kind.name(), name)?;
        self.add(kind, name, None);
        Ok(())
    }

    fn check_written_once(mut self) -> Result<(), Failure> {
        // A map as a whole comes before its entries.
        self.0.sort_unstable();
        for pair in self.0.windows(2) {
            let [(kind, name, key), (same, other, again)] = pair else { continue };
            if (kind, name) == (same, other) && (key.is_none() || key == again) {
                return Err(key.map_or_else(|| written_twice(kind.name(), name), |key| written_twice("key", key)));
            }
        }
        Ok(())
    }
}

fn find_repeated<T: Ord + Copy>(mut all: Vec<T>) -> Option<T> {
    all.sort_unstable();
    all.windows(2).find_map(|pair| match pair {
        [one, other] if one == other => Some(*one),
        _ => None,
    })
}
