//! Resolves the names of placeholders: intent, then variables, then step outputs.

use std::rc::Rc;

use indexmap::IndexMap;

use super::RunRequest;
use crate::{
    definition::Definition,
    value::{Value, field_of},
};

/// What a name stands for.
pub(super) enum Resolved {
    Value(Value),
    /// The value of a variable.
    Variable(Value),
    /// The output of a step that waits.
    Unknown,
    Missing,
}

/// Where names are looked up.
pub(super) struct Names<'a> {
    pub(super) definition: &'a Definition,
    pub(super) request: &'a RunRequest,
    /// None: a step that waits decides it.
    pub(super) query: Option<&'a Rc<str>>,
    /// None: the step waits.
    pub(super) results: &'a IndexMap<Rc<str>, Option<Value>>,
}

impl Names<'_> {
    /// Look a name up. `query` is the run's query as it is now, `query.x` the intent's `x` as it came in.
    pub(super) fn resolve(&self, name: &str) -> Resolved {
        if name == "query" {
            return self.query.map_or(Resolved::Unknown, |query| Resolved::Value(Value::Text(Rc::clone(query))));
        }
        let path = name.strip_prefix("query.").unwrap_or(name);
        if let Some(value) = field_of(&self.request.intent, path) {
            return Resolved::Value(value.clone());
        }
        let (head, rest) = name.split_once('.').map_or((name, None), |(head, rest)| (head, Some(rest)));
        if let Some(value) = self.variable(name).or_else(|| self.variable(head)?.field(rest?)) {
            return Resolved::Variable(value.clone());
        }
        match self.results.get(head) {
            Some(None) => Resolved::Unknown,
            Some(Some(value)) => {
                let value = rest.map_or(Some(value), |path| value.field(path));
                value.map_or(Resolved::Missing, |value| Resolved::Value(value.clone()))
            }
            None => Resolved::Missing,
        }
    }

    /// A variable that the definition declares.
    fn variable(&self, name: &str) -> Option<&Value> {
        let is_declared = self.definition.variables.iter().any(|variable| &*variable.name == name)
            || self.definition.scopes.iter().any(|scope| scope.variables().contains(&name));
        if !is_declared {
            return None;
        }
        self.request.variables.get(name).filter(|value| !value.is_null())
    }
}
