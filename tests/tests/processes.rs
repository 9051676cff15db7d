//! Several processes, each with several pipes, at work on one session in one Redis or in one directory.

use std::{
    env,
    process::{Child, Stdio},
    time::Duration,
};

use futures::future::join_all;
use keepline::pipe::Effect;
use keepline_tests::{
    lanes::{Node, metadata_of, operations_told},
    place::{PLACE, store_at},
    proxy::Proxy,
    servers,
    watch::{child, is_child},
};

const PROCESSES: u64 = 4;
const PIPES: u64 = 4;
const ROUNDS: u64 = 400;

async fn node(place: &str) -> Node {
    // Every few answers there is something to summarise.
    Node::new(&store_at(place), r#"{"max_history":4}"#).await
}

/// What a child does: an answer and an increment a round on each pipe, and a question that sees its own
/// process's work.
#[tokio::main]
async fn work(rounds: u64) {
    let node = node(&env::var(PLACE).unwrap()).await;
    let lanes = (0..PIPES).map(|number| {
        let (mut pipe, mut sessions) = (node.keepline.pipe(), node.keepline.sessions());
        async move {
            let mut seen = 0;
            for round in 0..rounds {
                let question = pipe.question("?", &metadata_of("shared")).await.unwrap();
                assert!(matches!(question.effect, Effect::Resumed | Effect::Enriched), "{question:?}");
                let answer = pipe.answer(&format!("{number}/{round}"), "{}").await.unwrap();
                assert_eq!(answer.effect, Effect::Stored, "{answer:?}");
                let now = sessions.increment("shared", "n", 1).await.unwrap().value;
                assert!(now > seen, "a counter that went from {seen} to {now}");
                seen = now;
            }
        }
    });
    join_all(lanes).await;
}

fn start(test: &str, place: &str) -> Child {
    child(test, &[(PLACE, place)]).stdout(Stdio::null()).spawn().unwrap()
}

/// Every answer and every increment is told by the counters and by the history.
async fn assert_adds_up(node: &mut Node, answers: u64, increments: u64) {
    let count =
        async |node: &mut Node, key| node.sessions.get("shared", key).await.unwrap().value().unwrap().to_owned();
    assert_eq!(count(node, "answer_count").await, answers.to_string());
    assert_eq!(count(node, "n").await, increments.to_string());
    let history = node.history("shared").await;
    assert!(history.len() <= 8, "summaries did not keep up: {}", history.len());
    assert_eq!(operations_told(&history), 2 * answers + increments);
}

fn several_processes(test: &str, place: &str) {
    let children: Vec<_> = (0..PROCESSES).map(|_| start(test, place)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let all = PROCESSES * PIPES * ROUNDS;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { assert_adds_up(&mut node(place).await, all, all).await });
}

#[test]
fn several_processes_on_one_session_lose_nothing_and_count_nothing_twice() {
    if is_child() {
        return work(ROUNDS);
    }
    let server = servers::start();
    several_processes(
        "several_processes_on_one_session_lose_nothing_and_count_nothing_twice",
        &server.port().to_string(),
    );
}

#[test]
fn several_processes_on_one_directory_lose_nothing_and_count_nothing_twice() {
    if is_child() {
        return work(ROUNDS);
    }
    let directory = tempfile::tempdir().unwrap();
    several_processes(
        "several_processes_on_one_directory_lose_nothing_and_count_nothing_twice",
        directory.path().to_str().unwrap(),
    );
}

#[test]
fn several_processes_whose_connections_are_cut_lose_nothing_and_count_nothing_twice() {
    let name = "several_processes_whose_connections_are_cut_lose_nothing_and_count_nothing_twice";
    if is_child() {
        return work(ROUNDS / 2);
    }
    let server = servers::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let proxy = runtime.block_on(Proxy::start(server.port()));
    proxy.cut_at_random(Some(10), 3);
    let children: Vec<_> = (0..PROCESSES).map(|_| start(name, &proxy.port().to_string())).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert!(proxy.cuts() > 40, "{}", proxy.cuts());
    let all = PROCESSES * PIPES * ROUNDS / 2;
    runtime.block_on(async { assert_adds_up(&mut node(&server.port().to_string()).await, all, all).await });
    drop(runtime);
}

fn killed_again_and_again(test: &str, place: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut node = node(place).await;
        for _ in 0..5 {
            let before = operations(&node).await;
            let mut doomed = [start(test, place), start(test, place)];
            // Until it is at work, and a little longer.
            while operations(&node).await < before + 100 {
                assert!(doomed.iter_mut().all(|child| child.try_wait().unwrap().is_none()));
                tokio::time::sleep(Duration::from_millis(fastrand::u64(1..20))).await;
            }
            for child in &mut doomed {
                child.kill().unwrap();
                child.wait().unwrap();
            }
            // What was sent before the end may arrive after it.
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(node.say("shared", "and on").await.effect, Effect::Stored);
            let value = async |node: &mut Node, key| -> u64 {
                let found = node.sessions.get("shared", key).await.unwrap().value().map(str::to_owned);
                found.map_or(0, |value| value.parse().unwrap())
            };
            let (answers, increments) = (value(&mut node, "answer_count").await, value(&mut node, "n").await);
            assert_eq!(operations(&node).await, 2 * answers + increments);
        }
    });
}

#[test]
fn a_killed_process_leaves_no_partial_writes() {
    if is_child() {
        return work(u64::MAX);
    }
    let server = servers::start();
    killed_again_and_again("a_killed_process_leaves_no_partial_writes", &server.port().to_string());
}

#[test]
fn a_killed_process_leaves_no_partial_writes_in_a_directory() {
    if is_child() {
        return work(u64::MAX);
    }
    let directory = tempfile::tempdir().unwrap();
    killed_again_and_again(
        "a_killed_process_leaves_no_partial_writes_in_a_directory",
        directory.path().to_str().unwrap(),
    );
}

/// What a child does: it sends the same answers as all others, from its own place on round and round.
#[tokio::main]
async fn send_again_and_again(rounds: u64) {
    let node = node(&env::var(PLACE).unwrap()).await;
    let lanes = (0..PIPES).map(|number| {
        let mut pipe = node.keepline.pipe();
        async move {
            let first = fastrand::u64(..MESSAGES);
            for message in (0..rounds * MESSAGES).map(|n| (first + n) % MESSAGES) {
                let metadata = format!(r#"{{"session_id":"shared","message_id":"m-{message}"}}"#);
                let answer = pipe.answer(&format!("{number}/{message}"), &metadata).await.unwrap();
                assert!(matches!(answer.effect, Effect::Stored | Effect::Repeated), "{answer:?}");
            }
        }
    });
    join_all(lanes).await;
}

/// Fewer than a session keeps the ids of.
const MESSAGES: u64 = 300;

fn sent_again_and_again(test: &str, place: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let node = node(place).await;
        for _ in 0..4 {
            let before = operations(&node).await;
            let mut doomed = [start(test, place), start(test, place)];
            while operations(&node).await < (before + 60).min(2 * MESSAGES) {
                assert!(doomed.iter_mut().all(|child| child.try_wait().unwrap().is_none()));
                tokio::time::sleep(Duration::from_millis(fastrand::u64(1..10))).await;
            }
            for child in &mut doomed {
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }
    });
    // Now all of them, to the end, by several at a time.
    let variables = [(PLACE, place), (ROUNDS_TO_GO, "1")];
    let children: Vec<_> =
        (0..PROCESSES).map(|_| child(test, &variables).stdout(Stdio::null()).spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    runtime.block_on(async {
        let mut node = node(place).await;
        let count = node.sessions.get("shared", "answer_count").await.unwrap().value().unwrap().to_owned();
        assert_eq!(count, MESSAGES.to_string());
        assert_eq!(operations(&node).await, 2 * MESSAGES);
    });
}

/// As the test says, or until it is killed.
fn rounds_to_go() -> u64 {
    env::var(ROUNDS_TO_GO).map_or(u64::MAX / MESSAGES, |rounds| rounds.parse().unwrap())
}

#[test]
fn answers_with_an_id_count_once_although_their_senders_are_killed() {
    if is_child() {
        return send_again_and_again(rounds_to_go());
    }
    let server = servers::start();
    sent_again_and_again("answers_with_an_id_count_once_although_their_senders_are_killed", &server.port().to_string());
}

#[test]
fn answers_with_an_id_count_once_in_a_directory_although_their_senders_are_killed() {
    if is_child() {
        return send_again_and_again(rounds_to_go());
    }
    let directory = tempfile::tempdir().unwrap();
    sent_again_and_again(
        "answers_with_an_id_count_once_in_a_directory_although_their_senders_are_killed",
        directory.path().to_str().unwrap(),
    );
}

const ROUNDS_TO_GO: &str = "KEEPLINE_TEST_ROUNDS";

/// Of the shared session, by its history; 0 while it is not there.
async fn operations(node: &Node) -> u64 {
    let Ok(page) = node.keepline.sessions().history("shared", None, 0).await else { return 0 };
    let records: Vec<_> = page.records.iter().map(|record| serde_json::from_str(&record.to_json()).unwrap()).collect();
    operations_told(&records)
}
