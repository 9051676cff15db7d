//! A transaction that can't be applied in full leaves everything, byte for byte, as it was.

use std::sync::Arc;

use keepline_stores::{Deadline, FailureCode, Opening, Operation, Status, Transaction};
use keepline_stores_tests::{on_every_store, requests::*, stores::StoreUnderTest};

/// Operations that by themselves would be applied, of every kind that writes.
fn harmless() -> Vec<Operation> {
    vec![
        put("new", "1"),
        put("a", "2"),
        increment("count", 1),
        remove("b"),
        append("history", &["x"]),
        replace_oldest("l", 1, &["X"]),
        rewrite("m", 0, "X"),
        get_all(),
    ]
}

/// Operations that can't be applied, and how they fail.
fn failing() -> Vec<(Operation, FailureCode)> {
    vec![
        (increment("text", 1), FailureCode::NotACounter),
        (increment("max", 1), FailureCode::CounterOverflow),
        (increment("min", -1), FailureCode::CounterOverflow),
        (rewrite("other", 2, "X"), FailureCode::Invalid),
        (replace_oldest("other", 5, &["1", "2", "3"]), FailureCode::Invalid),
        (replace_oldest("other", 1, &["1", "2"]), FailureCode::Invalid),
        (put("__keys__", "1"), FailureCode::Invalid),
        (put("a\n", "1"), FailureCode::Invalid),
        (append("History", &["1"]), FailureCode::Invalid),
        (put("new", "1"), FailureCode::Invalid),
        (append("l", &["1"]), FailureCode::Invalid),
    ]
}

async fn seeded(s: &StoreUnderTest) {
    let operations = [
        put("a", "1"),
        put("b", "1"),
        put("text", "\"text\""),
        put("max", &i64::MAX.to_string()),
        put("min", &i64::MIN.to_string()),
        append("l", &["0", "1"]),
        append("m", &["0", "1"]),
        append("other", &["0", "1"]),
    ];
    s.apply("b", create_for(std::time::Duration::from_secs(3600)), operations).await;
}

async fn an_operation_that_fails_undoes_those_before_and_after_it(s: Arc<StoreUnderTest>) {
    seeded(&s).await;
    let before = s.everything().await;
    for (operation, code) in failing() {
        for place in [0, 4, harmless().len()] {
            let mut operations = harmless();
            operations.insert(place, operation.clone());
            let failure = s.try_send(&transaction("b", existing(), operations)).await.unwrap_err();
            assert_eq!(failure.code, code, "{operation:?}");
            s.assert_unchanged(&before, (&operation, place)).await;
        }
    }
    s.apply("b", existing(), harmless()).await;
    assert_ne!(s.everything().await, before);
}

async fn a_failing_transaction_creates_no_bucket(s: Arc<StoreUnderTest>) {
    seeded(&s).await;
    let before = s.everything().await;
    let on_nothing = [rewrite("l", 0, "X"), replace_oldest("l", 1, &["X"]), put("__meta__", "1")];
    for operation in on_nothing {
        for opening in [create(), create_new()] {
            let operations = [put("a", "1"), append("history", &["x"]), operation.clone()];
            let failure = s.try_send(&transaction("absent", opening, operations)).await.unwrap_err();
            assert_eq!(failure.code, FailureCode::Invalid);
            s.assert_unchanged(&before, &operation).await;
        }
    }
}

async fn an_opening_that_is_not_met_changes_nothing(s: Arc<StoreUnderTest>) {
    seeded(&s).await;
    let before = s.everything().await;
    for (bucket, opening, status) in [
        ("absent", existing(), Status::Absent),
        ("absent", life("1795186917.032595"), Status::Absent),
        ("b", life("1795186917.032595"), Status::AnotherLife),
        ("b", life(""), Status::AnotherLife),
        ("b", create_new(), Status::Exists),
    ] {
        // The opening comes first: what else is wrong does not matter.
        let harmless = transaction(bucket, opening.clone(), harmless());
        let failing = transaction(bucket, opening.clone(), [increment("text", 1)]);
        let unmet = expecting(bucket, opening, [keys_are(&["none"])], []);
        for transaction in [harmless, failing, unmet] {
            let receipt = s.ask(&transaction).await;
            assert_eq!((receipt.status, receipt.created, &receipt.outcomes[..]), (status, false, &[][..]));
            s.assert_unchanged(&before, &transaction).await;
        }
    }
}

async fn an_expectation_that_is_not_met_changes_nothing(s: Arc<StoreUnderTest>) {
    seeded(&s).await;
    let before = s.everything().await;
    let unmet = [keys_are(&["a"]), room_within(5), oldest_are("l", &["1"])];
    for expectation in unmet {
        let transaction: Transaction = expecting("b", existing(), [expectation], harmless());
        assert_eq!(s.ask(&transaction).await.status, Status::Unmet);
        s.assert_unchanged(&before, &transaction).await;
    }
}

async fn reading_changes_nothing(s: Arc<StoreUnderTest>) {
    seeded(&s).await;
    let before = s.everything().await;
    let reads = [
        get("a"),
        get("absent"),
        get_within("text", 0),
        get_all(),
        get_all_within(0, 0),
        list_keys(1),
        read_all("l"),
        read_newest("absent", 0, 1, 1),
        overflow("l", 0, 0, ALL, ALL),
        count("l"),
        count("absent"),
    ];
    let openings: [Opening; 2] = [existing(), create()];
    for opening in openings {
        s.apply("b", opening, reads.clone()).await;
        s.store.describe_bucket("b", Deadline::NEVER).await.unwrap();
        s.list(1).await;
        s.assert_unchanged(&before, ()).await;
    }
}

on_every_store![
    an_operation_that_fails_undoes_those_before_and_after_it,
    a_failing_transaction_creates_no_bucket,
    an_opening_that_is_not_met_changes_nothing,
    an_expectation_that_is_not_met_changes_nothing,
    reading_changes_nothing,
];
