//! The steps that put items together.

use std::{collections::HashMap, rc::Rc};

use super::{
    StepContext, StepFault, StepResult,
    filter::{first_of_each, identity},
};
use crate::{
    value::items::{compare_for_sort, items_of},
    value::{Object, Value},
};

/// Groups of items by a field's value, named by its text or else its JSON, in the order of first appearance. What lacks the
/// field is under the empty name.
pub(super) fn group_by(context: &mut StepContext<'_>, items: Vec<Value>) -> StepResult<Value> {
    let field = context.required_text("field")?;
    let mut groups: indexmap::IndexMap<Rc<str>, Vec<Value>> = indexmap::IndexMap::new();
    for item in items {
        let name = match item.field(field) {
            None => "".into(),
            Some(Value::Text(text)) => Rc::clone(text),
            Some(value) => value.to_json().into(),
        };
        groups.entry(name).or_default().push(item);
    }
    Ok(groups.into_iter().map(|(name, items)| (name, Value::list(items))).collect::<Object>().into())
}

/// The latest item of each entity, latest first; of equals the earlier one. What lacks the entity's field stays.
pub(super) fn reduce_latest(context: &mut StepContext<'_>, mut items: Vec<Value>) -> StepResult<Value> {
    let entity = context.required_text("entityField")?;
    let field = context.text("sortField")?.unwrap_or("timestamp");
    items.sort_by(|one, two| compare_for_sort(one.field(field), two.field(field)));
    Ok(first_of_each(items, entity).into())
}

/// The items of several steps: one after the other, in turns, or each value of a field once.
pub(super) fn merge(context: &mut StepContext<'_>) -> StepResult<Value> {
    let names = match context.params.get("sources") {
        Some(Value::List(names)) => names.iter().filter_map(Value::as_text).map(Rc::<str>::from).collect(),
        Some(Value::Text(name)) => vec![Rc::clone(name)],
        _ => return Err(StepFault::at("sources", "a list of steps is required")),
    };
    let mut sources = Vec::new();
    for (position, name) in names.iter().enumerate() {
        match context.result(name) {
            Some(result) => sources.push(items_of(result)),
            None => {
                let member = format!("sources[{position}]");
                context.warn(Some(&member), format!("the step {name} did not run: no items"));
            }
        }
    }
    let merged = match context.text("strategy")? {
        None | Some("concat") => sources.concat(),
        Some("interleave") => {
            let longest = sources.iter().map(Vec::len).max().unwrap_or(0);
            (0..longest).flat_map(|at| sources.iter().filter_map(move |source| source.get(at).cloned())).collect()
        }
        Some("unique") => match context.text("uniqueField")? {
            Some(field) => first_of_each(sources.concat(), field),
            None => {
                let mut seen = HashMap::new();
                let all = sources.concat().into_iter();
                all.filter(|item| seen.insert(identity(item), ()).is_none()).collect()
            }
        },
        Some(other) => {
            return Err(StepFault::at("strategy", format!("{other} is none of concat, interleave and unique")));
        }
    };
    Ok(merged.into())
}
