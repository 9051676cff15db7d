use super::*;
use crate::{Keepline, Options, logging::Log, plugin, store::MemoryStore};

#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Log for Told {
    fn enabled(&self, level: LogLevel) -> bool {
        level == LogLevel::Warn
    }

    fn log(&self, _: LogLevel, _: &str, message: &str) {
        self.0.lock().push(message.to_owned());
    }
}

struct Stream {
    turns: OpenTurns,
    told: Arc<Told>,
}

impl Stream {
    async fn new(limits: Option<TurnLimits>) -> Self {
        let told = Arc::new(Told::default());
        let filter = r#"{"conversation":true}"#.into();
        let options = Options { filter, max_entry_bytes: 1000, log: told.clone(), ..Options::default() };
        let plugin = plugin::for_tests();
        let keepline = Keepline::new(plugin, Arc::new(MemoryStore::default()), options).await.unwrap();
        let mut turns = keepline.open_turns();
        turns.limits = limits.unwrap_or(turns.limits);
        Self { turns, told }
    }

    fn ask(&mut self, session: &str) -> Turn {
        self.turns.question(&of(session), 10)
    }

    /// The session that activity goes to; none: it is left out.
    fn tool(&mut self, activity: &ToolActivity, metadata: &str) -> Option<String> {
        self.turns.tool(activity, metadata).map(|turn| session(&turn))
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.0.lock())
    }

    /// What it counts is what there is.
    fn check(&self) {
        let all: Vec<&OpenTurn> = self.turns.sessions.values().flatten().collect();
        assert_eq!(all.len(), self.turns.count);
        assert_eq!(all.iter().map(|open| open.bytes()).sum::<usize>(), self.turns.bytes);
        assert_eq!(all.iter().filter(|open| open.stage == TurnStage::Asked).count(), self.turns.asked);
        assert!(self.turns.sessions.values().all(|turns| !turns.is_empty()));
        assert!(!self.turns.is_over_limits() || self.turns.count == 1);
    }
}

fn of(session: &str) -> String {
    format!(r#"{{"session_id":"{session}"}}"#)
}

fn session(turn: &Turn) -> String {
    turn.owner().session.as_deref().unwrap_or_default().to_owned()
}

fn call(id: &str) -> ToolActivity {
    ToolActivity { call_id: id.into(), name: "look".into(), arguments: Some("{}".into()), ..ToolActivity::default() }
}

fn result(id: &str) -> ToolActivity {
    ToolActivity { call_id: id.into(), output: Some("x".into()), ..ToolActivity::default() }
}

#[tokio::test]
async fn a_result_without_a_session_goes_to_the_only_open_turn_that_has_its_call() {
    let mut stream = Stream::new(None).await;
    stream.ask("a");
    assert_eq!(stream.tool(&call("x"), "{}").as_deref(), Some("a"));
    stream.ask("b");
    assert_eq!(stream.tool(&call("y"), "{}").as_deref(), Some("b"));
    for (id, session) in [("x", Some("a")), ("y", Some("b")), ("x", Some("a"))] {
        assert_eq!(stream.tool(&result(id), "{}").as_deref(), session, "{id}");
    }
    // One that names its tool is a call, too.
    assert_eq!(stream.tool(&ToolActivity { name: "now".into(), ..result("z") }, "{}").as_deref(), Some("b"));
    assert!(stream.told().is_empty());
    // None has it, or two have.
    assert_eq!(stream.tool(&result("unknown"), "{}"), None);
    assert_eq!(stream.tool(&call("x"), "{}").as_deref(), Some("b"));
    assert_eq!(stream.tool(&result("x"), "{}"), None);
    assert_eq!(stream.tool(&result("x"), &of("a")).as_deref(), Some("a"));
    let told = stream.told();
    assert!(told[0].contains("no open turn has a call") && told[1].contains("several open turns"), "{told:?}");
    assert_eq!(told.len(), 2);
    // An answer ends those that have their result.
    stream.turns.answer(&of("a"));
    assert_eq!(stream.tool(&result("x"), "{}").as_deref(), Some("b"));
    stream.check();
}

#[tokio::test]
async fn a_tool_call_still_open_at_the_answer_waits_for_its_result() {
    let mut stream = Stream::new(None).await;
    stream.ask("a");
    stream.tool(&call("x"), "{}");
    stream.turns.answer("{}");
    stream.ask("b");
    assert_eq!(stream.tool(&result("x"), "{}").as_deref(), Some("a"));
    stream.turns.answer(&of("a"));
    // It has come; what comes again belongs to no turn that is known.
    assert_eq!(stream.tool(&result("x"), "{}").as_deref(), Some("b"));
    stream.check();
}

#[tokio::test]
async fn after_an_unreadable_entry_only_a_session_id_leads_to_a_turn() {
    let mut stream = Stream::new(None).await;
    let asked = stream.ask("a");
    stream.tool(&call("x"), "{}");
    stream.turns.end_last();
    assert_eq!(session(&stream.turns.answer("{}")), "");
    assert_eq!(stream.tool(&result("x"), "{}"), None);
    assert_eq!(stream.tool(&result("x"), &of("a")).as_deref(), Some("a"));
    assert!(Arc::ptr_eq(&stream.turns.answer(&of("a")).0, &asked.0));
    for unusable in [r#"{"session_id":7}"#, r#"{"session_id":["a"]}"#] {
        stream.ask("a");
        assert_eq!(session(&stream.turns.answer(unusable)), "");
        assert_eq!(stream.tool(&call("x"), unusable), None);
        stream.turns.open(unusable);
        assert_eq!(session(&stream.turns.answer("{}")), "");
    }
    stream.check();
}

#[tokio::test]
async fn an_answer_without_a_session_is_reported_once_while_turns_of_other_users_are_open() {
    let mut stream = Stream::new(None).await;
    let of_user = |session: &str, user: &str| format!(r#"{{"session_id":"{session}","user_id":"{user}"}}"#);
    stream.turns.question(&of_user("a", "anna"), 1);
    stream.turns.question(&of_user("b", "anna"), 1);
    assert_eq!(session(&stream.turns.answer("{}")), "b");
    assert!(stream.told().is_empty(), "they are one user's");
    stream.turns.question(&of_user("c", "carl"), 1);
    for _ in 0..2 {
        assert_eq!(session(&stream.turns.answer("{}")), "c");
    }
    let told = stream.told();
    assert!(told.len() == 1 && told[0].contains("session 'c'") && told[0].contains("session_id"), "{told:?}");
}

#[tokio::test]
async fn two_users_of_a_session_have_separate_turns() {
    let mut stream = Stream::new(None).await;
    let of_user = |user: &str| format!(r#"{{"session_id":"a","user_id":"{user}"}}"#);
    let asked = stream.turns.question(&of_user("anna"), 1);
    let eves = stream.turns.question(&of_user("eve"), 1);
    assert!(Arc::ptr_eq(&stream.turns.answer(&of_user("anna")).0, &asked.0));
    assert!(Arc::ptr_eq(&stream.turns.answer(&of("a")).0, &eves.0));
    assert_eq!(session(&stream.turns.answer(&of_user("bob"))), "a");
    stream.check();
}

#[tokio::test]
async fn the_oldest_turns_are_dropped_first_and_waiting_ones_reported() {
    let mut stream = Stream::new(Some(TurnLimits { turns: 4, bytes: 1 << 20 })).await;
    let asked: Vec<Turn> = (0..4).map(|number| stream.ask(&format!("s{number}"))).collect();
    stream.turns.answer(&of("s3"));
    stream.ask("s4");
    assert!(stream.told().is_empty(), "an answered turn is dropped first");
    stream.ask("s5");
    let told = stream.told();
    assert!(told.len() == 1 && told[0].contains("session 's0'") && told[0].contains("4 turns"), "{told:?}");
    for (number, is_there) in [(0, false), (1, true), (2, true), (3, false)] {
        let found = stream.turns.answer(&of(&format!("s{number}")));
        assert_eq!(Arc::ptr_eq(&found.0, &asked[number].0), is_there, "{number}");
    }
    stream.check();
}

#[tokio::test]
async fn turns_are_bounded_in_bytes_and_the_latest_one_is_kept() {
    let mut stream = Stream::new(Some(TurnLimits { turns: 100, bytes: 100 })).await;
    for number in 0..20 {
        stream.ask(&format!("s{number}"));
        stream.check();
    }
    assert_eq!((stream.turns.count, stream.told().len()), (10, 3), "the log admits three at a time");
    let large = stream.turns.question(&of("large"), 900);
    assert_eq!(stream.turns.count, 1);
    assert!(Arc::ptr_eq(&stream.turns.answer(&of("large")).0, &large.0));
    // So much of tools, too, but no more of one turn than is kept.
    let mut stream = Stream::new(Some(TurnLimits { turns: 100, bytes: 2500 })).await;
    stream.ask("a");
    stream.ask("b");
    let long = |id: usize| ToolActivity { output: Some("x".repeat(300)), ..call(&id.to_string()) };
    for id in 0..50 {
        stream.tool(&long(id), &of("a"));
        stream.tool(&long(id), &of("b"));
    }
    assert_eq!(stream.turns.count, 2);
    stream.ask("c");
    for id in 0..50 {
        stream.tool(&long(id), &of("c"));
    }
    assert_eq!(stream.turns.count, 2);
    stream.check();
}

#[tokio::test]
async fn content_of_unstored_answers_counts_towards_the_limit_until_stored() {
    let mut stream = Stream::new(Some(TurnLimits { turns: 100, bytes: 100 })).await;
    let stage = |turn: &Turn| turn.edit(|content| content.staged.question_text = Some("x".repeat(10)));
    for number in 0..30 {
        let turn = stream.ask(&format!("s{number}"));
        stage(&turn);
        // As when the store is away.
        drop(stream.turns.answer(&of(&format!("s{number}"))).take_content());
    }
    assert!(stream.turns.count <= 10, "{}", stream.turns.count);
    let turn = stream.turns.answer("{}");
    turn.take_content().clear_staged(true);
    drop(turn);
    stream.turns.open("{}");
    assert_eq!(stream.turns.unstored.load(Ordering::Relaxed), 0);
    stream.check();
}

#[tokio::test]
async fn a_session_whose_owner_was_dropped_with_its_turn_gets_no_answer_without_a_user() {
    let mut stream = Stream::new(Some(TurnLimits { turns: 2, bytes: 1 << 20 })).await;
    let of_user = |session: &str| format!(r#"{{"session_id":"{session}","user_id":"anna"}}"#);
    for session in ["a", "b"] {
        stream.turns.question(&of_user(session), 1);
    }
    assert!(!stream.turns.answer(&of("unknown")).is_refused());
    stream.turns.question(&of_user("c"), 1);
    assert!(stream.turns.answer(&of("a")).is_refused() && !stream.turns.answer(&of_user("a")).is_refused());
    assert!(!stream.turns.answer(&of("b")).is_refused() && !stream.turns.answer("{}").is_refused());
    stream.check();
}

#[tokio::test]
async fn random_traffic_keeps_the_counts_right_and_the_sessions_apart() {
    let mut stream = Stream::new(Some(TurnLimits { turns: 12, bytes: 2000 })).await;
    let mut random = fastrand::Rng::with_seed(7);
    for step in 0..20_000 {
        let session = format!("s{}", random.u32(..16));
        let metadata = match random.u32(..6) {
            0 => "{}".to_owned(),
            1 => format!(r#"{{"session_id":"{session}","memory_mode":"node","node_id":"n{}"}}"#, random.u32(..3)),
            2 => format!(r#"{{"session_id":"{session}","user_id":"u{}"}}"#, random.u32(..3)),
            3 => format!(r#"{{"session_id":"{session}","node_id":"n1"}}"#),
            _ => of(&session),
        };
        let id = random.u32(..6).to_string();
        let found = match random.u32(..20) {
            0..6 => Some(stream.turns.question(&metadata, random.usize(..200))),
            6..10 => Some(stream.turns.answer(&metadata)),
            10..14 => stream.turns.tool(&call(&id), &metadata),
            14..18 => stream.turns.tool(&result(&id), &metadata),
            18 if random.u32(..20) == 0 => {
                stream.turns.open(&metadata);
                None
            }
            _ => {
                stream.turns.end_last();
                None
            }
        };
        if let Some(turn) = found.filter(|_| metadata != "{}") {
            assert_eq!(self::session(&turn), session, "step {step}");
        }
        if random.u32(..3) == 0
            && let Some(turn) = stream.turns.last_turn()
        {
            turn.edit(|content| content.staged.question_text = Some("x".repeat(20)));
            drop(turn.take_content());
        }
        stream.check();
    }
}
