//! One Redis shared with the original node: we read and continue its sessions, we write its layout byte for byte, and
//! it can continue ours. Redis only, checked with a client of its own.

mod expiry;
mod ours;
mod theirs;

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Duration};

use futures::future::join_all;
use keepline::{
    pipe::Effect,
    sessions::SessionErrorCode as Code,
    store::{RedisStore, Store},
};
use keepline_tests::{
    lanes::{Node, StillClock, operations_told},
    servers,
    stores::{RawRedis, StoreUnderTest},
    until::until_true,
};
use redis::cmd;
use serde_json::{Value, json};

const DAY: &str = r#"{"session_ttl_hours": 24}"#;
const DAY_MS: i64 = 86_400_000;

/// The original node at work on the same keys, command by command.
struct Original<'a>(&'a RawRedis);

impl Original<'_> {
    fn at(session: &str, rest: &str) -> String {
        format!("{session}:{rest}")
    }

    fn transaction(&self, commands: &[(&str, String, Vec<String>)]) {
        self.0.run::<redis::Value>(&cmd("MULTI"));
        for (name, rest, arguments) in commands {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            self.0.on::<redis::Value>(name, rest, &arguments);
        }
        self.0.run::<redis::Value>(&cmd("EXEC"));
    }

    fn create(&self, session: &str, ttl_seconds: Option<f64>) {
        let meta = Self::at(session, "__meta__");
        let ttl = ttl_seconds.map_or("None".into(), |seconds| format!("{seconds:?}"));
        self.transaction(&[
            ("SADD", "__sessions__".into(), vec![session.into()]),
            ("HSET", meta.clone(), vec!["created_at".into(), "1795186917.032595".into(), "ttl_seconds".into(), ttl]),
        ]);
        if let Some(seconds) = ttl_seconds {
            let milliseconds = format!("{:.0}", (seconds * 1000.0).ceil().max(1.0));
            for name in ["__keys__", "__history__", "__meta__"] {
                self.0.on::<i64>("PEXPIRE", &Self::at(session, name), &[&milliseconds]);
            }
        }
    }

    /// What is left of the session's life, in milliseconds; panics if it is over.
    fn guard(&self, session: &str) -> Option<i64> {
        assert!(self.0.on::<bool>("SISMEMBER", "__sessions__", &[session]));
        let left: i64 = self.0.on("PTTL", &Self::at(session, "__meta__"), &[]);
        assert_ne!(left, -2);
        (left > 0).then_some(left)
    }

    fn history_record(&self, session: &str, record: &str) {
        self.0.on::<i64>("RPUSH", &Self::at(session, "__history__"), &[record]);
    }

    fn put(&self, session: &str, key: &str, value: &Value) {
        let left = self.guard(session);
        let data = Self::at(session, key);
        let record = format!(r#"{{"op": "put", "key": "{key}", "timestamp": 1795186918.25}}"#);
        let mut commands = vec![
            ("SET", data.clone(), vec![python(value)]),
            ("SADD", Self::at(session, "__keys__"), vec![key.into()]),
            ("RPUSH", Self::at(session, "__history__"), vec![record]),
        ];
        if let Some(left) = left {
            for name in [key, "__keys__", "__history__"] {
                commands.push(("PEXPIRE", Self::at(session, name), vec![left.to_string()]));
            }
        }
        self.transaction(&commands);
    }

    fn increment(&self, session: &str, key: &str) -> i64 {
        let left = self.guard(session);
        let value = self.0.on("INCRBY", &Self::at(session, key), &["1"]);
        self.0.on::<i64>("SADD", &Self::at(session, "__keys__"), &[key]);
        self.history_record(session, &format!(r#"{{"op": "put", "key": "{key}", "timestamp": 1795186918.25}}"#));
        if let Some(left) = left {
            for name in [key, "__keys__", "__history__"] {
                self.0.on::<i64>("PEXPIRE", &Self::at(session, name), &[&left.to_string()]);
            }
        }
        value
    }

    /// What a question would be told: resume, list the keys, get each.
    fn read(&self, session: &str) -> Option<BTreeMap<String, Value>> {
        let is_listed: bool = self.0.on("SISMEMBER", "__sessions__", &[session]);
        if !is_listed || !self.0.on::<bool>("EXISTS", &Self::at(session, "__meta__"), &[]) {
            return None;
        }
        self.guard(session);
        let keys: Vec<String> = self.0.on("SMEMBERS", &Self::at(session, "__keys__"), &[]);
        let get = |key: String| {
            let text: String = self.0.on("GET", &Self::at(session, &key), &[]);
            (key, serde_json::from_str(&text).unwrap())
        };
        Some(keys.into_iter().map(get).collect())
    }

    fn history(&self, session: &str) -> Vec<Value> {
        self.guard(session);
        let entries: Vec<String> = self.0.on("LRANGE", &Self::at(session, "__history__"), &["0", "-1"]);
        entries.iter().map(|entry| serde_json::from_str(entry).unwrap()).collect()
    }

    fn delete(&self, session: &str) {
        let keys: Vec<String> = self.0.on("SMEMBERS", &Self::at(session, "__keys__"), &[]);
        for key in keys.iter().map(String::as_str).chain(["__keys__", "__history__", "__meta__"]) {
            self.0.on::<i64>("DEL", &Self::at(session, key), &[]);
        }
        self.0.on::<i64>("SREM", "__sessions__", &[session]);
    }
}

/// JSON as Python's `json.dumps` writes it.
fn python(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(python).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| format!("{}: {}", python_string(key), python(value));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => python_string(text),
        other => other.to_string(),
    }
}

fn python_string(text: &str) -> String {
    let mut out = String::new();
    for c in serde_json::to_string(text).unwrap().chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").unwrap();
            }
        }
    }
    out
}

fn text(raw: &RawRedis, rest: &str) -> String {
    raw.on("GET", rest, &[])
}

fn list(raw: &RawRedis, rest: &str) -> Vec<String> {
    raw.on("LRANGE", rest, &["0", "-1"])
}

fn set(raw: &RawRedis, rest: &str) -> Vec<String> {
    let mut members: Vec<String> = raw.on("SMEMBERS", rest, &[]);
    members.sort_unstable();
    members
}

fn kind(raw: &RawRedis, rest: &str) -> String {
    raw.on("TYPE", rest, &[])
}

/// Every key of a session but the writers' bookkeeping, which has an expiry of its own.
fn keys_of(raw: &RawRedis, session: &str) -> Vec<String> {
    let prefix = format!("{session}:");
    let writers = format!("{session}:__writers__");
    raw.keys().into_iter().filter(|key| key.starts_with(&prefix) && *key != writers).collect()
}
