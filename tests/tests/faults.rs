//! Redis and the way to it fail in every way they can: each entry goes on, in time, and what was told to
//! be stored is stored once. The faults are real: a redis-server of the test's own, and a proxy before it.

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
    pipe::Effect,
    sessions::{SessionError, SessionErrorCode},
    store::{Deadline, FailureCode, RedisOptions, RedisOptionsError, RedisStore, Store, Writer},
};
use keepline_local_redis::RedisServer;
use keepline_tests::{
    lanes::{Node, metadata_of, operations_told, problem_code, problem_message},
    proxy::{Cut, Proxy, Weather},
    requests::{
        append, count, create, create_sliding, existing, expecting, get, get_all, increment, keys_are, list_keys,
        oldest_are, overflow, put, read_newest, remove, remove_all, replace_oldest, rewrite, room_within, transaction,
    },
    servers,
    watch::{in_own_process, peak_bytes},
};
use redis::Connection;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
};

#[path = "faults/time.rs"]
mod time;

/// What a busy machine may add to a time-out.
const MARGIN: Duration = Duration::from_millis(1500);
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

/// Repeats until it is as wanted, for a bounded time.
async fn until(what: &str, mut wanted: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !wanted().await {
        assert!(Instant::now() < end, "it never comes: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The entry goes on as it came, with a problem of one of these codes.
fn assert_forwarded(passed: &Passed, codes: &[&str]) {
    assert_eq!((passed.effect, &passed.metadata), (Effect::Failed, &None), "{passed:?}");
    assert!(codes.contains(&problem_code(passed)), "{:?}", passed.problem);
}

// Cuts. ----------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_cuts_under_load_lose_no_entry_and_count_no_answer_twice() {
    const CUTS: u64 = 1000;
    let server = servers::start();
    let proxy = Proxy::start(server.port()).await;
    let seed = std::env::var("KEEPLINE_TEST_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("KEEPLINE_TEST_SEED={seed}");
    let cut = node(options(proxy.port())).await;
    proxy.cut_at_random(Some(4), seed);
    let lanes = (0..8).map(|pipe_number| {
        let (mut pipe, proxy) = (cut.keepline.pipe(), &proxy);
        async move {
            let session = format!("s{}", pipe_number % 4);
            let mut answers = 0;
            while proxy.cuts() < CUTS {
                let asked = Instant::now();
                let question = pipe.question("?", &metadata_of(&session)).await.unwrap();
                assert!(matches!(question.effect, Effect::Resumed | Effect::Enriched), "{question:?}");
                let answer = pipe.answer(&format!("{pipe_number}/{answers}"), "{}").await.unwrap();
                assert_eq!(answer.effect, Effect::Stored, "{answer:?}");
                assert!(asked.elapsed() < LONG);
                answers += 1;
            }
            (session, answers)
        }
    });
    let done = join_all(lanes).await;
    proxy.cut_at_random(None, 0);
    for cut in Cut::ALL {
        assert!(proxy.cuts_of(cut) > CUTS / 8, "{cut:?}: {}", proxy.cuts_of(cut));
    }
    let direct = node(options(server.port())).await;
    for session in ["s0", "s1", "s2", "s3"] {
        let answers: u64 = done.iter().filter(|lane| lane.0 == session).map(|lane| lane.1).sum();
        assert!(answers > 10);
        assert_answers(&direct, session, answers).await;
    }
    // Nothing was restarted: the node that was cut goes on.
    assert_eq!(cut.pipe_says("s0").await.effect, Effect::Stored);
    assert_eq!(cut.counters().failed, 0);
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

#[tokio::test]
async fn each_kind_of_cut_is_made_good_within_the_call() {
    let server = servers::start();
    let proxy = Proxy::start(server.port()).await;
    let mut node = node(options(proxy.port())).await;
    let mut answers = 0;
    for cut in Cut::ALL.into_iter().cycle().take(40) {
        proxy.cut_next(cut);
        assert_eq!(node.say("s1", "yes").await.effect, Effect::Stored, "{cut:?}");
        answers += 1;
        assert_eq!(
            node.sessions.increment("s2", "n", 1).await.err().map(|error| error.code),
            match answers {
                1 => Some(Some(SessionErrorCode::NotFound)),
                _ => None,
            }
        );
        if answers == 1 {
            node.sessions.create("s2").await.unwrap();
            node.sessions.increment("s2", "n", 1).await.unwrap();
        }
        proxy.cut_next(cut);
        node.sessions.increment("s2", "n", 1).await.unwrap();
    }
    assert_eq!(proxy.cuts(), 80);
    assert_answers(&node, "s1", answers).await;
    assert_eq!(node.sessions.get("s2", "n").await.unwrap().value.as_deref(), Some("80"));
    // Cut at the reply, a deletion tells nevertheless that it was done.
    proxy.cut_next(Cut::BeforeReply);
    node.sessions.delete("s2").await.unwrap();
    proxy.cut_next(Cut::BeforeReply);
    node.sessions.create("s2").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_scripts_are_sent_again_even_while_connections_are_cut() {
    let server = servers::start();
    let proxy = Proxy::start(server.port()).await;
    let node = node(options(proxy.port())).await;
    proxy.cut_at_random(Some(20), 1);
    let flushing = async {
        let mut connection =
            redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
        loop {
            redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut connection).await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let lanes = (0..4).map(|_| async {
        let mut pipe = node.keepline.pipe();
        for _ in 0..100 {
            assert_ne!(pipe.question("?", &metadata_of("s1")).await.unwrap().effect, Effect::Failed);
            assert_eq!(pipe.answer("yes", "{}").await.unwrap().effect, Effect::Stored);
        }
    });
    tokio::select! {
        () = flushing => {}
        _ = join_all(lanes) => {}
    }
    proxy.cut_at_random(None, 0);
    assert_answers(&node, "s1", 400).await;
}

// A Redis that is gone. ------------------------------------------------------------------------------

#[tokio::test]
async fn entries_go_on_while_redis_is_dead_and_memory_is_back_when_it_is() {
    let mut server = servers::start();
    let timeout = Duration::from_millis(300);
    let mut node = node(RedisOptions { store_timeout: timeout, ..options(server.port()) }).await;
    assert_eq!(node.say("s1", "before").await.effect, Effect::Stored);
    server.kill();
    let dead_since = Instant::now();
    for _ in 0..100 {
        let began = Instant::now();
        assert_forwarded(&node.say("s1", "lost").await, &["unavailable"]);
        assert!(began.elapsed() < timeout + MARGIN);
        assert_forwarded(&node.ask("s1").await, &["unavailable"]);
    }
    // Some wait for the time-out; were it all of them, this would take a minute.
    assert!(dead_since.elapsed() < Duration::from_secs(10), "{:?}", dead_since.elapsed());
    assert_eq!(node.counters().failed, 200);
    // Few lines, however many entries.
    assert!((1..=10).contains(&node.log.of("keepline.store").len()));
    server.restart().unwrap();
    until("memory", async || node.say("s1", "after").await.effect == Effect::Stored).await;
    assert!(node.memory("s1").await.unwrap().contains("\"after\""));
    assert_answers(&node, "s1", 1).await;
}

#[tokio::test]
async fn what_redis_kept_on_disk_is_remembered_after_a_crash() {
    let mut server = servers::start_with(&["--appendonly", "yes", "--appendfsync", "always"]).unwrap();
    let mut node = node(options(server.port())).await;
    for answers in 1..=5 {
        assert_eq!(node.say("s1", "yes").await.effect, Effect::Stored);
        server.restart().unwrap();
        assert_answers(&node, "s1", answers).await;
    }
    assert_eq!(node.counters().failed, 0);
}

#[tokio::test]
async fn a_redis_that_is_loading_its_data_is_waited_for() {
    let arguments = ["--key-load-delay", "700", "--loading-process-events-interval-bytes", "1024"];
    let mut server = servers::start_with(&arguments).unwrap();
    let mut patient = node(options(server.port())).await;
    let hasty = RedisOptions {
        store_timeout: Duration::from_millis(150),
        // The breaker stays out of it.
        breaker_failures: 1_000_000,
        ..options(server.port())
    };
    let hasty = node(hasty).await;
    patient.say("s1", "yes").await;
    let mut connection = raw(&server);
    let mut fill = redis::pipe();
    (0..2500).for_each(|key| {
        fill.cmd("SET").arg(format!("other:{key}")).arg("x".repeat(50)).ignore();
    });
    fill.exec(&mut connection).unwrap();
    send(&mut connection, "SAVE");
    let restarted = tokio::task::spawn_blocking(move || {
        server.restart().unwrap();
        server
    });
    // Dead at first, then loading.
    let mut told = String::new();
    until("loading", async || {
        told = hasty.pipe_says("s1").await.problem.map(|problem| problem.message).unwrap_or_default();
        told.contains("loading")
    })
    .await;
    assert_eq!(patient.say("s1", "again").await.effect, Effect::Stored);
    assert_answers(&patient, "s1", 2).await;
    drop(restarted.await.unwrap());
}

#[tokio::test]
async fn a_dead_redis_costs_the_hundredth_entry_nothing() {
    let server = servers::start();
    let proxy = Proxy::start(server.port()).await;
    let timeout = Duration::from_millis(400);
    let cooldown = Duration::from_secs(3);
    let options = RedisOptions { store_timeout: timeout, breaker_cooldown: cooldown, ..options(proxy.port()) };
    let mut node = node(options).await;
    node.say("s1", "yes").await;
    proxy.weather(Weather::BlackHole);
    for _ in 0..3 {
        let began = Instant::now();
        assert_forwarded(&node.say("s1", "lost").await, &["timed-out", "unavailable"]);
        assert!(began.elapsed() >= timeout && began.elapsed() < timeout + MARGIN);
    }
    let began = Instant::now();
    for _ in 0..100 {
        let passed = node.say("s1", "lost").await;
        assert_forwarded(&passed, &["unavailable"]);
        assert!(problem_message(&passed).contains("suspended for a moment"), "{passed:?}");
    }
    assert!(began.elapsed() < timeout, "{:?}", began.elapsed());
    proxy.weather(Weather::Fair);
    until("memory", async || node.say("s1", "back").await.effect == Effect::Stored).await;
    for _ in 0..10 {
        assert_eq!(node.say("s1", "back").await.effect, Effect::Stored);
    }
}

// A Redis that is slow. ------------------------------------------------------------------------------

#[tokio::test]
async fn during_a_pause_each_entry_goes_on_within_the_time_out() {
    let server = servers::start();
    let timeout = Duration::from_millis(300);
    let node = node(RedisOptions { store_timeout: timeout, ..options(server.port()) }).await;
    assert_eq!(node.pipe_says("s1").await.effect, Effect::Stored);
    server.pause().unwrap();
    let lanes = (0..16).map(|_| async {
        let mut pipe = node.keepline.pipe();
        let mut fast = 0;
        for _ in 0..30 {
            let began = Instant::now();
            let passed = pipe.answer("lost", &metadata_of("s1")).await.unwrap();
            assert!(began.elapsed() < timeout + MARGIN, "{:?}", began.elapsed());
            assert_forwarded(&passed, &["timed-out", "unavailable"]);
            fast += u32::from(began.elapsed() < timeout);
        }
        fast
    });
    let fast: u32 = join_all(lanes).await.into_iter().sum();
    assert!(fast > 16 * 25, "{fast}");
    server.resume().unwrap();
    until("memory", async || node.pipe_says("s1").await.effect == Effect::Stored).await;
    // Nothing that timed out was applied later.
    assert_answers(&node, "s1", 2).await;
}

#[tokio::test]
async fn pipes_that_share_a_dead_connection_wait_no_longer_than_the_time_out() {
    let server = servers::start();
    let proxy = Proxy::start(server.port()).await;
    let timeout = Duration::from_millis(500);
    // The breaker stays out of it.
    let options = RedisOptions { store_timeout: timeout, breaker_failures: 1_000_000, ..options(proxy.port()) };
    let node = node(options).await;
    node.pipe_says("s1").await;
    for weather in [Weather::BlackHole, Weather::Closed, Weather::Slow(timeout * 2)] {
        proxy.weather(weather);
        let lanes = (0..16).map(|pipe| {
            let node = &node;
            async move {
                tokio::time::sleep(timeout * pipe / 16).await;
                for _ in 0..3 {
                    let began = Instant::now();
                    assert_forwarded(&node.pipe_says("s1").await, &["timed-out", "unavailable"]);
                    assert!(began.elapsed() < timeout + MARGIN, "{weather:?}: {:?}", began.elapsed());
                }
            }
        });
        join_all(lanes).await;
        proxy.weather(Weather::Fair);
        until("memory", async || node.pipe_says("s2").await.effect == Effect::Stored).await;
    }
    // What the slow way delivered after the time-out was not applied.
    assert_answers(&node, "s1", 1).await;
}

#[tokio::test]
async fn a_write_that_timed_out_never_overtakes_a_newer_one() {
    let server = servers::start();
    let timeout = Duration::from_millis(150);
    let hasty = RedisOptions { store_timeout: timeout, breaker_failures: 1_000_000, ..options(server.port()) };
    let (mut hasty, mut patient) = (node(hasty).await, node(options(server.port())).await);
    patient.sessions.create("s1").await.unwrap();
    let mut writes = 0;
    for round in 0..12 {
        hasty.sessions.get("s1", "k").await.unwrap();
        server.pause().unwrap();
        let old = hasty.sessions.put("s1", "k", "\"old\"").await.unwrap_err();
        assert!(old.message.contains("150"), "{old}");
        tokio::time::sleep(Duration::from_millis(50)).await;
        match round % 3 {
            // Another process, while both requests wait to be read.
            0 => {
                let (put, ()) = tokio::join!(patient.sessions.put("s1", "k", "\"new\""), async {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    server.resume().unwrap();
                });
                put.unwrap();
            }
            // Another process, after it.
            1 => {
                server.resume().unwrap();
                patient.sessions.put("s1", "k", "\"new\"").await.unwrap();
            }
            // The same pipe.
            _ => {
                server.resume().unwrap();
                hasty.sessions.put("s1", "k", "\"new\"").await.unwrap();
            }
        }
        writes += 1;
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert_eq!(patient.sessions.get("s1", "k").await.unwrap().value.as_deref(), Some("\"new\""), "{round}");
        assert_eq!(operations_told(&patient.history("s1").await), writes, "{round}");
    }
}

/// The store's clock is learned from a first reply that comes late; a later write must not gain by that.
#[tokio::test]
async fn a_connection_made_during_a_pause_does_not_let_a_write_come_late() {
    let server = servers::start();
    let mut patient = node(options(server.port())).await;
    patient.sessions.create("s1").await.unwrap();
    patient.sessions.put("s1", "k", "\"new\"").await.unwrap();
    let hasty = RedisOptions { store_timeout: Duration::from_millis(800), ..options(server.port()) };
    let mut hasty = node(hasty).await;
    server.pause().unwrap();
    let (first, ()) = tokio::join!(hasty.sessions.put("s1", "first", "1"), async {
        tokio::time::sleep(Duration::from_millis(600)).await;
        server.resume().unwrap();
    });
    first.unwrap();
    server.pause().unwrap();
    hasty.sessions.put("s1", "k", "\"old\"").await.unwrap_err();
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.resume().unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(patient.sessions.get("s1", "k").await.unwrap().value.as_deref(), Some("\"new\""));
}

// A Redis that refuses. ------------------------------------------------------------------------------

#[tokio::test]
async fn a_redis_out_of_memory_changes_nothing_still_reads_and_deletes_and_recovers() {
    let server = servers::start();
    let mut connection = raw(&server);
    let mut node = node(options(server.port())).await;
    for _ in 0..3 {
        node.say("s1", "yes").await;
        node.say("s2", "yes").await;
    }
    send(&mut connection, "CONFIG SET maxmemory 1");
    let before = dump(&mut connection);
    for session in ["s1", "new"] {
        assert_forwarded(&node.say(session, "lost").await, &["full"]);
    }
    let refused = node.sessions.put("s1", "k", "1").await.unwrap_err();
    assert!(refused.message.contains("out of memory"), "{refused}");
    assert_eq!(dump(&mut connection), before);
    assert_eq!(node.ask("s1").await.effect, Effect::Enriched);
    send(&mut connection, "SCRIPT FLUSH");
    assert_eq!(node.sessions.delete("s2").await.unwrap().keys_cleared.len(), 2);
    assert_eq!(node.memory("s2").await, None);
    assert_eq!(node.ask("s1").await.effect, Effect::Enriched);
    send(&mut connection, "CONFIG SET maxmemory 0");
    assert_eq!(node.say("s1", "yes").await.effect, Effect::Stored);
    assert_answers(&node, "s1", 4).await;
}

#[tokio::test]
async fn a_read_only_replica_is_told_as_one_and_works_once_it_is_the_master() {
    let server = servers::start();
    node(options(server.port())).await.say("s1", "yes").await;
    let replica = servers::start_with(&["--replicaof", "127.0.0.1", &server.port().to_string()]).unwrap();
    let mut connection = raw(&replica);
    let mut node = node(options(replica.port())).await;
    until("the replica's copy", async || redis::cmd("DBSIZE").query::<u64>(&mut connection).unwrap() > 0).await;
    let refused = node.say("s1", "lost").await;
    assert_forwarded(&refused, &["read-only"]);
    assert!(problem_message(&refused).contains("read-only replica"));
    assert_forwarded(&node.say("new", "lost").await, &["read-only"]);
    assert_eq!(node.ask("s1").await.effect, Effect::Enriched);
    send(&mut connection, "REPLICAOF NO ONE");
    assert_eq!(node.say("s1", "yes").await.effect, Effect::Stored);
    assert_answers(&node, "s1", 2).await;
}

#[tokio::test]
async fn whoever_is_not_let_in_is_told_so_and_nothing_secret_is_told() {
    let server = RedisServer::start_with(&["--requirepass", "correct-horse"]).unwrap();
    let mut connection = redis::Client::open(format!("redis://:correct-horse@127.0.0.1:{}", server.port()))
        .unwrap()
        .get_connection()
        .unwrap();
    send(&mut connection, "ACL SETUSER weak on >battery-staple -@all +ping +time ~*");
    send(&mut connection, "ACL SETUSER elsewhere on >battery-staple +@all ~other:*");
    let user = |name: &str| RedisOptions {
        username: Some(name.into()),
        password: Some("battery-staple".into()),
        ..anonymous(server.port())
    };
    let cases = [
        ("no password", anonymous(server.port())),
        ("wrong password", RedisOptions { password: Some("wrong-horse".into()), ..anonymous(server.port()) }),
        ("unknown user", user("nobody-of-that-name")),
        ("few commands", user("weak")),
        ("other keys", user("elsewhere")),
        (
            "a URL",
            RedisOptions {
                url: Some(format!("redis://weak:battery-staple@localhost:{}/0", server.port()).into()),
                ..RedisOptions::default()
            },
        ),
    ];
    for (case, options) in cases {
        let store = store(RedisOptions { store_timeout: Duration::from_secs(5), ..options });
        let mut node = Node::new(&store, "{}").await;
        for _ in 0..2 {
            let began = Instant::now();
            let passed = node.say("s1", "lost").await;
            assert_forwarded(&passed, &["denied"]);
            assert!(began.elapsed() < Duration::from_secs(4), "{case}: tried for too long");
            assert_tells_no_secret(&node, &passed, server.port());
        }
        let checked = store.check().await;
        match case {
            "few commands" | "other keys" | "a URL" => checked.unwrap(),
            _ => assert_eq!(checked.unwrap_err().code, FailureCode::Denied, "{case}"),
        }
        assert!(!format!("{store:?}").contains("horse"));
    }
    let right = RedisOptions { password: Some("correct-horse".into()), ..anonymous(server.port()) };
    assert_eq!(node(right).await.say("s1", "yes").await.effect, Effect::Stored);
}

/// Neither the entry's problem nor anything that was logged tells where Redis is or how to get in.
fn assert_tells_no_secret(node: &Node, passed: &Passed, port: u16) {
    let mut told = node.log.warnings();
    told.extend(node.log.of("keepline.store"));
    assert!(!told.is_empty());
    told.push(problem_message(passed).to_owned());
    for text in told {
        let secrets = ["127.0.0.1", "localhost", "horse", "staple", "weak", "nobody", "elsewhere", &port.to_string()];
        for secret in secrets {
            assert!(!text.contains(secret), "{secret} is in {text:?}");
        }
    }
}

// What is no Redis. ----------------------------------------------------------------------------------

/// Something that listens, and does this to whoever connects.
async fn impostor(behaviour: &'static str) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 1024];
                match behaviour {
                    "says nothing" => while stream.read(&mut request).await.is_ok_and(|length| length > 0) {},
                    "hangs up" => {}
                    "speaks HTTP" => {
                        let _ = stream.read(&mut request).await;
                        let page = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\n\r\n<html>no</html>\r\n";
                        let _ = stream.write_all(page.as_bytes()).await;
                    }
                    "speaks garbage" => {
                        let _ = stream.read(&mut request).await;
                        let garbage: Vec<u8> = (0..5000).map(|_| fastrand::u8(..)).collect();
                        let _ = stream.write_all(&garbage).await;
                    }
                    "agrees to everything" => loop {
                        if stream.read(&mut request).await.is_err() || stream.write_all(b"+OK\r\n").await.is_err() {
                            return;
                        }
                    },
                    "knows the time only" => loop {
                        let Ok(length @ 1..) = stream.read(&mut request).await else { return };
                        let is_time = request[..length].windows(4).any(|window| window == b"TIME");
                        let reply: &[u8] = match is_time {
                            true => b"*2\r\n$1\r\n1\r\n$1\r\n1\r\n",
                            false => b"*3\r\n:0\r\n:0\r\n*-1\r\n",
                        };
                        if stream.write_all(reply).await.is_err() {
                            return;
                        }
                    },
                    "promises a reply of exabytes" => {
                        let _ = stream.read(&mut request).await;
                        let _ = stream.write_all(b"$9000000000000000000\r\n").await;
                        // What is sent is kept until the time is over, so this is slower than loopback.
                        while stream.write_all(&[b'x'; 4096]).await.is_ok() {
                            tokio::time::sleep(Duration::from_millis(1)).await;
                        }
                    }
                    "promises a list of billions" => {
                        let _ = stream.read(&mut request).await;
                        let _ = stream.write_all(b"*2000000000\r\n").await;
                        while stream.read(&mut request).await.is_ok_and(|length| length > 0) {}
                    }
                    "begins lists in lists" => {
                        let _ = stream.read(&mut request).await;
                        // A million of them, each of a billion.
                        let _ = stream.write_all(&b"*1000000000\r\n".repeat(1_000_000)).await;
                        while stream.read(&mut request).await.is_ok_and(|length| length > 0) {}
                    }
                    "closes lists in lists" => {
                        let _ = stream.read(&mut request).await;
                        let _ = stream.write_all(&[&b"*1\r\n".repeat(100_000)[..], b":1\r\n"].concat()).await;
                        while stream.read(&mut request).await.is_ok_and(|length| length > 0) {}
                    }
                    "sends a list without end" => {
                        let _ = stream.read(&mut request).await;
                        let _ = stream.write_all(b"*2000000000\r\n").await;
                        while stream.write_all(&b":1\r\n".repeat(1000)).await.is_ok() {
                            tokio::time::sleep(Duration::from_millis(1)).await;
                        }
                    }
                    "knows the time, and then lists" => loop {
                        let Ok(length @ 1..) = stream.read(&mut request).await else { return };
                        let reply = match request[..length].windows(4).any(|window| window == b"TIME") {
                            true => b"*2\r\n$1\r\n1\r\n$1\r\n1\r\n".to_vec(),
                            false => b"*5\r\n:0\r\n:0\r\n:0\r\n$1\r\n1\r\n*1000000000\r\n:1\r\n".to_vec(),
                        };
                        if stream.write_all(&reply).await.is_err() {
                            return;
                        }
                    },
                    // So much a second, so that the test's own machine is not what ends.
                    _ => {
                        while stream.write_all(&[b'x'; 65536]).await.is_ok() {
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                    }
                }
            });
        }
    });
    (port, serving)
}

#[test]
fn what_is_no_redis_is_told_in_time_and_does_no_harm() {
    in_own_process("what_is_no_redis_is_told_in_time_and_does_no_harm", || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let timeout = Duration::from_millis(400);
            for behaviour in [
                "says nothing",
                "hangs up",
                "speaks HTTP",
                "speaks garbage",
                "agrees to everything",
                "knows the time only",
                "promises a reply of exabytes",
                "promises a list of billions",
                "begins lists in lists",
                "closes lists in lists",
                "sends a list without end",
                "knows the time, and then lists",
                "never ends",
            ] {
                let (port, serving) = impostor(behaviour).await;
                let options = RedisOptions { store_timeout: timeout, breaker_failures: 1_000_000, ..anonymous(port) };
                let mut node = node(options).await;
                for _ in 0..2 {
                    let began = Instant::now();
                    let passed = node.say("s1", "lost").await;
                    println!("{behaviour}: {} MiB; {:?}", peak_bytes() >> 20, passed.problem);
                    assert!(began.elapsed() < timeout + MARGIN, "{behaviour}: {:?}", began.elapsed());
                    assert_forwarded(&passed, &["unavailable", "timed-out", "other"]);
                    assert_tells_no_secret(&node, &passed, port);
                }
                serving.abort();
            }
            // What is promised is not made room for.
            assert!(peak_bytes() < 200 << 20, "{}", peak_bytes());
        });
    });
}

#[tokio::test]
async fn nobody_there_is_told_within_the_time_out() {
    let port = servers::dead_port();
    let timeout = Duration::from_millis(300);
    let store = store(RedisOptions { store_timeout: timeout, ..options(port) });
    let mut node = Node::new(&store, "{}").await;
    let began = Instant::now();
    let passed = node.say("s1", "lost").await;
    assert!(began.elapsed() < timeout + MARGIN);
    assert_forwarded(&passed, &["unavailable"]);
    assert!(problem_message(&passed).contains("refused"), "{passed:?}");
    assert_tells_no_secret(&node, &passed, port);
    assert_eq!(store.check().await.unwrap_err().code, FailureCode::Unavailable);
}

#[tokio::test]
async fn a_host_that_does_not_exist_is_told_without_its_name() {
    let timeout = Duration::from_millis(300);
    let options = RedisOptions { host: "nobody.invalid".into(), store_timeout: timeout, ..options(6379) };
    let mut node = node(options).await;
    let began = Instant::now();
    let passed = node.say("s1", "lost").await;
    assert!(began.elapsed() < timeout + MARGIN);
    assert_forwarded(&passed, &["unavailable", "timed-out"]);
    assert_tells_no_secret(&node, &passed, 6379);
}

#[test]
fn options_that_lead_nowhere_are_refused_at_once() {
    let refused = |options: RedisOptions| RedisStore::new(options).unwrap_err();
    for host in ["", " "] {
        assert_eq!(refused(RedisOptions { host: host.into(), ..options(1) }), RedisOptionsError::NoHost);
    }
    for url in ["http://localhost", "localhost:6379", "redis://", "redis://localhost:99999", "redis://h/x"] {
        let refused = refused(RedisOptions { url: Some(url.into()), ..options(1) });
        assert_eq!(refused, RedisOptionsError::Url, "{url}");
    }
}

#[tokio::test]
async fn a_caller_who_wants_errors_gets_the_code_and_the_next_entry_works() {
    let mut server = servers::start();
    let options = RedisOptions { store_timeout: Duration::from_millis(200), ..options(server.port()) };
    let mut node = Node::with(&store(options), "{}", |options| options.on_store_error = OnStoreError::Fail).await;
    server.kill();
    let error = node.pipe.answer("lost", &metadata_of("s1")).await.unwrap_err();
    assert_eq!(error.code, "unavailable");
    server.restart().unwrap();
    until("memory", async || node.pipe.answer("yes", &metadata_of("s1")).await.is_ok()).await;
}

// Permissions. ---------------------------------------------------------------------------------------

/// Everything that a store is ever asked for, so that every command of every script is called.
async fn use_all_of(options: &RedisOptions) {
    let store = store(options.clone());
    let mut writer = Writer::new();
    store.check().await.unwrap();
    let everything = [
        expecting("b", create(), [room_within(9)], [put("a", "1"), increment("n", 1), append("history", &["1", "2"])]),
        transaction("b", create(), [put("a", "2"), increment("n", 1), get("a"), get_all(), list_keys(9)]),
        expecting("b", existing(), [oldest_are("history", &["1"]), keys_are(&["a", "n"])], [count("history")]),
        transaction("b", existing(), [append("turns", &["1", "2", "3"]), overflow("history", 1, 1, 9, 99)]),
        transaction("b", existing(), [rewrite("turns", 1, "x"), read_newest("turns", 0, 9, 99)]),
        transaction("b", existing(), [replace_oldest("turns", 2, &["y"]), replace_oldest("history", 1, &["z"])]),
        transaction("b", existing(), [remove("a"), get("n")]),
        transaction("b", existing(), [remove_all(9)]),
        transaction("sliding", create_sliding(Duration::from_millis(200)), [put("a", "1"), append("turns", &["1"])]),
    ];
    for transaction in &everything {
        let _ = store.transact(writer.advance(), transaction, Deadline::NEVER).await;
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    let _ =
        store.transact(writer.advance(), &transaction("sliding", existing(), [put("b", "1")]), Deadline::NEVER).await;
    // More writers than are remembered.
    for _ in 0..70 {
        let _ = store
            .transact(Writer::new().advance(), &transaction("b", create(), [put("a", "1")]), Deadline::NEVER)
            .await;
    }
    let _ = store.describe_bucket("b", Deadline::NEVER).await;
    let _ = store.describe_bucket("absent", Deadline::NEVER).await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    let _ = store.list_buckets("", 10, Deadline::NEVER).await;
    let _ = store.delete_bucket(writer.advance(), "b", Deadline::NEVER).await;
}

fn denials(connection: &mut Connection) -> usize {
    redis::cmd("ACL").arg("LOG").query::<Vec<redis::Value>>(connection).unwrap().len()
}

/// The options of a user who is made with the permissions for them, less these.
fn tenant(connection: &mut Connection, port: u16, name: &str, prefix: &str, less: &[String]) -> RedisOptions {
    let options = RedisOptions {
        username: Some(name.into()),
        key_prefix: prefix.into(),
        store_timeout: Duration::from_secs(5),
        ..options(port)
    };
    let mut rules = servers::user_rules(name, &options);
    rules.extend(less.iter().map(|permission| permission.replace('+', "-")));
    redis::cmd("ACL").arg("SETUSER").arg(rules).exec(connection).unwrap();
    options
}

/// Every call of an operator on a session that is there, with errors.
async fn operate(node: &mut Node, session: &str) -> Vec<Option<SessionError>> {
    let sessions = &mut node.sessions;
    vec![
        sessions.resume(session).await.err(),
        sessions.put(session, "k", "1").await.err(),
        sessions.get(session, "k").await.err(),
        sessions.keys(session).await.err(),
        sessions.increment(session, "n", 1).await.err(),
        sessions.clear(session, Some("k")).await.err(),
        sessions.clear(session, None).await.err(),
        sessions.history(session, None, 0).await.err(),
        sessions.list("", 10).await.err(),
        sessions.delete(session).await.err(),
    ]
}

#[tokio::test]
async fn the_least_permissions_suffice_for_everything() {
    let server = RedisServer::start().unwrap();
    let mut connection = raw(&server);
    let options = tenant(&mut connection, server.port(), "filter", "mine", &[]);
    use_all_of(&options).await;
    let elsewhere = RedisOptions { database: 1, ..options.clone() };
    redis::cmd("ACL").arg("SETUSER").arg(servers::user_rules("filter", &elsewhere)).exec(&mut connection).unwrap();
    use_all_of(&elsewhere).await;
    let filter = r#"{"max_history":4,"session_ttl_hours":1,"session_ttl_mode":"sliding"}"#;
    let mut node = Node::new(&store(options.clone()), filter).await;
    for _ in 0..10 {
        assert_eq!(node.say("s1", "yes").await.effect, Effect::Stored);
        assert_eq!(node.ask("s1").await.effect, Effect::Enriched);
    }
    assert_answers(&node, "s1", 10).await;
    node.sessions.create("s2").await.unwrap();
    assert!(operate(&mut node, "s2").await.iter().all(Option::is_none));
    assert_eq!(node.sessions.list("", 10).await.unwrap().sessions, ["s1"]);
    assert_eq!(denials(&mut connection), 0);
}

#[tokio::test]
async fn none_of_the_least_permissions_can_be_left_out() {
    let server = RedisServer::start().unwrap();
    let mut connection = raw(&server);
    let all = RedisOptions { key_prefix: "mine".into(), ..RedisOptions::default() }.least_acl().unwrap();
    let commands: Vec<String> = all.into_iter().filter(|rule| rule.starts_with('+')).collect();
    assert!(commands.len() > 20);
    // One after the other: they share their keys.
    for (number, command) in commands.iter().enumerate() {
        let less = std::slice::from_ref(command);
        let options = tenant(&mut connection, server.port(), &format!("user{number}"), "mine", less);
        // More writers than are kept, all of whom can be forgotten.
        let outdated: Vec<String> = (0..100).map(|writer| format!("w{writer} 1.1")).collect();
        send(&mut connection, &format!("HSET mine:b:__writers__ {}", outdated.join(" ")));
        match &**command {
            // Some of them can be forgotten.
            "+hdel" => {
                let mut command = redis::cmd("HSET");
                command.arg("mine:b:__writers__");
                (0..200).for_each(|n| _ = command.arg(format!("{n:016x}")).arg("1.1"));
                command.exec(&mut connection).unwrap();
                use_all_of(&options).await;
            }
            "+ping" | "+time" => assert_eq!(store(options).check().await.unwrap_err().code, FailureCode::Denied),
            _ => use_all_of(&options).await,
        }
        assert!(denials(&mut connection) > 0, "{command}");
        send(&mut connection, "ACL LOG RESET");
    }
}

/// A command of a tenant's own making, as whoever steals its password can send it: refused for its keys.
fn assert_out_of_reach(options: &RedisOptions, foreign: &[String]) {
    let name = options.username.as_deref().unwrap();
    let url = format!("redis://{name}:{}@127.0.0.1:{}", servers::PASSWORD, options.port);
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    for key in foreign {
        for (command, arguments) in [
            ("GET", &[][..]),
            ("SET", &["x"]),
            ("UNLINK", &[]),
            ("SMEMBERS", &[]),
            ("HGETALL", &[]),
            ("LRANGE", &["0", "9"]),
        ] {
            let mut direct = redis::cmd(command);
            direct.arg(key).arg(arguments);
            // A script may reach for keys that it was not given.
            let mut scripted = redis::cmd("EVAL");
            scripted.arg("return redis.call(unpack(ARGV))").arg(0).arg(command).arg(key).arg(arguments);
            for refused in [direct, scripted].map(|command| command.exec(&mut connection).unwrap_err()) {
                let told = refused.to_string();
                assert!(told.contains("no permissions") || told.contains("can't access"), "{command} {key}: {told}");
            }
        }
    }
    for command in ["KEYS *", "SCAN 0", "FLUSHALL", "CONFIG GET *", "ACL LIST", "MONITOR", "SCRIPT FLUSH"] {
        let mut words = command.split(' ');
        let mut denied = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            denied.arg(word);
        });
        assert!(denied.exec(&mut connection).unwrap_err().to_string().contains("no permissions"), "{command}");
    }
}

#[tokio::test]
async fn tenants_of_one_redis_can_t_reach_each_other_s_sessions() {
    let server = RedisServer::start().unwrap();
    let mut connection = raw(&server);
    // The second prefix begins like the first, but not after a colon.
    let tenants = [("anna", "rr:a"), ("ben", "rr:ab")].map(|(name, prefix)| {
        let options = tenant(&mut connection, server.port(), name, prefix, &[]);
        (name, prefix, options)
    });
    for (name, _, options) in &tenants {
        let mut node = node(options.clone()).await;
        assert_eq!(node.say("s1", name).await.effect, Effect::Stored);
        assert_eq!(node.say(name, name).await.effect, Effect::Stored);
    }
    assert_eq!(denials(&mut connection), 0);
    let before = dump(&mut connection);
    for ((name, prefix, options), (_, other, _)) in tenants.iter().zip(tenants.iter().rev()) {
        // Each sees what is its own, under the same names too.
        let mut own = node(options.clone()).await;
        assert!(own.memory("s1").await.unwrap().contains(&format!("\"{name}\"")));
        assert_eq!(own.sessions.list("", 10).await.unwrap().sessions, [*name, "s1"].map(str::to_owned));
        // Whoever is configured with the other's prefix is forwarded, told, and changes nothing.
        let mut lost = node(RedisOptions { key_prefix: (*other).into(), ..options.clone() }).await;
        let passed = lost.say("s1", "lost").await;
        assert_forwarded(&passed, &["denied"]);
        assert!(problem_message(&passed).contains("denies"), "{passed:?}");
        assert_forwarded(&lost.ask("s1").await, &["denied"]);
        for refused in operate(&mut lost, "s1").await {
            let refused = refused.unwrap();
            assert_eq!(refused.code, Some(SessionErrorCode::Store));
            assert!(refused.message.contains("denies"), "{refused}");
        }
        let foreign: Vec<String> =
            before.iter().map(|(key, _)| key.clone()).filter(|key| !key.starts_with(&format!("{prefix}:"))).collect();
        assert!(foreign.len() > 10 && foreign.iter().all(|key| key.starts_with(&format!("{other}:"))));
        assert_out_of_reach(options, &foreign);
    }
    assert_eq!(dump(&mut connection), before);
}

/// One prefix that goes on after another's colon: no ACL keeps these two apart, but their stores never meet.
#[tokio::test]
async fn stores_of_prefixes_inside_each_other_never_meet() {
    let server = RedisServer::start().unwrap();
    let mut connection = raw(&server);
    let outer = tenant(&mut connection, server.port(), "outer", "rr", &[]);
    let inner = tenant(&mut connection, server.port(), "inner", "rr:b", &[]);
    let (mut outer, mut inner) = (node(outer).await, node(inner).await);
    let of_inner = |keys: Vec<(String, Vec<u8>)>| -> Vec<_> {
        keys.into_iter().filter(|(key, _)| key.matches(':').count() > 2 || key == "rr:b:__sessions__").collect()
    };
    for session in ["b", "s1"] {
        inner.say(session, "inner").await;
    }
    let before = dump(&mut connection);
    assert_eq!(of_inner(before.clone()), before);
    for session in ["b", "s1"] {
        assert_eq!(outer.say(session, "outer").await.effect, Effect::Stored);
        assert!(outer.memory(session).await.unwrap().contains("\"outer\""));
    }
    assert_eq!(outer.sessions.list("", 10).await.unwrap().sessions, ["b", "s1"]);
    assert!(operate(&mut outer, "b").await.iter().all(Option::is_none));
    assert_eq!(of_inner(dump(&mut connection)), before);
    assert_eq!(inner.sessions.list("", 10).await.unwrap().sessions, ["b", "s1"]);
    assert!(inner.memory("b").await.unwrap().contains("\"inner\""));
}

// TLS. -----------------------------------------------------------------------------------------------

fn openssl(directory: &Path, arguments: &str) {
    let output = Command::new("openssl").current_dir(directory).args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A Redis with a certificate for 127.0.0.1 by an authority that nobody knows. None: it was built without.
fn with_tls(directory: &Path) -> Option<(RedisServer, u16)> {
    let new_key = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    openssl(directory, &format!("{new_key} -keyout ca.key -out ca.crt -subj /CN=authority"));
    openssl(
        directory,
        "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout redis.key -out redis.csr -subj /CN=redis",
    );
    fs::write(directory.join("san"), "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n").unwrap();
    let sign = "x509 -req -in redis.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out redis.crt -extfile san";
    openssl(directory, sign);
    let port = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let file = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let arguments = [
        ("--tls-port", port.to_string()),
        ("--tls-cert-file", file("redis.crt")),
        ("--tls-key-file", file("redis.key")),
        ("--tls-ca-cert-file", file("ca.crt")),
        ("--tls-auth-clients", "no".to_owned()),
    ];
    let arguments: Vec<&str> = arguments.iter().flat_map(|(name, value)| [*name, value]).collect();
    Some((servers::start_with(&arguments).ok()?, port))
}

#[tokio::test]
async fn tls_trusts_whom_it_is_told_to_trust_and_refuses_others_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let Some((server, tls_port)) = with_tls(directory.path()) else {
        eprintln!("this redis-server has no TLS; nothing is tested here");
        return;
    };
    let tls = RedisOptions { tls: true, store_timeout: Duration::from_secs(10), ..options(tls_port) };
    let trusting = RedisOptions { tls_ca: Some(directory.path().join("ca.crt")), ..tls.clone() };
    assert_eq!(node(trusting.clone()).await.say("s1", "yes").await.effect, Effect::Stored);
    let url = RedisOptions {
        url: Some(format!("rediss://{}:{}@127.0.0.1:{tls_port}/0", servers::USER, servers::PASSWORD).into()),
        tls_ca: trusting.tls_ca.clone(),
        ..RedisOptions::default()
    };
    assert_eq!(node(url).await.say("s1", "yes").await.effect, Effect::Stored);

    for (case, options, reason) in [
        ("an authority that nobody knows", tls.clone(), "not trusted"),
        ("another name", RedisOptions { host: "localhost".into(), ..trusting.clone() }, "not trusted"),
    ] {
        let mut node = node(options).await;
        let began = Instant::now();
        let passed = node.say("s1", "lost").await;
        assert!(began.elapsed() < Duration::from_secs(8), "{case}");
        assert_forwarded(&passed, &["unavailable"]);
        assert!(problem_message(&passed).contains(reason), "{case}: {}", problem_message(&passed));
        assert_tells_no_secret(&node, &passed, tls_port);
    }
    let (http, serving) = impostor("speaks HTTP").await;
    let passed = node(RedisOptions { port: http, ..trusting.clone() }).await.say("s1", "lost").await;
    assert!(problem_message(&passed).contains("TLS handshake failed"), "{passed:?}");
    serving.abort();
    // Either waits for the other to begin.
    let hasty = Duration::from_millis(300);
    for mistaken in [
        RedisOptions { store_timeout: hasty, ..options(tls_port) },
        RedisOptions { store_timeout: hasty, port: server.port(), ..trusting.clone() },
    ] {
        let mut node = node(mistaken).await;
        assert_forwarded(&node.say("s1", "lost").await, &["unavailable", "timed-out"]);
    }

    for (file, content) in [("empty", ""), ("noise", "noise"), ("missing", "")] {
        let path = directory.path().join(file);
        if file != "missing" {
            fs::write(&path, content).unwrap();
        }
        let refused = RedisStore::new(RedisOptions { tls_ca: Some(path), ..tls.clone() }).unwrap_err();
        assert!(matches!(refused, RedisOptionsError::TlsCa(_)), "{refused}");
    }
    let useless = RedisStore::new(RedisOptions { tls: false, ..trusting }).unwrap_err();
    assert!(matches!(useless, RedisOptionsError::TlsCa(_)), "{useless}");
}
