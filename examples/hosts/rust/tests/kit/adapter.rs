//! What stands between the kit and the host: a store with faults, a model with a script, and whoever changes replies.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use keepline_example_host::bindings::Problem;
use keepline_example_host::bindings::lanes::{AnswerEntry, AnswerReply, Configured, QuestionEntry, QuestionReply};
use keepline_example_host::bindings::listing::BucketPage;
use keepline_example_host::bindings::needs::{
    CallNeed, CompletionNeed, FailedResult, Need, Outcome, TextResult, VectorsNeed,
};
use keepline_example_host::bindings::tasks::{Job, Progress};
use keepline_example_host::bindings::types::{DeleteRequest, Deletion, Receipt, StoreInfo, Transaction};
use keepline_example_host::filter::{Arguments, Filter, KeepStore};
use keepline_example_host::host::{Model, missing};
use keepline_example_host::store::MemoryStore;
use serde_json::{Value, json};
use wasmtime::component::Val;
use wasmtime::{Error, Result};

/// The message of the error that the store knows nothing of.
pub const SECRET: &str = "redis://user:password@10.0.0.7";

#[derive(Default)]
pub struct FaultyStore {
    store: MemoryStore,
    pub fault: Option<String>,
}

impl FaultyStore {
    /// What a transaction meets with.
    fn meet(&self) -> Result<()> {
        let message = match self.fault.as_deref() {
            None => return Ok(()),
            Some("exception") => return Err(Error::msg(SECRET)),
            // More than an instance has memory for: it traps.
            Some("trap") => "x".repeat(128 << 20),
            Some("stuck") => {
                std::thread::sleep(Duration::from_millis(600));
                String::new()
            }
            Some(_) => "The store was told to fail".into(),
        };
        let code = self.fault.as_deref().filter(|fault| ["unavailable", "timed-out"].contains(fault));
        Err(Problem::new(code.unwrap_or("timed-out"), "", 0, &message).into())
    }
}

impl KeepStore for FaultyStore {
    fn about(&self) -> StoreInfo {
        self.store.about()
    }

    fn transact_each(&mut self, transactions: &[Transaction]) -> Vec<Result<Receipt>> {
        match self.meet() {
            Ok(()) => self.store.transact_each(transactions),
            Err(error) => vec![Err(error)]
                .into_iter()
                .chain(transactions.iter().skip(1).map(|_| self.meet().map(|()| unreachable!())))
                .collect(),
        }
    }

    fn delete_each(&mut self, requests: &[DeleteRequest]) -> Vec<Result<Deletion>> {
        self.store.delete_each(requests)
    }

    fn list_buckets(&mut self, kind: &str, cursor: &str, limit: u32) -> Result<BucketPage> {
        self.store.list_buckets(kind, cursor, limit)
    }
}

/// A model that follows a script.
pub struct Script {
    pub says: Value,
    pub asked: Vec<Value>,
}

impl Model for Script {
    fn complete(&mut self, need: &CompletionNeed) -> Outcome {
        self.asked.push(json!({
            "id": need.id, "purpose": need.purpose, "instructions": need.instructions, "input": need.input,
            "max-tokens": need.max_tokens,
        }));
        match &self.says[&need.purpose] {
            Value::String(text) => Outcome::Text(TextResult { text: text.clone() }),
            Value::Null => missing(),
            _ => Outcome::Failed(FailedResult { message: "The model was told to fail".into() }),
        }
    }

    /// Only cases that need indexes ask for vectors.
    fn embed(&mut self, need: &VectorsNeed) -> Outcome {
        self.asked.push(json!({ "purpose": "vectors", "texts": need.texts }));
        missing()
    }
}

/// What passes between the host and the component.
#[derive(Default)]
pub struct Inspection {
    pub replies: Value,
    pub results: Vec<Value>,
}

pub struct Inspected {
    pub inner: Box<dyn Filter>,
    pub inspection: Rc<RefCell<Inspection>>,
}

impl Inspected {
    /// The members to replace in the first reply of a function. What can't be replaced here must not pass unseen.
    fn replies<const N: usize>(&self, function: &str, known: [&str; N]) -> [Option<Value>; N] {
        let reply = self.inspection.borrow_mut().replies.get_mut(function).map(Value::take).unwrap_or_default();
        let unknown = reply.as_object().into_iter().flatten().find(|(name, _)| !known.contains(&name.as_str()));
        assert!(unknown.is_none(), "{function} has an unknown member {unknown:?}");
        known.map(|name| reply.get(name).cloned())
    }
}

fn text(json: &Value) -> String {
    json.as_str().unwrap().into()
}

impl Filter for Inspected {
    fn configure(&mut self, options: &str, time: Duration) -> Result<Result<Configured, Problem>> {
        let mut reply = self.inner.configure(options, time)?;
        if let ([Some(warnings)], Ok(configured)) = (self.replies("configure", ["warnings"]), &mut reply) {
            let problem =
                |json: &Value| Problem::new(&text(&json["code"]), &text(&json["subject"]), 0, &text(&json["message"]));
            configured.warnings = warnings.as_array().unwrap().iter().map(problem).collect();
        }
        Ok(reply)
    }

    fn question(&mut self, entry: &QuestionEntry, time: Duration) -> Result<QuestionReply> {
        let mut reply = self.inner.question(entry, time)?;
        if let [Some(effect)] = self.replies("question", ["effect"]) {
            reply.effect = text(&effect);
        }
        Ok(reply)
    }

    fn answer(&mut self, entry: &AnswerEntry, time: Duration) -> Result<AnswerReply> {
        let mut reply = self.inner.answer(entry, time)?;
        if let [Some(effect)] = self.replies("answer", ["effect"]) {
            reply.effect = text(&effect);
        }
        Ok(reply)
    }

    fn advance(&mut self, job: &Job, time: Duration) -> Result<Progress> {
        for result in &job.results {
            let outcome = match &result.outcome {
                Outcome::Text(outcome) => json!({ "text": { "text": outcome.text } }),
                Outcome::Vectors(_) => json!({ "vectors": {} }),
                Outcome::Missing(outcome) => json!({ "missing": { "message": outcome.message } }),
                Outcome::Failed(outcome) => json!({ "failed": { "message": outcome.message } }),
            };
            self.inspection.borrow_mut().results.push(json!({ "id": result.id, "outcome": outcome }));
        }
        let mut reply = self.inner.advance(job, time)?;
        let [step, needs] = self.replies("advance", ["step", "needs"]);
        if let Some(step) = step {
            reply.step = text(&step);
        }
        for need in needs.as_ref().and_then(Value::as_array).into_iter().flatten() {
            let call = &need["call"];
            let id = u32::try_from(call["id"].as_u64().unwrap()).unwrap();
            reply.needs = vec![Need::Call(CallNeed { id, name: text(&call["name"]), input: text(&call["input"]) })];
        }
        Ok(reply)
    }

    fn administer(&mut self, function: &str, arguments: &Arguments<'_>, time: Duration) -> Result<Val> {
        self.inner.administer(function, arguments, time)
    }
}
