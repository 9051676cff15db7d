//! The conformance kit of `conformance/*.json`, replayed: its README tells what steps and expectations mean. What
//! a store answers otherwise than the kit asks for ends the test, with the case and the step.

mod json;
pub mod pattern;

use std::{collections::HashMap, fs, path::Path, time::Duration};

use keepline_stores::{Deadline, Writer};
use serde_json::{Map, Value};

use self::pattern::{expanded, matches, substituted};
use crate::stores::{StoreUnderTest, new_writer};

/// Replays every case of a file, each on a store of its own.
pub async fn replay(topic: &str, store: impl Fn() -> StoreUnderTest) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance").join(format!("{topic}.json"));
    let file: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let mut failed = Vec::new();
    for case in file["cases"].as_array().unwrap() {
        let under_test = store();
        let name = case["name"].as_str().unwrap();
        let mut replay = Replay { under_test, names: HashMap::new(), sent: HashMap::new() };
        if !replay.serves(case) {
            continue;
        }
        for (number, step) in json::list(case, "steps", Value::clone).into_iter().enumerate() {
            if step["call"] == "set-clock-ahead" && !replay.under_test.has_clock_to_set() {
                break;
            }
            if let Err(why) = replay.step(expanded(step)).await {
                failed.push(format!("{topic}, case {name:?}, step {}: {why}", number + 1));
                break;
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// The topics: the names of the files.
pub fn topics() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let topics = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let mut topics: Vec<_> = topics.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    topics.sort_unstable();
    topics
}

/// A case under way.
struct Replay {
    under_test: StoreUnderTest,
    /// What the patterns remember.
    names: HashMap<String, Value>,
    /// Calls that can be repeated, with their identities.
    sent: HashMap<String, (Writer, Map<String, Value>)>,
}

impl Replay {
    /// Whether the store has what a case needs and lacks what it must lack.
    fn serves(&self, case: &Value) -> bool {
        let capabilities = json::told_capabilities(self.under_test.store.capabilities());
        let all = |member: &str, wanted: bool| {
            let names = case.get(member).and_then(Value::as_array).into_iter().flatten();
            names.map(|name| &capabilities[name.as_str().unwrap()]).all(|capability| *capability == wanted)
        };
        all("needs", true) && all("lacks", false)
    }

    async fn step(&mut self, step: Value) -> Result<(), String> {
        let Value::Object(mut step) = step else { panic!("a step is an object: {step}") };
        let expected = step.remove("expect");
        if step["call"] == "advance" {
            let time = json::number(&Value::Object(step), "milliseconds");
            self.under_test.pass_time(Duration::from_millis(time));
            return Ok(());
        }
        if step["call"] == "set-clock-ahead" {
            let time = json::number(&Value::Object(step), "milliseconds");
            self.under_test.set_clock_ahead(Duration::from_millis(time));
            return Ok(());
        }
        let (writer, call) = match step["call"].as_str() {
            Some("repeat") => self.sent[step["step"].as_str().unwrap()].clone(),
            _ => (new_writer(), step),
        };
        if let Some(id) = call.get("id") {
            self.sent.insert(id.as_str().unwrap().to_owned(), (writer.clone(), call.clone()));
        }
        let call = substituted(Value::Object(call), &self.names);
        let answer = self.call(&writer, &call).await;
        let expected = expected.unwrap_or_else(|| panic!("this step expects nothing: {call}"));
        matches(&expected, &answer, &mut self.names).map_err(|why| format!("{why}\ncall: {call}\nanswer: {answer}"))
    }

    async fn call(&self, writer: &Writer, call: &Value) -> Value {
        let store = &self.under_test.store;
        match &*json::text(call, "call") {
            "transact" => {
                let transaction = json::transaction(&call["transaction"]);
                json::result(store.transact(writer, &transaction, Deadline::NEVER).await, json::told_receipt)
            }
            "transact-each" => {
                let transactions = json::list(call, "transactions", json::transaction);
                let attempts = store.transact_each(writer, &transactions, Deadline::NEVER).await;
                let told = |attempt| match attempt {
                    Ok(receipt) => serde_json::json!({ "receipt": json::told_receipt(receipt) }),
                    Err(failure) => serde_json::json!({ "failure": json::told_failure(failure) }),
                };
                attempts.into_iter().map(told).collect()
            }
            "list-buckets" => {
                let (kind, cursor) = (json::kind(&json::text(call, "kind")), json::text(call, "cursor"));
                let page = store.list_buckets(kind, &cursor, json::number(call, "limit"), Deadline::NEVER).await;
                json::result(page, json::told_page)
            }
            "delete-bucket" => {
                let incarnation = json::option(call, "incarnation", |_| json::text(call, "incarnation"));
                let (bucket, max_keys) = (json::bucket(&call["bucket"]), json::number(call, "max-keys"));
                let deletion =
                    store.delete_bucket(writer, &bucket, incarnation.as_deref(), max_keys, Deadline::NEVER).await;
                json::result(deletion, json::told_deletion)
            }
            "capabilities" => json::told_capabilities(store.capabilities()),
            other => panic!("there is no call {other}"),
        }
    }
}
