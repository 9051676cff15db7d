//! The store's health as JSON, for `keepline health` and for `run --metrics`.

use std::time::Duration;

use keepline::store::Failure;
use serde_json::{Value, json};

/// Milliseconds, to a thousandth.
pub fn rounded_milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// A failure of the store as JSON.
pub fn failure_json(problem: &Failure) -> Value {
    json!({"code": problem.code.name(), "message": problem.message})
}
