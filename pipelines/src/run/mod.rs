//! Runs a definition's steps over what has been read and answered so far.
//!
//! A run is a pure function of a definition, a request, and what is [`Known`]. Where something is missing, the run goes on
//! with what doesn't depend on it, and says all that it wants: so whoever drives it reads that in one call of the store and
//! runs again, and retrievals that don't depend on one another are one wait. Nothing else is kept between two runs.

mod custom;
mod execution;
mod graph;
mod reads;
mod retrieval;
mod variables;

pub use execution::execute;
pub use reads::{Answer, Direction, DocumentQuery, EventQuery, Found, Known, Need, Read, Wanted};

use std::rc::Rc;

use indexmap::{IndexMap, IndexSet};
use keepline_options::registered_names;

use crate::{
    finding::Finding,
    value::{Object, Value},
};

/// What one run may take. Each is an option of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// Items in the result of a step, and in all that is read together.
    pub items: usize,
    /// Bytes of all that is read, and of the result of a step as JSON.
    pub bytes: usize,
    /// Reads from the store.
    pub reads: usize,
}

impl RunLimits {
    /// What holds where nothing is configured.
    pub const DEFAULT: Self = Self { items: 10_000, bytes: 16 << 20, reads: 64 };
}

impl Default for RunLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What is asked of a definition.
#[derive(Clone, Debug, Default)]
pub struct RunRequest {
    /// `keywords`, `action`, `context`, `query`, and whatever else the caller says.
    pub intent: Object,
    /// Scope variables and additional variables, by name. They are text for templates, and lend nothing.
    pub variables: Object,
    /// Milliseconds since 1970.
    pub now: i64,
    pub limits: RunLimits,
}

/// How far a run came.
#[derive(Debug)]
pub enum Progress {
    Done(Box<RunReport>),
    /// It goes on when this is known.
    Waiting(Wanted),
}

/// What became of a run.
#[derive(Debug, Default)]
pub struct RunReport {
    /// Each step's result, by its alias or else its type.
    pub results: IndexMap<Rc<str>, Value>,
    /// The last data.
    pub output: Value,
    /// The output as text, in the contribution's format and with as many items as that has room for.
    pub formatted: String,
    /// The items of the output; a text is one.
    pub items: Vec<Value>,
    pub query: Rc<str>,
    /// Whether `early_exit` ended it.
    pub exited: bool,
    /// Names of placeholders that nothing could fill, each once.
    pub missing_variables: IndexSet<Rc<str>>,
    /// Names of variables that were put in.
    pub used_variables: IndexSet<Rc<str>>,
    pub warnings: Vec<Finding>,
    pub failure: Option<RunFailure>,
}

/// Why a run ended before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFailure {
    pub code: FailureCode,
    /// Where in the definition or the request.
    pub path: String,
    pub message: String,
}

registered_names! {
    /// The kind of a failure.
    FailureCode {
        /// A required variable was not given.
        MissingVariable = "missing_variable",
        /// The host does not do what a `custom` step asks for.
        Refused = "refused",
        StepFailed = "step_failed",
    }
}

impl RunReport {
    /// As a reply's members: `success`, and `error` where the run failed.
    pub fn to_value(&self) -> Value {
        let texts = |texts: &IndexSet<Rc<str>>| Value::list(texts.iter().cloned().map(Value::Text).collect());
        let mut members = vec![
            ("success", Value::Bool(self.failure.is_none())),
            ("results", Value::object(self.results.clone())),
            ("output", self.output.clone()),
            ("formatted", Value::from(&*self.formatted)),
            ("query", Value::Text(Rc::clone(&self.query))),
            ("exited", Value::Bool(self.exited)),
            ("missing_variables", texts(&self.missing_variables)),
            ("warnings", self.warnings.iter().map(Finding::to_value).collect::<Vec<_>>().into()),
        ];
        members.extend(self.failure.as_ref().map(|failure| ("error", failure.to_value())));
        Value::object(members)
    }
}

impl RunFailure {
    /// As the member `error` of a reply.
    pub fn to_value(&self) -> Value {
        let (path, message) = (Value::from(&*self.path), Value::from(&*self.message));
        Value::object([("code", Value::from(self.code.name())), ("path", path), ("message", message)])
    }
}
