//! Sessions as files: exported, imported, and imported from other programs.

use std::{fs, path::Path};

use keepline_local_redis::RedisServer;
use serde_json::{Value, json};

use super::{Ran, answer, call, keepline, question, signal};

mod chat_messages;
mod importers;
mod invalid_files;
mod random;
mod round_trip;

/// Where sessions are kept: what a command line says for it.
struct Place {
    _directory: tempfile::TempDir,
    arguments: Vec<String>,
}

impl Place {
    fn directory() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("memory").to_str().unwrap().to_owned();
        Self { _directory: directory, arguments: ["--profile", "chat", "--dir", &path].map(str::to_owned).to_vec() }
    }

    fn redis(server: &RedisServer) -> Self {
        let url = format!("redis_url={}", server.url());
        let prefix = format!("key_prefix=test-{:016x}", fastrand::u64(..));
        let arguments = ["--profile", "chat", "--set", "backend=redis", "--set", &url, "--set", &prefix];
        Self { _directory: tempfile::tempdir().unwrap(), arguments: arguments.map(str::to_owned).to_vec() }
    }

    fn command<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        arguments.iter().copied().chain(self.arguments.iter().map(String::as_str)).collect()
    }

    fn run(&self, arguments: &[&str], input: &[u8]) -> Ran {
        call(&self.command(arguments), input)
    }

    fn export(&self, arguments: &[&str]) -> String {
        let ran = self.run(&[&["session", "export"], arguments].concat(), b"").ok();
        assert_eq!(ran.err, "");
        ran.text().to_owned()
    }

    fn import(&self, lines: &str, arguments: &[&str]) -> Ran {
        self.run(&[&["session", "import", "-"], arguments].concat(), lines.as_bytes())
    }

    /// What an import tells in JSON, whether or not all went well.
    fn told(&self, lines: &str, arguments: &[&str]) -> Value {
        self.import(lines, &[arguments, &["--json"]].concat()).json()
    }

    /// Who said what in a conversation.
    fn said(&self, session: &str, arguments: &[&str]) -> Vec<String> {
        let ran =
            self.run(&[&["session", "messages", session, "--limit", "0", "--json"], arguments].concat(), b"").ok();
        let one = |entry: &Value| {
            let message = &entry["message"];
            format!("{}: {}", message["role"].as_str().unwrap(), message["content"].as_str().unwrap())
        };
        ran.json()["messages"].as_array().unwrap().iter().map(one).collect()
    }

    /// A conversation with all that one can have: branches, tools, a long result, files, a removed message, a title, nodes, an
    /// owner, values of every kind.
    fn fill(&self, session: &str) {
        let long = "é".repeat(60_000);
        let input = [
            question(session, "Where is it?"),
            format!("{}\n", json!({"lane": "tools", "tool": {"call_id": "c", "name": "track", "arguments": {"n": 7}}})),
            format!("{}\n", json!({"lane": "tools", "tool": {"call_id": "c", "output": long}})),
            format!("{}\n", json!({"lane": "answers", "text": "In \u{202e}Bonn.\n", "metadata": {"message_id": "m1"}})),
            format!(
                "{}\n",
                json!({"lane": "questions", "text": "And this?",
                       "metadata": {"session_id": session, "files": [{"type": "image", "url": "x"}], "user_id": "ben@x"}})
            ),
            answer("A picture."),
        ]
        .concat();
        self.run(&["run"], input.as_bytes()).ok();
        let append = |question: &str, more: &[&str]| {
            let turn = ["session", "append", session, "--question", question, "--answer", "Well."];
            self.run(&[&turn, more].concat(), b"").ok();
        };
        append("Other way?", &["--parent", "m1", "--id", "m2"]);
        append("To be removed", &["--id", "m3"]);
        append("Node?", &["--node", "n1", "--app", "a1", "--user", "ben@x"]);
        append("Node?", &["--node", "n2"]);
        for (key, value) in
            [("nested", "{\"a\": 1,\"a\":2.50}"), ("lines", "[1,\n2]"), ("nul", "null"), ("big", "1e400")]
        {
            self.run(&["session", "put", session, key, value], b"").ok();
        }
        self.run(&["session", "remove", session, "8"], b"").ok();
        self.run(&["session", "title", session, "My parcel"], b"").ok();
    }
}

fn lines(text: &str) -> Vec<Value> {
    // Some of the numbers are too large for this reader.
    text.lines().map(|line| serde_json::from_str(&line.replace("1e400", "0")).unwrap()).collect()
}
