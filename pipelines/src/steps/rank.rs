//! The steps that order items, and cut them.

use std::{cmp::Ordering, rc::Rc};

use super::{StepContext, StepFault, StepResult};
use crate::value::items::compare_for_sort;
use crate::value::{Object, Value};

/// Sorts descending by a strategy, a field, or a weighted sum. Equals keep their order.
pub(super) fn rank(context: &mut StepContext<'_>, mut items: Vec<Value>) -> StepResult<Value> {
    if let Some(weights) = context.params.get("weight").filter(|weights| !weights.is_null()) {
        let weights = weights_of(weights, "weight")?;
        let mut sums: Vec<_> = items.into_iter().map(|item| (weighted_sum(&item, &weights), item)).collect();
        sums.sort_by(|(one, _), (two, _)| two.partial_cmp(one).unwrap_or(Ordering::Equal));
        items = sums.into_iter().map(|(_, item)| item).collect();
    } else if let Some(field) = context.text("by")? {
        items.sort_by(|one, two| compare_for_sort(one.field(field), two.field(field)));
    } else {
        match context.text("strategy")? {
            None | Some("score_desc") => {
                items.sort_by(|one, two| compare_for_sort(one.field("score"), two.field("score")))
            }
            Some("relevance") => {
                items.sort_by(|one, two| compare_for_sort(one.field("relevance"), two.field("relevance")));
            }
            Some("recency") => items.sort_by(|one, two| compare_for_sort(time_of(one), time_of(two))),
            Some(other) => {
                let message = format!("{other} is none of score_desc, recency and relevance");
                return Err(StepFault::at("strategy", message));
            }
        }
    }
    items.truncate(context.whole("topK")?.unwrap_or(usize::MAX));
    Ok(items.into())
}

fn time_of(item: &Value) -> Option<&Value> {
    item.field("timestamp").or_else(|| item.field("metadata.timestamp"))
}

/// Writes the weighted sum of fields to `score`, and sorts by it.
pub(super) fn score(context: &mut StepContext<'_>, items: Vec<Value>) -> StepResult<Value> {
    let weights =
        context.params.get("weights").ok_or_else(|| StepFault::at("weights", "an object of numbers is required"))?;
    let weights = weights_of(weights, "weights")?;
    let mut scored: Vec<_> = items.into_iter().map(|item| (weighted_sum(&item, &weights), item)).collect();
    scored.sort_by(|(one, _), (two, _)| two.partial_cmp(one).unwrap_or(Ordering::Equal));
    scored.truncate(context.whole("topK")?.unwrap_or(usize::MAX));
    let items = scored.into_iter().map(|(sum, item)| with_member(item, "score", number(sum)));
    Ok(items.collect::<Vec<_>>().into())
}

fn weights_of(weights: &Value, member: &'static str) -> StepResult<Vec<(Rc<str>, f64)>> {
    let fault = || StepFault::at(member, "an object of numbers is required");
    let members = weights.as_object().ok_or_else(fault)?.iter();
    members.map(|(field, weight)| Ok((Rc::clone(field), weight.as_number().ok_or_else(fault)?))).collect()
}

/// What is missing or no number counts as 0.
fn weighted_sum(item: &Value, weights: &[(Rc<str>, f64)]) -> f64 {
    let parts =
        weights.iter().map(|(field, weight)| item.field(field).and_then(Value::as_number).unwrap_or(0.0) * weight);
    parts.sum()
}

/// A number without a fraction as it would be written by hand.
#[expect(clippy::cast_possible_truncation, reason = "it has no fraction, and is exact")]
fn number(number: f64) -> Value {
    let is_whole = number.fract() == 0.0 && number.abs() < 9e15;
    if is_whole { Value::Number((number as i64).into()) } else { number.into() }
}

/// An item with another member; what is no object goes under `value`.
pub(super) fn with_member(item: Value, name: &str, member: Value) -> Value {
    let mut members = match item {
        Value::Object(members) => Rc::unwrap_or_clone(members),
        other => Object::from_iter([("value".into(), other)]),
    };
    members.insert(name.into(), member);
    members.into()
}

/// The first `max_items`: the step's, else the contribution's.
pub(super) fn summarize(context: &mut StepContext<'_>, mut items: Vec<Value>) -> StepResult<Value> {
    let limit = context.whole("max_items")?.or(context.definition.contribution.max_items);
    items.truncate(limit.unwrap_or(usize::MAX));
    Ok(items.into())
}
