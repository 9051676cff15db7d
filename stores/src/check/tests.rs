use super::*;
use crate::{AppendOperation, BucketId, BucketKind, LeaseOperation, PutOperation, ResetMapOperation};

fn put(map: &str, key: &str) -> Operation {
    let entries = vec![Entry { key: key.into(), text: "1".into() }];
    Operation::Put(PutOperation { map_name: map.into(), entries })
}

fn code(operations: Vec<Operation>) -> Option<FailureCode> {
    let asked = Transaction {
        bucket: BucketId { kind: BucketKind::Session, name: "b".into() },
        precondition: Precondition::Create(NewBucket { time_to_live: None }),
        expectations: vec![],
        operations,
    };
    validate_transaction(&asked, &StoreCapabilities::ALL).err().map(|failure| failure.code)
}

#[test]
fn a_transaction_may_write_each_entry_only_once() {
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
fn a_transaction_may_write_each_mark_log_and_lease_only_once() {
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
