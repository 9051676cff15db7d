//! Abbreviations and patterns of the kits (`conformance/README.md`).

use std::collections::HashMap;

use serde_json::Value;

pub type Names = HashMap<String, Value>;

/// Expand `$text` and `$list`, from the inside out.
pub fn expand(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(expand).collect(),
        Value::Object(members) => {
            let members: serde_json::Map<_, _> =
                members.iter().map(|(name, value)| (name.clone(), expand(value))).collect();
            match (members.get("$text"), members.get("$list")) {
                (Some(text), _) => text[0].as_str().unwrap().repeat(count(&text[1])).into(),
                (_, Some(list)) => {
                    let sign = list[2].as_str().unwrap_or("#");
                    (0..count(&list[0])).map(|number| replace(&list[1], sign, &number.to_string())).collect()
                }
                _ => Value::Object(members),
            }
        }
        _ => value.clone(),
    }
}

fn count(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

fn replace(value: &Value, sign: &str, number: &str) -> Value {
    match value {
        Value::String(text) => text.replace(sign, number).into(),
        Value::Array(items) => items.iter().map(|item| replace(item, sign, number)).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), replace(value, sign, number)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        _ => value.clone(),
    }
}

/// Whether a value is as expected. Names are remembered.
pub fn matches(expected: &Value, value: &Value, names: &mut Names) -> bool {
    match expected {
        Value::String(name) if name.starts_with('$') => {
            *names.entry(name.clone()).or_insert_with(|| value.clone()) == *value
        }
        Value::Array(items) => value.as_array().is_some_and(|values| {
            items.len() == values.len() && items.iter().zip(values).all(|(item, value)| matches(item, value, names))
        }),
        Value::Object(members) => match members.iter().next() {
            Some((name, operand)) if members.len() == 1 && name.starts_with('$') => {
                pattern(name, operand, value, &mut names.clone())
            }
            _ => value.as_object().is_some_and(|values| {
                members.iter().all(|(name, member)| values.get(name).is_some_and(|value| matches(member, value, names)))
            }),
        },
        _ => expected == value,
    }
}

fn pattern(name: &str, operand: &Value, value: &Value, names: &mut Names) -> bool {
    match name {
        "$not" => !matches(operand, value, names),
        "$one-of" => operand.as_array().unwrap().iter().any(|one| matches(one, value, &mut names.clone())),
        "$each" => value
            .as_array()
            .is_some_and(|values| values.iter().all(|value| matches(operand, value, &mut names.clone()))),
        "$between" => value
            .as_u64()
            .is_some_and(|number| operand[0].as_u64() <= Some(number) && Some(number) <= operand[1].as_u64()),
        _ => panic!("no case for hosts had the pattern {name} when this was written"),
    }
}
