//! The store's time when the machine's clock is set.

use keepline_stores::{DirectoryError, FailureCode, directory};

use super::*;

#[test]
fn setting_the_clock_back_neither_reverses_time_nor_revives_expired_buckets() {
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
fn generations_stay_unique_when_the_clock_is_set_back() {
    let bench = Bench::new();
    let mut lives = std::collections::BTreeSet::new();
    for _ in 0..10 {
        let store = bench.open();
        for _ in 0..10 {
            let created = block_on(send(&store, &transaction("b", replace(), []))).unwrap();
            assert!(lives.insert(created.generation.clone()), "{:?} twice", created.generation);
            bench.clock.go_back(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_bucket_tells_when_it_was_created_by_the_time_of_the_store() {
    let bench = Bench::new();
    let store = bench.open();
    block_on(async {
        apply(&store, "a", create(), [put("k", "1")]).await;
        bench.clock.advance(HOUR);
        apply(&store, "a", existing(), [put("k", "2")]).await;
        bench.clock.go_back(HOUR / 2);
        let created = send(&store, &transaction("b", create(), [])).await.unwrap();
        bench.clock.advance(DAY);
        let told = description(apply(&store, "b", existing(), [describe()]).await.remove(0));
        assert_eq!(told.created_at, created.now);
    });
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
fn a_long_unused_store_is_not_taken_for_one_from_the_future() {
    let bench = Bench::new();
    block_on(apply(&bench.open(), "b", create(), [put("k", "1")]));
    bench.clock.advance(1000 * DAY);
    let store = bench.open();
    assert_eq!(block_on(apply(&store, "b", existing(), [get("k")])), [entries(&[("k", "1")])]);
    bench.clock.go_back(DAY - HOUR);
    assert_eq!(block_on(apply(&store, "b", existing(), [put("k", "2"), get("k")]))[1], entries(&[("k", "2")]));
}

/// What is stored of the clock of this boot, by name.
fn believed(bench: &Bench) -> Vec<String> {
    let raw = bench.raw();
    let mut names = raw.prepare("SELECT id FROM writer WHERE kind = 'clock' ORDER BY id").unwrap();
    names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn is_in_doubt(answer: Result<Receipt, Failure>) -> bool {
    answer.is_err_and(|failure| (failure.code, &*failure.subject) == (FailureCode::Unavailable, "expiry"))
}

#[test]
fn a_three_second_clock_jump_erases_nothing_and_other_buckets_stay_writable() {
    let bench = Bench::new();
    let store = bench.open();
    block_on(async {
        apply(&store, "two-days", create_for(2 * DAY), [put("k", "1")]).await;
        apply(&store, "for-ever", create(), [put("k", "1")]).await;
        bench.clock.jump_ahead(3 * DAY);
        let look = transaction("two-days", existing(), [get("k")]);
        for precondition in [existing(), create_for(DAY), create_new(), replace()] {
            assert!(is_in_doubt(send(&store, &transaction("two-days", precondition, [put("k", "2")])).await));
        }
        assert!(is_in_doubt(send(&store, &look).await));
        let deleted = store.delete(Writer::new().advance(), &deletion_of("two-days"), Deadline::NEVER).await;
        assert_eq!(deleted.unwrap_err().subject, "expiry");
        // Others go on, and what they store is not of that time.
        apply(&store, "for-ever", existing(), [put("k", "2")]).await;
        apply(&store, "new", create_for(HOUR), [put("k", "1")]).await;
        bench.clock.advance(Duration::from_secs(3));
        apply(&store, "for-ever", existing(), [put("k", "3")]).await;
        directory::compact(bench.path(), &bench.options, |_, _| {}).unwrap();
        bench.clock.go_back(3 * DAY);
        for bucket in ["two-days", "new"] {
            let look = transaction(bucket, existing(), [get("k")]);
            assert_eq!(send(&store, &look).await.unwrap().outcomes, [entries(&[("k", "1")])]);
        }
    });
    drop(store);
    block_on(apply(&bench.open(), "two-days", existing(), [put("k", "2")]));
    bench.clock.advance(HOUR);
    assert_eq!(block_on(send(&bench.open(), &transaction("new", existing(), []))).unwrap().status, Status::Expired);
}

#[test]
fn processes_that_start_after_a_jump_share_the_minute_of_those_that_saw_it() {
    let bench = Bench::new();
    block_on(apply(&bench.open(), "b", create_for(HOUR), [put("k", "1")]));
    assert_eq!(believed(&bench), ["believed"]);
    bench.clock.jump_ahead(3 * DAY);
    let look = transaction("b", existing(), [get("k")]);
    let seconds = Duration::from_secs(20);
    for _ in 0..3 {
        // Each is gone before the next one starts. Whoever only asks makes the jump known, too.
        let store = bench.open();
        assert!(is_in_doubt(block_on(send(&store, &look))));
        block_on(until_true("the jump is noted", async || believed(&bench) == ["believed", "jump", "noticed"]));
        drop(store);
        bench.clock.advance(seconds);
    }
    let store = bench.open();
    let status = block_on(send(&store, &look)).unwrap().status;
    assert!(matches!(status, Status::Expired | Status::Absent), "{status:?}");
    block_on(until_true("the new time is noted", async || believed(&bench) == ["believed"]));
    // Nobody doubts it any more.
    let created = block_on(send(&bench.open(), &transaction("c", create_for(HOUR), []))).unwrap();
    assert!(Duration::from_millis(created.now) > bench.options.clock.now() - HOUR);
}

#[test]
fn a_jump_ends_for_all_processes_at_one_time() {
    let bench = Bench::new();
    let (one, other) = (bench.open(), bench.open());
    let look = transaction("b", existing(), [get("k")]);
    block_on(async {
        apply(&one, "b", create_for(HOUR), [put("k", "1")]).await;
        bench.clock.jump_ahead(DAY);
        assert!(is_in_doubt(send(&one, &look).await));
        until_true("the jump is noted", async || believed(&bench).len() == 3).await;
        bench.clock.advance(Duration::from_secs(50));
        // It sees only now what the first one saw before.
        assert!(is_in_doubt(send(&other, &look).await));
        bench.clock.advance(Duration::from_secs(10));
        for store in [&other, &one] {
            let status = send(store, &look).await.unwrap().status;
            assert!(matches!(status, Status::Expired | Status::Absent), "{status:?}");
        }
    });
}

#[test]
fn after_a_reboot_or_a_repair_the_clock_is_believed_at_once() {
    let mut bench = Bench::new();
    let look = transaction("b", existing(), [get("k")]);
    for reboots in [true, false] {
        block_on(apply(&bench.open(), "b", create_for(HOUR), [put("k", "1")]));
        bench.clock.jump_ahead(DAY);
        if reboots {
            bench.clock = bench.clock.rebooted();
            bench.options.clock = bench.clock.clone().into();
        } else {
            assert!(is_in_doubt(block_on(send(&bench.open(), &look))));
            directory::repair(bench.path(), &bench.options).unwrap();
        }
        let status = block_on(send(&bench.open(), &look)).unwrap().status;
        assert!(matches!(status, Status::Expired | Status::Absent), "{status:?}");
    }
}

#[test]
fn a_bucket_whose_expiry_is_in_doubt_is_not_transferred() {
    use keepline_stores::TransferStore as _;
    let bench = Bench::new();
    let store = bench.open();
    block_on(async {
        apply(&store, "b", create_for(HOUR), [put("k", "1")]).await;
        bench.clock.jump_ahead(DAY);
        assert_eq!(store.head(&session("b")).await.unwrap_err().subject, "expiry");
        assert_eq!(store.weigh(&session("b")).await.unwrap_err().subject, "expiry");
    });
}
