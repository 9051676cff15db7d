//! Plugins that hold more memory than they may: in one instance, in all together, and in places that are easily missed.

use std::{fmt::Write, sync::Arc, time::Duration};

use async_trait::async_trait;
use keepline::{
    Keepline, KeeplineError, Options, Passed, Pipe, Plugin, PluginError,
    pipe::{Effect, ProblemCode},
    store::MemoryStore,
};
use keepline_tests::{
    confined::in_confinement,
    guests::{CoreGuest, core_guest},
    intercept::{Intercept, Intercepted},
    watch::KeptLog,
};
use tokio::{sync::Semaphore, task::JoinHandle};

use super::at_work::{AtWork, METADATA, PATIENCE, sandbox};

/// Refused when it is loaded, or when the first instance is made.
async fn refused(component: &[u8], change: impl FnOnce(&mut keepline::Sandbox)) -> String {
    let mut sandbox = sandbox();
    change(&mut sandbox);
    let plugin = match Plugin::from_bytes(component, &sandbox) {
        Ok(plugin) => plugin,
        Err(error @ (PluginError::NotAComponent(_) | PluginError::Misfit(_))) => return error.to_string(),
        Err(error) => panic!("{error}"),
    };
    let error = Keepline::new(plugin, Arc::new(MemoryStore::default()), Options::default()).await.err().unwrap();
    assert!(matches!(error, KeeplineError::Plugin(_)), "{error}");
    error.to_string()
}

#[tokio::test]
async fn globals_count_towards_the_memory_limit() {
    let globals = "(global (mut v128) (v128.const i64x2 0 0))".repeat(20_000);
    let component = core_guest(2, "i32.const 0", &globals);
    let told = refused(&component, |sandbox| sandbox.memory_bytes = 256 << 10).await;
    assert!(told.contains("globals"), "{told}");
    // 128 KiB of memory and 312 KiB of globals.
    let roomy = |sandbox: &mut keepline::Sandbox| sandbox.memory_bytes = 512 << 10;
    let mut enough = sandbox();
    roomy(&mut enough);
    let served = AtWork::of(&component, &enough).await;
    assert_eq!(served.ask("").await.effect, Effect::Passed);
    assert!(served.keepline.metrics().instances_bytes > 440 << 10);
}

#[tokio::test]
async fn memories_and_tables_count_towards_one_limit() {
    let tables: String = (0..8).fold(String::new(), |mut text, n| {
        write!(text, "(table $t{n} 9000 funcref)").unwrap();
        text
    });
    let component = core_guest(2, "i32.const 0", &tables);
    let told = refused(&component, |sandbox| sandbox.memory_bytes = 256 << 10).await;
    assert!(told.contains("table"), "{told}");
}

/// A request to delete the session that an entry is about, as it lies in memory (its kind and its name, any generation, no
/// keys), and the call that sends it.
const OWN_SESSION: &str = r#"(data (i32.const 2048) "s1session")
    (data (i32.const 2064) "\02\08\00\00\07\00\00\00" "\00\08\00\00\02\00\00\00")"#;
const DELETE_OWN: &str = "(call $delete-each (i32.const 2064) (i32.const 1) (i32.const 1024))";

/// Grows by 60 MB when it is asked, and then waits for the store.
fn grows_and_waits() -> Vec<u8> {
    let question = format!(
        "(drop (memory.grow (i32.const 915)))
        (if (i32.lt_u (memory.size) (i32.const 900)) (then unreachable))
        {DELETE_OWN}
        (memory.fill (i32.const 0) (i32.const 0) (i32.const 2048))
        i32.const 0"
    );
    CoreGuest { question: &question, more: OWN_SESSION, ..CoreGuest::default() }.component()
}

/// A store that deletes nothing until it is let.
#[derive(Debug)]
struct Held(Arc<Semaphore>);

#[async_trait]
impl Intercept for Held {
    async fn before_deletion(&self) {
        drop(self.0.acquire().await);
    }
}

#[test]
fn all_instances_together_stay_within_the_pools_memory() {
    let name = "memory::all_instances_together_stay_within_the_pools_memory";
    in_confinement(
        name,
        |limits| limits.memory_bytes(1 << 30),
        || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let limit = 200 << 20;
                let mut sandbox = sandbox();
                sandbox.pool_memory_bytes = limit;
                let plugin = Plugin::from_bytes(&grows_and_waits(), &sandbox).unwrap();
                let held = Arc::new(Semaphore::new(0));
                let keepline = over(&held, &plugin).await;
                let pipes = ask_side_by_side(&keepline, 64);
                // Three have room, and wait for the store; the others are told at once that there is none.
                let all_but_three = async {
                    while pipes.iter().filter(|pipe| pipe.is_finished()).count() < 61 {
                        assert!(keepline.metrics().instances_bytes <= limit);
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                };
                tokio::time::timeout(PATIENCE, all_but_three).await.unwrap();
                held.add_permits(1000);
                let mut served = 0;
                for pipe in pipes {
                    let passed = pipe.await.unwrap();
                    match passed.problem {
                        None => served += 1,
                        Some(problem) => {
                            assert_eq!(problem.code, ProblemCode::Busy, "{problem:?}");
                            assert!(problem.message.contains("sandbox_pool_memory_bytes"), "{problem:?}");
                        }
                    }
                }
                assert_eq!(served, 3);
                let metrics = keepline.metrics();
                // What others held is no fault of a plugin's.
                assert_eq!((metrics.entries.busy, metrics.entries.faults), (61, 0));
                assert!(!metrics.is_plugin_left_alone);
                // None that has grown is kept; what they held is free again.
                let free = async {
                    while keepline.metrics().instances_bytes > 1 << 20 {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                };
                tokio::time::timeout(PATIENCE, free).await.unwrap();
                assert_eq!(keepline.pipe().question("x", METADATA).await.unwrap().effect, Effect::Passed);
            });
        },
    );
}

#[tokio::test]
async fn idle_instances_hold_at_most_half_of_the_pools_memory() {
    let mut sandbox = sandbox();
    (sandbox.memory_bytes, sandbox.pool_memory_bytes) = (8 << 20, 32 << 20);
    // Six megabytes from the beginning: it does not grow.
    let waits = format!(
        "{DELETE_OWN}
        (memory.fill (i32.const 0) (i32.const 0) (i32.const 2048))
        i32.const 0"
    );
    let large = CoreGuest { pages: 96, question: &waits, more: OWN_SESSION, ..CoreGuest::default() }.component();
    let held = Arc::new(Semaphore::new(0));
    let keepline = over(&held, &Plugin::from_bytes(&large, &sandbox).unwrap()).await;
    let all = ask_side_by_side(&keepline, 16);
    let five = async {
        while all.iter().filter(|pipe| pipe.is_finished()).count() < 11 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, five).await.unwrap();
    assert_eq!(keepline.metrics().instances_at_work, 5);
    held.add_permits(1000);
    for pipe in all {
        pipe.await.unwrap();
    }
    let rest = async {
        while keepline.metrics().instances_bytes > 16 << 20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, rest).await.unwrap();
    for _ in 0..2 {
        assert_eq!(keepline.pipe().question("x", METADATA).await.unwrap().effect, Effect::Passed);
        assert!(keepline.metrics().instances_idle >= 1);
    }
}

/// A plugin over a store that deletes nothing until it is let.
async fn over(held: &Arc<Semaphore>, plugin: &Plugin) -> Keepline {
    let store = Intercepted::new(Arc::new(MemoryStore::default()), Held(held.clone()));
    let mut options = Options::default();
    (options.entry_timeout, options.log) = (PATIENCE, Arc::new(KeptLog::default()));
    Keepline::new(plugin.clone(), Arc::new(store), options).await.unwrap()
}

fn ask_side_by_side(keepline: &Keepline, pipes: usize) -> Vec<JoinHandle<Passed>> {
    let ask = |mut pipe: Pipe| tokio::spawn(async move { pipe.question("x", METADATA).await.unwrap() });
    (0..pipes).map(|_| ask(keepline.pipe())).collect()
}
