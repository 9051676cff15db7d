//! Processes that are killed, over connections that are cut: each turn is there whole, or not at all.

use std::{collections::BTreeSet, env, process::Stdio, time::Duration};

use futures::future::join_all;
use keepline::store::{BucketId, Deadline, Writer, kind};
use keepline_tests::{
    lanes::Node,
    place::{PLACE, store_at},
    proxy::Proxy,
    requests::{count, existing, get_all, get_all_in, transaction},
    servers,
    watch::{child, is_child},
};

use serde_json::json;

use super::concurrency::{WHOLE, turns, write};

const PIPES: usize = 4;

/// What a child does until it is killed.
#[tokio::main]
async fn work() {
    let node = Node::new(&store_at(&env::var(PLACE).unwrap()), r#"{"conversation": true}"#).await;
    let process = std::process::id();
    let lanes = (0..PIPES).map(|number| {
        let mut pipe = node.keepline.pipe();
        async move {
            for round in 0.. {
                write(&mut pipe, &format!("{process}/{number}/{round}")).await;
            }
        }
    });
    join_all(lanes).await;
}

/// `place` is where the children write, `at` where it is read.
async fn killed_again_and_again(test: &str, place: &str, at: &str) {
    let store = store_at(at);
    let mut before = 0;
    for _ in 0..3 {
        let start = || child(test, &[(PLACE, place)]).stdout(Stdio::null()).spawn().unwrap();
        let mut doomed = [start(), start()];
        let mut seen = before;
        while seen < before + 360 {
            assert!(doomed.iter_mut().all(|child| child.try_wait().unwrap().is_none()));
            let (turns, records) = turns(&store, "shared").await;
            assert!(turns.iter().all(|kinds| kinds == &WHOLE), "{turns:?}");
            assert!(records >= seen, "a turn is gone");
            seen = records;
            tokio::time::sleep(Duration::from_millis(fastrand::u64(1..20))).await;
        }
        for child in &mut doomed {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let (turns, records) = turns(&store, "shared").await;
        assert!(turns.iter().all(|kinds| kinds == &WHOLE), "{turns:?}");
        before = records;
    }
}

#[test]
fn killed_processes_leave_no_half_turn_over_cut_connections() {
    if is_child() {
        return work();
    }
    let server = servers::start();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let proxy = Proxy::start(server.port()).await;
        proxy.cut_at_random(Some(10), 3);
        killed_again_and_again(
            "kills::killed_processes_leave_no_half_turn_over_cut_connections",
            &proxy.port().to_string(),
            &server.port().to_string(),
        )
        .await;
        assert!(proxy.cuts() > 5, "{}", proxy.cuts());
    });
}

#[test]
fn killed_processes_leave_no_half_turn_in_a_directory() {
    if is_child() {
        return work();
    }
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(killed_again_and_again(
        "kills::killed_processes_leave_no_half_turn_in_a_directory",
        place,
        place,
    ));
}

/// What a child does until it is killed: a user's sessions and nodes come, and are forgotten, again and again.
#[tokio::main]
async fn come_and_forget() {
    let node = Node::new(&store_at(&env::var(PLACE).unwrap()), r#"{"conversation": true}"#).await;
    let coming = (0..PIPES).map(|number| {
        let mut pipe = node.keepline.pipe();
        async move {
            for round in 0.. {
                let mut metadata = json!({"session_id": format!("s{}", round % 7), "user_id": USER});
                if round % 3 == number % 3 {
                    metadata["memory_mode"] = "node".into();
                    metadata["node_id"] = "n".into();
                }
                pipe.question("secret", &metadata.to_string()).await.unwrap();
                pipe.answer("secret", "{}").await.unwrap();
            }
        }
    });
    let forgetting = async {
        let mut sessions = node.keepline.sessions();
        loop {
            sessions.forget_user(USER).await.unwrap();
            node.clock.advance(Duration::from_millis(1));
        }
    };
    tokio::join!(join_all(coming), forgetting);
}

const USER: &str = "anna@example.org";

async fn killed_while_a_user_is_forgotten(test: &str, place: &str, at: &str) {
    let store = store_at(at);
    let mut node = Node::new(&store, r#"{"conversation": true}"#).await;
    for round in 0..4 {
        let start = || child(test, &[(PLACE, place)]).stdout(Stdio::null()).spawn().unwrap();
        let mut doomed = [start(), start()];
        // Until sessions have come and gone a few times.
        let mut lives = BTreeSet::new();
        while lives.len() < 20 {
            assert!(doomed.iter_mut().all(|child| child.try_wait().unwrap().is_none()));
            for number in 0..7 {
                if let Ok(state) = node.sessions.describe(format!("s{number}").as_str().into()).await {
                    lives.insert(state.generation);
                }
            }
            tokio::time::sleep(Duration::from_millis(fastrand::u64(1..10))).await;
        }
        for child in &mut doomed {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        node.clock.advance(Duration::from_secs(3600 * (round + 1)));
        while node.sessions.forget_user(USER).await.unwrap().remaining > 0 {}
        // What has no owner was never answered: there is nothing in it.
        for kind in [kind::SESSION, kind::NODE] {
            for name in store.list_buckets(kind, "", 1000, Deadline::NEVER).await.unwrap().names {
                let bucket = BucketId::new(kind, name);
                let look = transaction(&bucket, existing(), [count("transcript"), get_all_in("session"), get_all()]);
                let receipt = store.transact(Writer::new().advance(), &look, Deadline::NEVER).await.unwrap();
                let told = format!("{:?}", receipt.receipt.outcomes);
                assert!(told.contains("length: 0") && !told.contains("owner") && !told.contains("secret"), "{told}");
            }
        }
    }
}

#[test]
fn a_user_is_forgotten_over_cut_connections_despite_killed_processes() {
    if is_child() {
        return come_and_forget();
    }
    let server = servers::start();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let proxy = Proxy::start(server.port()).await;
        proxy.cut_at_random(Some(10), 3);
        killed_while_a_user_is_forgotten(
            "kills::a_user_is_forgotten_over_cut_connections_despite_killed_processes",
            &proxy.port().to_string(),
            &server.port().to_string(),
        )
        .await;
        assert!(proxy.cuts() > 5, "{}", proxy.cuts());
    });
}

#[test]
fn a_user_is_forgotten_in_a_directory_despite_killed_processes() {
    if is_child() {
        return come_and_forget();
    }
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(killed_while_a_user_is_forgotten(
        "kills::a_user_is_forgotten_in_a_directory_despite_killed_processes",
        place,
        place,
    ));
}
