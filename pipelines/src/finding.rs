//! What a check finds wrong or doubtful, and where.

use crate::value::Value;

/// An error or a warning at a place of a definition or a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// `retrieval.pipeline[2].field`; empty: the whole.
    pub path: String,
    pub is_error: bool,
    /// What was wrong, and what is allowed.
    pub message: String,
}

impl Finding {
    pub fn error(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), is_error: true, message: message.into() }
    }

    pub fn warning(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), is_error: false, message: message.into() }
    }

    /// As replies have it.
    pub fn to_value(&self) -> Value {
        Value::object([("path", Value::from(&*self.path)), ("message", Value::from(&*self.message))])
    }
}
