//! The retrieval steps on values, events and documents.

use std::rc::Rc;

use super::{
    execution::{Execution, StepOutcome},
    reads::{Answer, DocumentQuery, EventQuery, Need, Read},
};
use crate::{
    definition::Step,
    language::template,
    steps::{StepFault, StepResult},
    value::items::{parse_bound, parse_duration},
    value::{Object, Value},
};

const EVENTS: u64 = 20;
const DOCUMENTS: u64 = 5;
const MIN_SCORE: f64 = 0.5;

impl Execution<'_> {
    pub(super) fn get_values(&mut self, step: &Step, params: &Object) -> StepOutcome {
        let (instance, namespace) = (required(params, "instance")?, required(params, "namespace")?);
        let keys = texts(params, "keys")?;
        let missing = format!("nothing is stored in namespace {namespace} of {instance}");
        self.retrieve(step, Read::Values { instance, namespace, keys }, missing)
    }

    pub(super) fn search_log(&mut self, step: &Step, params: &Object) -> StepOutcome {
        let instance = required(params, "instance")?;
        let since = text(params, "since")?.map(|text| parse_bound(&text, self.request.now).ok_or(text)).transpose();
        let since = since.map_err(|text| {
            StepFault::at("since", format!("{text} is neither a time such as 2026-03-01T12:00:00Z nor one such as -7d"))
        })?;
        let window = text(params, "window")?.map(|text| parse_duration(&text).ok_or(text)).transpose();
        let window = window.map_err(|text| StepFault::at("window", format!("{text} is no time such as 1h or 30m")))?;
        let mut types = texts(params, "eventTypes")?;
        types.extend(text(params, "eventType")?);
        let fields = params.get("fields").and_then(Value::as_object);
        let query = EventQuery {
            instance: Rc::clone(&instance),
            stream: text(params, "streamId")?,
            types,
            since: since.max(window.map(|window| self.request.now.saturating_sub(window))),
            fields: fields.into_iter().flatten().map(|(name, value)| (Rc::clone(name), value.clone())).collect(),
            text: text(params, "query")?.map(|text| text.to_lowercase().into()),
            limit: self.at_most(whole(params, "limit")?.unwrap_or(EVENTS)),
        };
        self.retrieve(step, Read::Events(query), format!("there is no log {instance}"))
    }

    pub(super) fn search_documents(&mut self, step: &Step, params: &Object) -> StepOutcome {
        let collection = required(params, "collection")?;
        let named = params.get("query_from").and_then(Value::as_text);
        let query = if let Some(query) = text(params, "query")? {
            query
        } else if let Some(query) = named.and_then(|name| self.result(name)) {
            template::text_of(query).into()
        } else if let Some(query) = self.query() {
            Rc::clone(query)
        } else {
            return Ok(None);
        };
        let vector = if query.is_empty() {
            None
        } else {
            let need = Need::Vector { text: Rc::clone(&query) };
            match self.known.answer(&need) {
                None => {
                    self.want(need);
                    return Ok(None);
                }
                Some(Answer::Vector(vector)) => Some(Rc::clone(vector)),
                // Words decide.
                Some(Answer::Refused(_)) => None,
                Some(Answer::Output(_)) => return Err(StepFault::new("the host answered with no vector")),
                Some(Answer::Failed(message)) => {
                    let message = format!("no vector of the query, so words decide: {message}");
                    self.warn(&*step.path, message);
                    None
                }
            }
        };
        let read = Read::Documents(DocumentQuery {
            collection: Rc::clone(&collection),
            text: query,
            vector,
            top_k: self.at_most(whole(params, "topK")?.unwrap_or(DOCUMENTS)),
            min_score: params.get("minScore").and_then(Value::as_number).unwrap_or(MIN_SCORE),
        });
        self.retrieve(step, read, format!("there is no collection {collection}"))
    }

    /// A limit of a step, within that of the run.
    fn at_most(&self, limit: u64) -> usize {
        usize::try_from(limit).unwrap_or(usize::MAX).min(self.request.limits.items)
    }

    /// What a read found as the step's items. From what is not there: none, with a warning.
    pub(super) fn retrieve(&mut self, step: &Step, read: Read, missing: String) -> StepOutcome {
        let Some(found) = self.read(step, read)? else {
            return Ok(None);
        };
        let items = found.unwrap_or_else(|| {
            self.warn(&*step.path, missing);
            Rc::default()
        });
        Ok(Some(Value::List(items)))
    }
}

/// A parameter as text; numbers are text, too.
pub(super) fn text(params: &Object, name: &'static str) -> StepResult<Option<Rc<str>>> {
    match params.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Text(text)) => Ok(Some(Rc::clone(text))),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(value.to_json().into())),
        Some(value @ Value::List(_)) => Ok(Some(template::text_of(value).into())),
        Some(value) => Err(StepFault::at(name, format!("{} where a text is required", value.kind()))),
    }
}

pub(super) fn required(params: &Object, name: &'static str) -> StepResult<Rc<str>> {
    text(params, name)?.ok_or_else(|| StepFault::at(name, "a text is required"))
}

/// A parameter as a list of texts: a list, or one text.
pub(super) fn texts(params: &Object, name: &'static str) -> StepResult<Vec<Rc<str>>> {
    fn add(value: &Value, name: &'static str, texts: &mut Vec<Rc<str>>) -> StepResult<()> {
        match value {
            Value::Text(text) => texts.push(Rc::clone(text)),
            Value::Number(_) | Value::Bool(_) => texts.push(value.to_json().into()),
            Value::List(items) => return items.iter().try_for_each(|item| add(item, name, texts)),
            _ => return Err(StepFault::at(name, format!("{} where a text is required", value.kind()))),
        }
        Ok(())
    }
    let mut all = Vec::new();
    if let Some(value) = params.get(name).filter(|value| !value.is_null()) {
        add(value, name, &mut all)?;
    }
    Ok(all)
}

/// A parameter as a whole number from 1.
pub(super) fn whole(params: &Object, name: &'static str) -> StepResult<Option<u64>> {
    let Some(value) = params.get(name).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let number = value.as_whole().filter(|number| *number >= 1);
    number
        .map(Some)
        .ok_or_else(|| StepFault::at(name, format!("{} where a whole number from 1 is required", value.to_json())))
}
