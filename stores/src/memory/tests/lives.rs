//! Lives of buckets: their instants, kinds and ends.

use super::*;

#[test]
fn stamps_never_repeat_within_one_instant() {
    let mut bench = Bench::new(1000, 64 * 1024 * KIB);
    let stamps: Vec<_> = (0..5)
        .map(|_| {
            let stamp = bench.send("a", create(None), vec![]).unwrap().generation;
            bench.delete("a");
            stamp
        })
        .collect();
    assert!(stamps.windows(2).all(|pair| pair[0] < pair[1]), "{stamps:?}");
}

#[test]
fn buckets_of_other_kinds_have_a_separate_limit() {
    let mut bench = Bench::new(1, 64 * 1024 * KIB);
    let other = |kind, n| BucketId::new(kind, format!("b{n}"));
    for n in 0..100 {
        let kind = [kind::USER, kind::DATASET][n % 2];
        bench.send_to(other(kind, n), create(None), vec![]).unwrap();
    }
    let failure = bench.send_to(other(kind::NODE, 0), create(None), vec![]).unwrap_err();
    assert_eq!((failure.code, failure.limit), (FailureCode::TooManyBuckets, 100));
    bench.send("a", create(None), vec![]).unwrap();
    let failure = bench.send("b", create(None), vec![]).unwrap_err();
    assert_eq!((failure.code, failure.limit), (FailureCode::TooManyBuckets, 1));
    bench.send_to(other(kind::USER, 0), Precondition::Replace(new_bucket(None)), vec![]).unwrap();
}

#[test]
fn kinds_are_listed_one_by_one() {
    let mut bench = Bench::new(10, 64 * KIB);
    for kind in [kind::SESSION, kind::USER, kind::SERVICE] {
        for name in ["a", "b", "c"] {
            bench.send_to(BucketId::new(kind, name), create(None), vec![]).unwrap();
        }
    }
    bench.delete("b");
    let page = |kind, cursor: &str, limit| {
        let page = block_on(bench.store.list_buckets(kind, cursor, limit, Deadline::NEVER)).unwrap();
        (page.names.join(" "), page.cursor)
    };
    assert_eq!(page(kind::SESSION, "", 0), ("a c".into(), String::new()));
    assert_eq!(page(kind::USER, "", 2), ("a b".into(), "b".into()));
    assert_eq!(page(kind::USER, "b", 2), ("c".into(), String::new()));
    assert_eq!(page(kind::NODE, "", 0), (String::new(), String::new()));
}

#[test]
fn time_never_goes_back_while_a_bucket_lives() {
    let mut bench = Bench::new(10, 64 * KIB);
    bench.clock.advance(Duration::from_secs(60));
    let created = bench.lease("a", create(Some(100_000)), lease("l", "h", 1000)).unwrap();
    bench.clock.go_back(Duration::from_secs(30));
    let later = bench.lease("a", existing(), lease("l", "other", 1000)).unwrap();
    let created = created.receipt;
    assert_eq!(later.receipt.now, created.now);
    assert!(later.lease.is_some_and(|state| state.holder == "h" && state.expires_in == 1000));
    bench.clock.advance(Duration::from_millis(30_500));
    assert_eq!(bench.send("a", existing(), vec![]).unwrap().now, created.now + 500);
    bench.clock.go_back(Duration::from_secs(30));
    assert_eq!(bench.delete("a").now, created.now + 500);
}

#[test]
fn a_deletion_removes_only_the_generation_that_it_names() {
    let mut bench = Bench::new(10, 64 * KIB);
    let first = bench.send("a", create(None), vec![put("k", 1)]).unwrap().generation.unwrap();
    let second = bench.send("a", Precondition::Replace(new_bucket(None)), vec![put("m", 1), put("k", 1)]).unwrap();
    assert!(second.created && second.generation.as_ref() != Some(&first));
    let used = bench.store.used_bytes();
    assert_eq!(bench.delete_life("a", Some(&first)).status, Status::GenerationMismatch);
    assert_eq!((bench.look("a"), bench.store.used_bytes()), (Status::Applied, used));
    let deletion = bench.delete_life("a", second.generation.as_deref());
    assert_eq!((deletion.status, deletion.values), (Status::Applied, 2));
    assert_eq!(deletion.keys, ["k", "m"]);
    assert_eq!(bench.look("a"), Status::Absent);
}

#[test]
fn a_replacement_without_room_leaves_the_bucket_unchanged() {
    let mut bench = Bench::new(10, 8 * KIB);
    bench.send("a", create(None), vec![put("k", 4 * 1024)]).unwrap();
    let used = bench.store.used_bytes();
    let failure = bench.send("a", Precondition::Replace(new_bucket(None)), vec![put("k", 8 * 1024)]).unwrap_err();
    assert_eq!((failure.code, bench.store.used_bytes()), (FailureCode::Full, used));
    // Both would not have room side by side.
    bench.send("a", Precondition::Replace(new_bucket(None)), vec![put("k", 5 * 1024)]).unwrap();
    assert_eq!(bench.store.used_bytes(), used + 1024);
}

#[test]
fn a_late_retry_neither_revives_nor_replaces_a_bucket() {
    let mut bench = Bench::new(10, 64 * KIB);
    let precondition = Precondition::Replace(new_bucket(Some(1000)));
    let transaction =
        Transaction { bucket: session("a"), precondition, expectations: vec![], operations: vec![put("k", 1)] };
    let replace = transaction.into();
    let writer = bench.writer.advance().clone();
    let status = |bench: &Bench| {
        let receipt = block_on(bench.store.transact(&writer, &replace, Deadline::NEVER)).unwrap().receipt;
        (receipt.status, receipt.created)
    };
    assert_eq!(status(&bench), (Status::Applied, true));
    assert_eq!(status(&bench), (Status::Repeated, false));
    bench.clock.advance(Duration::from_secs(1));
    assert_eq!(status(&bench), (Status::Expired, false));
    assert_eq!(status(&bench), (Status::Absent, false));
}

#[test]
fn a_read_without_renewal_does_not_extend_the_expiry() {
    let mut bench = Bench::new(10, 64 * KIB);
    let sliding = NewBucket { time_to_live: Some(TimeToLive { milliseconds: 1000, sliding: true }) };
    bench.send("a", Precondition::Create(sliding), vec![]).unwrap();
    bench.clock.advance(Duration::from_millis(500));
    let mut left = |renew| {
        let precondition = Precondition::Existing(ExistingBucket { generation: None, renew });
        let describe = Operation::Describe(DescribeOperation { parts: false });
        match bench.send("a", precondition, vec![describe]).unwrap().outcomes.remove(0) {
            Outcome::Described(description) => description.expires_in,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!([left(false), left(true), left(false)], [Some(500), Some(1000), Some(1000)]);
    assert_eq!(bench.store.state.lock().expiries.len(), 1);
}

#[test]
fn a_clock_that_was_just_set_ahead_expires_nothing() {
    let mut bench = Bench::new(1000, 64 * 1024 * KIB);
    bench.send("a", create(Some(1000)), vec![put("k", 10)]).unwrap();
    bench.clock.jump_ahead(Duration::from_secs(24 * 3600));
    for n in 0..10 {
        bench.send(&format!("b{n}"), create(Some(1000)), vec![]).unwrap();
    }
    let failure = bench.send("a", create(None), vec![put("k", 20)]).unwrap_err();
    assert_eq!((failure.code, &*failure.subject), (FailureCode::Unavailable, "expiry"));
    bench.clock.go_back(Duration::from_secs(24 * 3600));
    assert_eq!(bench.look("a"), Status::Applied);
    bench.clock.advance(Duration::from_secs(1));
    assert_eq!(bench.look("a"), Status::Expired);
    assert_eq!(bench.look("b0"), Status::Expired, "its time is not that of the jump");
}
