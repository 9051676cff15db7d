//! Checks of a transaction that need no store: names, limits, and one write for each place.

mod written;

use std::collections::HashSet;

use self::written::{Names, Place, Written};
use super::{
    Entry, Expectation, Failure, FailureCode, NewLife, Opening, Operation, PositionMark, StoreCapabilities,
    Transaction, failure,
    names::{VALUES, check_bucket, check_key, check_map, check_part, check_token},
};

/// Operations, expectations, entries, keys, records, marks and spans of a transaction, together: more than a filter
/// asks for, and few enough for a store to do at one go.
pub const MAX_PIECES: u64 = 20_000;
/// Bytes of a text.
pub const MAX_TEXT_BYTES: u64 = 16 << 20;
/// Bytes of all keys and texts of a transaction.
pub const MAX_BYTES: u64 = 32 << 20;
/// Maps, logs and leases of a bucket.
pub const MAX_PARTS: u64 = 64;
/// Transactions that are waited for together.
pub const MAX_TRANSACTIONS: usize = 128;
/// Entries or records in one answer, whatever was asked for: reading them holds up everybody else.
pub const MAX_RECORDS: u64 = 10_000;
/// Entries on a page when the caller does not say.
pub const PAGE: u64 = 100;
/// Keys that one answer names; of more it names none.
pub(super) const MAX_NAMES: u64 = 100_000;
/// Writers of one bucket that a store remembers because a try of theirs may still be under way; it takes no more.
pub(super) const MAX_WRITERS: u64 = 16_384;
/// A hundred years: more than anybody means, and far from where milliseconds since 1970 overflow.
pub const MAX_TIME_TO_LIVE_MS: u64 = 100 * 366 * 24 * 3600 * 1000;

/// Refuses a transaction that breaks a rule of the contract, or asks for what the store lacks: the first thing that a
/// store does.
///
/// # Errors
/// `invalid`, `too-large` or `unsupported`.
pub fn check(transaction: &Transaction, capabilities: &StoreCapabilities) -> Result<(), Failure> {
    check_bucket(&transaction.bucket)?;
    check_opening(&transaction.opening, capabilities)?;
    let mut size = Size::default();
    for expectation in &transaction.expectations {
        size.piece()?;
        match expectation {
            Expectation::Entry(expected) => {
                check_map(&expected.map_name)?;
                check_key(&expected.map_name, &expected.key)?;
                size.bytes(&expected.key)?;
                size.text(&expected.text)?;
            }
            Expectation::Log(expected) => check_part("log", &expected.log)?,
            Expectation::Room(expected) => check_map(&expected.map_name)?,
        }
    }
    let mut written = Written::default();
    for operation in &transaction.operations {
        size.piece()?;
        check_operation(operation, capabilities, &mut size, &mut written)?;
    }
    Ok(())
}

/// Refuses transactions that can't be sent together, all of them.
///
/// # Errors
/// `too-large` or `invalid`.
pub fn check_each(transactions: &[Transaction]) -> Result<(), Failure> {
    if transactions.len() > MAX_TRANSACTIONS {
        return Err(too_large("transactions", MAX_TRANSACTIONS as u64, "transactions at a time"));
    }
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
pub(super) fn new_life(opening: &Opening) -> Option<&NewLife> {
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
    size: &mut Size,
    written: &mut Written<'a>,
) -> Result<(), Failure> {
    match operation {
        Operation::Get(get) => {
            check_map(&get.map_name)?;
            let mut keys = Names::default();
            for key in &get.keys {
                size.piece()?;
                size.bytes(key)?;
                check_key(&get.map_name, key)?;
                if !keys.insert((Place::Entry, &get.map_name, key)) {
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
        Operation::Put(put) => put_entries(&put.map_name, &put.entries, size, written)?,
        Operation::Increment(increment) => {
            check_map(&increment.map_name)?;
            size.bytes(&increment.key)?;
            check_key(&increment.map_name, &increment.key)?;
            written.entry(&increment.map_name, &increment.key)?;
        }
        Operation::Remove(remove) => {
            check_map(&remove.map_name)?;
            for key in &remove.keys {
                size.piece()?;
                size.bytes(key)?;
                check_key(&remove.map_name, key)?;
                written.entry(&remove.map_name, key)?;
            }
        }
        Operation::ResetMap(reset) => {
            written.whole_map(&reset.map_name)?;
            let mut own = Written::default();
            put_entries(&reset.map_name, &reset.entries, size, &mut own)?;
        }
        Operation::Append(append) => {
            written.log(&append.log)?;
            records(&append.records, size)?;
            marks(&append.marks, append.records.len(), size, written)?;
        }
        Operation::Read(read) => check_part("log", &read.log)?,
        Operation::ReadAt(read) => {
            check_part("log", &read.log)?;
            read.spans.iter().try_for_each(|_| size.piece())?;
        }
        Operation::Overflow(overflow) => {
            check_part("log", &overflow.log)?;
            if overflow.keep > overflow.limit {
                let message = format!("keep ({}) is more than limit ({})", overflow.keep, overflow.limit);
                return Err(failure(FailureCode::Invalid, "keep", message));
            }
        }
        Operation::ReplaceOldest(replace) => {
            written.log(&replace.log)?;
            records(&replace.records, size)?;
            if replace.records.len() as u64 > replace.count {
                let message = format!("{} records can't take the place of {}", replace.records.len(), replace.count);
                return Err(failure(FailureCode::Invalid, "records", message));
            }
        }
        Operation::Rewrite(rewrite) => {
            written.log(&rewrite.log)?;
            let mut positions = HashSet::with_capacity(rewrite.records.len());
            for record in &rewrite.records {
                size.piece()?;
                size.text(&record.text)?;
                if !positions.insert(record.position) {
                    return Err(twice("position", &record.position.to_string()));
                }
            }
        }
        Operation::ResetLog(reset) => {
            written.log(&reset.log)?;
            records(&reset.records, size)?;
            marks(&reset.marks, reset.records.len(), size, written)?;
        }
        Operation::Lease(lease) => {
            if !capabilities.leases {
                return Err(unsupported("leases", "has no leases"));
            }
            written.lease(&lease.lease)?;
            check_token("holder", &lease.holder)?;
            if lease.milliseconds > MAX_TIME_TO_LIVE_MS {
                let message = format!("a lease lasts at most {MAX_TIME_TO_LIVE_MS} milliseconds");
                return Err(failure(FailureCode::Invalid, "milliseconds", message));
            }
        }
        Operation::Post(_) | Operation::Unpost(_) | Operation::Match(_) => {
            if !capabilities.indexes {
                return Err(unsupported("indexes", "has no indexes"));
            }
        }
        Operation::Describe(_) => {}
    }
    Ok(())
}

fn put_entries<'a>(
    map: &'a str,
    entries: &'a [Entry],
    size: &mut Size,
    written: &mut Written<'a>,
) -> Result<(), Failure> {
    check_map(map)?;
    for entry in entries {
        size.piece()?;
        size.bytes(&entry.key)?;
        size.text(&entry.text)?;
        check_key(map, &entry.key)?;
        written.entry(map, &entry.key)?;
    }
    Ok(())
}

fn records(records: &[String], size: &mut Size) -> Result<(), Failure> {
    for record in records {
        size.piece()?;
        size.text(record)?;
    }
    Ok(())
}

fn marks<'a>(
    marks: &'a [PositionMark],
    records: usize,
    size: &mut Size,
    written: &mut Written<'a>,
) -> Result<(), Failure> {
    for mark in marks {
        size.piece()?;
        check_map(&mark.map_name)?;
        if mark.map_name == VALUES {
            return Err(failure(FailureCode::Invalid, "marks", "the values of a bucket hold no positions"));
        }
        if mark.record_index as usize >= records {
            let message = format!("the mark {} is of record {}, of {records}", mark.key, mark.record_index);
            return Err(failure(FailureCode::Invalid, "marks", message));
        }
        size.bytes(&mark.key)?;
        check_key(&mark.map_name, &mark.key)?;
        written.entry(&mark.map_name, &mark.key)?;
    }
    Ok(())
}

/// How much a transaction asks for so far.
#[derive(Default)]
struct Size {
    pieces: u64,
    bytes: u64,
}

impl Size {
    fn piece(&mut self) -> Result<(), Failure> {
        self.pieces += 1;
        if self.pieces > MAX_PIECES { Err(too_large("pieces", MAX_PIECES, "pieces in a transaction")) } else { Ok(()) }
    }

    fn text(&mut self, text: &str) -> Result<(), Failure> {
        if text.len() as u64 > MAX_TEXT_BYTES {
            return Err(too_large("text", MAX_TEXT_BYTES, "bytes in a text"));
        }
        self.bytes(text)
    }

    fn bytes(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes = self.bytes.saturating_add(text.len() as u64);
        if self.bytes > MAX_BYTES { Err(too_large("bytes", MAX_BYTES, "bytes in a transaction")) } else { Ok(()) }
    }
}

fn twice(what: &str, name: &str) -> Failure {
    failure(FailureCode::Invalid, name, format!("a transaction writes each {what} once, {name} would be written twice"))
}

fn too_large(subject: &str, limit: u64, what: &str) -> Failure {
    Failure { limit, ..failure(FailureCode::TooLarge, subject, format!("over the limit of {limit} {what}")) }
}

/// Refuses what would give a bucket more parts than it may have. `values` is always there and counts as none.
pub(super) fn too_many_parts() -> Failure {
    too_large("parts", MAX_PARTS, "maps, logs and leases in a bucket")
}

fn unsupported(capability: &str, what: &str) -> Failure {
    failure(FailureCode::Unsupported, capability, format!("this store {what}"))
}

/// Refuses a writer whose retry could not be told from its first try.
pub(super) fn too_many_writers() -> Failure {
    let message =
        format!("{MAX_WRITERS} other writers have just written to this session and may still retry; try again later");
    Failure { limit: MAX_WRITERS, ..failure(FailureCode::Full, "writers", message) }
}

/// Whether any of the operations may change a bucket: only then must a retry be recognised, and a late one
/// refused.
pub(super) fn writes(operations: &[Operation]) -> bool {
    operations.iter().any(|operation| match operation {
        Operation::Put(_)
        | Operation::Increment(_)
        | Operation::Remove(_)
        | Operation::ResetMap(_)
        | Operation::Append(_)
        | Operation::ReplaceOldest(_)
        | Operation::Rewrite(_)
        | Operation::ResetLog(_)
        | Operation::Lease(_)
        | Operation::Post(_)
        | Operation::Unpost(_) => true,
        Operation::Get(_)
        | Operation::GetAll(_)
        | Operation::Page(_)
        | Operation::Read(_)
        | Operation::ReadAt(_)
        | Operation::Overflow(_)
        | Operation::Match(_)
        | Operation::Describe(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AppendOperation, BucketId, BucketKind, LeaseOperation, PutOperation, ResetMapOperation};

    const ALL: StoreCapabilities = StoreCapabilities {
        atomic: true,
        expiring: true,
        exactly_once: true,
        durable: false,
        listing: true,
        leases: true,
        indexes: false,
    };

    fn put(map: &str, key: &str) -> Operation {
        let entries = vec![Entry { key: key.into(), text: "1".into() }];
        Operation::Put(PutOperation { map_name: map.into(), entries })
    }

    fn code(operations: Vec<Operation>) -> Option<FailureCode> {
        let transaction = Transaction {
            bucket: BucketId { kind: BucketKind::Session, name: "b".into() },
            opening: Opening::Create(NewLife { time_to_live: None }),
            expectations: vec![],
            operations,
        };
        check(&transaction, &ALL).err().map(|failure| failure.code)
    }

    #[test]
    fn each_entry_is_written_once() {
        assert_eq!(code(vec![put("values", "a"), put("values", "b"), put("notes", "a")]), None);
        let many: Vec<_> = (0..100).map(|n| put("values", &format!("k{n}"))).collect();
        assert_eq!(code(many.clone()), None);
        for again in ["k3", "k99"] {
            let operations = many.iter().cloned().chain([put("values", again)]).collect();
            assert_eq!(code(operations), Some(FailureCode::Invalid));
        }
        let all = Operation::ResetMap(ResetMapOperation { map_name: VALUES.into(), entries: vec![] });
        assert_eq!(code(vec![put("values", "a"), all.clone()]), Some(FailureCode::Invalid));
        assert_eq!(code(vec![all.clone(), put("values", "a")]), Some(FailureCode::Invalid));
        assert_eq!(code(vec![all.clone(), put("notes", "a")]), None);
        assert_eq!(code(vec![all.clone(), all]), Some(FailureCode::Invalid));
    }

    #[test]
    fn marks_logs_and_leases_are_places_too() {
        let append = |log: &str, map_name: &str, record_index| {
            let marks = vec![PositionMark { map_name: map_name.into(), key: "k".into(), record_index }];
            Operation::Append(AppendOperation { log: log.into(), records: vec!["1".into()], marks })
        };
        let lease =
            |name: &str| Operation::Lease(LeaseOperation { lease: name.into(), holder: "h".into(), milliseconds: 1 });
        let reset = |map: &str| Operation::ResetMap(ResetMapOperation { map_name: map.into(), entries: vec![] });
        for allowed in [
            vec![append("l", "m", 0), append("m", "n", 0), lease("l"), lease("m"), put("l", "k")],
            vec![append("l", "m", 0), put("m", "j"), reset("l")],
            vec![append("log", "map", 0), lease("map"), reset("log"), put("lease", "log")],
        ] {
            assert_eq!(code(allowed), None);
        }
        for refused in [
            vec![append("l", "m", 0), append("l", "n", 0)],
            vec![append("l", "m", 0), append("m", "m", 0)],
            vec![append("l", "m", 0), put("m", "k")],
            vec![reset("m"), append("l", "m", 0)],
            vec![append("l", "m", 0), reset("m")],
            vec![append("l", "m", 1)],
            vec![append("l", VALUES, 0)],
            vec![lease("l"), lease("l")],
        ] {
            assert_eq!(code(refused), Some(FailureCode::Invalid));
        }
    }
}
