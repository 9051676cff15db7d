//! A transaction that can't be applied in full leaves everything, byte for byte, as it was.

use std::{sync::Arc, time::Duration};

use keepline_stores::{FailureCode, Status, kind};
use keepline_stores_tests::{on_every_store, requests::*, stores::StoreUnderTest};

const HOUR: Duration = Duration::from_secs(3600);

/// Work that by itself would be applied: operations of every kind that writes, steps, and a lease.
fn harmless() -> Work {
    let operations = [
        put("new", "1"),
        put("a", "2"),
        add("count", 1),
        remove("b"),
        append_marked("history", &["x"], &[("marks", "x", 0)]),
        replace_oldest("l", 1, &["X"]),
        rewrite("m", 0, "X"),
        put_in("notes", &[("k", "2"), ("new", "1")]),
        add_in("counts", "n", 1),
        reset_map("reset", &[("z", "1")]),
        set("set", false, &["y"], &[("z", "1")]),
        reset_log("n", &["new"]),
        get_all(),
    ];
    let steps: Work = (
        add_documents("i", [document(2, &[1, 9])]),
        (remove_documents("j", [0]), add_documents("new", [document(0, &[1])])),
    )
        .into();
    (operations, (steps, lease("more", "me", HOUR))).into()
}

/// Operations that can't be applied, and how they fail.
fn failing() -> Vec<(Work, FailureCode)> {
    let operations = [
        (add("text", 1), FailureCode::NotACounter),
        (add("max", 1), FailureCode::CounterOverflow),
        (add("min", -1), FailureCode::CounterOverflow),
        (add_in("notes", "text", 1), FailureCode::NotACounter),
        (rewrite("other", 2, "X"), FailureCode::Invalid),
        (rewrite_each("other", &[(0, "X"), (2, "X")]), FailureCode::Invalid),
        (replace_oldest("other", 5, &["1", "2", "3"]), FailureCode::Invalid),
        (replace_oldest("other", 1, &["1", "2"]), FailureCode::Invalid),
        (put("__keys__", "1"), FailureCode::Invalid),
        (put("a\n", "1"), FailureCode::Invalid),
        (append("History", &["1"]), FailureCode::Invalid),
        (append_marked("other", &["1"], &[("marks", "x", 0)]), FailureCode::Invalid),
        (put("new", "1"), FailureCode::Invalid),
        (append("l", &["1"]), FailureCode::Invalid),
        (set("other", false, &["k"], &[("k", "1")]), FailureCode::Invalid),
    ];
    let steps = [
        (add_documents("k", [document(1, &[1])]), FailureCode::Invalid),
        (add_documents("k", [document(3, &[2, 1])]), FailureCode::Invalid),
        (remove_documents("i", [0]), FailureCode::Invalid),
        (search("i", &(0..257).collect::<Vec<_>>()), FailureCode::TooLarge),
    ];
    let operations = operations.into_iter().map(|(operation, code)| (Work::from(operation), code));
    operations.chain(steps.map(|(step, code)| (step.into(), code))).collect()
}

async fn seeded(s: &StoreUnderTest) {
    let operations = [
        put_in("values", &[("a", "1"), ("b", "1"), ("text", "\"text\"")]),
        put("max", &i64::MAX.to_string()),
        put("min", &i64::MIN.to_string()),
        append("l", &["0", "1"]),
        append("m", &["0", "1"]),
        append("n", &["0"]),
        append("other", &["0", "1"]),
        put_in("notes", &[("k", "1"), ("text", "t")]),
        put_in("reset", &[("y", "1")]),
        put_in("set", &[("y", "1")]),
    ];
    let two = [document(0, &[1, 2]), document(1, &[2])];
    let steps: Work = (add_documents("i", two.clone()), add_documents("j", two)).into();
    let steps: Work = (steps, add_documents("k", [document(1, &[1, 2])])).into();
    s.apply("b", create_for(HOUR), (operations, (steps, lease("work", "me", 2 * HOUR)))).await;
}

async fn an_operation_that_fails_undoes_those_before_and_after_it(s: Arc<StoreUnderTest>) {
    seeded(&s).await;
    let before = s.everything().await;
    for (operation, code) in failing() {
        for place in [0, 7, harmless().operations.len()] {
            let mut work = harmless();
            work.operations.splice(place..place, operation.operations.clone());
            let steps = place.min(work.steps.len());
            work.steps.splice(steps..steps, operation.steps.clone());
            let failure = s.try_send(&transaction("b", existing(), work)).await.unwrap_err();
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
        for precondition in [create(), create_new(), replace()] {
            let operations = [put("a", "1"), append("history", &["x"]), operation.clone()];
            let failure = s.try_send(&transaction("absent", precondition, operations)).await.unwrap_err();
            assert_eq!(failure.code, FailureCode::Invalid);
            s.assert_unchanged(&before, &operation).await;
        }
    }
}

async fn a_failing_replacement_replaces_nothing(s: Arc<StoreUnderTest>) {
    seeded(&s).await;
    let before = s.everything().await;
    for operation in [rewrite("l", 0, "X"), replace_oldest("l", 1, &["X"]), put("__meta__", "1")] {
        let operations = [put("a", "2"), append("history", &["x"]), operation.clone()];
        let failure = s.try_send(&transaction("b", replace(), operations)).await.unwrap_err();
        assert_eq!(failure.code, FailureCode::Invalid);
        s.assert_unchanged(&before, &operation).await;
    }
    let unmet = expecting("b", replace(), [equal("a", "2")], [put("a", "2")]);
    assert_eq!(s.ask(&unmet).await.unmet, Some(0));
    s.assert_unchanged(&before, &unmet).await;
    // What can't be counted on in the old life is no hindrance in the new one.
    assert_eq!(s.apply("b", replace(), [add("text", 1)]).await, [counter(1)]);
}

async fn a_precondition_that_is_not_met_changes_nothing(s: Arc<StoreUnderTest>) {
    seeded(&s).await;
    let before = s.everything().await;
    for (bucket, precondition, status) in [
        ("absent", existing(), Status::Absent),
        ("absent", life("1795186917.032595"), Status::Absent),
        ("b", life("1795186917.032595"), Status::GenerationMismatch),
        ("b", create_new(), Status::Exists),
    ] {
        // The precondition comes first: what else is wrong does not matter.
        let harmless = transaction(bucket, precondition.clone(), harmless());
        let failing = transaction(bucket, precondition.clone(), [add("text", 1)]);
        let unmet = expecting(bucket, precondition, [present("none")], []);
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
    for expectation in [absent("a"), equal("a", "2"), room_within(5), room_in("notes", 2), log_at("l", 1, None)] {
        let transaction = expecting("b", existing(), [expectation], harmless());
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
        get_in("notes", &["k", "absent"], ALL),
        get_all(),
        get_all_within(0, 0),
        get_all_in("absent"),
        page("values", "", 1, ALL),
        page("notes", "", 1, ALL),
        read_all("l"),
        read_newest("absent", 1, 1),
        read_at("l", &[(0, 1), (7, 7)], ALL),
        read_surplus("l", 0, 0, ALL, ALL),
        count("l"),
        count("absent"),
        describe(),
    ];
    let steps: Work = (search("i", &[1]), (search("absent", &[1]), read_marks("j", 0, 5))).into();
    for precondition in [existing(), unused(), create()] {
        s.apply("b", precondition, (reads.clone(), steps.clone())).await;
        for kind in kind::REGISTERED {
            s.list_kind(kind, 1).await;
        }
        s.assert_unchanged(&before, ()).await;
    }
}

on_every_store![
    an_operation_that_fails_undoes_those_before_and_after_it,
    a_failing_transaction_creates_no_bucket,
    a_failing_replacement_replaces_nothing,
    a_precondition_that_is_not_met_changes_nothing,
    an_expectation_that_is_not_met_changes_nothing,
    reading_changes_nothing,
];
