//! A transaction that is sent again counts once, and one that comes too late revives nothing: beyond what the kit says,
//! byte for byte and for hundreds of writers.

use std::{sync::Arc, time::Duration};

use keepline_stores::{Deadline, FailureCode, IndexedReceipt, IndexedTransaction, Outcome, Status, Writer};
use keepline_stores_tests::{
    on_every_store,
    requests::{self, *},
    stores::{StoreUnderTest, new_writer},
};

const HOUR: Duration = Duration::from_secs(3600);

/// Send work twice as one transaction and get the receipt of the second time.
async fn sent_twice(s: &StoreUnderTest, work: impl Into<Work>) -> IndexedReceipt {
    let (writer, transaction) = (new_writer(), transaction("b", existing(), work));
    let first = s.store.transact(&writer, &transaction, Deadline::NEVER).await.unwrap();
    assert_eq!(first.receipt.status, Status::Applied);
    let before = s.everything().await;
    let again = s.store.transact(&writer, &transaction, Deadline::NEVER).await.unwrap();
    assert_eq!((again.receipt.status, again.receipt.created), (Status::Repeated, false));
    assert_eq!(again.lease.is_some(), transaction.lease.is_some());
    s.assert_unchanged(&before, "the second time").await;
    again
}

/// What operations are answered with the second time.
async fn twice(s: &StoreUnderTest, operations: impl Into<Work>) -> Vec<Outcome> {
    sent_twice(s, operations).await.receipt.outcomes
}

async fn each_kind_of_write_counts_once_when_it_is_sent_twice(s: Arc<StoreUnderTest>) {
    let seed = [put("a", "1"), put("b", "1"), append("l", &["x", "y", "z"]), put_in("notes", &[("p", "1")])];
    s.apply("b", create(), seed).await;
    assert_eq!(twice(&s, [put("k", "1")]).await, [changed(0, 0)]);
    assert_eq!(twice(&s, [put_in("notes", &[("k", "1"), ("p", "2")])]).await, [changed(0, 0)]);
    assert_eq!(twice(&s, [add("n", 5)]).await, [counter(5)]);
    assert_eq!(twice(&s, [add_in("notes", "n", 5)]).await, [counter(5)]);
    assert_eq!(twice(&s, [append_marked("l", &["w"], &[("marks", "w", 0)])]).await, [extent(0, 4)]);
    assert_eq!(twice(&s, [replace_oldest("l", 2, &["xy"])]).await, [extent(1, 3)]);
    assert_eq!(twice(&s, [rewrite("l", 1, "XY")]).await, [extent(1, 3)]);
    assert_eq!(twice(&s, [remove("a")]).await, [changed(0, 0)]);
    assert_eq!(twice(&s, [remove_in("notes", &["p"])]).await, [changed(0, 0)]);
    let outcomes = twice(&s, [add("n", 1), get("n"), append("l", &["v"]), read_newest("l", 1, ALL)]).await;
    assert_eq!(outcomes, [counter(6), entries(&[("n", "6")]), extent(1, 4), records((1, 4), 4, &["v"])]);
    assert_eq!(s.apply_one("b", get_all()).await, entries(&[("b", "1"), ("k", "1"), ("n", "6")]));
    assert_eq!(s.apply_one("b", read_all("l")).await, whole(1, &["XY", "z", "w", "v"]));
    let both = add_documents("i", [document(0, &[1]), document(4, &[1, 2])]);
    assert_eq!(sent_twice(&s, both).await.found, [indexed(5, 2, 3)]);
    assert_eq!(sent_twice(&s, remove_documents("i", [0, 1])).await.found, [indexed(5, 1, 2)]);
    for (holder, time, is_held) in [("me", HOUR, true), ("other", HOUR, false), ("me", Duration::ZERO, false)] {
        assert_eq!(sent_twice(&s, lease("work", holder, time)).await.lease.unwrap().held, is_held);
    }
    assert_eq!(twice(&s, [reset_log("l", &["new"])]).await, [extent(5, 1)]);
    assert_eq!(twice(&s, [remove_all()]).await, [changed(0, 0)]);
    assert_eq!(s.apply_one("b", get_all()).await, nothing());
}

async fn a_repeated_increment_is_answered_even_if_the_counter_is_no_longer_one(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    let (writer, transaction) = (new_writer(), transaction("b", existing(), [add("n", 1)]));
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

async fn an_older_transaction_after_a_newer_one_is_not_applied(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    let mut writer = Writer::new();
    let older = writer.advance().clone();
    let newer = writer.advance().clone();
    let put = |text| transaction("b", existing(), [put("k", text)]);
    assert_eq!(s.ask_as(&newer, &put("newer")).await.status, Status::Applied);
    let late = s.ask_as(&older, &put("older")).await;
    assert_eq!((late.status, late.outcomes), (Status::Repeated, vec![changed(0, 0)]));
    assert_eq!(s.apply_one("b", get("k")).await, entries(&[("k", "newer")]));
    assert_eq!(s.ask_as(writer.advance(), &put("newest")).await.status, Status::Applied);
}

async fn writers_are_counted_separately_in_each_bucket(s: Arc<StoreUnderTest>) {
    let (mut one, mut two) = (Writer::new(), Writer::new());
    for n in 1..=5 {
        for bucket in ["a", "b"] {
            let count = transaction(bucket, create(), [add("n", 1)]);
            let (one, two) = (one.advance().clone(), two.advance().clone());
            assert_eq!(s.ask_as(&one, &count).await.outcomes, [counter(2 * n - 1)]);
            assert_eq!(s.ask_as(&two, &count).await.outcomes, [counter(2 * n)]);
            assert_eq!(s.ask_as(&one, &count).await.status, Status::Repeated);
        }
    }
}

async fn a_late_retry_revives_no_deleted_bucket(s: Arc<StoreUnderTest>) {
    let preconditions = [("a", create()), ("b", create_new()), ("c", create_for(HOUR)), ("d", create_sliding(HOUR))];
    for (bucket, precondition) in preconditions {
        let (writer, create) = (new_writer(), transaction(bucket, precondition, [put("k", "late")]));
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
    let (writer, write) = (new_writer(), transaction("f", create(), [add("n", 1)]));
    s.ask_as(&writer, &write).await;
    s.delete("f").await;
    assert_eq!(s.ask_as(&writer, &write).await.status, Status::Absent);
    assert!(!s.is_there("e").await && !s.is_there("f").await);
}

/// So many processes or pipes write to a session at one time, and none of them is told.
const MANY: usize = 200;

async fn hundreds_of_writers_whose_replies_are_lost_all_count_once(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    let writers: Vec<_> = (0..MANY).map(|_| new_writer()).collect();
    let count = |n: usize| transaction("b", create(), [add("n", 1), append("l", &[n.to_string()])]);
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
    assert_eq!(outcomes, [entries(&[("n", "200")]), extent(0, total)]);
}

async fn late_retries_of_hundreds_of_writers_revive_nothing_of_a_deleted_bucket(s: Arc<StoreUnderTest>) {
    let writers: Vec<_> = (0..MANY).map(|_| new_writer()).collect();
    let late = transaction("b", create(), [add("n", 1), append("l", &["late"])]);
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
    assert_eq!(s.apply("b", existing(), [get_all(), count("l")]).await, [entries(&[("k", "1")]), extent(0, 0)]);
}

/// As many as a store remembers for each bucket.
const MOST: u64 = 16_384;

/// As many writers as that, all of whom may still try again, and some that were sent by this store.
async fn remembered_by(s: &StoreUnderTest, count: &IndexedTransaction) -> Vec<Writer> {
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
        let fields: Vec<_> = (own..MOST).flat_map(|n| [format!("{n:024x}"), format!("1.{deadline}")]).collect();
        let address = s.raw().keys().into_iter().find(|key| key.ends_with("b:__writers__")).unwrap();
        let fields: Vec<_> = fields.iter().map(String::as_str).collect();
        s.raw().on::<()>("HSET", &address, &fields);
    }
    writers
}

async fn more_writers_than_can_be_remembered_are_refused_and_none_counts_twice(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    let (count, new) = (transaction("b", existing(), [add("n", 1)]), new_writer());
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
    // It can be deleted, but not be made again by one of whom nothing could be remembered.
    assert_eq!(s.delete("b").await.0, Status::Applied);
    let again = transaction("b", create(), [add("n", 1)]);
    assert_eq!(s.store.transact(&new, &again, Deadline::NEVER).await.unwrap_err().code, FailureCode::Full);
    assert_eq!(s.ask_as(&writers[50], &again).await.status, Status::Absent);
    // Until their time is over.
    s.pass_time(Duration::from_secs(600));
    assert!(s.ask_as(&new, &again).await.created);
}

on_every_store![
    each_kind_of_write_counts_once_when_it_is_sent_twice,
    a_repeated_increment_is_answered_even_if_the_counter_is_no_longer_one,
    an_older_transaction_after_a_newer_one_is_not_applied,
    writers_are_counted_separately_in_each_bucket,
    a_late_retry_revives_no_deleted_bucket,
    hundreds_of_writers_whose_replies_are_lost_all_count_once,
    late_retries_of_hundreds_of_writers_revive_nothing_of_a_deleted_bucket,
];

/// A directory has room for all of them.
mod bounded {
    use super::more_writers_than_can_be_remembered_are_refused_and_none_counts_twice;

    keepline_stores_tests::on_stores![run on memory, redis, redis_general, cluster: [
        more_writers_than_can_be_remembered_are_refused_and_none_counts_twice,
    ]];
}
