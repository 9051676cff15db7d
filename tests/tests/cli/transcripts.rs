//! What operators do with conversations from the shell.

use serde_json::{Value, json};

use super::{Ran, call};

pub struct Place {
    _parent: tempfile::TempDir,
    pub path: String,
}

impl Place {
    pub fn new() -> Self {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("memory").to_str().unwrap().to_owned();
        Self { _parent: parent, path }
    }

    pub fn ran(&self, arguments: &[&str]) -> Ran {
        let place = ["--profile", "chat", "--dir", &self.path];
        call(&[arguments, &place].concat(), b"")
    }

    /// What it answers in JSON.
    pub fn told(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(self.ran(&[arguments, &["--json"]].concat()).ok().text()).unwrap()
    }

    pub fn append(&self, session: &str, question: &str, answer: &str, more: &[&str]) {
        let turn = ["session", "append", session, "--question", question, "--answer", answer];
        self.ran(&[&turn, more].concat()).ok();
    }
}

/// Positions, who spoke, and what.
fn said(page: &Value) -> Vec<(u64, String)> {
    let one = |entry: &Value| {
        let message = &entry["message"];
        let text = format!("{}: {}", message["role"].as_str().unwrap(), message["content"].as_str().unwrap());
        (entry["position"].as_u64().unwrap(), text)
    };
    page["messages"].as_array().unwrap().iter().map(one).collect()
}

#[test]
fn a_conversation_is_written_read_and_corrected() {
    let place = Place::new();
    place.append("a", "Where is it?", "In Bonn.", &["--id", "m1"]);
    place.append("a", "And now?", "In Leipzig.", &["--id", "m2"]);
    let again = place.told(&["session", "append", "a", "--answer", "In Leipzig.", "--id", "m2"]);
    assert_eq!(again["stored"], false);
    place.append("a", "Really?", "No, in Rome.", &["--parent", "m1", "--id", "m3"]);

    let all = said(&place.told(&["session", "messages", "a"]));
    assert_eq!(all.len(), 6);
    assert_eq!(all[3], (3, "assistant: In Leipzig.".to_owned()));
    let found = |arguments: &[&str]| said(&place.told(&[&["session", "messages", "a"], arguments].concat()));
    assert_eq!(found(&["--thread", "m3"]), [&all[..2], &all[4..]].concat());
    assert_eq!(found(&["--search", "LEIPZIG"]), all[3..4]);
    assert_eq!(found(&["--role", "user", "--limit", "1"]), all[4..5]);
    assert_eq!(found(&["--before", "2"]), all[..2]);
    assert_eq!(place.told(&["session", "text", "a", "1", "--offset", "3"])["text"], "Bonn.");

    assert_eq!(place.told(&["session", "describe", "a"])["next"], 6);
    assert_eq!(place.told(&["session", "title", "a", "My parcel"])["title"], "My parcel");
    assert_eq!(place.ran(&["session", "title", "a"]).ok().text(), "My parcel\n");

    place.ran(&["session", "edit", "a", "1", "In Cologne."]).ok();
    place.ran(&["session", "remove", "a", "0"]).ok();
    let window = place.told(&["session", "window", "a", "--query", "?"]);
    let shown: Vec<_> = window["memory_messages"].as_array().unwrap().iter().map(|m| m["content"].clone()).collect();
    assert_eq!(shown, ["In Cologne.", "Really?", "No, in Rome."]);
    assert_eq!(place.told(&["explain", "a", "--budget", "1000"])["budget"], 1000);
    assert!(place.ran(&["explain", "a"]).ok().text().contains("thread tokens"));

    assert_eq!(place.told(&["session", "clear-messages", "a", "--branch", "2"])["count"], 2);
    assert_eq!(place.told(&["session", "clear-messages", "a", "--all"])["count"], 6);
    assert_eq!(said(&place.told(&["session", "messages", "a"])), []);
    assert_eq!(place.told(&["session", "get", "a", "answer_count"])["value"], 3);
}

#[test]
fn what_is_not_there_is_said_and_not_created() {
    let place = Place::new();
    for arguments in [
        &["session", "messages", "a"][..],
        &["session", "window", "a"],
        &["explain", "a"],
        &["session", "clear-messages", "a", "--all"],
        &["session", "title", "a", "x"],
    ] {
        let ran = place.ran(&[arguments, &["--json"]].concat());
        assert!(ran.code == 1 && ran.err.contains("\"not-found\""), "{arguments:?}: {ran:?}");
    }
    assert_eq!(place.told(&["session", "list"])["sessions"], json!([]));
    place.append("a", "?", "!", &[]);
    assert!(place.ran(&["session", "edit", "a", "9", "x"]).err.contains("no message at position 9"));
    let ran = call(&["explain", "a", "--dir", &place.path], b"");
    assert!(ran.code == 2 && ran.err.contains("conversation=true"), "{ran:?}");
}

#[test]
fn messages_are_put_in_the_place_of_all_others() {
    let place = Place::new();
    place.append("a", "Where is it?", "In Bonn.", &[]);
    let file = std::path::Path::new(&place.path).with_extension("jsonl");
    let set = || place.ran(&["session", "set-messages", "a", file.to_str().unwrap()]);
    let message = |role: &str, content: &str| json!({"role": role, "content": content}).to_string();
    std::fs::write(&file, [message("user", "And?"), message("assistant", "In Rome.")].join("\n\n")).unwrap();
    assert_eq!(set().ok().text(), "2\n");
    let texts = || said(&place.told(&["session", "messages", "a"])).into_iter().map(|(_, text)| text);
    assert_eq!(texts().collect::<Vec<_>>(), ["user: And?", "assistant: In Rome."]);
    for (text, told) in [
        (message("user", "x") + "\n" + &message("system", "y"), "Message 2: its role is 'system'"),
        ((message("user", "x") + "\n").repeat(10_001), "keepline session import"),
    ] {
        std::fs::write(&file, text).unwrap();
        let ran = set();
        assert!(ran.code > 0 && ran.err.contains(told), "{ran:?}");
    }
    assert_eq!(texts().count(), 2);
    std::fs::remove_file(&file).unwrap();
    assert!(set().err.contains("can't read"));
}

#[test]
fn a_node_has_messages_of_its_own() {
    let place = Place::new();
    place.append("a", "1", "one", &[]);
    place.append("a", "2", "two", &["--node", "llm", "--app", "shop"]);
    let of_node = said(&place.told(&["session", "messages", "a", "--node", "llm", "--app", "shop"]));
    assert_eq!(of_node, [(0, "user: 2".to_owned()), (1, "assistant: two".to_owned())]);
    assert_eq!(said(&place.told(&["session", "messages", "a"])).len(), 2);
    let window = place.told(&["session", "window", "a", "--node", "llm", "--app", "shop"]);
    assert_eq!(window["memory_messages"][1]["content"], "two");
}
