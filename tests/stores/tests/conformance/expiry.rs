//! A bucket's time: all in it ends at one instant, and nothing brings it back.

use std::{sync::Arc, time::Duration};

use keepline_stores::{Deadline, Opening, Status};
use keepline_stores_tests::{on_every_store, requests::*, stores::StoreUnderTest};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
/// Redis's own clock goes on while a test runs; no step of one takes that long.
const SLACK: Duration = Duration::from_secs(30);

/// Milliseconds that a bucket has left.
async fn time_left(s: &StoreUnderTest) -> Duration {
    Duration::from_millis(s.store.describe_bucket("b", Deadline::NEVER).await.unwrap().expires_in.unwrap())
}

fn about(time: Duration, expected: Duration) {
    assert!(time <= expected && time > expected - SLACK, "{time:?}, not about {expected:?}");
}

fn is_gone(status: Status) -> bool {
    matches!(status, Status::Absent | Status::Expired)
}

async fn a_fixed_time_runs_from_the_creation_whatever_is_done(s: Arc<StoreUnderTest>) {
    s.apply("b", create_for(HOUR), [put("k", "1")]).await;
    about(time_left(&s).await, HOUR);
    s.pass_time(HOUR / 2);
    s.apply("b", existing(), [put("k", "2"), put("new", "1"), append("l", &["x"]), get_all()]).await;
    about(time_left(&s).await, HOUR / 2);
    s.pass_time(HOUR / 2 - SLACK);
    assert_eq!(s.apply_one("b", get("k")).await, found("2"));
    s.pass_time(SLACK);
    assert_eq!(s.status("b", existing()).await, Status::Expired);
    assert!(is_gone(s.status("b", existing()).await));
}

async fn a_sliding_time_runs_from_the_last_use(s: Arc<StoreUnderTest>) {
    s.apply("b", create_sliding(HOUR), [put("k", "1"), append("l", &["x"]), append("history", &["x"])]).await;
    for operation in [get("k"), put("k", "2"), count("l"), append("l", &["y"])] {
        s.pass_time(HOUR - SLACK);
        s.apply_one("b", operation).await;
        about(time_left(&s).await, HOUR);
    }
    s.pass_time(HOUR - SLACK);
    assert_eq!(s.status("b", existing()).await, Status::Applied, "opening it is a use");
    s.pass_time(HOUR - SLACK);
    let outcomes = s.apply("b", create_for(MINUTE), [get("k"), read_all("l"), read_all("history")]).await;
    assert_eq!(outcomes, [found("2"), records(0, 2, &["x", "y"]), records(0, 1, &["x"])]);
    s.pass_time(HOUR);
    assert_eq!(s.status("b", existing()).await, Status::Expired);
}

async fn a_sliding_time_is_renewed_when_one_percent_of_it_has_gone(s: Arc<StoreUnderTest>) {
    s.apply("b", create_sliding(100 * HOUR), [put("k", "1")]).await;
    s.pass_time(HOUR - SLACK);
    s.apply_one("b", put("k", "2")).await;
    about(time_left(&s).await, 99 * HOUR + SLACK);
    s.pass_time(SLACK);
    s.apply_one("b", get("k")).await;
    about(time_left(&s).await, 100 * HOUR);
}

async fn what_does_not_use_a_bucket_does_not_renew_its_time(s: Arc<StoreUnderTest>) {
    s.apply("b", create_sliding(HOUR), [put("k", "text")]).await;
    s.pass_time(HOUR / 2);
    s.store.describe_bucket("b", Deadline::NEVER).await.unwrap();
    s.list(10).await;
    assert_eq!(s.status("b", create_new()).await, Status::Exists);
    assert_eq!(s.status("b", life("1795186917.032595")).await, Status::AnotherLife);
    assert_eq!(s.ask(&expecting("b", existing(), [keys_are(NONE)], [])).await.status, Status::Unmet);
    s.try_send(&transaction("b", existing(), [increment("k", 1)])).await.unwrap_err();
    about(time_left(&s).await, HOUR / 2);
}

async fn a_later_opening_does_not_change_the_time_to_live(s: Arc<StoreUnderTest>) {
    s.apply("b", create_for(HOUR), []).await;
    for opening in [create(), create_for(2 * HOUR), create_for(MINUTE), create_sliding(MINUTE)] {
        s.apply("b", opening, [increment("n", 1)]).await;
        assert_eq!(
            s.store.describe_bucket("b", Deadline::NEVER).await.unwrap().time_to_live,
            Some(time_to_live(HOUR, false))
        );
        about(time_left(&s).await, HOUR);
    }
    s.delete("b").await;
    s.apply("b", create(), []).await;
    s.apply("b", create_for(MINUTE), []).await;
    let description = s.store.describe_bucket("b", Deadline::NEVER).await.unwrap();
    assert_eq!((description.time_to_live, description.expires_in), (None, None));
}

async fn a_bucket_without_a_time_to_live_stays(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), [put("k", "1"), append("l", &["x"])]).await;
    s.pass_time(100 * 365 * 24 * HOUR);
    assert_eq!(s.apply("b", existing(), [get("k"), count("l")]).await, [found("1"), extent(0, 1)]);
}

async fn whoever_comes_first_is_told_that_a_bucket_expired(s: Arc<StoreUnderTest>) {
    for bucket in ["a", "b", "c", "d"] {
        s.apply(bucket, create_for(HOUR), [put("k", "1")]).await;
    }
    s.pass_time(HOUR);
    assert_eq!(s.status("a", life("1795186917.032595")).await, Status::Expired);
    assert_eq!(s.delete("b").await, (Status::Expired, vec![]));
    let description = s.store.describe_bucket("c", Deadline::NEVER).await.unwrap();
    assert_eq!((description.status, &*description.incarnation, description.keys), (Status::Expired, "", 0));
    assert_eq!((description.expires_in, description.time_to_live, description.logs), (None, None, vec![]));
    let receipt = s.ask(&transaction("d", create(), [get("k")])).await;
    assert_eq!((receipt.status, receipt.created, receipt.outcomes), (Status::Applied, true, vec![not_found()]));
    for bucket in ["a", "b", "c"] {
        assert!(is_gone(s.status(bucket, existing()).await) && is_gone(s.delete(bucket).await.0));
    }
}

async fn nothing_revives_an_expired_bucket(s: Arc<StoreUnderTest>) {
    let first = s.ask(&transaction("b", create_for(HOUR), [put("k", "1"), append("l", &["x"])])).await;
    s.pass_time(HOUR);
    let writes = [put("k", "2"), put("late", "1"), increment("n", 1), append("l", &["late"]), append("new", &["late"])];
    for opening in [life(&first.incarnation), existing()] {
        let receipt = s.ask(&transaction("b", opening, writes.clone())).await;
        assert!(is_gone(receipt.status), "{receipt:?}");
        assert_eq!((&*receipt.incarnation, receipt.outcomes), ("", vec![]));
        assert!(is_gone(s.store.describe_bucket("b", Deadline::NEVER).await.unwrap().status));
        assert_eq!(s.list(10).await, [""; 0]);
    }

    // A new life is another one, starts empty and has its own time.
    s.pass_time(HOUR);
    let everything = [get_all(), list_keys(ALL), read_all("l"), read_all("new"), increment("n", 1)];
    let second = s.ask(&transaction("b", create_for(2 * HOUR), everything)).await;
    assert!(second.created && second.incarnation != first.incarnation);
    let nothing = records(0, 0, NONE);
    assert_eq!(second.outcomes, [values::<&str, &str>(&[]), names(NONE, 0), nothing.clone(), nothing, counter(1)]);
    about(time_left(&s).await, 2 * HOUR);
    let late = s.ask(&transaction("b", life(&first.incarnation), [put("k", "late")])).await;
    assert_eq!(late.status, Status::AnotherLife);
    s.pass_time(HOUR + SLACK);
    assert_eq!(s.apply_one("b", list_keys(ALL)).await, names(&["n"], 1));
}

async fn an_expired_bucket_makes_way_for_one_that_was_not_to_be_there(s: Arc<StoreUnderTest>) {
    s.apply("b", create_for(HOUR), [put("k", "1")]).await;
    s.pass_time(HOUR);
    let receipt = s.ask(&expecting("b", create_new(), [keys_are(NONE)], [get("k")])).await;
    assert_eq!((receipt.status, receipt.created, receipt.outcomes), (Status::Applied, true, vec![not_found()]));
    assert_eq!(s.store.describe_bucket("b", Deadline::NEVER).await.unwrap().expires_in, None);
}

on_every_store![
    a_fixed_time_runs_from_the_creation_whatever_is_done,
    a_sliding_time_runs_from_the_last_use,
    a_sliding_time_is_renewed_when_one_percent_of_it_has_gone,
    what_does_not_use_a_bucket_does_not_renew_its_time,
    a_later_opening_does_not_change_the_time_to_live,
    a_bucket_without_a_time_to_live_stays,
    whoever_comes_first_is_told_that_a_bucket_expired,
    nothing_revives_an_expired_bucket,
    an_expired_bucket_makes_way_for_one_that_was_not_to_be_there,
];

/// How each store keeps to the very millisecond has to be seen with its own clock.
mod at_the_very_millisecond {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn a_bucket_in_memory_is_there_until_its_instant_and_not_at_it() {
        let case = async |s: Arc<StoreUnderTest>| {
            let openings: [(Opening, Duration); 3] =
                [(create_for(HOUR), HOUR), (create_sliding(HOUR), HOUR), (create_for(MILLISECOND), MILLISECOND)];
            for (opening, time) in openings {
                s.apply("b", opening, [put("k", "1")]).await;
                s.pass_time(time - MILLISECOND);
                assert_eq!(time_left(&s).await, MILLISECOND);
                assert!(s.is_there("b").await);
                assert_eq!(s.list(10).await, ["b"]);
                s.pass_time(MILLISECOND);
                assert_eq!(s.list(10).await, [""; 0]);
                assert_eq!(s.status("b", existing()).await, Status::Expired);
                assert_eq!(s.status("b", existing()).await, Status::Absent);
            }
        };
        keepline_stores_tests::stores::run(StoreUnderTest::memory(), case);
    }

    #[test]
    fn a_sliding_time_in_memory_is_renewed_at_one_percent_and_not_before() {
        let case = async |s: Arc<StoreUnderTest>| {
            s.apply("b", create_sliding(1000 * MILLISECOND), []).await;
            s.pass_time(9 * MILLISECOND);
            s.apply("b", existing(), []).await;
            assert_eq!(time_left(&s).await, 991 * MILLISECOND);
            s.pass_time(MILLISECOND);
            s.apply("b", existing(), []).await;
            assert_eq!(time_left(&s).await, 1000 * MILLISECOND);
        };
        keepline_stores_tests::stores::run(StoreUnderTest::memory(), case);
    }

    /// Redis keeps a key through the millisecond that it expires at. What the server's clock says before
    /// a call is no later than what the call sees.
    #[test]
    fn no_call_on_redis_finds_a_bucket_at_its_instant() {
        let case = async |s: Arc<StoreUnderTest>| {
            for round in 0..40_u64 {
                s.apply("b", create_for(Duration::from_millis(5 + round % 5)), [put("k", "1")]).await;
                let instant = s.raw().expires_at("b:__meta__");
                loop {
                    let now = s.raw().now();
                    let is_there = match round % 4 {
                        0 => s.status("b", existing()).await == Status::Applied,
                        1 => s.is_there("b").await,
                        2 => s.status("b", create_new()).await == Status::Exists,
                        _ => !s.list(10).await.is_empty(),
                    };
                    assert!(!is_there || now < instant, "found at {now}, expired at {instant}, round {round}");
                    if !is_there {
                        break;
                    }
                }
                s.delete("b").await;
            }
        };
        keepline_stores_tests::stores::run(StoreUnderTest::redis(), case);
    }
}
