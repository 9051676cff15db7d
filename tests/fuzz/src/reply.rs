//! Replies of a broken or hostile Redis: read as an answer of the right shape, or refused with a short message.

use std::time::Duration;

use keepline::store::{
    BucketId, Failure, FoundDocuments, IndexStep, Operation, Outcome, Status, fuzzing, kind, limits::MAX_NEWEST, names,
};
use keepline_stores_tests::requests::{
    ALL, Work, add, append, append_marked, create, describe, get_all_in, get_all_within, get_in, get_within, lease,
    page, page_of_keys, put, put_in, read_at, read_marks, read_oldest, read_surplus, remove_all, remove_documents,
    remove_in, replace_oldest, reset_log, rewrite, search_within,
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
    let bucket = BucketId::new(if asked.is_multiple_of(2) { kind::SESSION } else { kind::USER }, "s");
    let request = keepline_stores_tests::requests::transaction(bucket, create(), work(asked));
    let indexed = match fuzzing::receipt(reply, &request) {
        Ok(Some(indexed)) => indexed,
        Ok(None) => return,
        Err(failure) => return is_told(&failure),
    };
    let (receipt, operations) = (&indexed.receipt, &request.transaction.operations);
    let is_answered = matches!(receipt.status, Status::Applied | Status::Repeated);
    assert_eq!(receipt.outcomes.len(), if is_answered { operations.len() } else { 0 });
    assert_eq!(indexed.found.len(), if is_answered { request.steps.len() } else { 0 });
    assert_eq!(indexed.lease.is_some(), is_answered && request.lease.is_some());
    operations.iter().zip(&receipt.outcomes).for_each(|(operation, outcome)| assert_answers(operation, outcome));
    request.steps.iter().zip(&indexed.found).for_each(|(step, found)| assert_finds(step, found));
}

fn assert_answers(operation: &Operation, outcome: &Outcome) {
    match (operation, outcome) {
        (Operation::Get(get), Outcome::Entries(found)) => {
            let keys = found.entries.iter().map(|entry| &entry.key).chain(found.unreadable());
            assert!(keys.clone().all(|key| get.keys.contains(key)), "{found:?}");
            assert!(keys.count() <= get.keys.len(), "{found:?}");
        }
        (Operation::GetAll(all), Outcome::Entries(found)) => {
            let is_sorted = found.entries.is_sorted_by(|a, b| a.key < b.key) && found.unreadable().is_sorted();
            assert!(all.cursor.is_some() || is_sorted, "{found:?}");
            let keys = found.entries.iter().map(|entry| &entry.key).chain(found.unreadable());
            keys.for_each(|key| assert_is_key(&all.map_name, key));
        }
        (Operation::Set(_), Outcome::Changed(_))
        | (Operation::Add(_), Outcome::Counter(_))
        | (
            Operation::Append(_) | Operation::Read(_) | Operation::ReplaceOldest(_) | Operation::Rewrite(_),
            Outcome::Extent(_),
        )
        | (Operation::ReadAt(_), Outcome::Records(_)) => {}
        (Operation::Read(_), Outcome::Records(read)) => {
            assert!(matches!(&*read.runs, [run] if !run.records.is_empty()), "{read:?}");
        }
        (Operation::Describe(_), Outcome::Described(description)) => {
            assert!(description.parts.iter().all(|part| names::is_part(&part.name)), "{description:?}");
        }
        other => panic!("an answer of the wrong kind: {other:?}"),
    }
}

fn assert_finds(step: &IndexStep, found: &FoundDocuments) {
    let terms = if let IndexStep::Search(search) = step { search.terms.len() } else { 0 };
    assert_eq!(found.terms.len(), terms, "{found:?}");
    let looked_at = found.extent.next - found.from_position;
    assert!(looked_at <= MAX_NEWEST || matches!(step, IndexStep::ReadMarks(_)), "{found:?}");
    assert!(found.terms.iter().flat_map(|hits| &hits.offsets).all(|offset| u64::from(*offset) < looked_at));
    let end = found.runs.last().map_or(0, |run| u64::from(run.offset) + run.marks.len() as u64);
    assert!(end <= looked_at, "{found:?}");
}

fn assert_is_key(map: &str, key: &str) {
    let is_key = if map == names::VALUES { names::is_key(key) } else { names::is_token(key) };
    assert!(is_key, "{map}: {key:?}");
}

/// What a question asks, what an answer asks, and what is rarer.
fn work(asked: u8) -> Work {
    match asked {
        0 => [get_all_within(1 << 20, 1000)].into(),
        1 => [put("k", "1"), add("n", 1), append("history", &["{}"])].into(),
        2 => [get_within("k", 99), get_in("notes", &["a", "b"], 99)].into(),
        3 => [read_oldest("history", 9, 999), read_surplus("history", 2, 1, 9, 999), read_at("history", &[(1, 2)], 99)]
            .into(),
        4 => [page_of_keys("values", "", 9), page("notes", "", 9, 99), remove_all(), get_all_in("notes")].into(),
        5 => {
            let operations = [
                put_in("notes", &[("a", "1")]),
                remove_in("notes", &["b"]),
                append_marked("turns", &["1"], &[("marks", "m", 0)]),
                replace_oldest("a", 1, &["1"]),
                rewrite("b", 0, "1"),
                reset_log("c", &["1"]),
                read_oldest("d", ALL, ALL),
            ];
            (operations, lease("l", "me", Duration::from_secs(1))).into()
        }
        7 => {
            let search = search_within("recall", &[1, 2, 257], 5000, 8, 999);
            let steps = (search, (read_marks("recall", 1000, 3000), remove_documents("other", [1])));
            ([describe()], steps).into()
        }
        _ => Work::default(),
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
