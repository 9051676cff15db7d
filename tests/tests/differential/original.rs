//! Random traffic gives what the original node's rules say (`tests/src/original.rs`), on every store: in the library,
//! with several pipes, operators' calls and passing time; and through `keepline run`, with refused lines in between and
//! other processes at work on the same sessions.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdout, Stdio},
    thread,
    time::Duration,
};

use fastrand::Rng;
use keepline::{Pipe, SessionError, Sessions, sessions::SessionErrorCode as Code};
use keepline_tests::{
    lanes::Node,
    original::{Metadata, Model, Rules, Said, Turns, without_timestamp},
    programs::{self, program},
    random,
    stores::{StoreUnderTest, run},
};
use serde_json::json;

const SESSIONS: [&str; 4] = ["a", "b", "c-3", "D_4"];
const PIPES: usize = 3;

fn pick(random: &mut Rng, choices: &[&str]) -> String {
    choices[random.usize(..choices.len())].to_owned()
}

fn session(random: &mut Rng) -> String {
    if random.u8(..20) == 0 {
        return pick(random, &["", "a b", "a\n", "é", "__meta__", "unheard-of"]);
    }
    pick(random, &SESSIONS)
}

fn key(random: &mut Rng) -> String {
    if random.u8(..20) == 0 {
        return pick(random, &["", "__keys__", "k\n", "__history__", "a:b"]);
    }
    pick(random, &["last_answer", "answer_count", "answer_count", "k", "k.2", "K-3", "_"])
}

fn value(random: &mut Rng) -> String {
    if random.u8(..12) == 0 {
        return format!("\"{}\"", "x".repeat(random.usize(..160)));
    }
    pick(
        random,
        &["1", "-7", "9223372036854775806", "\"é\"", "[1,2]", "{\"a\": 1}", "1.50", "null", "NaN", " 3 ", "-0"],
    )
}

fn text(random: &mut Rng) -> String {
    match random.u8(..8) {
        0 => "x".repeat(random.usize(..200)),
        1 => "\"\\\n\u{1}é🎉".repeat(random.usize(..6)),
        _ => format!("answer {}", random.u16(..)),
    }
}

/// What an operator, or another node, does meanwhile.
#[derive(Clone, Debug)]
enum Call {
    Create(String),
    Resume(String),
    Delete(String),
    Put(String, String, String),
    Get(String, String),
    Keys(String),
    Clear(String, Option<String>),
    Increment(String, String, i64),
    History(String, u32),
    List,
}

impl Call {
    fn random(random: &mut Rng) -> Self {
        let session = session(random);
        match random.u8(..16) {
            0 => Self::Create(session),
            1 => Self::Resume(session),
            2 | 3 => Self::Delete(session),
            4..=6 => Self::Put(session, key(random), value(random)),
            7 => Self::Get(session, key(random)),
            8 => Self::Keys(session),
            9 => Self::Clear(session, Some(key(random))),
            10 => Self::Clear(session, None),
            11 | 12 => {
                let amounts = [1, -3, 0, i64::MAX, i64::MIN];
                Self::Increment(session, key(random), amounts[random.usize(..amounts.len())])
            }
            13 | 14 => Self::History(session, random.u32(..8)),
            _ => Self::List,
        }
    }

    fn of_the_model(&self, model: &mut Model) -> Said {
        match self {
            Self::Create(session) => model.create(session),
            Self::Resume(session) => model.resume(session),
            Self::Delete(session) => model.delete(session),
            Self::Put(session, key, value) => model.put(session, key, value),
            Self::Get(session, key) => model.get(session, key),
            Self::Keys(session) => model.keys(session),
            Self::Clear(session, key) => model.clear(session, key.as_deref()),
            Self::Increment(session, key, amount) => model.increment(session, key, *amount),
            Self::History(session, limit) => model.history(session, *limit as usize),
            Self::List => Ok(json!(model.list())),
        }
    }

    async fn of_the_store(&self, sessions: &mut Sessions, store: &StoreUnderTest) -> Said {
        let said = match self {
            Self::Create(session) => sessions.create(session).await.map(|_| json!(session)),
            Self::Resume(session) => {
                sessions.resume(session).await.map(|state| json!([state.key_count, state.history_length]))
            }
            Self::Delete(session) => sessions.delete(session).await.map(|deleted| {
                assert_eq!(deleted.key_count, deleted.keys.len() as u64);
                json!(deleted.keys)
            }),
            Self::Put(session, key, value) => sessions.put(session, key, value).await.map(|_| json!(key)),
            Self::Get(session, key) => sessions.get(session, key).await.map(|found| json!(found.value())),
            Self::Keys(session) => sessions.keys(session).await.map(|list| json!(list.keys)),
            Self::Clear(session, key) => {
                sessions.clear(session, key.as_deref()).await.map(|cleared| json!(cleared.keys))
            }
            Self::Increment(session, key, amount) => {
                sessions.increment(session, key, *amount).await.map(|counted| json!(counted.value))
            }
            Self::History(session, limit) => {
                let page = sessions.history(session, None, *limit).await;
                page.map(|page| page.records.iter().map(|record| without_timestamp(&record.to_json())).collect())
            }
            Self::List => {
                let mut all = store.list(3).await;
                all.sort_unstable();
                all.dedup();
                Ok(json!(all))
            }
        };
        said.map_err(|error: SessionError| match error.code {
            // Which call is told that a session has expired, and which that it is not there, is left to the store.
            Code::Expired => Code::NotFound,
            code => code,
        })
    }
}

/// Everything that can be found out is as the model has it.
async fn agree(model: &mut Model, sessions: &mut Sessions, store: &StoreUnderTest, when: &str) {
    let mut calls = vec![Call::List];
    for session in model.list() {
        let keys: Vec<String> = serde_json::from_value(model.keys(&session).unwrap()).unwrap();
        calls.extend(keys.into_iter().map(|key| Call::Get(session.clone(), key)));
        calls.extend([Call::Keys(session.clone()), Call::Resume(session.clone()), Call::History(session, 0)]);
    }
    for call in calls {
        let (expected, real) = (call.of_the_model(model), call.of_the_store(sessions, store).await);
        assert_eq!(real, expected, "{call:?} in the end, {when}");
    }
}

// In the library. -----------------------------------------------------------------------------------------

async fn traffic_in_the_library(given: impl Fn() -> StoreUnderTest, rounds: usize) {
    for seed in random::seeds(rounds) {
        let mut random = Rng::with_seed(seed);
        let rules = Rules::random(&mut random);
        let when = format!("KEEPLINE_SEED={seed}, with {}", rules.json());
        let store = given();
        let mut node = Node::new(&store.store, &rules.json()).await;
        let mut pipes: Vec<(Pipe, Turns)> = (0..PIPES).map(|_| (node.keepline.pipe(), Turns::default())).collect();
        let mut model = Model::new(rules);
        for step in 0..150 {
            let (pipe, turns) = &mut pipes[random.usize(..PIPES)];
            match random.u8(..40) {
                0 => {
                    pipe.open();
                    turns.open();
                }
                1..=12 => {
                    let metadata = Metadata::random(&mut random, &SESSIONS);
                    let passed = pipe.question("?", &metadata.text).await.unwrap();
                    let asked = model.question(&metadata);
                    let when = format!("step {step}: question {metadata:?}, {when}");
                    assert_eq!((passed.effect, passed.metadata), (asked.effect, asked.metadata), "{when}");
                    turns.ask(asked.turn);
                }
                13..=24 => {
                    let bare = random.bool();
                    let metadata = if bare { Metadata::empty() } else { Metadata::random(&mut random, &SESSIONS) };
                    let text = text(&mut random);
                    let passed = pipe.answer(&text, &metadata.text).await.unwrap();
                    let turn = turns.of(&metadata);
                    let effect = model.answer(&text, &metadata, turn);
                    let when = format!("step {step}: answer {text:?} {metadata:?} of {turn:?}, {when}");
                    assert_eq!((passed.effect, passed.metadata), (effect, None), "{when}");
                }
                25..=36 => {
                    let call = Call::random(&mut random);
                    let expected = call.of_the_model(&mut model);
                    let real = call.of_the_store(&mut node.sessions, &store).await;
                    assert_eq!(real, expected, "step {step}: {call:?}, {when}");
                }
                _ => {
                    let seconds = 60 * random.u64(1..20);
                    store.pass_time(Duration::from_secs(seconds));
                    node.clock.advance(Duration::from_secs(seconds));
                    model.pass(seconds);
                }
            }
        }
        agree(&mut model, &mut node.sessions, &store, &when).await;
    }
}

// Through the binary. -------------------------------------------------------------------------------------

/// `keepline run` at the other end of two pipes.
struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    fn start(store: &StoreUnderTest, rules: &Rules, pipes: usize) -> Self {
        let mut command = programs::command(program("--bin", "keepline"));
        command.args(["run", "--pipes", &pipes.to_string()]).envs(store.environment());
        for (name, value) in rules.fields() {
            command.args(["--set", &format!("{name}={}", value.trim_matches('"'))]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        // What it says of refused lines is not this test's matter, but must not fill the pipe.
        let mut errors = child.stderr.take().unwrap();
        thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        Self { child, output }
    }

    fn pass(&mut self, line: &[u8]) -> Vec<u8> {
        self.child.stdin.as_mut().unwrap().write_all(line).unwrap();
        let mut out = Vec::new();
        self.output.read_until(b'\n', &mut out).unwrap();
        out
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if thread::panicking() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// A line that is no entry, whatever it might have been meant to be.
fn refused(random: &mut Rng) -> Vec<u8> {
    let lines: [&[u8]; 10] = [
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b"{\"lane\":\"questions\",\"text\":\"cut\",\"metadata\":{\"session_id\":\"b\"",
        b"{\"lane\":\"question\",\"text\":\"?\",\"metadata\":{\"session_id\":\"b\"}}",
        b"{\"lane\":NaN,\"text\":\"?\"}",
        b"{\"lane\":7,\"metadata\":{\"session_id\":\"b\"}}",
        b"{\"lane\":\"questions\",\"text\":\"\xff\",\"metadata\":{\"session_id\":\"b\"}}",
        b"{\"lane\":\"questions\",\"metadata\":{\"session_id\":\"b\"}} x",
    ];
    lines[random.usize(..lines.len())].to_vec()
}

fn line(lane: &str, text: &str, metadata: &str) -> Vec<u8> {
    format!("{{\"lane\":\"{lane}\",\"text\":{},\"metadata\":{metadata},\"n\":1.50}}", json!(text)).into_bytes()
}

async fn traffic_through_the_binary(given: impl Fn() -> StoreUnderTest, is_shared: bool, rounds: usize) {
    for seed in random::seeds(rounds) {
        let mut random = Rng::with_seed(seed);
        let rules = Rules::random(&mut random);
        let pipes = [1, 1, 4][random.usize(..3)];
        let when = format!("KEEPLINE_SEED={seed}, with {pipes} pipes and {}", rules.json());
        let store = given();
        let mut node = Node::new(&store.store, &rules.json()).await;
        let mut running = Running::start(&store, &rules, pipes);
        let mut model = Model::new(rules);
        let mut turns = Turns::default();
        for step in 0..150 {
            let (sent, expected) = match random.u8(..40) {
                0 | 1 => {
                    turns.open();
                    let sent = b"{ \"lane\" : \"open\" }".to_vec();
                    (sent.clone(), sent)
                }
                2..=7 => {
                    turns.end_last();
                    let sent = refused(&mut random);
                    (sent.clone(), sent)
                }
                8..=17 => {
                    let metadata = Metadata::random(&mut random, &SESSIONS);
                    let asked = model.question(&metadata);
                    turns.ask(asked.turn);
                    let sent = line("questions", "?", &metadata.text);
                    let expected = asked.metadata.map_or_else(|| sent.clone(), |new| line("questions", "?", &new));
                    (sent, expected)
                }
                18..=29 => {
                    let bare = random.bool();
                    let metadata = if bare { Metadata::empty() } else { Metadata::random(&mut random, &SESSIONS) };
                    let text = text(&mut random);
                    model.answer(&text, &metadata, turns.of(&metadata));
                    let sent = line("answers", &text, &metadata.text);
                    (sent.clone(), sent)
                }
                _ if !is_shared => continue,
                30..=37 => {
                    let call = Call::random(&mut random);
                    let expected = call.of_the_model(&mut model);
                    let real = call.of_the_store(&mut node.sessions, &store).await;
                    assert_eq!(real, expected, "step {step}: {call:?}, {when}");
                    continue;
                }
                // The processes that share a directory go by the machine's clock, which no test can advance.
                _ if store.name == "directory" => continue,
                _ => {
                    let seconds = 60 * random.u64(1..20);
                    store.pass_time(Duration::from_secs(seconds));
                    model.pass(seconds);
                    continue;
                }
            };
            let ending: &[u8] = if random.u8(..8) == 0 { b"\r\n" } else { b"\n" };
            let (sent, expected) = ([&sent, ending].concat(), [&expected, ending].concat());
            let out = running.pass(&sent);
            let shown = [&sent, &out, &expected].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            assert_eq!(out, expected, "step {step}: {shown:#?} {when}");
        }
        if is_shared {
            agree(&mut model, &mut node.sessions, &store, &when).await;
        }
    }
}

#[test]
fn the_library_matches_the_original_on_the_memory_store() {
    run(StoreUnderTest::memory(), |_| traffic_in_the_library(StoreUnderTest::memory, 60));
}

#[test]
fn the_library_matches_the_original_in_a_directory() {
    run(StoreUnderTest::directory(), |_| traffic_in_the_library(StoreUnderTest::directory, 40));
}

#[test]
fn the_library_matches_the_original_on_redis() {
    run(StoreUnderTest::redis(), |_| traffic_in_the_library(StoreUnderTest::redis, 25));
}

#[test]
fn the_library_matches_the_original_on_a_cluster() {
    run(StoreUnderTest::cluster(), |_| traffic_in_the_library(StoreUnderTest::cluster, 10));
}

#[test]
fn the_binary_matches_the_original_on_the_memory_store() {
    run(StoreUnderTest::memory(), |_| traffic_through_the_binary(StoreUnderTest::memory, false, 15));
}

#[test]
fn the_binary_matches_the_original_in_a_directory() {
    run(StoreUnderTest::directory(), |_| traffic_through_the_binary(StoreUnderTest::directory, true, 15));
}

#[test]
fn the_binary_matches_the_original_on_redis() {
    run(StoreUnderTest::redis(), |_| traffic_through_the_binary(StoreUnderTest::redis, true, 15));
}

#[test]
fn the_binary_matches_the_original_on_a_cluster() {
    run(StoreUnderTest::cluster(), |_| traffic_through_the_binary(StoreUnderTest::cluster, true, 8));
}
