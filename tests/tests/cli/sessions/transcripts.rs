//! Operations on conversations from the shell.

use serde_json::{Value, json};

use crate::{Ran, call};

/// A store of its own, and a place for files beside it.
pub struct Place {
    _parent: tempfile::TempDir,
    pub path: String,
    /// Where sessions are, if not in a directory at the path.
    store: Vec<String>,
}

impl Place {
    pub fn new() -> Self {
        Self::on(Vec::new())
    }

    pub fn on(store: Vec<String>) -> Self {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("memory").to_str().unwrap().to_owned();
        Self { _parent: parent, path, store }
    }

    /// With where sessions are.
    pub fn arguments<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        let mut all = [arguments, &["--profile", "chat"]].concat();
        match &self.store[..] {
            [] => all.extend(["--dir", &self.path]),
            store => all.extend(store.iter().map(String::as_str)),
        }
        all
    }

    pub fn ran(&self, arguments: &[&str]) -> Ran {
        call(&self.arguments(arguments), b"")
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
    let unasked = "[The user's message was not recorded]";
    assert_eq!(shown, [unasked, "In Cologne.", "Really?", "No, in Rome."]);
    assert_eq!(place.told(&["explain", "a", "--budget", "1000"])["budget"], 1000);

    assert_eq!(place.told(&["session", "clear-messages", "a", "--branch", "2"])["count"], 2);
    assert_eq!(place.told(&["session", "clear-messages", "a", "--all"])["count"], 6);
    assert_eq!(said(&place.told(&["session", "messages", "a"])), []);
    assert_eq!(place.told(&["session", "get", "a", "answer_count"])["value"], 3);
}

#[test]
fn explain_shows_roles_texts_and_reasons() {
    let place = Place::new();
    for (question, answer) in [("Where is it?", "In Bonn."), ("And now?", "In Leipzig."), ("And then?", "In Rome.")] {
        place.append("a", question, answer, &["--user", "anna"]);
    }
    let explained = place.ran(&["explain", "a"]).ok();
    for row in ["owner\tanna\n", "values\tanswer_count, last_answer\n", "recalled\tnothing: recall is off\n"] {
        assert!(explained.text().contains(row), "{row}: {explained:?}");
    }
    let turns: Vec<&str> = explained.text().lines().skip_while(|line| !line.starts_with("0\t")).collect();
    assert_eq!(turns.len(), 6, "{explained:?}");
    assert!(turns[0].ends_with("\tyes\tuser\tWhere is it?"), "{explained:?}");
    assert_eq!(turns[1], "\t\t\tassistant\tIn Bonn.");

    place.append("a", &"What about the weather? ".repeat(20), "It rains.", &[]);
    let explained = place.ran(&["explain", "a", "--budget", "200"]).ok();
    let lines: Vec<&str> = explained.text().lines().collect();
    assert!(lines.contains(&"gap\tsome turns are neither in the window nor in a summary"), "{explained:?}");
    // Of what is left out, the first message.
    assert!(
        lines.iter().any(|line| line.starts_with("0\t") && line.ends_with("\tuser\tWhere is it?")),
        "{explained:?}"
    );
    assert!(!explained.text().contains("In Bonn."), "{explained:?}");

    // All that the question would get, and the figures behind it.
    let told = place.told(&["explain", "a", "--budget", "200"]);
    let window = place.told(&["session", "window", "a", "--budget", "200"]);
    assert_eq!(told["messages"], window["memory_messages"]);
    assert_eq!(told["turns"], window["memory_trace"]["turns"]);
    assert_eq!(told["values"], window["memory_context"]);
}

#[test]
fn sessions_and_nodes_are_listed_with_their_size() {
    let place = Place::new();
    place.append("a", "Where is it?", "In Bonn.", &["--user", "anna"]);
    place.append("a", "2", "two", &["--node", "llm", "--app", "shop"]);
    place.append("a", "3", "three", &["--node", "free"]);
    place.ran(&["session", "title", "a", "My parcel"]).ok();
    place.ran(&["session", "create", "b"]).ok();
    assert_eq!(place.ran(&["session", "list"]).ok().text(), "a\nb\n");
    assert_eq!(place.told(&["session", "list"]), json!({"sessions": ["a", "b"], "cursor": ""}));
    let long = place.ran(&["session", "list", "--long"]).ok();
    let rows: Vec<Vec<&str>> = long.text().lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(
        (&rows[0][..4], &rows[1][..]),
        (&["a", "My parcel", "anna", "2"][..], &["b", "-", "-", "-", "-", "-"][..])
    );
    assert!(rows[0][4].ends_with(" ago") && rows[0][5].ends_with(" B"), "{long:?}");
    let details = &place.told(&["session", "list", "--long"])["details"];
    assert_eq!((&details[0]["title"], &details[0]["messages"]), (&json!("My parcel"), &json!(2)));

    let nodes = place.told(&["session", "nodes", "a"])["nodes"].clone();
    let named: Vec<_> =
        nodes.as_array().unwrap().iter().map(|node| [&node["app"], &node["node"], &node["messages"]]).collect();
    assert_eq!(json!(named), json!([[null, "free", 2], ["shop", "llm", 2]]));
    let table = place.ran(&["session", "nodes", "a"]).ok();
    assert!(table.text().starts_with("free\t-\t2\t") && table.text().contains("\nllm\tshop\t2\t"), "{table:?}");
    assert_eq!(place.ran(&["session", "nodes", "b"]).ok().text(), "");
    assert!(place.ran(&["session", "nodes", "c"]).err.contains("Session 'c' not found"));

    // The session's facts name its nodes, and those of a node are shown the same way.
    let shown = place.ran(&["session", "show", "a"]).ok();
    assert!(shown.text().contains("node\tfree\nnode\tllm of app shop\n"), "{shown:?}");
    assert_eq!(place.told(&["session", "show", "a"])["nodes"][1]["node"], "llm");
    let of_node = ["a", "--node", "llm", "--app", "shop"];
    let (show, describe) =
        ([&["session", "show"], &of_node[..]].concat(), [&["session", "describe"], &of_node[..]].concat());
    assert_eq!(place.told(&show)["next"], 2);
    assert_eq!(place.ran(&show).ok().text(), place.ran(&describe).ok().text());
    let missing = place.ran(&["session", "show", "a", "--node", "llm"]);
    assert!(missing.code == 1 && missing.err.contains("also needs --app"), "{missing:?}");
}

#[test]
fn missing_sessions_are_reported_and_not_created() {
    let place = Place::new();
    // So that there is a store.
    place.ran(&["session", "create", "a"]).ok();
    place.ran(&["session", "delete", "a"]).ok();
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
    let ran = call(&["explain", "a", "--set=conversation=false", "--dir", &place.path], b"");
    assert!(ran.code == 2 && ran.err.contains("conversation=true"), "{ran:?}");
}

#[test]
fn a_missing_parent_is_refused() {
    let place = Place::new();
    place.append("a", "?", "In Bonn.", &["--id", "m1"]);
    for arguments in [
        &["session", "append", "a", "--answer", "In Rome.", "--parent", "m9"][..],
        &["session", "window", "a", "--parent", "m9"],
        &["explain", "a", "--parent", "m9"],
    ] {
        let ran = place.ran(arguments);
        assert!(ran.code == 1 && ran.err.contains("Session 'a' has no message 'm9'"), "{arguments:?}: {ran:?}");
        assert!(ran.text().is_empty(), "{ran:?}");
    }
    let absent = place.ran(&["session", "append", "b", "--answer", "In Rome.", "--parent", "m1"]);
    assert!(absent.code == 1 && absent.err.contains("'b'"), "{absent:?}");
    assert_eq!(place.told(&["session", "list"])["sessions"], json!(["a"]));
    assert_eq!(place.told(&["session", "describe", "a"])["next"], 2);
    // As entries have it, this one is the newest.
    place.append("a", "?", "In Rome.", &["--parent", "00000000-0000-0000-0000-000000000000"]);
    place.ran(&["session", "window", "a", "--parent", "m1"]).ok();
}

#[test]
fn a_turn_needs_conversations() {
    let place = Place::new();
    place.ran(&["session", "create", "a"]).ok();
    let turn = ["session", "append", "a", "--question", "?", "--answer", "!", "--dir", &place.path];
    let ran = call(&turn, b"");
    assert!(ran.code == 2 && ran.err.contains("set conversation=true"), "{ran:?}");
    assert_eq!(place.told(&["session", "keys", "a"])["keys"], json!([]));
}

#[test]
fn a_missing_node_without_an_app_gets_a_hint() {
    let place = Place::new();
    place.append("a", "1", "one", &["--node", "llm", "--app", "shop"]);
    place.append("a", "2", "two", &["--node", "free"]);
    for arguments in [&["session", "messages", "a"][..], &["session", "window", "a"], &["explain", "a"]] {
        let ran = place.ran(&[arguments, &["--node", "llm"]].concat());
        assert!(
            ran.code == 1 && ran.err.contains("Session 'a' has no node 'llm' (a node of an app also needs --app)"),
            "{arguments:?}: {ran:?}"
        );
        place.ran(&[arguments, &["--node", "free"]].concat()).ok();
        let other = place.ran(&[arguments, &["--node", "llm", "--app", "other"]].concat());
        assert!(other.code == 1 && !other.err.contains("also needs"), "{other:?}");
        let usage = place.ran(&[arguments, &["--app", "shop"]].concat());
        assert!(usage.code == 2 && usage.err.contains("--node"), "{usage:?}");
    }
}

#[test]
fn skipped_and_truncated_texts_are_explained() {
    let place = Place::new();
    let short = "--set=max_message_length=20";
    place.append("a", "Where is it?", "In Bonn, I think, or in Leipzig.", &[short]);
    let plain = place.ran(&["explain", "a", "--json"]).ok().json();
    assert!(plain["truncated"] == 1 && plain.get("skipped").is_none(), "{plain}");
    for text in [" ", "", "[generation was interrupted]"] {
        let ran = place.ran(&["session", "append", "a", "--answer", text]);
        assert!(ran.code == 1 && ran.err.contains("not stored"), "{ran:?}");
    }
    let told = place.told(&["explain", "a"]);
    assert_eq!((&told["skipped"], &told["truncated"]), (&json!({"blank": 2, "marker": 1}), &json!(1)));
    let table = place.ran(&["explain", "a"]).ok();
    for row in ["answers not stored\t2 blank, 1 one of skip_markers\n", "texts cut when stored\t1\n"] {
        assert!(table.text().contains(row), "{table:?}");
    }
    let unknown = place.ran(&["explain", "a", "--budget", "63"]);
    assert!(unknown.code == 2 && unknown.err.contains("64..=2000000"), "{unknown:?}");
}

#[test]
fn all_messages_can_be_replaced() {
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
        (message("user", "x") + "\n\n" + &message("critic", "y"), "Message 3: its role is 'critic'"),
        ((message("user", "x") + "\n").repeat(10_001) + &message("critic", "y"), "Message 10002: its role is 'critic'"),
        (
            (json!({"role": "user", "content": "x", "id": "m"}).to_string() + "\n").repeat(10_001),
            "Message 2: an earlier message has its id 'm'",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let ran = set();
        assert!(ran.code > 0 && ran.err.contains(told) && ran.err.lines().count() == 1, "{ran:?}");
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

#[test]
fn hashed_ids_are_accepted_and_shown_unhashed() {
    let place = Place::new();
    let (hash, of_user) = ("--set=session_ids=hash", "--set=recall=user");
    let told = |arguments: &[&str]| place.told(&[arguments, &[hash, of_user]].concat());
    let (id, user) = ("telegram:42", "eva@example.org");
    place.append(id, "Where is my red parcel?", "In Bonn.", &["--user", user, hash, of_user]);
    place.append(id, "And my bicycle?", "In Rome.", &["--user", user, hash, of_user]);

    assert_eq!(told(&["session", "list"])["sessions"], json!([id]));
    for command in ["show", "describe"] {
        assert_eq!(told(&["session", command, id])["session"], id, "{command}");
    }
    assert_eq!(said(&told(&["session", "messages", id])).len(), 4);
    assert_eq!(told(&["session", "upkeep", id])["tasks"]["recall"], "done");
    assert!(
        told(&["recall", "rebuild", id])["sessions"] == 1 && told(&["recall", "rebuild", "--all"])["sessions"] == 1
    );
    assert_eq!(told(&["user", "sessions", user])["sessions"][0]["session"], id);
    assert_eq!(told(&["user", "search", user, "parcel"])["found"][0]["session"], id);
    let memories = told(&["memories", "--user", user, "--threshold", "0", "Which parcel is red?"]);
    assert_eq!(memories["memories"][0]["session"], id, "{memories}");

    // What is exported comes in again as the same session.
    let file = format!("{}.jsonl", place.path);
    told(&["session", "export", id, "--output", &file]);
    told(&["session", "delete", id]);
    assert_eq!(told(&["session", "list"])["sessions"], json!([]));
    told(&["session", "import", &file]);
    assert_eq!(said(&told(&["session", "messages", id])).len(), 4);

    // Without the option it is listed by its id, too, and what names it is told of the option.
    assert_eq!(place.told(&["session", "list"])["sessions"], json!([id]));
    let refused = place.ran(&["session", "show", id]);
    assert!(refused.code == 1 && refused.err.contains("With session_ids \"hash\""), "{refused:?}");
}
