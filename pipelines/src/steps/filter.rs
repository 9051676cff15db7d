//! The steps that leave items out.

use super::{StepContext, StepFault, StepResult};
use crate::{
    language::comparison::{Condition, Operator, parse_where},
    value::Value,
};

/// Keeps the items whose field compares so, or for which all of `where` holds.
pub(super) fn filter(context: &mut StepContext<'_>, mut items: Vec<Value>) -> StepResult<Value> {
    let conditions = match context.params.get("where") {
        Some(Value::List(conditions)) => conditions.iter().filter_map(resolved_condition).collect(),
        Some(Value::Text(text)) => parse_where(text).map_err(|message| StepFault::at("where", message))?,
        _ => {
            let name = context.required_text("operator")?;
            let names = || format!("{name} is none of {}", Operator::filter_names().join(", "));
            let operator = Operator::parse_filter(name).ok_or_else(|| StepFault::at("operator", names()))?;
            let value = context.params.get("value").cloned().unwrap_or_default();
            vec![Condition { field: context.required_text("field")?.to_owned(), operator, value }]
        }
    };
    items.retain(|item| conditions.iter().all(|condition| condition.holds(item)));
    Ok(items.into())
}

/// A condition of `where` as the run hands it over once its placeholders are filled in: field, operator, value.
fn resolved_condition(parts: &Value) -> Option<Condition> {
    let [field, operator, value] = parts.as_list()? else { return None };
    let operator = Operator::parse_filter(operator.as_text()?)?;
    Some(Condition { field: field.as_text()?.to_owned(), operator, value: value.clone() })
}

/// Keeps the first item of each value, and all that lack the field.
pub(super) fn deduplicate(context: &mut StepContext<'_>, items: Vec<Value>) -> StepResult<Value> {
    let field = context.required_text("field")?;
    Ok(first_of_each(items, field).into())
}

/// The first item of each value of a field, and all that lack it.
pub(super) fn first_of_each(mut items: Vec<Value>, field: &str) -> Vec<Value> {
    let mut seen = std::collections::HashSet::new();
    items.retain(|item| item.field(field).is_none_or(|value| seen.insert(identity(value))));
    items
}

/// The same for values that are equal, and for no others.
pub(super) fn identity(value: &Value) -> String {
    match value {
        // By value: 7 is 7.0. What a float can't tell apart keeps its digits.
        Value::Number(number) if number.as_i128().is_some() => number.to_string(),
        Value::Number(number) => match number.as_f64() {
            // Zero has no sign.
            Some(float) if float.fract() == 0.0 && float.abs() < 1e15 => format!("{:.0}", float + 0.0),
            _ => number.to_string(),
        },
        Value::List(items) => format!("[{}]", items.iter().map(identity).collect::<Vec<_>>().join(",")),
        Value::Object(members) => {
            let mut members: Vec<_> = members
                .iter()
                .map(|(name, value)| format!("{}:{}", Value::from(&**name).to_json(), identity(value)))
                .collect();
            members.sort();
            format!("{{{}}}", members.join(","))
        }
        other => other.to_json(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just("null"),
            Just("true"),
            Just("1"),
            Just("1.0"),
            Just("1.5"),
            Just(r#""1""#),
            Just(r#""a""#),
            Just("-0.0"),
            Just("0"),
        ];
        leaf.prop_map(|text| Value::parse(text).unwrap()).prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::vec((prop_oneof![Just("a"), Just("b")], inner), 0..3).prop_map(Value::object),
            ]
        })
    }

    proptest! {
        #[test]
        fn values_have_one_identity_if_they_are_equal(one in values(), two in values()) {
            prop_assert_eq!(one == two, identity(&one) == identity(&two));
        }

        #[test]
        fn the_first_of_each_value_stays_in_order(list in prop::collection::vec(0..5_u64, 0..20)) {
            let items: Vec<_> = list.iter().enumerate().map(|(at, v)| Value::object([("v", Value::from(*v)), ("at", at.into())])).collect();
            let kept = first_of_each(items, "v");
            let at = |item: &Value| item.field("at").and_then(Value::as_whole).unwrap();
            prop_assert!(kept.windows(2).all(|pair| at(&pair[0]) < at(&pair[1])));
            for value in 0..5 {
                let first = list.iter().position(|v| *v == value).map(|at| at as u64);
                let found: Vec<_> = kept.iter().filter(|item| item.field("v") == Some(&value.into())).map(at).collect();
                prop_assert_eq!(found, Vec::from_iter(first));
            }
        }
    }
}
