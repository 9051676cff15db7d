//! The example of a pipeline: one coprocess for all sessions, and prompts in the right order.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use keepline_tests::{
    models::{ModelServer, Reply},
    programs::{self, program},
};
use serde_json::{Value, json};

use crate::{Ran, finish};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}

fn python(arguments: &[&str], input: &str) -> Ran {
    let mut path = program("--bin", "keepline").parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    let mut command: Command = programs::command("python3");
    command.args(arguments).current_dir(examples()).env("PATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    finish(child, input.as_bytes())
}

#[test]
fn sessions_that_share_a_coprocess_each_get_their_own_conversation() {
    const SESSIONS: usize = 12;
    const ROUNDS: usize = 4;
    let model = ModelServer::start(|asked| {
        let question = asked.body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
        Reply::Say(format!("You said: {question}"))
    });
    let directory = tempfile::tempdir().unwrap();
    let mut input = String::new();
    for round in 0..ROUNDS {
        (0..SESSIONS).for_each(|session| input += &format!("telegram:{session}\tchat {session} round {round}\n"));
    }
    let url = model.url();
    let options = ["--profile", "chat", "--set", "session_ids=hash", "--require-memory", "--dir"];
    let arguments = [&["pipeline.py", "--model-url", &url, "--"][..], &options, &[directory.path().to_str().unwrap()]];
    let ran = python(&arguments.concat(), &input).ok();
    assert_eq!(ran.err, "");
    let mut told: Vec<&str> = ran.text().lines().collect();
    told.sort_unstable();
    let mut expected: Vec<String> = (0..SESSIONS)
        .flat_map(|s| (0..ROUNDS).map(move |r| format!("telegram:{s}\tYou said: chat {s} round {r}")))
        .collect();
    expected.sort_unstable();
    assert_eq!(told, expected);
    // What each question was sent to the model with.
    for asked in model.asked() {
        let messages = asked.body["messages"].as_array().unwrap();
        let contents: Vec<&str> = messages.iter().map(|message| message["content"].as_str().unwrap()).collect();
        let (chat, round) = contents.last().and_then(|question| question.split_once(" round ")).unwrap();
        let mut expected = vec![contents[0].to_owned()];
        for earlier in 0..round.parse::<usize>().unwrap() {
            let question = format!("{chat} round {earlier}");
            expected.extend([question.clone(), format!("You said: {question}")]);
        }
        expected.push(format!("{chat} round {round}"));
        assert_eq!(contents, expected);
    }
}

#[test]
fn a_prompt_has_summary_window_recall_and_question_in_this_order() {
    let metadata = json!({
        "memory_messages": [{"role": "user", "content": "window 1"}, {"role": "assistant", "content": "window 2"}],
        "memory_recall": {"text": "recalled", "passages": []},
        "memory_summary": {"role": "user", "content": "summary"},
    });
    let script = "import json, sys, pipeline; print(json.dumps(pipeline.compose('question', json.load(sys.stdin))))";
    let ran = python(&["-c", script], &metadata.to_string()).ok();
    let prompt: Vec<Value> = serde_json::from_str(ran.text()).unwrap();
    let shown: Vec<(&str, &str)> = prompt
        .iter()
        .map(|message| (message["role"].as_str().unwrap(), message["content"].as_str().unwrap()))
        .collect();
    let expected = [
        ("user", "summary"),
        ("user", "window 1"),
        ("assistant", "window 2"),
        ("user", "recalled"),
        ("user", "question"),
    ];
    assert_eq!(shown[0].0, "system");
    assert_eq!(shown[1..], expected);
}

#[test]
fn questions_are_answered_without_a_coprocess_and_the_exit_code_reports_it() {
    let ran = python(&["pipeline.py", "--", "--set", "no_such_field=1"], "anna\tWhere?\nanna\tAnd now?\n");
    assert!(ran.code == 2 && ran.err.contains("no_such_field") && !ran.err.contains("Traceback"), "{ran:?}");
    assert_eq!(ran.text().lines().count(), 2, "{ran:?}");
}
