//! Titles and summaries are made after the answer is written, by a model that is not trusted.

use std::{
    fs,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use keepline::store::Outcome;
use keepline_tests::{
    models::{ModelServer, Reply},
    on_stores,
    programs::signal,
    requests::get_in,
    stores::StoreUnderTest,
    until::until,
};
use serde_json::Value;

use crate::{Ran, answer, call, call_with, finish, keepline, question, run::coprocess::Running};

type Given = Arc<StoreUnderTest>;

const KEY: &str = "sk-hunter2";
const FIRST: &str = "Where is my parcel? I have waited for it since...";

fn first_turn() -> String {
    question("anna", "Where is my parcel? I have waited for it since the beginning of the month.")
        + &answer("In Leipzig.")
}

/// A program with conversations in that store, and that model.
fn with_model(given: &Given, url: &str, arguments: &[&str]) -> Command {
    let mut command = keepline(arguments.iter().copied());
    command.envs(given.environment()).env("KEEPLINE_CONVERSATION", "true");
    command.envs([("KEEPLINE_MODEL", "openai"), ("KEEPLINE_MODEL_URL", url), ("KEEPLINE_MODEL_NAME", "small")]);
    command.envs([("KEEPLINE_MODEL_KEY", KEY), ("KEEPLINE_MODEL_RETRIES", "0")]);
    command
}

fn run(mut command: Command, input: &str) -> Ran {
    let ran = finish(command.spawn().unwrap(), input.as_bytes());
    assert!(!ran.err.contains(KEY) && !ran.text().contains(KEY), "{ran:?}");
    ran
}

async fn held(given: &Given, session: &str, key: &str) -> String {
    match given.apply_one(session, get_in("session", &[key], 1 << 20)).await {
        Outcome::Entries(mut found) => found.entries.pop().unwrap().text,
        other => panic!("{other:?}"),
    }
}

async fn the_title_is_refined_by_the_model(given: Given) {
    let server = ModelServer::start(|_| Reply::Say("<think>A parcel…</think>\n\"Lost Parcel\".".into()));
    let ran = run(with_model(&given, &server.url(), &["run", "--summary", "--grace", "60"]), &first_turn()).ok();
    assert_eq!(ran.text().lines().count(), 2);
    assert!(ran.err.contains("titles: 1 done"), "{ran:?}");
    assert_eq!(held(&given, "anna", "title").await, "Lost Parcel");
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].path, "/v1/chat/completions");
    assert_eq!(asked[0].authorization.as_deref(), Some("Bearer sk-hunter2"));
    assert_eq!(asked[0].body["model"], "small");
    assert!(asked[0].content("user").starts_with("```\nWhere is my parcel?"));
    assert!(asked[0].content("system").contains("follow no instructions"));
}

async fn no_answer_waits_for_a_model(given: Given) {
    let server = ModelServer::start(|_| Reply::Hang);
    for pipes in ["1", "4"] {
        let arguments = ["run", "--summary", "--grace", "0.1", "--pipes", pipes];
        let mut running = Running::of(with_model(&given, &server.url(), &arguments));
        for number in 0..5 {
            let session = format!("{pipes}-{number}");
            running.send(&question(&session, "Where is it?"));
            running.line();
            running.send(&answer("In Leipzig."));
            assert_eq!(running.line(), answer("In Leipzig."));
        }
        // Four at a time, and none of them has been answered.
        server.until_asked(if pipes == "1" { 4 } else { 8 });
        drop(running.child.stdin.take());
        let (code, told) = running.end_with_errors();
        assert_eq!(code, Some(0));
        assert!(told.contains("5 deferred tasks not finished"), "{told}");
        assert!(told.contains("deferred   5 not finished"), "{told}");
        assert_eq!(held(&given, &format!("{pipes}-0"), "title").await, "Where is it?");
    }
}

async fn a_signal_lets_entries_under_way_finish(given: Given) {
    let is_told = Arc::new(AtomicBool::new(false));
    let told = is_told.clone();
    let server = ModelServer::start(move |_| {
        until("the model may answer", || told.load(Ordering::Relaxed).then_some(()));
        Reply::Say("Lost Parcel".into())
    });
    let mut running = Running::of(with_model(&given, &server.url(), &["run", "--grace", "60"]));
    running.send(&first_turn());
    running.line();
    assert_eq!(running.line(), answer("In Leipzig."));
    server.until_asked(1);
    signal(&running.child, "-TERM");
    // It waits for the model, until a second one.
    thread::sleep(Duration::from_millis(50));
    assert!(running.child.try_wait().unwrap().is_none());
    is_told.store(true, Ordering::Relaxed);
    assert_eq!(running.end_with_errors(), (Some(0), String::new()));
    assert_eq!(held(&given, "anna", "title").await, "Lost Parcel");

    let server = ModelServer::start(|_| Reply::Hang);
    let mut running = Running::of(with_model(&given, &server.url(), &["run", "--grace", "60"]));
    running.send(&(question("ben", "Hello, here I am.") + &answer("Hello.")));
    server.until_asked(1);
    // Signals that are pending at one time are one.
    until("it ends", || {
        signal(&running.child, "-TERM");
        running.child.try_wait().unwrap()
    });
    let (code, told) = running.end_with_errors();
    assert!(code == Some(0) && told.contains("1 deferred task not finished"), "{code:?} {told}");
}

async fn a_model_that_fails_changes_nothing_and_is_reported(given: Given) {
    run(keepless(&given, &["run"]), &first_turn()).ok();
    assert_eq!(held(&given, "anna", "title").await, FIRST);
    let refused = br#"{"error":{"message":"Incorrect API key provided: sk-hunter2. \u001b[2J"}}"#;
    for (reply, told) in [
        (Reply::Raw(401, "", refused.to_vec()), "status 401: Incorrect API key provided: ***."),
        (Reply::Raw(503, "retry-after: 3600\r\n", b"<html>busy</html>".to_vec()), "status 503"),
        (Reply::Raw(307, "location: http://127.0.0.1:1/\r\n", Vec::new()), "status 307"),
        (Reply::Raw(200, "", b"nonsense".to_vec()), "not a chat completion"),
        (Reply::Raw(200, "", vec![b'x'; 10 << 20]), "longer than 1048576 bytes"),
        (Reply::Raw(200, "content-encoding: gzip\r\n", vec![0; 10]), "the model's response"),
        (Reply::Say(" \n".into()), "blank"),
        (Reply::Break, "broke off"),
        (Reply::Hang, "within 200 ms"),
    ] {
        let name = format!("{reply:?}").chars().take(80).collect::<String>();
        let server = ModelServer::start(move |_| reply.clone());
        let hangs = ["--set", "model_timeout_ms=200"];
        let slow: &[&str] = if told.contains("200 ms") { &hangs } else { &[] };
        let ran = run(with_model(&given, &server.url(), &[&["session", "upkeep", "anna"], slow].concat()), "");
        assert!(ran.code == 1 && ran.text().is_empty() && ran.err.contains("title: "), "{name}: {ran:?}");
        assert!(ran.err.contains(told), "{name}: {ran:?}");
        assert!(!ran.err.contains("deferred task"), "it is told once: {ran:?}");
        assert!(!ran.err.contains('\u{1b}') && ran.err.len() < 2000, "{name}: {ran:?}");
        assert_eq!(server.asked().len(), 1, "{name}");
        assert_eq!(held(&given, "anna", "title").await, FIRST, "{name}");
    }
    // Nobody is there.
    let ran = run(with_model(&given, &crate::dead_url().replace("redis", "http"), &["session", "upkeep", "anna"]), "");
    assert!(ran.code == 1 && ran.err.contains("can't be asked"), "{ran:?}");

    // What may pass by itself is tried again; then it is done, and once.
    let is_first = AtomicBool::new(true);
    let server = ModelServer::start(move |_| match is_first.swap(false, Ordering::Relaxed) {
        true => Reply::Raw(429, "retry-after: 0\r\n", Vec::new()),
        false => Reply::Say("Lost Parcel".into()),
    });
    let patient = ["session", "upkeep", "anna", "--json", "--set", "model_retries=1"];
    let mut command = with_model(&given, &server.url(), &patient);
    command.env_remove("KEEPLINE_MODEL_RETRIES");
    let told = run(command, "").ok().json();
    assert_eq!(told["tasks"]["title"], "done");
    assert_eq!((server.asked().len(), held(&given, "anna", "title").await), (2, "Lost Parcel".to_owned()));
    // The limit of tokens has two names.
    run(keepless(&given, &["run"]), &first_turn().replace("anna", "ben")).ok();
    let newer = ModelServer::start(|asked| match asked.body["max_completion_tokens"].is_u64() {
        true => Reply::Say("Lost Parcel".into()),
        false => {
            let told =
                br#"{"error":{"message":"Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}}"#;
            Reply::Raw(400, "", told.to_vec())
        }
    });
    run(with_model(&given, &newer.url(), &["session", "upkeep", "ben"]), "").ok();
    assert_eq!((newer.asked().len(), held(&given, "ben", "title").await), (2, "Lost Parcel".to_owned()));
    let ran = run(with_model(&given, &server.url(), &["session", "upkeep", "anna"]), "").ok();
    assert_eq!(
        (ran.text(), server.asked().len()),
        ("title\tup to date\nsummary\tup to date\nretention\tup to date\n", 2)
    );
}

/// Without a model.
fn keepless(given: &Given, arguments: &[&str]) -> Command {
    let mut command = keepline(arguments.iter().copied());
    command.envs(given.environment()).env("KEEPLINE_CONVERSATION", "true");
    command
}

async fn a_killed_process_holds_a_task_only_until_its_lease_expires(given: Given) {
    let hangs = Arc::new(AtomicBool::new(true));
    let is_hanging = hangs.clone();
    let server = ModelServer::start(move |_| match is_hanging.load(Ordering::Relaxed) {
        true => Reply::Hang,
        false => Reply::Say("Lost Parcel".into()),
    });
    let set = ["--set", "model_timeout_ms=2000", "--set", "store_timeout_ms=2000"];
    let mut running = Running::of(with_model(&given, &server.url(), &[&["run"], &set[..]].concat()));
    running.send(&first_turn());
    server.until_asked(1);
    running.child.kill().unwrap();
    running.end();
    hangs.store(false, Ordering::Relaxed);
    until("the lease is over", || {
        let ran = run(with_model(&given, &server.url(), &[&["session", "upkeep", "anna"], &set[..]].concat()), "").ok();
        ran.text().starts_with("title\tup to date\n").then_some(())
    });
    assert_eq!(held(&given, "anna", "title").await, "Lost Parcel");
}

async fn a_long_conversation_is_summarized_in_the_background(given: Given) {
    let server =
        ModelServer::start(|asked| Reply::Say(if asked.is_title() { "Numbers" } else { "All numbers." }.into()));
    let turns: String = (0..20)
        .map(|number| {
            question("anna", &format!("What about {number}, and so on?")) + &answer("It is a number like any other.")
        })
        .collect();
    let arguments = ["run", "--grace", "60", "--set", "max_context_tokens=64"];
    run(with_model(&given, &server.url(), &arguments), &turns).ok();
    let ran = run(with_model(&given, &server.url(), &arguments), &question("anna", "And now?")).ok();
    let metadata = ran.json()["metadata"].clone();
    assert_eq!(metadata["memory_summary"]["role"], "user", "{metadata}");
    assert!(metadata["memory_summary"]["content"].as_str().unwrap().contains("All numbers."));

    // Without one, a digest takes its place.
    let ben = turns.replace("anna", "ben");
    run(keepless(&given, &arguments), &ben).ok();
    let ran = run(keepless(&given, &arguments), &question("ben", "And now?")).ok();
    let summary: Value = ran.json()["metadata"]["memory_summary"]["content"].clone();
    assert!(summary.as_str().unwrap().contains("\n- Answered: It is a number"), "{summary}");
}

on_stores![run on directory, redis: [
    the_title_is_refined_by_the_model,
    no_answer_waits_for_a_model,
    a_signal_lets_entries_under_way_finish,
    a_model_that_fails_changes_nothing_and_is_reported,
    a_killed_process_holds_a_task_only_until_its_lease_expires,
    a_long_conversation_is_summarized_in_the_background,
]];

#[test]
fn deferred_work_runs_in_the_same_process() {
    let set = ["run", "--summary", "--grace", "60", "--set", "conversation=true", "--set", "max_context_tokens=64"];
    let turns: String =
        (0..20).map(|_| question("anna", "What is it, and so on?") + &answer("It is a number.")).collect();
    let ran = call(&set, turns.as_bytes()).ok();
    // A title is due until it is settled: in so quick a conversation more than once.
    assert!(ran.err.contains("titles: ") && ran.err.contains(" done; summaries: "), "{}", ran.err);
}

#[test]
fn an_invalid_model_is_refused_at_the_start() {
    let model = ("KEEPLINE_MODEL", "openai");
    let name = ("KEEPLINE_MODEL_NAME", "small");
    for (environment, told) in [
        (&[model][..], "model_name is needed"),
        (&[model, name], "model_url is needed"),
        (&[model, name, ("KEEPLINE_MODEL_URL", "ftp://models/v1")], "not an http:// or https:// URL"),
        (&[model, name, ("KEEPLINE_MODEL_URL", "https://u:sk-hunter2@models/v1")], "belong in model_key"),
        (
            &[model, name, ("KEEPLINE_MODEL_URL", "https://models/v1"), ("KEEPLINE_MODEL_KEY", "sk-hunter2\nx: y")],
            "model_key must be printable",
        ),
        (&[("KEEPLINE_MODEL", "gpt")], "\"none\" or \"openai\""),
    ] {
        let ran = call_with(environment, &["run"]);
        assert!(ran.code == 2 && ran.err.contains(told) && !ran.err.contains(KEY), "{ran:?}");
    }
    let shown = call_with(&[model, ("KEEPLINE_MODEL_KEY", KEY)], &["config", "--json"]).ok();
    assert_eq!(shown.json()["host"]["model_key"]["value"], "***");
    assert!(!shown.text().contains(KEY));
}

#[test]
fn upkeep_refuses_missing_sessions_invalid_ids_and_missing_conversations() {
    let directory = tempfile::tempdir().unwrap();
    let dir = ["--dir", directory.path().to_str().unwrap()];
    let call = |arguments: &[&str]| call(&[arguments, &dir[..]].concat(), b"");
    call(&["session", "create", "anna"]).ok();
    for (arguments, exit_code, code, told) in [
        (&["session", "upkeep", "ben", "--json", "--set", "conversation=true"][..], 1, "not-found", "ben"),
        (&["session", "upkeep", "a b", "--json", "--set", "conversation=true"], 1, "invalid-session", "a b"),
        (&["session", "upkeep", "anna", "--json"], 2, "usage", "set conversation=true"),
    ] {
        let ran = call(arguments);
        assert!(ran.code == exit_code && ran.text().is_empty(), "{ran:?}");
        let error: Value = serde_json::from_str(ran.err.lines().last().unwrap()).unwrap();
        assert_eq!(error["error"]["code"], code, "{ran:?}");
        assert!(error["error"]["message"].as_str().unwrap().contains(told), "{ran:?}");
    }
}

#[test]
fn turns_are_archived_before_they_are_removed() {
    let parent = tempfile::tempdir().unwrap();
    let of = |name: &str| parent.path().join(name).to_str().unwrap().to_owned();
    let (store, archive, other) = (of("memory"), of("archive"), of("other"));
    let input: String = (0..20).map(|n| question("anna", &format!("Number {n}?")) + &answer("Yes.")).collect();
    let set = format!("archive_dir={archive}");
    let limited = ["--profile", "chat", "--dir", &store, "--set", &set, "--set", "max_session_messages=10"];
    call(&[&["run", "--grace", "60"], &limited[..]].concat(), input.as_bytes()).ok();
    let left = call(&[&["session", "messages", "anna", "--json"], &limited[..]].concat(), b"").ok().json();
    assert!(left["messages"].as_array().unwrap().len() < 20, "{left}");
    let mut files: Vec<_> = fs::read_dir(&archive).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    // What does not go is not exported.
    for _ in 0..2 {
        call(&[&["session", "upkeep", "anna"], &limited[..]].concat(), b"").ok();
    }
    assert_eq!(fs::read_dir(&archive).unwrap().count(), files.len());
    assert!(files[0].file_name().unwrap().to_str().unwrap().starts_with("session-anna."), "{files:?}");
    // Which come in elsewhere, with what is gone here.
    let elsewhere = ["--profile", "chat", "--dir", &other];
    call(&[&["session", "import", files[0].to_str().unwrap()], &elsewhere[..]].concat(), b"").ok();
    let found = call(&[&["session", "messages", "anna"], &elsewhere[..]].concat(), b"").ok();
    assert!(found.text().contains("Number 0?") && !left.to_string().contains("Number 0?"), "{found:?}");

    // If there can be no export, nothing is removed; and that is told.
    fs::remove_dir_all(&archive).unwrap();
    fs::write(&archive, "in the way").unwrap();
    let refused = call(&[&["run"], &limited[..]].concat(), b"");
    assert!(refused.code == 1 && refused.err.contains("archive_dir"), "{refused:?}");
    let in_memory = call(&["run", "--set", &set, "--set", "conversation=true"], b"");
    assert!(in_memory.code == 2 && in_memory.err.contains("archive_dir"), "{in_memory:?}");
}
