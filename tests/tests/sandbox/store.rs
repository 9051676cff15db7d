//! Plugins' requests to the store: their number, size and names.

use super::*;

#[tokio::test]
async fn a_plugin_that_calls_the_store_for_ever_is_stopped() {
    let cell = Cell::hostile().await;
    cell.stops("store-for-ever", "called the store more than 256 times").await;
    assert_eq!(cell.ask("store 256").await.effect, Effect::Passed);
    cell.stops("store 257", "called the store more than 256 times").await;
}

#[tokio::test]
async fn a_transaction_of_a_million_operations_changes_nothing() {
    let mut sandbox = sandbox();
    sandbox.cpu_time = Duration::from_secs(20);
    let cell = Cell::of(HOSTILE, &sandbox).await;
    for count in [10_001, 100_000, 1_000_000] {
        let passed = cell.ask(&format!("operations {count}")).await;
        let told = told(&passed).or(passed.problem.map(|problem| problem.message)).unwrap();
        assert!(told.contains("too-large") || told.contains("stopped"), "{told}");
        assert_eq!(cell.sessions().await, [""; 0]);
    }
    assert_eq!(cell.told("operations 10000").await, "done");
}

#[tokio::test]
async fn records_are_stored_in_full_or_not_at_all() {
    let mut sandbox = sandbox();
    sandbox.cpu_time = Duration::from_secs(20);
    let cell = Cell::of(HOSTILE, &sandbox).await;
    for count in [20_000, 1_000_000] {
        let passed = cell.ask(&format!("records {count}")).await;
        let told = told(&passed).or(passed.problem.map(|problem| problem.message)).unwrap();
        assert!(told.contains("too-large") || told.contains("stopped"), "{told}");
        assert_eq!(cell.sessions().await, [""; 0]);
    }
    assert_eq!(cell.told("records 19999").await, "done");
    let described = transaction("s1", unused(), [describe()]);
    let receipt = cell.store.transact(Writer::new().advance(), &described, Deadline::NEVER).await.unwrap();
    assert_eq!(description(receipt.receipt.outcomes[0].clone()).parts[0].count, 19_999);
    assert_eq!(cell.told("big-value 1000000").await, "done");
    cell.stops("big-value 50000000", "").await;
}

#[tokio::test]
async fn invalid_bucket_key_and_part_names_are_refused() {
    let plugin = Plugin::from_bytes(HOSTILE, &sandbox()).unwrap();
    let mut options = RedisOptions::default();
    // Nobody is there: a name is refused before anything is sent.
    (options.host, options.port) = ("127.0.0.1".into(), 1);
    let stores: [Arc<dyn Store>; 2] =
        [Arc::new(MemoryStore::new(MemoryLimits::default())), Arc::new(RedisStore::new(options).unwrap())];
    for store in stores {
        let mut options = Options::default();
        options.log = Arc::new(KeptLog::default());
        let keepline = Keepline::new(plugin.clone(), store, options).await.unwrap();
        let mut pipe = keepline.pipe();
        let long = "x".repeat(1000);
        // A client can name any of these as its session.
        let buckets = ["a:b", "a\nb", "a\n", "*", "a b", "..", "a/b", "é", "a\u{0}", "{a}", &long];
        let keys = ["", "a:b", "a\nb", "*", "__keys__", "__meta__", "__writers__", "__history__", "__x__", "é", &long];
        // Keys of any map but `values`.
        let tokens = ["", "a b", "a\nb", "é", "\u{7f}", &long];
        let parts = ["", "History", "a:b", "a\n", "_history__", "1st", "-a", "a.b", "é", &"x".repeat(33), &long];
        let all = [
            ("bucket", &buckets[..]),
            ("delete", &buckets),
            ("describe", &buckets),
            ("key", &keys),
            ("token", &tokens),
            ("map", &parts),
            ("log", &parts),
        ];
        for (deed, names) in all {
            for name in names {
                let is_bucket = matches!(deed, "bucket" | "delete" | "describe");
                let metadata = serde_json::json!({"session_id": if is_bucket { name } else { "s1" }}).to_string();
                let passed = pipe.question(&format!("{deed} {name}"), &metadata).await.unwrap();
                let told = told(&passed).unwrap();
                assert!(told.starts_with("invalid"), "{deed} {name:?}: {told}");
                assert!(told.len() < 600);
            }
        }
    }
}

/// Else a value that was stored once and read ten thousand times would be in the host's memory as often.
#[tokio::test]
async fn repeated_reads_in_one_call_are_limited() {
    let mut sandbox = sandbox();
    sandbox.cpu_time = Duration::from_secs(20);
    for read in ["get-again 10000", "get-again 1", "get-all-again 16", "page-again 16", "read-again 16"] {
        let cell = Cell::of(HOSTILE, &sandbox).await;
        assert_eq!(cell.told(read).await, "done", "{read}");
    }
    for read in ["get-all-again 17", "page-again 17", "read-again 17"] {
        let cell = Cell::of(HOSTILE, &sandbox).await;
        cell.stops(read, "asked for more than 16 whole maps, stretches of logs and searches in one call").await;
    }
}

/// The names of all sessions are for an operator who asks for them.
#[tokio::test]
async fn a_page_of_listed_sessions_is_bounded() {
    let mut sandbox = sandbox();
    sandbox.cpu_time = Duration::from_secs(20);
    let limits = MemoryLimits { max_sessions: 100_000, ..MemoryLimits::default() };
    let store = Arc::new(MemoryStore::new(limits));
    let mut writer = Writer::new();
    for number in 0..20_000 {
        let transaction = transaction(&format!("s{number}"), create(), []);
        store.transact(writer.advance(), &transaction, Deadline::NEVER).await.unwrap();
    }
    let plugin = Plugin::from_bytes(HOSTILE, &sandbox).unwrap();
    let keepline = Keepline::new(plugin, store, patient()).await.unwrap();
    let counted = keepline.sessions().list("count", 0).await.unwrap().cursor.parse::<usize>().unwrap();
    assert!((1..=11_000).contains(&counted), "{counted}");
}

#[tokio::test]
async fn invalid_listing_cursors_cause_no_error() {
    let cell = Cell::hostile().await;
    for cursor in ["", "-1", "99999999999999999999", "*\n", "é"] {
        cell.keepline.sessions().list(&format!("list {cursor}"), 0).await.unwrap();
    }
}

#[tokio::test]
async fn each_transaction_of_a_batch_counts_as_a_store_call() {
    let cell = Cell::hostile().await;
    assert_eq!(cell.told("each 0").await, "0 of 0");
    assert_eq!(cell.told("each-own").await, "1 of 1");
    // Each of them is a call of the store.
    cell.stops("each 257", "called the store more than 256 times").await;
    cell.stops("each 1000000", "").await;
    assert_eq!(cell.sessions().await, ["s1"]);
}

#[tokio::test]
async fn a_batch_with_two_transactions_on_one_bucket_is_refused() {
    let cell = Cell::hostile().await;
    let told = cell.told("each-twice").await;
    assert!(told.starts_with("0 of 2, invalid"), "{told}");
    assert_eq!(cell.sessions().await, [""; 0]);
}

impl Cell {
    async fn sessions(&self) -> Vec<String> {
        self.store.list_buckets(kind::SESSION, "", 1000, Deadline::NEVER).await.unwrap().names
    }
}
