//! Many writers on one bucket at once: nothing is lost and nothing counts twice.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use keepline_stores::{
    Deadline, EntryState, IndexedTransaction, LogRecords, Outcome, RecordRun, Status, Store, Writer,
};
use keepline_stores_tests::{on_stores, requests::*, stores::StoreUnderTest};
use tokio::task::JoinSet;

const WRITERS: u64 = 16;
const ROUNDS: u64 = 150;
const HOUR: Duration = Duration::from_secs(3600);

/// Run a writer sixteen times at once, each with its number.
async fn all_at_once<F: Future<Output = ()> + Send + 'static>(
    s: &StoreUnderTest,
    writer: impl Fn(Arc<dyn Store>, u64) -> F,
) {
    let mut tasks = JoinSet::new();
    for number in 0..WRITERS {
        tasks.spawn(writer(s.store.clone(), number));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

async fn sent(store: &Arc<dyn Store>, writer: &Writer, transaction: &IndexedTransaction) -> (Status, Vec<Outcome>) {
    let receipt = store.transact(writer, transaction, Deadline::NEVER).await.unwrap().receipt;
    (receipt.status, receipt.outcomes)
}

/// The run of records that an end of a log was read as; none: nothing was read.
fn run_of(outcome: &Outcome) -> Option<&RecordRun> {
    match outcome {
        Outcome::Records(LogRecords { runs, .. }) => runs.first(),
        Outcome::Extent(_) => None,
        other => panic!("{other:?} is not what a log is read as"),
    }
}

/// The newest documents' terms lie in a log, and whoever sees that there are enough of them folds them into the index.
async fn records_folded_into_an_index_by_many_writers_are_indexed_once(s: Arc<StoreUnderTest>) {
    all_at_once(&s, async |store, number| {
        let mut writer = Writer::new();
        for round in 0..20 {
            let record = (number * 20 + round).to_string();
            let asked =
                transaction("b", create(), [append("terms", &[&record]), read_surplus("terms", 10, 5, 64, ALL)]);
            let (status, outcomes) = sent(&store, writer.advance(), &asked).await;
            assert_eq!(status, Status::Applied);
            let Some(surplus) = run_of(&outcomes[1]) else { continue };
            let terms = |record: &String| [7, 1000 + record.parse::<u32>().unwrap()];
            let documents = (surplus.first..).zip(&surplus.records).map(|(at, record)| document(at, &terms(record)));
            let fold = (
                add_documents("recall", documents.collect::<Vec<_>>()),
                replace_oldest("terms", surplus.records.len() as u64, NONE),
            );
            let fold = expecting("b", existing(), [log_at("terms", surplus.first, None)], fold);
            let (status, _) = sent(&store, writer.advance(), &fold).await;
            assert!(matches!(status, Status::Applied | Status::Unmet), "{status:?}");
        }
    })
    .await;
    let left = s.apply_one("b", read_all("terms")).await;
    let found = s.apply_step("b", search("recall", &[7])).await;
    let folded = extent_of(&left).first;
    assert_eq!((found.extent.next, found.extent.documents), (folded, folded));
    assert!(found.runs[0].marks.iter().copied().eq((0..folded).map(mark_of)));
    let mut seen: BTreeSet<_> = records_of(&left).iter().map(|record| record.parse::<u32>().unwrap()).collect();
    for terms in (0..320).collect::<Vec<u32>>().chunks(256) {
        let asked: Vec<_> = terms.iter().map(|n| 1000 + n).collect();
        let found = s.apply_step("b", search("recall", &asked)).await;
        for (n, term) in terms.iter().zip(&found.terms) {
            assert!(term.offsets.is_empty() || (term.offsets.len() == 1 && seen.insert(*n)), "{n}");
        }
    }
    assert_eq!(seen.len(), 320);
}

async fn counters_are_exact_and_no_record_is_lost(s: Arc<StoreUnderTest>) {
    all_at_once(&s, async |store, number| {
        let mut writer = Writer::new();
        let mut last = 0;
        for round in 0..ROUNDS {
            let record = format!("{number}:{round}");
            let operations = [
                add("n", 1),
                add(&format!("n-{number}"), 1),
                append("history", &[&record]),
                put("last", &record),
                get("last"),
            ];
            let (status, outcomes) = sent(&store, writer.advance(), &transaction("b", create(), operations)).await;
            assert_eq!(status, Status::Applied);
            let Outcome::Counter(n) = &outcomes[0] else { panic!("{outcomes:?}") };
            // What one is told is stored, nobody else comes between.
            assert!(n.value > last);
            last = n.value;
            assert_eq!(outcomes[1], counter(i64::try_from(round + 1).unwrap()));
            assert_eq!(outcomes[2], extent(0, n.value.unsigned_abs()), "counted and appended in one step");
            assert_eq!(outcomes[4], entries(&[("last", &record)]));
        }
    })
    .await;
    let total = WRITERS * ROUNDS;
    assert_eq!(s.apply_one("b", get("n")).await, entries(&[("n", total.to_string())]));
    let log = s.apply_one("b", read_all("history")).await;
    assert_eq!((extent_of(&log).first, extent_of(&log).length), (0, total));
    let records = records_of(&log);
    let distinct: BTreeSet<_> = records.iter().collect();
    assert_eq!(distinct.len() as u64, total);
    for number in 0..WRITERS {
        let own: Vec<_> = records.iter().filter(|record| record.starts_with(&format!("{number}:"))).collect();
        let in_order: Vec<_> = (0..ROUNDS).map(|round| format!("{number}:{round}")).collect();
        assert!(own.into_iter().eq(&in_order), "each writer's records are in its order");
    }
}

async fn transactions_sent_twice_by_all_count_once(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    all_at_once(&s, async |store, number| {
        let mut writer = Writer::new();
        for round in 0..ROUNDS {
            let once = transaction("b", existing(), [add("n", 1), append("l", &[format!("{number}:{round}")])]);
            let writer = writer.advance().clone();
            // Both tries at the same time, as when the first one's reply is late.
            let (one, other) = futures::join!(sent(&store, &writer, &once), sent(&store, &writer, &once));
            let statuses = [one.0, other.0];
            assert!(statuses.contains(&Status::Applied) && statuses.contains(&Status::Repeated), "{statuses:?}");
        }
    })
    .await;
    let total = WRITERS * ROUNDS;
    let outcomes = s.apply("b", existing(), [get("n"), count("l")]).await;
    assert_eq!(outcomes, [entries(&[("n", total.to_string())]), extent(0, total)]);
}

/// As where each request has a pipe of its own.
async fn late_retries_of_many_new_writers_count_once(s: Arc<StoreUnderTest>) {
    s.apply("b", create(), []).await;
    all_at_once(&s, async |store, number| {
        let once = |round| transaction("b", existing(), [add("n", 1), append("l", &[format!("{number}:{round}")])]);
        let writers: Vec<_> = (0..ROUNDS).map(|_| Writer::new().advance().clone()).collect();
        for (round, writer) in writers.iter().enumerate() {
            assert_eq!(sent(&store, writer, &once(round)).await.0, Status::Applied);
        }
        for (round, writer) in writers.iter().enumerate() {
            assert_eq!(sent(&store, writer, &once(round)).await.0, Status::Repeated);
        }
    })
    .await;
    let total = WRITERS * ROUNDS;
    let outcomes = s.apply("b", existing(), [get("n"), count("l")]).await;
    assert_eq!(outcomes, [entries(&[("n", total.to_string())]), extent(0, total)]);
}

/// As the filter keeps its history: an append finds the log too long and is handed the surplus, which is
/// folded into one record under the expectation that nobody has folded it meanwhile.
async fn constant_summarizing_loses_no_record(s: Arc<StoreUnderTest>) {
    const LIMIT: u64 = 10;
    let (folded, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    all_at_once(&s, |store, number| {
        let (folded, refused) = (folded.clone(), refused.clone());
        async move {
            let mut writer = Writer::new();
            for round in 0..ROUNDS {
                let operations = [
                    add("n", 1),
                    append("history", &[format!("{number}:{round}")]),
                    read_surplus("history", LIMIT, LIMIT / 2, 64, ALL),
                ];
                let (status, outcomes) = sent(&store, writer.advance(), &transaction("b", create(), operations)).await;
                assert_eq!(status, Status::Applied);
                let Some(surplus) = run_of(&outcomes[2]).filter(|surplus| surplus.records.len() >= 2) else { continue };
                let summary = format!("sum {}", surplus.records.iter().map(|record| weight(record)).sum::<u64>());
                let replace = replace_oldest("history", surplus.records.len() as u64, &[&summary]);
                let fold = expecting("b", existing(), [log_at("history", surplus.first, None)], [replace]);
                match sent(&store, writer.advance(), &fold).await.0 {
                    Status::Applied => folded.fetch_add(1, Ordering::Relaxed),
                    Status::Unmet => refused.fetch_add(1, Ordering::Relaxed),
                    other => panic!("{other:?}"),
                };
            }
        }
    })
    .await;
    let log = s.apply_one("b", read_all("history")).await;
    let total = WRITERS * ROUNDS;
    assert_eq!(records_of(&log).iter().map(|record| weight(record)).sum::<u64>(), total);
    let log = extent_of(&log);
    assert_eq!(s.apply_one("b", get("n")).await, entries(&[("n", total.to_string())]));
    // Positions are never used again: those gone and those there are all that were ever given.
    assert_eq!(log.first + log.length, total);
    let folded = folded.load(Ordering::Relaxed);
    assert!(folded > 20, "only {folded} summaries, {} refused", refused.load(Ordering::Relaxed));
    assert!(log.length < total / 2, "{} of {total} records are left", log.length);
}

/// How many records a record stands for.
fn weight(record: &str) -> u64 {
    record.strip_prefix("sum ").map_or(1, |count| count.parse().unwrap())
}

async fn exactly_one_of_many_simultaneous_creators_creates_the_bucket(s: Arc<StoreUnderTest>) {
    for bucket in 0..30 {
        let created = Arc::new(AtomicU64::new(0));
        all_at_once(&s, |store, number| {
            let created = created.clone();
            async move {
                let precondition = if number % 2 == 0 { create_new() } else { create() };
                let counted = transaction(&format!("b{bucket}"), precondition, [add("n", 1)]);
                let receipt = store.transact(Writer::new().advance(), &counted, Deadline::NEVER).await.unwrap().receipt;
                match receipt.status {
                    Status::Applied => created.fetch_add(u64::from(receipt.created), Ordering::Relaxed),
                    Status::Exists if number % 2 == 0 => 0,
                    other => panic!("{other:?}"),
                };
            }
        })
        .await;
        assert_eq!(created.load(Ordering::Relaxed), 1);
        let Outcome::Entries(n) = s.apply_one(&format!("b{bucket}"), get("n")).await else { panic!("no value") };
        let counted: u64 = n.entries[0].text.parse().unwrap();
        assert!((WRITERS / 2..=WRITERS / 2 + 1).contains(&counted), "{counted}");
    }
}

async fn buckets_deleted_and_created_all_the_time_are_whole_or_not_there(s: Arc<StoreUnderTest>) {
    all_at_once(&s, async |store, number| {
        let mut writer = Writer::new();
        for _ in 0..ROUNDS {
            if number % 4 == 0 {
                let deleted =
                    store.delete(writer.advance(), &deletion_of(session("b")), Deadline::NEVER).await.unwrap();
                match deleted.status {
                    Status::Applied => assert_eq!(deleted.keys, ["a", "b", "c"]),
                    Status::Absent => assert_eq!(deleted.keys, [""; 0]),
                    other => panic!("{other:?}"),
                }
            } else {
                let operations =
                    [add("a", 1), put("b", "1"), put("c", "1"), append("l", &["x"]), page_of_keys("values", "", 10)];
                let (status, outcomes) = sent(&store, writer.advance(), &transaction("b", create(), operations)).await;
                assert_eq!(status, Status::Applied);
                let Outcome::Counter(n) = &outcomes[0] else { panic!("{outcomes:?}") };
                assert_eq!(outcomes[3], extent(0, n.value.unsigned_abs()), "a life starts with nothing of the last");
                assert_eq!(entries_of(outcomes[4].clone()).entries.len(), 3);
            }
        }
    })
    .await;
}

/// Deferred work: whoever has the lease does it, alone, and gives the lease back with what it wrote.
async fn a_lease_is_held_by_one_at_a_time(s: Arc<StoreUnderTest>) {
    let (working, asked) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    all_at_once(&s, |store, number| {
        let (working, asked) = (working.clone(), asked.clone());
        async move {
            let (mut writer, holder) = (Writer::new(), format!("holder-{number}"));
            let mut turns = 0;
            while turns < ROUNDS / 4 {
                asked.fetch_add(1, Ordering::SeqCst);
                let take = transaction("b", create(), (lease("work", &holder, HOUR), [add("asked", 1), get("n")]));
                let taken = store.transact(writer.advance(), &take, Deadline::NEVER).await.unwrap();
                assert_eq!(taken.receipt.status, Status::Applied);
                let (lease_state, n) = (taken.lease.unwrap(), entries_of(taken.receipt.outcomes[1].clone()));
                assert_eq!(lease_state.held, lease_state.holder == holder);
                if !lease_state.held {
                    tokio::task::yield_now().await;
                    continue;
                }
                assert_eq!(working.fetch_add(1, Ordering::SeqCst), 0, "another works on it");
                tokio::task::yield_now().await;
                let next = n.entries.first().map_or(0, |n| n.text.parse::<u64>().unwrap()) + 1;
                working.fetch_sub(1, Ordering::SeqCst);
                // Read before, written now: nobody came between.
                let give_back = (put("n", &next.to_string()), lease("work", &holder, Duration::ZERO));
                let give_back = transaction("b", existing(), give_back);
                let given = store.transact(writer.advance(), &give_back, Deadline::NEVER).await.unwrap();
                assert!(given.lease.is_some_and(|lease| !lease.held && lease.holder.is_empty()));
                turns += 1;
            }
        }
    })
    .await;
    let (done, asked) = (WRITERS * (ROUNDS / 4), asked.load(Ordering::SeqCst));
    let both = entries(&[("n", done.to_string()), ("asked", asked.to_string())]);
    assert_eq!(s.apply_one("b", get_in("values", &["n", "asked"], ALL)).await, both);
}

/// As the filter stores an answer once: under the expectation that its id is not there, with a mark of where it is.
async fn a_record_appended_by_all_under_one_expectation_is_appended_once(s: Arc<StoreUnderTest>) {
    all_at_once(&s, async |store, number| {
        let mut writer = Writer::new();
        for round in 0..ROUNDS {
            let id = format!("id-{round}");
            let once = expecting(
                "b",
                create(),
                [entry_in("messages", &id, EntryState::Absent, "")],
                [append_marked("answers", &[format!("{id} of {number}")], &[("messages", &id, 0)])],
            );
            let (status, _) = sent(&store, writer.advance(), &once).await;
            assert!(matches!(status, Status::Applied | Status::Unmet), "{status:?}");
        }
    })
    .await;
    let records = records_of(&s.apply_one("b", read_all("answers")).await);
    let ids: BTreeSet<_> = records.iter().map(|record| record.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!((records.len() as u64, ids.len() as u64), (ROUNDS, ROUNDS));
    for (position, record) in records.iter().enumerate() {
        let id = record.split(' ').next().unwrap();
        let mark = entries(&[(id, position.to_string())]);
        assert_eq!(s.apply_one("b", get_in("messages", &[id], ALL)).await, mark);
    }
}

on_stores![run_in_parallel on memory, memory_evicting, directory, redis: [
    counters_are_exact_and_no_record_is_lost,
    records_folded_into_an_index_by_many_writers_are_indexed_once,
    transactions_sent_twice_by_all_count_once,
    late_retries_of_many_new_writers_count_once,
    constant_summarizing_loses_no_record,
    exactly_one_of_many_simultaneous_creators_creates_the_bucket,
    buckets_deleted_and_created_all_the_time_are_whole_or_not_there,
    a_lease_is_held_by_one_at_a_time,
    a_record_appended_by_all_under_one_expectation_is_appended_once,
]];
