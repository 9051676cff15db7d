//! Properties of every operation, tried with examples of each: duplicate bookkeeping stays consistent, and no way to
//! create values gets past their limit.

use std::{sync::Arc, time::Duration};

use keepline_stores::{Description, FailureCode, MapDescription, Operation, Outcome, Posting, limits::MAX_VALUES};
use keepline_stores_tests::{on_every_store, requests::*, stores::StoreUnderTest};

on_every_store![
    counts_and_expiries_agree_after_any_operation,
    any_operation_that_creates_values_is_refused_at_their_limit,
];

const HOUR: Duration = Duration::from_secs(3600);

/// Something of all that the examples are about.
fn seed() -> Vec<Operation> {
    vec![
        put_in("values", &[("k", "0"), ("x", "0")]),
        put_in("notes", &[("k", "0"), ("x", "0"), ("y", "0")]),
        append("l", &["r0", "r1", "r2"]),
        append("history", &["h0"]),
        post("recall", (0..3).map(|position| Posting { position, mark: 1, terms: vec![1, 7] }).collect::<Vec<_>>()),
    ]
}

async fn counts_and_expiries_agree_after_any_operation(s: Arc<StoreUnderTest>) {
    let preconditions = [create_for(HOUR), create_sliding(HOUR)];
    let mut names = Vec::new();
    for (number, precondition) in preconditions.into_iter().enumerate() {
        for (place, operation) in examples().into_iter().enumerate() {
            for seeded in [true, false] {
                let name = format!("b{number}-{place}-{seeded}");
                if seeded {
                    s.apply(&name, precondition.clone(), seed()).await;
                }
                // Some are refused where there is nothing yet.
                let tried = s.try_send(&transaction(&name, precondition.clone(), [operation.clone()])).await;
                assert!(!seeded || tried.is_ok(), "{operation:?}: {tried:?}");
                names.push((name, operation.clone()));
            }
        }
    }
    // At once, in the middle of their lives, and when some have been used and others not.
    for _ in 0..3 {
        s.assert_consistent().await;
        for (name, operation) in &names {
            assert_counts(&s, name).await;
            // Refused by then, where it is about what it has removed.
            _ = s.try_send(&transaction(name, existing(), [operation.clone()])).await;
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
    let Description { values, maps, logs, .. } = s.describe(name).await;
    assert_eq!(values, entries_of(s, name, "values").await, "values of {name}");
    for MapDescription { map_name, entries } in maps {
        assert_eq!(entries, entries_of(s, name, &map_name).await, "{map_name} of {name}");
    }
    for log in logs {
        let Outcome::Records(found) = s.apply_one(name, read_all(&log.log)).await else { panic!("no records") };
        assert_eq!(
            (log.extent, log.extent.length),
            (found.extent, found.records.len() as u64),
            "{} of {name}",
            log.log
        );
    }
}

async fn entries_of(s: &StoreUnderTest, name: &str, map: &str) -> u64 {
    let Outcome::Page(page) = s.apply_one(name, page(map, "", 1000, ALL)).await else { panic!("no page") };
    assert_eq!((&*page.cursor, &page.unreadable[..]), ("", &[][..]));
    page.entries.len() as u64
}

async fn any_operation_that_creates_values_is_refused_at_their_limit(s: Arc<StoreUnderTest>) {
    let creates = examples().into_iter();
    let mut creating = Vec::new();
    for operation in creates {
        s.apply("small", replace(), seed()).await;
        let before = s.describe("small").await.values;
        s.apply_one("small", operation.clone()).await;
        let after = s.describe("small").await.values;
        if after > before
            || matches!(operation, Operation::ResetMap(ref reset) if reset.map_name == "values" && !reset.entries.is_empty())
        {
            creating.push(operation);
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
    for operation in creating {
        let refused = s.try_send(&transaction("b", existing(), [operation.clone()])).await.unwrap_err();
        let told = (refused.code, &*refused.subject, refused.limit);
        assert_eq!(told, (FailureCode::TooLarge, "values", MAX_VALUES), "{operation:?}");
    }
    assert_eq!(s.describe("b").await.values, MAX_VALUES);
}
