//! A bucket's time to the percent and to the millisecond; the rest is in the kit.

use std::{sync::Arc, time::Duration};

use keepline_stores::{Precondition, Status};
use keepline_stores_tests::{on_every_store, requests::*, stores::StoreUnderTest, until::until_true};

const HOUR: Duration = Duration::from_secs(3600);
/// Redis's own clock goes on while a test runs; no step of one takes that long.
const SLACK: Duration = Duration::from_secs(30);

/// Milliseconds that a bucket has left.
async fn time_left(s: &StoreUnderTest) -> Duration {
    Duration::from_millis(s.describe("b").await.expires_in.unwrap())
}

fn about(time: Duration, expected: Duration) {
    assert!(time <= expected && time > expected - SLACK, "{time:?}, not about {expected:?}");
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

on_every_store![a_sliding_time_is_renewed_when_one_percent_of_it_has_gone,];

/// How each store keeps to the very millisecond has to be seen with its own clock.
mod at_the_very_millisecond {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn a_bucket_in_memory_expires_exactly_at_its_instant() {
        let case = async |s: Arc<StoreUnderTest>| {
            let preconditions: [(Precondition, Duration); 3] =
                [(create_for(HOUR), HOUR), (create_sliding(HOUR), HOUR), (create_for(MILLISECOND), MILLISECOND)];
            for (precondition, time) in preconditions {
                s.apply("b", precondition, [put("k", "1")]).await;
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
                        1 => s.status("b", unused()).await == Status::Applied,
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

    /// Redis 7.0 looks at the time anew for each expiry that it is given, also within a script: a key that gets one
    /// which has just passed is gone at once, and the next write of the same transaction brings it back.
    #[test]
    fn a_transaction_on_redis_that_outlasts_its_bucket_leaves_no_keys_behind() {
        let case = async |s: Arc<StoreUnderTest>| {
            let many = vec!["x"; 4000];
            let mut work = vec![put("before", "1")];
            work.extend((0..4).map(|number| append(&format!("log{number}"), &many)));
            work.extend([
                put("k", "1"),
                put("l", "1"),
                add("n", 1),
                put_in("map", &[("k", "1")]),
                append("last", &["x"]),
            ]);
            for precondition in [create_for(MILLISECOND), create_sliding(MILLISECOND)] {
                for _ in 0..10 {
                    s.apply("b", precondition.clone(), work.clone()).await;
                    until_true("all keys have expired", async || {
                        s.raw().keys().iter().all(|key| key == "b:__writers__" || key == "__sessions__")
                    })
                    .await;
                }
            }
        };
        keepline_stores_tests::stores::run(StoreUnderTest::redis(), case);
    }
}
