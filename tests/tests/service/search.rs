//! Search and recall over HTTP.

use std::process::Stdio;

use keepline_tests::{
    programs::{self, program},
    until::until,
};
use serde_json::{Value, json};

use crate::server::Server;

fn with_two_sessions(arguments: &[&str]) -> Server {
    let server = Server::of_conversations(arguments);
    for (session, question, answer) in
        [("s1", "My dog is called Bruno.", "A fine name."), ("s2", "Where is the parcel?", "In Leipzig.")]
    {
        let metadata = json!({"session_id": session, "user_id": "anna"});
        let body = json!({"text": answer, "question_text": question, "metadata": metadata});
        assert_eq!(server.post("/answers", &body).ok()["effect"], "stored");
    }
    server
}

#[test]
fn messages_are_found_by_their_words_among_all_of_a_users_sessions_or_in_one() {
    let server = with_two_sessions(&[]);
    let found = server.post("/search", &json!({"query": "called bruno", "user": "anna"})).ok();
    assert_eq!(found["data"].as_array().unwrap().len(), 1);
    assert_eq!((&found["data"][0]["session"], &found["has_more"]), (&"s1".into(), &false.into()));
    let found = server.post("/search", &json!({"query": "Leipzig", "session": "s2"})).ok();
    assert_eq!(found["data"][0]["message"]["content"], "In Leipzig.");
    assert_eq!(server.post("/search", &json!({"query": "Leipzig", "session": "s1"})).ok()["data"], json!([]));
    assert_eq!(server.post("/search", &json!({"query": "x"})).error(400).1.as_deref(), Some("user"));
    assert_eq!(server.post("/search", &json!({"query": " ", "user": "anna"})).error(400).1.as_deref(), Some("query"));
}

#[test]
fn a_new_session_of_a_user_recalls_what_was_said_in_the_others() {
    let server = with_two_sessions(&["--set", "recall=user"]);
    let asked = json!({"query": "What is my dog called?", "user": "anna"});
    // What was said is copied for the other sessions in the background.
    let recalled = until("it is copied", || {
        let reply = server.post("/recall", &asked).ok();
        (!reply["passages"].as_array().unwrap().is_empty()).then_some(reply)
    });
    assert!(recalled["text"].as_str().unwrap().contains("Bruno"), "{recalled}");
    assert_eq!(recalled["passages"][0]["session"], "s1");
    // Nothing to search for.
    assert_eq!(server.post("/recall", &json!({"query": "?", "user": "anna"})).ok()["passages"], json!([]));
    for member in ["node", "parent"] {
        let refused = server.post("/recall", &json!({"query": "dog", "user": "anna", member: "x"})).error(400);
        assert_eq!(refused.1.as_deref(), Some(member));
    }
    // A look writes nothing.
    assert_eq!(server.get("/sessions").ok()["data"].as_array().unwrap().len(), 2);
}

#[test]
fn recall_that_is_off_is_told() {
    let server = with_two_sessions(&[]);
    assert_eq!(server.post("/recall", &json!({"query": "dog", "session": "s1"})).error(409).0, "recall_off");
}

#[test]
fn a_node_recalls_its_own_messages_as_on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--dir", folder.path().to_str().unwrap(), "--set", "recall=session"];
    let options = [&options[..], &["--set", "max_context_tokens=64"]].concat();
    let server = Server::start(&[&["--profile", "chat"], &*options].concat());
    let store = |node: Option<&str>, question: &str| {
        let mut metadata = json!({"session_id": "s"});
        if let Some(node) = node {
            let named = [("memory_mode", "node"), ("app_id", "shop"), ("node_id", node)];
            named.into_iter().for_each(|(name, value)| metadata[name] = value.into());
        }
        let body = json!({"text": "word ".repeat(40), "question_text": question, "metadata": metadata});
        assert_eq!(server.post("/answers", &body).ok()["effect"], "stored");
    };
    for question in ["My dog is called Bruno.", "Where is the parcel?", "And when does it come?"] {
        store(Some("llm"), question);
    }
    store(None, "Where is the letter?");
    let query = "What is my dog called?";
    let asked = json!({"query": query, "session": "s", "node": "llm", "app": "shop"});
    let recalled = until("it is indexed", || {
        let reply = server.post("/recall", &asked).ok();
        (!reply["passages"].as_array().unwrap().is_empty()).then_some(reply)
    });
    assert!(recalled["text"].as_str().unwrap().contains("Bruno"), "{recalled}");
    let mut command = programs::command(program("--bin", "keepline"));
    command
        .args(["recall", "s", query, "--node", "llm", "--app", "shop", "--json", "--profile", "chat"])
        .args(&options);
    let printed: Value = serde_json::from_slice(&command.stderr(Stdio::inherit()).output().unwrap().stdout).unwrap();
    assert_eq!((&recalled["text"], &recalled["passages"]), (&printed["text"], &printed["passages"]));
    // The session has none of it, and neither has its node without the app.
    assert_eq!(server.post("/recall", &json!({"query": query, "session": "s"})).ok()["passages"], json!([]));
    for (node, app) in [("other", "shop"), ("llm", "other"), ("llm", "")] {
        let asked = json!({"query": query, "session": "s", "node": node, "app": app});
        let refused = server.post("/recall", &asked).error(404);
        assert_eq!(refused, server.get(&format!("/sessions/s/messages?node={node}&app={app}")).error(404));
    }
}
