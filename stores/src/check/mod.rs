//! Checks requests before they reach a store: names, limits, and that each place is written once.

#[cfg(test)]
mod tests;

use super::{
    BucketId, DeleteRequest, Expectation, Failure, FailureCode, IndexStep, IndexedTransaction, LeaseRequest, NewBucket,
    Operation, PositionMark, Precondition, SetOperation, capability, failure,
    index::{check_documents, check_terms},
    limit,
    limits::{MAX_TIME_TO_LIVE_MS, MAX_TRANSACTIONS, RequestSize, too_large},
    names::{VALUES, check_bucket, check_key, check_map, check_part, check_token},
};

/// No cursor that a store gives is longer.
const MAX_CURSOR_BYTES: usize = 512;

/// Refuses a transaction that breaks a rule of the contract, or asks for what the store lacks: the first thing that a
/// store does. `capabilities`: those that the store has.
///
/// # Errors
/// `invalid`, `too-large` or `unsupported`.
pub fn validate_transaction(request: &IndexedTransaction, capabilities: &[&str]) -> Result<(), Failure> {
    let IndexedTransaction { lease, transaction, steps } = request;
    check_bucket(&transaction.bucket)?;
    check_precondition(&transaction.precondition, capabilities)?;
    // Before anything is done for each piece.
    RequestSize::of_transactions([request]).check()?;
    if let Some(lease) = lease {
        check_lease(lease, capabilities)?;
    }
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
    if !steps.is_empty() {
        require(capabilities, capability::INDEXES)?;
        steps.iter().try_for_each(|step| check_step(step, &mut written))?;
    }
    written.check_written_once()
}

/// Refuses the deletion of what can't be a bucket, or a generation of one.
pub(crate) fn validate_deletion(request: &DeleteRequest) -> Result<(), Failure> {
    check_bucket(&request.bucket)?;
    request.generation.as_deref().map_or(Ok(()), |generation| check_token("generation", generation))
}

/// Refuses transactions that can't be sent together, all of them.
///
/// # Errors
/// `too-large` or `invalid`.
pub fn validate_batch(transactions: &[IndexedTransaction]) -> Result<(), Failure> {
    check_count(transactions.len())?;
    RequestSize::of_transactions(transactions).check()?;
    check_apart(transactions.iter().map(|request| &request.transaction.bucket).collect())
}

/// Refuses deletions that can't be sent together, all of them.
///
/// # Errors
/// `too-large` or `invalid`.
pub fn validate_deletions(requests: &[DeleteRequest]) -> Result<(), Failure> {
    check_count(requests.len())?;
    check_apart(requests.iter().map(|request| &request.bucket).collect())
}

fn check_count(count: usize) -> Result<(), Failure> {
    if count <= MAX_TRANSACTIONS {
        return Ok(());
    }
    Err(too_large(limit::TRANSACTIONS, MAX_TRANSACTIONS as u64, "transactions or deletions in a call"))
}

/// Refuses a call that names a bucket twice.
fn check_apart(buckets: Vec<&BucketId>) -> Result<(), Failure> {
    match find_repeated(buckets) {
        None => Ok(()),
        Some(again) => {
            let message = format!("the {} {} is named twice in one call", again.kind, again.name);
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

fn check_precondition(precondition: &Precondition, capabilities: &[&str]) -> Result<(), Failure> {
    if let Precondition::Existing(life) = precondition {
        return life.generation.as_deref().map_or(Ok(()), |generation| check_token("generation", generation));
    }
    let Some(time_to_live) = new_bucket(precondition).and_then(|life| life.time_to_live) else { return Ok(()) };
    require(capabilities, capability::EXPIRING)?;
    if !(1..=MAX_TIME_TO_LIVE_MS).contains(&time_to_live.milliseconds) {
        let message =
            format!("a time to live is 1 to {MAX_TIME_TO_LIVE_MS} milliseconds, not {}", time_to_live.milliseconds);
        return Err(failure(FailureCode::Invalid, "time-to-live", message));
    }
    Ok(())
}

fn check_lease(lease: &LeaseRequest, capabilities: &[&str]) -> Result<(), Failure> {
    require(capabilities, capability::LEASES)?;
    check_part("lease", &lease.name)?;
    check_token("holder", &lease.holder)?;
    if lease.milliseconds > MAX_TIME_TO_LIVE_MS {
        let message = format!("a lease lasts at most {MAX_TIME_TO_LIVE_MS} milliseconds, not {}", lease.milliseconds);
        return Err(failure(FailureCode::Invalid, "milliseconds", message));
    }
    Ok(())
}

/// Refuses what needs a capability that the store lacks.
fn require(capabilities: &[&str], needed: &str) -> Result<(), Failure> {
    if capabilities.contains(&needed) {
        return Ok(());
    }
    Err(failure(FailureCode::Unsupported, needed, format!("this store lacks the capability {needed}")))
}

fn check_operation<'a>(
    operation: &'a Operation,
    capabilities: &[&str],
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
        Operation::GetAll(all) => {
            check_map(&all.map_name)?;
            if all.cursor.as_ref().is_some_and(|cursor| cursor.len() > MAX_CURSOR_BYTES) {
                return Err(failure(FailureCode::Invalid, "cursor", "this cursor is none that a store gave"));
            }
        }
        Operation::Set(set) => check_set(set, written)?,
        Operation::Add(add) => {
            check_map(&add.map_name)?;
            check_key(&add.map_name, &add.key)?;
            written.add(TargetKind::Map, &add.map_name, Some(&add.key));
        }
        Operation::Append(append) => {
            written.add_part(TargetKind::Log, &append.log)?;
            marks(&append.marks, append.records.len(), written)?;
        }
        Operation::Read(read) => check_part("log", &read.log)?,
        Operation::ReadAt(read) => {
            require(capabilities, capability::POSITIONS)?;
            check_part("log", &read.log)?;
        }
        Operation::ReplaceOldest(replace) => {
            written.add_part(TargetKind::Log, &replace.log)?;
            if replace.records.len() as u64 > replace.count {
                let message = format!("{} records can't take the place of {}", replace.records.len(), replace.count);
                return Err(failure(FailureCode::Invalid, "records", message));
            }
        }
        Operation::Rewrite(rewrite) => {
            require(capabilities, capability::POSITIONS)?;
            written.add_part(TargetKind::Log, &rewrite.log)?;
            if let Some(position) = find_repeated(rewrite.records.iter().map(|record| record.position).collect()) {
                return Err(written_twice("position", &position.to_string()));
            }
        }
        Operation::Describe(_) => {}
    }
    Ok(())
}

fn check_set<'a>(set: &'a SetOperation, written: &mut WriteTargets<'a>) -> Result<(), Failure> {
    check_map(&set.map_name)?;
    let keys = || set.remove.iter().chain(set.put.iter().map(|entry| &entry.key));
    keys().try_for_each(|key| check_key(&set.map_name, key))?;
    if set.reset {
        written.add(TargetKind::Map, &set.map_name, None);
        // That the whole map is written hides a key that is written twice.
        if let Some(key) = find_repeated(keys().collect()) {
            return Err(written_twice("key", key));
        }
    } else {
        keys().for_each(|key| written.add(TargetKind::Map, &set.map_name, Some(key)));
    }
    Ok(())
}

fn check_step<'a>(step: &'a IndexStep, written: &mut WriteTargets<'a>) -> Result<(), Failure> {
    match step {
        IndexStep::AddDocuments(add) => {
            written.add_part(TargetKind::Index, &add.index)?;
            check_documents(add)
        }
        IndexStep::RemoveDocuments(remove) => written.add_part(TargetKind::Index, &remove.index),
        IndexStep::Search(search) => {
            check_part("index", &search.index)?;
            check_terms(&search.terms)
        }
        IndexStep::ReadMarks(read) => check_part("index", &read.index),
    }
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

/// What a transaction may write, in bytes, that is for removing something: a mark of what was removed.
#[cfg(feature = "redis")]
const WRITTEN_TO_MAKE_ROOM: usize = 1024;

/// Whether a transaction removes something and writes next to nothing: a store that is full takes it nevertheless.
#[cfg(feature = "redis")]
pub(crate) fn makes_room(request: &IndexedTransaction) -> bool {
    /// The longest counter, -2^63, has as many.
    const COUNTER_BYTES: usize = 20;
    let IndexedTransaction { lease, transaction, steps } = request;
    let (mut removes, mut written) = (matches!(transaction.precondition, Precondition::Replace(_)), 0);
    // What grows is no mark of something removed.
    let mut grows = lease.is_some();
    for operation in &transaction.operations {
        match operation {
            Operation::Set(set) => {
                removes |= set.reset || !set.remove.is_empty();
                written += set.put.iter().map(|entry| entry.key.len() + entry.text.len()).sum::<usize>();
            }
            Operation::Add(add) => written += add.key.len() + COUNTER_BYTES,
            Operation::Append(append) => {
                (removes, grows) = (removes | append.reset, grows | !append.reset);
                written += append.records.iter().map(String::len).sum::<usize>();
            }
            Operation::ReplaceOldest(_) => grows = true,
            Operation::Rewrite(rewrite) => {
                written += rewrite.records.iter().map(|record| record.text.len()).sum::<usize>();
            }
            Operation::Get(_)
            | Operation::GetAll(_)
            | Operation::Read(_)
            | Operation::ReadAt(_)
            | Operation::Describe(_) => {}
        }
    }
    for step in steps {
        match step {
            IndexStep::AddDocuments(_) => grows = true,
            IndexStep::RemoveDocuments(remove) => removes |= !remove.positions.is_empty(),
            IndexStep::Search(_) | IndexStep::ReadMarks(_) => {}
        }
    }
    removes && !grows && written <= WRITTEN_TO_MAKE_ROOM
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
}

impl TargetKind {
    fn name(self) -> &'static str {
        match self {
            Self::Map => "map",
            Self::Log => "log",
            Self::Index => "index",
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
