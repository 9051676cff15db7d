//! What a store over a key-value store promises beyond the kit: large buckets, small heads, crashes, two hosts, what is removed.

use std::{collections::BTreeSet, sync::Arc, thread, time::Duration};

use fastrand::Rng;
use futures::FutureExt;
use keepline_stores::{
    Deadline, FailureCode, IndexedTransaction, KeyValueStore, ManualClock, Operation, Outcome, Receipt, Status, Store,
    capability,
};
use keepline_stores_tests::{
    key_value::MemoryKeyValue,
    random,
    requests::*,
    stores::{StoreUnderTest, new_writer},
};

const ALL_BYTES: u64 = 16 << 20;
const HEAD: &str = "keepline.session.s";

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn send(store: &dyn Store, transaction: &IndexedTransaction) -> Result<Receipt, FailureCode> {
    let answer = store.transact(&new_writer(), transaction, Deadline::NEVER).now_or_never().unwrap();
    answer.map(|indexed| indexed.receipt).map_err(|failure| failure.code)
}

fn on(values: &MemoryKeyValue, clock: &ManualClock) -> KeyValueStore {
    KeyValueStore::with_clock(values.clone(), clock.clone().into())
}

/// Many entries and records, some of them long.
fn random_operation(rng: &mut Rng) -> Operation {
    let text = |rng: &mut Rng| {
        let most = if rng.u32(0..10) == 0 { 9000 } else { 900 };
        "x".repeat(rng.usize(0..most))
    };
    let key = |rng: &mut Rng| format!("key-{}", rng.u32(0..300));
    let log = if rng.bool() { "history" } else { "log-2" };
    let map = if rng.bool() { "values" } else { "notes" };
    match rng.u32(0..40) {
        0..8 => put_in(map, &[(key(rng), text(rng)), (format!("other-{}", rng.u32(0..9)), text(rng))]),
        8..11 => remove_in(map, &[key(rng)]),
        11 if rng.u32(0..8) == 0 => reset_map(map, &[(key(rng), text(rng))]),
        12..20 => append(log, &(0..rng.usize(1..6)).map(|_| text(rng)).collect::<Vec<_>>()),
        20..22 => {
            let count = rng.u64(1..40);
            replace_oldest(log, count, &[text(rng)][..rng.usize(0..2)])
        }
        22..24 => rewrite(log, rng.u64(0..300), &text(rng)),
        24 if rng.u32(0..8) == 0 => reset_log(log, &[text(rng)]),
        25..28 => read_newest(log, rng.u64(0..100), rng.u64(0..60_000)),
        28..30 => read_oldest(log, rng.u64(0..100), rng.u64(0..60_000)),
        30..32 => read_at(log, &[(rng.u64(0..300), rng.u32(0..80)), (rng.u64(0..300), 3)], rng.u64(0..60_000)),
        32..34 => get_in(
            map,
            &[key(rng), key(rng), "other-1".to_owned()]
                .into_iter()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>(),
            ALL_BYTES,
        ),
        34 => get_all_in_within(map, ALL_BYTES, 10_000),
        35 => page(map, &key(rng), rng.u64(1..50), rng.u64(0..60_000)),
        36 => page_of_keys(map, "", 20),
        _ => describe(),
    }
}

#[test]
fn large_buckets_give_the_same_answers_as_memory() {
    let mut rng = Rng::with_seed(random::seed());
    let clock = ManualClock::new();
    let (memory, values) = (StoreUnderTest::memory(), MemoryKeyValue::default());
    let store = on(&values, &clock);
    for round in 0..random::rounds(3000) {
        let operations: Vec<_> = (0..rng.usize(1..4)).map(|_| random_operation(&mut rng)).collect();
        let asked = transaction("s", create(), operations);
        let answers = [&*memory.store, &store].map(|store| {
            send(store, &asked).map(|receipt| {
                let mut outcomes = receipt.outcomes;
                for outcome in &mut outcomes {
                    match outcome {
                        Outcome::Described(description) => description.created_at = 0,
                        Outcome::Entries(found) => {
                            if let Some(size) = found.missing.as_mut().and_then(|missing| missing.oversize.as_mut()) {
                                size.bytes = 0;
                            }
                        }
                        _ => {}
                    }
                }
                (receipt.status, receipt.unmet, outcomes)
            })
        });
        assert_eq!(answers[0], answers[1], "round {round}: {asked:?}");
        if rng.u32(0..10) == 0 {
            clock.advance(Duration::from_secs(4));
        }
    }
    let [head, parts] = sizes(&values);
    assert!(head <= 1200 && parts < 40_000, "head {head} bytes, largest part {parts}");
}

/// The bytes of the head and of the largest part.
fn sizes(values: &MemoryKeyValue) -> [usize; 2] {
    let values = values.values();
    let parts = values.iter().filter(|(key, _)| key.starts_with("keepline.session.s.")).map(|(_, part)| part.len());
    [values[HEAD].len(), parts.max().unwrap_or(0)]
}

#[test]
fn a_head_stays_small_and_a_turn_costs_the_same_however_long_the_session_is() {
    let (values, clock) = (MemoryKeyValue::default(), ManualClock::new());
    let store = on(&values, &clock);
    let message = format!("{{\"role\":\"user\",\"content\":\"{}\"}}", "what was said ".repeat(30));
    let mut costs = Vec::new();
    for turn in 0..2000 {
        let before = values.calls();
        let question = transaction("s", create(), [get_all(), read_newest("transcript", 20, 65_536)]);
        send(&store, &question).unwrap();
        let asked = values.calls();
        let answer =
            [add("answer_count", 1), put("last_answer", &message), append("transcript", &[&message, &message])];
        send(&store, &transaction("s", existing(), answer)).unwrap();
        costs.push([asked - before, values.calls() - asked]);
        if turn == 300 {
            let [head, part] = sizes(&values);
            assert!(head <= 1024 && part <= 16 << 10, "head {head} bytes, largest part {part}");
        }
    }
    let most = |range: std::ops::Range<usize>, of: usize| costs[range].iter().map(|cost| cost[of]).max().unwrap();
    assert!(most(1..2000, 0) <= 4, "{} calls a question", most(1..2000, 0));
    assert!(most(1..2000, 1) <= 12, "{} calls an answer", most(1..2000, 1));
    let [head, part] = sizes(&values);
    assert!(head <= 1200 && part <= 16 << 10, "head {head} bytes, largest part {part}");
}

#[test]
fn parts_that_are_no_longer_used_are_deleted() {
    let (values, clock) = (MemoryKeyValue::default(), ManualClock::new());
    let store = on(&values, &clock);
    for _ in 0..500 {
        send(&store, &transaction("s", create(), [put("k", &"v".repeat(3000))])).unwrap();
        clock.advance(Duration::from_secs(1));
    }
    let parts = values.values().keys().filter(|key| key.starts_with("keepline.session.s.")).count();
    assert!(parts <= 32, "{parts} parts");
    assert_eq!(
        store.delete(&new_writer(), &deletion_of("s"), Deadline::NEVER).now_or_never().unwrap().unwrap().values,
        1
    );
    let left: Vec<_> = values.values().into_keys().filter(|key| key.starts_with(HEAD)).collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn a_crash_at_any_write_leaves_a_bucket_as_it_was_or_as_it_is_to_be() {
    let (values, clock) = (MemoryKeyValue::default(), ManualClock::new());
    let texts = |text: &str| ["a", "b", "c"].map(|key| (key.to_owned(), text.repeat(3000)));
    let write = |text: &str| transaction("s", create(), [put_in("values", &texts(text)), append("history", &[text])]);
    send(&on(&values, &clock), &write("x")).unwrap();
    let read = transaction("s", existing(), [get_all(), read_all("history")]);
    let before = send(&on(&values, &clock), &read).unwrap().outcomes;
    let stored = values.values();
    let mut seen = BTreeSet::new();
    for writes in 0.. {
        values.restore(stored.clone());
        values.fail_after_writes(Some(writes));
        let answer = send(&on(&values, &clock), &write("y"));
        values.fail_after_writes(None);
        let after = send(&on(&values, &clock), &read).unwrap().outcomes;
        let is_changed = after != before;
        assert!(is_changed || answer.is_err(), "acknowledged and not there");
        if is_changed {
            assert_eq!(after[0], entries(&texts("y")));
            assert!(matches!(&after[1], Outcome::Records(records) if records.extent.length == 2));
        }
        seen.insert(is_changed);
        if answer.is_ok() {
            break;
        }
    }
    assert_eq!(seen.len(), 2);
}

#[test]
fn two_hosts_with_many_writers_lose_updates_and_break_no_bucket() {
    let (values, clock) = (MemoryKeyValue::default(), ManualClock::new());
    send(&on(&values, &clock), &transaction("s", create(), [add("n", 0)])).unwrap();
    let hosts = [on(&values, &clock), on(&values, &clock)].map(Arc::new);
    assert!(!hosts[0].about().can(capability::COMPARE));
    let acknowledged: u64 = thread::scope(|scope| {
        let writers = (0..64).map(|writer| {
            let (host, clock) = (hosts[writer % 2].clone(), clock.clone());
            scope.spawn(move || {
                let record = "r".repeat(500);
                let work = transaction("s", existing(), [add("n", 1), append("history", &[record])]);
                let answers = (0..40).map(|_| {
                    clock.advance(Duration::from_millis(20));
                    send(&*host, &work)
                });
                answers.filter(Result::is_ok).count() as u64
            })
        });
        writers.collect::<Vec<_>>().into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    let read = transaction("s", existing(), [get_all(), read_all("history")]);
    let receipt = send(&*hosts[0], &read).unwrap();
    let Outcome::Records(records) = &receipt.outcomes[1] else { panic!("{:?}", receipt.outcomes) };
    let counted: u64 = entries_of(receipt.outcomes[0].clone()).entries[0].text.parse().unwrap();
    assert_eq!(records.extent.length, counted, "each update was applied as a whole or not at all");
    assert!(0 < counted && counted <= acknowledged, "{counted} of {acknowledged}");
}

#[test]
fn what_has_expired_is_found_and_removed_with_all_its_parts() {
    let (values, clock) = (MemoryKeyValue::default(), ManualClock::new());
    let store = on(&values, &clock);
    let hour = Duration::from_secs(3600);
    for session in 0..30 {
        let work = [put("k", &"v".repeat(3000)), append("history", &["h".repeat(9000)])];
        send(&store, &transaction(&*format!("old-{session}"), create_for(hour), work)).unwrap();
    }
    let kept = transaction("kept", create(), [put("k", &"v".repeat(3000))]);
    send(&store, &kept).unwrap();
    clock.advance(2 * hour);
    for session in 0..30 {
        send(&store, &transaction(&*format!("new-{session}"), create_for(hour), [put("k", "v")])).unwrap();
        clock.advance(Duration::from_secs(3));
    }
    let left: Vec<_> = values.values().into_keys().filter(|key| key.contains(".old-")).collect();
    assert_eq!(left, [""; 0]);
    assert!(values.values().len() < 50, "{:#?}", values.values().keys());
    assert_eq!(send(&store, &kept).unwrap().status, Status::Applied);
}

#[test]
fn a_bucket_that_has_expired_is_created_again_without_what_it_had() {
    let (values, clock) = (MemoryKeyValue::default(), ManualClock::new());
    let store = on(&values, &clock);
    let hour = Duration::from_secs(3600);
    let mut generations = BTreeSet::new();
    for _ in 0..5 {
        let work = [put("k", &"v".repeat(3000)), count("history"), append("history", &["h"])];
        let receipt = send(&store, &transaction("s", create_for(hour), work)).unwrap();
        assert!(receipt.created);
        assert_eq!(receipt.outcomes[1], extent(0, 0));
        generations.insert(receipt.generation);
        clock.advance(hour);
    }
    assert_eq!(generations.len(), 5);
    assert!(!values.values().keys().any(|key| key.starts_with("keepline_create")));
}

#[test]
fn a_page_of_names_is_found_among_the_keys_of_other_things() {
    runtime().block_on(async {
        let (values, clock) = (MemoryKeyValue::default(), ManualClock::new());
        let under_test = StoreUnderTest::key_value_in(values.clone(), clock);
        let mut foreign = values.values();
        for number in 0..200 {
            foreign.insert(format!("theirs:{number}"), b"x".to_vec());
        }
        values.restore(foreign);
        let mut names: Vec<String> = (0..40).map(|number| format!("s{number:02}")).collect();
        for name in &names {
            under_test.ask(&transaction(&**name, create(), [put("k", &"v".repeat(2000))])).await;
        }
        under_test.ask(&transaction(keepline_stores::BucketId::user("u"), create(), [])).await;
        for limit in [1, 3, 7, 100] {
            let mut listed = under_test.list(limit).await;
            listed.sort_unstable();
            listed.dedup();
            assert_eq!(listed, names, "limit {limit}");
        }
        under_test.delete("s07").await;
        names.remove(7);
        assert_eq!(under_test.list(5).await, names);
    });
}
