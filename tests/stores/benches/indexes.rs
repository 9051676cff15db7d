//! Measures an index on each store, in one run: `cargo bench -p keepline-stores -p keepline-stores-tests --bench indexes`.
//!
//! Documents have 48 terms each, spread as words are; they are added 64 at a time. Looked for are 8 terms that 390 of 6,000
//! documents have on average, which is harsh. `wall` is what a caller waits for, alone; `in Redis` is the script's time by
//! Redis's own count. `KEEPLINE_DOCUMENTS` sets how large the index becomes (100,000).

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    sync::Arc,
    time::{Duration, Instant},
};

use fastrand::Rng;
use keepline_local_redis::RedisServer;
use keepline_stores::{
    BucketId, Deadline, DirectoryOptions, DirectoryStore, DirectorySync, Document, IndexedReceipt, MemoryLimits,
    MemoryStore, RedisStore, Status, Store, Writer,
};
use keepline_stores_tests::{requests::*, servers};

const TERMS: usize = 48;
const FOLD: u64 = 64;
const WORDS: f64 = 400_000.0;
/// As recall asks for.
const AROUND: u32 = 6;
const SEARCHES: usize = 500;

fn main() {
    let documents: u64 = env::var("KEEPLINE_DOCUMENTS").map_or(100_000, |number| number.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let corpus = corpus(documents);
    let wanted = wanted(&corpus);
    runtime.block_on(async {
        let store = Arc::new(MemoryStore::new(MemoryLimits { max_bytes: 4 << 30, ..MemoryLimits::default() }));
        measure("memory", &*store, &corpus, &wanted, || None, || store.used_bytes()).await;
        let directory = tempfile::tempdir().unwrap();
        let options = DirectoryOptions { sync: DirectorySync::Group, ..DirectoryOptions::default() };
        let store = DirectoryStore::open(directory.path(), options).unwrap();
        let bytes = || keepline_stores::directory::check(directory.path(), &DirectoryOptions::default()).unwrap().bytes;
        measure("directory", &store, &corpus, &wanted, || None, bytes).await;
        drop(store);
        if !RedisServer::is_installed() {
            println!("redis-server is not installed, so Redis is not measured");
            return;
        }
        let server = servers::start();
        let store = RedisStore::new(servers::options(server.port())).unwrap();
        let client = redis::Client::open(server.url()).unwrap();
        let bytes = || {
            let mut connection = client.get_connection().unwrap();
            let keys: Vec<String> = redis::cmd("KEYS").arg("*__index.recall__").query(&mut connection).unwrap();
            let of_key = |key: &String| {
                let mut command = redis::cmd("MEMORY");
                command.arg("USAGE").arg(key).arg("SAMPLES").arg(0).query::<u64>(&mut connection).unwrap()
            };
            keys.iter().map(of_key).sum()
        };
        measure("Redis", &store, &corpus, &wanted, || Some(in_scripts(&client)), bytes).await;
    });
}

/// Documents whose terms are spread as words are: the n-th is 1/n as frequent.
fn corpus(documents: u64) -> Vec<Document> {
    let mut rng = Rng::with_seed(1);
    let terms = |rng: &mut Rng| {
        let mut terms = BTreeSet::new();
        while terms.len() < TERMS {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank")]
            let rank = WORDS.powf(rng.f64()) as u32;
            terms.insert(rank.wrapping_mul(0x9e37_79b1) >> 10);
        }
        terms.into_iter().collect()
    };
    (0..documents).map(|position| Document { position, mark: 1, terms: terms(&mut rng) }).collect()
}

/// Eight terms that 390 of the first 6,000 documents have.
fn wanted(corpus: &[Document]) -> Vec<u32> {
    let mut counts = BTreeMap::<u32, u32>::new();
    corpus
        .iter()
        .take(6000)
        .flat_map(|document| &document.terms)
        .for_each(|term| *counts.entry(*term).or_default() += 1);
    let mut by_distance: Vec<_> = counts.into_iter().map(|(term, count)| (count.abs_diff(390), term)).collect();
    by_distance.sort_unstable();
    by_distance.into_iter().take(8).map(|(_, term)| term).collect()
}

async fn measure(
    name: &str,
    store: &dyn Store,
    corpus: &[Document],
    wanted: &[u32],
    scripts: impl Fn() -> Option<(u64, u64)>,
    bytes: impl Fn() -> u64,
) {
    let (mut writer, id) = (Writer::new(), session("b"));
    println!("{name}");
    send(store, &mut writer, &id, put("k", "1")).await;
    let empty = bytes();
    let mut tail = Times::new(&scripts);
    for document in corpus.iter().take(2000) {
        // What a turn itself writes: its terms as text, until they are folded.
        let record: String = document.terms.iter().map(|term| format!("{:03x}", term >> 10)).collect();
        tail.take(send(store, &mut writer, &id, append("terms", &[format!("\"{record}\"")]))).await;
    }
    tail.print("append a document's terms to a log", 1);
    send(store, &mut writer, &id, reset_log("terms", NONE)).await;
    let mut next = 0;
    for size in [100, 6_000, 100_000, corpus.len()] {
        if size > corpus.len() || next as usize == size {
            continue;
        }
        let mut additions = Times::new(&scripts);
        for documents in corpus[next as usize..size].chunks(FOLD as usize) {
            additions.take(send(store, &mut writer, &id, add_documents("recall", documents))).await;
        }
        next = size as u64;
        additions.print(&format!("add {FOLD} documents, up to {size}; for one"), FOLD);
        let mut searches = Times::new(&scripts);
        let mut told = 0;
        for _ in 0..SEARCHES {
            let search = search_within("recall", wanted, ALL, AROUND, ALL);
            let found = &searches.take(send(store, &mut writer, &id, search)).await.found[0];
            told = found.runs.iter().map(|run| 8 + 2 * run.marks.len()).sum::<usize>()
                + 4 * found.terms.iter().map(|term| term.offsets.len()).sum::<usize>();
        }
        searches.print(&format!("search 8 terms in {size}, {told} bytes told"), 1);
        let mut newest = Times::new(&scripts);
        for _ in 0..SEARCHES {
            newest.take(send(store, &mut writer, &id, search_within("recall", wanted, 20_000, AROUND, ALL))).await;
        }
        newest.print("  the newest 20,000", 1);
        println!("    {:6.0} bytes a document", (bytes() - empty) as f64 / size as f64);
    }
    let mut removals = Times::new(&scripts);
    for n in 0..200 {
        removals.take(send(store, &mut writer, &id, remove_documents("recall", [n * next / 200]))).await;
    }
    removals.print("remove a document", 1);
    let begin = Instant::now();
    store.delete(writer.advance(), &deletion_of(&id), Deadline::NEVER).await.unwrap();
    println!("  delete all of it: {:.0} µs", micros(begin.elapsed()));
}

async fn send(store: &dyn Store, writer: &mut Writer, id: &BucketId, work: impl Into<Work>) -> IndexedReceipt {
    let asked = transaction(id, create(), work);
    let receipt = store.transact(writer.advance(), &asked, Deadline::NEVER).await.unwrap();
    assert_eq!(receipt.receipt.status, Status::Applied);
    receipt
}

struct Times<'a, F> {
    wall: Vec<Duration>,
    scripts: &'a F,
    before: Option<(u64, u64)>,
}

impl<'a, F: Fn() -> Option<(u64, u64)>> Times<'a, F> {
    fn new(scripts: &'a F) -> Self {
        Self { wall: Vec::new(), scripts, before: scripts() }
    }

    async fn take<T>(&mut self, call: impl Future<Output = T>) -> T {
        let begin = Instant::now();
        let answer = call.await;
        self.wall.push(begin.elapsed());
        answer
    }

    fn print(&self, what: &str, each: u64) {
        let mut wall = self.wall.clone();
        wall.sort_unstable();
        let at = |quantile: usize| wall[(wall.len() - 1) * quantile / 100];
        let in_redis = match (self.before, (self.scripts)()) {
            (Some((calls, micros)), Some((calls_now, micros_now))) if calls_now > calls => {
                format!(", in Redis mean {:.1}", (micros_now - micros) as f64 / ((calls_now - calls) * each) as f64)
            }
            _ => String::new(),
        };
        let each = each as f64;
        println!(
            "  {what}: wall µs p10 {:.1}, p50 {:.1}, p99 {:.1}{in_redis}",
            micros(at(10)) / each,
            micros(at(50)) / each,
            micros(at(99)) / each
        );
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Calls of scripts, and the microseconds that they took.
fn in_scripts(client: &redis::Client) -> (u64, u64) {
    let mut connection = client.get_connection().unwrap();
    let told: String = redis::cmd("INFO").arg("commandstats").query(&mut connection).unwrap();
    let number = |line: &str, name: &str| -> u64 {
        let rest = line.split_once(name).unwrap().1;
        rest.split([',', '\r']).next().unwrap().parse().unwrap()
    };
    let scripts = told.lines().filter(|line| line.starts_with("cmdstat_eval"));
    scripts.fold((0, 0), |(calls, micros), line| (calls + number(line, "calls="), micros + number(line, "usec=")))
}
