//! Transactions whose receipts are checked against what was asked.
//!
//! Promises receipts that the contract allows: a status that the precondition and the expectations explain, and for each operation an
//! outcome of its kind, within its limits, sorted and without duplicates. Small faults are mended, larger ones are a failure of
//! the store. Texts are not looked at.

mod entries;
mod indexes;
mod logs;
mod outcomes;

pub use outcomes::{EntriesByKey, EntriesOutcome, EntryPage, KeyPage, Outcomes};

use std::collections::BinaryHeap;

use crate::{
    BucketId, DeleteRequest, Deletion, Expectation, Host, IndexedReceipt, IndexedTransaction, LogExtent, Operation,
    Outcome, Precondition, Problem, Receipt, RecordRun, Status, Transaction,
};

/// Generations are the store's; this bounds what we carry for it.
const GENERATION_MAX: usize = 256;

/// Let the store apply a transaction.
pub fn transact(host: &impl Host, transaction: &Transaction<'_>) -> Result<Receipt, Box<Problem>> {
    checked(host.transact(transaction).map_err(Problem::of_store)?, transaction)
}

/// Reads from a bucket, or writes what expects nothing. None: the bucket is not there.
pub fn read_bucket(
    host: &impl Host,
    bucket: BucketId<'_>,
    precondition: Precondition<'_>,
    operations: &[Operation<'_>],
) -> Result<Option<Outcomes>, Box<Problem>> {
    let receipt = transact(host, &Transaction { bucket, precondition, expectations: &[], operations })?;
    Ok(receipt.is_applied().then(|| Outcomes::of(receipt)))
}

/// The text of one entry of a bucket, without using it. None: it is not there.
pub fn read_entry_text(
    host: &impl Host,
    bucket: BucketId<'_>,
    map: &str,
    key: &str,
) -> Result<Option<String>, Box<Problem>> {
    let get = [Operation::get(map, &key, 256)];
    let Some(mut outcomes) = read_bucket(host, bucket, Precondition::LOOK, &get)? else { return Ok(None) };
    match outcomes.take_entries()? {
        EntriesOutcome::Entries(mut found) => Ok(found.entries.pop().map(|entry| entry.text)),
        EntriesOutcome::Oversize(_) => Err(Problem::out_of_turn()),
    }
}

/// Let the store apply a transaction that may have a lease, and steps.
pub fn transact_indexed(
    host: &impl Host,
    transaction: &IndexedTransaction<'_>,
) -> Result<IndexedReceipt, Box<Problem>> {
    if transaction.lease.is_none() && transaction.steps.is_empty() {
        return transact(host, &transaction.transaction).map(IndexedReceipt::from);
    }
    let mut receipts = transact_each(host, std::slice::from_ref(transaction));
    receipts.pop().unwrap_or_else(|| Err(Problem::out_of_turn()))
}

/// Let the store apply transactions that may have leases, and steps, each on a bucket of its own, in one wait.
pub fn transact_each(
    host: &impl Host,
    transactions: &[IndexedTransaction<'_>],
) -> Vec<Result<IndexedReceipt, Box<Problem>>> {
    in_order(host.transact_each(transactions), transactions, checked_indexed)
}

/// A checked reply for each request.
fn in_order<Q, R>(
    replies: Vec<Result<R, Problem>>,
    requests: &[Q],
    check: impl Fn(R, &Q) -> Result<R, Box<Problem>>,
) -> Vec<Result<R, Box<Problem>>> {
    let mut replies = replies.into_iter();
    let checked = |request: &Q| {
        let reply = replies.next().ok_or_else(Problem::out_of_turn)?;
        check(reply.map_err(Problem::of_store)?, request)
    };
    requests.iter().map(checked).collect()
}

fn checked(mut receipt: Receipt, transaction: &Transaction<'_>) -> Result<Receipt, Box<Problem>> {
    receipt.generation = receipt.generation.filter(|generation| is_generation(generation));
    if mend(&mut receipt, transaction) { Ok(receipt) } else { Err(Problem::out_of_turn()) }
}

fn checked_indexed(receipt: IndexedReceipt, asked: &IndexedTransaction<'_>) -> Result<IndexedReceipt, Box<Problem>> {
    let IndexedReceipt { lease, receipt, found } = receipt;
    let receipt = checked(receipt, &asked.transaction)?;
    let fits = !receipt.is_applied()
        || (lease.is_some() == asked.lease.is_some()
            && found.len() == asked.steps.len()
            && found.iter().zip(asked.steps).all(|(found, step)| indexes::are_found(found, step)));
    if fits { Ok(IndexedReceipt { lease, receipt, found }) } else { Err(Problem::out_of_turn()) }
}

/// Delete a bucket (that generation, if one is named), and name up to `max_keys` of its values.
pub fn delete_bucket(host: &impl Host, request: DeleteRequest<'_>) -> Result<Deletion, Box<Problem>> {
    delete_each(host, &[request]).pop().unwrap_or_else(|| Err(Problem::out_of_turn()))
}

/// Delete buckets, each another one, in one wait.
pub fn delete_each(host: &impl Host, requests: &[DeleteRequest<'_>]) -> Vec<Result<Deletion, Box<Problem>>> {
    in_order(host.delete_each(requests), requests, checked_deletion)
}

fn checked_deletion(mut deletion: Deletion, request: &DeleteRequest<'_>) -> Result<Deletion, Box<Problem>> {
    match deletion.status {
        Status::Applied | Status::Repeated | Status::Absent | Status::Expired => {}
        Status::GenerationMismatch if request.generation.is_some() => {}
        _ => return Err(Problem::out_of_turn()),
    }
    sort_names(&mut deletion.keys);
    deletion.keys.truncate(usize::try_from(request.max_keys).unwrap_or(usize::MAX));
    deletion.values = deletion.values.max(deletion.keys.len() as u64);
    Ok(deletion)
}

/// Whether this can be named in a precondition, and carried in a turn.
pub fn is_generation(text: &str) -> bool {
    (1..=GENERATION_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The surplus of this log in an applied transaction's receipt, if there is any, and where the log stands.
pub fn surplus_records<'r>(
    transaction: &Transaction<'_>,
    receipt: &'r Receipt,
    wanted: &str,
) -> Option<(LogExtent, &'r RecordRun)> {
    let mut answered = transaction.operations.iter().zip(&receipt.outcomes);
    answered.find_map(|(operation, outcome)| match (operation, outcome) {
        (Operation::Read(read), Outcome::Records(found)) if read.log == wanted => {
            Some(found.extent).zip(found.runs.first().filter(|run| !run.records.is_empty()))
        }
        _ => None,
    })
}

/// Where this log stands after an applied transaction that appended to it, or reset it.
pub fn appended_extent(transaction: &Transaction<'_>, receipt: &Receipt, wanted: &str) -> Option<LogExtent> {
    let mut answered = transaction.operations.iter().zip(&receipt.outcomes);
    answered.find_map(|(operation, outcome)| match (operation, outcome) {
        (Operation::Append(append), Outcome::Extent(extent)) if append.log == wanted => Some(*extent),
        _ => None,
    })
}

/// Whether it fits; what does little harm is put right.
fn mend(receipt: &mut Receipt, transaction: &Transaction<'_>) -> bool {
    match receipt.status {
        Status::Applied | Status::Repeated => {
            receipt.outcomes.len() == transaction.operations.len()
                && receipt.outcomes.iter_mut().zip(transaction.operations).all(|(outcome, asked)| fits(outcome, asked))
        }
        // Also what is created may be gone when an earlier try of the call had created it.
        Status::Absent | Status::Expired => true,
        Status::Exists => matches!(transaction.precondition, Precondition::CreateNew(_)),
        Status::GenerationMismatch => transaction.precondition.generation().is_some(),
        Status::Unmet => unmet_expectation(receipt, transaction).is_some(),
    }
}

/// The expectation that did not hold.
pub fn unmet_expectation<'t>(receipt: &Receipt, transaction: &Transaction<'t>) -> Option<&'t Expectation<'t>> {
    transaction.expectations.get(usize::try_from(receipt.unmet?).ok()?)
}

/// Whether an outcome is one of that operation.
fn fits(outcome: &mut Outcome, asked: &Operation<'_>) -> bool {
    match (asked, outcome) {
        (Operation::Get(get), Outcome::Entries(found)) => {
            entries::mend_requested_entries(found, get.keys, get.max_bytes);
            true
        }
        (Operation::GetAll(get), Outcome::Entries(found)) => {
            if get.cursor.is_none() {
                entries::mend_all_entries(found, get.max_entries, get.max_bytes);
            }
            true
        }
        (Operation::Set(set), Outcome::Changed(changed)) => {
            changed.added <= set.put.len() as u64 && (set.reset || changed.removed <= set.remove.len() as u64)
        }
        (Operation::Add(_), Outcome::Counter(_)) | (Operation::Describe(_), Outcome::Described(_)) => true,
        (
            Operation::Append(_) | Operation::ReplaceOldest(_) | Operation::Rewrite(_) | Operation::Read(_),
            Outcome::Extent(extent),
        ) => logs::is_valid_log_extent(*extent),
        (Operation::Read(read), Outcome::Records(found)) => logs::is_end(found, read),
        (Operation::ReadAt(read), Outcome::Records(found)) => logs::are_spans(found, read.spans),
        _ => false,
    }
}

/// Sort names and drop duplicates.
pub fn sort_names(names: &mut Vec<String>) {
    if !names.is_sorted_by(|a, b| a < b) {
        *names = heap_sorted(std::mem::take(names));
        names.dedup();
    }
}

/// Through a heap: next to nothing needs to be sorted, and the standard library's sorts are a tenth of the component.
pub fn heap_sorted<T: Ord>(items: Vec<T>) -> Vec<T> {
    BinaryHeap::from(items).into_sorted_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::{
        BucketPage, ChangedEntries, CounterValue, Description, Document, Entry, FoundDocuments, FoundEntries,
        IndexExtent, IndexStep, Level, LogEnd, LogRecords, MarkRun, MissingEntries, PutEntry, Size, Span, StoreProfile,
        TermHits, VALUES,
    };

    /// A store that says the same whatever it is asked.
    struct Says(IndexedReceipt, Deletion);

    impl Host for Says {
        fn transact(&self, _: &Transaction<'_>) -> Result<Receipt, Problem> {
            Ok(self.0.receipt.clone())
        }

        fn transact_each(&self, transactions: &[IndexedTransaction<'_>]) -> Vec<Result<IndexedReceipt, Problem>> {
            transactions.iter().map(|_| Ok(self.0.clone())).collect()
        }

        fn list_buckets(&self, _: &str, _: &str, _: u32) -> Result<BucketPage, Problem> {
            Err(*Problem::out_of_turn())
        }

        fn delete_each(&self, requests: &[DeleteRequest<'_>]) -> Vec<Result<Deletion, Problem>> {
            requests.iter().map(|_| Ok(self.1.clone())).collect()
        }

        fn store_profile(&self) -> StoreProfile {
            StoreProfile::default()
        }

        fn now_micros(&self) -> u64 {
            0
        }

        fn log(&self, _: Level, _: &str, _: &str) {}
    }

    const GONE: Deletion = Deletion { status: Status::Absent, now: 0, values: 0, keys: Vec::new() };

    fn told(
        receipt: Receipt,
        precondition: Precondition<'_>,
        operations: &[Operation<'_>],
    ) -> Result<Receipt, Box<Problem>> {
        let expectations = [Expectation::room(VALUES, 1)];
        let transaction =
            Transaction { bucket: BucketId::session("s"), precondition, expectations: &expectations, operations };
        transact(&Says(receipt.into(), GONE), &transaction)
    }

    /// What becomes of what a step finds.
    fn found(step: IndexStep<'_>, found: FoundDocuments) -> Option<FoundDocuments> {
        let receipt = receipt(Status::Applied, Vec::new());
        let says = Says(IndexedReceipt { lease: None, receipt, found: vec![found] }, GONE);
        let (bucket, precondition) = (BucketId::session("s"), Precondition::ANY);
        let transaction = Transaction { bucket, precondition, expectations: &[], operations: &[] };
        let reply = transact_indexed(&says, &IndexedTransaction { steps: &[step], ..transaction.into() });
        reply.ok()?.found.pop()
    }

    fn receipt(status: Status, outcomes: Vec<Outcome>) -> Receipt {
        Receipt { status, now: 0, generation: Some("1-2".into()), created: false, unmet: None, outcomes }
    }

    /// What becomes of an outcome of this operation.
    fn mended(operation: Operation<'_>, outcome: Outcome) -> Option<Outcome> {
        let told = told(receipt(Status::Applied, vec![outcome]), Precondition::ANY, &[operation]).ok()?;
        let mut outcome = told.outcomes.into_iter().next();
        if let Some(Outcome::Entries(found)) = &mut outcome {
            found.missing.take_if(|missing| {
                missing.unreadable.is_empty() && missing.cursor.is_empty() && missing.oversize.is_none()
            });
        }
        outcome
    }

    fn entries(found: &[(&str, &str)], unreadable: &[&str]) -> Outcome {
        let entry = |&(key, text): &(&str, &str)| Entry { key: key.into(), text: text.into() };
        let unreadable: Vec<_> = unreadable.iter().map(|&key| key.to_owned()).collect();
        let none = MissingEntries { unreadable, cursor: String::new(), oversize: None };
        let missing = Some(none).filter(|missing| !missing.unreadable.is_empty());
        Outcome::Entries(FoundEntries { entries: found.iter().map(entry).collect(), missing })
    }

    fn oversize(bytes: u64, entries: u64) -> Outcome {
        let oversize = Some(Size { bytes, entries });
        let missing = Some(MissingEntries { unreadable: Vec::new(), cursor: String::new(), oversize });
        Outcome::Entries(FoundEntries { entries: Vec::new(), missing })
    }

    fn is_oversize(outcome: &Outcome) -> bool {
        let Outcome::Entries(found) = outcome else { return false };
        found.missing.as_ref().is_some_and(|missing| missing.oversize.is_some())
    }

    fn records(first: u64, length: u64, at: u64, count: usize) -> Outcome {
        let extent = LogExtent { first, length };
        let run = RecordRun { first: at, records: vec!["{}".into(); count] };
        Outcome::Records(LogRecords { extent, runs: vec![run] })
    }

    const GET: Operation<'static> = Operation::get(VALUES, &"k", 3);

    const GET_ALL: Operation<'static> = Operation::get_all(VALUES, 3, 9);

    const ADD: IndexStep<'static> = IndexStep::add_documents("i", &[Document { position: 3, mark: 1, terms: &[1, 2] }]);

    const SEARCH: IndexStep<'static> = IndexStep::search("i", &[2, 1], 4, 28);

    #[test]
    fn a_status_needs_a_reason() {
        let life = Precondition::life("1-2");
        let new = Precondition::create_new(None);
        let cases = [
            (Status::Applied, Precondition::ANY, true),
            (Status::Repeated, new, true),
            (Status::Absent, new, true),
            (Status::Expired, Precondition::ANY, true),
            (Status::Exists, new, true),
            (Status::Exists, Precondition::ANY, false),
            (Status::GenerationMismatch, life, true),
            (Status::GenerationMismatch, Precondition::ANY, false),
            (Status::Unmet, Precondition::ANY, false),
        ];
        for (status, precondition, is_right) in cases {
            assert_eq!(
                told(receipt(status, vec![]), precondition, &[]).is_ok(),
                is_right,
                "{status:?} {precondition:?}"
            );
        }
        for (index, is_right) in [(0, true), (1, false), (u32::MAX, false)] {
            let unmet = Receipt { unmet: Some(index), ..receipt(Status::Unmet, vec![]) };
            assert_eq!(told(unmet, Precondition::ANY, &[]).is_ok(), is_right, "{index}");
        }
    }

    #[test]
    fn each_operation_has_an_outcome_of_its_kind() {
        let counter = || Outcome::Counter(CounterValue { value: 1 });
        let changed = |added, removed| Outcome::Changed(ChangedEntries { added, removed });
        let put = Operation::put(VALUES, &[PutEntry { key: "k", text: "1" }]);
        assert!(told(receipt(Status::Applied, vec![]), Precondition::ANY, &[GET]).is_err());
        assert!(told(receipt(Status::Applied, vec![counter()]), Precondition::ANY, &[]).is_err());
        // The outcomes of what was not applied mean nothing.
        assert!(told(receipt(Status::Absent, vec![counter()]), Precondition::ANY, &[]).is_ok());
        let operations = [
            GET,
            GET_ALL,
            Operation::page_keys(VALUES, "", 1, 1),
            put,
            Operation::remove(VALUES, &["k"]),
            Operation::reset_map(VALUES),
            Operation::append("l", &[], &[]),
            Operation::read("l", LogEnd::Newest, 1, 1),
            Operation::read_at("l", &[Span { position: 0, count: 1 }], 1),
            Operation::read_surplus("l", 1, 1, 1, 1),
            Operation::replace_oldest("l", 1, &[]),
            Operation::describe(true),
        ];
        for operation in operations {
            assert_eq!(mended(operation, counter()), None, "{operation:?}");
        }
        let add = Operation::add(VALUES, "k", 1);
        assert_eq!(mended(add, counter()), Some(counter()));
        assert_eq!(mended(add, changed(1, 0)), None);
        assert_eq!(mended(put, changed(2, 0)), None);
        assert_eq!(mended(put, changed(1, 1)), None);
        assert_eq!(mended(Operation::remove(VALUES, &["k"]), changed(0, 2)), None);
        assert_eq!(mended(Operation::reset_map(VALUES), changed(0, 2)), Some(changed(0, 2)));
        let described = Outcome::Described(Description {
            time_to_live: None,
            created_at: 1,
            expires_in: None,
            values: 0,
            parts: Vec::new(),
        });
        assert_eq!(mended(Operation::describe(true), described.clone()), Some(described));
    }

    #[test]
    fn entries_are_those_that_were_asked_for_each_once_and_sorted() {
        for (found, good) in [
            (entries(&[("k", "1")], &[]), entries(&[("k", "1")], &[])),
            (entries(&[("a", "1"), ("k", "2"), ("k", "3")], &["b"]), entries(&[("k", "2")], &[])),
            (entries(&[("k", "1")], &["k", "k"]), entries(&[], &["k"])),
            (entries(&[("k", "1234")], &[]), oversize(4, 1)),
        ] {
            assert_eq!(mended(GET, found), Some(good));
        }
        let get_some = Operation::get_some(VALUES, &["k", "a"], 3);
        for (found, good) in [
            (entries(&[("k", "12"), ("a", "3")], &[]), entries(&[("k", "12"), ("a", "3")], &[])),
            (entries(&[("b", "1"), ("a", "2")], &["c"]), entries(&[("a", "2")], &[])),
            (entries(&[("a", "1"), ("k", "2")], &["k", "k", "a"]), entries(&[], &["k", "k"])),
            (entries(&[("a", "1"), ("k", "2"), ("k", "3")], &["k"]), entries(&[("a", "1")], &["k"])),
            (entries(&[("a", "12"), ("k", "34")], &[]), oversize(4, 2)),
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
                None => assert!(is_oversize(&mended(GET_ALL, found).unwrap())),
            }
        }
        let entry = |key: &str| Entry { key: key.into(), text: String::new() };
        let missing = MissingEntries { unreadable: vec!["b".into()], cursor: "c".into(), oversize: None };
        let page = FoundEntries { entries: vec![entry("b"), entry("a")], missing: Some(missing) };
        let page = told(
            receipt(Status::Applied, vec![Outcome::Entries(page)]),
            Precondition::ANY,
            &[Operation::page_keys(VALUES, "", 2, 1)],
        );
        let page = Outcomes::of(page.unwrap()).take_key_page().unwrap();
        assert_eq!((page.keys, &*page.cursor), (vec!["a".to_owned(), "b".to_owned()], "c"));
    }

    #[test]
    fn records_are_where_the_log_is() {
        let read = |end| Operation::read("l", end, 2, 1);
        let (oldest, newest) = (read(LogEnd::Oldest), read(LogEnd::Newest));
        let overflow = Operation::read_surplus("l", 4, 2, 9, 1);
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
        let read_at = Operation::read_at("l", &[Span { position: 6, count: 2 }], 1);
        for (found, is_right) in [
            (records(5, 3, 6, 2), true),
            (records(7, 3, 7, 1), true),
            (records(5, 3, 8, 0), true),
            (records(5, 3, 5, 1), false),
            (records(5, 9, 7, 2), false),
        ] {
            assert_eq!(mended(read_at, found.clone()).is_some(), is_right, "{found:?}");
        }
        let append = Operation::append("l", &["1"], &[]);
        let extent = |first, length| Outcome::Extent(LogExtent { first, length });
        assert_eq!(mended(append, extent(1, 2)), Some(extent(1, 2)));
        assert_eq!(mended(append, extent(2, u64::MAX)), None);
    }

    #[test]
    fn an_index_has_a_place_for_each_document() {
        for step in [ADD, IndexStep::remove_documents("i", &[1]), IndexStep::read_marks("i", 0, 1)] {
            for (next, documents, is_right) in
                [(0, 0, true), (7, 7, true), (1 << 53, 1, true), (7, 8, false), ((1 << 53) + 1, 1, false)]
            {
                let extent = IndexExtent { next, documents, occurrences: 0 };
                let nothing =
                    FoundDocuments { extent, from_position: extent.next, runs: Vec::new(), terms: Vec::new() };
                assert_eq!(found(step, nothing).is_some(), is_right, "{step:?} {extent:?}");
            }
        }
    }

    #[test]
    fn documents_are_among_the_positions_that_were_asked_for() {
        let documents = |next, from_position, runs: &[(u32, usize)], terms: &[&[u32]]| {
            let runs = runs.iter().map(|&(offset, count)| MarkRun { offset, marks: vec![1; count] }).collect();
            let terms = terms.iter().map(|offsets| TermHits { offsets: offsets.to_vec() }).collect();
            FoundDocuments { extent: IndexExtent { next, documents: 2, occurrences: 4 }, from_position, runs, terms }
        };
        let cases = [
            // As many positions and as long as allowed.
            (documents(9, 5, &[(0, 4)], &[&[0, 3], &[1]]), true),
            (documents(9, 7, &[(1, 1)], &[&[], &[]]), true),
            (documents(9, 9, &[], &[&[], &[]]), true),
            // Runs that rise, within the positions.
            (documents(9, 5, &[(0, 1), (1, 1)], &[&[], &[]]), true),
            (documents(9, 5, &[(1, 1), (0, 1)], &[&[], &[]]), false),
            (documents(9, 5, &[(0, 2), (1, 1)], &[&[], &[]]), false),
            (documents(9, 5, &[(1, 4)], &[&[], &[]]), false),
            (documents(9, 5, &[(u32::MAX, 1)], &[&[], &[]]), false),
            // Positions that were asked for.
            (documents(9, 10, &[], &[&[], &[]]), false),
            (documents(9, u64::MAX, &[], &[&[], &[]]), false),
            (documents(9, 4, &[], &[&[], &[]]), false),
            // A list for each term.
            (documents(9, 5, &[(0, 4)], &[&[0]]), false),
            (documents(9, 5, &[(0, 4)], &[&[0], &[], &[]]), false),
            // Offsets that rise, of positions that there are.
            (documents(9, 5, &[], &[&[3, 0], &[]]), false),
            (documents(9, 5, &[], &[&[1, 1], &[]]), false),
            (documents(9, 5, &[], &[&[4], &[]]), false),
            (documents(9, 9, &[], &[&[0], &[]]), false),
            // Too long.
            (documents(9, 5, &[(0, 4)], &[&[0, 1], &[0, 1]]), false),
            (documents(1, 1, &[], &[&[], &[]]), false),
        ];
        for (given, is_right) in cases {
            assert_eq!(found(SEARCH, given.clone()), is_right.then(|| given.clone()), "{given:?}");
        }
        let read = IndexStep::read_marks("i", 3, 2);
        for (given, is_right) in [
            (documents(9, 3, &[(0, 2)], &[]), true),
            (documents(9, 4, &[(0, 1)], &[]), true),
            (documents(9, 4, &[(0, 2)], &[]), false),
            (documents(9, 2, &[(0, 1)], &[]), false),
        ] {
            assert_eq!(found(read, given.clone()).is_some(), is_right, "{given:?}");
        }
    }

    #[test]
    fn a_stamp_too_long_to_be_carried_is_left_out_of_the_token() {
        let long = "1".repeat(257);
        for (stamp, kept) in [("1-2~", "1-2~"), ("", ""), ("a b", ""), ("é", ""), ("a\n", ""), (&long, "")] {
            let told = told(
                Receipt { generation: Some(stamp.into()), ..receipt(Status::Applied, vec![]) },
                Precondition::ANY,
                &[],
            );
            assert_eq!(told.unwrap().named_generation(), kept);
        }
    }

    #[test]
    fn a_deletion_names_no_more_than_was_asked_for() {
        let deletion = |status, values, keys: &[&str]| Deletion {
            status,
            now: 0,
            values,
            keys: keys.iter().map(|&key| key.to_owned()).collect(),
        };
        let request = DeleteRequest { bucket: BucketId::session("s"), generation: None, max_keys: 2 };
        let told = |said| delete_bucket(&Says(receipt(Status::Applied, vec![]).into(), said), request);
        let good = deletion(Status::Applied, 3, &["a", "b"]);
        assert_eq!(told(deletion(Status::Applied, 3, &["c", "b", "a", "b"])).unwrap(), good);
        assert_eq!(told(deletion(Status::Applied, 0, &["a"])).unwrap().values, 1);
        assert!(told(deletion(Status::Unmet, 0, &[])).is_err());
        assert_eq!(told(GONE).unwrap(), GONE);
    }
}
