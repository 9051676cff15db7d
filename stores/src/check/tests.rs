use super::*;
use crate::{AppendOperation, Entry, Transaction};

fn put(map: &str, key: &str) -> Operation {
    let put = vec![Entry { key: key.into(), text: "1".into() }];
    Operation::Set(SetOperation { map_name: map.into(), reset: false, remove: vec![], put })
}

fn reset(map: &str) -> Operation {
    Operation::Set(SetOperation { map_name: map.into(), reset: true, remove: vec![], put: vec![] })
}

fn code(operations: Vec<Operation>) -> Option<FailureCode> {
    let asked = Transaction {
        bucket: BucketId::session("b"),
        precondition: Precondition::Create(NewBucket { time_to_live: None }),
        expectations: vec![],
        operations,
    };
    validate_transaction(&asked.into(), &capability::ALL).err().map(|failure| failure.code)
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
    let all = reset(VALUES);
    assert_eq!(code(vec![put("values", "a"), all.clone()]), Some(FailureCode::Invalid));
    assert_eq!(code(vec![all.clone(), put("values", "a")]), Some(FailureCode::Invalid));
    assert_eq!(code(vec![all.clone(), put("notes", "a")]), None);
    assert_eq!(code(vec![all.clone(), all]), Some(FailureCode::Invalid));
}

#[test]
fn a_transaction_may_write_each_mark_and_log_only_once() {
    let append = |log: &str, map_name: &str, record_index| {
        let marks = vec![PositionMark { map_name: map_name.into(), key: "k".into(), record_index }];
        Operation::Append(AppendOperation { log: log.into(), reset: false, records: vec!["1".into()], marks })
    };
    for allowed in [
        vec![append("l", "m", 0), append("m", "n", 0), put("l", "k")],
        vec![append("l", "m", 0), put("m", "j"), reset("l")],
        vec![append("log", "map", 0), reset("log"), put("lease", "log")],
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
    ] {
        assert_eq!(code(refused), Some(FailureCode::Invalid));
    }
}

#[test]
fn a_key_is_written_once_within_a_set_also_when_the_map_is_reset() {
    for reset in [false, true] {
        let set = |remove: &[&str], put: &[&str]| {
            Operation::Set(SetOperation {
                map_name: VALUES.into(),
                reset,
                remove: remove.iter().map(ToString::to_string).collect(),
                put: put.iter().map(|key| Entry { key: (*key).into(), text: "1".into() }).collect(),
            })
        };
        assert_eq!(code(vec![set(&["a"], &["b"])]), None);
        for refused in [set(&["a"], &["a"]), set(&["a", "a"], &[]), set(&[], &["b", "b"])] {
            assert_eq!(code(vec![refused]), Some(FailureCode::Invalid));
        }
    }
}
