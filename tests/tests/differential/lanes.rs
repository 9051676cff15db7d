//! Random traffic on the lanes, calls on sessions and passing time give the same replies and the same stored data on
//! every store.

use std::{fmt::Debug, time::Duration};

use fastrand::Rng;
use keepline::{Passed, Pipe, SessionError, pipe::ProblemCode, sessions::SessionErrorCode as Code};
use keepline_tests::{lanes::Node, random, stores::StoreUnderTest};

const STEPS: usize = 150;
const SESSIONS: [&str; 4] = ["a", "b", "c-3", "D_4"];
/// No sum of minutes comes near this, so that what Redis's own clock adds makes no difference.
const LIFE_HOURS: &str = "1.01";

#[derive(Clone, Debug)]
enum Step {
    Open { pipe: usize },
    Question { pipe: usize, metadata: String },
    Answer { pipe: usize, text: String, metadata: String },
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
    TimePasses(Duration),
}

fn pick<'a, T: ?Sized>(random: &mut Rng, choices: &[&'a T]) -> &'a T {
    choices[random.usize(..choices.len())]
}

fn session(random: &mut Rng) -> String {
    if random.u8(..20) == 0 {
        return pick(random, &["", "a b", "a\n", "é", "__meta__", "unheard-of"]).to_owned();
    }
    pick(random, &SESSIONS).to_owned()
}

fn key(random: &mut Rng) -> String {
    let rare = ["", "__keys__", "k\n", "__history__", "a:b"];
    if random.u8(..20) == 0 {
        return pick(random, &rare).to_owned();
    }
    pick(random, &["last_answer", "answer_count", "k", "k.2", "K-3", "_"]).to_owned()
}

fn value(random: &mut Rng) -> String {
    let plain = ["1", "-7", "9223372036854775807", "\"é\"", "[1,\n2]", "{\"a\": 1}", "1.50", "null", "nonsense", " 3 "];
    match random.u8(..12) {
        0 => format!("\"{}\"", "x".repeat(random.usize(..120))),
        _ => pick(random, &plain).to_owned(),
    }
}

fn text(random: &mut Rng) -> String {
    match random.u8(..10) {
        0 => "x".repeat(random.usize(..160)),
        1 => "\"\\\n\0é🎉".repeat(random.usize(..8)),
        _ => format!("answer {}", random.u16(..)),
    }
}

fn metadata(random: &mut Rng) -> String {
    let id = session(random).replace('\n', "\\n");
    match random.u8(..16) {
        0 => "{}".into(),
        1 => String::new(),
        2 => "{\"memory_context\":{\"forged\":1},\"x\":[1,2]}".into(),
        3 => format!("{{\"memory_context\":0,\"session_id\":\"{id}\",\"x\":1.0}}"),
        4 => format!("{{\"sess\\u0069on_id\" : \"{id}\"}}"),
        5 => format!("{{\"session_id\":\"{id}\""),
        6 => "{\"session_id\":5}".into(),
        7 => format!("{{\"session_id\":null,\"session_id\":\"{id}\",\"n\":1e999}}"),
        8 => format!("\u{feff}{{\"memory_context\":NaN,\"x\":[Infinity],\"session_id\":\"{id}\"}}"),
        9 => format!("{{\"memory_context\":NaN,\"session_id\":\"{id}\",}}"),
        _ => format!("{{\"session_id\":\"{id}\"}}"),
    }
}

impl Step {
    fn random(random: &mut Rng) -> Self {
        let pipe = random.usize(..3);
        match random.u8(..40) {
            0 => Self::Open { pipe },
            1..=10 => Self::Question { pipe, metadata: metadata(random) },
            11..=15 => Self::Answer { pipe, text: text(random), metadata: "{}".into() },
            16..=21 => Self::Answer { pipe, text: text(random), metadata: metadata(random) },
            22 => Self::Create(session(random)),
            23 => Self::Resume(session(random)),
            24 => Self::Delete(session(random)),
            25..=27 => Self::Put(session(random), key(random), value(random)),
            28 => Self::Get(session(random), key(random)),
            29 => Self::Keys(session(random)),
            30 => Self::Clear(session(random), Some(key(random))),
            31 => Self::Clear(session(random), None),
            32 | 33 => Self::Increment(
                session(random),
                key(random),
                pick(random, &[&1, &-3, &0, &i64::MAX, &i64::MIN]).to_owned(),
            ),
            34 => Self::History(session(random), random.u32(..8)),
            35 => Self::List,
            _ => Self::TimePasses(Duration::from_secs(60 * random.u64(1..20))),
        }
    }
}

/// A store with a filter on it and three pipes.
struct Side {
    given: StoreUnderTest,
    node: Node,
    pipes: Vec<Pipe>,
}

impl Side {
    async fn new(given: StoreUnderTest, options: &str) -> Self {
        let node = Node::new(&given.store, options).await;
        let pipes = (0..3).map(|_| node.keepline.pipe()).collect();
        Self { given, node, pipes }
    }

    /// Take a step; what it came to, in words that don't depend on the store.
    async fn take(&mut self, step: &Step) -> String {
        let sessions = &mut self.node.sessions;
        match step {
            Step::Open { pipe } => {
                self.pipes[*pipe].open();
                String::new()
            }
            Step::Question { pipe, metadata } => told(&self.pipes[*pipe].question("?", metadata).await.unwrap()),
            Step::Answer { pipe, text, metadata } => told(&self.pipes[*pipe].answer(text, metadata).await.unwrap()),
            // Stamps are a store's own.
            Step::Create(session) => said(sessions.create(session).await.map(|created| created.key_count)),
            Step::Resume(session) => said(sessions.resume(session).await.map(|state| {
                let minutes = state.expires_in.map(|milliseconds| milliseconds / 60_000);
                (state.key_count, state.history_length, minutes)
            })),
            Step::Delete(session) => said(sessions.delete(session).await),
            Step::Put(session, key, value) => said(sessions.put(session, key, value).await),
            Step::Get(session, key) => said(sessions.get(session, key).await),
            Step::Keys(session) => said(sessions.keys(session).await),
            Step::Clear(session, key) => said(sessions.clear(session, key.as_deref()).await),
            Step::Increment(session, key, amount) => said(sessions.increment(session, key, *amount).await),
            Step::History(session, limit) => said(sessions.history(session, None, *limit).await),
            Step::List => {
                let mut all = self.given.list(3).await;
                all.sort_unstable();
                all.dedup();
                format!("{all:?}")
            }
            Step::TimePasses(time) => {
                self.given.pass_time(*time);
                self.node.clock.advance(*time);
                String::new()
            }
        }
    }

    /// All that an operator can find out.
    async fn state(&mut self) -> Vec<String> {
        let mut state = vec![self.take(&Step::List).await];
        for session in self.given.list(100).await {
            for step in [Step::Resume(session.clone()), Step::Keys(session.clone()), Step::History(session.clone(), 0)]
            {
                state.push(self.take(&step).await);
            }
            for key in self.node.sessions.keys(&session).await.unwrap().keys {
                state.push(self.take(&Step::Get(session.clone(), key)).await);
            }
        }
        state.sort_unstable();
        state
    }
}

/// The words about a failed store are the store's own, its code is not.
fn told(passed: &Passed) -> String {
    let problem = passed.problem.as_ref().map(|problem| match &problem.code {
        ProblemCode::Limit => problem.message.clone(),
        code => code.to_string(),
    });
    format!("{:?} {:?} {} {problem:?}", passed.effect, passed.metadata, passed.attached)
}

/// Which call is told that a session has expired, and which that it is not there, is left to the store.
fn said<T: Debug>(result: Result<T, SessionError>) -> String {
    match result {
        Err(SessionError { code: Code::Expired, message, .. }) => {
            format!("Err(NotFound, {})", message.replace("has expired", "not found"))
        }
        Err(SessionError { code, message, .. }) => format!("Err({:?}, {message})", code),
        Ok(reply) => format!("{reply:?}"),
    }
    .replace("SessionErrorCode::", "")
}

fn options(random: &mut Rng) -> String {
    let mode = pick(random, &["fixed", "sliding"]);
    let unbound = pick(random, &["keep", "strip"]);
    let hours = pick(random, &["0", LIFE_HOURS, LIFE_HOURS]);
    format!(
        r#"{{"session_ttl_hours": {hours}, "session_ttl_mode": "{mode}", "unbound_context": "{unbound}",
            "max_history": {}, "auto_summarize": {}, "max_value_bytes": {}, "max_context_bytes": {}, "max_keys": {}}}"#,
        random.u32(..12),
        random.u8(..5) > 0,
        random.u32(40..120),
        random.u32(60..240),
        random.u32(2..7),
    )
}

#[tokio::test]
async fn random_traffic_has_the_same_results_on_every_store() {
    for seed in random::seeds(20) {
        let mut random = Rng::with_seed(seed);
        let options = options(&mut random);
        let mut memory = Side::new(StoreUnderTest::memory(), &options).await;
        let mut others = [
            Side::new(StoreUnderTest::directory(), &options).await,
            Side::new(StoreUnderTest::redis(), &options).await,
        ];
        for number in 0..STEPS {
            let step = Step::random(&mut random);
            let one = memory.take(&step).await;
            for side in &mut others {
                let other = side.take(&step).await;
                assert_eq!(one, other, "KEEPLINE_SEED={seed}, step {number}: {step:?}, with {options}");
            }
        }
        // How many warnings pass is a matter of time.
        let lines = |side: &Side| {
            let is_warning = |line: &String| line.starts_with("Answer not stored") || line.starts_with("Replaced");
            side.node
                .log
                .of("plugin: keepline.session")
                .into_iter()
                .filter(|line| !is_warning(line))
                .collect::<Vec<_>>()
        };
        let state = memory.state().await;
        for side in &mut others {
            assert_eq!(state, side.state().await, "KEEPLINE_SEED={seed}, with {options}");
            assert_eq!(memory.node.counters(), side.node.counters(), "KEEPLINE_SEED={seed}");
            assert_eq!(lines(&memory), lines(side), "KEEPLINE_SEED={seed}");
        }
    }
}
