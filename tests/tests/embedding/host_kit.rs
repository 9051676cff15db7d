//! The host kit of `conformance/host/`, replayed on the library: its README tells what steps and expectations mean. An
//! embedder learns problems from what a call returns, and ids that can't be sessions' from the log.

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use keepline::{
    Keepline, Options, Passed, Pipe, Plugin, SessionError, Sessions,
    embedding::{Embedder, Embedding, EmbeddingError},
    maintenance::{CompletionNeed, Maintenance, MaintenanceOptions, Model, ModelError, Outcome, Purpose},
    pipe::{Answer, AnswerStatus, Effect, EntryError, ProblemCode, Question, Task, ToolActivity},
    plugin::BUNDLED,
    sessions::{
        ChatMessage, HistoryRecord, LineQuery, Message, MessageQuery, NamedValue, NewMessage, SessionErrorCode,
        SessionSummary, Transcript, TranscriptSettings, ValueList,
    },
    store::{Deadline, Failure, FailureCode, MemoryStore, Store},
};
use keepline_tests::{
    guests::CoreGuest,
    host_kit,
    intercept::{Intercept, Intercepted},
    ladder::{self, Rung},
    lanes::{KeptLog, plugin},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{PATIENCE, replacement::loaded};

/// The turns of a pipe.
const MAX_TURNS: usize = 10_000;
/// In what a store panics with, and in nothing that the host says.
const SECRET: &str = "secret of the store";
/// What an entry has whose store gets stuck.
const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn the_library_keeps_what_the_host_kit_asks() {
    assert_kit_passes(&plugin()).await;
}

#[tokio::test]
async fn the_host_kit_passes_with_published_filters_and_one_of_the_next_version() {
    let next = Rung::of_next_version(BUNDLED, BUNDLED);
    for Rung { version, filter, .. } in ladder::published().into_iter().chain([next]) {
        println!("filter of {version}");
        assert_kit_passes(&loaded(&filter)).await;
    }
}

pub(super) async fn assert_kit_passes(plugin: &Plugin) {
    let (mut passed, mut failed) = (0, Vec::new());
    for (file, case) in host_kit::cases() {
        // Nothing stands between this host and a component; what unknown names mean is tested with a component that has
        // them, in `sandbox/`.
        if case["needs"].as_array().is_some_and(|needs| needs.contains(&json!("inspection"))) {
            continue;
        }
        match replay(plugin, &case).await {
            Ok(()) => passed += 1,
            Err(why) => failed.push(format!("{file}, {}: {why}\nduty: {}", case["name"], case["duty"])),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    assert!(passed > 80, "{passed}");
}

async fn replay(plugin: &Plugin, case: &Value) -> Result<(), String> {
    let (mut host, mut names) = (Host::new(plugin, case).await, HashMap::new());
    for (number, step) in host_kit::steps(case).iter().enumerate() {
        let came = host.take(step).await;
        host_kit::check(step, &came, &mut names)
            .map_err(|why| format!("step {}: {why}\nstep: {step}\ncame: {came}", number + 1))?;
    }
    Ok(())
}

/// The fault of a step, for each transaction.
#[derive(Debug, Default)]
struct Faults(Mutex<Option<String>>);

#[async_trait]
impl Intercept for Faults {
    async fn before(&self) -> Result<(), Failure> {
        let fault = self.0.lock().clone();
        match fault.as_deref() {
            Some("stuck") => std::future::pending().await,
            Some("exception") => panic!("{SECRET}"),
            Some(code) => {
                let code = FailureCode::named(code).unwrap_or_else(|| panic!("there is no fault {code}"));
                Err(Failure { code, subject: String::new(), limit: 0, message: "the kit has it fail".into() })
            }
            None => Ok(()),
        }
    }
}

/// Says what a case has it say, and keeps what it was asked.
#[derive(Default)]
struct ScriptedModel {
    script: Mutex<Value>,
    asked: Mutex<Vec<Value>>,
}

#[async_trait]
impl Model for ScriptedModel {
    async fn complete(&self, need: &CompletionNeed) -> Result<Option<String>, ModelError> {
        let purpose = Purpose::of(need).name();
        self.asked.lock().push(json!({
            "purpose": purpose, "instructions": need.instructions, "input": need.input, "max-tokens": need.max_tokens,
        }));
        match &self.script.lock()[purpose] {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone())),
            _ => Err(ModelError("the kit has it fail".into())),
        }
    }
}

#[async_trait]
impl Embedder for ScriptedModel {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbeddingError> {
        self.asked.lock().push(json!({ "purpose": "vectors", "texts": texts }));
        let script = self.script.lock();
        let pairs = script["vectors"].as_array().unwrap();
        let embedding = |text: &String| {
            let pair = pairs.iter().find(|pair| text.contains(pair[0].as_str().unwrap())).unwrap();
            let values: Vec<f32> = serde_json::from_value(pair[1].clone()).unwrap();
            Embedding { model: "kit".into(), values }
        };
        Ok(texts.iter().map(embedding).collect())
    }
}

/// The library, as the kit has a host.
struct Host {
    plugin: Plugin,
    options: String,
    has_embedder: bool,
    store: Arc<Intercepted<Faults>>,
    model: Arc<ScriptedModel>,
    log: Arc<KeptLog>,
    keepline: Keepline,
    pipe: Pipe,
    due: Vec<Task>,
    reported: Vec<String>,
}

impl Host {
    async fn new(plugin: &Plugin, case: &Value) -> Self {
        let store = Arc::new(Intercepted::new(Arc::new(MemoryStore::default()), Faults::default()));
        let (options, model) = (case["options"].to_string(), Arc::new(ScriptedModel::default()));
        *model.script.lock() = case.get("model").cloned().unwrap_or_else(|| json!({}));
        let has_embedder = case["model"].get("vectors").is_some();
        let log = Arc::new(KeptLog::default());
        let keepline = started(plugin, &options, &store, &log, has_embedder.then_some(&model)).await;
        let plugin = plugin.clone();
        let pipe = keepline.pipe();
        Self { plugin, options, has_embedder, store, model, log, keepline, pipe, due: Vec::new(), reported: Vec::new() }
    }

    /// What came of a step, and what was reported.
    async fn take(&mut self, step: &Value) -> Value {
        self.log.take();
        let fault = step.get("fault").and_then(Value::as_str);
        if fault == Some("trap") {
            let length = step.get("text").map_or("session/s".len(), |text| text.as_str().unwrap().len());
            self.keepline.replace_plugin(loaded(&trapping(length))).await.unwrap();
        } else {
            *self.store.0.lock() = fault.map(str::to_owned);
        }
        let mut came = self.call(step, fault).await;
        *self.store.0.lock() = None;
        if fault == Some("trap") {
            self.keepline.replace_plugin(self.plugin.clone()).await.unwrap();
        }
        for line in self.log.take() {
            assert!(!line.contains(SECRET), "{line}");
            if line.contains("more like it are only counted") {
                self.reported.push(came["ignored"][0].as_str().unwrap().to_owned());
            } else if line.contains("was dropped while it waited for its answer") {
                self.reported.push("turns".into());
            } else if line.contains("activity of a tool is not kept") {
                self.reported.push("tool".into());
            }
        }
        came["reported"] = std::mem::take(&mut self.reported).into();
        came
    }

    async fn call(&mut self, step: &Value, fault: Option<&str>) -> Value {
        let by = (fault == Some("stuck")).then(|| Deadline::after(SHORT));
        let metadata = step["metadata"].as_str().unwrap_or("{}");
        match text(step, "call") {
            "question" => {
                let question = Question { text: text(step, "text"), metadata, ..Question::default() };
                let passed = self.pipe.ask(question, by).await;
                self.passed(passed, metadata)
            }
            "answer" => {
                let status = match step["status"].as_str() {
                    Some("incomplete") => AnswerStatus::Incomplete,
                    _ => AnswerStatus::Complete,
                };
                let answer = Answer { text: text(step, "text"), metadata, status, ..Answer::default() };
                let passed = self.pipe.reply(answer, by).await;
                self.passed(passed, metadata)
            }
            "tool" => {
                self.pipe.tool_of(activity(&step["tool"]), metadata);
                json!({})
            }
            "open" => {
                self.pipe.open_of(metadata);
                json!({})
            }
            "unreadable" => {
                self.pipe.end_last();
                // To report it is up to who reads entries.
                self.reported.push("entry".into());
                json!({})
            }
            "work" => self.work(step).await,
            "administer" => {
                let answer =
                    administer(&mut self.keepline.sessions(), text(step, "function"), &step["arguments"]).await;
                json!({ "answer": spelled(answer) })
            }
            "forget-user" => {
                json!({ "answer": spelled(forget(&mut self.keepline.sessions(), text(step, "user")).await) })
            }
            "restart" => {
                let embedder = self.has_embedder.then_some(&self.model);
                self.keepline = started(&self.plugin, &self.options, &self.store, &self.log, embedder).await;
                (self.pipe, self.due) = (self.keepline.pipe(), Vec::new());
                json!({})
            }
            "fill-turns" => {
                for place in 0..MAX_TURNS {
                    self.pipe.question("?", &format!("{{\"session_id\":\"filler-{place}\"}}")).await.unwrap();
                }
                json!({})
            }
            other => panic!("there is no call {other}"),
        }
    }

    fn passed(&mut self, passed: Result<Passed, EntryError>, metadata: &str) -> Value {
        let passed = match passed {
            Ok(passed) => passed,
            Err(error) => {
                self.reported.push(code(&error.code));
                return json!({ "metadata": metadata });
            }
        };
        self.due.extend(passed.due);
        let problem = passed.problem.map(|problem| code(&problem.code));
        let (ignored, reported): (Vec<_>, Vec<_>) = problem.into_iter().partition(|_| passed.effect == Effect::Ignored);
        self.reported.extend(reported);
        json!({ "metadata": passed.metadata.as_deref().unwrap_or(metadata), "ignored": ignored })
    }

    async fn work(&mut self, step: &Value) -> Value {
        if let Some(script) = step.get("model") {
            *self.model.script.lock() = script.clone();
        }
        self.model.asked.lock().clear();
        let runtime = tokio::runtime::Handle::current();
        let options = MaintenanceOptions::default();
        let maintenance = Maintenance::new(self.keepline.clone(), self.model.clone(), options, runtime);
        for task in std::mem::take(&mut self.due) {
            if let Outcome::Failed(problem) = maintenance.run(task).await {
                self.reported.push(code(&problem.code));
            }
        }
        json!({ "asked": *self.model.asked.lock() })
    }
}

async fn started(
    plugin: &Plugin,
    options: &str,
    store: &Arc<Intercepted<Faults>>,
    log: &Arc<KeptLog>,
    embedder: Option<&Arc<ScriptedModel>>,
) -> Keepline {
    let filter = options.to_owned();
    let mut options = Options::default();
    (options.filter, options.log, options.entry_timeout) = (filter, log.clone(), PATIENCE);
    (options.embedding_wait, options.breaker.failures) = (PATIENCE, u32::MAX);
    options.embedder = embedder.map(|model| model.clone() as Arc<dyn Embedder>);
    let store: Arc<dyn Store> = store.clone();
    Keepline::new(plugin.clone(), store, options).await.unwrap()
}

/// A plugin that wants turns and traps when it gets a text of that length.
fn trapping(length: usize) -> Vec<u8> {
    let CoreGuest { realloc, .. } = CoreGuest::default();
    let realloc = format!("(if (i32.eq (local.get 3) (i32.const {length})) (then (unreachable))) {realloc}");
    // `ok`, no options, of `wants` the one at 1056, no warnings; that is the text at 1064.
    let configured = r#"
        (data (i32.const 1040) "\20\04\00\00\01") (data (i32.const 1056) "\28\04\00\00\05\00\00\00turns")"#;
    CoreGuest { realloc: &realloc, configure: "i32.const 1024", more: configured, ..CoreGuest::default() }.component()
}

fn code(code: &ProblemCode) -> String {
    match code {
        ProblemCode::Plugin => "instance".into(),
        code => code.to_string(),
    }
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_else(|| panic!("{name} is no text in {of}"))
}

fn number(of: &Value, name: &str) -> u64 {
    optional_number(of, name).unwrap_or_else(|| panic!("{name} is no number in {of}"))
}

/// A number, which is a text when it is large.
fn optional_number(of: &Value, name: &str) -> Option<u64> {
    of[name].as_u64().or_else(|| of[name].as_str().map(|digits| digits.parse().unwrap()))
}

fn limit(of: &Value) -> u32 {
    u32::try_from(number(of, "limit")).unwrap()
}

fn activity(tool: &Value) -> ToolActivity {
    let part = |name: &str| tool[name].as_str().map(str::to_owned);
    ToolActivity {
        call_id: text(tool, "call-id").to_owned(),
        name: part("name").unwrap_or_default(),
        arguments: part("arguments"),
        output: part("output"),
        error: part("error"),
        details: String::new(),
    }
}

fn spelled(answer: Result<Value, SessionError>) -> Value {
    match answer {
        Ok(record) => json!({ "ok": record }),
        Err(error) => {
            use SessionErrorCode as Code;
            let (code, subject) = match error.code {
                Code::InvalidSession => ("invalid".to_owned(), "session"),
                Code::InvalidKey => ("invalid".to_owned(), "key"),
                Code::InvalidValue => ("invalid".to_owned(), "value"),
                Code::NotFound => ("not-found".to_owned(), "session"),
                Code::Store(code) => (code.name().to_owned(), ""),
                code => (code.to_string(), ""),
            };
            json!({ "err": { "code": code, "subject": subject, "message": error.message } })
        }
    }
}

async fn forget(sessions: &mut Sessions, user: &str) -> Result<Value, SessionError> {
    loop {
        let forgotten = sessions.forget_user(user).await?;
        if forgotten.remaining == 0 {
            return Ok(json!({ "remaining": 0 }));
        }
    }
}

async fn administer(sessions: &mut Sessions, function: &str, given: &Value) -> Result<Value, SessionError> {
    match function.split_once('.').unwrap() {
        ("sessions", name) => of_sessions(sessions, name, given).await,
        ("transcripts", name) => of_transcripts(sessions, name, given).await,
        ("users", name) => of_users(sessions, name, given).await,
        _ => panic!("there is no function {function}"),
    }
}

async fn of_sessions(sessions: &mut Sessions, name: &str, given: &Value) -> Result<Value, SessionError> {
    let session = given["session"].as_str().unwrap_or_default();
    Ok(match name {
        "create" => json!({ "key-count": sessions.create(session).await?.key_count }),
        "resume" => {
            let state = sessions.resume(session).await?;
            json!({ "key-count": state.key_count, "expires-in": state.expires_in })
        }
        "list-sessions" => {
            let page = sessions.list(text(given, "cursor"), limit(given)).await?;
            json!({ "sessions": page.sessions, "cursor": page.cursor })
        }
        "delete" => json!({ "key-count": sessions.delete(session).await?.key_count }),
        "put" => {
            json!({ "existed": sessions.put(session, text(given, "key"), text(given, "value")).await?.existed })
        }
        "get" => named_values(&sessions.get(session, text(given, "key")).await?),
        "keys" => json!({ "keys": sessions.keys(session).await?.keys }),
        "clear" => json!({ "keys": sessions.clear(session, given["key"].as_str()).await?.keys }),
        "increment" => {
            let amount = &given["amount"];
            let amount = amount.as_i64().unwrap_or_else(|| amount.as_str().unwrap().parse().unwrap());
            let value = sessions.increment(session, text(given, "key"), amount).await?.value;
            if value.unsigned_abs() < 1 << 53 {
                json!({ "value": value })
            } else {
                json!({ "value": value.to_string() })
            }
        }
        "history" => {
            let page = sessions.history(session, optional_number(given, "before"), limit(given)).await?;
            let told = |record: &HistoryRecord| json!({ "operation": record.operation, "key": record.key });
            let records: Vec<Value> = page.records.iter().map(told).collect();
            json!({ "records": records, "first": page.first, "oldest": page.oldest, "next": page.next })
        }
        _ => panic!("there is no function sessions.{name}"),
    })
}

async fn of_transcripts(sessions: &mut Sessions, name: &str, given: &Value) -> Result<Value, SessionError> {
    let named = &given["transcript"];
    let transcript = Transcript {
        session: text(named, "session"),
        app_id: named["app-id"].as_str(),
        node_id: named["node-id"].as_str(),
    };
    let query = &given["query"];
    Ok(match name {
        "describe" => {
            let state = sessions.describe(transcript).await?;
            json!({
                "title": state.title, "settings": told_settings(&state.settings), "oldest": state.oldest,
                "next": state.next, "answers": state.answers,
            })
        }
        "messages" => {
            let wanted = MessageQuery {
                id: query["id"].as_str(),
                thread: query["thread"].as_str(),
                role: query["role"].as_str(),
                contains: query["contains"].as_str(),
                before: optional_number(query, "before"),
                limit: limit(query),
            };
            let page = sessions.messages(transcript, wanted).await?;
            let told = |message: keepline::sessions::Message| json!({ "position": message.position, "text": message.to_json() });
            json!({ "messages": page.messages.into_iter().map(told).collect::<Vec<_>>(), "older": page.older })
        }
        "content" => {
            let (position, offset) = (number(given, "position"), number(given, "offset"));
            let content = sessions.content(transcript, position, offset, limit(given)).await?;
            json!({ "text": content.text, "length": content.length })
        }
        "find-lines" => {
            let wanted = LineQuery {
                text: text(query, "text"),
                ignore_case: query["ignore-case"] == true,
                context: u32::try_from(number(query, "context")).unwrap(),
                from_line: number(query, "from-line"),
                limit: limit(query),
            };
            let found = sessions.find_lines(transcript, number(given, "position"), wanted).await?;
            let lines = found.lines.iter();
            let told = lines.map(|line| json!({ "number": line.number, "is-match": line.is_match, "text": line.text }));
            json!({ "lines": told.collect::<Vec<_>>() })
        }
        "rewrite" => {
            let changed = sessions.rewrite(transcript, number(given, "position"), given["content"].as_str()).await?;
            json!({ "count": changed.count })
        }
        "clear" => {
            json!({ "count": sessions.clear_messages(transcript, optional_number(given, "branch")).await?.count })
        }
        "set-messages" => {
            let records: Vec<Option<Message>> = given["messages"].as_array().unwrap().iter().map(a_message).collect();
            let messages: Vec<NewMessage<'_>> = (records.iter().zip(given["messages"].as_array().unwrap()))
                .map(|(record, given)| match record {
                    Some(record) => NewMessage::Message(record),
                    None => NewMessage::Chat(ChatMessage { text: text(&given["chat"], "text") }),
                })
                .collect();
            let changed = sessions.set_messages(transcript, &messages, optional_number(given, "next")).await?;
            json!({ "count": changed.count, "next": changed.next })
        }
        "set-title" => json!({ "title": sessions.set_title(transcript, given["title"].as_str()).await?.title }),
        "set-settings" => {
            let wanted = &given["settings"];
            let settings = TranscriptSettings {
                max_context_tokens: optional_number(wanted, "max-context-tokens"),
                context_window: optional_number(wanted, "context-window"),
                reserve_tokens: optional_number(wanted, "reserve-tokens"),
                model: wanted["model"].as_str().map(str::to_owned),
            };
            told_settings(&sessions.set_settings(transcript, &settings).await?)
        }
        _ => panic!("there is no function transcripts.{name}"),
    })
}

fn named_values(found: &ValueList) -> Value {
    let told = |value: &NamedValue| json!({ "key": value.key, "value": value.value });
    json!({ "values": found.values.iter().map(told).collect::<Vec<_>>() })
}

/// None: it has the form of a chat API.
fn a_message(given: &Value) -> Option<Message> {
    let given = given.get("message")?;
    Some(Message {
        position: 0,
        id: text(given, "id").to_owned(),
        parent: text(given, "parent").to_owned(),
        turn: text(given, "turn").to_owned(),
        role: text(given, "role").to_owned(),
        kind: text(given, "kind").to_owned(),
        at: number(given, "at"),
        tokens: None,
        content: text(given, "content").to_owned(),
        tool: None,
        extras: None,
    })
}

fn told_settings(settings: &TranscriptSettings) -> Value {
    let TranscriptSettings { max_context_tokens, context_window, reserve_tokens, model } = settings;
    json!({
        "max-context-tokens": max_context_tokens, "context-window": context_window, "reserve-tokens": reserve_tokens,
        "model": model,
    })
}

async fn of_users(sessions: &mut Sessions, name: &str, given: &Value) -> Result<Value, SessionError> {
    let user = text(given, "user");
    Ok(match name {
        "values" => named_values(&sessions.user_values(user, given["key"].as_str()).await?),
        "put" => json!({
            "existed": sessions.put_user_value(user, text(given, "key"), given["value"].as_str()).await?.existed,
        }),
        "list-sessions" => {
            let listed = sessions.user_sessions(user, optional_number(given, "before"), limit(given)).await?;
            let told = |one: &SessionSummary| json!({ "session": one.session, "records": one.records });
            json!({ "sessions": listed.sessions.iter().map(told).collect::<Vec<_>>(), "older": listed.older })
        }
        _ => panic!("there is no function users.{name}"),
    })
}
