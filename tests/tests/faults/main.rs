//! Redis and the connection to it fail in every way they can: each entry goes on in time, and each answer is stored
//! once. The faults are real: a redis-server of the test's own, and a proxy before it.

mod cuts;
mod damage;
mod gone;
mod impostors;
mod message_ids;
mod permissions;
mod refusals;
mod replicas;
mod slow;
mod time;
mod tls;

use std::{
    fs,
    net::{Ipv4Addr, TcpListener as StdListener},
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use keepline::{
    OnStoreError, Passed,
    pipe::{Effect, ProblemCode},
    sessions::{SessionError, SessionErrorCode},
    store::{
        BreakerState, Deadline, EntryState, FailureCode, RedisOptions, RedisOptionsError, RedisStore, Store, Transfer,
        Writer, kind,
    },
};
use keepline_local_redis::RedisServer;
use keepline_tests::{
    lanes::{Node, metadata_of, operations_told, problem_code, problem_message},
    proxy::{Cut, Proxy, Weather},
    random,
    requests::{
        ALL, add, add_in, append, append_marked, count, create, create_sliding, deletion_of, describe, entry_in,
        existing, expecting, get, get_all, get_all_in, get_all_in_within, get_in, lease, log_at, page, page_of_keys,
        present, put, put_in, read_at, read_newest, read_surplus, remove, remove_all, remove_in, replace,
        replace_oldest, reset_log, reset_map, rewrite, room_in, room_within, session, transaction, unused,
    },
    servers,
    until::until_true,
    watch::{in_own_process, peak_bytes},
};
use redis::Connection;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
};

/// What a busy machine may add to a time-out.
const MARGIN: Duration = Duration::from_secs(20);
/// Longer than anything here takes: within it, what fails is tried again until it works.
const LONG: Duration = Duration::from_secs(30);

fn options(port: u16) -> RedisOptions {
    RedisOptions { store_timeout: LONG, ..servers::options(port) }
}

/// As Redis's default user, who has no password unless the server is given one.
fn anonymous(port: u16) -> RedisOptions {
    RedisOptions { username: None, password: None, ..options(port) }
}

fn store(options: RedisOptions) -> Arc<dyn Store> {
    Arc::new(RedisStore::new(options).unwrap())
}

/// A filter that summarises all the time.
async fn node(options: RedisOptions) -> Node {
    Node::new(&store(options), r#"{"max_history":4}"#).await
}

fn raw(server: &RedisServer) -> Connection {
    redis::Client::open(server.url()).unwrap().get_connection().unwrap()
}

fn send(connection: &mut Connection, command: &str) {
    let mut words = command.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    words.for_each(|word| {
        command.arg(word);
    });
    command.exec(connection).unwrap();
}

/// All that a Redis holds, byte for byte.
fn dump(connection: &mut Connection) -> Vec<(String, Vec<u8>)> {
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(connection).unwrap();
    keys.sort_unstable();
    keys.into_iter()
        .map(|key| (redis::cmd("DUMP").arg(&key).query(connection).unwrap(), key))
        .map(|(v, k)| (k, v))
        .collect()
}

/// The session tells of exactly so many answers, by its counter and by its history.
async fn assert_answers(node: &Node, session: &str, answers: u64) {
    let memory = node.memory(session).await.unwrap();
    let memory: serde_json::Value = serde_json::from_str(&memory).unwrap();
    assert_eq!(memory["answer_count"], answers, "{session}");
    let history = node.history(session).await;
    assert_eq!(operations_told(&history), 2 * answers, "{session}: {history:?}");
}

/// The entry goes on as it came, with a problem of one of these codes.
fn assert_forwarded(passed: &Passed, codes: &[&str]) {
    assert_eq!((passed.effect, &passed.metadata), (Effect::Failed, &None), "{passed:?}");
    assert!(codes.contains(&problem_code(passed)), "{:?}", passed.problem);
}

trait Says {
    async fn pipe_says(&self, session: &str) -> Passed;
}

impl Says for Node {
    /// An answer, through a pipe of its own.
    async fn pipe_says(&self, session: &str) -> Passed {
        self.keepline.pipe().answer("yes", &metadata_of(session)).await.unwrap()
    }
}

/// Neither the entry's problem nor anything that was logged tells where Redis is or how to get in.
fn assert_tells_no_secret(node: &Node, passed: &Passed, port: u16) {
    let mut told = node.log.warnings();
    told.extend(node.log.of("plugin: keepline.store"));
    assert!(!told.is_empty());
    told.push(problem_message(passed).to_owned());
    for text in told {
        let secrets = ["127.0.0.1", "localhost", "horse", "staple", "weak", "nobody", "elsewhere", &port.to_string()];
        for secret in secrets {
            assert!(!text.contains(secret), "{secret} is in {text:?}");
        }
    }
}
