//! Errors of calls on pipelines.

use std::fmt;

use crate::{
    contract::{
        pipelines::definitions::{Finding, Refusal},
        shared,
    },
    logging::{MAX_MESSAGE, make_printable},
    runtime::CallRefusal,
    store::FailureCode,
};

/// Why a call on pipelines failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
#[non_exhaustive]
pub struct PipelineError {
    /// What kind of problem.
    pub code: PipelineErrorCode,
    /// Where in the definition, request or item; empty: the whole.
    pub path: String,
    /// One sentence.
    pub message: String,
    /// Of an invalid definition, all its errors.
    pub findings: Vec<Finding>,
}

/// What kind of problem. Displayed in one word, as scripts have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PipelineErrorCode {
    /// There is no such definition.
    NotFound,
    /// There is one already.
    Exists,
    /// Another revision is there.
    Conflict,
    /// The definition, request or item breaks a rule.
    Invalid,
    /// A limit, which the message names.
    Limit,
    /// The store failed.
    Store(FailureCode),
    /// The plugin was stopped, or what it tells can't be.
    Plugin,
    /// No instance of the plugin came free in time.
    Busy,
    /// After the pipelines were shut down.
    Closed,
}

impl fmt::Display for PipelineErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "not-found",
            Self::Exists => "exists",
            Self::Conflict => "conflict",
            Self::Invalid => "invalid",
            Self::Limit => "limit",
            Self::Store(_) => "store",
            Self::Plugin => "plugin",
            Self::Busy => "busy",
            Self::Closed => "closed",
        })
    }
}

impl PipelineError {
    /// What was asked for breaks a rule, there.
    pub fn invalid(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), code: PipelineErrorCode::Invalid, ..Self::of_plugin(message) }
    }

    /// What the plugin tells can't be.
    pub(super) fn of_plugin(message: impl Into<String>) -> Self {
        Self { code: PipelineErrorCode::Plugin, path: String::new(), message: message.into(), findings: Vec::new() }
    }
}

impl From<shared::Problem> for PipelineError {
    fn from(shared::Problem { code, subject: mut path, mut message, .. }: shared::Problem) -> Self {
        make_printable(&mut path, MAX_MESSAGE);
        make_printable(&mut message, MAX_MESSAGE);
        let code = match &*code {
            "not-found" => PipelineErrorCode::NotFound,
            "already-exists" => PipelineErrorCode::Exists,
            "conflict" => PipelineErrorCode::Conflict,
            "invalid" => PipelineErrorCode::Invalid,
            "limit" => PipelineErrorCode::Limit,
            code => PipelineErrorCode::Store(FailureCode::named(code).unwrap_or(FailureCode::Other)),
        };
        Self { code, path, message, findings: Vec::new() }
    }
}

impl From<Refusal> for PipelineError {
    fn from(Refusal { problem, findings }: Refusal) -> Self {
        Self { findings: findings.into_iter().map(printable).collect(), ..problem.into() }
    }
}

/// A finding may hold words of the component's own: it becomes one printable line.
pub(super) fn printable(mut finding: Finding) -> Finding {
    make_printable(&mut finding.path, MAX_MESSAGE);
    make_printable(&mut finding.message, MAX_MESSAGE);
    finding
}

impl From<CallRefusal> for PipelineError {
    fn from(refusal: CallRefusal) -> Self {
        let code = match refusal {
            CallRefusal::Full(_) | CallRefusal::Late(_) | CallRefusal::NoMemory(_) => PipelineErrorCode::Busy,
            CallRefusal::Closed => PipelineErrorCode::Closed,
            CallRefusal::Fault(_) | CallRefusal::LeftAlone(_) => PipelineErrorCode::Plugin,
        };
        Self { code, path: String::new(), message: refusal.to_string(), findings: Vec::new() }
    }
}
