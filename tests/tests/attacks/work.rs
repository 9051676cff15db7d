//! Plugins that make the host or the store do excessive work for one entry.

use std::time::Duration;

use keepline::{
    Sandbox,
    pipe::Effect,
    store::{Deadline, Store, Writer},
};
use keepline_tests::{
    guests::{CoreGuest, HOSTILE, told},
    requests::{describe, description, transaction, unused},
};

use super::at_work::{AtWork, questions, run, sandbox};

/// Whatever a debug build takes for it, it is not its time that stops the plugin.
fn patient() -> Sandbox {
    let mut sandbox = sandbox();
    sandbox.cpu_time = Duration::from_secs(50);
    sandbox
}

/// How many values the session has.
async fn values(attacker: &AtWork) -> u64 {
    let asked = transaction("s1", unused(), [describe()]);
    let receipt = attacker.store.transact(&Writer::placeholder(), &asked, Deadline::NEVER).await.unwrap();
    description(receipt.receipt.outcomes.into_iter().next().unwrap()).values
}

#[tokio::test]
async fn the_bytes_that_an_entry_writes_are_limited_over_all_transactions() {
    let attacker = AtWork::of(HOSTILE, &patient()).await;
    let told = attacker.stopped("write 200").await;
    assert!(told.contains("made the host copy more than"), "{told}");
    // Of a megabyte each.
    let written = values(&attacker).await;
    assert!((1..=32).contains(&written), "{written}");
    // The next entry has its own.
    assert_eq!(attacker.ask("write 20").await.effect, Effect::Passed);
}

#[tokio::test]
async fn the_operations_keys_and_records_of_an_entry_are_limited() {
    let attacker = AtWork::of(HOSTILE, &patient()).await;
    let told = attacker.stopped("write-keys 128").await;
    assert!(told.contains("more than 40000 operations, keys and records"), "{told}");
    // Of 5,000 keys each, always the same.
    assert_eq!(values(&attacker).await, 5000);
    assert_eq!(attacker.ask("write-keys 7").await.effect, Effect::Passed);
}

#[tokio::test]
async fn the_bytes_that_an_entry_reads_are_limited() {
    let mut sandbox = patient();
    sandbox.read_bytes_per_entry = 8 << 20;
    let attacker = AtWork::of(HOSTILE, &sandbox).await;
    // Seven of a megabyte and the lists that hold them. Then there is less left than a megabyte: it is over the limit.
    assert_eq!(told(&attacker.ask("read 8").await).unwrap(), "7");
    assert_eq!(told(&attacker.ask("read 200").await).unwrap(), "7");
    // Who reads on when nothing is left is stopped.
    sandbox.read_bytes_per_entry = (1 << 20) + 1000;
    let attacker = AtWork::of(HOSTILE, &sandbox).await;
    assert_eq!(told(&attacker.ask("read 2").await).unwrap(), "1");
    let told = attacker.stopped("read 100").await;
    assert!(told.contains("read more than 1049576 bytes from the store for one entry"), "{told}");
}

#[tokio::test]
async fn the_host_calls_of_an_entry_are_limited() {
    let attacker = AtWork::of(HOSTILE, &patient()).await;
    for misdeed in ["loop-over-clock", "loop-over-about", "loop-over-log"] {
        let told = attacker.stopped(misdeed).await;
        assert!(told.contains("called the host more than 10000 times for one entry"), "{misdeed}: {told}");
    }
    // In a straight line, too.
    let calls = |count: usize| {
        let question = "(call $now (i32.const 1024)) ".repeat(count) + "i32.const 0";
        CoreGuest { question: &question, ..CoreGuest::default() }.component()
    };
    let mut few = patient();
    few.host_calls_per_entry = 100;
    assert_eq!(AtWork::of(&calls(100), &few).await.ask("x").await.effect, Effect::Passed);
    let told = AtWork::of(&calls(101), &few).await.stopped("x").await;
    assert!(told.contains("called the host more than 100 times"), "{told}");
}

#[tokio::test]
async fn logged_and_replied_bytes_count_with_written_ones() {
    let mut sandbox = patient();
    sandbox.copy_bytes = 2 << 20;
    let attacker = AtWork::of(HOSTILE, &sandbox).await;
    assert_eq!(attacker.ask("log-long-line 1750000").await.effect, Effect::Passed);
    assert_eq!(attacker.ask("reply 1750000").await.effect, Effect::Passed);
    for misdeed in ["log-long-line 2250000", "reply 2250000", "write 3"] {
        let told = attacker.stopped(misdeed).await;
        assert!(told.contains("made the host copy more than"), "{misdeed}: {told}");
    }
}

#[test]
fn the_binary_takes_no_more_than_an_entry_may_write() {
    let (confined, _directory) = run(HOSTILE, &["--set", "sandbox_cpu_ms=50000", "--set", "store_timeout_ms=50000"]);
    let ended = confined.memory_bytes(1 << 30).input(questions("write 1280", 1) + &questions("nothing", 1)).run();
    assert_eq!((ended.code, ended.stdout.lines().count()), (Some(0), 2), "{ended:#?}");
    assert!(ended.stderr.contains("the plugin was stopped"), "{}", ended.stderr);
    assert!(ended.peak_bytes < 512 << 20, "{ended:#?}");
}
