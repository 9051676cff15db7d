//! Plugins that occupy a thread.

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use keepline::{KeeplineError, Plugin, Sandbox, pipe::Effect, plugin::BUNDLED};
use keepline_tests::{
    confined::{Usage, in_confinement},
    guests::{CoreGuest, HOSTILE},
    programs::{end, signal, until_it_listens},
    until::until,
};

use super::at_work::{AtWork, METADATA, PATIENCE, questions, run, sandbox};

/// Calls of the log in a straight line, with a message of 30 MB each: no function and no loop is entered on the way.
fn straight_line(calls: usize) -> String {
    let call = "(call $write (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 65536) (i32.const 30000000)) ";
    call.repeat(calls)
}

fn logs_when_asked() -> Vec<u8> {
    let question = straight_line(10_000) + "i32.const 0";
    CoreGuest { pages: 500, question: &question, ..CoreGuest::default() }.component()
}

/// Nothing but its time stops it.
fn unlimited_but_for_time() -> Sandbox {
    let mut sandbox = sandbox();
    sandbox.cpu_time = Duration::from_millis(200);
    sandbox.copy_bytes = 1 << 50;
    sandbox.host_calls_per_entry = u32::MAX;
    sandbox
}

/// On one thread: it has to make way, too.
#[tokio::test(flavor = "current_thread")]
async fn straight_line_host_calls_stay_within_the_time_limit() {
    let attacker = AtWork::of(&logs_when_asked(), &unlimited_but_for_time()).await;
    let other = AtWork::of(BUNDLED, &sandbox()).await;
    let finished = AtomicUsize::new(0);
    let (stopped_at, served_at) = tokio::join!(
        async {
            assert!(attacker.stopped("x").await.contains("computed for longer than 200 ms"));
            finished.fetch_add(1, Ordering::Relaxed)
        },
        async {
            for _ in 0..3 {
                assert_eq!(other.ask("?").await.effect, Effect::Resumed);
                tokio::task::yield_now().await;
            }
            finished.fetch_add(1, Ordering::Relaxed)
        }
    );
    assert_eq!((served_at, stopped_at), (0, 1));
}

#[tokio::test]
async fn host_calls_at_start_and_configuration_stay_within_the_time_limit() {
    let line = straight_line(10_000);
    // What tools make a start function of: one that can call the host.
    let start = format!("(func (export \"_initialize\") {line})");
    let configure = format!("{line} i32.const 0");
    for component in [
        CoreGuest { pages: 500, more: &start, ..CoreGuest::default() },
        CoreGuest { pages: 500, configure: &configure, ..CoreGuest::default() },
    ] {
        let refused = AtWork::with(&component.component(), &unlimited_but_for_time(), |_| {}).await.err().unwrap();
        assert!(matches!(&refused, KeeplineError::Plugin(why) if why.contains("computed for longer")), "{refused}");
    }
}

#[tokio::test]
async fn straight_line_memory_fills_stay_within_the_time_limit() {
    let fill = "(memory.fill (i32.const 65536) (i32.const 1) (i32.const 60000000)) ".repeat(5_000) + "i32.const 0";
    let attacker = CoreGuest { pages: 950, question: &fill, ..CoreGuest::default() }.component();
    let attacker = AtWork::of(&attacker, &unlimited_but_for_time()).await;
    assert!(attacker.stopped("x").await.contains("computed for longer than 200 ms"));
}

#[tokio::test]
async fn computing_time_between_store_calls_adds_up() {
    let mut sandbox = sandbox();
    sandbox.store_calls_per_entry = u32::MAX;
    let attacker = AtWork::of(HOSTILE, &sandbox).await;
    assert!(attacker.stopped("spin-and-list 1000000").await.contains("computed for longer than 1000 ms"));
    // When the entry's time is over, the store is not asked any more; each such call takes nothing.
    let late = AtWork::with(HOSTILE, &sandbox, |options| options.entry_timeout = Duration::from_millis(20));
    let told = late.await.unwrap().stopped("spin-and-list 1000000").await;
    assert!(told.contains("went on computing for 250 ms after its entry's deadline"), "{told}");
}

#[tokio::test]
async fn loops_in_calls_of_the_host_s_own_are_stopped() {
    // To take in a string, the host has the guest allocate it.
    let looping = CoreGuest { realloc: "(loop (br 0)) i32.const 0", ..CoreGuest::default() }.component();
    let refused = AtWork::with(&looping, &unlimited_but_for_time(), |_| {}).await.err().unwrap();
    assert!(matches!(&refused, KeeplineError::Plugin(why) if why.contains("computed for longer")), "{refused}");

    let post = "(func (export \"cabi_post_keepline:memory/lanes@0.3.0#question\") (param i32) (loop (br 0)))";
    let after =
        AtWork::of(&CoreGuest { more: post, ..CoreGuest::default() }.component(), &unlimited_but_for_time()).await;
    assert!(after.stopped("x").await.contains("computed for longer"));
}

#[test]
fn the_binary_passes_every_entry_of_eight_pipes_of_straight_line_code() {
    let (confined, _directory) = run(&logs_when_asked(), &["--pipes", "8"]);
    let ended = confined.input(questions("x", 200)).run();
    assert_eq!((ended.code, ended.stdout.lines().count()), (Some(0), 200), "{ended:#?}");
    assert!(ended.stderr.contains("the plugin was stopped"), "{}", ended.stderr);
    assert!(ended.peak_bytes < 1 << 30, "{}", ended.peak_bytes);
}

/// Nothing limits these but the signal.
#[test]
fn a_signal_ends_the_binary_even_with_a_busy_plugin() {
    const UNLIMITED: [&str; 12] = [
        "--set",
        "plugin_breaker_failures=1000000",
        "--set",
        "sandbox_cpu_ms=3600000",
        "--set",
        "store_timeout_ms=300000",
        "--set",
        "sandbox_copy_bytes=4294967296",
        "--set",
        "sandbox_host_calls=1000000000",
        "--grace",
        "1",
    ];
    let line = straight_line(10_000) + "i32.const 0";
    let logs = CoreGuest { pages: 500, question: &line, ..CoreGuest::default() }.component();
    for (component, text) in [(HOSTILE, "loop"), (HOSTILE, "loop-over-clock"), (&logs[..], "x")] {
        for pipes in ["1", "8"] {
            let (confined, _directory) = run(component, &[&UNLIMITED[..], &["--pipes", pipes]].concat());
            let mut child = confined.spawn();
            child.stdin.as_mut().unwrap().write_all(questions(text, 64).as_bytes()).unwrap();
            until_it_listens(&child);
            // It is at it: nothing else there takes so long.
            until("it computes", || (cpu(child.id()) > Duration::from_millis(1500)).then_some(()));
            let told = Instant::now();
            signal(&child, "-TERM");
            end(&mut child);
            assert!(told.elapsed() < PATIENCE / 3, "{text}, {pipes} pipes: {:?}", told.elapsed());
        }
    }
}

fn cpu(process: u32) -> Duration {
    let mut usage = Usage::default();
    usage.look(process);
    usage.cpu
}

/// Two plugins in one process: what forty pipes of one do is nothing to the other.
#[test]
fn a_plugin_is_served_beside_forty_pipes_that_loop() {
    let name = "time::a_plugin_is_served_beside_forty_pipes_that_loop";
    in_confinement(
        name,
        |limits| limits,
        || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                // Processor time ends each attack, not the clock: on a busy machine both sides have as much as elsewhere.
                let mut limited = sandbox();
                limited.cpu_time = Duration::from_millis(100);
                limited.store_calls_per_entry = u32::MAX;
                let usual = |options: &mut keepline::Options| {
                    options.entry_timeout = PATIENCE;
                    options.plugin_breaker = keepline::Options::default().plugin_breaker;
                };
                let attacker = AtWork::with(HOSTILE, &limited, usual).await.unwrap();
                let other =
                    AtWork::with(BUNDLED, &sandbox(), |options| options.entry_timeout = PATIENCE).await.unwrap();
                let attacks: Vec<_> = (0..40)
                    .map(|n| {
                        let mut pipe = attacker.keepline.pipe();
                        let text = ["loop", "spin-and-list 1000000"][n % 2];
                        tokio::spawn(async move { pipe.question(text, METADATA).await.unwrap().effect })
                    })
                    .collect();
                // It needs the same threads, and comes last each time.
                let is_over = Arc::new(AtomicBool::new(false));
                let (keepline, over) = (other.keepline.clone(), is_over.clone());
                let beside = tokio::spawn(async move {
                    let mut served = 0;
                    while !over.load(Ordering::Relaxed) {
                        let mut pipe = keepline.pipe();
                        let question = pipe.question("?", r#"{"session_id":"s"}"#).await.unwrap();
                        assert!(matches!(question.effect, Effect::Resumed | Effect::Enriched), "{question:?}");
                        assert_eq!(pipe.answer("!", "{}").await.unwrap().effect, Effect::Stored);
                        served += 1;
                        tokio::task::yield_now().await;
                    }
                    served
                });
                let began = Instant::now();
                for attack in attacks {
                    assert_eq!(attack.await.unwrap(), Effect::Failed);
                }
                is_over.store(true, Ordering::Relaxed);
                let served: u32 = beside.await.unwrap();
                println!("{served} pairs beside the attack, which took {:?}", began.elapsed());
                // Behind a tick of each attack it would be a dozen; so many are served at any load (3,000 at a load of 16).
                assert!(served >= 100, "{served}");
                // Nothing of it lasts.
                let plugin = Plugin::from_bytes(BUNDLED, &sandbox()).unwrap();
                attacker.keepline.replace_plugin(plugin).await.unwrap();
                assert_eq!(attacker.ask("?").await.effect, Effect::Resumed);
            });
        },
    );
}
