//! Recall with embeddings: passages without a common word are found, and nothing waits for the model.

use std::{
    collections::BTreeMap,
    fs,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use keepline::store::Outcome;
use keepline_tests::{
    models::{Asked, ModelServer, Reply},
    on_stores,
    programs::signal,
    requests::get_all_in,
    stores::StoreUnderTest,
};
use serde_json::{Value, json};

use crate::{Ran, answer, call_with, finish, keepline, question, run::coprocess::Running};

type Given = Arc<StoreUnderTest>;

const KEY: &str = "sk-hunter2";
/// It has no word in common with what it is about.
const PARAPHRASE: &str = "Which pets?";

/// A model that knows what animals are.
fn embed(asked: &Asked) -> Reply {
    let of = |text: &str| {
        let is_animal = ["dog", "cat", "pets"].iter().any(|word| text.contains(word));
        if is_animal { vec![1.0, 0.1] } else { vec![0.1, 1.0] }
    };
    Reply::Embed(asked.texts().into_iter().map(of).collect())
}

/// A program with recall in that store, and that model: a question waits for it as long as it takes.
fn with_model(given: &Given, url: &str, model: &str, arguments: &[&str]) -> Command {
    let mut command = keepline(arguments.iter().copied());
    command.envs(given.environment()).env("KEEPLINE_CONVERSATION", "true");
    command.envs([("KEEPLINE_RECALL", "session"), ("KEEPLINE_MAX_CONTEXT_TOKENS", "64")]);
    command.envs([("KEEPLINE_EMBEDDING", "openai"), ("KEEPLINE_EMBEDDING_URL", url)]);
    command.envs([("KEEPLINE_EMBEDDING_NAME", model), ("KEEPLINE_EMBEDDING_KEY", KEY)]);
    command.envs([("KEEPLINE_EMBEDDING_WAIT_MS", "60000"), ("KEEPLINE_STORE_TIMEOUT_MS", "60000")]);
    command.env("KEEPLINE_EMBEDDING_RETRIES", "0");
    command
}

fn run(mut command: Command, input: &str) -> Ran {
    let ran = finish(command.spawn().unwrap(), input.as_bytes());
    assert!(!ran.err.contains(KEY) && !ran.text().contains(KEY), "{ran:?}");
    ran
}

/// A dog, and then so much else that the window shows it no more.
fn talk(number: usize) -> String {
    let turn = |text: &str| question("anna", text) + &answer("Well.");
    let other = (0..number).map(|number| turn(&format!("Remark {number} about nothing in particular.")));
    turn("Our dog is called Bello.") + &other.collect::<String>()
}

const RUN: [&str; 3] = ["run", "--grace", "60"];

/// The vectors of the session's passages.
async fn vectors(given: &Given) -> BTreeMap<u64, String> {
    match given.apply_one("anna", get_all_in("vectors")).await {
        Outcome::Entries(found) => {
            found.entries.into_iter().map(|entry| (entry.key.parse().unwrap(), entry.text)).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn recalled(metadata: &Value) -> Vec<(&str, &Value)> {
    let passages = metadata["memory_recall"]["passages"].as_array().map_or(&[][..], Vec::as_slice);
    passages.iter().map(|passage| (passage["text"].as_str().unwrap(), &passage["why"])).collect()
}

async fn passages_without_a_common_word_are_found(given: Given) {
    let server = ModelServer::start(embed);
    run(with_model(&given, &server.url(), "small", &RUN), &talk(6)).ok();
    assert_eq!(vectors(&given).await.len(), 14);
    let asked = server.asked();
    assert!(asked.iter().all(|asked| asked.path == "/v1/embeddings" && asked.body["model"] == "small"));
    assert!(asked.iter().all(|asked| asked.authorization.as_deref() == Some("Bearer sk-hunter2")));
    assert!(asked.iter().all(|asked| asked.body.get("dimensions").is_none()));

    let ran = run(with_model(&given, &server.url(), "small", &RUN), &question("anna", PARAPHRASE)).ok();
    let metadata = ran.json()["metadata"].clone();
    assert_eq!(recalled(&metadata), [("Our dog is called Bello.", &json!(["vector"]))], "{metadata}");
    let look = ["recall", "anna", PARAPHRASE, "--json"];
    let shown = run(with_model(&given, &server.url(), "small", &look), "").ok().json();
    assert_eq!(shown, metadata["memory_recall"]);
    let memories = ["memories", "--user", "ben", "--session", "anna", PARAPHRASE, "--json"];
    let found = run(with_model(&given, &server.url(), "small", &memories), "").ok().json();
    assert_eq!(found["memories"][0]["user_message"], "Our dog is called Bello.");
    assert_eq!(found["method"], "hybrid");
    let mut without = with_model(&given, &server.url(), "small", &look);
    without.env("KEEPLINE_RECALL_VECTORS", "false");
    assert_eq!(run(without, "").ok().json(), Value::Null);
    let mut smaller = with_model(&given, &server.url(), "small", &look);
    smaller.env("KEEPLINE_EMBEDDING_DIMENSIONS", "2");
    run(smaller, "").ok();
    assert_eq!(server.asked().pop().unwrap().body["dimensions"], 2);
}

async fn entries_do_not_wait_for_a_hanging_embedding_model(given: Given) {
    let server = ModelServer::start(|_| Reply::Hang);
    let mut command = with_model(&given, &server.url(), "small", &["run", "--grace", "0.1"]);
    command.env("KEEPLINE_EMBEDDING_WAIT_MS", "20");
    let mut running = Running::of(command);
    for number in 0..5 {
        running.send(&question("anna", &format!("Where is parcel {number}?")));
        assert!(running.line().contains("\"text\""));
        running.send(&answer("In Leipzig."));
        assert_eq!(running.line(), answer("In Leipzig."));
    }
    // It has been asked, and has not answered.
    server.until_asked(2);
    drop(running.child.stdin.take());
    let (code, told) = running.end_with_errors();
    assert!(code == Some(0) && !told.contains(KEY) && !told.contains("parcel"), "{code:?} {told}");
    assert!(vectors(&given).await.is_empty());
}

async fn a_failed_task_is_retried_in_the_background(given: Given) {
    let refused = br#"{"error":{"message":"Incorrect API key provided: sk-hunter2."}}"#;
    let server = ModelServer::start(move |_| Reply::Raw(401, "", refused.to_vec()));
    let ran = run(with_model(&given, &server.url(), "small", &RUN), &talk(6)).ok();
    assert_eq!(ran.text().lines().count(), 14);
    assert!(ran.err.contains("status 401: Incorrect API key provided: ***."), "{ran:?}");
    assert!(vectors(&given).await.is_empty());
    for (reply, told) in [
        (Reply::Raw(200, "", b"nonsense".to_vec()), "not one embedding for each text"),
        (Reply::Embed(vec![vec![1.0]]), "not one embedding for each text"),
        (Reply::Raw(307, "location: http://127.0.0.1:1/\r\n", Vec::new()), "status 307"),
        (Reply::Break, "broke off"),
    ] {
        let server = ModelServer::start(move |_| reply.clone());
        let ran = run(with_model(&given, &server.url(), "small", &["session", "upkeep", "anna"]), "");
        assert!(ran.code == 1 && ran.err.contains("vectors: ") && ran.err.contains(told), "{ran:?}");
    }
    let is_first = AtomicBool::new(true);
    let server = ModelServer::start(move |asked| match is_first.swap(false, Ordering::Relaxed) {
        true => Reply::Raw(503, "retry-after: 0\r\n", Vec::new()),
        false => embed(asked),
    });
    let mut patient = with_model(&given, &server.url(), "small", &["session", "upkeep", "anna", "--json"]);
    patient.env("KEEPLINE_EMBEDDING_RETRIES", "1");
    assert_eq!(run(patient, "").ok().json()["tasks"]["vectors"], "done");
    assert_eq!((server.asked().len(), vectors(&given).await.len()), (2, 14));
}

/// The text by which a server knows what it refuses.
const REFUSED: &str = "secret remark 3 ";

async fn a_refused_text_keeps_no_other_from_its_vector(given: Given) {
    let is_refused = |asked: &Asked| asked.texts().iter().any(|text| text.contains(REFUSED));
    let replies: [fn(&Asked) -> Reply; 3] = [
        |_| Reply::Raw(422, "", format!("{{\"error\":\"{REFUSED}\"}}").into_bytes()),
        |_| Reply::Raw(200, "", br#"{"data":[{"embedding":[NaN]}]}"#.to_vec()),
        |asked| Reply::Embed(vec![vec![0.0, 0.0]; asked.texts().len()]),
    ];
    for (number, refuse) in replies.into_iter().enumerate() {
        let session = format!("anna{number}");
        let turn = |text: &str| question(&session, text) + &answer("Well.");
        let said: String = (0..20).map(|number| turn(&format!("A secret remark {number} of mine."))).collect();
        let mut quiet = with_model(&given, "http://127.0.0.1:1/v1", "small", &RUN);
        quiet.env("KEEPLINE_EMBEDDING_WAIT_MS", "0");
        run(quiet, &said).ok();

        let server = ModelServer::start(move |asked| if is_refused(asked) { refuse(asked) } else { embed(asked) });
        let upkeep = ["session", "upkeep", &*session, "--json"];
        let ran = run(with_model(&given, &server.url(), "small", &upkeep), "").ok();
        assert_eq!(ran.json()["tasks"]["vectors"], "done");
        assert_eq!(ran.err.matches("the model refuses 1 of 40 texts").count(), 1, "{ran:?}");
        assert!(!ran.err.contains("secret") && server.asked().len() <= 15, "{ran:?}");
        let Outcome::Entries(found) = given.apply_one(&session, get_all_in("vectors")).await else { panic!() };
        assert_eq!(found.entries.len(), 39);
        assert!(found.entries.iter().all(|entry| entry.key != "6"));
        // Nor with the next answer.
        let before = server.asked().len();
        run(with_model(&given, &server.url(), "small", &RUN), &turn("What else?")).ok();
        assert!(!server.asked().split_off(before).iter().any(is_refused));
        let Outcome::Entries(found) = given.apply_one(&session, get_all_in("vectors")).await else { panic!() };
        assert_eq!(found.entries.len(), 41);
    }
}

async fn another_model_embeds_everything_again(given: Given) {
    let server = ModelServer::start(embed);
    run(with_model(&given, &server.url(), "small", &RUN), &talk(40)).ok();
    let before = vectors(&given).await;
    let ran = run(with_model(&given, &server.url(), "large", &RUN), &question("anna", PARAPHRASE)).ok();
    assert!(recalled(&ran.json()["metadata"]).is_empty(), "vectors of another model count as none");
    let more = question("anna", "What else?") + &answer("Nothing.");
    run(with_model(&given, &server.url(), "large", &RUN), &more).ok();
    let after = vectors(&given).await;
    assert_eq!((before.len(), after.len()), (82, 84));
    assert!(before.iter().all(|(position, vector)| after[position] != *vector));
    let ran = run(with_model(&given, &server.url(), "large", &RUN), &question("anna", PARAPHRASE)).ok();
    assert_eq!(recalled(&ran.json()["metadata"])[0].0, "Our dog is called Bello.");
}

async fn removed_messages_have_no_vector(given: Given) {
    let server = ModelServer::start(embed);
    let session = |arguments: &[&str]| run(with_model(&given, &server.url(), "small", arguments), "").ok();
    run(with_model(&given, &server.url(), "small", &RUN), &talk(6)).ok();
    session(&["session", "remove", "anna", "0"]);
    assert_eq!(vectors(&given).await.keys().copied().collect::<Vec<_>>(), (1..14).collect::<Vec<_>>());
    session(&["session", "upkeep", "anna"]);
    assert_eq!(vectors(&given).await.len(), 13);
    assert!(recalled(&session(&["session", "window", "anna", "--query", PARAPHRASE]).json()).is_empty());
    // Made anew, at other positions.
    session(&["recall", "rebuild", "anna"]);
    assert_eq!(vectors(&given).await.keys().copied().collect::<Vec<_>>(), (14..27).collect::<Vec<_>>());
    session(&["session", "clear-messages", "anna", "--all"]);
    assert!(vectors(&given).await.is_empty());
}

on_stores![run on directory, redis: [
    passages_without_a_common_word_are_found,
    entries_do_not_wait_for_a_hanging_embedding_model,
    a_failed_task_is_retried_in_the_background,
    a_refused_text_keeps_no_other_from_its_vector,
    another_model_embeds_everything_again,
    removed_messages_have_no_vector,
]];

#[test]
fn the_gain_of_embeddings_can_be_measured() {
    let server = ModelServer::start(embed);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("conversations.jsonl");
    let turn = |id: usize, text: &str| json!({"id": format!("D1:{id}"), "speaker": "Ann", "text": text});
    let other = (2..12).map(|id| turn(id, &format!("remark {id} about nothing")));
    let turns: Vec<Value> = std::iter::once(turn(1, "I walk my dog.")).chain(other).collect();
    let conversation = json!({"sessions": [{"date": "2023-05-08T13:56:00Z", "turns": turns}],
        "questions": [{"question": PARAPHRASE, "evidence": ["D1:1"]}]});
    fs::write(&file, conversation.to_string()).unwrap();
    let evaluate = ["recall", "evaluate", file.to_str().unwrap(), "--tokens", "64", "--json"];
    let found = |environment: &[(&str, &str)]| call_with(environment, &evaluate).ok().json()["budgets"][0].clone();
    assert_eq!(found(&[])["whole_percent"], 0.0);
    let url = server.url();
    let with = [("KEEPLINE_EMBEDDING", "openai"), ("KEEPLINE_EMBEDDING_URL", &url), ("KEEPLINE_EMBEDDING_NAME", "m")];
    assert_eq!(found(&with)["whole_percent"], 100.0);
}

#[test]
fn an_interrupted_evaluation_leaves_nothing_behind() {
    let given = Arc::new(StoreUnderTest::directory());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("conversations.jsonl");
    let turn = json!({"id": "D1:1", "speaker": "Ann", "text": "I walk my dog."});
    let conversation = json!({"sessions": [{"date": "2023-05-08T13:56:00Z", "turns": [turn]}],
        "questions": [{"question": PARAPHRASE, "evidence": ["D1:1"]}]});
    fs::write(&file, conversation.to_string()).unwrap();
    let list = || {
        let listed = run(with_model(&given, "http://127.0.0.1:1/v1", "small", &["session", "list", "--json"]), "");
        listed.ok().json()["sessions"].as_array().unwrap().len()
    };
    for (name, more) in [("-INT", None), ("-TERM", Some("--user"))] {
        let server = ModelServer::start(|_| Reply::Hang);
        let evaluate = ["recall", "evaluate", file.to_str().unwrap(), "--tokens", "64"];
        let arguments: Vec<&str> = evaluate.into_iter().chain(more).collect();
        let mut running = Running::of(with_model(&given, &server.url(), "small", &arguments));
        // Its sessions are filled by then.
        server.until_asked(1);
        assert_eq!(list(), 1);
        signal(&running.child, name);
        let (code, told) = running.end_with_errors();
        assert!(code == Some(1) && told.contains("interrupted: its test sessions were deleted"), "{code:?} {told}");
        assert_eq!(list(), 0, "{name}");
    }
}

#[test]
fn a_failed_or_interrupted_rebuild_can_be_repeated_at_once() {
    let given = Arc::new(StoreUnderTest::directory());
    let server = ModelServer::start(embed);
    run(with_model(&given, &server.url(), "small", &RUN), &talk(6)).ok();
    let rebuild = ["recall", "rebuild", "anna"];
    for _ in 0..2 {
        let failed = run(with_model(&given, "http://127.0.0.1:1/v1", "small", &rebuild), "");
        assert!(failed.code == 1 && failed.err.contains("passages can't be embedded"), "{failed:?}");
    }
    for name in ["-INT", "-TERM"] {
        let hanging = ModelServer::start(|_| Reply::Hang);
        let mut running = Running::of(with_model(&given, &hanging.url(), "small", &rebuild));
        hanging.until_asked(1);
        signal(&running.child, name);
        let (code, told) = running.end_with_errors();
        assert!(code == Some(1) && told.contains("run the command again to finish the rebuild"), "{code:?} {told}");
        // Nobody keeps it from its work.
        let upkeep = ["session", "upkeep", "anna", "--json"];
        let ran = run(with_model(&given, &server.url(), "small", &upkeep), "").ok();
        assert_eq!(ran.json()["tasks"]["vectors"], "done");
    }
    run(with_model(&given, &server.url(), "small", &rebuild), "").ok();
}

#[test]
fn an_invalid_model_is_refused_at_the_start() {
    let model = ("KEEPLINE_EMBEDDING", "openai");
    let name = ("KEEPLINE_EMBEDDING_NAME", "small");
    let url = |url| ("KEEPLINE_EMBEDDING_URL", url);
    for (environment, told) in [
        (&[model][..], "embedding_name is needed"),
        (&[model, name], "embedding_url is needed"),
        (&[model, name, url("https://u:sk-hunter2@models/v1")], "belong in embedding_key (KEEPLINE_EMBEDDING_KEY)"),
        (&[model, name, url("https://models/v1"), ("KEEPLINE_EMBEDDING_KEY", "sk-hunter2\nx: y")], "must be printable"),
        (&[("KEEPLINE_EMBEDDING", "gpt")], "\"none\" or \"openai\""),
        (&[("KEEPLINE_EMBEDDING_DIMENSIONS", "5000")], "embedding_dimensions"),
    ] {
        let ran = call_with(environment, &["run"]);
        assert!(ran.code == 2 && ran.err.contains(told) && !ran.err.contains(KEY), "{ran:?}");
    }
    let whole = [model, name, url("https://models/v1"), ("KEEPLINE_EMBEDDING_KEY", KEY)];
    let shown = call_with(&whole, &["config", "--json"]).ok();
    assert_eq!(shown.json()["host"]["embedding_key"]["value"], "***");
    assert!(!shown.text().contains(KEY));
}
