//! Values and counters.

use std::sync::Arc;

use keepline_stores::{FailureCode, Outcome};
use keepline_stores_tests::{on_every_store, requests::*, stores::StoreUnderTest};

/// A mebibyte, a NUL, quotes, scripts of several kinds, and text that is no JSON: a store looks into none.
fn awkward_texts() -> Vec<String> {
    let mut texts: Vec<String> =
        ["", "\0", "a\0b", "\"", "{", " 1 ", "\r\n", "é", "日本語", "🦀🏳️‍🌈", "\u{feff}", "\u{fffd}", "\\u0000", "null"]
            .map(String::from)
            .to_vec();
    texts.push("ä".repeat(512 * 1024));
    texts
}

async fn a_value_is_read_back_as_it_was_put(s: Arc<StoreUnderTest>) {
    let outcomes = s.apply("b", create(), [put("k", "\"one\""), get("k"), get("other")]).await;
    assert_eq!(outcomes, [done(true), found("\"one\""), not_found()]);
    assert_eq!(s.apply_one("b", put("k", "2")).await, done(false));
    assert_eq!(s.apply_one("b", get("k")).await, found("2"));
}

async fn any_text_survives_byte_for_byte(s: Arc<StoreUnderTest>) {
    let texts = awkward_texts();
    s.apply("b", create(), []).await;
    for text in &texts {
        s.apply("b", existing(), [put("k", text), append("l", &[text])]).await;
        assert_eq!(s.apply_one("b", get("k")).await, found(text));
        assert_eq!(s.apply_one("b", get_all()).await, values(&[("k", text)]));
    }
    assert_eq!(s.apply_one("b", read_all("l")).await, records(0, texts.len() as u64, &texts));
    for (position, text) in texts.iter().rev().enumerate() {
        s.apply_one("b", rewrite("l", position as u64, text)).await;
    }
    let reversed: Vec<_> = texts.iter().rev().collect();
    assert_eq!(s.apply_one("b", read_all("l")).await, records(0, texts.len() as u64, &reversed));
    let receipt = s.ask(&expecting("b", existing(), [oldest_are("l", &reversed)], [])).await;
    assert_eq!(receipt.status, keepline_stores::Status::Applied);
}

async fn a_value_longer_than_asked_for_is_answered_by_its_size(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [put("k", "12é")]).await;
    assert_eq!(s.apply_one("b", get_within("k", 4)).await, found("12é"));
    assert_eq!(s.apply_one("b", get_within("k", 3)).await, oversize(4, 1));
    assert_eq!(s.apply_one("b", get_within("k", 0)).await, oversize(4, 1));
    assert_eq!(s.apply_one("b", get_within("absent", 0)).await, not_found());
    s.apply_one("b", put("k", "")).await;
    assert_eq!(s.apply_one("b", get_within("k", 0)).await, found(""));
}

async fn all_values_come_sorted_by_key(s: Arc<StoreUnderTest>) {
    assert_eq!(s.apply("b", create(), [get_all()]).await, [values::<&str, &str>(&[])]);
    s.apply("b", existing(), [put("b", "1"), put("a.b", "2"), put("B", "3"), put("_", "4"), put("a-b", "5")]).await;
    let expected = values(&[("B", "3"), ("_", "4"), ("a-b", "5"), ("a.b", "2"), ("b", "1")]);
    assert_eq!(s.apply_one("b", get_all()).await, expected);
}

async fn all_values_over_a_limit_are_answered_by_their_size(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [put("k1", "123"), put("k22", "1234")]).await;
    let both = values(&[("k1", "123"), ("k22", "1234")]);
    assert_eq!(s.apply_one("b", get_all_within(12, 2)).await, both);
    let Outcome::Oversize(size) = s.apply_one("b", get_all_within(11, 2)).await else { panic!("not over the bytes") };
    assert_eq!(size.keys, 2);
    assert!(size.bytes > 11, "it tells more than was allowed: {}", size.bytes);
    for (max_bytes, max_keys) in [(12, 1), (ALL, 1), (0, 0)] {
        let outcome = s.apply_one("b", get_all_within(max_bytes, max_keys)).await;
        assert!(matches!(outcome, Outcome::Oversize(size) if size.keys == 2), "{outcome:?}");
    }
    s.apply_one("b", remove_all(0)).await;
    assert_eq!(s.apply_one("b", get_all_within(0, 0)).await, values::<&str, &str>(&[]));
}

async fn keys_are_named_sorted_and_counted_in_full(s: Arc<StoreUnderTest>) {
    assert_eq!(s.apply("b", create(), [list_keys(ALL)]).await, [names(NONE, 0)]);
    s.apply("b", existing(), [put("c", "1"), put("a", "1"), increment("b", 1)]).await;
    assert_eq!(s.apply_one("b", list_keys(ALL)).await, names(&["a", "b", "c"], 3));
    assert_eq!(s.apply_one("b", list_keys(3)).await, names(&["a", "b", "c"], 3));
    assert_eq!(s.apply_one("b", list_keys(2)).await, names(&["a", "b"], 3));
    assert_eq!(s.apply_one("b", list_keys(0)).await, names(NONE, 3));
}

async fn a_removed_value_is_gone_and_its_key_is_new_again(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [put("a", "1"), put("b", "2")]).await;
    assert_eq!(s.apply_one("b", remove("a")).await, names(&["a"], 1));
    assert_eq!(s.apply_one("b", remove("a")).await, names(NONE, 0));
    assert_eq!(s.apply_one("b", get_all()).await, values(&[("b", "2")]));
    assert_eq!(s.apply_one("b", put("a", "3")).await, done(true));
}

async fn removing_all_names_some_counts_all_and_leaves_the_logs(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [put("c", "1"), put("a", "1"), put("b", "1"), append("l", &["r"])]).await;
    assert_eq!(s.apply_one("b", remove_all(2)).await, names(&["a", "b"], 3));
    assert_eq!(s.apply("b", existing(), [list_keys(ALL), count("l")]).await, [names(NONE, 0), extent(0, 1)]);
    assert_eq!(s.apply_one("b", remove_all(2)).await, names(NONE, 0));
    s.apply_one("b", put("a", "1")).await;
    assert_eq!(s.apply_one("b", remove_all(0)).await, names(NONE, 1));
}

async fn a_counter_starts_at_zero_and_is_a_value(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    assert_eq!(s.apply_one("b", increment("n", 0)).await, counter(0));
    assert_eq!(s.apply_one("b", get("n")).await, found("0"));
    assert_eq!(s.apply_one("b", increment("n", -7)).await, counter(-7));
    assert_eq!(s.apply_one("b", get("n")).await, found("-7"));
    assert_eq!(s.apply("b", existing(), [put("n", "41"), get("n")]).await, [done(false), found("41")]);
    assert_eq!(s.apply_one("b", increment("n", 1)).await, counter(42));
    s.apply_one("b", remove("n")).await;
    assert_eq!(s.apply_one("b", increment("n", 5)).await, counter(5));
}

async fn a_counter_is_exact_over_all_64_bits_and_never_leaves_them(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    let beyond_doubles = 1_i64 << 53;
    for (before, amount) in [
        (0, i64::MAX),
        (0, i64::MIN),
        (i64::MAX, 0),
        (i64::MIN, 0),
        (i64::MAX, i64::MIN),
        (i64::MIN, i64::MAX),
        (i64::MAX - 1, 1),
        (i64::MIN + 1, -1),
        (i64::MAX, -1),
        (i64::MIN, 1),
        (beyond_doubles, 1),
        (-beyond_doubles, -1),
        (beyond_doubles + 1, -2),
        (9_223_372_035_999_999_999, 854_775_808),
        (4_611_686_018_427_387_904, 4_611_686_018_427_387_903),
        (-4_611_686_018_427_387_904, -4_611_686_018_427_387_904),
        (999_999_999_999_999_999, 1),
        (1_000_000_000_000_000_000, -1),
    ] {
        s.apply_one("b", put("n", &before.to_string())).await;
        let sum = before + amount;
        assert_eq!(s.apply_one("b", increment("n", amount)).await, counter(sum), "{before} + {amount}");
        assert_eq!(s.apply_one("b", get("n")).await, found(&sum.to_string()), "{before} + {amount}");
    }
    for (before, amount) in [
        (i64::MAX, 1),
        (i64::MIN, -1),
        (i64::MAX, i64::MAX),
        (i64::MIN, i64::MIN),
        (1, i64::MAX),
        (-1, i64::MIN),
        (9_223_372_035_999_999_999, 854_775_809),
        (4_611_686_018_427_387_904, 4_611_686_018_427_387_904),
        (-4_611_686_018_427_387_904, -4_611_686_018_427_387_905),
    ] {
        s.apply_one("b", put("n", &before.to_string())).await;
        let failure = s.try_send(&transaction("b", existing(), [increment("n", amount)])).await.unwrap_err();
        assert_eq!((failure.code, &*failure.subject), (FailureCode::CounterOverflow, "n"), "{before} + {amount}");
        assert_eq!(s.apply_one("b", get("n")).await, found(&before.to_string()), "{before} + {amount}");
    }
}

async fn what_is_no_integer_is_not_counted_on(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    let huge = "9".repeat(1000);
    for text in [
        "",
        "\"7\"",
        "1.5",
        "1.0",
        "1e3",
        "true",
        "null",
        "[1]",
        "007",
        "00",
        "-0",
        "-01",
        "+1",
        " 1",
        "1 ",
        "1\n",
        "-",
        "--1",
        "0x10",
        "1\0",
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999",
        &huge,
        "１",
    ] {
        s.apply_one("b", put("n", text)).await;
        let failure = s.try_send(&transaction("b", existing(), [increment("n", 1)])).await.unwrap_err();
        assert_eq!((failure.code, &*failure.subject), (FailureCode::NotACounter, "n"), "{text:?}");
        assert!(!failure.message.is_empty() && !failure.message.ends_with('.'));
        assert_eq!(s.apply_one("b", get("n")).await, found(text));
    }
}

async fn each_step_sees_those_before_it(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [put("old", "0"), append("l", &["r0"])]).await;
    let outcomes = s
        .apply(
            "b",
            existing(),
            [
                get("k"),
                put("k", "1"),
                get("k"),
                list_keys(ALL),
                increment("n", 3),
                get("n"),
                get_all(),
                remove("old"),
                get("old"),
                list_keys(ALL),
                get_all_within(ALL, 2),
                append("l", &["r1", "r2"]),
                count("l"),
                read_newest("l", 0, 2, ALL),
                overflow("l", 2, 1, ALL, ALL),
            ],
        )
        .await;
    let expected = [
        not_found(),
        done(true),
        found("1"),
        names(&["k", "old"], 2),
        counter(3),
        found("3"),
        values(&[("k", "1"), ("n", "3"), ("old", "0")]),
        names(&["old"], 1),
        not_found(),
        names(&["k", "n"], 2),
        values(&[("k", "1"), ("n", "3")]),
        extent(0, 3),
        extent(0, 3),
        records(1, 3, &["r1", "r2"]),
        records(0, 3, &["r0", "r1"]),
    ];
    assert_eq!(outcomes, expected);

    let outcomes = s
        .apply(
            "b",
            existing(),
            [
                list_keys(ALL),
                remove_all(ALL),
                get("k"),
                get_all(),
                list_keys(ALL),
                read_all("l"),
                replace_oldest("l", 2, &["sum"]),
                read_all("l"),
                overflow("l", 1, 1, ALL, ALL),
                count("l"),
            ],
        )
        .await;
    let expected = [
        names(&["k", "n"], 2),
        names(&["k", "n"], 2),
        not_found(),
        values::<&str, &str>(&[]),
        names(NONE, 0),
        records(0, 3, &["r0", "r1", "r2"]),
        extent(1, 2),
        records(1, 2, &["sum", "r2"]),
        records(1, 2, &["sum"]),
        extent(1, 2),
    ];
    assert_eq!(outcomes, expected);
}

on_every_store![
    a_value_is_read_back_as_it_was_put,
    any_text_survives_byte_for_byte,
    a_value_longer_than_asked_for_is_answered_by_its_size,
    all_values_come_sorted_by_key,
    all_values_over_a_limit_are_answered_by_their_size,
    keys_are_named_sorted_and_counted_in_full,
    a_removed_value_is_gone_and_its_key_is_new_again,
    removing_all_names_some_counts_all_and_leaves_the_logs,
    a_counter_starts_at_zero_and_is_a_value,
    a_counter_is_exact_over_all_64_bits_and_never_leaves_them,
    what_is_no_integer_is_not_counted_on,
    each_step_sees_those_before_it,
];
