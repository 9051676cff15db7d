//! Much at once: far more than a script can unpack on Lua's stack, about 8000 values.

use std::{sync::Arc, time::Duration};

use keepline_stores::{Deadline, Operation, Outcome, Status};
use keepline_stores_tests::{on_every_store, requests::*, stores::StoreUnderTest};

const MANY: usize = 20_000;
/// As many operations as a transaction may have, and records an answer.
const MOST: usize = 10_000;

fn key(n: usize) -> String {
    format!("key-{n:05}")
}

async fn filled(s: &StoreUnderTest) -> Vec<String> {
    let keys: Vec<_> = (0..MANY).map(key).collect();
    for part in keys.chunks(MOST) {
        let puts: Vec<_> = part.iter().map(|key| put(key, "1")).collect();
        let hour = Duration::from_secs(3600);
        let outcomes = s.apply("b", create_sliding(hour), puts).await;
        assert!(outcomes.iter().all(|outcome| *outcome == done(true)) && outcomes.len() == MOST);
    }
    keys
}

async fn a_bucket_of_20_000_keys_is_served_like_any_other(s: Arc<StoreUnderTest>) {
    let keys = filled(&s).await;
    let entries: Vec<_> = keys.iter().map(|key| (key, "1")).collect();
    assert_eq!(s.apply_one("b", get_all()).await, values(&entries));
    assert_eq!(s.apply_one("b", list_keys(ALL)).await, names(&keys, MANY as u64));
    assert_eq!(s.apply_one("b", list_keys(10)).await, names(&keys[..10], MANY as u64));
    let too_many = s.apply_one("b", get_all_within(ALL, MANY as u64 - 1)).await;
    assert!(matches!(too_many, Outcome::Oversize(size) if size.keys == MANY as u64));
    let too_long = s.apply_one("b", get_all_within(10 * MANY as u64 - 1, ALL)).await;
    assert!(matches!(too_long, Outcome::Oversize(size) if size.keys == MANY as u64));
    let with_room = |limit| [keys_are(&keys), room_within(limit)];
    for (limit, status) in [(MANY as u64, Status::Unmet), (MANY as u64 + 1, Status::Applied)] {
        assert_eq!(s.ask(&expecting("b", existing(), with_room(limit), [put("new", "1")])).await.status, status);
    }
    s.apply_one("b", remove("new")).await;
    let missing_one = [keys_are(&keys[1..])];
    assert_eq!(s.ask(&expecting("b", existing(), missing_one, [])).await.status, Status::Unmet);

    // Renewing the time of so many is one step too.
    s.pass_time(Duration::from_secs(1800));
    s.apply_one("b", get("key-00000")).await;
    s.pass_time(Duration::from_secs(3000));
    assert_eq!(s.apply_one("b", list_keys(0)).await, names(NONE, MANY as u64));
    assert_eq!(s.apply_one("b", get_all()).await, values(&entries));
}

async fn removing_20_000_keys_at_once_leaves_none(s: Arc<StoreUnderTest>) {
    let keys = filled(&s).await;
    let outcomes = s.apply("b", existing(), [remove_all(5), list_keys(ALL), get_all()]).await;
    assert_eq!(outcomes, [names(&keys[..5], MANY as u64), names(NONE, 0), values::<&str, &str>(&[])]);
    assert_eq!(s.apply_one("b", get(&keys[MANY - 1])).await, not_found());
    let description = s.store.describe_bucket("b", Deadline::NEVER).await.unwrap();
    assert_eq!((description.status, description.keys), (Status::Applied, 0));
}

async fn deleting_a_bucket_of_20_000_keys_leaves_none(s: Arc<StoreUnderTest>) {
    let keys = filled(&s).await;
    assert_eq!(s.delete("b").await, (Status::Applied, keys));
    assert_eq!(s.apply("b", create_new(), [list_keys(ALL), get("key-00000")]).await, [names(NONE, 0), not_found()]);
}

async fn a_new_life_sweeps_20_000_keys_of_the_last_one_away(s: Arc<StoreUnderTest>) {
    filled(&s).await;
    s.pass_time(Duration::from_secs(3600));
    assert_eq!(s.apply("b", create_new(), [list_keys(ALL), get("key-00000")]).await, [names(NONE, 0), not_found()]);
}

async fn a_log_takes_20_000_records_at_once_and_gives_10_000(s: Arc<StoreUnderTest>) {
    let many: Vec<_> = (0..MANY).map(|n| format!("record {n}")).collect();
    assert_eq!(s.apply("b", create(), [append("l", &many)]).await, [extent(0, MANY as u64)]);
    // However many are asked for, one answer has no more than this.
    assert_eq!(s.apply_one("b", read_all("l")).await, records(0, MANY as u64, &many[..MOST]));
    let newest = s.apply_one("b", read_newest("l", 0, ALL, ALL)).await;
    assert_eq!(newest, records((MANY - MOST) as u64, MANY as u64, &many[MANY - MOST..]));
    let surplus = s.apply_one("b", overflow("l", 100, 50, ALL, ALL)).await;
    assert_eq!(surplus, records(0, MANY as u64, &many[..MOST]));
    let middle = s.apply_one("b", read_oldest("l", 5000, 10_000, ALL)).await;
    assert_eq!(middle, records(5000, MANY as u64, &many[5000..15_000]));
    assert_eq!(s.ask(&expecting("b", existing(), [oldest_are("l", &many)], [])).await.status, Status::Applied);

    let fewer: Vec<_> = (0..MOST).map(|n| format!("summary {n}")).collect();
    assert_eq!(s.apply_one("b", replace_oldest("l", 15_000, &fewer)).await, extent(5000, 15_000));
    let now: Vec<_> = fewer.iter().chain(&many[15_000..]).collect();
    assert_eq!(s.apply_one("b", read_all("l")).await, records(5000, 15_000, &now[..MOST]));
    assert_eq!(s.apply_one("b", read_oldest("l", 10_000, ALL, ALL)).await, records(15_000, 15_000, &now[MOST..]));
    assert_eq!(s.apply_one("b", replace_oldest("l", ALL, &["one"])).await, extent(19_999, 1));
    assert_eq!(s.apply_one("b", append("l", &many)).await, extent(19_999, MANY as u64 + 1));
}

async fn a_transaction_of_10_000_operations_is_applied_in_full(s: Arc<StoreUnderTest>) {
    let each = |operation: fn(&str) -> Operation| (0..MOST).map(|n| operation(&key(n))).collect::<Vec<_>>();
    let counted = s.apply("b", create(), each(|key| increment(key, 7))).await;
    assert!(counted.iter().all(|outcome| *outcome == counter(7)) && counted.len() == MOST);
    let again = s.apply("b", existing(), each(|key| increment(key, 1))).await;
    assert!(again.iter().all(|outcome| *outcome == counter(8)));
    let read = s.apply("b", existing(), each(get)).await;
    assert!(read.iter().all(|outcome| *outcome == found("8")));
    let removed = s.apply("b", existing(), each(remove)).await;
    assert!((0..MOST).zip(&removed).all(|(n, outcome)| *outcome == names(&[key(n)], 1)));
    assert_eq!(s.apply_one("b", list_keys(ALL)).await, names(NONE, 0));

    // An expectation has the place of one.
    let created = MOST as u64 - 1;
    for (limit, status) in [(created - 1, Status::Unmet), (created, Status::Applied), (0, Status::Applied)] {
        let puts = each(|key| put(key, "1")).split_off(1);
        assert_eq!(s.ask(&expecting("b", existing(), [room_within(limit)], puts)).await.status, status);
    }
}

async fn a_transaction_may_speak_of_10_000_logs(s: Arc<StoreUnderTest>) {
    let log = |n: usize| format!("log-{n}");
    let outcomes = s.apply("b", create(), (0..MOST).map(|n| append(&log(n), &[log(n)])).collect::<Vec<_>>()).await;
    assert!(outcomes.iter().all(|outcome| *outcome == extent(0, 1)) && outcomes.len() == MOST);
    let outcomes = s.apply("b", existing(), (0..MOST).map(|n| read_all(&log(n))).collect::<Vec<_>>()).await;
    assert!((0..MOST).zip(&outcomes).all(|(n, outcome)| *outcome == records(0, 1, &[log(n)])));
    assert_eq!(s.store.describe_bucket("b", Deadline::NEVER).await.unwrap().logs.len(), MOST);
    s.delete("b").await;
    s.apply("b", create(), []).await;
    assert_eq!(s.apply_one("b", count(&log(7))).await, extent(0, 0));
}

on_every_store![
    a_bucket_of_20_000_keys_is_served_like_any_other,
    removing_20_000_keys_at_once_leaves_none,
    deleting_a_bucket_of_20_000_keys_leaves_none,
    a_new_life_sweeps_20_000_keys_of_the_last_one_away,
    a_log_takes_20_000_records_at_once_and_gives_10_000,
    a_transaction_of_10_000_operations_is_applied_in_full,
    a_transaction_may_speak_of_10_000_logs,
];
