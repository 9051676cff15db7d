//! Steps that need nothing but the items in hand and what ran before them.

mod aggregate;
mod annotate;
mod filter;
mod format;
mod query;
mod rank;

pub use format::format_items;

use std::rc::Rc;

use indexmap::IndexMap;

use crate::{
    definition::{Definition, Step, StepKind},
    finding::Finding,
    value::{Object, Value},
};

/// What a step works with.
pub(crate) struct StepContext<'a> {
    pub definition: &'a Definition,
    pub step: &'a Step,
    /// With their placeholders filled in.
    pub params: Object,
    pub intent: &'a Object,
    pub query: &'a str,
    /// By alias, or else by type. None: the step waits, and no step that names it is called.
    pub results: &'a IndexMap<Rc<str>, Option<Value>>,
    /// Milliseconds since 1970.
    pub now: i64,
    pub warnings: &'a mut Vec<Finding>,
}

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFault {
    /// The parameter that is at fault.
    pub member: Option<&'static str>,
    pub message: String,
    /// Whether the host does not do what the step asks for.
    pub is_refused: bool,
}

/// What a step comes to.
pub type StepResult<T> = Result<T, StepFault>;

impl StepFault {
    pub fn new(message: impl Into<String>) -> Self {
        Self { member: None, message: message.into(), is_refused: false }
    }

    /// At a parameter.
    pub fn at(member: &'static str, message: impl Into<String>) -> Self {
        Self { member: Some(member), ..Self::new(message) }
    }

    /// The host does not do what a parameter asks for.
    pub fn refused(member: &'static str, message: impl Into<String>) -> Self {
        Self { is_refused: true, ..Self::at(member, message) }
    }
}

impl StepContext<'_> {
    pub fn warn(&mut self, member: Option<&str>, message: impl Into<String>) {
        let path = match member {
            Some(member) => format!("{}.{member}", self.step.path),
            None => self.step.path.to_string(),
        };
        self.warnings.push(Finding::warning(path, message));
    }

    /// The result of a step that ran.
    fn result(&self, step: &str) -> Option<&Value> {
        self.results.get(step)?.as_ref()
    }

    /// A parameter as text.
    fn text(&self, name: &'static str) -> StepResult<Option<&str>> {
        match self.params.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(value) => Err(StepFault::at(name, format!("{} where a text is required", value.kind()))),
        }
    }

    fn required_text(&self, name: &'static str) -> StepResult<&str> {
        self.text(name)?.ok_or_else(|| StepFault::at(name, "a text is required"))
    }

    /// A parameter as a whole number from 1.
    fn whole(&self, name: &'static str) -> StepResult<Option<usize>> {
        let Some(value) = self.params.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
        let number = value.as_whole().filter(|number| *number >= 1);
        let number = number.ok_or_else(|| {
            StepFault::at(name, format!("{} where a whole number from 1 is required", value.to_json()))
        })?;
        Ok(Some(usize::try_from(number).unwrap_or(usize::MAX)))
    }
}

/// Do what a step says.
pub(crate) fn run(context: &mut StepContext<'_>, items: Vec<Value>) -> StepResult<Value> {
    match context.step.kind {
        StepKind::DeriveQuery => query::derive_query(context),
        StepKind::RewriteQuery => query::rewrite_query(context),
        StepKind::Filter => filter::filter(context, items),
        StepKind::Deduplicate => filter::deduplicate(context, items),
        StepKind::GroupBy => aggregate::group_by(context, items),
        StepKind::ReduceLatest => aggregate::reduce_latest(context, items),
        StepKind::Merge => aggregate::merge(context),
        StepKind::Rank => rank::rank(context, items),
        StepKind::Score => rank::score(context, items),
        StepKind::Summarize => rank::summarize(context, items),
        StepKind::Format => format::format(context, items),
        StepKind::Annotate => annotate::annotate(context, items),
        StepKind::VectorSearch
        | StepKind::GraphViewRead
        | StepKind::KvGet
        | StepKind::LogSearch
        | StepKind::GraphViewExpand
        | StepKind::GraphNeighborExpand
        | StepKind::Conditional
        | StepKind::EarlyExit
        | StepKind::Custom => Err(StepFault::new("this step is not one of items in hand")),
    }
}
