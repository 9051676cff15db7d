//! Logs: ranges of them, their surplus, and the positions of their records.

use std::sync::Arc;

use keepline_stores::{Deadline, FailureCode};
use keepline_stores_tests::{on_every_store, requests::*, stores::StoreUnderTest};

async fn records_are_numbered_from_zero_in_order_of_appending(s: Arc<StoreUnderTest>) {
    assert_eq!(s.apply("b", create(), [count("l"), read_all("l")]).await, [extent(0, 0), records(0, 0, NONE)]);
    assert_eq!(s.apply_one("b", append("l", &["a"])).await, extent(0, 1));
    assert_eq!(s.apply_one("b", append("l", &["b", "c"])).await, extent(0, 3));
    assert_eq!(s.apply_one("b", append("other", &["x"])).await, extent(0, 1));
    assert_eq!(s.apply_one("b", read_all("l")).await, records(0, 3, &["a", "b", "c"]));
    assert_eq!(s.apply_one("b", read_all("other")).await, records(0, 1, &["x"]));
    assert_eq!(s.apply_one("b", count("l")).await, extent(0, 3));
}

async fn operations_on_an_absent_log_find_nothing_and_make_none(s: Arc<StoreUnderTest>) {
    let outcomes = s
        .apply(
            "b",
            create(),
            [
                append("l", NONE),
                count("l"),
                read_oldest("l", 0, ALL, ALL),
                read_newest("l", 0, ALL, ALL),
                overflow("l", 0, 0, ALL, ALL),
                replace_oldest("m", ALL, NONE),
                replace_oldest("n", 0, NONE),
            ],
        )
        .await;
    let nothing = records(0, 0, NONE);
    assert_eq!(outcomes[..2], [extent(0, 0), extent(0, 0)]);
    assert_eq!(outcomes[2..5], [nothing.clone(), nothing.clone(), nothing]);
    assert_eq!(outcomes[5..], [extent(0, 0), extent(0, 0)]);
    assert_eq!(s.store.describe_bucket("b", Deadline::NEVER).await.unwrap().logs, []);
}

async fn a_range_is_taken_from_either_end_and_told_oldest_first(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [append("l", &["a", "b", "c", "d", "e"])]).await;
    for (operation, first, expected) in [
        (read_oldest("l", 0, 2, ALL), 0, &["a", "b"][..]),
        (read_oldest("l", 1, 2, ALL), 1, &["b", "c"]),
        (read_oldest("l", 4, 2, ALL), 4, &["e"]),
        (read_oldest("l", 3, ALL, ALL), 3, &["d", "e"]),
        (read_newest("l", 0, 2, ALL), 3, &["d", "e"]),
        (read_newest("l", 1, 2, ALL), 2, &["c", "d"]),
        (read_newest("l", 4, 2, ALL), 0, &["a"]),
        (read_newest("l", 0, 5, ALL), 0, &["a", "b", "c", "d", "e"]),
        (read_newest("l", 3, ALL, ALL), 0, &["a", "b"]),
    ] {
        assert_eq!(s.apply_one("b", operation.clone()).await, records(first, 5, expected), "{operation:?}");
    }
}

async fn a_range_beyond_the_end_or_of_no_records_is_empty(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [append("l", &["a", "b"])]).await;
    for operation in [
        read_oldest("l", 2, ALL, ALL),
        read_oldest("l", 3, ALL, ALL),
        read_oldest("l", ALL, ALL, ALL),
        read_newest("l", 2, ALL, ALL),
        read_newest("l", 3, ALL, ALL),
        read_newest("l", ALL, ALL, ALL),
        read_oldest("l", 0, 0, ALL),
        read_newest("l", 0, 0, ALL),
        overflow("l", 0, 0, 0, ALL),
    ] {
        let outcome = s.apply_one("b", operation.clone()).await;
        let keepline_stores::Outcome::Records(range) = outcome else { panic!("{outcome:?}") };
        assert_eq!((range.length, range.records.len()), (2, 0), "{operation:?}");
    }
}

async fn a_range_stops_at_its_bytes_but_never_before_one_record(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [append("l", &["1", "22", "é", "", "4444"])]).await;
    for (operation, first, expected) in [
        (read_oldest("l", 0, ALL, 0), 0, &["1"][..]),
        (read_oldest("l", 0, ALL, 2), 0, &["1"]),
        (read_oldest("l", 0, ALL, 3), 0, &["1", "22"]),
        (read_oldest("l", 0, ALL, 4), 0, &["1", "22"]),
        (read_oldest("l", 0, ALL, 5), 0, &["1", "22", "é", ""]),
        (read_oldest("l", 0, ALL, 9), 0, &["1", "22", "é", "", "4444"]),
        (read_oldest("l", 0, 1, 9), 0, &["1"]),
        (read_oldest("l", 4, ALL, 1), 4, &["4444"]),
        (read_newest("l", 0, ALL, 0), 4, &["4444"]),
        (read_newest("l", 0, ALL, 4), 3, &["", "4444"]),
        (read_newest("l", 0, ALL, 6), 2, &["é", "", "4444"]),
        (read_newest("l", 0, ALL, 8), 1, &["22", "é", "", "4444"]),
        (read_newest("l", 2, 2, 2), 2, &["é"]),
        (overflow("l", 0, 0, ALL, 2), 0, &["1"]),
        (overflow("l", 0, 0, ALL, 3), 0, &["1", "22"]),
        (overflow("l", 4, 2, ALL, 5), 0, &["1", "22", "é"]),
    ] {
        assert_eq!(s.apply_one("b", operation.clone()).await, records(first, 5, expected), "{operation:?}");
    }
}

async fn a_surplus_is_handed_back_and_stays_where_it_is(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [append("l", &["a", "b", "c", "d", "e"])]).await;
    for (operation, expected) in [
        (overflow("l", 5, 2, ALL, ALL), NONE),
        (overflow("l", ALL, 0, ALL, ALL), NONE),
        (overflow("l", 4, 2, ALL, ALL), &["a", "b", "c"]),
        (overflow("l", 4, 2, 2, ALL), &["a", "b"]),
        (overflow("l", 4, 0, ALL, ALL), &["a", "b", "c", "d", "e"]),
        (overflow("l", 0, 4, ALL, ALL), &["a"]),
        (overflow("l", 0, 5, ALL, ALL), NONE),
        (overflow("l", 0, ALL, ALL, ALL), NONE),
    ] {
        assert_eq!(s.apply_one("b", operation.clone()).await, records(0, 5, expected), "{operation:?}");
    }
}

async fn replaced_records_leave_their_positions_unused_for_ever(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [append("l", &["a", "b", "c", "d", "e"])]).await;
    assert_eq!(s.apply_one("b", replace_oldest("l", 3, &["abc"])).await, extent(2, 3));
    assert_eq!(s.apply_one("b", read_all("l")).await, records(2, 3, &["abc", "d", "e"]));
    assert_eq!(s.apply_one("b", replace_oldest("l", 2, &["x", "y"])).await, extent(2, 3));
    assert_eq!(s.apply_one("b", read_all("l")).await, records(2, 3, &["x", "y", "e"]));
    assert_eq!(s.apply_one("b", replace_oldest("l", 1, NONE)).await, extent(3, 2));
    assert_eq!(s.apply_one("b", append("l", &["f"])).await, extent(3, 3));
    assert_eq!(s.apply_one("b", replace_oldest("l", 0, NONE)).await, extent(3, 3));
    assert_eq!(s.apply_one("b", read_newest("l", 0, 1, ALL)).await, records(5, 3, &["f"]));
    assert_eq!(s.apply_one("b", replace_oldest("l", ALL, &["all"])).await, extent(5, 1));
    assert_eq!(s.apply_one("b", overflow("l", 0, 0, ALL, ALL)).await, records(5, 1, &["all"]));

    // An emptied log goes on where it was.
    assert_eq!(s.apply_one("b", replace_oldest("l", 9, NONE)).await, extent(6, 0));
    assert_eq!(s.apply_one("b", count("l")).await, extent(6, 0));
    assert_eq!(s.apply_one("b", append("l", &["g", "h"])).await, extent(6, 2));
    assert_eq!(s.apply_one("b", read_all("l")).await, records(6, 2, &["g", "h"]));
    assert_eq!(s.apply_one("b", append("l", NONE)).await, extent(6, 2));
}

async fn more_records_than_are_replaced_are_refused(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [append("l", &["a", "b"])]).await;
    for operation in [
        replace_oldest("l", 1, &["x", "y"]),
        replace_oldest("l", 0, &["x"]),
        replace_oldest("l", 3, &["x", "y", "z"]),
        replace_oldest("absent", 1, &["x"]),
    ] {
        let failure = s.try_send(&transaction("b", existing(), [operation.clone()])).await.unwrap_err();
        assert_eq!(failure.code, FailureCode::Invalid, "{operation:?}");
    }
    assert_eq!(s.apply_one("b", read_all("l")).await, records(0, 2, &["a", "b"]));
}

async fn a_record_is_rewritten_at_its_position(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [append("l", &["a", "b", "c", "d"])]).await;
    s.apply_one("b", replace_oldest("l", 2, &["ab"])).await;
    assert_eq!(s.apply_one("b", rewrite("l", 1, "AB")).await, extent(1, 3));
    assert_eq!(s.apply_one("b", rewrite("l", 3, "a longer one")).await, extent(1, 3));
    assert_eq!(s.apply_one("b", rewrite("l", 2, "")).await, extent(1, 3));
    assert_eq!(s.apply_one("b", read_all("l")).await, records(1, 3, &["AB", "", "a longer one"]));
    for (log, position) in [("l", 0), ("l", 4), ("l", ALL), ("l", ALL - 1), ("l", 1 << 63), ("absent", 0)] {
        let failure = s.try_send(&transaction("b", existing(), [rewrite(log, position, "x")])).await.unwrap_err();
        assert_eq!((failure.code, &*failure.subject), (FailureCode::Invalid, log), "{log} {position}");
    }
    assert_eq!(s.apply_one("b", read_all("l")).await, records(1, 3, &["AB", "", "a longer one"]));
}

async fn a_log_begins_anew_in_a_new_life(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [append("history", &["a", "b"]), append("l", &["a", "b"])]).await;
    s.apply("b", existing(), [replace_oldest("history", 1, NONE), replace_oldest("l", 1, NONE)]).await;
    s.delete("b").await;
    let outcomes = s.apply("b", create(), [count("history"), append("l", &["x"]), append("history", &["x"])]).await;
    assert_eq!(outcomes, [extent(0, 0), extent(0, 1), extent(0, 1)]);
    assert_eq!(s.apply_one("b", read_all("l")).await, records(0, 1, &["x"]));
}

on_every_store![
    records_are_numbered_from_zero_in_order_of_appending,
    operations_on_an_absent_log_find_nothing_and_make_none,
    a_range_is_taken_from_either_end_and_told_oldest_first,
    a_range_beyond_the_end_or_of_no_records_is_empty,
    a_range_stops_at_its_bytes_but_never_before_one_record,
    a_surplus_is_handed_back_and_stays_where_it_is,
    replaced_records_leave_their_positions_unused_for_ever,
    more_records_than_are_replaced_are_refused,
    a_record_is_rewritten_at_its_position,
    a_log_begins_anew_in_a_new_life,
];
