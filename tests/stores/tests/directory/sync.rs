//! Waiting for the disk, and sharing a sync. That what was acknowledged survives a power cut is shown elsewhere, by
//! cutting the power.

use futures::{future::join_all, poll};
use keepline_stores::{DirectorySync, FailureCode};

use super::*;

fn open(bench: &Bench, sync: DirectorySync) -> DirectoryStore {
    DirectoryStore::open(bench.path(), DirectoryOptions { sync, ..bench.options.clone() }).unwrap()
}

#[test]
fn reads_wait_for_no_sync_and_writes_do() {
    let bench = Bench::new();
    let store = open(&bench, DirectorySync::Group);
    block_on(async {
        apply(&store, "a", create_sliding(HOUR), [get_all()]).await;
        bench.clock.advance(HOUR / 2);
        apply(&store, "a", existing(), [get_all(), describe()]).await;
        assert_eq!(store.counters().syncs, 0, "a question that creates and one that renews its session");
        let writes = [
            transaction("a", existing(), [add("n", 1)]),
            transaction("b", create_new(), []),
            transaction("b", create_new(), []),
            expecting("a", existing(), [absent("n")], [put("n", "2")]),
        ];
        for (n, write) in (1..).zip(writes) {
            send(&store, &write).await.unwrap();
            // Also who is told that it is done already: that must be true tomorrow, too.
            assert_eq!(store.counters().syncs, n);
        }
        assert_eq!(delete(&store, "b").await, Status::Applied);
        assert_eq!(store.counters().syncs, 5);
    });
}

#[test]
fn writers_at_one_time_share_a_commit_and_a_sync() {
    for sync in [DirectorySync::Group, DirectorySync::Off] {
        let bench = Bench::new();
        let store = open(&bench, sync);
        block_on(async {
            let hold = bench.raw();
            hold.execute_batch("BEGIN IMMEDIATE").unwrap();
            let mut all = Box::pin(join_all((0..64).map(async |n| {
                let counted = apply(&store, &format!("s{}", n % 7), create(), [add("n", 1)]).await;
                assert!(matches!(counted[..], [Outcome::Counter(_)]));
            })));
            // All of them have been sent by then, and none could be committed.
            assert!(poll!(&mut all).is_pending());
            hold.execute_batch("COMMIT").unwrap();
            all.await;
            let counted = store.counters();
            assert!((1..=3).contains(&counted.commits), "{sync:?}: {counted:?}");
            assert!(counted.syncs <= if sync == DirectorySync::Off { 0 } else { 3 }, "{sync:?}: {counted:?}");
        });
    }
}

#[test]
fn each_call_has_a_separate_sync_under_always() {
    let bench = Bench::new();
    let store = open(&bench, DirectorySync::Always);
    block_on(join_all((0..16).map(async |n| {
        apply(&store, &format!("s{n}"), create(), [add("n", 1)]).await;
    })));
    let counted = store.counters();
    assert_eq!((counted.commits, counted.syncs), (16, 16));
}

#[test]
fn deletions_of_one_call_share_a_commit_and_a_sync_and_fail_one_by_one() {
    let bench = Bench::new();
    let store = open(&bench, DirectorySync::Always);
    block_on(async {
        for n in 0..32 {
            let precondition = if n == 0 { create_for(HOUR) } else { create() };
            apply(&store, &format!("s{n}"), precondition, [put("k", "1"), append("l", &["x"])]).await;
        }
        // Whether the first has expired is in doubt.
        bench.clock.jump_ahead(DAY);
        let mut requests: Vec<_> = (0..34).map(|n| deletion_of(&format!("s{n}"))).collect();
        requests[1].generation = Some("another".into());
        requests[2].bucket.name = "no name".into();
        let (before, mut writer) = (store.counters(), Writer::new());
        let deleted = store.delete_each(writer.advance(), &requests, Deadline::NEVER).await;
        let after = store.counters();
        assert_eq!((after.commits - before.commits, after.syncs - before.syncs), (1, 1));
        assert_eq!(deleted.len(), 34);
        for (n, deleted) in deleted.into_iter().enumerate() {
            match (n, deleted) {
                (0, Err(failure)) => assert_eq!(failure.subject, "expiry"),
                (2, Err(failure)) => assert_eq!(failure.code, FailureCode::Invalid),
                (1, Ok(deletion)) => assert_eq!(deletion.status, Status::GenerationMismatch),
                (32 | 33, Ok(deletion)) => assert_eq!(deletion.status, Status::Absent),
                (_, Ok(deletion)) => {
                    assert_eq!(
                        (deletion.status, deletion.values, &*deletion.keys),
                        (Status::Applied, 1, &["k".into()][..])
                    );
                }
                (_, Err(failure)) => panic!("{n}: {failure}"),
            }
        }
        let again = store.delete_each(&writer, &requests[3..32], Deadline::NEVER).await;
        assert!(again.iter().all(|again| again.as_ref().is_ok_and(|again| again.status == Status::Repeated)));
        let twice = store.delete_each(writer.advance(), &[deletion_of("s1"), deletion_of("s1")], Deadline::NEVER).await;
        assert!(twice.iter().all(|twice| twice.as_ref().is_err_and(|failure| failure.code == FailureCode::Invalid)));
        assert_eq!(send(&store, &transaction("s1", existing(), [])).await.unwrap().status, Status::Applied);
    });
}

#[test]
fn a_call_refused_after_writing_undoes_only_itself_in_a_shared_commit() {
    for sync in [DirectorySync::Group, DirectorySync::Off] {
        let bench = Bench::new();
        let store = open(&bench, sync);
        block_on(async {
            apply(&store, "b", create(), [put("word", "\"x\"")]).await;
            let before = store.counters();
            let hold = bench.raw();
            hold.execute_batch("BEGIN IMMEDIATE").unwrap();
            let mut all = Box::pin(join_all((0..32).map(async |n| {
                let key = format!("k{n}");
                let counter = if n % 8 == 5 { "word" } else { "n" };
                send(&store, &transaction("b", existing(), [put(&key, "1"), add(counter, 1)])).await
            })));
            assert!(poll!(&mut all).is_pending());
            hold.execute_batch("COMMIT").unwrap();
            let answers = all.await;
            for (n, answer) in answers.iter().enumerate() {
                assert_eq!(answer.as_ref().is_err_and(|failure| failure.code == FailureCode::NotACounter), n % 8 == 5);
                let key = format!("k{n}");
                let there: &[_] = if n % 8 == 5 { &[] } else { &[(&key, "1")] };
                assert_eq!(apply(&store, "b", existing(), [get(&key)]).await, [entries(there)]);
            }
            assert_eq!(apply(&store, "b", existing(), [get("n")]).await, [entries(&[("n", "28")])]);
            let commits = store.counters().commits - before.commits;
            assert!((1..=3).contains(&commits), "{sync:?}: {commits} commits");
        });
    }
}
