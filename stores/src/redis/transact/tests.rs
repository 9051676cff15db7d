use std::collections::BTreeSet;

use super::*;
use crate::{
    AppendOperation, BucketId, BucketKind, DescribeOperation, Entry, EntryState, ExistingBucket, Expectation,
    ExpectedEntry, ExpectedLog, ExpectedRoom, GetAllOperation, GetOperation, IncrementOperation, LeaseOperation,
    LogEnd, MatchOperation, NewBucket, Operation, OverflowOperation, PageOperation, PositionMark, PositionedRecord,
    PostOperation, Posting, Precondition, PutOperation, ReadAtOperation, ReadOperation, RemoveOperation,
    ReplaceOldestOperation, ResetLogOperation, ResetMapOperation, RewriteOperation, Span, Transaction, UnpostOperation,
    redis::transact::encode::EncodedRequest,
};

fn transaction(expectations: Vec<Expectation>, operations: Vec<Operation>) -> Transaction {
    let precondition = Precondition::Existing(ExistingBucket { generation: None, renew: true });
    let bucket = BucketId { kind: BucketKind::Session, name: "b".into() };
    Transaction { bucket, precondition, expectations, operations }
}

fn put(key: &str, text: &str) -> Operation {
    let entries = vec![Entry { key: key.into(), text: text.into() }];
    Operation::Put(PutOperation { map_name: "values".into(), entries })
}

fn get(max_bytes: u64) -> Operation {
    Operation::Get(GetOperation { map_name: "values".into(), keys: vec!["k".into(), "x".into()], max_bytes })
}

/// Each expectation and operation that there is: of values, or of another map.
fn everything(map: &str) -> Transaction {
    let (map_name, key, log) = (|| map.to_owned(), || "k".to_owned(), || "l".to_owned());
    let two = || vec!["x".to_owned(), "y".to_owned()];
    let entries = || two().into_iter().map(|key| Entry { key, text: "1".into() }).collect::<Vec<_>>();
    let marks = || vec![PositionMark { map_name: "marks".into(), key: "k".into(), record_index: 1 }];
    let records = || vec![PositionedRecord { position: 1, text: "x".into() }];
    let expected = ExpectedEntry { map_name: map_name(), key: key(), state: EntryState::Equal, text: "x".into() };
    let mut transaction = transaction(
        vec![
            Expectation::Entry(expected),
            Expectation::Log(ExpectedLog { log: log(), first: Some(1), next: None }),
            Expectation::Room(ExpectedRoom { map_name: map_name(), limit: 1 }),
        ],
        vec![
            Operation::Get(GetOperation { map_name: map_name(), keys: two(), max_bytes: 1 }),
            Operation::GetAll(GetAllOperation { map_name: map_name(), max_entries: 1, max_bytes: 2 }),
            Operation::Page(PageOperation {
                map_name: map_name(),
                cursor: String::new(),
                max_entries: 1,
                max_bytes: 2,
                keys_only: false,
            }),
            Operation::Put(PutOperation { map_name: map_name(), entries: entries() }),
            Operation::Increment(IncrementOperation { map_name: map_name(), key: key(), amount: -1 }),
            Operation::Remove(RemoveOperation { map_name: map_name(), keys: two() }),
            Operation::ResetMap(ResetMapOperation { map_name: map_name(), entries: entries() }),
            Operation::Append(AppendOperation { log: log(), records: two(), marks: marks() }),
            Operation::Read(ReadOperation { log: log(), end: LogEnd::Newest, max_records: 2, max_bytes: 3 }),
            Operation::ReadAt(ReadAtOperation {
                log: log(),
                spans: vec![Span { position: 1, count: 2 }],
                max_bytes: 3,
            }),
            Operation::Overflow(OverflowOperation { log: log(), limit: 1, keep: 2, max_records: 3, max_bytes: 4 }),
            Operation::ReplaceOldest(ReplaceOldestOperation { log: log(), count: 2, records: two() }),
            Operation::Rewrite(RewriteOperation { log: log(), records: records() }),
            Operation::ResetLog(ResetLogOperation { log: log(), records: two(), marks: marks() }),
            Operation::Lease(LeaseOperation { lease: log(), holder: key(), milliseconds: 1 }),
            Operation::Post(PostOperation {
                index: log(),
                documents: vec![Posting { position: 1, mark: 1, terms: vec![1] }],
            }),
            Operation::Unpost(UnpostOperation { index: log(), positions: vec![1] }),
            Operation::Match(MatchOperation { index: log(), terms: vec![1], newest: 1, max_bytes: 1 }),
            Operation::Describe(DescribeOperation { parts: true }),
        ],
    );
    transaction.precondition = Precondition::Replace(NewBucket { time_to_live: None });
    transaction
}

#[test]
fn each_step_is_written_with_the_parameters_that_its_code_reads() {
    let steps = StepTemplates::parse(STEPS).steps;
    let mut seen = BTreeSet::new();
    for map in ["values", "notes"] {
        let transaction = everything(map);
        let request = EncodedRequest::new(&transaction);
        let is_header = |part: &&RequestPart| !matches!(part, RequestPart::Step(_));
        let mut parts = request.parts().iter().skip_while(is_header).peekable();
        while let Some(RequestPart::Step(name)) = parts.next() {
            let step = steps.iter().find(|step| step.name == *name).unwrap();
            for parameter in &step.parameters {
                let part = parts.next().unwrap();
                let fits = match (parameter, part) {
                    (Parameter::Number(_), RequestPart::Number(_) | RequestPart::Integer(_)) => true,
                    (
                        Parameter::Text(_),
                        RequestPart::Text(_) | RequestPart::Owned(_) | RequestPart::Integer(_) | RequestPart::Number(_),
                    ) => true,
                    (Parameter::Keys, RequestPart::Fixed(count)) => {
                        (0..*count).all(|_| matches!(parts.next(), Some(RequestPart::Fixed(1..))))
                    }
                    (Parameter::Texts, RequestPart::Fixed(count)) => (0..*count).all(|_| {
                        matches!(
                            parts.next(),
                            Some(RequestPart::Text(_) | RequestPart::Owned(_) | RequestPart::Number(_))
                        )
                    }),
                    (
                        Parameter::Key | Parameter::Log | Parameter::Map | Parameter::Lease | Parameter::Index,
                        RequestPart::Fixed(1..),
                    )
                    | (Parameter::Limit(_), RequestPart::Fixed(_)) => true,
                    _ => false,
                };
                assert!(fits, "{name}: {parameter:?} is {part:?}");
            }
            assert!(
                matches!(parts.peek(), None | Some(RequestPart::Step(_))),
                "{name}: more than {:?}",
                step.parameters
            );
            seen.insert(*name);
        }
    }
    assert_eq!(seen, steps.iter().map(|step| step.name).collect());
}

#[test]
fn texts_never_become_part_of_a_script() {
    let transact = TransactScripts::new(usize::MAX);
    let text = |key, value| {
        let transaction = transaction(vec![], vec![put(key, value)]);
        let chosen = transact.choose_script(EncodedRequest::new(&transaction).parts());
        assert!(chosen.holds_shape);
        chosen.script
    };
    let script = text("key-of-mine", "' .. value-of-mine");
    assert!(Arc::ptr_eq(&script, &text("another", "value")));
    assert!(!script.text().contains("of-mine"));
}

#[test]
fn only_short_shapes_get_a_script() {
    let transact = TransactScripts::new(1);
    let holds_shape =
        |operations| transact.choose_script(EncodedRequest::new(&transaction(vec![], operations)).parts()).holds_shape;
    assert!(!holds_shape((0..20).map(|n| put(&format!("k{n}"), "1")).collect()));
    assert!(holds_shape(vec![get(1)]));
}
