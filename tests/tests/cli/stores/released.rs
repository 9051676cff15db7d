//! Stores of released versions are opened, read and continued.

use std::{fs, path::PathBuf};

use keepline_local_redis::{RedisCluster, RedisServer};
use serde_json::{Value, json};

use crate::{Ran, answer, call, question};

const OPTIONS: [&str; 8] = [
    "--profile",
    "chat",
    "--set=session_ttl_hours=876000",
    "--set=node_ttl_hours=876000",
    "--set=recall=user",
    "--set=max_history=20",
    "--set=max_context_tokens=2000",
    // For clusters, whose registries are many.
    "--set=store_timeout_ms=30000",
];

fn data(file: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/data/released-0.2.0")).join(file)
}

fn text(file: &str) -> String {
    fs::read_to_string(data(file)).unwrap()
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// A command for each key that brings it back.
fn restoring(file: &str) -> Vec<redis::Cmd> {
    let restore = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let mut command = redis::cmd("RESTORE");
        command.arg(line["key"].as_str().unwrap()).arg(line["expires_at"].as_u64().unwrap_or(0));
        command.arg(bytes(line["dump"].as_str().unwrap())).arg("ABSTTL");
        command
    };
    text(file).lines().map(restore).collect()
}

/// A store as it was left, and what the command line says for it.
struct Store {
    arguments: Vec<String>,
    /// What the released version exported from it.
    exported: String,
    _directory: Option<tempfile::TempDir>,
}

impl Store {
    fn directory(name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for file in fs::read_dir(data(name)).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), directory.path().join(file.file_name())).unwrap();
        }
        let arguments = vec!["--dir".to_owned(), directory.path().to_str().unwrap().to_owned()];
        Self { arguments, exported: text(&format!("{name}.export.jsonl")), _directory: Some(directory) }
    }

    fn redis(server: &RedisServer) -> Self {
        let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        for restore in restoring("redis.jsonl") {
            restore.exec(&mut connection).unwrap();
        }
        let arguments = vec!["--set=backend=redis".to_owned(), format!("--set=redis_url={}", server.url())];
        Self { arguments, exported: text("redis.export.jsonl"), _directory: None }
    }

    fn cluster(cluster: &RedisCluster) -> Self {
        let connect = |node: &RedisServer| redis::Client::open(node.url()).unwrap().get_connection().unwrap();
        let mut nodes: Vec<_> = cluster.nodes().iter().map(connect).collect();
        for restore in restoring("cluster.jsonl") {
            // Only the node that has the key's slot takes it.
            assert!(nodes.iter_mut().any(|node| restore.exec(node).is_ok()));
        }
        let nodes = format!("--set=redis_nodes={}", cluster.addresses().join(","));
        let arguments = vec!["--set=backend=redis".to_owned(), "--set=redis_cluster=true".to_owned(), nodes];
        Self { arguments, exported: text("cluster.export.jsonl"), _directory: None }
    }

    fn run(&self, arguments: &[&str], input: &str) -> Ran {
        let store = self.arguments.iter().map(String::as_str);
        let all: Vec<&str> = arguments.iter().copied().chain(OPTIONS).chain(store).collect();
        call(&all, input.as_bytes()).ok()
    }

    fn messages(&self, session: &str) -> Vec<String> {
        let shown = self.run(&["session", "messages", session, "--limit", "0", "--json"], "").json();
        let content = |entry: &Value| entry["message"]["content"].as_str().unwrap_or_default().to_owned();
        shown["messages"].as_array().unwrap().iter().map(content).collect()
    }

    /// What its next question gets.
    fn window(&self, session: &str, user: &str) -> Value {
        let asked =
            json!({"lane": "questions", "text": "And now?", "metadata": {"session_id": session, "user_id": user}});
        serde_json::from_str::<Value>(self.run(&["run"], &asked.to_string()).text()).unwrap()["metadata"].clone()
    }

    /// It reads as it was written.
    fn is_unchanged(&self) {
        assert_eq!(self.run(&["session", "export", "--all"], "").text(), self.exported);
    }

    /// What was said in it goes on.
    fn goes_on(&self) {
        let window = self.window("parcel", "anna@example.org");
        assert_eq!(window["memory_context"]["counter"], 42, "{window}");
        let contents = window["memory_messages"].to_string();
        assert!(contents.contains("Where is my parcel 4711?") && contents.contains("in transit"), "{contents}");
        // Another user's it stays.
        assert_eq!(self.window("parcel", "ben").get("memory_messages"), None);

        let before = self.messages("parcel").len();
        let entries = question("parcel", "And the day after?")
            .replace("\"session_id\"", "\"user_id\":\"anna@example.org\",\"session_id\"")
            + &answer("It will be there.");
        self.run(&["run"], &entries);
        let after = self.messages("parcel");
        assert_eq!(after.len(), before + 2);
        assert_eq!(after[before..], ["And the day after?", "It will be there."]);
        let window = self.window("parcel", "anna@example.org");
        assert_eq!(window["memory_context"]["last_answer"], "It will be there.");
    }

    /// Users keep what is theirs, and can be forgotten.
    fn users_are_known(&self) {
        let listed = self.run(&["user", "sessions", "ben", "--json"], "").json();
        let mut sessions: Vec<&str> =
            listed["sessions"].as_array().unwrap().iter().map(|session| session["session"].as_str().unwrap()).collect();
        sessions.sort_unstable();
        assert_eq!(sessions, ["invoice", "long", "waiting"]);
        assert_eq!(self.run(&["user", "get", "ben", "language"], "").text(), "\"es\"\n");
        let recalled = self.run(&["recall", "long", "What is the code of box 3?", "--user", "ben"], "");
        assert!(recalled.text().contains("3743"), "{recalled:?}");
        let forgotten = self.run(&["user", "forget", "ben", "--yes", "--json"], "").json();
        assert_eq!((&forgotten["sessions"], &forgotten["remaining"]), (&json!(3), &json!(0)));
        assert_eq!(self.run(&["session", "list"], "").text(), "empty\nnobody\nparcel\n");
    }
}

#[test]
fn a_directory_of_a_released_version_is_continued() {
    let store = Store::directory("directory");
    store.is_unchanged();
    store.goes_on();
    store.users_are_known();
}

#[test]
fn a_directory_left_by_a_killed_released_version_is_continued() {
    let store = Store::directory("killed-directory");
    store.is_unchanged();
    assert_eq!(store.messages("waiting").first().unwrap(), "Cancel order 5.");
}

#[test]
fn a_redis_of_a_released_version_is_continued() {
    let server = RedisServer::start().unwrap();
    let store = Store::redis(&server);
    store.is_unchanged();
    store.goes_on();
    store.users_are_known();
}

#[test]
fn a_cluster_of_a_released_version_is_continued() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = Store::cluster(&cluster);
    store.is_unchanged();
    store.goes_on();
    store.users_are_known();
}

#[test]
fn an_export_of_a_released_version_is_imported_and_exported_the_same() {
    let into = Store { arguments: vec![], exported: String::new(), _directory: None };
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("memory");
    let store = Store { arguments: vec!["--dir".to_owned(), place.to_str().unwrap().to_owned()], ..into };
    let exported = text("redis.export.jsonl");
    store.run(&["session", "import", "-"], &exported);
    assert_eq!(store.run(&["session", "export", "--all"], "").text(), exported);
}

/// Its contract is an earlier draft.
#[test]
fn the_released_component_is_refused_by_name_before_anything_is_written() {
    let server = RedisServer::start().unwrap();
    let store = Store::redis(&server);
    let released = format!("--plugin={}", data("keepline.wasm").to_str().unwrap());
    let arguments: Vec<&str> =
        ["run", &released].into_iter().chain(store.arguments.iter().map(String::as_str)).collect();
    let refused = call(&arguments, (question("parcel", "?") + &answer("x")).as_bytes());
    assert_eq!((refused.code, refused.text()), (3, ""), "{refused:?}");
    assert!(refused.err.contains("refused: the plugin imports keepline:memory/key-value@0.2.0"), "{}", refused.err);
    assert!(refused.err.contains("this host provides only keepline:store@0.3"), "{}", refused.err);
    store.is_unchanged();
}
