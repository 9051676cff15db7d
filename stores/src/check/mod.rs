//! Checks requests before they reach a store: names, limits, and that each place is written once.

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use super::{
    Entry, Expectation, Failure, FailureCode, NewLife, Opening, Operation, PositionMark, StoreCapabilities,
    Transaction, failure,
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
    check_opening(&transaction.opening, capabilities)?;
    // Before anything is done for each piece.
    RequestSize::of_transactions([transaction]).check()?;
    let mut rooms = TargetNameSet::default();
    for expectation in &transaction.expectations {
        match expectation {
            Expectation::Entry(expected) => {
                check_map(&expected.map_name)?;
                check_key(&expected.map_name, &expected.key)?;
            }
            Expectation::Log(expected) => check_part("log", &expected.log)?,
            Expectation::Room(expected) => {
                check_map(&expected.map_name)?;
                if !rooms.insert((TargetKind::Map, &expected.map_name, "")) {
                    let message = format!("two expectations are about the room in the map {}", expected.map_name);
                    return Err(failure(FailureCode::Invalid, &*expected.map_name, message));
                }
            }
        }
    }
    let mut written = WriteTargets::default();
    transaction.operations.iter().try_for_each(|operation| check_operation(operation, capabilities, &mut written))
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
    let mut buckets = HashSet::with_capacity(transactions.len());
    match transactions.iter().find(|transaction| !buckets.insert(&transaction.bucket)) {
        None => Ok(()),
        Some(again) => {
            let message = "two transactions that are sent together are about the same bucket";
            Err(failure(FailureCode::Invalid, &*again.bucket.name, message))
        }
    }
}

/// The life that an opening gives to a bucket that it creates.
pub(crate) fn new_life(opening: &Opening) -> Option<&NewLife> {
    match opening {
        Opening::Existing(_) => None,
        Opening::Create(life) | Opening::CreateNew(life) | Opening::Replace(life) => Some(life),
    }
}

fn check_opening(opening: &Opening, capabilities: &StoreCapabilities) -> Result<(), Failure> {
    if let Opening::Existing(life) = opening {
        return life.incarnation.as_deref().map_or(Ok(()), |incarnation| check_token("incarnation", incarnation));
    }
    match new_life(opening).and_then(|life| life.time_to_live) {
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
            let mut keys = TargetNameSet::default();
            for key in &get.keys {
                check_key(&get.map_name, key)?;
                if !keys.insert((TargetKind::Entry, &get.map_name, key)) {
                    let message = format!("the key {key} is asked for twice in one operation");
                    return Err(failure(FailureCode::Invalid, key, message));
                }
            }
        }
        Operation::GetAll(all) => check_map(&all.map_name)?,
        Operation::Page(page) => {
            check_map(&page.map_name)?;
            if page.cursor.len() > 512 {
                return Err(failure(FailureCode::Invalid, "cursor", "this cursor is none that a store gave"));
            }
        }
        Operation::Put(put) => put_entries(&put.map_name, &put.entries, written)?,
        Operation::Increment(increment) => {
            check_map(&increment.map_name)?;
            check_key(&increment.map_name, &increment.key)?;
            written.claim_entry(&increment.map_name, &increment.key)?;
        }
        Operation::Remove(remove) => {
            check_map(&remove.map_name)?;
            for key in &remove.keys {
                check_key(&remove.map_name, key)?;
                written.claim_entry(&remove.map_name, key)?;
            }
        }
        Operation::ResetMap(reset) => {
            written.whole_map(&reset.map_name)?;
            let mut own = WriteTargets::default();
            put_entries(&reset.map_name, &reset.entries, &mut own)?;
        }
        Operation::Append(append) => {
            written.part(TargetKind::Log, "log", &append.log)?;
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
            written.part(TargetKind::Log, "log", &replace.log)?;
            if replace.records.len() as u64 > replace.count {
                let message = format!("{} records can't take the place of {}", replace.records.len(), replace.count);
                return Err(failure(FailureCode::Invalid, "records", message));
            }
        }
        Operation::Rewrite(rewrite) => {
            written.part(TargetKind::Log, "log", &rewrite.log)?;
            let mut positions = HashSet::with_capacity(rewrite.records.len());
            for record in &rewrite.records {
                if !positions.insert(record.position) {
                    return Err(written_twice("position", &record.position.to_string()));
                }
            }
        }
        Operation::ResetLog(reset) => {
            written.part(TargetKind::Log, "log", &reset.log)?;
            marks(&reset.marks, reset.records.len(), written)?;
        }
        Operation::Lease(lease) => {
            if !capabilities.leases {
                return Err(unsupported("leases", "has no leases"));
            }
            written.part(TargetKind::Lease, "lease", &lease.lease)?;
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
            written.part(TargetKind::Index, "index", &post.index)?;
            check_documents(post)?;
        }
        Operation::Unpost(unpost) => written.part(TargetKind::Index, "index", &unpost.index)?,
        Operation::Match(step) => {
            check_part("index", &step.index)?;
            check_terms(&step.terms)?;
        }
        Operation::Describe(_) => {}
    }
    Ok(())
}

fn put_entries<'a>(map: &'a str, entries: &'a [Entry], written: &mut WriteTargets<'a>) -> Result<(), Failure> {
    check_map(map)?;
    for entry in entries {
        check_key(map, &entry.key)?;
        written.claim_entry(map, &entry.key)?;
    }
    Ok(())
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
        written.claim_entry(&mark.map_name, &mark.key)?;
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
const WRITTEN_TO_MAKE_ROOM: usize = 1024;

/// Whether a transaction removes something and writes next to nothing: a store that is full takes it nevertheless.
#[cfg(feature = "redis")]
pub(crate) fn makes_room(transaction: &Transaction) -> bool {
    let (mut removes, mut written) = (matches!(transaction.opening, Opening::Replace(_)), 0);
    for writes in transaction.operations.iter().filter_map(Operation::describe_writes) {
        // A log or an index that grows is no mark.
        if writes.grows {
            return false;
        }
        removes |= writes.removes;
        written += writes.written_bytes();
    }
    removes && written <= WRITTEN_TO_MAKE_ROOM
}

/// Whether any of the operations may change a bucket: only then must a retry be recognised, and a late one
/// refused.
pub(crate) fn has_writes(operations: &[Operation]) -> bool {
    !operations.iter().all(Operation::is_read)
}

/// What the transaction writes so far. A second write to one place would depend on the first, and a
/// store checks everything before its first write.
#[derive(Default)]
struct WriteTargets<'a> {
    names: TargetNameSet<'a>,
    /// The map of the last entry: the next one is mostly of the same.
    map: Option<&'a str>,
    resets: bool,
}

impl<'a> WriteTargets<'a> {
    fn claim_entry(&mut self, map: &'a str, key: &'a str) -> Result<(), Failure> {
        if self.map != Some(map) {
            self.map = Some(map);
            self.names.insert((TargetKind::Map, map, ""));
        }
        let is_reset = self.resets && self.names.contains((TargetKind::Reset, map, ""));
        if is_reset || !self.names.insert((TargetKind::Entry, map, key)) {
            return Err(written_twice("key", key));
        }
        Ok(())
    }

    fn whole_map(&mut self, map: &'a str) -> Result<(), Failure> {
        check_map(map)?;
        self.resets = true;
        if !self.names.insert((TargetKind::Reset, map, "")) || self.names.contains((TargetKind::Map, map, "")) {
            return Err(written_twice("map", map));
        }
        Ok(())
    }

    /// A log, an index or a lease.
    fn part(&mut self, place: TargetKind, what: &str, name: &'a str) -> Result<(), Failure> {
        check_part(what, name)?;
        if self.names.insert((place, name, "")) { Ok(()) } else { Err(written_twice(what, name)) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum TargetKind {
    /// Of a map.
    Entry,
    /// One that has entries written.
    Map,
    /// A map as a whole.
    Reset,
    Log,
    Index,
    Lease,
}

/// What it is, its name and, of an entry, its key.
type TargetName<'a> = (TargetKind, &'a str, &'a str);

/// A set of names: a few are searched, and cost no allocation; more are hashed.
#[derive(Default)]
struct TargetNameSet<'a> {
    few: [Option<TargetName<'a>>; 6],
    many: Option<HashSet<TargetName<'a>>>,
}

impl<'a> TargetNameSet<'a> {
    fn insert(&mut self, name: TargetName<'a>) -> bool {
        for place in &mut self.few {
            match place {
                None => {
                    *place = Some(name);
                    return true;
                }
                Some(known) if *known == name => return false,
                Some(_) => {}
            }
        }
        self.many.get_or_insert_default().insert(name)
    }

    fn contains(&self, name: TargetName<'_>) -> bool {
        self.few.contains(&Some(name)) || self.many.as_ref().is_some_and(|many| many.contains(&name))
    }
}
