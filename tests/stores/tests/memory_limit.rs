//! The memory store's limit holds for the process's real memory, whatever fills it.

use std::{env, fs, process::Command, sync::Arc};

use keepline_stores::{Deadline, FailureCode, IndexedTransaction, MemoryLimits, MemoryStore, Store, Writer};
use keepline_stores_tests::requests::{
    Work, add, add_documents, append, create, document, put, put_in, replace_oldest, session, transaction,
};

const LIMIT: u64 = 64 << 20;
/// What the allocator and the process add, in parts of a hundred.
const SLACK: u64 = 10;
const CHILD: &str = "KEEPLINE_TEST_FILLS";

/// Fills a store until it is full, in one way each.
type Fill = fn(u64) -> Vec<IndexedTransaction>;

fn one(bucket: &str, work: impl Into<Work>) -> Vec<IndexedTransaction> {
    vec![transaction(session(bucket), create(), work)]
}

const FILLS: [(&str, Fill); 12] = [
    ("sessions", |n| one(&format!("s{n}"), vec![])),
    ("counters", |n| one(&format!("s{n}"), vec![add("answer_count", 1)])),
    ("short values", |n| one(&format!("s{}", n / 100), vec![put(&format!("key{n}"), "12345")])),
    ("values of a line", |n| one(&format!("s{}", n / 100), vec![put(&format!("key{n}"), &"x".repeat(65))])),
    ("values with long keys", |n| {
        one(&format!("s{}", n / 100), vec![put(&format!("a-key-that-is-longer-than-most-{n}"), &"x".repeat(26))])
    }),
    ("large values that shrink", |n| {
        let key = format!("key{}", n % 50);
        [100_000, 81_000]
            .into_iter()
            .flat_map(|length| one(&format!("s{}", n / 50), vec![put(&key, &"x".repeat(length))]))
            .collect()
    }),
    ("records of a byte", |n| {
        let records: Vec<_> = (0..500).map(|_| "x").collect();
        one(&format!("s{}", n / 1000), vec![append("turns", &records)])
    }),
    ("records of a line", |n| {
        let records: Vec<_> = (0..100).map(|_| "x".repeat(130)).collect();
        one(&format!("s{}", n / 100), vec![append("turns", &records)])
    }),
    ("one record in each session", |n| one(&format!("s{n}"), vec![append("turns", &["x".repeat(200)])])),
    ("logs that were long", |n| {
        let records: Vec<_> = (0..200).map(|_| "x").collect();
        [vec![append("turns", &records)], vec![replace_oldest::<&str>("turns", 199, &[])]]
            .into_iter()
            .flat_map(|operations| one(&format!("s{n}"), operations))
            .collect()
    }),
    ("entries of a map", |n| {
        let entries: Vec<_> = (0..100).map(|k| (format!("{n:08}-{k:03}"), "x".repeat(30))).collect();
        one(&format!("s{}", n / 30), vec![put_in("notes", &entries)])
    }),
    ("an index", |n| {
        let documents: Vec<_> = (0..200)
            .map(|at| {
                let first = (n as u32 * 31 + at as u32 * 7) % 1000;
                let terms: Vec<u32> = (0..20).map(|term| first + term * 1000).collect();
                document(n % 20 * 200 + at, &terms)
            })
            .collect();
        one(&format!("s{}", n / 20), add_documents("recall", documents))
    }),
];

fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

async fn fill(fill: Fill) -> u64 {
    let limits = MemoryLimits { max_sessions: 10_000_000, max_bytes: LIMIT, ..MemoryLimits::default() };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(limits));
    let mut writer = Writer::new();
    // What a first transaction needs once.
    let warm = transaction(session("warm"), create(), [append("turns", &["1"]), put("a", "1")]);
    store.transact(writer.advance(), &warm, Deadline::NEVER).await.unwrap();
    let before = resident();
    for n in 0.. {
        for transaction in fill(n) {
            match store.transact(writer.advance(), &transaction, Deadline::NEVER).await {
                Ok(_) => {}
                Err(failure) => {
                    assert_eq!(failure.code, FailureCode::Full, "{failure:?}");
                    return resident() - before;
                }
            }
        }
    }
    unreachable!()
}

#[tokio::test]
async fn a_memory_store_uses_no_more_process_memory_than_its_limit() {
    if let Ok(name) = env::var(CHILD) {
        let (_, how) = FILLS.iter().find(|(filled, _)| *filled == name).unwrap();
        println!("takes {}", fill(*how).await);
        return;
    }
    let mut over = Vec::new();
    for (name, _) in FILLS {
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "a_memory_store_uses_no_more_process_memory_than_its_limit", "--nocapture"])
            .env(CHILD, name)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&child.stdout).into_owned();
        assert!(child.status.success(), "{name}: {text}");
        let takes = text.lines().find_map(|line| line.rsplit_once("takes ")).unwrap().1.parse::<u64>().unwrap();
        println!("{name}: {:.1} MiB", takes as f64 / f64::from(1 << 20));
        if takes > LIMIT + LIMIT / 100 * SLACK {
            over.push((name, takes));
        }
    }
    assert!(over.is_empty(), "over {LIMIT}: {over:?}");
}
