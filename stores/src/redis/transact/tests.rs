use std::collections::BTreeSet;

use super::*;
use crate::{
    AddDocumentsStep, AddOperation, AppendOperation, BucketId, DescribeOperation, Document, Entry, EntryState,
    ExistingBucket, Expectation, ExpectedEntry, ExpectedLog, ExpectedRoom, GetAllOperation, GetOperation, IndexStep,
    IndexedTransaction, LeaseRequest, NewBucket, Operation, PositionMark, PositionedRecord, Precondition,
    ReadAtOperation, ReadMarksStep, ReadOperation, RemoveDocumentsStep, ReplaceOldestOperation, RewriteOperation,
    SearchStep, SetOperation, Span, Transaction, redis::transact::encode::EncodedRequest,
};

fn request(expectations: Vec<Expectation>, operations: Vec<Operation>) -> IndexedTransaction {
    let precondition = Precondition::Existing(ExistingBucket { generation: None, renew: true });
    Transaction { bucket: BucketId::session("b"), precondition, expectations, operations }.into()
}

fn put(key: &str, text: &str) -> Operation {
    let put = vec![Entry { key: key.into(), text: text.into() }];
    Operation::Set(SetOperation { map_name: "values".into(), reset: false, remove: Vec::new(), put })
}

fn get(max_bytes: u64) -> Operation {
    Operation::Get(GetOperation { map_name: "values".into(), keys: vec!["k".into(), "x".into()], max_bytes })
}

/// Each expectation, operation and step that there is, in all its forms: of values, or of another map.
fn everything(map: &str) -> IndexedTransaction {
    let (map_name, key, log) = (|| map.to_owned(), || "k".to_owned(), || "l".to_owned());
    let two = || vec!["x".to_owned(), "y".to_owned()];
    let entries = || two().into_iter().map(|key| Entry { key, text: "1".into() }).collect::<Vec<_>>();
    let marks = || vec![PositionMark { map_name: "marks".into(), key: "k".into(), record_index: 1 }];
    let records = || vec![PositionedRecord { position: 1, text: "x".into() }];
    let expected = ExpectedEntry { map_name: map_name(), key: key(), state: EntryState::Equal, text: "x".into() };
    let get_all = |cursor| {
        let limits = GetAllOperation { map_name: map_name(), cursor, max_entries: 1, max_bytes: 2, keys_only: false };
        Operation::GetAll(limits)
    };
    let set = |reset| {
        let remove = vec!["z".to_owned()];
        Operation::Set(SetOperation { map_name: map_name(), reset, remove, put: entries() })
    };
    let append = |reset| Operation::Append(AppendOperation { log: log(), reset, records: two(), marks: marks() });
    let read = |only_over, leave| {
        let read = ReadOperation { log: log(), newest: true, only_over, leave, max_records: 2, max_bytes: 3 };
        Operation::Read(read)
    };
    let mut request = request(
        vec![
            Expectation::Entry(expected),
            Expectation::Log(ExpectedLog { log: log(), first: Some(1), next: None }),
            Expectation::Room(ExpectedRoom { map_name: map_name(), limit: 1 }),
        ],
        vec![
            Operation::Get(GetOperation { map_name: map_name(), keys: two(), max_bytes: 1 }),
            get_all(None),
            get_all(Some(String::new())),
            set(false),
            set(true),
            Operation::Add(AddOperation { map_name: map_name(), key: key(), amount: -1 }),
            append(false),
            append(true),
            read(0, 0),
            read(1, 2),
            Operation::ReadAt(ReadAtOperation {
                log: log(),
                spans: vec![Span { position: 1, count: 2 }],
                max_bytes: 3,
            }),
            Operation::ReplaceOldest(ReplaceOldestOperation { log: log(), count: 2, records: two() }),
            Operation::Rewrite(RewriteOperation { log: log(), records: records() }),
            Operation::Describe(DescribeOperation { parts: true }),
        ],
    );
    request.transaction.precondition = Precondition::Replace(NewBucket { time_to_live: None });
    request.lease = Some(LeaseRequest { name: log(), holder: key(), milliseconds: 1 });
    request.steps = vec![
        IndexStep::AddDocuments(AddDocumentsStep {
            index: log(),
            documents: vec![Document { position: 1, mark: 1, terms: vec![1] }],
        }),
        IndexStep::RemoveDocuments(RemoveDocumentsStep { index: log(), positions: vec![1] }),
        IndexStep::Search(SearchStep { index: log(), terms: vec![1], newest: 1, around: 1, max_bytes: 1 }),
        IndexStep::ReadMarks(ReadMarksStep { index: log(), from_position: 0, count: 1 }),
    ];
    request
}

#[test]
fn each_step_is_written_with_the_parameters_that_its_code_reads() {
    let steps = StepTemplates::parse(STEPS).steps;
    let mut seen = BTreeSet::new();
    for map in ["values", "notes"] {
        let everything = everything(map);
        let request = EncodedRequest::new(&everything);
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
                    (Parameter::Key | Parameter::Log | Parameter::Map | Parameter::Index, RequestPart::Fixed(1..))
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
        let request = request(vec![], vec![put(key, value)]);
        let chosen = transact.choose_script(EncodedRequest::new(&request).parts());
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
        |operations| transact.choose_script(EncodedRequest::new(&request(vec![], operations)).parts()).holds_shape;
    assert!(!holds_shape((0..20).map(|n| put(&format!("k{n}"), "1")).collect()));
    assert!(holds_shape(vec![get(1)]));
}
