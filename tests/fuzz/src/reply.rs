//! What a broken or hostile Redis replies: read as an answer of the right shape, or refused with short words.

use keepline::store::{
    AppendOperation, CountOperation, Failure, GetAllOperation, GetOperation, IncrementOperation, ListKeysOperation,
    LogEnd, NewLife, Opening, Operation, Outcome, PutOperation, ReadOperation, RemoveAllOperation, Status, Transaction,
    fuzzing, names,
};
use redis::Value;

/// The first byte says what was asked; the rest is what the server sends.
pub fn holds(data: &[u8]) {
    let [asked, reply @ ..] = data else { return };
    let Ok(reply) = redis::parse_redis_value(reply) else { return };
    match asked % 10 {
        6 => deletion(reply),
        7 => description(reply),
        8 => page(reply),
        9 => map(reply),
        asked => transaction(asked, reply),
    }
}

fn transaction(asked: u8, reply: Value) {
    let operations = operations(asked);
    let transaction = Transaction {
        bucket: "s".into(),
        opening: Opening::Create(NewLife { time_to_live: None }),
        expectations: Vec::new(),
        operations,
    };
    let receipt = match fuzzing::receipt(reply, &transaction) {
        Ok(Some(receipt)) => receipt,
        Ok(None) => return,
        Err(failure) => return is_told(&failure),
    };
    let is_answered = matches!(receipt.status, Status::Applied | Status::Repeated);
    assert_eq!(receipt.outcomes.len(), if is_answered { transaction.operations.len() } else { 0 });
    for (operation, outcome) in transaction.operations.iter().zip(&receipt.outcomes) {
        match (operation, outcome) {
            (Operation::Get(_), Outcome::Value(found)) => assert!(found.json.is_none() || !found.unreadable),
            (Operation::GetAll(_), Outcome::Values(all)) => {
                assert!(all.entries.is_sorted_by(|a, b| a.key <= b.key) && all.unreadable.is_sorted());
                assert!(all.entries.iter().all(|entry| names::is_key(&entry.key)));
                assert!(all.unreadable.iter().all(|key| names::is_key(key)));
            }
            (Operation::Get(_) | Operation::GetAll(_), Outcome::Oversize(_)) => {}
            (Operation::ListKeys(_) | Operation::RemoveAll(_), Outcome::Names(found)) => {
                assert!(found.names.iter().all(|name| names::is_key(name)));
            }
            (Operation::Put(_), Outcome::Done(_)) => {}
            (Operation::Increment(_), Outcome::Counter(_)) => {}
            (Operation::Append(_) | Operation::Count(_), Outcome::Extent(_)) => {}
            (Operation::Read(_), Outcome::Records(_)) => {}
            other => panic!("an answer of the wrong kind: {other:?}"),
        }
    }
}

/// What a question asks, what an answer asks, and what is rarer.
fn operations(asked: u8) -> Vec<Operation> {
    let key = || "k".to_owned();
    let log = || "history".to_owned();
    match asked {
        0 => vec![Operation::GetAll(GetAllOperation { max_bytes: 1 << 20, max_keys: 1000 })],
        1 => vec![
            Operation::Put(PutOperation { key: key(), value: "1".into() }),
            Operation::Increment(IncrementOperation { key: "n".into(), amount: 1 }),
            Operation::Append(AppendOperation { log: log(), records: vec!["{}".into()] }),
        ],
        2 => vec![Operation::Get(GetOperation { key: key(), max_bytes: 99 })],
        3 => vec![Operation::Read(ReadOperation {
            log: log(),
            end: LogEnd::Oldest,
            skip: 0,
            max_records: 9,
            max_bytes: 999,
        })],
        4 => vec![
            Operation::ListKeys(ListKeysOperation { max_keys: 9 }),
            Operation::Count(CountOperation { log: log() }),
            Operation::RemoveAll(RemoveAllOperation { max_names: 9 }),
        ],
        _ => Vec::new(),
    }
}

fn deletion(reply: Value) {
    match fuzzing::deletion(reply) {
        Ok(Some(deletion)) => assert!(deletion.keys.iter().all(|key| names::is_key(key)), "{deletion:?}"),
        Ok(None) => {}
        Err(failure) => is_told(&failure),
    }
}

fn description(reply: Value) {
    match fuzzing::description(reply) {
        Ok(Some(description)) => {
            assert!(description.logs.iter().all(|log| names::is_log(&log.log)), "{description:?}");
        }
        Ok(None) => {}
        Err(failure) => is_told(&failure),
    }
}

fn page(reply: Value) {
    match fuzzing::page(reply) {
        Ok(Some(buckets)) => assert!(buckets.iter().all(|bucket| names::is_bucket(bucket)), "{buckets:?}"),
        Ok(None) => {}
        Err(failure) => is_told(&failure),
    }
}

fn map(reply: Value) {
    match fuzzing::map(reply) {
        Ok(is_whole) => assert!(is_whole),
        Err(failure) => is_told(&failure),
    }
}

/// Its words go to the log and to the component: short, one line, and with no name that can't be one.
fn is_told(failure: &Failure) {
    assert!(failure.message.len() < 1000 && !failure.message.contains(|c: char| c.is_control()), "{failure:?}");
    assert!(failure.subject.len() < 300 && !failure.subject.contains(|c: char| c.is_control()), "{failure:?}");
}
