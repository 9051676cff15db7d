//! The store's time when the machine's clock is set.

use keepline_stores::{DirectoryError, FailureCode, directory};

use super::*;

#[test]
fn time_does_not_go_back_and_nothing_expired_comes_back_when_the_clock_is_set_back() {
    let bench = Bench::new();
    let told = block_on(async {
        let store = bench.open();
        apply(&store, "b", create_for(HOUR), [put("k", "1")]).await;
        bench.clock.advance(HOUR);
        let gone = send(&store, &transaction("b", existing(), [])).await.unwrap();
        assert_eq!(gone.status, Status::Expired);
        gone.now
    });
    bench.clock.go_back(23 * HOUR);
    // Also for another process, which knows only what is stored.
    let store = bench.open();
    block_on(async {
        let gone = send(&store, &transaction("b", existing(), [])).await.unwrap();
        assert_eq!((gone.status, gone.now), (Status::Absent, told));
        let created = send(&store, &transaction("b", create_for(HOUR), [])).await.unwrap();
        assert!(created.created && created.now == told);
        bench.clock.advance(23 * HOUR);
        assert_eq!(send(&store, &transaction("b", existing(), [])).await.unwrap().status, Status::Applied);
        bench.clock.advance(HOUR);
        assert_eq!(send(&store, &transaction("b", existing(), [])).await.unwrap().status, Status::Expired);
    });
}

#[test]
fn lives_have_names_of_their_own_though_the_clock_is_set_back() {
    let bench = Bench::new();
    let mut lives = std::collections::BTreeSet::new();
    for _ in 0..10 {
        let store = bench.open();
        for _ in 0..10 {
            let created = block_on(send(&store, &transaction("b", replace(), []))).unwrap();
            assert!(lives.insert(created.incarnation.clone()), "{} twice", created.incarnation);
            bench.clock.go_back(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_store_from_the_future_is_refused_until_it_is_repaired() {
    let bench = Bench::new();
    bench.clock.advance(3 * DAY);
    let store = bench.open();
    block_on(apply(&store, "b", create_for(HOUR), [put("k", "1")]));
    bench.clock.go_back(3 * DAY);
    // While it is open: whoever asks is told what to do.
    for ask in [transaction("b", existing(), [get("k")]), transaction("b", create(), [put("k", "2")])] {
        let failure = block_on(send(&store, &ask)).unwrap_err();
        assert_eq!((failure.code, &*failure.subject), (FailureCode::Unavailable, "clock"));
        assert!(failure.message.contains("keepline store repair"), "{}", failure.message);
    }
    let in_use = directory::repair(bench.path(), &bench.options).unwrap_err();
    assert!(matches!(in_use, DirectoryError::InUse { .. }), "{in_use}");
    drop(store);

    let refused = bench.try_open().unwrap_err();
    assert!(matches!(refused, DirectoryError::ClockAhead { ahead } if ahead >= 3 * DAY - HOUR), "{refused}");
    assert!(refused.to_string().contains("keepline store repair"), "{refused}");
    let repaired = directory::repair(bench.path(), &bench.options).unwrap();
    assert!(repaired.clock_set_back.unwrap() >= 3 * DAY - HOUR);
    let store = bench.open();
    assert_eq!(block_on(apply(&store, "b", existing(), [get("k")])), [entries(&[("k", "1")])]);
}

#[test]
fn a_day_that_nobody_used_the_store_and_more_is_none_in_the_future() {
    let bench = Bench::new();
    block_on(apply(&bench.open(), "b", create(), [put("k", "1")]));
    bench.clock.advance(1000 * DAY);
    let store = bench.open();
    assert_eq!(block_on(apply(&store, "b", existing(), [get("k")])), [entries(&[("k", "1")])]);
    bench.clock.go_back(DAY - HOUR);
    assert_eq!(block_on(apply(&store, "b", existing(), [put("k", "2"), get("k")]))[1], entries(&[("k", "2")]));
}
