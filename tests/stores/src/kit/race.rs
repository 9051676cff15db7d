//! Takes the steps of several writers at once, each a task of its own.

use std::{sync::Arc, time::Duration};

use keepline_stores::Store;
use serde_json::Value;
use tokio::{sync::Barrier, task::JoinSet, time::timeout};

use super::{Names, Writers, answer_to, expectation, json, pattern::matches};

/// Nothing in the kit takes that long: writers that are at it still are waiting for each other.
const PATIENCE: Duration = Duration::from_secs(60);

/// The answers to the steps of each writer.
///
/// # Errors
/// The first step that does not hold. The other writers end then, too.
pub(super) async fn run(
    step: &Value,
    store: &Arc<dyn Store>,
    names: &Names,
    writers: &Writers,
) -> Result<Value, String> {
    let steps = json::list(step, "writers", Value::clone);
    let (start, mut tasks) = (Arc::new(Barrier::new(steps.len())), JoinSet::new());
    for (number, steps) in steps.iter().enumerate() {
        let Value::Array(steps) = steps.clone() else { panic!("a writer is a list of steps: {steps}") };
        let writer = RaceWriter { store: store.clone(), writers: writers.clone(), names: names.clone() };
        let start = start.clone();
        tasks.spawn(async move {
            start.wait().await;
            let answers = writer.take_all(&steps).await;
            answers.map(|answers| (number, answers)).map_err(|why| format!("writer {}: {why}", number + 1))
        });
    }
    let mut answers = vec![Value::Null; steps.len()];
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            let (number, own) = ended.unwrap()?;
            answers[number] = own;
        }
        Ok(())
    };
    timeout(PATIENCE, all).await.unwrap_or_else(|_| Err(format!("the race is not over after {PATIENCE:?}")))?;
    Ok(answers.into())
}

struct RaceWriter {
    store: Arc<dyn Store>,
    writers: Writers,
    names: Names,
}

impl RaceWriter {
    async fn take_all(mut self, steps: &[Value]) -> Result<Value, String> {
        let mut answers = Vec::new();
        for step in steps {
            let answer = if step["call"] == "retry" {
                let steps = json::list(step, "steps", Value::clone);
                loop {
                    if let Some(answers) = self.take_round(&steps).await? {
                        break answers;
                    }
                    tokio::task::yield_now().await;
                }
            } else {
                let answer = self.send(step).await;
                matches(expectation(step), &answer, &mut self.names).map_err(|why| told(step, &answer, &why))?;
                answer
            };
            answers.push(answer);
        }
        Ok(answers.into())
    }

    /// A round of a `retry`: nothing if an answer asks for another one.
    async fn take_round(&mut self, steps: &[Value]) -> Result<Option<Value>, String> {
        let (before, mut answers) = (self.names.clone(), Vec::new());
        for step in steps {
            let answer = self.send(step).await;
            let is_again = |again| matches(again, &answer, &mut self.names.clone()).is_ok();
            if step.get("again").is_some_and(is_again) {
                self.names = before;
                return Ok(None);
            }
            matches(expectation(step), &answer, &mut self.names).map_err(|why| told(step, &answer, &why))?;
            answers.push(answer);
        }
        self.names = before;
        Ok(Some(answers.into()))
    }

    async fn send(&self, call: &Value) -> Value {
        answer_to(&self.store, &self.writers.identity(call), call, &self.names).await
    }
}

fn told(call: &Value, answer: &Value, why: &str) -> String {
    format!("{why}\ncall: {call}\nanswer: {answer}")
}
