//! Much at once: far more than a script can unpack on Lua's stack, about 8000 values.

use std::{sync::Arc, time::Duration};

use keepline_stores::{Operation, Status};
use keepline_stores_tests::{on_every_store, requests::*, stores::StoreUnderTest};

/// One less than a bucket can have of values.
const MANY: usize = 19_999;
/// As many entries and records as an answer may have.
const MOST: usize = 10_000;

fn key(n: usize) -> String {
    format!("key-{n:05}")
}

/// So many entries in the values and in another map.
async fn filled(s: &StoreUnderTest, count: usize) -> Vec<String> {
    let keys: Vec<_> = (0..count).map(key).collect();
    let precondition = create_sliding(Duration::from_secs(3600));
    for map in ["values", "notes"] {
        for part in keys.chunks(MOST) {
            let puts: Vec<_> = part.iter().map(|key| (key, "1")).collect();
            let outcomes = s.apply("b", precondition.clone(), [put_in(map, &puts)]).await;
            assert_eq!(outcomes, [changed(part.len() as u64, 0)]);
        }
    }
    keys
}

async fn maps_of_10_000_entries_come_in_one_answer(s: Arc<StoreUnderTest>) {
    let keys = filled(&s, MOST).await;
    let all: Vec<_> = keys.iter().map(|key| (key, "1")).collect();
    for map in ["values", "notes"] {
        assert_eq!(s.apply_one("b", get_all_in(map)).await, entries(&all), "{map}");
        assert_eq!(s.apply_one("b", get_in(map, &keys, ALL)).await, entries(&all), "{map}");
        s.apply_one("b", put_in(map, &[("one-more", "1")])).await;
        assert_eq!(oversize_of(&s.apply_one("b", get_all_in(map)).await).entries, MOST as u64 + 1, "{map}");
        let page = entries_of(s.apply_one("b", page(map, "", ALL, ALL)).await);
        assert!(page.entries.len() <= MOST && !page.cursor().is_empty(), "{map}: {}", page.entries.len());
    }
}

async fn maps_of_20_000_entries_are_served_like_any_other(s: Arc<StoreUnderTest>) {
    let keys = filled(&s, MANY).await;
    for map in ["values", "notes"] {
        for limits in [(ALL, ALL), (ALL, MANY as u64 - 1), (10 * MANY as u64 - 1, ALL)] {
            let outcome = s.apply_one("b", get_all_in_within(map, limits.0, limits.1)).await;
            assert_eq!(oversize_of(&outcome).entries, MANY as u64, "{map}");
        }
        for (limit, status) in [(MANY as u64, Status::Unmet), (MANY as u64 + 1, Status::Applied)] {
            let asked = expecting("b", existing(), [room_in(map, limit)], [put_in(map, &[("new", "1")])]);
            assert_eq!(s.ask(&asked).await.status, status, "{map}");
        }
        s.apply_one("b", remove_in(map, &["new"])).await;
    }

    // Renewing the time of so many is one step too.
    s.pass_time(Duration::from_secs(1800));
    s.apply_one("b", get("key-00000")).await;
    s.pass_time(Duration::from_secs(3000));
    let described = s.describe("b").await;
    assert_eq!((described.values, described.parts[0].count), (MANY as u64, MANY as u64));
    for map in ["values", "notes"] {
        let last = &keys[MANY - 1];
        assert_eq!(s.apply_one("b", get_in(map, &[last], ALL)).await, entries(&[(last, "1")]));
    }
}

async fn resetting_maps_of_20_000_entries_leaves_none(s: Arc<StoreUnderTest>) {
    filled(&s, MANY).await;
    for map in ["values", "notes"] {
        let outcomes = s.apply("b", existing(), [reset_map(map, &[("new", "1")]), get_all_in(map)]).await;
        assert_eq!(outcomes, [changed(1, MANY as u64), entries(&[("new", "1")])]);
        assert_eq!(s.apply_one("b", get_in(map, &[key(MANY - 1)], ALL)).await, nothing());
    }
    assert_eq!(s.describe("b").await.values, 1);
}

async fn deleting_a_bucket_of_20_000_keys_leaves_none(s: Arc<StoreUnderTest>) {
    let keys = filled(&s, MANY).await;
    assert_eq!(s.delete("b").await, (Status::Applied, keys));
    let outcomes = s.apply("b", create_new(), [get_all(), get("key-00000"), get_all_in("notes")]).await;
    assert_eq!(outcomes, [nothing(), nothing(), nothing()]);
}

async fn recreating_a_bucket_removes_20_000_keys_of_the_previous_one(s: Arc<StoreUnderTest>) {
    filled(&s, MANY).await;
    s.pass_time(Duration::from_secs(3600));
    let outcomes = s.apply("b", create_new(), [get_all(), get("key-00000"), get_all_in("notes")]).await;
    assert_eq!(outcomes, [nothing(), nothing(), nothing()]);
    filled(&s, MANY).await;
    let outcomes = s.apply("b", replace(), [get_all(), get("key-00000"), get_all_in("notes")]).await;
    assert_eq!(outcomes, [nothing(), nothing(), nothing()]);
}

async fn a_log_takes_thousands_of_records_at_once_and_gives_10_000(s: Arc<StoreUnderTest>) {
    const MANY: usize = 19_999;
    let (most, many) = (MOST as u64, MANY as u64);
    let all: Vec<_> = (0..MANY).map(|n| format!("record {n}")).collect();
    assert_eq!(s.apply("b", create(), [append("l", &all)]).await, [extent(0, many)]);
    // However many are asked for, one answer has no more than this.
    assert_eq!(s.apply_one("b", read_all("l")).await, records((0, many), 0, &all[..MOST]));
    let newest = s.apply_one("b", read_newest("l", ALL, ALL)).await;
    assert_eq!(newest, records((0, many), many - most, &all[MANY - MOST..]));
    let surplus = s.apply_one("b", read_surplus("l", 100, 50, ALL, ALL)).await;
    assert_eq!(surplus, records((0, many), 0, &all[..MOST]));
    let middle = s.apply_one("b", read_at("l", &[(5000, 9000), (0, 9000)], ALL)).await;
    assert_eq!(records_of(&middle), [&all[5000..14_000], &all[..1000]].concat());

    let fewer: Vec<_> = (0..5000).map(|n| format!("summary {n}")).collect();
    assert_eq!(s.apply_one("b", replace_oldest("l", ALL, &fewer)).await, extent(5000, 14_999));
    let now: Vec<_> = fewer.iter().chain(&all[MOST..]).collect();
    assert_eq!(s.apply_one("b", read_all("l")).await, records((5000, 14_999), 5000, &now[..MOST]));
    let newest = s.apply_one("b", read_newest("l", 4999, ALL)).await;
    assert_eq!(newest, records((5000, 14_999), 15_000, &now[MOST..]));
    assert_eq!(s.apply_one("b", replace_oldest("l", ALL, &["one"])).await, extent(14_999, 5000));
    assert_eq!(s.apply_one("b", replace_oldest("l", ALL, &["one"])).await, extent(19_998, 1));
    assert_eq!(s.apply_one("b", append("l", &all)).await, extent(19_998, many + 1));
    assert_eq!(s.apply_one("b", reset_log("l", &all)).await, extent(39_998, many));
}

async fn a_transaction_of_10_000_operations_is_applied_in_full(s: Arc<StoreUnderTest>) {
    // Each operation counts, and so does each key.
    let each = |operation: fn(&str) -> Operation| (0..MOST).map(|n| operation(&key(n))).collect::<Vec<_>>();
    let counted = s.apply("b", create(), each(|key| add(key, 7))).await;
    assert!(counted.iter().all(|outcome| *outcome == counter(7)) && counted.len() == MOST);
    let again = s.apply("b", existing(), each(|key| add_in("counts", key, 1))).await;
    assert!(again.iter().all(|outcome| *outcome == counter(1)));
    let read = s.apply("b", existing(), each(get)).await;
    assert!((0..MOST).zip(&read).all(|(n, outcome)| *outcome == entries(&[(key(n), "7")])));
    let removed = s.apply("b", existing(), each(remove)).await;
    assert!(removed.iter().all(|outcome| *outcome == changed(0, 1)));
    assert_eq!(s.apply_one("b", get_all()).await, nothing());

    // An expectation has the place of two.
    let created = MOST as u64 - 1;
    for (limit, status) in [(created - 1, Status::Unmet), (created, Status::Applied), (0, Status::Applied)] {
        let puts = each(|key| put(key, "1")).split_off(1);
        assert_eq!(s.ask(&expecting("b", existing(), [room_within(limit)], puts)).await.status, status);
    }
}

async fn thousands_of_expectations_marks_and_spans_are_looked_at(s: Arc<StoreUnderTest>) {
    let all: Vec<_> = (0..9000).map(|n| n.to_string()).collect();
    let keys: Vec<_> = (0..9000).map(key).collect();
    let marks: Vec<_> = (0..9000).map(|n| ("marks", &*keys[n as usize], n)).collect();
    assert_eq!(s.apply("b", create(), [append_marked("l", &all, &marks)]).await, [extent(0, 9000)]);
    let expected = |n: usize| entry_in("marks", &keys[n], keepline_stores::EntryState::Equal, &all[n]);
    let mut expectations: Vec<_> = (0..9000).map(expected).collect();
    assert_eq!(s.ask(&expecting("b", existing(), &*expectations, [])).await.status, Status::Applied);
    expectations.push(absent("k"));
    expectations.push(log_at("l", 1, None));
    assert_eq!(s.ask(&expecting("b", existing(), expectations, [])).await.unmet, Some(9001));
    let backwards: Vec<_> = (6000..9000).rev().map(|position| (position, 1)).collect();
    let read = records_of(&s.apply_one("b", read_at("l", &backwards, ALL)).await);
    assert!(read.iter().eq(all[6000..].iter().rev()));
}

on_every_store![
    maps_of_10_000_entries_come_in_one_answer,
    maps_of_20_000_entries_are_served_like_any_other,
    resetting_maps_of_20_000_entries_leaves_none,
    deleting_a_bucket_of_20_000_keys_leaves_none,
    recreating_a_bucket_removes_20_000_keys_of_the_previous_one,
    a_log_takes_thousands_of_records_at_once_and_gives_10_000,
    a_transaction_of_10_000_operations_is_applied_in_full,
    thousands_of_expectations_marks_and_spans_are_looked_at,
];
