//! Replies of a broken or hostile Redis: read as an answer of the right shape, or refused with a short message.

use std::time::Duration;

use keepline::store::{
    BucketKind, Failure, NewBucket, Operation, Outcome, Precondition, Status, Transaction, fuzzing, names,
};
use keepline_stores_tests::requests::{
    ALL, append, append_marked, bucket, describe, get_all_in, get_all_within, get_in, get_within, increment, lease,
    overflow, page, page_of_keys, put, put_in, read_at, read_oldest, remove_all, remove_in, replace_oldest, reset_log,
    rewrite,
};
use redis::Value;

/// The first byte says what was asked; the rest is what the server sends.
pub fn holds(data: &[u8]) {
    let [asked, reply @ ..] = data else { return };
    let Ok(reply) = redis::parse_redis_value(reply) else { return };
    match asked % 10 {
        6 => deletion(reply),
        8 => names_of(reply),
        9 => map(reply),
        asked => transaction(asked, reply),
    }
}

fn transaction(asked: u8, reply: Value) {
    let operations = operations(asked);
    let transaction = Transaction {
        bucket: bucket(if asked.is_multiple_of(2) { BucketKind::Session } else { BucketKind::User }, "s"),
        precondition: Precondition::Create(NewBucket { time_to_live: None }),
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
            (Operation::Get(get), Outcome::Entries(found)) => {
                let keys = found.entries.iter().map(|entry| &entry.key).chain(&found.unreadable);
                assert!(keys.clone().all(|key| get.keys.contains(key)), "{found:?}");
                assert!(keys.count() <= get.keys.len(), "{found:?}");
            }
            (Operation::GetAll(all), Outcome::Entries(found)) => {
                assert!(found.entries.is_sorted_by(|a, b| a.key < b.key) && found.unreadable.is_sorted());
                let keys = found.entries.iter().map(|entry| &entry.key).chain(&found.unreadable);
                keys.for_each(|key| assert_is_key(&all.map_name, key));
            }
            (Operation::Page(page), Outcome::Page(found)) => {
                let keys = found.entries.iter().map(|entry| &entry.key).chain(&found.unreadable);
                keys.for_each(|key| assert_is_key(&page.map_name, key));
                assert!(!page.keys_only || found.entries.iter().all(|entry| entry.text.is_empty()));
            }
            (Operation::Get(_) | Operation::GetAll(_), Outcome::Oversize(_))
            | (Operation::Put(_) | Operation::Remove(_) | Operation::ResetMap(_), Outcome::Changed(_))
            | (Operation::Increment(_), Outcome::Counter(_))
            | (
                Operation::Append(_)
                | Operation::Overflow(_)
                | Operation::ReplaceOldest(_)
                | Operation::Rewrite(_)
                | Operation::ResetLog(_),
                Outcome::Extent(_),
            )
            | (Operation::Read(_) | Operation::Overflow(_), Outcome::Records(_))
            | (Operation::ReadAt(_), Outcome::Spans(_))
            | (Operation::Lease(_), Outcome::Lease(_)) => {}
            (Operation::Describe(_), Outcome::Described(description)) => {
                assert!(description.maps.iter().all(|map| names::is_part(&map.map_name)), "{description:?}");
                assert!(description.logs.iter().all(|log| names::is_part(&log.log)), "{description:?}");
            }
            other => panic!("an answer of the wrong kind: {other:?}"),
        }
    }
}

fn assert_is_key(map: &str, key: &str) {
    let is_key = if map == names::VALUES { names::is_key(key) } else { names::is_token(key) };
    assert!(is_key, "{map}: {key:?}");
}

/// What a question asks, what an answer asks, and what is rarer.
fn operations(asked: u8) -> Vec<Operation> {
    match asked {
        0 => vec![get_all_within(1 << 20, 1000)],
        1 => vec![put("k", "1"), increment("n", 1), append("history", &["{}"])],
        2 => vec![get_within("k", 99), get_in("notes", &["a", "b"], 99)],
        3 => vec![read_oldest("history", 9, 999), overflow("history", 2, 1, 9, 999), read_at("history", &[(1, 2)], 99)],
        4 => vec![page_of_keys("values", "", 9), page("notes", "", 9, 99), remove_all(), get_all_in("notes")],
        5 => vec![
            put_in("notes", &[("a", "1")]),
            remove_in("notes", &["b"]),
            append_marked("turns", &["1"], &[("marks", "m", 0)]),
            replace_oldest("a", 1, &["1"]),
            rewrite("b", 0, "1"),
            reset_log("c", &["1"]),
            lease("l", "me", Duration::from_secs(1)),
            read_oldest("d", ALL, ALL),
        ],
        7 => vec![describe()],
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

fn names_of(reply: Value) {
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
