//! At its limits, a store that may evict ends whole sessions, those that were used longest ago, and no more than it must.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

fn evicting(max_sessions: u64, max_bytes: u64) -> Bench {
    Bench::with(max_sessions, max_bytes, SessionLimitPolicy::Evict)
}

/// The sessions that are there, in alphabetical order.
fn there(bench: &Bench) -> String {
    block_on(bench.store.list_buckets(kind::SESSION, "", 0, Deadline::NEVER)).unwrap().names.join(" ")
}

#[test]
fn a_new_session_evicts_the_least_recently_used_one() {
    let mut bench = evicting(3, 64 * KIB);
    for session in ["a", "b", "c"] {
        bench.send(session, create(None), vec![put("k", 1)]).unwrap();
    }
    // Reading is use as well.
    assert_eq!(bench.look("a"), Status::Applied);
    assert!(bench.send("d", create(None), vec![put("k", 1)]).unwrap().created);
    assert_eq!(there(&bench), "a c d");
    // Nothing is left of it, and its next life has nothing of the last one.
    assert_eq!(bench.look("b"), Status::Absent);
    let get = Operation::Describe(DescribeOperation { parts: true });
    let again = bench.send("b", create(None), vec![get]).unwrap();
    assert!(again.created);
    assert!(matches!(&again.outcomes[..], [Outcome::Described(description)] if description.values == 0));
    assert_eq!(there(&bench), "a b d");
}

#[test]
fn expired_sessions_are_evicted_first() {
    let mut bench = evicting(2, 64 * KIB);
    bench.send("old", create(None), vec![]).unwrap();
    bench.send("expired", create(Some(1000)), vec![]).unwrap();
    bench.clock.advance(Duration::from_secs(1));
    bench.send("new", create(None), vec![]).unwrap();
    assert_eq!(there(&bench), "new old");
}

#[test]
fn a_late_write_to_a_session_that_was_evicted_does_not_revive_it() {
    let mut bench = evicting(1, 64 * KIB);
    let writer = bench.writer.advance().clone();
    let write = |precondition| Transaction {
        bucket: session("a"),
        precondition,
        expectations: vec![],
        operations: vec![put("k", 1)],
    };
    let first = block_on(bench.store.transact(&writer, &write(create(None)).into(), Deadline::NEVER)).unwrap();
    assert!(first.receipt.created);
    bench.send("b", create(None), vec![]).unwrap();
    // Its reply was lost: it is sent again.
    let again = block_on(bench.store.transact(&writer, &write(create(None)).into(), Deadline::NEVER)).unwrap().receipt;
    assert!(!again.created && again.status != Status::Applied, "{again:?}");
    let life = ExistingBucket { generation: first.receipt.generation.clone(), renew: true };
    assert_eq!(bench.send("a", Precondition::Existing(life), vec![put("k", 1)]).unwrap().status, Status::Absent);
    assert_eq!(there(&bench), "b");
}

#[test]
fn as_few_sessions_as_needed_are_evicted_to_free_bytes() {
    let mut bench = evicting(100, 18 * KIB);
    for session in ["a", "b", "c"] {
        bench.send(session, create(None), vec![put("k", 4 * 1024)]).unwrap();
    }
    bench.look("a");
    bench.send("d", create(None), vec![put("k", 4 * 1024)]).unwrap();
    assert_eq!(there(&bench), "a c d");
    // For its own growth, no session gives itself up.
    bench.send("c", existing(), vec![put("more", 8 * 1024)]).unwrap();
    assert_eq!(there(&bench), "c");
}

#[test]
fn a_write_too_large_for_the_store_evicts_no_session() {
    let mut bench = evicting(3, 8 * KIB);
    let user = BucketId::user("u");
    bench.send_to(user.clone(), create(None), vec![put("k", 1024)]).unwrap();
    for session in ["a", "b", "c"] {
        bench.send(session, create(None), vec![put("k", 100)]).unwrap();
    }
    for (bucket, operations) in [
        (session("d"), vec![put("k", 8 * 1024)]),
        (session("a"), vec![put("l", 7 * 1024)]),
        (user, vec![put("l", 8 * 1024)]),
    ] {
        let failure = bench.send_to(bucket.clone(), create(None), operations.clone()).unwrap_err();
        assert_eq!(failure.code, FailureCode::Full);
        let failure =
            bench.send_to(bucket, Precondition::Replace(new_bucket(None)), [operations, vec![put("m", 999)]].concat());
        assert_eq!(failure.unwrap_err().code, FailureCode::Full);
        assert_eq!(there(&bench), "a b c");
    }
}

#[test]
fn buckets_of_other_kinds_are_neither_evicted_nor_cause_eviction() {
    let mut bench = evicting(1, 1024 * KIB);
    bench.send("a", create(None), vec![]).unwrap();
    for n in 0..100 {
        bench.send_to(BucketId::user(format!("u{n}")), create(None), vec![]).unwrap();
    }
    let one_more = BucketId::user("u100");
    assert_eq!(bench.send_to(one_more, create(None), vec![]).unwrap_err().code, FailureCode::TooManyBuckets);
    bench.send("b", create(None), vec![]).unwrap();
    assert_eq!(there(&bench), "b");
    assert_eq!(bench.store.state.lock().slots.count_others(), 100);
}

proptest! {
    /// Against the plainest way to do it: a list in the order of use.
    #[test]
    fn the_store_holds_the_most_recently_used_sessions(steps in prop::collection::vec((0..8_usize, 0..8_u8), 0..200), most in 1..5_usize) {
        let mut bench = evicting(most as u64, 1024 * KIB);
        let mut used: VecDeque<usize> = VecDeque::new();
        for (step, (number, what)) in steps.into_iter().enumerate() {
            let name = format!("s{number}");
            let is_there = used.contains(&number);
            used.retain(|other| *other != number);
            match what {
                0 => {
                    let deletion = bench.delete(&name);
                    prop_assert_eq!(deletion.status == Status::Applied, is_there);
                }
                1..=3 => {
                    prop_assert_eq!(bench.look(&name) == Status::Applied, is_there);
                    if is_there {
                        used.push_back(number);
                    }
                }
                4 => {
                    prop_assert!(bench.send(&name, Precondition::Replace(new_bucket(None)), vec![put("k", step)]).unwrap().created);
                    used.push_back(number);
                }
                _ => {
                    prop_assert_eq!(bench.send(&name, create(None), vec![put("k", step)]).unwrap().created, !is_there);
                    used.push_back(number);
                }
            }
            if used.len() > most {
                used.pop_front();
            }
            let order = bench.store.state.lock().recency.iter().cloned().collect::<Vec<_>>();
            let expected: Vec<String> = used.iter().map(|number| format!("s{number}")).collect();
            prop_assert_eq!(order.iter().map(|id| id.name.clone()).collect::<Vec<_>>(), expected);
        }
    }
}
