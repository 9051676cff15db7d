//! The stores that the suites are run over, each with what the contract does not offer: to let time pass,
//! to compare all that is stored, and for Redis to look behind the store's back.

use std::{
    collections::BTreeMap,
    fmt,
    pin::Pin,
    process::{Child, Command, Stdio},
    sync::{Arc, LazyLock, Weak},
    time::Duration,
};

use keepline_local_redis::{RedisCluster, RedisServer};
use keepline_stores::{
    BucketId, Deadline, DeleteRequest, Deletion, Description, DirectoryOptions, DirectoryStore, DirectorySync, Failure,
    FoundDocuments, IndexStep, IndexedReceipt, IndexedTransaction, KeyValueStore, LeaseRequest, LeaseState,
    ManualClock, MemoryLimits, MemoryStore, Operation, Outcome, Precondition, Receipt, RedisOptions, RedisStore,
    SessionLimitPolicy, Status, Store, Writer, kind, part,
};
use parking_lot::Mutex;
use tempfile::TempDir;

pub use crate::raw::RawRedis;
use crate::{
    key_value::MemoryKeyValue,
    requests::{
        Named, Work, describe, description, existing, get_all, get_all_in, read_all, read_marks, search, transaction,
        unused,
    },
    servers,
};

/// Long enough for a busy machine: here a time-out means that something hangs.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Of the cluster, each with a replica.
pub const MASTERS: usize = 3;

/// A store, empty and nobody else's.
pub struct StoreUnderTest {
    /// `memory`, `directory`, `redis` or `cluster`.
    pub name: &'static str,
    /// The store.
    pub store: Arc<dyn Store>,
    backing: Backing,
    writer: Mutex<Writer>,
}

enum Backing {
    Memory(ManualClock),
    /// A component, or a key-value store: it knows no clock that can't be set.
    Component(ManualClock),
    Directory(ManualClock, TempDir),
    Redis(Box<RawRedis>),
}

impl StoreUnderTest {
    /// A store in memory whose clock stands still unless time is [passed](Self::pass_time).
    pub fn memory() -> Self {
        Self::memory_with(SessionLimitPolicy::Refuse)
    }

    /// A store that is a component, by that clock.
    pub fn component(store: Arc<dyn Store>, clock: ManualClock) -> Self {
        Self { name: "component", store, backing: Backing::Component(clock), writer: Mutex::default() }
    }

    /// A store in a key-value store in memory, whose clock stands still unless time is [passed](Self::pass_time).
    pub fn key_value() -> Self {
        Self::key_value_in(MemoryKeyValue::default(), ManualClock::new())
    }

    /// A store in this key-value store, by that clock.
    pub fn key_value_in(values: MemoryKeyValue, clock: ManualClock) -> Self {
        let store = Arc::new(KeyValueStore::with_clock(values, clock.clone().into()));
        Self { name: "key_value", store, backing: Backing::Component(clock), writer: Mutex::default() }
    }

    /// The same that ends sessions at its limits, which no test comes to.
    pub fn memory_evicting() -> Self {
        Self::memory_with(SessionLimitPolicy::Evict)
    }

    fn memory_with(session_limit_policy: SessionLimitPolicy) -> Self {
        let clock = ManualClock::new();
        let limits = MemoryLimits { max_sessions: 1_000_000, session_limit_policy, ..MemoryLimits::default() };
        let store = Arc::new(MemoryStore::with_clock(limits, clock.clone().into()));
        Self { name: "memory", store, backing: Backing::Memory(clock), writer: Mutex::default() }
    }

    /// A store in a directory of its own, whose clock stands still unless time is [passed](Self::pass_time). Syncs are
    /// left out: what they are for can't be seen here.
    pub fn directory() -> Self {
        let (clock, directory) = (ManualClock::new(), tempfile::tempdir().unwrap());
        let options = DirectoryOptions {
            clock: clock.clone().into(),
            sync: DirectorySync::Off,
            timeout: TIMEOUT,
            ..DirectoryOptions::default()
        };
        let store = Arc::new(DirectoryStore::open(directory.path(), options).unwrap());
        Self { name: "directory", store, backing: Backing::Directory(clock, directory), writer: Mutex::default() }
    }

    /// A store in Redis, under a prefix of its own and as a user who may do nothing beyond it. Every short
    /// transaction gets a script for its shape.
    pub fn redis() -> Self {
        Self::redis_with_shapes(usize::MAX)
    }

    /// A store in Redis where the general script serves every transaction.
    pub fn redis_general() -> Self {
        Self::redis_with_shapes(0)
    }

    fn redis_with_shapes(most: usize) -> Self {
        let server = shared_server();
        let prefix = format!("test-{:016x}", fastrand::u64(..));
        let options = RedisOptions {
            username: Some(prefix.clone()),
            key_prefix: prefix.clone(),
            store_timeout: TIMEOUT,
            ..servers::options(server.port())
        };
        let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        redis::cmd("ACL").arg("SETUSER").arg(servers::user_rules(&prefix, &options)).exec(&mut connection).unwrap();
        let store = Arc::new(RedisStore::new(options.clone()).unwrap().with_shapes(most));
        let connections = vec![Mutex::new(connection)];
        let raw = RawRedis { prefix, options, connections, server: Some(server) };
        Self { name: "redis", store, backing: Backing::Redis(Box::new(raw)), writer: Mutex::default() }
    }

    /// A store in a Redis Cluster of three masters, under a prefix of its own.
    pub fn cluster() -> Self {
        let cluster = shared_cluster();
        let prefix = format!("test-{:016x}", fastrand::u64(..));
        let options = RedisOptions { key_prefix: prefix.clone(), store_timeout: TIMEOUT, ..RedisOptions::default() };
        let options = servers::allowed_on_cluster(cluster, options);
        let store = Arc::new(RedisStore::new(options.clone()).unwrap());
        let connect =
            |node: &RedisServer| Mutex::new(redis::Client::open(node.url()).unwrap().get_connection().unwrap());
        let connections = cluster.nodes().iter().take(MASTERS).map(connect).collect();
        let raw = RawRedis { prefix, options, connections, server: None };
        Self { name: "cluster", store, backing: Backing::Redis(Box::new(raw)), writer: Mutex::default() }
    }

    /// What is behind a store in Redis.
    pub fn raw(&self) -> &RawRedis {
        match &self.backing {
            Backing::Redis(raw) => raw,
            Backing::Memory(_) | Backing::Component(_) | Backing::Directory(..) => panic!("this store is not in Redis"),
        }
    }

    /// The configuration by which a process of its own uses the same store, as environment variables; for a store in
    /// memory, which no other process sees, one of its own.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let raw = match &self.backing {
            Backing::Component(_) => panic!("no command has a component as its store"),
            Backing::Memory(_) => return vec![("KEEPLINE_BACKEND", "memory".into())],
            Backing::Directory(_, directory) => {
                let directory = directory.path().to_str().unwrap().to_owned();
                return vec![("KEEPLINE_BACKEND", "directory".into()), ("KEEPLINE_DIRECTORY", directory)];
            }
            Backing::Redis(raw) => raw,
        };
        let options = &raw.options;
        let mut variables = vec![
            ("KEEPLINE_BACKEND", "redis".into()),
            ("KEEPLINE_REDIS_USERNAME", options.username.clone().unwrap()),
            ("KEEPLINE_REDIS_PASSWORD", options.password.as_ref().unwrap().expose().to_owned()),
            ("KEEPLINE_KEY_PREFIX", options.key_prefix.clone()),
            ("KEEPLINE_STORE_TIMEOUT_MS", TIMEOUT.as_millis().to_string()),
        ];
        if options.cluster {
            variables
                .extend([("KEEPLINE_REDIS_CLUSTER", "true".into()), ("KEEPLINE_REDIS_NODES", options.nodes.join(","))]);
        } else {
            variables.extend([
                ("KEEPLINE_REDIS_HOST", options.host.clone()),
                ("KEEPLINE_REDIS_PORT", options.port.to_string()),
            ]);
        }
        variables
    }

    /// Let the store believe that this much time has passed.
    pub fn pass_time(&self, time: Duration) {
        match &self.backing {
            Backing::Memory(clock) | Backing::Component(clock) | Backing::Directory(clock, _) => clock.advance(time),
            Backing::Redis(raw) => raw.pass_time(time),
        }
    }

    /// Whether the store goes by a clock of this process. Redis has its own.
    pub fn has_clock_to_set(&self) -> bool {
        !matches!(self.backing, Backing::Redis(_))
    }

    /// Whether the store knows a clock that can't be set beside the one that can.
    pub fn notices_clock_jumps(&self) -> bool {
        matches!(self.backing, Backing::Memory(_) | Backing::Directory(..))
    }

    /// Set the store's clock ahead, while no time passes.
    pub fn set_clock_ahead(&self, by: Duration) {
        match &self.backing {
            Backing::Memory(clock) | Backing::Directory(clock, _) => clock.jump_ahead(by),
            Backing::Component(_) | Backing::Redis(_) => panic!("{} does not notice", self.name),
        }
    }

    /// Send a transaction once.
    pub async fn try_send(&self, transaction: &IndexedTransaction) -> Result<IndexedReceipt, Failure> {
        self.store.transact(&self.next_writer(), transaction, Deadline::NEVER).await
    }

    fn next_writer(&self) -> Writer {
        self.writer.lock().advance().clone()
    }

    /// Send a transaction that the store can answer.
    pub async fn ask(&self, transaction: &IndexedTransaction) -> Receipt {
        self.try_send(transaction).await.unwrap().receipt
    }

    /// Send a transaction that the store can answer, as a certain try of a certain writer.
    pub async fn ask_as(&self, writer: &Writer, transaction: &IndexedTransaction) -> Receipt {
        self.store.transact(writer, transaction, Deadline::NEVER).await.unwrap().receipt
    }

    /// Send transactions that the store can answer, together.
    pub async fn ask_each(&self, transactions: &[IndexedTransaction]) -> Vec<Receipt> {
        let attempts = self.store.transact_each(&self.next_writer(), transactions, Deadline::NEVER).await;
        attempts.into_iter().map(|attempt| attempt.unwrap().receipt).collect()
    }

    /// Apply some work and get what its operations are answered with.
    pub async fn apply(&self, bucket: impl Named, precondition: Precondition, work: impl Into<Work>) -> Vec<Outcome> {
        let receipt = self.ask(&transaction(bucket, precondition, work)).await;
        assert_eq!(receipt.status, Status::Applied);
        receipt.outcomes
    }

    /// Apply a step on an index to a bucket that is there.
    pub async fn apply_step(&self, bucket: impl Named, step: IndexStep) -> FoundDocuments {
        let receipt = self.try_send(&transaction(bucket, existing(), step)).await.unwrap();
        let [found] = receipt.found.try_into().unwrap();
        found
    }

    /// Ask for a lease of a bucket that is there.
    pub async fn take_lease(&self, bucket: impl Named, lease: LeaseRequest) -> LeaseState {
        self.try_send(&transaction(bucket, existing(), lease)).await.unwrap().lease.unwrap()
    }

    /// Apply one operation to a bucket that is there.
    pub async fn apply_one(&self, bucket: impl Named, operation: Operation) -> Outcome {
        self.one(bucket, existing(), operation).await
    }

    async fn one(&self, bucket: impl Named, precondition: Precondition, operation: Operation) -> Outcome {
        let outcomes = self.apply(bucket, precondition, [operation]).await;
        let [outcome] = outcomes.try_into().unwrap();
        outcome
    }

    /// What becomes of opening a bucket.
    pub async fn status(&self, bucket: impl Named, precondition: Precondition) -> Status {
        self.ask(&transaction(bucket, precondition, [])).await.status
    }

    /// Whether a bucket is there, without using it.
    pub async fn is_there(&self, bucket: impl Named) -> bool {
        self.status(bucket, unused()).await == Status::Applied
    }

    /// The description of a bucket that is there, without using it.
    pub async fn describe(&self, bucket: impl Named) -> Description {
        description(self.one(bucket, unused(), describe()).await)
    }

    /// Delete a bucket and name the first of the keys that its values had.
    pub async fn delete(&self, bucket: impl Named) -> (Status, Vec<String>) {
        let deletion = self.delete_as(&self.next_writer(), bucket, None).await;
        (deletion.status, deletion.keys)
    }

    /// Delete a bucket, as a certain try of a certain writer, or just a life of it.
    pub async fn delete_as(&self, writer: &Writer, bucket: impl Named, generation: Option<&str>) -> Deletion {
        let generation = generation.map(ToOwned::to_owned);
        let request = DeleteRequest { bucket: bucket.id(), generation, max_keys: u32::MAX };
        self.store.delete(writer, &request, Deadline::NEVER).await.unwrap()
    }

    /// All sessions, by one walk through the pages.
    pub async fn list(&self, limit: u32) -> Vec<String> {
        self.list_kind(kind::SESSION, limit).await
    }

    /// All buckets of a kind, by one walk through the pages.
    pub async fn list_kind(&self, kind: &str, limit: u32) -> Vec<String> {
        let (mut names, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.store.list_buckets(kind, &cursor, limit, Deadline::NEVER).await.unwrap();
            names.extend(page.names);
            cursor = page.cursor;
            if cursor.is_empty() {
                return names;
            }
        }
    }

    /// All that is stored, byte for byte with every expiry. Taking it changes nothing.
    pub async fn everything(&self) -> BTreeMap<String, String> {
        if let Backing::Redis(raw) = &self.backing {
            return raw.dump();
        }
        let mut everything = BTreeMap::new();
        for kind in kind::REGISTERED {
            for name in self.list_kind(kind, 1000).await {
                everything.extend(self.contents(&BucketId::new(kind, name)).await);
            }
        }
        everything
    }

    /// Ends the test unless what the store keeps twice agrees: in a directory the counts, in Redis the set of keys and the
    /// expiries.
    pub async fn assert_consistent(&self) {
        match &self.backing {
            Backing::Memory(_) | Backing::Component(_) => {}
            Backing::Directory(_, directory) => {
                let checked =
                    keepline_stores::directory::check(directory.path(), &DirectoryOptions::default()).unwrap();
                assert_eq!(checked.problems, [""; 0]);
            }
            Backing::Redis(raw) => {
                raw.assert_one_expiry();
                raw.allow_scan();
                let store = RedisStore::new(raw.options.clone()).unwrap();
                assert_eq!(store.check_buckets().await.unwrap().damage, []);
            }
        }
    }

    /// Ends the test unless everything is as it was; `after` is what happened since.
    pub async fn assert_unchanged(&self, before: &BTreeMap<String, String>, after: impl fmt::Debug) {
        let now = self.everything().await;
        let missing = before.iter().filter(|(name, _)| !now.contains_key(*name)).map(|(name, was)| (name, was, ""));
        let different = now.iter().filter_map(|(name, is)| {
            let was = before.get(name).map_or("", String::as_str);
            (was != is).then_some((name, was, &**is))
        });
        let missing = missing.map(|(name, was, is)| (name, &**was, is));
        let changes: Vec<_> = missing.chain(different).collect();
        assert!(changes.is_empty(), "changed (name, before, now): {changes:#?}\nby {after:?}");
    }

    /// What the contract shows of a bucket that is there.
    pub async fn contents(&self, id: &BucketId) -> BTreeMap<String, String> {
        let receipt = self.ask(&transaction(id, unused(), [describe()])).await;
        let described = description(receipt.outcomes[0].clone());
        let mut contents =
            BTreeMap::from([(format!("{id:?} description"), format!("{:?} {:?}", receipt.generation, described))]);
        contents.insert(format!("{id:?} map values"), format!("{:?}", self.one(id, unused(), get_all()).await));
        for part in described.parts {
            let name = &part.name;
            let outcome = match &*part.kind {
                part::MAP => format!("{:?}", self.one(id, unused(), get_all_in(name)).await),
                part::LOG => format!("{:?}", self.one(id, unused(), read_all(name)).await),
                part::INDEX => {
                    let all = search(name, &(0..256).collect::<Vec<_>>());
                    let asked = Work { steps: vec![all, read_marks(name, 0, u32::MAX)], ..Work::default() };
                    let receipt = self.try_send(&transaction(id, unused(), asked)).await.unwrap();
                    format!("{:?}", receipt.found)
                }
                other => panic!("a part of an unknown kind: {other}"),
            };
            contents.insert(format!("{id:?} {} {name}", part.kind), outcome);
        }
        contents
    }
}

/// A writer at its first transaction: what all tries of that one carry.
pub fn new_writer() -> Writer {
    Writer::new().advance().clone()
}

/// One server a test process. It ends with the last test that holds it: nothing drops what is static.
fn shared_server() -> Arc<RedisServer> {
    static SERVER: Mutex<Weak<RedisServer>> = Mutex::new(Weak::new());
    let mut shared = SERVER.lock();
    if let Some(server) = shared.upgrade() {
        return server;
    }
    let server = Arc::new(RedisServer::start().unwrap());
    *shared = Arc::downgrade(&server);
    server
}

/// One cluster a test process: it takes seconds to come about, so it is kept until the process ends. Nothing
/// drops what is static, so a shell waits for that end and stops the nodes then.
pub fn shared_cluster() -> &'static RedisCluster {
    static CLUSTER: LazyLock<(RedisCluster, Child)> = LazyLock::new(|| {
        let cluster = RedisCluster::start(MASTERS, 1).unwrap();
        let mut keeper = Command::new("sh");
        keeper.args(["-c", r#"read -r _; for node in "$@"; do kill -9 "${node%%:*}"; rm -r "${node#*:}"; done"#, "sh"]);
        keeper.args(cluster.nodes().iter().map(|node| format!("{}:{}", node.pid(), node.directory().display())));
        let keeper = keeper.stdin(Stdio::piped()).spawn().unwrap();
        (cluster, keeper)
    });
    &CLUSTER.0
}

/// Run a case on its store.
pub fn run<F: Future<Output = ()>>(store: StoreUnderTest, case: impl FnOnce(Arc<StoreUnderTest>) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    wait_for(&runtime, Box::pin(case(Arc::new(store))));
}

/// Run a case on its store, with tasks on several threads.
pub fn run_in_parallel<F: Future<Output = ()>>(store: StoreUnderTest, case: impl FnOnce(Arc<StoreUnderTest>) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    wait_for(&runtime, Box::pin(case(Arc::new(store))));
}

/// Of one type for all cases: for each of several hundred, what a runtime is made of would be compiled again.
fn wait_for(runtime: &tokio::runtime::Runtime, case: Pin<Box<dyn Future<Output = ()> + '_>>) {
    runtime.block_on(case);
}

/// One test for each store and case, `memory::…`, `directory::…`, `redis::…`, `redis_general::…` and `cluster::…`, so
/// that a failure names both.
#[macro_export]
macro_rules! on_every_store {
    ($($case:ident,)*) => {
        $crate::on_stores![run on memory, directory, redis, redis_general, cluster: [$($case,)*]];
    };
}

/// The same on some stores, by one of the ways to [`run`] a case.
#[macro_export]
macro_rules! on_stores {
    ($run:ident on $($store:ident),*: $cases:tt) => {
        $($crate::on_stores!(@each $run $store $cases);)*
    };
    (@each $run:ident $store:ident [$($case:ident,)*]) => {
        mod $store {
            $(#[test] fn $case() {
                $crate::stores::$run($crate::stores::StoreUnderTest::$store(), super::$case);
            })*
        }
    };
}
