//! The step that says where items are from.

use super::{StepContext, StepResult, rank::with_member};
use crate::value::Value;

/// Adds `provenance` to each item: memory, time of retrieval, step, and the label if there is one.
pub(super) fn annotate(context: &mut StepContext<'_>, items: Vec<Value>) -> StepResult<Value> {
    let now = jiff::Timestamp::from_millisecond(context.now).map(|time| time.to_string()).unwrap_or_default();
    let mut provenance = vec![
        ("memory_id", Value::Text(context.definition.id.clone())),
        ("retrieved_at", now.into()),
        ("step", context.step.name().into()),
    ];
    let label = context.params.get("label").filter(|label| !label.is_null());
    provenance.extend(label.map(|label| ("label", label.clone())));
    let provenance = Value::object(provenance);
    Ok(items.into_iter().map(|item| with_member(item, "provenance", provenance.clone())).collect::<Vec<_>>().into())
}
