//! Random input from a client, an operator, a host or the store itself: the component answers, and never traps.
//!
//! Cases that were found are kept in `proptest-regressions/` and tried first.

mod bare;
mod liar;

use std::{collections::BTreeMap, future::Future, sync::Arc};

use bare::Bare;
use keepline::{
    KeeplineError, Passed,
    pipe::{Answer, Effect},
    sessions::SessionErrorCode,
    store::{MemoryLimits, MemoryStore, Store},
};
use keepline_tests::{
    lanes::{Node, plugin},
    random,
    stores::StoreUnderTest,
};
use liar::Liar;
use proptest::{prelude::*, test_runner::FileFailurePersistence};
use serde_json::{Value, value::RawValue};

/// Of an ordinary run.
fn cases(usual: u32) -> ProptestConfig {
    const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/bad_input.txt");
    let failure_persistence = Some(Box::new(FileFailurePersistence::Direct(KEPT)) as _);
    ProptestConfig { cases: random::rounds(usual), failure_persistence, ..ProptestConfig::default() }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

// What comes in. ----------------------------------------------------------------------------------

fn lossy_bytes() -> impl Strategy<Value = String> {
    prop::collection::vec(any::<u8>(), 0..80).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-c]",
        1 => prop::sample::select(vec![
            "session_id", "memory_context", "last_answer", "answer_count", "__keys__", "__meta__", "op", "key",
            "cleared", "summarized_count", "op_counts", "keys_touched", "max_history", "max_keys",
            "session_ttl_hours", "session_ttl_mode", "auto_summarize", "unbound_context", "max_value_bytes", "message_id",
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
    /// With the id of a message.
    Told(String, String, String),
    Call(u8, String, String, String, i64),
}

fn steps(length: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => Just(Step::Open),
        4 => (text(), metadata()).prop_map(|(text, metadata)| Step::Question(text, metadata)),
        4 => (text(), metadata()).prop_map(|(text, metadata)| Step::Answer(text, metadata)),
        2 => (text(), metadata(), name()).prop_map(|(text, metadata, id)| Step::Told(text, metadata, id)),
        6 => (0..10_u8, name(), name(), text(), any::<i64>())
            .prop_map(|(call, session, key, text, number)| Step::Call(call, session, key, text, number)),
    ];
    prop::collection::vec(step, 1..length)
}

// What must hold. ---------------------------------------------------------------------------------

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
    let is_told = matches!(passed.effect, Effect::Limited | Effect::Failed | Effect::Ignored);
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
            Step::Told(text, metadata, id) => {
                let answer = Answer { text, metadata, message_id: Some(id), ..Answer::default() };
                check(metadata, &node.pipe.reply(answer, None).await.unwrap());
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
                    assert!(problem.code != SessionErrorCode::Plugin, "the plugin was stopped: {problem}");
                    assert!(!problem.message.is_empty() && problem.message.len() < 2000, "{problem}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn random_entries_and_calls_are_answered(options in options(), steps in steps(24)) {
        block_on(async {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new(MemoryLimits::default()));
            let mut node = Node::new(&store, &options).await;
            play(&mut node, &steps).await;
        });
    }

    #[test]
    fn random_options_are_accepted_or_refused(options in prop_oneof![text(), options(), metadata()]) {
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
    fn random_replies_of_a_store_are_answered(seed in any::<u64>(), options in options(), steps in steps(12)) {
        block_on(async {
            let store: Arc<dyn Store> = Arc::new(Liar::with_seed(seed));
            let mut node = Node::new(&store, &options).await;
            play(&mut node, &steps).await;
        });
    }

    #[test]
    fn random_turn_states_are_answered(
        turn in prop_oneof![text(), "k1:[a-c]", "k1:[a-c]:.{0,9}", "k1:.{0,9}", lossy_bytes().prop_map(|rest| format!("k1:a:{rest}"))],
        said in text(),
        metadata in metadata(),
    ) {
        let mut bare = Bare::new();
        bare.answer(&said, &metadata, &turn, None);
        let carried = bare.question(&said, &metadata);
        bare.answer(&said, &metadata, &carried, Some(&turn));
        bare.answer(&said, "{}", &format!("{carried}{turn}"), Some(&said));
        bare.answer(&said, "{}", &carried.chars().take(turn.len()).collect::<String>(), None);
    }
}

proptest! {
    #![proptest_config(cases(50))]

    #[test]
    fn random_calls_over_redis_are_answered(options in options(), steps in steps(24)) {
        block_on(async {
            let given = StoreUnderTest::redis();
            let mut node = Node::new(&given.store, &options).await;
            play(&mut node, &steps).await;
        });
    }

    #[test]
    fn random_calls_in_a_directory_are_answered(options in options(), steps in steps(24)) {
        block_on(async {
            let given = StoreUnderTest::directory();
            let mut node = Node::new(&given.store, &options).await;
            play(&mut node, &steps).await;
        });
    }
}
