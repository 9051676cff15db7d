//! Compares a bucket with a plain model.

mod model;

use proptest::{collection::vec, option, prelude::*, sample::select};

use self::model::Model;
use super::*;
use crate::{
    AddDocumentsStep, AddOperation, AppendOperation, BucketId, ChangedEntries, DescribeOperation, Document, Entry,
    EntryState, Expectation, ExpectedEntry, ExpectedLog, ExpectedRoom, FailureCode, GetAllOperation, GetOperation,
    IndexStep, IndexedTransaction, LeaseRequest, NewBucket, Operation, Outcome, PositionMark, PositionedRecord,
    Precondition, ReadAtOperation, ReadMarksStep, ReadOperation, RemoveDocumentsStep, ReplaceOldestOperation,
    RewriteOperation, SearchStep, SetOperation, Span, Transaction, capability, check, limits,
};

fn name(names: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(names).prop_map(Into::into)
}

fn map() -> impl Strategy<Value = String> {
    name(&[VALUES, "m", "n"])
}

fn marked() -> impl Strategy<Value = String> {
    name(&["m", "n"])
}

fn key() -> impl Strategy<Value = String> {
    name(&["a", "b", "c", "key", "a-key-that-is-longer-than-what-is-stored-in-place"])
}

fn log() -> impl Strategy<Value = String> {
    name(&["l", "m"])
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        name(&["", "0", "-1", "007", "9223372036854775807", "text"]),
        (0..80_usize).prop_map(|length| "x".repeat(length))
    ]
}

fn few() -> impl Strategy<Value = u64> {
    prop_oneof![0..8_u64, 0..200_u64]
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    vec((key(), text()).prop_map(|(key, text)| Entry { key, text }), 0..4)
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    vec(text(), 0..4)
}

fn marks() -> impl Strategy<Value = Vec<PositionMark>> {
    let mark = (marked(), key(), 0..3_u32);
    vec(mark.prop_map(|(map_name, key, record_index)| PositionMark { map_name, key, record_index }), 0..2)
}

/// Documents at positions that rise from wherever they begin, with a few terms of which two are alike but for a bit.
fn documents() -> impl Strategy<Value = Vec<Document>> {
    let terms = vec(select(&[0_u32, 1, 256, 257, (1 << 22) - 1][..]), 0..4);
    let document = (prop_oneof![0..3_u64, 0..1500_u64], select(&[0_u16, 1, u16::MAX][..]), terms);
    vec(document, 0..5).prop_map(|documents| {
        let mut next = 0;
        let mut document = |(gap, mark, terms): (u64, u16, Vec<u32>)| {
            let terms: std::collections::BTreeSet<_> = terms.into_iter().collect();
            next += gap + 1;
            Document { position: next - 1, mark, terms: terms.into_iter().collect() }
        };
        documents.into_iter().map(&mut document).collect()
    })
}

/// Positions near each other, some of them twice.
fn positions() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        vec(0..3000_u64, 0..4),
        (0..3000_u64, 0..1200_u64).prop_map(|(first, count)| (first..first + count).collect()),
        vec(select(&[0, 1, 1023, 1024, u64::MAX][..]), 0..6)
    ]
}

/// With the documents that are not told to stay where they are above those that there have been.
fn above(step: IndexStep, next: impl Fn(&str) -> u64) -> IndexStep {
    let IndexStep::AddDocuments(mut add) = step else { return step };
    if add.documents.first().is_some_and(|first| first.mark != 0) {
        let next = next(&add.index);
        add.documents.iter_mut().for_each(|document| document.position += next);
    }
    IndexStep::AddDocuments(add)
}

fn operation() -> impl Strategy<Value = Operation> {
    let record = (0..12_u64, text()).prop_map(|(position, text)| PositionedRecord { position, text });
    let span = (0..12_u64, 0..6_u32).prop_map(|(position, count)| Span { position, count });
    let cursor = option::of(prop_oneof![Just(String::new()), key()]);
    let writes = prop_oneof![
        2 => (map(), any::<bool>(), vec(key(), 0..3), entries()).prop_map(|(map_name, reset, remove, put)| {
            Operation::Set(SetOperation { map_name, reset, remove, put })
        }),
        1 => (map(), key(), prop_oneof![-3..4_i64, Just(i64::MIN)])
            .prop_map(|(map_name, key, amount)| Operation::Add(AddOperation { map_name, key, amount })),
        3 => (log(), select(&[false, false, true][..]), texts(), marks()).prop_map(|(log, reset, records, marks)| {
            Operation::Append(AppendOperation { log, reset, records, marks })
        }),
        1 => (log(), few(), texts()).prop_map(|(log, count, records)| {
            Operation::ReplaceOldest(ReplaceOldestOperation { log, count, records })
        }),
        1 => (log(), vec(record, 0..3))
            .prop_map(|(log, records)| Operation::Rewrite(RewriteOperation { log, records })),
    ];
    let reads = prop_oneof![
        (map(), vec(key(), 0..4), few()).prop_map(|(map_name, keys, max_bytes)| Operation::Get(GetOperation {
            map_name,
            keys,
            max_bytes
        })),
        (map(), cursor, prop_oneof![0..4_u64, few()], few(), any::<bool>()).prop_map(
            |(map_name, cursor, max_entries, max_bytes, keys_only)| {
                Operation::GetAll(GetAllOperation { map_name, cursor, max_entries, max_bytes, keys_only })
            }
        ),
        (log(), any::<bool>(), 0..6_u64, 0..6_u64, few(), few()).prop_map(
            |(log, newest, only_over, leave, max_records, max_bytes)| {
                Operation::Read(ReadOperation { log, newest, only_over, leave, max_records, max_bytes })
            }
        ),
        (log(), vec(span, 0..4), few()).prop_map(|(log, spans, max_bytes)| Operation::ReadAt(ReadAtOperation {
            log,
            spans,
            max_bytes
        })),
        any::<bool>().prop_map(|parts| Operation::Describe(DescribeOperation { parts })),
    ];
    prop_oneof![3 => writes, 2 => reads]
}

fn step() -> impl Strategy<Value = IndexStep> {
    let terms = vec(select(&[0_u32, 1, 2, 256, 257, (1 << 22) - 1][..]), 0..4);
    prop_oneof![
        2 => (log(), documents())
            .prop_map(|(index, documents)| IndexStep::AddDocuments(AddDocumentsStep { index, documents })),
        1 => (log(), positions())
            .prop_map(|(index, positions)| IndexStep::RemoveDocuments(RemoveDocumentsStep { index, positions })),
        2 => (log(), terms, 0..5000_u64, 0..10_u32, prop_oneof![0..200_u64, 0..20_000_u64]).prop_map(
            |(index, terms, newest, around, max_bytes)| {
                IndexStep::Search(SearchStep { index, terms, newest, around, max_bytes })
            }
        ),
        1 => (log(), 0..3000_u64, 0..3000_u32).prop_map(|(index, from_position, count)| {
            IndexStep::ReadMarks(ReadMarksStep { index, from_position, count })
        }),
    ]
}

fn lease() -> impl Strategy<Value = Option<LeaseRequest>> {
    let request = (name(&["l", "m"]), key(), select(&[0, 1, 5, 100_u64][..]));
    option::of(request.prop_map(|(name, holder, milliseconds)| LeaseRequest { name, holder, milliseconds }))
}

fn expectation() -> impl Strategy<Value = Expectation> {
    let states = [EntryState::Absent, EntryState::Present, EntryState::Equal, EntryState::AbsentOrEqual];
    prop_oneof![
        (map(), key(), select(states.to_vec()), text()).prop_map(|(map_name, key, state, text)| {
            Expectation::Entry(ExpectedEntry { map_name, key, state, text })
        }),
        (log(), option::of(0..4_u64), option::of(0..8_u64))
            .prop_map(|(log, first, next)| Expectation::Log(ExpectedLog { log, first, next })),
        (map(), 0..5_u64).prop_map(|(map_name, limit)| Expectation::Room(ExpectedRoom { map_name, limit })),
    ]
}

fn transaction() -> impl Strategy<Value = IndexedTransaction> {
    let parts = (lease(), vec(expectation(), 0..3), vec(operation(), 0..6), vec(step(), 0..3));
    parts.prop_map(|(lease, expectations, operations, steps)| {
        let transaction = Transaction { expectations, ..plain(operations) };
        IndexedTransaction { lease, transaction, steps }
    })
}

fn plain(operations: Vec<Operation>) -> Transaction {
    let precondition = Precondition::Create(NewBucket { time_to_live: None });
    Transaction { bucket: BucketId::session("b"), precondition, expectations: vec![], operations }
}

/// Transactions, and the milliseconds that pass before each.
fn calls() -> impl Strategy<Value = Vec<(u64, IndexedTransaction)>> {
    vec((0..4_u64, transaction()), 0..60)
}

fn is_allowed(request: &IndexedTransaction) -> bool {
    check::validate_transaction(request, &capability::ALL).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_bucket_behaves_like_a_model_of_the_contract(calls in calls()) {
        let (mut bucket, mut model, mut now) = (Bucket::new(0, 0, None), Model::default(), 0);
        for (passed, mut request) in calls {
            now += passed;
            let steps = std::mem::take(&mut request.steps);
            request.steps = steps.into_iter().map(|step| above(step, |index| model.next_position(index))).collect();
            while !is_allowed(&request) {
                request.steps.pop().map(drop).or_else(|| request.transaction.operations.pop().map(drop)).unwrap_or_else(
                    || request.transaction.expectations.clear(),
                );
            }
            let Transaction { expectations, operations, .. } = &request.transaction;
            let unmet = expectations.iter().position(|expectation| !model.meets(expectation, operations));
            let found = bucket.find_unmet_expectation(&request);
            prop_assert_eq!(found, unmet.map(|place| u32::try_from(place).unwrap()));

            let mut after = model.clone();
            let expected = after.apply(&request, now);
            let before = bucket.cost();
            let freed = bucket.drop_outdated_leases(now);
            prop_assert_eq!(bucket.cost() + freed, before);
            let probed = bucket.probe_growth(&request, now);
            let answers = probed.map(|growth| bucket.apply(&request, growth, now)).map_err(|failure| failure.code);
            prop_assert_eq!(&answers, &expected);
            prop_assert_eq!(bucket.cost(), bucket.counted_cost());
            if answers.is_ok() {
                model = after;
            }
            let read = [VALUES, "m", "n"].map(|map| Operation::GetAll(GetAllOperation {
                map_name: map.into(),
                cursor: None,
                max_entries: 100,
                max_bytes: 10_000,
                keys_only: false,
            }));
            let again = bucket.answer(&plain(read.to_vec()).into(), now).outcomes;
            prop_assert_eq!(again, read.map(|operation| model.answer(&operation)));
        }
    }

    #[test]
    fn a_repeated_transaction_is_answered_from_the_current_state(calls in calls()) {
        let mut bucket = Bucket::new(0, 0, None);
        for (_, request) in calls {
            if !is_allowed(&request) {
                continue;
            }
            let Ok(growth) = bucket.probe_growth(&request, 0) else { continue };
            let first = bucket.apply(&request, growth, 0);
            let again = bucket.answer(&request, 0);
            prop_assert_eq!(first.lease, again.lease);
            for ((operation, first), again) in
                request.transaction.operations.iter().zip(first.outcomes).zip(again.outcomes)
            {
                match operation {
                    Operation::Set(_) => {
                        prop_assert_eq!(again, Outcome::Changed(ChangedEntries { added: 0, removed: 0 }));
                    }
                    Operation::Add(_) | Operation::Append(_) | Operation::ReplaceOldest(_) | Operation::Rewrite(_) => {
                        prop_assert_eq!(again, first);
                    }
                    Operation::Get(_)
                    | Operation::GetAll(_)
                    | Operation::Read(_)
                    | Operation::ReadAt(_)
                    | Operation::Describe(_) => {}
                }
            }
            for ((step, first), again) in request.steps.iter().zip(first.found).zip(again.found) {
                if !step.is_read() {
                    prop_assert_eq!(again, first);
                }
            }
        }
    }
}

#[test]
fn the_number_of_parts_of_a_bucket_is_bounded() {
    let set = |map: &str, reset, put| Operation::Set(SetOperation { map_name: map.into(), reset, remove: vec![], put });
    let put = |map: &str| set(map, false, vec![Entry { key: "k".into(), text: String::new() }]);
    let append = |log: &str| {
        let records = vec![String::new()];
        Operation::Append(AppendOperation { log: log.into(), reset: false, records, marks: vec![] })
    };
    let mut bucket = Bucket::new(0, 0, None);
    let mut send = |request: IndexedTransaction, now| {
        bucket.drop_outdated_leases(now);
        let growth = bucket.probe_growth(&request, now).map_err(|failure| (failure.code, failure.limit))?;
        bucket.apply(&request, growth, now);
        Ok(())
    };
    let operations = |operations: &[Operation]| IndexedTransaction::from(plain(operations.to_vec()));
    let step = |step| IndexedTransaction { steps: vec![step], ..operations(&[]) };
    let refused = Err((FailureCode::TooLarge, limits::MAX_PARTS));
    let maps: Vec<_> = (0..limits::MAX_PARTS - 1).map(|n| put(&format!("m{n}"))).collect();
    assert_eq!(send(operations(&[&maps[..], &[put(VALUES)]].concat()), 0), Ok(()), "`values` is always there");
    assert_eq!(send(operations(&[append("l"), append("m")]), 0), refused);
    let lease = LeaseRequest { name: "l".into(), holder: "h".into(), milliseconds: 10 };
    assert_eq!(send(IndexedTransaction { lease: Some(lease), ..operations(&[]) }, 0), Ok(()));
    assert_eq!(send(operations(&[append("l")]), 9), refused);
    assert_eq!(send(operations(&[append("l")]), 10), Ok(()), "the lease has run out");
    assert_eq!(send(operations(&[put("m0"), append("l"), put(VALUES)]), 10), Ok(()), "what is there may be written to");
    let gone = set("m0", true, vec![]);
    let swap = operations(&[gone.clone(), put("other")]);
    assert_eq!(send(swap, 10), refused, "what is removed makes no room in the same transaction");
    let add = |position| {
        let documents = vec![Document { position, mark: 1, terms: vec![] }];
        step(IndexStep::AddDocuments(AddDocumentsStep { index: "i".into(), documents }))
    };
    assert_eq!(send(add(0), 10), refused);
    assert_eq!(send(operations(&[gone]), 10), Ok(()));
    assert_eq!(send(add(0), 10), Ok(()));
    assert_eq!(send(add(1), 10), Ok(()));
    let remove = IndexStep::RemoveDocuments(RemoveDocumentsStep { index: "i".into(), positions: vec![0, 1] });
    assert_eq!(send(step(remove), 10), Ok(()));
    assert_eq!(send(operations(&[put("other")]), 10), refused, "an emptied index is still there");
}
