use super::*;
use crate::{
    Keepline, Options, Plugin, Sandbox,
    maintenance::{Job, Step},
    store::MemoryStore,
};

const ANNA: &str = r#"{"session_id":"anna"}"#;

async fn keepline(options: Options) -> Keepline {
    let plugin = Plugin::bundled(&Sandbox::default()).unwrap();
    Keepline::new(plugin, Arc::new(MemoryStore::default()), options).await.unwrap()
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
    assert_eq!(keepline.sessions().get("anna", "answer_count").await.unwrap().value.as_deref(), Some("1"));
}

#[tokio::test]
async fn what_tools_do_goes_with_the_answer_only_if_it_is_wanted() {
    let keepline = keepline(Options { max_entry_bytes: 200, ..Options::default() }).await;
    let mut pipe = keepline.pipe();
    pipe.question("?", ANNA).await.unwrap();
    pipe.tool(activity("sunny"));
    assert!(pipe.staged.question_text.is_none() && pipe.staged.activity.is_empty());

    pipe.shared.pool.want_turns();
    pipe.question("?", ANNA).await.unwrap();
    pipe.tool(activity("sunny"));
    pipe.tool(activity(&"x".repeat(200)));
    assert_eq!(pipe.staged.question_text.as_deref(), Some("?"));
    assert_eq!(pipe.staged.activity, [activity("sunny")]);
    // One that was not passed on leaves them to the next one.
    assert_eq!(pipe.answer(&"x".repeat(200), "{}").await.unwrap().effect, Effect::Limited);
    assert_eq!(pipe.staged.activity.len(), 1);
    let answer = Answer { text: "!", activity: &[activity("windy")], ..Answer::default() };
    assert_eq!(pipe.reply(answer, None).await.unwrap().effect, Effect::Stored);
    assert!(pipe.staged.question_text.is_none() && pipe.staged.activity.is_empty());
}

#[tokio::test]
async fn what_was_said_in_a_session_is_no_part_of_another() {
    let filter = r#"{"conversation":true}"#.into();
    let keepline = keepline(Options { filter, ..Options::default() }).await;
    let mut pipe = keepline.pipe();
    pipe.question("a secret", ANNA).await.unwrap();
    assert!(pipe.tool_of(activity("sunny"), "{}") && pipe.tool_of(activity("sunny"), ANNA));
    assert!(!pipe.tool_of(activity("rain"), r#"{"session_id":"bob"}"#));
    assert_eq!(pipe.staged.activity, [activity("sunny")]);
    assert_eq!(pipe.answer("!", r#"{"session_id":"bob"}"#).await.unwrap().effect, Effect::Stored);
    assert_eq!(pipe.staged.activity.len(), 1);
    assert_eq!(pipe.answer("!", "{}").await.unwrap().effect, Effect::Stored);
    assert!(pipe.staged.activity.is_empty());
    let bob = pipe.question("?", r#"{"session_id":"bob"}"#).await.unwrap().metadata.unwrap();
    assert!(bob.contains("memory_messages") && !bob.contains("secret") && !bob.contains("sunny"), "{bob}");
    let anna = pipe.question("?", ANNA).await.unwrap().metadata.unwrap();
    assert!(anna.contains("a secret"), "{anna}");
    // Without a question: what an answer's own process is told of.
    pipe.open();
    assert!(pipe.tool_of(activity("snow"), ANNA) && !pipe.tool_of(activity("hail"), r#"{"session_id":"bob"}"#));
}

#[tokio::test]
async fn a_result_that_names_its_tool_is_a_call_too_if_nobody_told_of_one() {
    let filter = r#"{"conversation":true}"#.into();
    let keepline = keepline(Options { filter, ..Options::default() }).await;
    let mut pipe = keepline.pipe();
    let named = |output: &str| ToolActivity { name: "now".into(), ..activity(output) };
    let call = || ToolActivity { arguments: Some("[7]".into()), output: None, ..named("") };
    let staged = |pipe: &Pipe| -> Vec<_> {
        pipe.staged.activity.iter().map(|tool| (tool.arguments.clone(), tool.output.clone())).collect()
    };
    let (none, text) = (Some("{}".to_owned()), |text: &str| Some(text.to_owned()));

    pipe.question("?", ANNA).await.unwrap();
    for _ in 0..2 {
        pipe.tool(named("12:00"));
    }
    assert_eq!(staged(&pipe), [(none.clone(), text("12:00"))]);
    // One without a name, and one whose call has come.
    pipe.question("?", ANNA).await.unwrap();
    pipe.tool(activity("12:00"));
    pipe.tool(ToolActivity { call_id: "2".into(), ..call() });
    pipe.tool(ToolActivity { call_id: "2".into(), ..named("12:30") });
    assert_eq!(staged(&pipe), [(None, text("12:00")), (text("[7]"), None), (None, text("12:30"))]);

    // A later step, and a question that goes on with its turn, have the result of an earlier call.
    let asked = r#"{"session_id":"anna","message_id":"m1"}"#;
    for _ in 0..2 {
        pipe.question("When?", asked).await.unwrap();
        pipe.tool(named("13:00"));
        assert_eq!(staged(&pipe), [(none.clone(), text("13:00"))], "the turn is not open");
    }
    pipe.question("When?", asked).await.unwrap();
    pipe.tool(call());
    assert_eq!(pipe.answer("", "{}").await.unwrap().effect, Effect::Stored);
    pipe.tool(named("14:00"));
    assert_eq!(staged(&pipe), [(None, text("14:00"))]);
    for metadata in [asked, r#"{"session_id":"anna","message_id":"m1","memory":{"window":false}}"#] {
        pipe.question("When?", metadata).await.unwrap();
        pipe.tool(named("14:00"));
        assert_eq!(staged(&pipe), [(None, text("14:00"))], "{metadata}");
    }
    assert_eq!(pipe.answer("At two.", "{}").await.unwrap().effect, Effect::Stored);
    let seen = pipe.question("And then?", ANNA).await.unwrap().metadata.unwrap();
    assert!(seen.contains(r#""arguments":"[7]""#) && seen.contains("14:00") && seen.contains("At two."), "{seen}");
    pipe.question("When?", asked).await.unwrap();
    pipe.tool(named("15:00"));
    assert_eq!(staged(&pipe), [(none, text("15:00"))], "it is no longer open");
}

#[derive(Debug)]
struct Words;

impl crate::TokenCounter for Words {
    fn count(&self, text: &str) -> u32 {
        u32::try_from(text.split_whitespace().count()).unwrap()
    }
}

#[tokio::test]
async fn tokens_are_counted_by_whoever_counts_them_and_those_that_come_along_are_kept() {
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
    let tokens = page
        .messages
        .iter()
        .map(|message| serde_json::from_str::<serde_json::Value>(&message.text).unwrap()["tokens"].as_u64().unwrap());
    assert_eq!(tokens.collect::<Vec<_>>(), [3, 2, 60, 70, 4, 2]);
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
async fn files_come_back_with_where_they_are_and_those_that_nobody_knows_do_not() {
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
async fn a_task_that_nobody_knows_fails() {
    let keepline = keepline(Options::default()).await;
    let task = Task { subject: "session/anna".into(), name: "dance".into(), state: String::new() };
    let job = Job { task: task.clone(), holder: "h".into(), lease_milliseconds: 1000, results: Vec::new() };
    let progress = keepline.advance(&job, None).await;
    assert_eq!((progress.step, progress.task), (Step::Failed, task.clone()));
    assert_eq!(progress.problem.unwrap().code, ProblemCode::Store(FailureCode::Unsupported));

    keepline.shutdown(std::time::Duration::ZERO).await;
    let progress = keepline.advance(&job, None).await;
    assert_eq!((progress.step, progress.task), (Step::Failed, task));
    assert_eq!(progress.problem.unwrap().code, ProblemCode::Closed);
}
