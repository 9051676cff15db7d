use super::*;
use crate::{
    Keepline, Options,
    maintenance::{Job, Step, session_buckets},
    plugin,
    sessions::MessageQuery,
    store::MemoryStore,
};

const ANNA: &str = r#"{"session_id":"anna"}"#;

async fn keepline(options: Options) -> Keepline {
    Keepline::new(plugin::for_tests(), Arc::new(MemoryStore::default()), options).await.unwrap()
}

/// What is staged for the turn of the question asked last: whether its question's text is, and what tools did.
fn staged(pipe: &mut Pipe) -> (Option<String>, Vec<ToolActivity>) {
    let Some(turn) = pipe.turns.last_turn() else { return (None, Vec::new()) };
    turn.edit(|content| (content.staged.question_text.clone(), content.staged.activity.clone()))
}

fn activity(output: &str) -> ToolActivity {
    ToolActivity { call_id: "1".into(), output: Some(output.into()), ..ToolActivity::default() }
}

#[tokio::test]
async fn an_answer_with_an_id_counts_once() {
    let keepline = keepline(Options::default()).await;
    let mut pipe = keepline.pipe();
    let question = Question { text: "?", metadata: ANNA, tokens: Some(1), ..Question::default() };
    assert_eq!(pipe.ask(question, None).await.unwrap().effect, Effect::Resumed);
    let answer = Answer { text: "!", message_id: Some("m1"), ..Answer::default() };
    assert_eq!(pipe.reply(answer, None).await.unwrap().effect, Effect::Stored);
    assert_eq!(pipe.reply(answer, Some(Deadline::NEVER)).await.unwrap().effect, Effect::Repeated);
    let counters = keepline.counters();
    assert_eq!((counters.stored, counters.repeated), (1, 1));
    assert_eq!(keepline.sessions().get("anna", "answer_count").await.unwrap().value(), Some("1"));
}

#[tokio::test]
async fn tool_activity_is_staged_with_the_answer_only_if_the_filter_wants_turns() {
    let keepline = keepline(Options { max_entry_bytes: 200, ..Options::default() }).await;
    let mut pipe = keepline.pipe();
    pipe.question("?", ANNA).await.unwrap();
    pipe.tool(activity("sunny"));
    assert_eq!(staged(&mut pipe), (None, vec![]));

    pipe.inner.pool.want_turns();
    pipe.question("?", ANNA).await.unwrap();
    pipe.tool(activity("sunny"));
    pipe.tool(activity(&"x".repeat(200)));
    assert_eq!(staged(&mut pipe), (Some("?".into()), vec![activity("sunny")]));
    // One that was not passed on leaves them to the next one.
    assert_eq!(pipe.answer(&"x".repeat(200), "{}").await.unwrap().effect, Effect::Limited);
    assert_eq!(staged(&mut pipe).1.len(), 1);
    let answer = Answer { text: "!", activity: &[activity("windy")], ..Answer::default() };
    assert_eq!(pipe.reply(answer, None).await.unwrap().effect, Effect::Stored);
    assert_eq!(staged(&mut pipe), (None, vec![]));
}

#[tokio::test]
async fn a_turn_that_was_exported_is_answered_by_another_process_with_its_question_and_tools() {
    let store: Arc<MemoryStore> = Arc::default();
    let open = async || {
        let options = Options { filter: r#"{"conversation":true}"#.into(), ..Options::default() };
        Keepline::new(plugin::for_tests(), store.clone(), options).await.unwrap()
    };
    let asking = open().await;
    let (mut pipe, mut turns) = (asking.pipe(), asking.open_turns());
    let turn = turns.question(ANNA, 1);
    let question = Question { text: "Rain?", metadata: ANNA, tokens: Some(7), ..Question::default() };
    pipe.ask_in(&turn, question, None).await.unwrap();
    let look = ToolActivity { name: "look".into(), arguments: Some("{}".into()), ..activity("sunny") };
    pipe.tool_in(&turn, look);
    let text = serde_json::to_string(&turn.export()).unwrap();
    drop((turn, turns, pipe, asking));

    let state: TurnState = serde_json::from_str(&text).unwrap();
    assert_eq!((state.session(), state.user()), (Some("anna"), None));
    let answering = open().await;
    let turn = Turn::from(state.clone());
    assert_eq!(turn.export(), state);
    let passed = answering.pipe().reply_in(&turn, Answer { text: "No.", ..Answer::default() }, None).await.unwrap();
    assert_eq!(passed.effect, Effect::Stored);
    assert_eq!(answering.sessions().get("anna", "last_answer").await.unwrap().value(), Some("\"No.\""));
    let page = answering.sessions().messages("anna".into(), MessageQuery::default()).await.unwrap();
    let texts: Vec<&str> = page.messages.iter().map(|message| &*message.content).collect();
    assert_eq!((texts.first(), texts.last()), (Some(&"Rain?"), Some(&"No.")));
    assert!(texts.contains(&"sunny"), "{texts:?}");
    // What was stored does not come twice.
    assert_ne!(turn.export(), state);
}

const BOB: &str = r#"{"session_id":"bob"}"#;

async fn conversations() -> Keepline {
    keepline(Options { filter: r#"{"conversation":true}"#.into(), ..Options::default() }).await
}

#[tokio::test]
async fn messages_of_one_session_never_reach_another() {
    let keepline = conversations().await;
    let mut pipe = keepline.pipe();
    pipe.question("a secret", ANNA).await.unwrap();
    assert!(pipe.tool_of(activity("sunny"), "{}") && pipe.tool_of(activity("sunny"), ANNA));
    assert!(pipe.tool_of(activity("rain"), BOB));
    assert_eq!(staged(&mut pipe).1, [activity("sunny")]);
    assert_eq!(pipe.answer("!", BOB).await.unwrap().effect, Effect::Stored);
    assert_eq!(staged(&mut pipe).1.len(), 1);
    assert_eq!(pipe.answer("!", "{}").await.unwrap().effect, Effect::Stored);
    assert!(staged(&mut pipe).1.is_empty());
    let bob = pipe.question("?", BOB).await.unwrap().metadata.unwrap();
    assert!(bob.contains("memory_messages") && !bob.contains("secret") && !bob.contains("sunny"), "{bob}");
    let anna = pipe.question("?", ANNA).await.unwrap().metadata.unwrap();
    assert!(anna.contains("a secret"), "{anna}");
    // Nor is what was asked without a session.
    pipe.question("a secret of nobody's", "{}").await.unwrap();
    assert_eq!(pipe.answer("of carl's", r#"{"session_id":"carl"}"#).await.unwrap().effect, Effect::Stored);
    let carl = pipe.question("?", r#"{"session_id":"carl"}"#).await.unwrap().metadata.unwrap();
    assert!(carl.contains("of carl's") && !carl.contains("secret"), "{carl}");
    // Without a question: what an answer's own process is told of.
    pipe.open();
    assert!(pipe.tool_of(activity("snow"), ANNA) && !pipe.tool_of(activity("hail"), "{}"));
}

/// The texts of the window that a question gets.
async fn window(keepline: &Keepline, metadata: &str) -> Vec<String> {
    let passed = keepline.pipe().question("?", metadata).await.unwrap();
    let Some(metadata) = passed.metadata else { return Vec::new() };
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    let messages = metadata["memory_messages"].as_array().cloned().unwrap_or_default();
    messages.iter().map(|message| message["content"].as_str().unwrap_or("call").to_owned()).collect()
}

#[tokio::test]
async fn an_answer_is_stored_in_the_turn_of_the_session_it_names() {
    let keepline = conversations().await;
    let mut pipe = keepline.pipe();
    let of = |user: &str| format!(r#"{{"session_id":"{user}s","user_id":"{user}"}}"#);
    let named = |user: &str| format!(r#"{{"session_id":"{user}s"}}"#);
    let call = || ToolActivity { arguments: Some("{}".into()), output: None, name: "look".into(), ..activity("") };
    for user in ["anna", "bob"] {
        pipe.question(&format!("I am {user}"), &of(user)).await.unwrap();
        assert!(pipe.tool_of(call(), &named(user)));
    }
    for user in ["bob", "anna"] {
        assert!(pipe.tool_of(activity(&format!("for {user}")), &named(user)));
    }
    for user in ["anna", "bob"] {
        assert_eq!(pipe.answer(&format!("Hello {user}"), &named(user)).await.unwrap().effect, Effect::Stored);
    }
    for user in ["anna", "bob"] {
        let expected = [&*format!("I am {user}"), "call", &format!("for {user}"), &format!("Hello {user}")];
        assert_eq!(window(&keepline, &of(user)).await, expected);
        // Nobody takes it over.
        let other = format!(r#"{{"session_id":"{user}s","user_id":"eve"}}"#);
        assert_eq!(pipe.question("?", &other).await.unwrap().effect, Effect::Foreign);
    }
}

#[tokio::test]
async fn nodes_of_a_session_have_separate_turns() {
    let keepline = conversations().await;
    let mut pipe = keepline.pipe();
    let node = |id: &str| format!(r#"{{"session_id":"anna","memory_mode":"node","node_id":"{id}"}}"#);
    for (question, metadata) in [("session?", ANNA), ("one?", &*node("1")), ("two?", &*node("2"))] {
        pipe.question(question, metadata).await.unwrap();
    }
    let label = r#"{"session_id":"anna","node_id":"1"}"#;
    for (answer, metadata) in [("one", label), ("session", ANNA), ("two", &node("2"))] {
        assert_eq!(pipe.answer(answer, metadata).await.unwrap().effect, Effect::Stored, "{answer}");
    }
    assert_eq!(window(&keepline, ANNA).await, ["session?", "session"]);
    assert_eq!(window(&keepline, &node("1")).await, ["one?", "one"]);
    assert_eq!(window(&keepline, &node("2")).await, ["two?", "two"]);
    // One that leaves out the node of the only turn that waits belongs to it, unless it says that it does not.
    pipe.question("and then?", &node("2")).await.unwrap();
    let conversation = r#"{"session_id":"anna","memory_mode":"conversation"}"#;
    for (answer, metadata) in [("not two", conversation), ("then", ANNA)] {
        assert_eq!(pipe.answer(answer, metadata).await.unwrap().effect, Effect::Stored, "{answer}");
    }
    assert_eq!(window(&keepline, &node("2")).await, ["two?", "two", "and then?", "then"]);
    // One of a node that was not asked has no question.
    assert_eq!(pipe.answer("three", &node("3")).await.unwrap().effect, Effect::Stored);
    assert_eq!(window(&keepline, &node("3")).await[1..], ["three"]);
}

#[tokio::test]
async fn an_answer_that_is_not_worth_storing_leaves_the_question_to_the_next_one() {
    let keepline = conversations().await;
    let mut pipe = keepline.pipe();
    pipe.question("Where?", ANNA).await.unwrap();
    assert_eq!(pipe.answer(" ", "{}").await.unwrap().effect, Effect::Skipped);
    assert_eq!(pipe.answer("Here.", "{}").await.unwrap().effect, Effect::Stored);
    assert_eq!(window(&keepline, ANNA).await, ["Where?", "Here."]);
}

/// The question did not reach the filter, which would have told its answers whose they are.
#[tokio::test]
async fn a_question_that_is_too_large_keeps_its_owner() {
    let filter = r#"{"conversation":true}"#.into();
    let keepline = keepline(Options { filter, max_entry_bytes: 1000, ..Options::default() }).await;
    let mut pipe = keepline.pipe();
    let of = |user: &str| format!(r#"{{"session_id":"s","user_id":"{user}"}}"#);
    let large = "x".repeat(1000);
    assert_eq!(pipe.question(&large, &of("anna")).await.unwrap().effect, Effect::Limited);
    assert_eq!(pipe.answer("a secret", r#"{ "session_id":"s" }"#).await.unwrap().effect, Effect::Stored);
    assert_eq!(pipe.question("?", &of("eve")).await.unwrap().effect, Effect::Foreign);
    assert_eq!(window(&keepline, &of("anna")).await[1..], ["a secret"]);
    // Of a node, it is stored where it belongs.
    let node = r#"{"session_id":"t","user_id":"anna","memory_mode":"node","app_id":"a","node_id":"n"}"#;
    assert_eq!(pipe.question(&large, node).await.unwrap().effect, Effect::Limited);
    assert_eq!(pipe.answer("of the node", r#"{"session_id":"t"}"#).await.unwrap().effect, Effect::Stored);
    assert_eq!(window(&keepline, node).await[1..], ["of the node"]);
}

#[tokio::test]
async fn a_conversation_that_was_ended_keeps_its_owner() {
    let keepline = conversations().await;
    let mut pipe = keepline.pipe();
    let of = |user: &str| format!(r#"{{"session_id":"{user}s","user_id":"{user}"}}"#);
    for end in ["{}", r#"{"session_id":"annas"}"#] {
        pipe.question("Where?", &of("anna")).await.unwrap();
        pipe.open_of(end);
        assert_eq!(pipe.answer("a secret", r#"{"session_id":"annas"}"#).await.unwrap().effect, Effect::Stored);
        let eves = r#"{"session_id":"annas","user_id":"eve"}"#;
        assert_eq!(pipe.question("?", eves).await.unwrap().effect, Effect::Foreign);
        // What follows has nothing to do with the question before.
        assert_eq!(window(&keepline, &of("anna")).await[1], "a secret");
        assert_eq!(pipe.answer("of nobody's", "{}").await.unwrap().effect, Effect::Foreign);
    }
    // Only what is named ends.
    pipe.question("anna's?", &of("anna")).await.unwrap();
    pipe.question("bob's?", &of("bob")).await.unwrap();
    pipe.open_of(r#"{"session_id":"annas"}"#);
    assert_eq!(pipe.answer("bob's", "{}").await.unwrap().effect, Effect::Stored);
    assert_eq!(window(&keepline, &of("bob")).await, ["bob's?", "bob's"]);
}

#[tokio::test]
async fn a_result_that_names_its_tool_implies_a_call_that_was_not_reported() {
    let filter = r#"{"conversation":true}"#.into();
    let keepline = keepline(Options { filter, ..Options::default() }).await;
    let mut pipe = keepline.pipe();
    let named = |output: &str| ToolActivity { name: "now".into(), ..activity(output) };
    let call = || ToolActivity { arguments: Some("[7]".into()), output: None, ..named("") };
    let staged =
        |pipe: &mut Pipe| -> Vec<_> { staged(pipe).1.into_iter().map(|tool| (tool.arguments, tool.output)).collect() };
    let (none, text) = (Some("{}".to_owned()), |text: &str| Some(text.to_owned()));

    pipe.question("?", ANNA).await.unwrap();
    for _ in 0..2 {
        pipe.tool(named("12:00"));
    }
    assert_eq!(staged(&mut pipe), [(none.clone(), text("12:00"))]);
    // One without a name, and one whose call has come.
    pipe.question("?", ANNA).await.unwrap();
    pipe.tool(activity("12:00"));
    pipe.tool(ToolActivity { call_id: "2".into(), ..call() });
    pipe.tool(ToolActivity { call_id: "2".into(), ..named("12:30") });
    assert_eq!(staged(&mut pipe), [(None, text("12:00")), (text("[7]"), None), (None, text("12:30"))]);

    // A later step, and a question that goes on with its turn, have the result of an earlier call.
    let asked = r#"{"session_id":"anna","message_id":"m1"}"#;
    for _ in 0..2 {
        pipe.question("When?", asked).await.unwrap();
        pipe.tool(named("13:00"));
        assert_eq!(staged(&mut pipe), [(none.clone(), text("13:00"))], "the turn is not open");
    }
    pipe.question("When?", asked).await.unwrap();
    pipe.tool(call());
    assert_eq!(pipe.answer("", "{}").await.unwrap().effect, Effect::Stored);
    pipe.tool(named("14:00"));
    assert_eq!(staged(&mut pipe), [(None, text("14:00"))]);
    for metadata in [asked, r#"{"session_id":"anna","message_id":"m1","memory":{"window":false}}"#] {
        pipe.question("When?", metadata).await.unwrap();
        pipe.tool(named("14:00"));
        assert_eq!(staged(&mut pipe), [(None, text("14:00"))], "{metadata}");
    }
    assert_eq!(pipe.answer("At two.", "{}").await.unwrap().effect, Effect::Stored);
    let seen = pipe.question("And then?", ANNA).await.unwrap().metadata.unwrap();
    assert!(seen.contains(r#""arguments":"[7]""#) && seen.contains("14:00") && seen.contains("At two."), "{seen}");
    pipe.question("When?", asked).await.unwrap();
    pipe.tool(named("15:00"));
    assert_eq!(staged(&mut pipe), [(none, text("15:00"))], "it is no longer open");
}

#[derive(Debug)]
struct Words;

impl crate::TokenCounter for Words {
    fn count(&self, text: &str) -> u32 {
        u32::try_from(text.split_whitespace().count()).unwrap()
    }
}

#[tokio::test]
async fn tokens_are_counted_by_the_counter_unless_given_with_the_entry() {
    let (filter, token_counter) = (r#"{"conversation":true}"#.into(), Some(Arc::new(Words) as _));
    let keepline = keepline(Options { filter, token_counter, ..Options::default() }).await;
    let mut pipe = keepline.pipe();
    pipe.question("one two three", ANNA).await.unwrap();
    pipe.answer("four five", "{}").await.unwrap();
    pipe.ask(Question { text: "six", metadata: ANNA, tokens: Some(60), ..Question::default() }, None).await.unwrap();
    pipe.reply(Answer { text: "seven", tokens: Some(70), ..Answer::default() }, None).await.unwrap();
    let told = Answer { text: "a b", metadata: ANNA, question_text: Some("c d e f"), ..Answer::default() };
    keepline.pipe().reply(told, None).await.unwrap();
    let query = crate::sessions::MessageQuery::default();
    let page = keepline.sessions().messages("anna".into(), query).await.unwrap();
    let tokens: Vec<u32> = page.messages.iter().map(|message| message.tokens.unwrap()).collect();
    assert_eq!(tokens, [3, 2, 60, 70, 4, 2]);
}

#[derive(Debug)]
struct Shelf;

#[async_trait::async_trait]
impl crate::FileResolver for Shelf {
    async fn resolve(&self, file: &serde_json::Value) -> Result<crate::ResolvedFile, String> {
        match file["id"].as_str() {
            Some("slow") => std::future::pending().await,
            Some("lost") | None => Err("nobody has it".into()),
            Some(id) => {
                let url = format!("https://files.example/{id}");
                Ok(crate::ResolvedFile { url, mime_type: "image/png".into(), size: Some(7) })
            }
        }
    }
}

#[tokio::test]
async fn resolved_files_get_their_location_and_unknown_files_are_left_out() {
    let (filter, file_resolver) = (r#"{"conversation":true}"#.into(), Some(Arc::new(Shelf) as _));
    let keepline = keepline(Options { filter, file_resolver, ..Options::default() }).await;
    let mut pipe = keepline.pipe();
    let asked = r#"{"session_id":"anna","n":1.50,"files":[{"id":"cat","type":"image"},{"id":"lost"}]}"#;
    pipe.question("what is it?", asked).await.unwrap();
    pipe.answer("a cat", "{}").await.unwrap();
    let told = pipe.question("really?", asked).await.unwrap().metadata.unwrap();
    assert!(told.contains(r#""n":1.50"#), "{told}");
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let cat = serde_json::json!({
        "id": "cat", "type": "image", "url": "https://files.example/cat", "mime_type": "image/png", "size": 7,
    });
    let parts = serde_json::json!([{"type": "file", "file": cat}, {"type": "text", "text": "what is it?"}]);
    assert_eq!(told["memory_messages"][0]["content"], parts);
    assert_eq!(told["memory_messages"][1]["content"], "a cat");

    // In time, or as they were.
    pipe.question("and this?", r#"{"session_id":"bob","files":[{"id":"slow"}]}"#).await.unwrap();
    pipe.answer("a dog", "{}").await.unwrap();
    let question = Question { text: "?", metadata: r#"{"session_id":"bob"}"#, ..Question::default() };
    let passed = pipe.ask(question, Some(Deadline::after(std::time::Duration::from_secs(2)))).await.unwrap();
    let told = passed.metadata.unwrap();
    assert!(told.contains(r#"{"type":"file","file":{"id":"slow"}}"#), "{told}");
}

#[tokio::test]
async fn a_task_of_unknown_name_fails() {
    let keepline = keepline(Options::default()).await;
    let task = Task { buckets: session_buckets("anna", None), name: "dance".into(), state: String::new() };
    let job = Job { task: task.clone(), holder: "h".into(), lease_milliseconds: 1000, results: Vec::new() };
    let progress = keepline.advance(&job, None).await;
    assert_eq!((progress.step, progress.task), (Step::Failed, task.clone()));
    assert_eq!(progress.problem.unwrap().code, ProblemCode::Store(FailureCode::Unsupported));

    keepline.shutdown(std::time::Duration::ZERO).await;
    let progress = keepline.advance(&job, None).await;
    assert_eq!((progress.step, progress.task), (Step::Failed, task));
    assert_eq!(progress.problem.unwrap().code, ProblemCode::Closed);
}
