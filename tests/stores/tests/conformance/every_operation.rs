//! Properties of every operation, tried with examples of each: duplicate bookkeeping stays consistent, and no way to
//! create values gets past their limit.

use std::{sync::Arc, time::Duration};

use keepline_stores::{
    Description, Document, FailureCode, Operation,
    limits::{MAX_VALUES, RequestSize},
    part,
};
use keepline_stores_tests::{on_every_store, requests::*, stores::StoreUnderTest};

on_every_store![
    counts_and_expiries_agree_after_any_operation,
    any_operation_that_creates_values_is_refused_at_their_limit,
];

const HOUR: Duration = Duration::from_secs(3600);

/// What is not counted has no limit.
#[test]
fn any_operation_counts_as_a_piece_of_its_call() {
    let pieces = |work: Work| RequestSize::of_transactions([&transaction("b", existing(), work)]).pieces;
    let none = pieces(Work::default());
    for work in examples() {
        assert!(pieces(work.clone()) > none, "{work:?}");
    }
}

/// Something of all that the examples are about.
fn seed() -> Work {
    let operations = [
        put_in("values", &[("k", "0"), ("x", "0")]),
        put_in("notes", &[("k", "0"), ("x", "0"), ("y", "0")]),
        append("l", &["r0", "r1", "r2"]),
        append("history", &["h0"]),
    ];
    let documents: Vec<_> = (0..3).map(|position| Document { position, mark: 1, terms: vec![1, 7] }).collect();
    (operations, add_documents("recall", documents)).into()
}

async fn counts_and_expiries_agree_after_any_operation(s: Arc<StoreUnderTest>) {
    let preconditions = [create_for(HOUR), create_sliding(HOUR)];
    let mut names = Vec::new();
    for (number, precondition) in preconditions.into_iter().enumerate() {
        for (place, work) in examples().into_iter().enumerate() {
            for seeded in [true, false] {
                let name = format!("b{number}-{place}-{seeded}");
                if seeded {
                    s.apply(&name, precondition.clone(), seed()).await;
                }
                // Some are refused where there is nothing yet.
                let tried = s.try_send(&transaction(&name, precondition.clone(), work.clone())).await;
                assert!(!seeded || tried.is_ok(), "{work:?}: {tried:?}");
                names.push((name, work.clone()));
            }
        }
    }
    // At once, in the middle of their lives, and when some have been used and others not.
    for _ in 0..3 {
        s.assert_consistent().await;
        for (name, work) in &names {
            assert_counts(&s, name).await;
            // Refused by then, where it is about what it has removed.
            _ = s.try_send(&transaction(name, existing(), work.clone())).await;
        }
        s.assert_consistent().await;
        s.pass_time(HOUR / 4);
    }
}

/// A description counts what is there.
async fn assert_counts(s: &StoreUnderTest, name: &str) {
    if !s.is_there(name).await {
        return;
    }
    let Description { values, parts, .. } = s.describe(name).await;
    assert_eq!(values, count_entries(s, name, "values").await, "values of {name}");
    for part in parts {
        let told = (part.position, part.count);
        let found = match &*part.kind {
            part::MAP => (0, count_entries(s, name, &part.name).await),
            part::LOG => {
                let read = s.apply_one(name, read_all(&part.name)).await;
                assert_eq!(extent_of(&read).length, part.count, "{} of {name}", part.name);
                (extent_of(&read).first, records_of(&read).len() as u64)
            }
            part::INDEX => {
                let found = s.apply_step(name, read_marks(&part.name, 0, u32::MAX)).await;
                let marks = found.runs.iter().flat_map(|run| &run.marks).filter(|mark| **mark != 0);
                assert_eq!(part.bytes, 4 * found.extent.documents + 3 * found.extent.occurrences);
                (found.extent.next, marks.count() as u64)
            }
            other => panic!("a part of an unknown kind: {other}"),
        };
        assert_eq!(told, found, "{} {} of {name}", part.kind, part.name);
    }
}

async fn count_entries(s: &StoreUnderTest, name: &str, map: &str) -> u64 {
    let page = entries_of(s.apply_one(name, page(map, "", 1000, ALL)).await);
    assert_eq!(page.missing, None);
    page.entries.len() as u64
}

async fn any_operation_that_creates_values_is_refused_at_their_limit(s: Arc<StoreUnderTest>) {
    let mut creating = Vec::new();
    for work in examples() {
        s.apply("small", replace(), seed()).await;
        let before = s.describe("small").await.values;
        s.apply("small", existing(), work.clone()).await;
        let after = s.describe("small").await.values;
        let puts_values = |operation: &Operation| matches!(operation, Operation::Set(set) if set.map_name == "values" && !set.put.is_empty());
        if after > before || work.operations.iter().any(puts_values) {
            creating.push(work);
        }
    }
    assert!(creating.len() >= 3, "{creating:?}");
    s.apply("b", create(), seed()).await;
    let names: Vec<String> = (2..MAX_VALUES).map(|number| format!("v{number}")).collect();
    for names in names.chunks(1000) {
        let entries: Vec<_> = names.iter().map(|name| (&**name, "1")).collect();
        s.apply("b", existing(), [put_in("values", &entries)]).await;
    }
    assert_eq!(s.describe("b").await.values, MAX_VALUES);
    for work in creating {
        let refused = s.try_send(&transaction("b", existing(), work.clone())).await.unwrap_err();
        let told = (refused.code, &*refused.subject, refused.limit);
        assert_eq!(told, (FailureCode::TooLarge, "values", MAX_VALUES), "{work:?}");
    }
    assert_eq!(s.describe("b").await.values, MAX_VALUES);
}
