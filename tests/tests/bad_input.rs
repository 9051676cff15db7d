//! Whatever comes in, from a client, an operator, a host or the store itself: the component answers, and
//! never traps.
//!
//! Cases that were found are kept in `proptest-regressions/` and tried first.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use keepline::{
    Convert as _, KeeplineError, Passed,
    contract::{
        MemoryFilter, key_value,
        wasi::{
            clocks::wall_clock::{self, Datetime},
            logging::logging::{self, Level},
        },
    },
    pipe::Effect,
    plugin::BUNDLED,
    store::{
        AllValues, BucketPage, CounterValue, Deadline, Deletion, Description, Entry, Failure, FailureCode, FoundValue,
        KeyNames, LogDescription, LogExtent, LogRecords, MemoryLimits, MemoryStore, Operation, Outcome, Receipt, Size,
        Status, Store, StoreCapabilities, TimeToLive, Transaction, WriteDone, Writer,
    },
};
use keepline_tests::{
    lanes::{Node, plugin},
    stores::StoreUnderTest,
};
use proptest::{prelude::*, test_runner::FileFailurePersistence};
use serde_json::{Value, value::RawValue};
use wasmtime::{
    Config, Engine,
    component::{Component, HasSelf, Linker},
};

fn cases(cases: u32) -> ProptestConfig {
    const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/bad_input.txt");
    let failure_persistence = Some(Box::new(FileFailurePersistence::Direct(KEPT)) as _);
    ProptestConfig { cases, failure_persistence, ..ProptestConfig::default() }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

// What comes in. --------------------------------------------------------------------------------------

fn lossy_bytes() -> impl Strategy<Value = String> {
    prop::collection::vec(any::<u8>(), 0..80).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-c]",
        1 => prop::sample::select(vec![
            "session_id", "memory_context", "last_answer", "answer_count", "__keys__", "__meta__", "op", "key",
            "cleared", "summarized_count", "op_counts", "keys_touched", "max_history", "max_keys",
            "session_ttl_hours", "session_ttl_mode", "auto_summarize", "unbound_context", "max_value_bytes",
        ]).prop_map(str::to_owned),
        1 => ".{0,6}",
        1 => lossy_bytes(),
    ]
}

/// JSON, with names that matter here and there.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0..5_i64).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        "[a-c]".prop_map(Value::from),
        name().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        lossy_bytes(),
        ".{0,60}",
        r#"[{}\[\]":, \\u0-9a-z_\n]{0,60}"#,
        json().prop_map(|value| value.to_string()),
        json().prop_map(|value| serde_json::to_string_pretty(&value).unwrap()),
        (json(), 0..40_usize).prop_map(|(value, length)| value.to_string().chars().take(length).collect()),
        // As Python writes what is no number, and others what is no JSON.
        json().prop_map(|value| value.to_string().replace("null", "NaN").replace("true", "-Infinity")),
        json().prop_map(|value| format!("\u{feff}{value}")),
        json().prop_map(|value| value.to_string().replace("\"memory", "\"\\x6demory").replace(']', ",]")),
        // Each character as its number: the longest spelling there is.
        json().prop_map(|value| value.to_string().replace("session_id", "\\u0073ession\\u005fid")),
    ]
}

/// Metadata that more often than not name a session.
fn metadata() -> impl Strategy<Value = String> {
    let member = (name(), json()).prop_map(|(name, value)| format!("{}:{value}", Value::from(name)));
    let members = prop::collection::vec(member, 0..5);
    let with_session = (members, "[a-c]", any::<prop::sample::Index>()).prop_map(|(mut members, session, at)| {
        members.insert(at.index(members.len() + 1), format!("\"session_id\" : \"{session}\""));
        format!("{{ {} }}", members.join(" ,\n"))
    });
    prop_oneof![2 => with_session, 1 => text()]
}

fn options() -> impl Strategy<Value = String> {
    (0..6_u32, 1..60_u32, 1..90_u32, 2..6_u32, any::<[bool; 4]>()).prop_map(
        |(history, value, context, keys, [summarize, strip, expires, slides])| {
            let (unbound, mode) = (if strip { "strip" } else { "keep" }, if slides { "sliding" } else { "fixed" });
            format!(
                r#"{{"max_history":{history},"max_value_bytes":{value},"max_context_bytes":{context},"max_keys":{keys},
                "auto_summarize":{summarize},"unbound_context":"{unbound}","session_ttl_mode":"{mode}",
                "session_ttl_hours":{}}}"#,
                if expires { "1e-7" } else { "0" }
            )
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    Open,
    Question(String, String),
    Answer(String, String),
    Call(u8, String, String, String, i64),
}

fn steps(length: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => Just(Step::Open),
        4 => (text(), metadata()).prop_map(|(text, metadata)| Step::Question(text, metadata)),
        4 => (text(), metadata()).prop_map(|(text, metadata)| Step::Answer(text, metadata)),
        6 => (0..10_u8, name(), name(), text(), any::<i64>())
            .prop_map(|(call, session, key, text, number)| Step::Call(call, session, key, text, number)),
    ];
    prop::collection::vec(step, 1..length)
}

// What must hold. -------------------------------------------------------------------------------------

/// An object's members as they stand there, without the memory; none: it is no object, or one whose keys
/// are no texts. What Python writes beside JSON comes as null.
fn without_memory(metadata: &str) -> Option<BTreeMap<String, Box<RawValue>>> {
    let metadata = strictly(metadata);
    let mut members: BTreeMap<_, _> = serde_json::from_str(&metadata).ok()?;
    members.remove("memory_context");
    Some(members)
}

fn raw(members: Option<BTreeMap<String, Box<RawValue>>>) -> Option<Vec<(String, String)>> {
    members.map(|members| members.into_iter().map(|(key, value)| (key, value.get().to_owned())).collect())
}

/// The words that Python writes and JSON does not know, in their places and in texts, are one that it knows.
fn strictly(metadata: &str) -> String {
    let metadata = metadata.strip_prefix('\u{feff}').unwrap_or(metadata);
    metadata.replace("-Infinity", "[]").replace("Infinity", "[]").replace("NaN", "[]")
}

fn check(metadata: &str, passed: &Passed) {
    if let Some(changed) = &passed.metadata {
        let is_json = |text: &str| serde_json::from_str::<&RawValue>(&strictly(text)).is_ok();
        assert!(is_json(changed), "{changed}");
        // Metadata that nobody can read may have to go as a whole.
        if is_json(metadata) || changed != "{}" {
            assert_eq!(raw(without_memory(changed)), raw(without_memory(metadata)));
        }
    }
    let may_be_told = matches!(passed.effect, Effect::Enriched | Effect::Stored);
    let is_told = matches!(passed.effect, Effect::Limited | Effect::Failed);
    assert!(may_be_told || passed.problem.is_some() == is_told, "{passed:?}");
    assert!(passed.attached == 0 || passed.effect == Effect::Enriched);
}

async fn play(node: &mut Node, steps: &[Step]) {
    for step in steps {
        match step {
            Step::Open => node.pipe.open(),
            Step::Question(text, metadata) => check(metadata, &node.pipe.question(text, metadata).await.unwrap()),
            Step::Answer(text, metadata) => {
                let passed = node.pipe.answer(text, metadata).await.unwrap();
                assert_eq!(passed.metadata, None);
                check(metadata, &passed);
            }
            Step::Call(call, session, key, text, number) => {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "any number will do")]
                let limit = *number as u32;
                let sessions = &mut node.sessions;
                let problem = match call {
                    0 => sessions.create(session).await.err(),
                    1 => sessions.resume(session).await.err(),
                    2 => sessions.list(text, limit % 100).await.err(),
                    3 => sessions.delete(session).await.err(),
                    4 => sessions.put(session, key, text).await.err(),
                    5 => sessions.get(session, key).await.err(),
                    6 => sessions.keys(session).await.err(),
                    7 => sessions.clear(session, (number % 2 == 0).then_some(key)).await.err(),
                    8 => sessions.increment(session, key, *number).await.err(),
                    _ => sessions.history(session, None, limit).await.err(),
                };
                if let Some(problem) = problem {
                    assert!(problem.code.is_some(), "the plugin was stopped: {problem}");
                    assert!(!problem.message.is_empty() && problem.message.len() < 2000, "{problem}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn whatever_clients_and_operators_send_is_answered(options in options(), steps in steps(24)) {
        block_on(async {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new(MemoryLimits::default()));
            let mut node = Node::new(&store, &options).await;
            play(&mut node, &steps).await;
        });
    }

    #[test]
    fn whatever_the_options_say_they_are_read_or_refused(options in prop_oneof![text(), options(), metadata()]) {
        block_on(async {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
            match Node::of(plugin(), &store, &options, |_| {}).await {
                Ok(mut node) => {
                    // What is told to be in force is accepted as it is told.
                    let told = node.keepline.filter_options();
                    assert_eq!(Node::new(&store, &told).await.keepline.filter_options(), told);
                    node.ask("a").await;
                    node.reply("x").await;
                }
                Err(KeeplineError::Config { message, .. }) => assert!(!message.is_empty() && message.len() < 2000),
                Err(other) => panic!("{other}"),
            }
        });
    }

    #[test]
    fn whatever_a_store_says_is_answered(seed in any::<u64>(), options in options(), steps in steps(12)) {
        block_on(async {
            let store: Arc<dyn Store> = Arc::new(Liar(parking_lot::Mutex::new(fastrand::Rng::with_seed(seed))));
            let mut node = Node::new(&store, &options).await;
            play(&mut node, &steps).await;
        });
    }

    #[test]
    fn whatever_turn_a_host_hands_back_is_answered(
        turn in prop_oneof![text(), "k1:[a-c]", "k1:[a-c]:.{0,9}", "k1:.{0,9}", lossy_bytes().prop_map(|rest| format!("k1:a:{rest}"))],
        said in text(),
        metadata in metadata(),
    ) {
        block_on(async {
            let mut bare = Bare::new().await;
            bare.answer(&said, &metadata, &turn).await;
            let carried = bare.question(&said, &metadata).await;
            bare.answer(&said, &metadata, &carried).await;
            bare.answer(&said, "{}", &format!("{carried}{turn}")).await;
            bare.answer(&said, "{}", &carried.chars().take(turn.len()).collect::<String>()).await;
        });
    }
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn over_redis_too_whatever_comes_is_answered(options in options(), steps in steps(24)) {
        block_on(async {
            let given = StoreUnderTest::redis();
            let mut node = Node::new(&given.store, &options).await;
            play(&mut node, &steps).await;
        });
    }
}

// A store that nobody should trust. -------------------------------------------------------------------

/// Answers anything, whether it was asked for or not.
#[derive(Debug)]
struct Liar(parking_lot::Mutex<fastrand::Rng>);

impl Liar {
    fn with<T>(&self, say: impl FnOnce(&mut Tongue) -> T) -> T {
        say(&mut Tongue(&mut self.0.lock()))
    }

    fn fail_at_times(&self) -> Result<(), Failure> {
        self.with(|tongue| if tongue.0.u8(..8) == 0 { Err(tongue.failure()) } else { Ok(()) })
    }
}

struct Tongue<'a>(&'a mut fastrand::Rng);

impl Tongue<'_> {
    fn number(&mut self) -> u64 {
        match self.0.u8(..4) {
            0 => u64::MAX - self.0.u64(..3),
            1 => self.0.u64(..),
            _ => self.0.u64(..4),
        }
    }

    fn text(&mut self) -> String {
        let known = [
            "",
            "1",
            "\"x\"",
            "{",
            "[1,\n2]",
            "null",
            "a\0b",
            "k",
            "last_answer",
            "__keys__",
            "not json",
            "\u{2028}",
            "{\"op\": \"summary\", \"summarized_count\": 1e400, \"op_counts\": {\"\": -1}, \"keys_touched\": 5}",
            "{\"op\": \"summary\", \"summarized_count\": 3}",
            "{\"op\": \"put\", \"key\": \"k\"}",
        ];
        match self.0.u8(..8) {
            0 => (0..self.0.usize(..300)).map(|_| self.0.char(..)).collect(),
            1 => "[".repeat(self.0.usize(..5000)),
            _ => known[self.0.usize(..known.len())].to_owned(),
        }
    }

    fn many<T>(&mut self, one: impl Fn(&mut Self) -> T) -> Vec<T> {
        (0..self.0.usize(..6)).map(|_| one(self)).collect()
    }

    fn status(&mut self) -> Status {
        use Status::{Absent, AnotherLife, Applied, Exists, Expired, Repeated, Unmet};
        let all = [Applied, Applied, Applied, Applied, Repeated, Absent, Expired, Exists, AnotherLife, Unmet];
        all[self.0.usize(..all.len())]
    }

    fn failure(&mut self) -> Failure {
        use FailureCode::{CounterOverflow, Full, Invalid, NotACounter, Other, TooManyBuckets, Unavailable, WrongType};
        let all = [CounterOverflow, Full, Invalid, NotACounter, Other, TooManyBuckets, Unavailable, WrongType];
        Failure {
            code: all[self.0.usize(..all.len())],
            subject: self.text(),
            limit: self.number(),
            message: String::new(),
        }
    }

    fn outcome(&mut self) -> Outcome {
        match self.0.u8(..8) {
            0 => Outcome::Value(FoundValue { json: self.0.bool().then(|| self.text()), unreadable: self.0.bool() }),
            1 => Outcome::Values(AllValues {
                entries: self.many(|tongue| Entry { key: tongue.text(), json: tongue.text() }),
                unreadable: self.many(Self::text),
            }),
            2 => Outcome::Oversize(Size { bytes: self.number(), keys: self.number() }),
            3 => Outcome::Names(KeyNames { names: self.many(Self::text), total: self.number() }),
            4 => Outcome::Done(WriteDone { created: self.0.bool() }),
            #[allow(clippy::cast_possible_wrap, reason = "any number will do")]
            5 => Outcome::Counter(CounterValue { value: self.number() as i64 }),
            6 => Outcome::Extent(LogExtent { first: self.number(), length: self.number() }),
            _ => Outcome::Records(LogRecords {
                first: self.number(),
                length: self.number(),
                records: self.many(Self::text),
            }),
        }
    }

    /// What was asked for, in form at least.
    fn fitting(&mut self, operation: &Operation) -> Outcome {
        loop {
            let outcome = self.outcome();
            let fits = match operation {
                Operation::Get(_) => matches!(outcome, Outcome::Value(_) | Outcome::Oversize(_)),
                Operation::GetAll(_) => matches!(outcome, Outcome::Values(_) | Outcome::Oversize(_)),
                Operation::ListKeys(_) | Operation::Remove(_) | Operation::RemoveAll(_) => {
                    matches!(outcome, Outcome::Names(_))
                }
                Operation::Put(_) => matches!(outcome, Outcome::Done(_)),
                Operation::Increment(_) => matches!(outcome, Outcome::Counter(_)),
                Operation::Read(_) | Operation::Overflow(_) => matches!(outcome, Outcome::Records(_)),
                _ => matches!(outcome, Outcome::Extent(_)),
            };
            if fits {
                return outcome;
            }
        }
    }
}

#[async_trait]
impl Store for Liar {
    async fn transact(&self, _: &Writer, transaction: &Transaction, _: Deadline) -> Result<Receipt, Failure> {
        self.fail_at_times()?;
        Ok(self.with(|tongue| {
            let outcomes = if tongue.0.u8(..4) > 0 {
                transaction.operations.iter().map(|operation| tongue.fitting(operation)).collect()
            } else {
                tongue.many(Tongue::outcome)
            };
            Receipt { status: tongue.status(), created: tongue.0.bool(), incarnation: tongue.text(), outcomes }
        }))
    }

    async fn list_buckets(&self, _: &str, _: u32, _: Deadline) -> Result<BucketPage, Failure> {
        self.fail_at_times()?;
        Ok(self.with(|tongue| BucketPage { buckets: tongue.many(Tongue::text), cursor: tongue.text() }))
    }

    async fn delete_bucket(&self, _: &Writer, _: &str, _: Deadline) -> Result<Deletion, Failure> {
        self.fail_at_times()?;
        Ok(self.with(|tongue| Deletion { status: tongue.status(), keys: tongue.many(Tongue::text) }))
    }

    async fn describe_bucket(&self, _: &str, _: Deadline) -> Result<Description, Failure> {
        self.fail_at_times()?;
        Ok(self.with(|tongue| Description {
            status: tongue.status(),
            incarnation: tongue.text(),
            time_to_live: tongue
                .0
                .bool()
                .then(|| TimeToLive { milliseconds: tongue.number(), sliding: tongue.0.bool() }),
            expires_in: tongue.0.bool().then(|| tongue.number()),
            keys: tongue.number(),
            logs: tongue.many(|tongue| LogDescription { log: tongue.text(), length: tongue.number() }),
        }))
    }

    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities { atomic: false, expiring: false, exactly_once: false, listing: false }
    }

    fn round_trips(&self) -> u64 {
        0
    }

    async fn check(&self) -> Result<(), Failure> {
        Ok(())
    }
}

// A host of one's own, which can hand back any turn. --------------------------------------------------

struct Bare {
    store: wasmtime::Store<Lent>,
    filter: MemoryFilter,
}

struct Lent {
    store: MemoryStore,
    writer: Writer,
}

impl Bare {
    async fn new() -> Self {
        static COMPILED: OnceLock<(Engine, Component)> = OnceLock::new();
        let (engine, component) = COMPILED.get_or_init(|| {
            let mut config = Config::new();
            config.concurrency_support(false);
            let engine = Engine::new(&config).unwrap();
            let component = Component::from_binary(&engine, BUNDLED).unwrap();
            (engine, component)
        });
        let mut linker = Linker::new(engine);
        MemoryFilter::add_to_linker::<_, HasSelf<Lent>>(&mut linker, |lent| lent).unwrap();
        let lent = Lent { store: MemoryStore::default(), writer: Writer::new() };
        let mut store = wasmtime::Store::new(engine, lent);
        let filter = MemoryFilter::instantiate_async(&mut store, component, &linker).await.unwrap();
        Self { store, filter }
    }

    /// The turn that it gives.
    async fn question(&mut self, text: &str, metadata: &str) -> String {
        self.filter.keepline_memory_filter().call_question(&mut self.store, text, metadata).await.unwrap().turn
    }

    async fn answer(&mut self, text: &str, metadata: &str, turn: &str) {
        let reply = self.filter.keepline_memory_filter().call_answer(&mut self.store, text, metadata, turn).await;
        assert_eq!(reply.unwrap().metadata, None);
    }
}

impl key_value::Host for Lent {
    async fn transact(
        &mut self,
        bucket: String,
        opening: key_value::Opening,
        expectations: Vec<key_value::Expectation>,
        operations: Vec<key_value::Operation>,
    ) -> wasmtime::Result<Result<key_value::Receipt, key_value::Failure>> {
        let transaction = Transaction {
            bucket,
            opening: opening.convert(),
            expectations: expectations.convert(),
            operations: operations.convert(),
        };
        Ok(self.store.transact(self.writer.advance(), &transaction, Deadline::NEVER).await.convert())
    }

    async fn list_buckets(
        &mut self,
        cursor: String,
        limit: u32,
    ) -> wasmtime::Result<Result<key_value::BucketPage, key_value::Failure>> {
        Ok(self.store.list_buckets(&cursor, limit, Deadline::NEVER).await.convert())
    }

    async fn delete_bucket(
        &mut self,
        bucket: String,
    ) -> wasmtime::Result<Result<key_value::Deletion, key_value::Failure>> {
        Ok(self.store.delete_bucket(self.writer.advance(), &bucket, Deadline::NEVER).await.convert())
    }

    async fn describe_bucket(
        &mut self,
        bucket: String,
    ) -> wasmtime::Result<Result<key_value::Description, key_value::Failure>> {
        Ok(self.store.describe_bucket(&bucket, Deadline::NEVER).await.convert())
    }

    async fn capabilities(&mut self) -> wasmtime::Result<key_value::StoreCapabilities> {
        Ok(self.store.capabilities().convert())
    }
}

impl wall_clock::Host for Lent {
    fn now(&mut self) -> wasmtime::Result<Datetime> {
        Ok(Datetime { seconds: u64::MAX, nanoseconds: u32::MAX })
    }

    fn resolution(&mut self) -> wasmtime::Result<Datetime> {
        Ok(Datetime { seconds: 0, nanoseconds: 0 })
    }
}

impl logging::Host for Lent {
    fn log(&mut self, _: Level, _: String, _: String) -> wasmtime::Result<()> {
        Ok(())
    }
}
