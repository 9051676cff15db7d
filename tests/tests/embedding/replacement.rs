//! A plugin is replaced at work, and no entry fails or loses its memory. A replacement that can't be used is refused,
//! and the current one goes on.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, future::join_all};
use keepline::{
    KeeplineError, Plugin, PluginError, Sandbox,
    pipe::Effect,
    plugin::BUNDLED,
    store::{MemoryStore, Store},
};
use keepline_tests::{
    guests::{HOSTILE, core_guest, told},
    lanes::{self, Node, metadata_of, operations_told, plugin, untouched},
    stores::{StoreUnderTest, run_in_parallel},
    watch::in_own_process,
};

use super::{Gate, begin};

fn sandbox() -> Sandbox {
    let mut sandbox = lanes::sandbox();
    sandbox.cpu_time = Duration::from_millis(200);
    sandbox
}

/// A plugin of its own, as it is loaded from a file: nothing is shared with one before but the code's text.
pub(super) fn loaded(component: &[u8]) -> Plugin {
    Plugin::from_bytes(component, &sandbox()).unwrap()
}

async fn on_memory(component: &[u8], options: &str) -> Node {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    Node::of(loaded(component), &store, options, |_| {}).await.unwrap()
}

/// Conversations on many pipes and few instances, each in a session of its own and in one of all; and all the
/// while another version, and another.
async fn nothing_is_lost_or_fails(under_test: Arc<StoreUnderTest>) {
    const PIPES: u64 = 24;
    /// Each lane has that many at least, and goes on until there were so many replacements.
    const ROUNDS: u64 = 150;
    const REPLACEMENTS: u64 = 20;
    let options = |options: &mut keepline::Options| (options.max_instances, options.max_wait) = (8, super::PATIENCE);
    let mut node = Node::with(&under_test.store, r#"{"max_history":10}"#, options).await;
    let is_over = AtomicBool::new(false);
    let replaced = Arc::new(AtomicU64::new(0));
    let lanes = (0..PIPES).map(|n| {
        let (keepline, replaced) = (node.keepline.clone(), replaced.clone());
        tokio::spawn(async move {
            let mut pipe = keepline.pipe();
            let mut sessions = keepline.sessions();
            let mut round = 0;
            while round < ROUNDS || replaced.load(Ordering::Relaxed) < REPLACEMENTS {
                let own = format!("s{n}");
                let question = pipe.question("?", &metadata_of(&own)).await.unwrap();
                let expected = if round == 0 { Effect::Resumed } else { Effect::Enriched };
                assert_eq!(question.effect, expected, "{question:?}");
                if let Some(metadata) = question.metadata {
                    assert!(metadata.contains(&format!("\"last_answer\":\"{}\"", round - 1)), "{round} {metadata}");
                }
                // By the turn that perhaps another version told.
                let answer = pipe.answer(&round.to_string(), "{}").await.unwrap();
                assert!(untouched(Effect::Stored, &answer), "{answer:?}");
                let shared = pipe.answer("x", &metadata_of("shared")).await.unwrap();
                assert!(untouched(Effect::Stored, &shared), "{shared:?}");
                sessions.increment(&own, "n", 1).await.unwrap();
                round += 1;
            }
            round
        })
    });
    let lanes: Vec<_> = lanes.collect();
    let work = async {
        let rounds: Vec<u64> = join_all(lanes).await.into_iter().map(Result::unwrap).collect();
        is_over.store(true, Ordering::Relaxed);
        rounds
    };
    let replacing = async {
        while !is_over.load(Ordering::Relaxed) {
            // Now a new one, now one that was there before.
            let next = if replaced.load(Ordering::Relaxed).is_multiple_of(2) { loaded(BUNDLED) } else { plugin() };
            node.keepline.replace_plugin(next).await.unwrap();
            replaced.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let (rounds, ()) = tokio::join!(work, replacing);
    let all: u64 = rounds.iter().sum();

    let counters = node.counters();
    assert_eq!((counters.failed, counters.busy, counters.faults, counters.ended), (0, 0, 0, 0), "{counters:?}");
    assert_eq!(counters.stored, 2 * all);
    let count = async |node: &mut Node, session: &str, key: &str| -> u64 {
        node.sessions.get(session, key).await.unwrap().value().unwrap().parse().unwrap()
    };
    for (n, rounds) in rounds.into_iter().enumerate() {
        let session = format!("s{n}");
        assert_eq!(count(&mut node, &session, "answer_count").await, rounds);
        assert_eq!(count(&mut node, &session, "n").await, rounds);
        assert_eq!(operations_told(&node.history(&session).await), 3 * rounds);
    }
    assert_eq!(count(&mut node, "shared", "answer_count").await, all);
    assert_eq!(operations_told(&node.history("shared").await), 2 * all);
    assert_eq!(node.log.warnings(), [""; 0]);
}

#[test]
fn replacing_the_plugin_loses_and_fails_no_call_on_the_memory_store() {
    run_in_parallel(StoreUnderTest::memory(), nothing_is_lost_or_fails);
}

#[test]
fn replacing_the_plugin_loses_and_fails_no_call_in_a_directory() {
    run_in_parallel(StoreUnderTest::directory(), nothing_is_lost_or_fails);
}

#[test]
fn replacing_the_plugin_loses_and_fails_no_call_on_redis() {
    run_in_parallel(StoreUnderTest::redis(), nothing_is_lost_or_fails);
}

#[tokio::test]
async fn a_running_call_is_finished_by_the_replaced_plugin() {
    let gate = Gate::closed();
    let store: Arc<dyn Store> = gate.clone();
    let node = Node::of(loaded(HOSTILE), &store, "{}", |_| {}).await.unwrap();
    let mut pipe = node.keepline.pipe();
    let mut call = pipe.question("bucket s", r#"{"session_id":"s"}"#).boxed_local();
    begin([&mut call]).await;
    node.keepline.replace_plugin(plugin()).await.unwrap();
    gate.open();
    // Only the hostile one answers like that.
    assert_eq!(told(&call.await.unwrap()).as_deref(), Some("done"));
    // And never again: to the bundled one this is a question without a session.
    let passed = pipe.question("served", "{}").await.unwrap();
    assert!(untouched(Effect::Passed, &passed), "{passed:?}");
}

#[tokio::test]
async fn a_turn_token_of_one_plugin_is_harmless_in_another() {
    let mut node = on_memory(BUNDLED, "{}").await;
    assert_eq!(node.ask("s").await.effect, Effect::Resumed);
    node.keepline.replace_plugin(loaded(HOSTILE)).await.unwrap();
    // It tells the turn that it was given.
    let told = told(&node.reply("nothing").await).unwrap();
    assert!(told.starts_with("k1:s"), "{told}");

    for turn in ["", "k1:", "k1:a b", "k2:s", "garbage ~", "{}", &"x".repeat(4096)] {
        node.keepline.replace_plugin(loaded(HOSTILE)).await.unwrap();
        node.pipe.question(&format!("turn {turn}"), "{}").await.unwrap();
        node.keepline.replace_plugin(plugin()).await.unwrap();
        assert!(untouched(Effect::Passed, &node.reply("an answer of nobody").await), "{turn}");
    }
    assert_eq!(node.say("s", "and on").await.effect, Effect::Stored);
    assert_eq!(node.sessions.list("", 10).await.unwrap().sessions, ["s"]);
}

#[tokio::test]
async fn effective_options_are_those_of_the_new_plugin() {
    let node = on_memory(HOSTILE, r#"{"max_history":7}"#).await;
    assert_eq!(&*node.keepline.filter_options(), r#"{"max_history":7}"#);
    let clone = node.keepline.clone();
    node.keepline.replace_plugin(plugin()).await.unwrap();
    let told = clone.filter_options();
    assert!(told.contains("\"max_history\":7") && told.contains("\"auto_summarize\":true"), "{told}");
}

/// The one before goes on, as if nobody had asked.
async fn is_refused(mut node: Node, plugin: Plugin, reason: &str) {
    let options = node.keepline.filter_options();
    let before = node.ask("s").await;
    let refused = node.keepline.replace_plugin(plugin).await.unwrap_err();
    assert!(refused.to_string().contains(reason), "{refused}");
    assert_eq!((node.ask("s").await, node.keepline.filter_options()), (before, options));
    assert_eq!((node.counters().failed, node.counters().faults), (0, 0));
}

#[tokio::test]
async fn a_plugin_that_can_not_be_configured_is_refused() {
    let passive = core_guest(2, "i32.const 0", "");
    let node = on_memory(HOSTILE, r#"{"no_such_field":1}"#).await;
    is_refused(node, plugin(), "no_such_field").await;
    let node = on_memory(HOSTILE, r#"{"max_history":-1}"#).await;
    let refused = node.keepline.replace_plugin(plugin()).await.unwrap_err();
    assert!(matches!(&refused, KeeplineError::Config { field, .. } if field == "max_history"), "{refused}");
    for (misdeed, reason) in [("trap", "gave up"), ("loop", "computed for longer"), ("allocate", "")] {
        let node = on_memory(&passive, &format!("misdeed: {misdeed}")).await;
        is_refused(node, loaded(HOSTILE), reason).await;
    }
    is_refused(on_memory(&passive, "refuse").await, loaded(HOSTILE), "no").await;
}

#[tokio::test]
async fn a_replacement_over_the_limits_or_with_forbidden_imports_is_refused() {
    is_refused(on_memory(BUNDLED, "{}").await, loaded(&core_guest(2000, "i32.const 0", "")), "memory").await;
    let start = core_guest(2, "i32.const 0", "(func $start unreachable) (start $start)");
    is_refused(on_memory(BUNDLED, "{}").await, loaded(&start), "gave up").await;
    // What asks for more than it is lent, or does not fit, never becomes a plugin.
    let forbidden = wat::parse_str("(component (import \"wasi:sockets/tcp@0.2.0\" (instance)))").unwrap();
    assert!(matches!(Plugin::from_bytes(&forbidden, &sandbox()), Err(PluginError::ForbiddenImports(_))));
    let misfit = wat::parse_str("(component)").unwrap();
    assert!(matches!(Plugin::from_bytes(&misfit, &sandbox()), Err(PluginError::Misfit(_))));
}

/// Each plugin has a clock thread, code and instances of its own.
#[test]
fn a_replaced_plugin_leaves_no_clock_thread_behind() {
    fn clocks() -> usize {
        let names =
            fs::read_dir("/proc/self/task").unwrap().map(|task| fs::read_to_string(task.unwrap().path().join("comm")));
        names.filter(|name| name.as_ref().is_ok_and(|name| name.starts_with("keepline-epoch"))).count()
    }
    in_own_process("replacement::a_replaced_plugin_leaves_no_clock_thread_behind", || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut node = on_memory(BUNDLED, "{}").await;
            for _ in 0..20 {
                node.keepline.replace_plugin(loaded(BUNDLED)).await.unwrap();
                assert_eq!(node.say("s", "x").await.effect, Effect::Stored);
            }
            // A clock finds out at its next tick; and the newest has its name when it has begun.
            let end = std::time::Instant::now() + super::PATIENCE;
            let mut in_a_row = 0;
            while in_a_row < 40 {
                in_a_row = if clocks() == 1 { in_a_row + 1 } else { 0 };
                assert!(std::time::Instant::now() < end, "{} clocks", clocks());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
    });
}
