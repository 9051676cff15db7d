//! What a store replies, checked against what it was asked.
//!
//! Promises that whoever calls [`transact`] gets a receipt that the contract allows: a status that the opening and
//! the expectations explain, and for each operation an outcome of its kind, within its limits, sorted and without
//! duplicates. Small faults are mended, larger ones are a failed store. A host is not our enemy, but it may be
//! new. Refuses to look at the texts themselves.

use std::collections::BinaryHeap;

use crate::store::{
    Bucket, Deletion, Expectation, Failure, FoundEntries, Host, KeyPage, LogEnd, LogExtent, LogRecords, Opening,
    Operation, Outcome, Receipt, Status, Transaction,
};

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
            Some(Outcome::Records(found)) => Ok(found),
            Some(Outcome::Spans(extent, runs)) => {
                let none = LogRecords { extent, first: extent.next(), records: Vec::new() };
                Ok(runs.into_iter().next().unwrap_or(none))
            }
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `ReadSpans`.
    pub(crate) fn spans(&mut self) -> Result<Vec<LogRecords>, Failure> {
        match self.0.next() {
            Some(Outcome::Spans(_, found)) => Ok(found),
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `Append`, `ReplaceOldest`, `Rewrite` and `ResetLog`.
    pub(crate) fn extent(&mut self) -> Result<LogExtent, Failure> {
        match self.0.next() {
            Some(Outcome::Extent(extent)) => Ok(extent),
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
        (Operation::GetSome { keys, max_bytes, .. }, outcome) => mend_some(outcome, keys, *max_bytes),
        (Operation::GetAll { max_entries, max_bytes, .. }, outcome) => mend_all(outcome, *max_entries, *max_bytes),
        (Operation::PageKeys { .. }, Outcome::Page(page)) => {
            sort(&mut page.keys);
            true
        }
        (Operation::Put { .. }, Outcome::Changed(count)) => *count <= 1,
        (Operation::Remove { keys, .. }, Outcome::Changed(count)) => *count <= keys.len() as u64,
        (
            Operation::PutSome { .. } | Operation::ReplaceMap { .. } | Operation::ResetMap { .. },
            Outcome::Changed(_),
        )
        | (Operation::Increment { .. }, Outcome::Counter(_))
        | (Operation::Lease { .. }, Outcome::Lease(_))
        | (Operation::Describe { .. }, Outcome::Described(_)) => true,
        (
            Operation::Append { .. }
            | Operation::ReplaceOldest { .. }
            | Operation::Overflow { .. }
            | Operation::Rewrite { .. }
            | Operation::ReplaceLog { .. }
            | Operation::ResetLog { .. },
            Outcome::Extent(extent),
        ) => is_sane(*extent),
        (Operation::Read { end, max_records, .. }, Outcome::Records(found)) => {
            is_run(found)
                && found.records.len() as u64 <= *max_records
                && match end {
                    _ if found.records.is_empty() => true,
                    LogEnd::Oldest => found.first == found.extent.first,
                    LogEnd::Newest => found.first + found.records.len() as u64 == found.extent.next(),
                }
        }
        (Operation::ReadAt { position, count, .. }, Outcome::Spans(extent, found)) => {
            is_sane(*extent) && found.len() <= 1 && found.iter().all(|run| is_within(run, *position, *count))
        }
        (Operation::ReadSpans { spans, .. }, Outcome::Spans(extent, found)) => {
            // Spans of which there is no record have none here: each of these belongs to a later one than the last.
            let mut spans = spans.iter();
            is_sane(*extent) && found.iter().all(|run| spans.any(|span| is_within(run, span.position, span.count)))
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

/// Some entries: what was not asked for is not there.
fn mend_some(outcome: &mut Outcome, keys: &[&str], max_bytes: u64) -> bool {
    let Outcome::Entries(found) = outcome else { return matches!(outcome, Outcome::Oversize { .. }) };
    found.unreadable.retain(|name| keys.contains(&&**name));
    found.entries.retain(|entry| keys.contains(&&*entry.key));
    let bytes = found.entries.iter().map(|entry| entry.text.len() as u64).sum();
    if bytes > max_bytes {
        *outcome = Outcome::Oversize { bytes, entries: keys.len() as u64 };
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

/// Whether the records are some of the log's, and of those that were asked for.
fn is_within(found: &LogRecords, position: u64, count: u32) -> bool {
    let end = position.saturating_add(u64::from(count));
    is_run(found)
        && (found.records.is_empty() || (found.first >= position && found.first + found.records.len() as u64 <= end))
}

/// Whether the records are some of the log's.
fn is_run(found: &LogRecords) -> bool {
    let end = found.first.checked_add(found.records.len() as u64);
    is_sane(found.extent)
        && (found.records.is_empty()
            || (found.first >= found.extent.first && end.is_some_and(|end| end <= found.extent.next())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::store::{BucketPage, Capabilities, Description, Entry, Level, VALUES};

    /// A store that says the same whatever it is asked.
    struct Says(Receipt, Deletion);

    impl Host for Says {
        fn transact(&self, _: &Transaction<'_>) -> Result<Receipt, Failure> {
            Ok(self.0.clone())
        }

        fn transact_each(&self, transactions: &[Transaction<'_>]) -> Vec<Result<Receipt, Failure>> {
            transactions.iter().map(|_| Ok(self.0.clone())).collect()
        }

        fn list_sessions(&self, _: &str, _: u32) -> Result<BucketPage, Failure> {
            Err(Failure::out_of_turn())
        }

        fn delete(&self, _: Bucket<'_>, _: Option<&str>, _: u32) -> Result<Deletion, Failure> {
            Ok(self.1.clone())
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities { atomic: true, expiring: true, exactly_once: true, listing: true, leases: true }
        }

        fn now_micros(&self) -> u64 {
            0
        }

        fn log(&self, _: Level, _: &str, _: &str) {}
    }

    const GONE: Deletion = Deletion { status: Status::Absent, values: 0, keys: Vec::new() };

    fn told(receipt: Receipt, opening: Opening<'_>, operations: &[Operation<'_>]) -> Result<Receipt, Failure> {
        let expectations = [Expectation::Room { map: VALUES, limit: 1 }];
        let transaction =
            Transaction { bucket: Bucket::session("s"), opening, expectations: &expectations, operations };
        transact(&Says(receipt, GONE), &transaction)
    }

    fn receipt(status: Status, outcomes: Vec<Outcome>) -> Receipt {
        Receipt { status, incarnation: "1-2".into(), unmet: None, outcomes }
    }

    /// What becomes of an outcome of this operation.
    fn mended(operation: Operation<'_>, outcome: Outcome) -> Option<Outcome> {
        let told = told(receipt(Status::Applied, vec![outcome]), Opening::ANY, &[operation]).ok()?;
        told.outcomes.into_iter().next()
    }

    fn entries(found: &[(&str, &str)], unreadable: &[&str]) -> Outcome {
        let entry = |&(key, text): &(&str, &str)| Entry { key: key.into(), text: text.into() };
        let unreadable = unreadable.iter().map(|&key| key.to_owned()).collect();
        Outcome::Entries(FoundEntries { entries: found.iter().map(entry).collect(), unreadable })
    }

    fn records(first: u64, length: u64, at: u64, count: usize) -> Outcome {
        let extent = LogExtent { first, length };
        Outcome::Records(LogRecords { extent, first: at, records: vec!["{}".into(); count] })
    }

    const GET: Operation<'static> = Operation::Get { map: VALUES, key: "k", max_bytes: 3 };
    const GET_ALL: Operation<'static> = Operation::GetAll { map: VALUES, max_entries: 3, max_bytes: 9 };

    #[test]
    fn a_status_needs_a_reason() {
        let life = Opening::life("1-2");
        let new = Opening::CreateNew { time_to_live: None };
        let cases = [
            (Status::Applied, Opening::ANY, true),
            (Status::Repeated, new, true),
            (Status::Absent, new, true),
            (Status::Expired, Opening::ANY, true),
            (Status::Exists, new, true),
            (Status::Exists, Opening::ANY, false),
            (Status::AnotherLife, life, true),
            (Status::AnotherLife, Opening::ANY, false),
            (Status::Unmet, Opening::ANY, false),
        ];
        for (status, opening, is_right) in cases {
            assert_eq!(told(receipt(status, vec![]), opening, &[]).is_ok(), is_right, "{status:?} {opening:?}");
        }
        for (index, is_right) in [(0, true), (1, false), (u32::MAX, false)] {
            let unmet = Receipt { unmet: Some(index), ..receipt(Status::Unmet, vec![]) };
            assert_eq!(told(unmet, Opening::ANY, &[]).is_ok(), is_right, "{index}");
        }
    }

    #[test]
    fn each_operation_has_an_outcome_of_its_kind() {
        let counter = || Outcome::Counter(1);
        assert!(told(receipt(Status::Applied, vec![]), Opening::ANY, &[GET]).is_err());
        assert!(told(receipt(Status::Applied, vec![counter()]), Opening::ANY, &[]).is_err());
        // The outcomes of what was not applied mean nothing.
        assert!(told(receipt(Status::Absent, vec![counter()]), Opening::ANY, &[]).is_ok());
        let operations = [
            GET,
            GET_ALL,
            Operation::PageKeys { map: VALUES, cursor: "", max_entries: 1, max_bytes: 1 },
            Operation::Put { map: VALUES, key: "k", text: "1" },
            Operation::Remove { map: VALUES, keys: &["k"] },
            Operation::ResetMap { map: VALUES },
            Operation::Append { log: "l", records: &[], marks: &[] },
            Operation::Read { log: "l", end: LogEnd::Newest, max_records: 1, max_bytes: 1 },
            Operation::ReadAt { log: "l", position: 0, count: 1, max_bytes: 1 },
            Operation::Overflow { log: "l", limit: 1, keep: 1, max_records: 1, max_bytes: 1 },
            Operation::ReplaceOldest { log: "l", count: 1, records: &[] },
            Operation::Describe { parts: true },
        ];
        for operation in operations {
            assert_eq!(mended(operation, counter()), None, "{operation:?}");
            assert_eq!(mended(operation, Outcome::Other), None, "{operation:?}");
        }
        let increment = Operation::Increment { map: VALUES, key: "k", amount: 1 };
        assert_eq!(mended(increment, counter()), Some(counter()));
        assert_eq!(mended(increment, Outcome::Changed(1)), None);
        assert_eq!(mended(Operation::Put { map: VALUES, key: "k", text: "1" }, Outcome::Changed(2)), None);
        assert_eq!(mended(Operation::Remove { map: VALUES, keys: &["k"] }, Outcome::Changed(2)), None);
        let described = Outcome::Described(Description::default());
        assert_eq!(mended(Operation::Describe { parts: true }, described.clone()), Some(described));
    }

    #[test]
    fn entries_are_those_that_were_asked_for_each_once_and_sorted() {
        for (found, good) in [
            (entries(&[("k", "1")], &[]), entries(&[("k", "1")], &[])),
            (entries(&[("a", "1"), ("k", "2"), ("k", "3")], &["b"]), entries(&[("k", "2")], &[])),
            (entries(&[("k", "1")], &["k", "k"]), entries(&[], &["k"])),
            (entries(&[("k", "1234")], &[]), Outcome::Oversize { bytes: 4, entries: 1 }),
        ] {
            assert_eq!(mended(GET, found), Some(good));
        }
        for (found, good) in [
            (entries(&[("b", "1"), ("a", "2"), ("b", "3")], &["d", "c"]), None),
            (entries(&[("b", "1"), ("a", "2"), ("b", "1")], &[]), Some(entries(&[("a", "2"), ("b", "1")], &[]))),
            (entries(&[], &["c", "b", "c"]), Some(entries(&[], &["b", "c"]))),
            (entries(&[("a", "12345678"), ("b", "")], &[]), None),
        ] {
            match good {
                Some(good) => assert_eq!(mended(GET_ALL, found), Some(good)),
                // More than was asked for is too much.
                None => assert!(matches!(mended(GET_ALL, found), Some(Outcome::Oversize { .. }))),
            }
        }
        let page = |keys: &[&str]| {
            Outcome::Page(KeyPage { keys: keys.iter().map(|&key| key.to_owned()).collect(), cursor: "c".into() })
        };
        let asked = Operation::PageKeys { map: VALUES, cursor: "", max_entries: 2, max_bytes: 1 };
        assert_eq!(mended(asked, page(&["b", "a", "b"])), Some(page(&["a", "b"])));
    }

    #[test]
    fn records_are_where_the_log_is() {
        let read = |end| Operation::Read { log: "l", end, max_records: 2, max_bytes: 1 };
        let (oldest, newest) = (read(LogEnd::Oldest), read(LogEnd::Newest));
        let overflow = Operation::Overflow { log: "l", limit: 4, keep: 2, max_records: 9, max_bytes: 1 };
        let cases = [
            (newest, records(5, 3, 6, 2), true),
            (newest, records(5, 3, 8, 0), true),
            (newest, records(0, 0, 0, 0), true),
            (newest, records(5, 3, 5, 2), false),
            (newest, records(5, 3, 5, 3), false),
            (newest, records(5, 1, 4, 2), false),
            (newest, records(u64::MAX, 1, u64::MAX, 1), false),
            (oldest, records(5, 3, 5, 2), true),
            (oldest, records(5, 3, 6, 2), false),
            (oldest, records(5, 3, u64::MAX, 2), false),
            (overflow, records(5, 5, 5, 3), true),
            (overflow, records(5, 5, 5, 1), true),
            (overflow, records(5, 5, 5, 4), false),
            (overflow, records(5, 5, 6, 3), false),
            (overflow, records(5, 4, 5, 1), false),
            (overflow, records(5, 4, 9, 0), true),
            (overflow, Outcome::Extent(LogExtent { first: 5, length: 4 }), true),
            (overflow, Outcome::Extent(LogExtent { first: u64::MAX, length: 1 }), false),
        ];
        for (operation, found, is_right) in cases {
            assert_eq!(mended(operation, found.clone()).is_some(), is_right, "{operation:?} {found:?}");
        }
        let read_at = Operation::ReadAt { log: "l", position: 6, count: 2, max_bytes: 1 };
        for (found, is_right) in [
            (records(5, 3, 6, 2), true),
            (records(7, 3, 7, 1), true),
            (records(5, 3, 8, 0), true),
            (records(5, 3, 5, 1), false),
            (records(5, 9, 7, 2), false),
        ] {
            let Outcome::Records(found) = found else { panic!("they are") };
            assert_eq!(
                mended(read_at, Outcome::Spans(found.extent, vec![found.clone()])).is_some(),
                is_right,
                "{found:?}"
            );
        }
        let append = Operation::Append { log: "l", records: &["1"], marks: &[] };
        let extent = |first, length| Outcome::Extent(LogExtent { first, length });
        assert_eq!(mended(append, extent(1, 2)), Some(extent(1, 2)));
        assert_eq!(mended(append, extent(2, u64::MAX)), None);
    }

    #[test]
    fn a_stamp_that_nobody_can_carry_is_none() {
        let long = "1".repeat(257);
        for (stamp, kept) in [("1-2~", "1-2~"), ("", ""), ("a b", ""), ("é", ""), ("a\n", ""), (&long, "")] {
            let told =
                told(Receipt { incarnation: stamp.into(), ..receipt(Status::Applied, vec![]) }, Opening::ANY, &[]);
            assert_eq!(told.unwrap().incarnation, kept);
        }
    }

    #[test]
    fn a_deletion_names_no_more_than_was_asked_for() {
        let deletion = |status, values, keys: &[&str]| Deletion {
            status,
            values,
            keys: keys.iter().map(|&key| key.to_owned()).collect(),
        };
        let told = |said| delete(&Says(receipt(Status::Applied, vec![]), said), Bucket::session("s"), None, 2);
        let good = deletion(Status::Applied, 3, &["a", "b"]);
        assert_eq!(told(deletion(Status::Applied, 3, &["c", "b", "a", "b"])).unwrap(), good);
        assert_eq!(told(deletion(Status::Applied, 0, &["a"])).unwrap().values, 1);
        assert!(told(deletion(Status::Unmet, 0, &[])).is_err());
        assert_eq!(told(GONE).unwrap(), GONE);
    }
}
