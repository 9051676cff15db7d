//! Compares a bucket with a plain model.

mod model;

use proptest::{collection::vec, option, prelude::*, sample::select};

use self::model::{Model, changed};
use super::*;
use crate::{
    AppendOperation, BucketId, BucketKind, DescribeOperation, Entry, EntryState, Expectation, ExpectedEntry,
    ExpectedLog, ExpectedRoom, FailureCode, GetAllOperation, GetOperation, IncrementOperation, LeaseOperation, LogEnd,
    MatchOperation, NewBucket, Operation, OverflowOperation, PageOperation, PositionMark, PositionedRecord,
    PostOperation, Posting, Precondition, PutOperation, ReadAtOperation, ReadOperation, RemoveOperation,
    ReplaceOldestOperation, ResetLogOperation, ResetMapOperation, RewriteOperation, Span, StoreCapabilities,
    Transaction, UnpostOperation, check, limits,
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
fn documents() -> impl Strategy<Value = Vec<Posting>> {
    let terms = vec(select(&[0_u32, 1, 256, 257, (1 << 22) - 1][..]), 0..4);
    let document = (prop_oneof![0..3_u64, 0..1500_u64], select(&[0_u16, 1, u16::MAX][..]), terms);
    vec(document, 0..5).prop_map(|documents| {
        let mut next = 0;
        let mut document = |(gap, mark, terms): (u64, u16, Vec<u32>)| {
            let terms: std::collections::BTreeSet<_> = terms.into_iter().collect();
            next += gap + 1;
            Posting { position: next - 1, mark, terms: terms.into_iter().collect() }
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
fn above(operation: Operation, next: impl Fn(&str) -> u64) -> Operation {
    let Operation::Post(mut post) = operation else { return operation };
    if post.documents.first().is_some_and(|first| first.mark != 0) {
        let next = next(&post.index);
        post.documents.iter_mut().for_each(|document| document.position += next);
    }
    Operation::Post(post)
}

fn operation() -> impl Strategy<Value = Operation> {
    let record = (0..12_u64, text()).prop_map(|(position, text)| PositionedRecord { position, text });
    let span = (0..12_u64, 0..6_u32).prop_map(|(position, count)| Span { position, count });
    let writes = prop_oneof![
        (map(), entries()).prop_map(|(map_name, entries)| Operation::Put(PutOperation { map_name, entries })),
        (map(), key(), prop_oneof![-3..4_i64, Just(i64::MIN)])
            .prop_map(|(map_name, key, amount)| Operation::Increment(IncrementOperation { map_name, key, amount })),
        (map(), vec(key(), 0..3)).prop_map(|(map_name, keys)| Operation::Remove(RemoveOperation { map_name, keys })),
        (map(), entries()).prop_map(|(map_name, entries)| Operation::ResetMap(ResetMapOperation { map_name, entries })),
        (log(), texts(), marks()).prop_map(|(log, records, marks)| Operation::Append(AppendOperation {
            log,
            records,
            marks
        })),
        (log(), texts(), marks()).prop_map(|(log, records, marks)| Operation::Append(AppendOperation {
            log,
            records,
            marks
        })),
        (log(), few(), texts()).prop_map(|(log, count, records)| Operation::ReplaceOldest(ReplaceOldestOperation {
            log,
            count,
            records
        })),
        (log(), vec(record, 0..3)).prop_map(|(log, records)| Operation::Rewrite(RewriteOperation { log, records })),
        (log(), texts(), marks()).prop_map(|(log, records, marks)| Operation::ResetLog(ResetLogOperation {
            log,
            records,
            marks
        })),
        (name(&["l", "m"]), key(), select(&[0, 1, 5, 100_u64][..])).prop_map(|(lease, holder, milliseconds)| {
            Operation::Lease(LeaseOperation { lease, holder, milliseconds })
        }),
        (log(), documents()).prop_map(|(index, documents)| Operation::Post(PostOperation { index, documents })),
        (log(), documents()).prop_map(|(index, documents)| Operation::Post(PostOperation { index, documents })),
        (log(), positions()).prop_map(|(index, positions)| Operation::Unpost(UnpostOperation { index, positions })),
    ];
    let reads = prop_oneof![
        (map(), vec(key(), 0..4), few()).prop_map(|(map_name, keys, max_bytes)| Operation::Get(GetOperation {
            map_name,
            keys,
            max_bytes
        })),
        (map(), few(), few()).prop_map(|(map_name, max_entries, max_bytes)| {
            Operation::GetAll(GetAllOperation { map_name, max_entries, max_bytes })
        }),
        (map(), prop_oneof![Just(String::new()), key()], 0..4_u64, few(), any::<bool>()).prop_map(
            |(map_name, cursor, max_entries, max_bytes, keys_only)| {
                Operation::Page(PageOperation { map_name, cursor, max_entries, max_bytes, keys_only })
            }
        ),
        (log(), select(&[LogEnd::Oldest, LogEnd::Newest][..]), few(), few()).prop_map(
            |(log, end, max_records, max_bytes)| Operation::Read(ReadOperation { log, end, max_records, max_bytes })
        ),
        (log(), vec(span, 0..4), few()).prop_map(|(log, spans, max_bytes)| Operation::ReadAt(ReadAtOperation {
            log,
            spans,
            max_bytes
        })),
        (log(), 0..6_u64, 0..6_u64, few(), few()).prop_map(|(log, limit, keep, max_records, max_bytes)| {
            Operation::Overflow(OverflowOperation { log, limit, keep, max_records, max_bytes })
        }),
        (log(), vec(select(&[0_u32, 1, 2, 256, 257, (1 << 22) - 1][..]), 0..4), 0..5000_u64, 0..20_000_u64).prop_map(
            |(index, terms, newest, max_bytes)| Operation::Match(MatchOperation { index, terms, newest, max_bytes })
        ),
        any::<bool>().prop_map(|parts| Operation::Describe(DescribeOperation { parts })),
    ];
    prop_oneof![3 => writes, 2 => reads]
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

/// Milliseconds that pass, what is expected, what is done.
type Call = (u64, Vec<Expectation>, Vec<Operation>);

fn calls() -> impl Strategy<Value = Vec<Call>> {
    vec((0..4_u64, vec(expectation(), 0..3), vec(operation(), 0..6)), 0..60)
}

fn is_allowed(operations: &[Operation]) -> bool {
    let transaction = Transaction {
        bucket: BucketId { kind: BucketKind::Session, name: "b".into() },
        precondition: Precondition::Create(NewBucket { time_to_live: None }),
        expectations: vec![],
        operations: operations.to_vec(),
    };
    check::validate_transaction(&transaction, &StoreCapabilities::ALL).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_bucket_behaves_like_a_model_of_the_contract(calls in calls()) {
        let (mut bucket, mut model, mut now) = (Bucket::new(0, 0, None), Model::default(), 0);
        for (passed, expectations, mut operations) in calls {
            now += passed;
            operations =
                operations.into_iter().map(|operation| above(operation, |index| model.next_position(index))).collect();
            while !is_allowed(&operations) {
                operations.pop();
            }
            let unmet = expectations.iter().position(|expectation| !model.meets(expectation, &operations));
            let found = bucket.find_unmet_expectation(&expectations, &operations);
            prop_assert_eq!(found, unmet.map(|place| u32::try_from(place).unwrap()));

            let mut after = model.clone();
            let expected: Result<Vec<_>, _> = operations.iter().map(|operation| after.apply(operation, now)).collect();
            let before = bucket.cost();
            let freed = bucket.drop_outdated_leases(now);
            prop_assert_eq!(bucket.cost() + freed, before);
            let probed = bucket.probe_growth(&operations, now);
            let outcomes = probed.clone().map(|growth| bucket.apply_operations(&operations, growth, now));
            prop_assert_eq!(outcomes.clone().map_err(|failure| failure.code), expected);
            prop_assert_eq!(bucket.cost(), bucket.counted_cost());
            if outcomes.is_ok() {
                model = after;
            }
            let read = [VALUES, "m", "n"].map(|map| {
                let map_name = map.into();
                Operation::GetAll(GetAllOperation { map_name, max_entries: 100, max_bytes: 10_000 })
            });
            prop_assert_eq!(bucket.answer_operations(&read, now), read.map(|operation| model.answer(&operation)));
        }
    }

    #[test]
    fn a_repeated_transaction_is_answered_from_the_current_state(calls in calls()) {
        let mut bucket = Bucket::new(0, 0, None);
        for (_, _, operations) in calls {
            if !is_allowed(&operations) {
                continue;
            }
            if let Ok(growth) = bucket.probe_growth(&operations, 0) {
                let first = bucket.apply_operations(&operations, growth, 0);
                for ((operation, first), again) in operations.iter().zip(first).zip(bucket.answer_operations(&operations, 0)) {
                    match operation {
                        Operation::Put(_) | Operation::Remove(_) | Operation::ResetMap(_) => {
                            prop_assert_eq!(again, changed(0));
                        }
                        Operation::Increment(_) | Operation::Append(_) | Operation::ReplaceOldest(_)
                        | Operation::Rewrite(_) | Operation::ResetLog(_) | Operation::Lease(_) | Operation::Post(_)
                        | Operation::Unpost(_) => {
                            prop_assert_eq!(again, first);
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}

#[test]
fn the_number_of_parts_of_a_bucket_is_bounded() {
    let put = |map: &str| {
        let entries = vec![Entry { key: "k".into(), text: String::new() }];
        Operation::Put(PutOperation { map_name: map.into(), entries })
    };
    let append =
        |log: &str| Operation::Append(AppendOperation { log: log.into(), records: vec![String::new()], marks: vec![] });
    let lease = |lease: &str, now| {
        let step = LeaseOperation { lease: lease.into(), holder: "h".into(), milliseconds: 10 };
        (vec![Operation::Lease(step)], now)
    };
    let mut bucket = Bucket::new(0, 0, None);
    let mut send = |operations: &[Operation], now| {
        bucket.drop_outdated_leases(now);
        let growth = bucket.probe_growth(operations, now).map_err(|failure| (failure.code, failure.limit))?;
        bucket.apply_operations(operations, growth, now);
        Ok(())
    };
    let refused = Err((FailureCode::TooLarge, limits::MAX_PARTS));
    let maps: Vec<_> = (0..limits::MAX_PARTS - 1).map(|n| put(&format!("m{n}"))).collect();
    assert_eq!(send(&[&maps[..], &[put(VALUES)]].concat(), 0), Ok(()), "`values` is always there");
    assert_eq!(send(&[append("l"), append("m")], 0), refused);
    let (operations, now) = lease("l", 0);
    assert_eq!(send(&operations, now), Ok(()));
    assert_eq!(send(&[append("l")], 9), refused);
    assert_eq!(send(&[append("l")], 10), Ok(()), "the lease has run out");
    assert_eq!(send(&[put("m0"), append("l"), put(VALUES)], 10), Ok(()), "what is there may be written to");
    let gone = Operation::ResetMap(ResetMapOperation { map_name: "m0".into(), entries: vec![] });
    assert_eq!(send(&[gone.clone(), put("other")], 10), refused, "what is removed makes no room in the same step");
    let post = |index: &str, position| {
        let documents = vec![Posting { position, mark: 1, terms: vec![] }];
        Operation::Post(PostOperation { index: index.into(), documents })
    };
    assert_eq!(send(&[post("i", 0)], 10), refused);
    assert_eq!(send(&[gone], 10), Ok(()));
    assert_eq!(send(&[post("i", 0)], 10), Ok(()));
    assert_eq!(send(&[post("i", 1)], 10), Ok(()));
    let unpost = Operation::Unpost(UnpostOperation { index: "i".into(), positions: vec![0, 1] });
    assert_eq!(send(&[unpost], 10), Ok(()));
    assert_eq!(send(&[put("other")], 10), refused, "an emptied index is still there");
}
