//! Plugins that keep faulting are left alone, and tried again later.

use std::time::Duration;

use keepline::{Plugin, logging::LogLevel, pipe::Effect, pipe::ProblemCode, plugin::BUNDLED};
use keepline_tests::{confined::in_confinement, guests::HOSTILE};

use super::at_work::{AtWork, METADATA, PATIENCE, questions, run, sandbox};

const LEFT_ALONE: &str = "keepline.plugin.left-alone";

async fn left_alone_for(cooldown: Duration) -> AtWork {
    let breaker = |options: &mut keepline::Options| {
        (options.plugin_breaker.failures, options.plugin_breaker.cooldown) = (3, cooldown);
    };
    let attacker = AtWork::with(HOSTILE, &sandbox(), breaker).await.unwrap();
    for _ in 0..3 {
        assert!(!attacker.keepline.metrics().is_plugin_left_alone);
        assert!(attacker.stopped("trap").await.contains("gave up"));
    }
    attacker
}

#[tokio::test]
async fn the_breaker_opens_after_repeated_faults_and_is_reported_once() {
    let attacker = left_alone_for(PATIENCE * 60).await;
    for _ in 0..100 {
        let passed = attacker.ask("nothing").await;
        assert_eq!((passed.metadata, passed.effect), (None, Effect::Failed));
        let problem = passed.problem.unwrap();
        assert_eq!(problem.code, ProblemCode::Plugin);
        assert!(
            problem.message.contains("stopped too often (plugin_breaker_failures: 3) and is left alone"),
            "{}",
            problem.message
        );
    }
    let refused = attacker.keepline.sessions().create("s").await.unwrap_err();
    assert_eq!(refused.code, keepline::sessions::SessionErrorCode::Plugin);
    let metrics = attacker.keepline.metrics();
    assert_eq!((metrics.entries.faults, metrics.entries.left_alone, metrics.entries.failed), (3, 101, 103));
    assert!(metrics.is_plugin_left_alone && metrics.instances_at_work == 0);
    let told = attacker.log.of(LEFT_ALONE);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].level == LogLevel::Error && told[0].message.contains("3 times in a row"), "{told:?}");
    assert_eq!(attacker.log.of("keepline.plugin").len(), 3);
}

fn five_faults(options: &mut keepline::Options) {
    (options.plugin_breaker.failures, options.plugin_breaker.cooldown) = (5, PATIENCE * 60);
}

/// One that serves an entry now and then is no better.
#[tokio::test]
async fn the_breaker_opens_if_most_calls_fault() {
    for (good, bad) in [(1, 4), (1, 2), (2, 2)] {
        let attacker = AtWork::with(HOSTILE, &sandbox(), five_faults).await.unwrap();
        let deeds: Vec<&str> = ["trap"].repeat(bad).into_iter().chain(["nothing"].repeat(good)).collect();
        for deed in deeds.iter().cycle().take(100) {
            attacker.ask(deed).await;
        }
        assert!(attacker.keepline.metrics().is_plugin_left_alone, "{good} {bad}");
    }
    // Few of many are no reason.
    let attacker = AtWork::with(HOSTILE, &sandbox(), five_faults).await.unwrap();
    for deed in ["trap", "nothing", "nothing", "nothing"].iter().cycle().take(100) {
        attacker.ask(deed).await;
    }
    assert!(!attacker.keepline.metrics().is_plugin_left_alone);
}

#[tokio::test]
async fn a_replacement_plugin_starts_with_a_closed_breaker() {
    let attacker = left_alone_for(PATIENCE * 60).await;
    attacker.keepline.replace_plugin(Plugin::from_bytes(BUNDLED, &sandbox()).unwrap()).await.unwrap();
    assert!(!attacker.keepline.metrics().is_plugin_left_alone);
    assert_eq!(attacker.ask("?").await.effect, Effect::Resumed);
    // Nor does it have a part of it: the next one is left alone after three faults of its own.
    attacker.keepline.replace_plugin(Plugin::from_bytes(HOSTILE, &sandbox()).unwrap()).await.unwrap();
    for _ in 0..2 {
        attacker.stopped("trap").await;
    }
    assert_eq!(attacker.ask("nothing").await.effect, Effect::Passed);
}

#[tokio::test]
async fn the_breaker_closes_when_a_trial_call_succeeds() {
    let attacker = left_alone_for(Duration::from_millis(20)).await;
    let again = async {
        while attacker.ask("nothing").await.effect != Effect::Passed {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.unwrap();
    assert!(!attacker.keepline.metrics().is_plugin_left_alone);
    for _ in 0..10 {
        assert_eq!(attacker.ask("nothing").await.effect, Effect::Passed);
    }
    let told = attacker.log.of(LEFT_ALONE);
    assert!(told.last().unwrap().message.contains("left alone no longer"), "{told:?}");
}

/// A call that is dropped while it tries the plugin again makes room for the next.
#[tokio::test]
async fn a_dropped_trial_call_leaves_room_for_the_next() {
    let attacker = left_alone_for(Duration::from_millis(20)).await;
    let tried = async {
        loop {
            let mut pipe = attacker.keepline.pipe();
            let at_work = tokio::time::timeout(Duration::from_millis(50), pipe.question("loop", METADATA)).await;
            if at_work.is_err() {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, tried).await.unwrap();
    let again = async {
        while attacker.ask("nothing").await.effect != Effect::Passed {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.unwrap();
}

#[test]
fn the_binary_spends_little_on_a_plugin_that_always_loops() {
    let (confined, _directory) = run(HOSTILE, &["--set", "sandbox_cpu_ms=500"]);
    // Half a second each would be more than the processor time that it may have.
    let ended = confined.input(questions("loop", 200)).run();
    assert_eq!((ended.code, ended.stdout.lines().count()), (Some(0), 200), "{ended:#?}");
    assert!(ended.cpu < Duration::from_secs(30), "{ended:#?}");
    assert_eq!(ended.stderr.matches("entries go on without memory").count(), 1, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("passed unchanged while the plugin was left alone, and still is"),
        "{}",
        ended.stderr
    );
}

#[test]
fn the_breaker_closes_again_after_concurrent_faults() {
    in_confinement(
        "breaker::the_breaker_closes_again_after_concurrent_faults",
        |limits| limits,
        || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
            runtime.block_on(async {
                let attacker = left_alone_for(Duration::from_millis(1)).await;
                let storm: Vec<_> = (0..32)
                    .map(|n| {
                        let mut pipe = attacker.keepline.pipe();
                        tokio::spawn(async move {
                            for m in 0..100 {
                                let text = if (n + m) % 3 == 0 { "nothing" } else { "trap" };
                                pipe.question(text, METADATA).await.unwrap();
                            }
                        })
                    })
                    .collect();
                for one in storm {
                    one.await.unwrap();
                }
                let again = async { while attacker.ask("nothing").await.effect != Effect::Passed {} };
                tokio::time::timeout(PATIENCE, again).await.unwrap();
            });
        },
    );
}
