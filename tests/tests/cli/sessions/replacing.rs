//! Replacing a conversation by more messages than one transaction takes: the old ones stay until all new ones are
//! stored.

use std::process::Stdio;

use keepline_local_redis::{RedisCluster, RedisServer};
use serde_json::json;

use crate::{finish, keepline, sessions::transcripts::Place};

const MANY: usize = 12_500;

/// A file with the messages, beside a conversation.
struct Replacement {
    place: Place,
    file: String,
}

impl Replacement {
    fn on(store: Vec<String>) -> Self {
        let place = Place::on(store);
        Self { file: format!("{}.jsonl", place.path), place }
    }

    /// The texts of a conversation's newest messages, and how many it has.
    fn newest(&self, node: &[&str]) -> (Vec<String>, u64) {
        let page = self.place.told(&[&["session", "messages", "a", "--limit", "2"], node].concat());
        let texts = page["messages"].as_array().unwrap().iter();
        let texts = texts.map(|entry| entry["message"]["content"].as_str().unwrap().to_owned()).collect();
        (texts, self.count(node))
    }

    fn count(&self, node: &[&str]) -> u64 {
        let shown = self.place.told(&[&["session", "describe", "a"], node].concat());
        shown["next"].as_u64().unwrap() - shown["oldest"].as_u64().unwrap()
    }

    /// Many messages, half of them with ids, which end so.
    fn write(&self, last: &str) {
        let mut lines = String::new();
        for number in 0..MANY {
            let role = if number % 2 == 0 { "user" } else { "assistant" };
            let content = if number + 1 == MANY { last.to_owned() } else { format!("said {number}") };
            let mut message = json!({"role": role, "content": content});
            if number % 2 == 1 {
                message["id"] = json!(format!("m{number}"));
            }
            lines += &format!("{message}\n");
        }
        std::fs::write(&self.file, lines).unwrap();
    }
}

fn is_replaced_whole(store: Vec<String>) {
    let replacement = Replacement::on(store);
    let Replacement { place, file } = &replacement;
    let append = |question: &str, answer: &str, more: &[&str]| {
        let turn = ["session", "append", "a", "--question", question, "--answer", answer, "--user", "anna"];
        place.ran(&[&turn, more].concat()).ok();
    };
    append("Where is it?", "In Bonn.", &[]);
    append("1", "one", &["--node", "llm"]);
    place.ran(&["session", "put", "a", "language", "\"es\""]).ok();
    replacement.write("The end.");
    let set = ["session", "set-messages", "a", file];
    let old = (vec!["Where is it?".to_owned(), "In Bonn.".to_owned()], 2);
    let new = (vec![format!("said {}", MANY - 2), "The end.".to_owned()], MANY as u64);

    // Two calls: between them it may be done.
    let is_whole = |found: &(Vec<String>, u64)| *found == old || *found == new || *found == (old.0.clone(), new.1);

    // Killed at any moment, it has done nothing or all.
    for reads in 0..3 {
        let mut killed = keepline(place.arguments(&set)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        for _ in 0..reads {
            let found = replacement.newest(&[]);
            assert!(is_whole(&found), "{found:?}");
        }
        killed.kill().unwrap();
        killed.wait().unwrap();
        let found = replacement.newest(&[]);
        assert!(found == old || found == new, "{found:?}");
    }

    let mut child = keepline(place.arguments(&set)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        let found = replacement.newest(&[]);
        assert!(is_whole(&found), "{found:?}");
    }
    assert_eq!(finish(child, b"").ok().text(), format!("{MANY}\n"));
    assert_eq!(replacement.newest(&[]), new);
    assert_eq!(replacement.newest(&["--node", "llm"]), (vec!["1".to_owned(), "one".to_owned()], 2));
    assert_eq!(place.told(&["session", "get", "a", "language"])["value"], "es");
    assert_eq!(place.told(&["session", "get", "a", "answer_count"])["value"], 1);
    let shown = place.told(&["session", "describe", "a"]);
    assert_eq!((&shown["title"], shown["owner"].is_null()), (&json!("said 0"), false));
    assert_eq!(
        place.told(&["session", "messages", "a", "--id", "m12499"])["messages"][0]["message"]["content"],
        "The end."
    );

    // It goes on from there, and a user who is forgotten is forgotten with it.
    append("And?", "Then.", &[]);
    assert_eq!(replacement.newest(&[]), (vec!["And?".to_owned(), "Then.".to_owned()], MANY as u64 + 2));
    assert_eq!(place.told(&["user", "forget", "anna", "--yes"])["remaining"], 0);
    assert_eq!(place.ran(&["session", "describe", "a"]).code, 1);
}

#[test]
fn in_a_directory_a_long_conversation_is_replaced_whole_or_not_at_all() {
    is_replaced_whole(Vec::new());
}

#[test]
fn in_redis_a_long_conversation_is_replaced_whole_or_not_at_all() {
    let server = RedisServer::start().unwrap();
    is_replaced_whole(["--set=backend=redis".to_owned(), format!("--set=redis_url={}", server.url())].into());
}

#[test]
fn in_a_cluster_a_long_conversation_is_replaced_whole_or_not_at_all() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let nodes = format!("--set=redis_nodes={}", cluster.addresses().join(","));
    is_replaced_whole(["--set=backend=redis".to_owned(), "--set=redis_cluster=true".to_owned(), nodes].into());
}

#[test]
fn a_node_is_replaced_and_made_with_its_session() {
    let replacement = Replacement::on(Vec::new());
    let Replacement { place, file } = &replacement;
    replacement.write("The end.");
    let of_node = |node: &'static str| ["session", "set-messages", "a", file, "--node", node].map(str::to_owned);
    let set = |node| place.ran(&of_node(node).each_ref().map(String::as_str));
    place.ran(&["session", "create", "b"]).ok();
    // Without a session nobody would find it.
    assert_eq!(set("llm").code, 1);
    place.ran(&["session", "append", "a", "--question", "1", "--answer", "one", "--node", "llm"]).ok();
    place.ran(&["session", "append", "a", "--question", "2", "--answer", "two"]).ok();
    for node in ["llm", "new"] {
        assert_eq!(set(node).ok().text(), format!("{MANY}\n"));
        assert_eq!(replacement.newest(&["--node", node]).1, MANY as u64);
    }
    std::fs::write(file, json!({"role": "user", "content": "x"}).to_string()).unwrap();
    set("short").ok();
    assert_eq!(replacement.newest(&[]), (vec!["2".to_owned(), "two".to_owned()], 2));
    // They go with it.
    place.ran(&["session", "delete", "a"]).ok();
    for node in ["llm", "new", "short"] {
        assert_eq!(place.ran(&["session", "messages", "a", "--node", node]).code, 1);
    }
}
