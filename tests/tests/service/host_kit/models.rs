//! The model of a case, on a server of its own. A service works as soon as there is work, so the model keeps it waiting until
//! the case has come to that step.

use std::{sync::Arc, thread, time::Duration};

use keepline_tests::{
    models::{Asked, ModelServer, Reply},
    until::until,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::server::Server;

pub struct ScriptedModel {
    server: ModelServer,
    /// Null: it says nothing yet.
    script: Arc<Mutex<Value>>,
    makes_vectors: bool,
    /// How much of what it was asked belongs to earlier steps.
    told: usize,
}

impl ScriptedModel {
    /// None: nothing of the case has one.
    pub fn of_case(case: &Value) -> Option<Self> {
        let has_model = |step: &Value| step.get("model").is_some();
        if !has_model(case) && !case["steps"].as_array().unwrap().iter().any(has_model) {
            return None;
        }
        let script = Arc::new(Mutex::new(case.get("model").cloned().unwrap_or_default()));
        let said = script.clone();
        let server = ModelServer::start(move |asked| {
            loop {
                let script = said.lock().clone();
                if !script.is_null() {
                    return answer(&script, asked);
                }
                thread::sleep(Duration::from_millis(5));
            }
        });
        Some(Self { server, script, makes_vectors: case["model"].get("vectors").is_some(), told: 0 })
    }

    /// Of a service that asks it.
    pub fn arguments(&self) -> Vec<String> {
        let mut kinds = vec!["model"];
        kinds.extend(self.makes_vectors.then_some("embedding"));
        let fields = |kind: &str| {
            let url = self.server.url();
            [format!("{kind}=openai"), format!("{kind}_url={url}"), format!("{kind}_name=kit")]
        };
        kinds.into_iter().flat_map(fields).flat_map(|field| ["--set".to_owned(), field]).collect()
    }

    /// What it was asked up to now, of the step's work.
    pub fn work(&mut self, server: &Server, step: &Value) -> Value {
        if let Some(script) = step.get("model") {
            *self.script.lock() = script.clone();
        }
        let asks_nothing = step["expect"]["asked"].as_array().is_some_and(Vec::is_empty);
        // The first work asks for all that the case has the model say.
        let script = self.script.lock().clone();
        let wanted = script.as_object().filter(|_| self.told == 0 && !asks_nothing).map_or(0, |script| script.len());
        let asked = until("the model is asked", || {
            let asked = self.server.asked().split_off(self.told);
            let mut purposes: Vec<_> = asked.iter().map(purpose).collect();
            purposes.sort_unstable();
            purposes.dedup();
            (asks_nothing || !asked.is_empty() && purposes.len() >= wanted).then_some(asked)
        });
        let mut reported = Vec::new();
        if step["expect"].get("reported").is_some() {
            until("work that failed is counted", || (failed_tasks(server) > 0).then_some(()));
            reported.push("model");
        }
        json!({"asked": asked.iter().map(spelled).collect::<Vec<_>>(), "reported": reported})
    }

    /// What it is asked from now on belongs to the next step.
    pub fn end_work(&mut self) {
        self.told = self.server.asked().len();
    }
}

fn failed_tasks(server: &Server) -> u64 {
    let metrics = server.send_to("GET", "/metrics", &[], "").body;
    let failed = metrics.lines().filter(|line| line.contains("_total{") && line.contains("outcome=\"failed\""));
    failed.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

fn purpose(asked: &Asked) -> &'static str {
    match asked.path.ends_with("/embeddings") {
        true => "vectors",
        false if asked.is_title() => "title",
        false => "summary",
    }
}

fn answer(script: &Value, asked: &Asked) -> Reply {
    if purpose(asked) == "vectors" {
        let pairs = script["vectors"].as_array().unwrap();
        let vector = |text: &str| {
            let pair = pairs.iter().find(|pair| text.contains(pair[0].as_str().unwrap())).unwrap();
            serde_json::from_value(pair[1].clone()).unwrap()
        };
        return Reply::Embed(asked.texts().into_iter().map(vector).collect());
    }
    match script[purpose(asked)].as_str() {
        Some(text) => Reply::Say(text.to_owned()),
        None => Reply::Raw(400, "", b"{\"error\":{\"message\":\"the kit has it fail\"}}".to_vec()),
    }
}

fn spelled(asked: &Asked) -> Value {
    if purpose(asked) == "vectors" {
        return json!({"purpose": "vectors", "texts": asked.texts()});
    }
    json!({"purpose": purpose(asked), "input": asked.content("user"), "max-tokens": asked.body["max_tokens"]})
}
