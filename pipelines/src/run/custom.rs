//! The `custom` step: what it asks for is a need of the host's.

use std::rc::Rc;

use super::{
    execution::{Execution, StepOutcome},
    reads::{Answer, Need, params_or_empty},
};
use crate::{
    steps::StepFault,
    value::{Object, Value},
};

impl Execution<'_> {
    /// Ask the host for what the step names, with the items in hand.
    pub(super) fn run_custom(&mut self, params: &Object, items: &[Value]) -> StepOutcome {
        let named = |name: &str| params.get(name).and_then(Value::as_text).map(Rc::from);
        let (input, given) = (Value::list(items.to_vec()), params_or_empty(params));
        let (member, what, need) = if let Some(name) = named("handler") {
            ("handler", Rc::clone(&name), Need::Handler { name, input, params: given })
        } else if let Some(path) = named("actionBlockPath") {
            ("actionBlockPath", Rc::clone(&path), Need::ActionBlock { path, input, params: given })
        } else if let Some(code) = named("inlineCode") {
            ("inlineCode", "inlineCode".into(), Need::InlineCode { code, input, params: given })
        } else {
            return Err(StepFault::new("one of handler, actionBlockPath and inlineCode is required"));
        };
        match self.known.answer(&need) {
            None => {
                self.want(need);
                Ok(None)
            }
            Some(Answer::Output(output)) => Ok(Some(output.clone())),
            Some(Answer::Vector(_)) => Err(StepFault::new("the host answered with a vector")),
            Some(Answer::Failed(message)) => Err(StepFault::new(format!("{what}: {message}"))),
            Some(Answer::Refused(message)) => Err(StepFault::refused(member, format!("{what}: {message}"))),
        }
    }
}
