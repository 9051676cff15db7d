//! A transaction that is sent again counts once, and one that comes too late revives nothing.

use std::{sync::Arc, time::Duration};

use keepline_stores::{Deadline, FailureCode, Operation, Outcome, Status, Transaction, Writer};
use keepline_stores_tests::{
    on_every_store,
    requests::{self, *},
    stores::{StoreUnderTest, new_writer},
};

const HOUR: Duration = Duration::from_secs(3600);

/// Send operations twice as one transaction and get what the second time is answered with.
async fn twice(s: &StoreUnderTest, operations: impl Into<Vec<Operation>>) -> Vec<Outcome> {
    let (writer, transaction) = (new_writer(), transaction("b", existing(), operations));
    assert_eq!(s.ask_as(&writer, &transaction).await.status, Status::Applied);
    let before = s.everything().await;
    let again = s.ask_as(&writer, &transaction).await;
    assert_eq!((again.status, again.created), (Status::Repeated, false));
    s.assert_unchanged(&before, "the second time").await;
    again.outcomes
}

async fn each_kind_of_write_counts_once_when_it_is_sent_twice(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [put("a", "1"), put("b", "1"), append("l", &["x", "y", "z"])]).await;
    assert_eq!(twice(&s, [put("k", "1")]).await, [done(false)]);
    assert_eq!(twice(&s, [increment("n", 5)]).await, [counter(5)]);
    assert_eq!(twice(&s, [append("l", &["w"])]).await, [extent(0, 4)]);
    assert_eq!(twice(&s, [replace_oldest("l", 2, &["xy"])]).await, [extent(1, 3)]);
    assert_eq!(twice(&s, [rewrite("l", 1, "XY")]).await, [extent(1, 3)]);
    twice(&s, [remove("a")]).await;
    let outcomes = twice(&s, [increment("n", 1), get("n"), append("l", &["v"]), read_newest("l", 0, 1, ALL)]).await;
    assert_eq!(outcomes, [counter(6), found("6"), extent(1, 4), records(4, 4, &["v"])]);
    assert_eq!(s.apply_one("b", get_all()).await, values(&[("b", "1"), ("k", "1"), ("n", "6")]));
    assert_eq!(s.apply_one("b", read_all("l")).await, records(1, 4, &["XY", "z", "w", "v"]));
    twice(&s, [remove_all(ALL)]).await;
    assert_eq!(s.apply_one("b", list_keys(ALL)).await, names(NONE, 0));
}

async fn a_repeated_write_is_answered_from_current_values(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    let writer = new_writer();
    let operations =
        [put("k", "mine"), increment("n", 1), append("l", &["mine"]), get("k"), get_all(), read_all("l"), count("l")];
    let transaction = transaction("b", existing(), operations);
    s.ask_as(&writer, &transaction).await;
    let other = [put("k", "other's"), increment("n", 10), append("l", &["other's"]), put("new", "1")];
    s.apply("b", existing(), other).await;
    let again = s.ask_as(&writer, &transaction).await;
    assert_eq!(again.status, Status::Repeated);
    let expected = [
        done(false),
        counter(11),
        extent(0, 2),
        found("other's"),
        values(&[("k", "other's"), ("n", "11"), ("new", "1")]),
        records(0, 2, &["mine", "other's"]),
        extent(0, 2),
    ];
    assert_eq!(again.outcomes, expected);
}

async fn a_repeated_count_is_answered_even_when_the_counter_is_none_any_more(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    let (writer, transaction) = (new_writer(), transaction("b", existing(), [increment("n", 1)]));
    s.ask_as(&writer, &transaction).await;
    for value in [
        put("n", "\"text\""),
        put("n", ""),
        put("n", "007"),
        put("n", "+1"),
        put("n", "99999999999999999999"),
        remove("n"),
    ] {
        s.apply_one("b", value).await;
        let before = s.everything().await;
        let again = s.ask_as(&writer, &transaction).await;
        assert_eq!((again.status, again.outcomes), (Status::Repeated, vec![counter(0)]));
        s.assert_unchanged(&before, ()).await;
    }
}

async fn a_creation_sent_twice_creates_once(s: Arc<StoreUnderTest>) {
    for (bucket, opening) in [("a", create()), ("b", create_new()), ("c", create_for(HOUR))] {
        let (writer, transaction) = (new_writer(), transaction(bucket, opening, [increment("n", 1), get("n")]));
        let first = s.ask_as(&writer, &transaction).await;
        assert_eq!((first.status, first.created), (Status::Applied, true));
        let again = s.ask_as(&writer, &transaction).await;
        assert_eq!((again.status, again.created), (Status::Repeated, false), "{bucket}");
        assert_eq!((again.incarnation, again.outcomes), (first.incarnation, vec![counter(1), found("1")]));
    }
    let life = life(&s.store.describe_bucket("a", Deadline::NEVER).await.unwrap().incarnation);
    let (writer, named) = (new_writer(), transaction("a", life, [increment("n", 1)]));
    for status in [Status::Applied, Status::Repeated] {
        let receipt = s.ask_as(&writer, &named).await;
        assert_eq!((receipt.status, &*receipt.incarnation), (status, ""), "who named it knows it");
    }
    // Also one that writes nothing into the bucket.
    let (writer, transaction) = (new_writer(), transaction("d", create_new(), []));
    assert!(s.ask_as(&writer, &transaction).await.created);
    assert_eq!(s.ask_as(&writer, &transaction).await.status, Status::Repeated);
}

async fn reading_again_is_reading(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [put("k", "1")]).await;
    let writer = new_writer();
    for opening in [existing(), create()] {
        let transaction = transaction("b", opening, [get("k")]);
        for _ in 0..2 {
            let receipt = s.ask_as(&writer, &transaction).await;
            assert_eq!((receipt.status, receipt.outcomes), (Status::Applied, vec![found("1")]));
        }
    }
}

async fn what_was_not_applied_is_not_taken_for_applied(s: Arc<StoreUnderTest>) {
    let writer = new_writer();
    let put = transaction("b", existing(), [put("k", "1")]);
    assert_eq!(s.ask_as(&writer, &put).await.status, Status::Absent);
    s.apply("b", create(), [append("l", &["x"])]).await;
    let unmet = expecting("b", existing(), [oldest_are("l", &["y"])], [increment("n", 1)]);
    assert_eq!(s.ask_as(&writer, &unmet).await.status, Status::Unmet);
    let failing = transaction("b", existing(), [rewrite("l", 7, "x")]);
    s.store.transact(&writer, &failing, Deadline::NEVER).await.unwrap_err();
    assert_eq!(s.ask_as(&writer, &put).await.status, Status::Applied);
}

async fn a_write_that_undid_its_own_expectation_is_repeated_not_unmet(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [append("l", &["x", "y"])]).await;
    let expectations = [oldest_are("l", &["x", "y"]), keys_are(NONE), room_within(1)];
    let summary = expecting("b", existing(), expectations, [replace_oldest("l", 2, &["xy"]), put("k", "1")]);
    let writer = new_writer();
    assert_eq!(s.ask_as(&writer, &summary).await.status, Status::Applied);
    let again = s.ask_as(&writer, &summary).await;
    assert_eq!((again.status, again.outcomes), (Status::Repeated, vec![extent(1, 1), done(false)]));
    // Nor does it fail, though it could not be applied any more.
    let too_many = transaction("b", existing(), [replace_oldest("l", 1, &["XY"])]);
    let writer = new_writer();
    s.ask_as(&writer, &too_many).await;
    s.apply_one("b", replace_oldest("l", 1, NONE)).await;
    let again = s.ask_as(&writer, &too_many).await;
    assert_eq!((again.status, again.outcomes), (Status::Repeated, vec![extent(2, 0)]));
}

async fn an_older_transaction_after_a_newer_one_is_not_applied(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    let mut writer = Writer::new();
    let older = writer.advance().clone();
    let newer = writer.advance().clone();
    let put = |text| transaction("b", existing(), [put("k", text)]);
    assert_eq!(s.ask_as(&newer, &put("newer")).await.status, Status::Applied);
    let late = s.ask_as(&older, &put("older")).await;
    assert_eq!((late.status, late.outcomes), (Status::Repeated, vec![done(false)]));
    assert_eq!(s.apply_one("b", get("k")).await, found("newer"));
    assert_eq!(s.ask_as(writer.advance(), &put("newest")).await.status, Status::Applied);
}

async fn writers_and_buckets_do_not_mix_up(s: Arc<StoreUnderTest>) {
    let (mut one, mut two) = (Writer::new(), Writer::new());
    for n in 1..=5 {
        for bucket in ["a", "b"] {
            let count = transaction(bucket, create(), [increment("n", 1)]);
            let (one, two) = (one.advance().clone(), two.advance().clone());
            assert_eq!(s.ask_as(&one, &count).await.outcomes, [counter(2 * n - 1)]);
            assert_eq!(s.ask_as(&two, &count).await.outcomes, [counter(2 * n)]);
            assert_eq!(s.ask_as(&one, &count).await.status, Status::Repeated);
        }
    }
}

async fn a_late_retry_revives_no_deleted_bucket(s: Arc<StoreUnderTest>) {
    let openings = [("a", create()), ("b", create_new()), ("c", create_for(HOUR)), ("d", create_sliding(HOUR))];
    for (bucket, opening) in openings {
        let (writer, create) = (new_writer(), transaction(bucket, opening, [put("k", "late")]));
        s.ask_as(&writer, &create).await;
        s.delete(bucket).await;
        for _ in 0..2 {
            let late = s.ask_as(&writer, &create).await;
            assert_eq!((late.status, late.created, late.outcomes), (Status::Absent, false, vec![]));
            assert!(!s.is_there(bucket).await);
        }
        assert_eq!(s.list(10).await, [""; 0]);
    }

    // The same for a creation that wrote nothing, and for a write to what was there.
    let (writer, bare) = (new_writer(), transaction("e", create(), []));
    s.ask_as(&writer, &bare).await;
    s.delete("e").await;
    assert_eq!(s.ask_as(&writer, &bare).await.status, Status::Absent);
    s.apply("f", create(), []).await;
    let (writer, write) = (new_writer(), transaction("f", create(), [increment("n", 1)]));
    s.ask_as(&writer, &write).await;
    s.delete("f").await;
    assert_eq!(s.ask_as(&writer, &write).await.status, Status::Absent);
    assert!(!s.is_there("e").await && !s.is_there("f").await);
}

async fn a_late_retry_does_not_reach_the_next_life(s: Arc<StoreUnderTest>) {
    let (writer, create) = (new_writer(), transaction("b", create(), [increment("n", 1), append("l", &["late"])]));
    s.ask_as(&writer, &create).await;
    s.delete("b").await;
    s.apply("b", create_new(), [put("k", "1")]).await;
    let late = s.ask_as(&writer, &create).await;
    assert_eq!((late.status, late.outcomes), (Status::Repeated, vec![counter(0), extent(0, 0)]));
    let outcomes = s.apply("b", existing(), [list_keys(ALL), count("l")]).await;
    assert_eq!(outcomes, [names(&["k"], 1), extent(0, 0)]);
}

async fn a_late_retry_revives_no_expired_bucket(s: Arc<StoreUnderTest>) {
    let minute = Duration::from_secs(60);
    let (writer, create) = (new_writer(), transaction("b", create_for(minute), [put("k", "late")]));
    s.ask_as(&writer, &create).await;
    s.pass_time(minute);
    assert_eq!(s.ask_as(&writer, &create).await.status, Status::Expired);
    assert!(matches!(s.ask_as(&writer, &create).await.status, Status::Expired | Status::Absent));
    assert!(!s.is_there("b").await);
}

async fn a_deletion_sent_twice_deletes_once(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [put("k", "1")]).await;
    let writer = new_writer();
    let first = s.store.delete_bucket(&writer, "b", Deadline::NEVER).await.unwrap();
    assert_eq!((first.status, first.keys), (Status::Applied, vec!["k".into()]));
    let again = s.store.delete_bucket(&writer, "b", Deadline::NEVER).await.unwrap();
    assert_eq!((again.status, again.keys), (Status::Repeated, vec![]));
    s.apply("b", create_new(), [put("k", "2")]).await;
    let late = s.store.delete_bucket(&writer, "b", Deadline::NEVER).await.unwrap();
    assert_eq!((late.status, late.keys), (Status::Repeated, vec![]));
    assert_eq!(s.apply_one("b", get("k")).await, found("2"));

    // One that found nothing must not delete what has been created since.
    let writer = new_writer();
    assert_eq!(s.store.delete_bucket(&writer, "c", Deadline::NEVER).await.unwrap().status, Status::Absent);
    s.apply("c", create_new(), []).await;
    assert_eq!(s.store.delete_bucket(&writer, "c", Deadline::NEVER).await.unwrap().status, Status::Repeated);
    assert!(s.is_there("c").await);
}

/// So many processes or pipes write to a session at one time, and none of them is told.
const MANY: usize = 200;

async fn hundreds_of_writers_whose_replies_are_lost_all_count_once(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    let writers: Vec<_> = (0..MANY).map(|_| new_writer()).collect();
    let count = |n: usize| transaction("b", create(), [increment("n", 1), append("l", &[n.to_string()])]);
    // The first tries of all, with some second ones in between.
    for (n, writer) in writers.iter().enumerate() {
        assert_eq!(s.ask_as(writer, &count(n)).await.status, Status::Applied);
        let earlier = n / 2;
        assert_eq!(s.ask_as(&writers[earlier], &count(earlier)).await.status, Status::Repeated);
    }
    let mut order: Vec<_> = (0..MANY).collect();
    for seed in 0..3 {
        fastrand::Rng::with_seed(seed).shuffle(&mut order);
        for n in &order {
            assert_eq!(s.ask_as(&writers[*n], &count(*n)).await.status, Status::Repeated, "writer {n}");
        }
    }
    let total = MANY as u64;
    let outcomes = s.apply("b", existing(), [get("n"), requests::count("l")]).await;
    assert_eq!(outcomes, [found("200"), extent(0, total)]);
}

async fn what_hundreds_of_writers_did_to_an_earlier_life_does_not_come_back(s: Arc<StoreUnderTest>) {
    let writers: Vec<_> = (0..MANY).map(|_| new_writer()).collect();
    let late = transaction("b", create(), [increment("n", 1), append("l", &["late"])]);
    for writer in &writers {
        s.ask_as(writer, &late).await;
    }
    s.delete("b").await;
    for writer in &writers {
        assert_eq!(s.ask_as(writer, &late).await.status, Status::Absent);
    }
    assert!(!s.is_there("b").await);
    s.apply("b", create_new(), [put("k", "1")]).await;
    for writer in writers.iter().rev() {
        assert_eq!(s.ask_as(writer, &late).await.status, Status::Repeated);
    }
    assert_eq!(s.apply("b", existing(), [list_keys(ALL), count("l")]).await, [names(&["k"], 1), extent(0, 0)]);
}

/// As many as a store remembers for each bucket.
const MOST: u64 = 16_384;

/// As many writers as that, all of whom may still try again, and some that were sent by this store.
async fn remembered_by(s: &StoreUnderTest, count: &Transaction) -> Vec<Writer> {
    // Who created the bucket is one of them.
    let own = if s.name == "memory" { MOST - 1 } else { 100 };
    let mut writers = Vec::new();
    for _ in 0..own {
        let writer = new_writer();
        assert_eq!(s.ask_as(&writer, count).await.status, Status::Applied);
        writers.push(writer);
    }
    if s.name != "memory" {
        let deadline = s.raw().now() + 300_000;
        let fields: Vec<_> = (own..MOST).flat_map(|n| [format!("{n:016x}"), format!("1.{deadline}")]).collect();
        let address = s.raw().keys().into_iter().find(|key| key.ends_with("b:__writers__")).unwrap();
        let fields: Vec<_> = fields.iter().map(String::as_str).collect();
        s.raw().on::<()>("HSET", &address, &fields);
    }
    writers
}

async fn more_writers_than_can_be_remembered_are_refused_and_none_counts_twice(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    let (count, new) = (transaction("b", existing(), [increment("n", 1)]), new_writer());
    let mut writers = remembered_by(&s, &count).await;
    let before = s.everything().await;
    for writer in [&new, &new_writer(), &new] {
        let failure = s.store.transact(writer, &count, Deadline::NEVER).await.unwrap_err();
        assert_eq!((failure.code, &*failure.subject, failure.limit), (FailureCode::Full, "writers", MOST));
    }
    for writer in &writers {
        assert_eq!(s.ask_as(writer, &count).await.status, Status::Repeated);
    }
    s.assert_unchanged(&before, ()).await;
    // Whoever is known is served on, and so are those who only read, and all other buckets.
    for writer in writers.iter_mut().take(10) {
        assert_eq!(s.ask_as(writer.advance(), &count).await.status, Status::Applied);
    }
    assert_eq!(s.ask_as(&new, &transaction("b", create(), [get_all()])).await.status, Status::Applied);
    assert_eq!(s.ask_as(&new, &transaction("b", create_new(), [])).await.status, Status::Exists);
    assert!(s.ask_as(&new, &transaction("c", create_new(), [])).await.created);
    // It can be deleted, but not be made anew by one of whom nothing could be remembered.
    assert_eq!(s.delete("b").await.0, Status::Applied);
    let again = transaction("b", create(), [increment("n", 1)]);
    assert_eq!(s.store.transact(&new, &again, Deadline::NEVER).await.unwrap_err().code, FailureCode::Full);
    assert_eq!(s.ask_as(&writers[50], &again).await.status, Status::Absent);
    // Until their time is over.
    s.pass_time(Duration::from_secs(600));
    assert!(s.ask_as(&new, &again).await.created);
}

on_every_store![
    each_kind_of_write_counts_once_when_it_is_sent_twice,
    a_repeated_write_is_answered_from_current_values,
    a_repeated_count_is_answered_even_when_the_counter_is_none_any_more,
    a_creation_sent_twice_creates_once,
    reading_again_is_reading,
    what_was_not_applied_is_not_taken_for_applied,
    a_write_that_undid_its_own_expectation_is_repeated_not_unmet,
    an_older_transaction_after_a_newer_one_is_not_applied,
    writers_and_buckets_do_not_mix_up,
    a_late_retry_revives_no_deleted_bucket,
    a_late_retry_does_not_reach_the_next_life,
    a_late_retry_revives_no_expired_bucket,
    a_deletion_sent_twice_deletes_once,
    hundreds_of_writers_whose_replies_are_lost_all_count_once,
    what_hundreds_of_writers_did_to_an_earlier_life_does_not_come_back,
    more_writers_than_can_be_remembered_are_refused_and_none_counts_twice,
];
