//! What becomes of the replies of a store that says what it is told to.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;
use crate::store::{
    BucketPage, Capabilities, Description, Entry, FoundEntries, FoundMatches, IndexExtent, KeyPage, Level, LogEnd,
    LogExtent, Posting, VALUES,
};

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
        Capabilities { atomic: true, expiring: true, exactly_once: true, listing: true, leases: true, indexes: true }
    }

    fn now_micros(&self) -> u64 {
        0
    }

    fn log(&self, _: Level, _: &str, _: &str) {}
}

const GONE: Deletion = Deletion { status: Status::Absent, values: 0, keys: Vec::new() };

fn told(receipt: Receipt, opening: Opening<'_>, operations: &[Operation<'_>]) -> Result<Receipt, Failure> {
    let expectations = [Expectation::Room { map: VALUES, limit: 1 }];
    let transaction = Transaction { bucket: Bucket::session("s"), opening, expectations: &expectations, operations };
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
const POST: Operation<'static> =
    Operation::Post { index: "i", documents: &[Posting { position: 3, mark: 1, terms: &[1, 2] }] };
const MATCH: Operation<'static> = Operation::Match { index: "i", terms: &[2, 1], newest: 4, max_bytes: 20 };

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
        Operation::ResetMap { map: VALUES, entries: &[] },
        Operation::Append { log: "l", records: &[], marks: &[] },
        Operation::Read { log: "l", end: LogEnd::Newest, max_records: 1, max_bytes: 1 },
        Operation::ReadAt { log: "l", position: 0, count: 1, max_bytes: 1 },
        Operation::Overflow { log: "l", limit: 1, keep: 1, max_records: 1, max_bytes: 1 },
        Operation::ReplaceOldest { log: "l", count: 1, records: &[] },
        POST,
        Operation::Unpost { index: "i", positions: &[1] },
        MATCH,
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
    let get_some = Operation::GetSome { map: VALUES, keys: &["k", "a"], max_bytes: 3 };
    for (found, good) in [
        (entries(&[("k", "12"), ("a", "3")], &[]), entries(&[("k", "12"), ("a", "3")], &[])),
        (entries(&[("b", "1"), ("a", "2")], &["c"]), entries(&[("a", "2")], &[])),
        (entries(&[("a", "1"), ("k", "2")], &["k", "k", "a"]), entries(&[], &["k", "k"])),
        (entries(&[("a", "1"), ("k", "2"), ("k", "3")], &["k"]), entries(&[("a", "1")], &["k"])),
        (entries(&[("a", "12"), ("k", "34")], &[]), Outcome::Oversize { bytes: 4, entries: 2 }),
    ] {
        assert_eq!(mended(get_some, found), Some(good));
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
        assert_eq!(mended(read_at, Outcome::Spans(found.extent, vec![found.clone()])).is_some(), is_right, "{found:?}");
    }
    let append = Operation::Append { log: "l", records: &["1"], marks: &[] };
    let extent = |first, length| Outcome::Extent(LogExtent { first, length });
    assert_eq!(mended(append, extent(1, 2)), Some(extent(1, 2)));
    assert_eq!(mended(append, extent(2, u64::MAX)), None);
}

#[test]
fn an_index_has_a_place_for_each_document() {
    let indexed = |next, documents| Outcome::Indexed(IndexExtent { next, documents });
    for operation in [POST, Operation::Unpost { index: "i", positions: &[1] }] {
        for (outcome, is_right) in [
            (indexed(0, 0), true),
            (indexed(7, 7), true),
            (indexed(1 << 53, 1), true),
            (indexed(7, 8), false),
            (indexed((1 << 53) + 1, 1), false),
            (Outcome::Extent(LogExtent { first: 0, length: 1 }), false),
            (Outcome::Matches(FoundMatches::default()), false),
        ] {
            assert_eq!(mended(operation, outcome.clone()).is_some(), is_right, "{operation:?} {outcome:?}");
        }
    }
}

#[test]
fn matches_are_among_the_positions_that_were_asked_for() {
    let matches = |next, first, marks, terms: &[&[u32]]| {
        let terms = terms.iter().map(|offsets| offsets.to_vec()).collect();
        FoundMatches { extent: IndexExtent { next, documents: 2 }, first, marks: vec![1; marks], terms }
    };
    let cases = [
        // As many positions and as long as allowed.
        (matches(9, 5, 4, &[&[0, 3], &[1]]), true),
        (matches(9, 7, 2, &[&[], &[]]), true),
        (matches(9, 9, 0, &[&[], &[]]), true),
        // A mark for each position.
        (matches(9, 5, 3, &[&[], &[]]), false),
        (matches(9, 6, 4, &[&[], &[]]), false),
        (matches(9, 10, 0, &[&[], &[]]), false),
        (matches(9, u64::MAX, 0, &[&[], &[]]), false),
        (matches(9, 4, 5, &[&[], &[]]), false),
        // A list for each term.
        (matches(9, 5, 4, &[&[0]]), false),
        (matches(9, 5, 4, &[&[0], &[], &[]]), false),
        // Offsets that rise, of positions that have a mark.
        (matches(9, 5, 4, &[&[3, 0], &[]]), false),
        (matches(9, 5, 4, &[&[1, 1], &[]]), false),
        (matches(9, 5, 4, &[&[4], &[]]), false),
        (matches(9, 9, 0, &[&[0], &[]]), false),
        // Too long.
        (matches(9, 5, 4, &[&[0, 1], &[0, 1]]), false),
        (matches(1, 1, 0, &[&[], &[]]), false),
    ];
    for (found, is_right) in cases {
        let told = mended(MATCH, Outcome::Matches(found.clone()));
        assert_eq!(told, is_right.then(|| Outcome::Matches(found.clone())), "{found:?}");
    }
    assert_eq!(mended(MATCH, Outcome::Indexed(IndexExtent::default())), None);
}

#[test]
fn a_stamp_that_nobody_can_carry_is_none() {
    let long = "1".repeat(257);
    for (stamp, kept) in [("1-2~", "1-2~"), ("", ""), ("a b", ""), ("é", ""), ("a\n", ""), (&long, "")] {
        let told = told(Receipt { incarnation: stamp.into(), ..receipt(Status::Applied, vec![]) }, Opening::ANY, &[]);
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
