use fastrand::Rng;
use keepline_stores::*;
use keepline_stores_tests::{requests::*, stores::StoreUnderTest};
use std::time::Duration;
const MAPS: [&str; 3] = ["values", "notes", "m2"];
const KEYS: [&str; 5] = ["k", "l", "count", "n.2", "_x-"];
const LOGS: [&str; 3] = ["history", "l", "log-2"];
const TEXTS: [&str; 10] = ["1", "0", "-5", "007", "", "\"é\"", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "a text of more than the thirty bytes that a short one has"];
const LIMITS: [u64; 8] = [0, 1, 2, 3, 5, 30, 60, u64::MAX];
const AMOUNTS: [i64; 8] = [1, 1, 1, -1, 0, 1_000_000, i64::MAX, i64::MIN];
fn pick<'a, T>(r: &mut Rng, all: &'a [T]) -> &'a T { &all[r.usize(..all.len())] }
fn s(r: &mut Rng, all: &[&str]) -> String { (*pick(r, all)).to_owned() }
fn subset(r: &mut Rng) -> Vec<String> { KEYS.iter().filter(|_| r.u8(..3) == 0).map(|k| (*k).to_owned()).collect() }
fn entries(r: &mut Rng) -> Vec<Entry> { subset(r).into_iter().map(|key| Entry { key, text: s(r, &TEXTS) }).collect() }
fn texts(r: &mut Rng) -> Vec<String> { (0..r.usize(..4)).map(|_| s(r, &TEXTS)).collect() }
fn marks(r: &mut Rng, n: usize) -> Vec<PositionMark> {
    if n == 0 { return vec![]; }
    let mut v: Vec<PositionMark> = vec![];
    for m in ["notes", "m2"] { for k in subset(r) { if r.bool() { v.push(PositionMark { map_name: m.into(), key: k, record_index: r.u32(..n as u32) }); } } }
    v
}
fn position(r: &mut Rng) -> u64 { *pick(r, &[0, 1, 2, 3, 4, 5, 8, 12, u64::MAX]) }
fn expectation(r: &mut Rng) -> Expectation {
    match r.u8(..3) {
        0 => Expectation::Entry(ExpectedEntry { map_name: s(r, &MAPS), key: s(r, &KEYS), state: *pick(r, &[EntryState::Absent, EntryState::Present, EntryState::Equal, EntryState::AbsentOrEqual]), text: s(r, &TEXTS) }),
        1 => Expectation::Log(ExpectedLog { log: s(r, &LOGS), first: r.bool().then(|| position(r)), next: r.bool().then(|| position(r)) }),
        _ => Expectation::Room(ExpectedRoom { map_name: s(r, &MAPS), limit: *pick(r, &LIMITS) }),
    }
}
fn operation(r: &mut Rng) -> Operation {
    match r.u8(..17) {
        0 => Operation::Get(GetOperation { map_name: s(r, &MAPS), keys: subset(r), max_bytes: *pick(r, &LIMITS) }),
        1 => Operation::GetAll(GetAllOperation { map_name: s(r, &MAPS), max_entries: *pick(r, &LIMITS), max_bytes: *pick(r, &LIMITS) }),
        2 => Operation::Page(PageOperation { map_name: s(r, &MAPS), cursor: String::new(), max_entries: 100, max_bytes: u64::MAX, keys_only: r.bool() }),
        3 | 4 => Operation::Put(PutOperation { map_name: s(r, &MAPS), entries: entries(r) }),
        5 => Operation::Increment(IncrementOperation { map_name: s(r, &MAPS), key: s(r, &KEYS), amount: *pick(r, &AMOUNTS) }),
        6 => Operation::Remove(RemoveOperation { map_name: s(r, &MAPS), keys: subset(r) }),
        7 => Operation::ResetMap(ResetMapOperation { map_name: s(r, &MAPS), entries: entries(r) }),
        8 | 9 => { let records = texts(r); let marks = marks(r, records.len()); Operation::Append(AppendOperation { log: s(r, &LOGS), records, marks }) }
        10 => Operation::Read(ReadOperation { log: s(r, &LOGS), end: *pick(r, &[LogEnd::Oldest, LogEnd::Newest]), max_records: *pick(r, &LIMITS), max_bytes: *pick(r, &LIMITS) }),
        11 => Operation::ReadAt(ReadAtOperation { log: s(r, &LOGS), spans: (0..r.usize(..4)).map(|_| Span { position: position(r), count: *pick(r, &[0, 1, 2, 5, u32::MAX]) }).collect(), max_bytes: *pick(r, &LIMITS) }),
        12 => { let limit = *pick(r, &LIMITS); Operation::Overflow(OverflowOperation { log: s(r, &LOGS), limit, keep: limit / 2, max_records: *pick(r, &LIMITS), max_bytes: *pick(r, &LIMITS) }) }
        13 => Operation::ReplaceOldest(ReplaceOldestOperation { log: s(r, &LOGS), count: *pick(r, &LIMITS), records: texts(r).into_iter().take(1).collect() }),
        14 => Operation::Rewrite(RewriteOperation { log: s(r, &LOGS), records: { let mut p = vec![position(r), position(r)]; p.dedup(); p.into_iter().take(1 + usize::from(r.bool())).map(|position| PositionedRecord { position, text: s(r, &TEXTS) }).collect() } }),
        15 => { let records = texts(r); let marks = marks(r, records.len()); Operation::ResetLog(ResetLogOperation { log: s(r, &LOGS), records, marks }) }
        _ => if r.bool() { Operation::Lease(LeaseOperation { lease: s(r, &["a", "b"]), holder: s(r, &["me", "you"]), milliseconds: *pick(r, &[0, 3_600_000]) }) } else { Operation::Describe(DescribeOperation { parts: r.bool() }) },
    }
}
fn scrub(receipt: &mut Receipt) {
    receipt.now = 0; receipt.incarnation = String::new();
    for o in &mut receipt.outcomes { match o {
        Outcome::Oversize(o) => o.bytes = 0,
        Outcome::Lease(l) => l.expires_in = u64::from(l.expires_in > 0),
        Outcome::Described(d) => d.expires_in = d.expires_in.map(|_| 1),
        Outcome::Page(p) => p.entries.sort_by(|a, b| a.key.cmp(&b.key)),
        _ => {}
    } }
}
#[test]
fn same() {
    let seed = std::env::var("SEED").map(|s| s.parse().unwrap()).unwrap_or_else(|_| fastrand::u64(..));
    println!("SEED={seed}");
    let mut r = Rng::with_seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut counts = std::collections::BTreeMap::new();
    runtime.block_on(async {
        for _ in 0..60 {
            let stores = [StoreUnderTest::memory(), StoreUnderTest::redis(), StoreUnderTest::redis_general()];
            let mut repeat: Option<(Writer, Transaction)> = None;
            let mut writer = Writer::new();
            let mut incarnations: Option<Vec<String>> = None;
            for _ in 0..300 {
                let opening = match r.u8(..20) { 0 => create_new(), 1 => replace(), 2 => unused(), 3..6 => existing(), 6 => create_sliding(Duration::from_secs(3600)), 7 => Opening::Existing(ExistingLife { incarnation: Some("nobody".into()), renew: true }), _ => create() };
                let expectations: Vec<_> = (0..r.usize(..3).saturating_sub(r.usize(..2))).map(|_| expectation(&mut r)).collect();
                let operations: Vec<_> = (0..r.usize(..6)).map(|_| operation(&mut r)).collect();
                let (w, t) = if r.u8(..6) == 0 && repeat.is_some() { repeat.clone().unwrap() } else {
                    (writer.advance().clone(), Transaction { bucket: session("b"), opening, expectations, operations })
                };
                let mut answers = vec![];
                for store in &stores {
                    let mut a = store.store.transact(&w, &t, Deadline::NEVER).await;
                    if let Ok(receipt) = &mut a { scrub(receipt); }
                    let a = a.map_err(|f| (f.code, f.subject, f.limit));
                    answers.push(a);
                }
                *counts.entry(format!("{:?}", answers[0].as_ref().map(|r| r.status).map_err(|e| e.0))).or_insert(0) += 1;
                for a in &answers[1..] { assert_eq!(&answers[0], a, "{t:#?}"); }
                repeat = Some((w, t));
                if r.u8(..60) == 0 {
                    let w = writer.advance().clone();
                    let mut all = vec![];
                    for store in &stores { let d = store.store.delete_bucket(&w, &session("b"), r.bool().then_some("nobody").filter(|_| false), 2, Deadline::NEVER).await.unwrap(); all.push((d.status, d.values, d.keys)); }
                    assert!(all.iter().all(|a| *a == all[0]), "{all:?}");
                }
                let _ = &mut incarnations;
            }
        }
    });
    println!("{counts:#?}");
}
