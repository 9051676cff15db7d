//! Abbreviations and patterns of the conformance kit, and how answers are compared with them.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

/// With the store's limits in the place of `$limit`, which counts of other abbreviations may be.
pub(super) fn with_limits(value: Value, limit_of: &dyn Fn(&str) -> u64) -> Value {
    match arguments(&value, "$limit") {
        Some([name, more]) => {
            limit_of(name.as_str().unwrap()).checked_add_signed(more.as_i64().unwrap()).unwrap().into()
        }
        None => each(value, |member| with_limits(member, limit_of)),
    }
}

/// `$text` and `$list` written out.
pub fn expanded(value: Value) -> Value {
    if let Some([text, count]) = arguments(&value, "$text") {
        return text.as_str().unwrap().repeat(times(count)).into();
    }
    if let Some([count, template, sign @ ..]) = members(&value, "$list") {
        let sign = sign.first().map_or("#", |sign| sign.as_str().unwrap());
        let template = expanded(template.clone());
        return (0..times(count)).map(|number| numbered(&template, sign, number)).collect();
    }
    each(value, expanded)
}

/// The arguments of an abbreviation or a pattern, if this is it.
fn arguments<'a>(value: &'a Value, name: &str) -> Option<&'a [Value; 2]> {
    members(value, name).map(|members| members.try_into().unwrap_or_else(|_| panic!("{name} has two members: {value}")))
}

fn members<'a>(value: &'a Value, name: &str) -> Option<&'a [Value]> {
    value.get(name).map(|members| &**members.as_array().unwrap_or_else(|| panic!("{name} has a list: {value}")))
}

fn times(count: &Value) -> usize {
    usize::try_from(count.as_u64().unwrap()).unwrap()
}

fn numbered(template: &Value, sign: &str, number: usize) -> Value {
    match template {
        Value::String(text) => text.replace(sign, &number.to_string()).into(),
        other => each(other.clone(), |member| numbered(&member, sign, number)),
    }
}

/// The same with each member made another.
fn each(value: Value, made: impl Fn(Value) -> Value) -> Value {
    match value {
        Value::Array(members) => members.into_iter().map(made).collect(),
        Value::Object(members) => members.into_iter().map(|(name, member)| (name, made(member))).collect(),
        other => other,
    }
}

/// With what was remembered in the place of its name, and sums in the place of what they are of.
pub(super) fn substituted(value: Value, names: &HashMap<String, Value>) -> Value {
    if let Some(summands) = members(&value, "$sum") {
        let integer = |summand: &Value| match substituted(summand.clone(), names) {
            Value::String(digits) => digits.parse::<i128>().unwrap(),
            number => number.as_i64().unwrap().into(),
        };
        return summands.iter().map(integer).sum::<i128>().to_string().into();
    }
    match &value {
        Value::String(name) if name.starts_with('$') => {
            names.get(name).unwrap_or_else(|| panic!("{name} is not known yet")).clone()
        }
        _ => each(value, |member| substituted(member, names)),
    }
}

/// Whether an answer is as expected: otherwise what is not.
pub fn matches(expected: &Value, answer: &Value, names: &mut HashMap<String, Value>) -> Result<(), String> {
    if let Some(pattern) = expected.get("$not") {
        return match matches(pattern, answer, &mut names.clone()) {
            Ok(()) => Err(format!("{answer} was not to be {pattern}")),
            Err(_) => Ok(()),
        };
    }
    if let Some(choices) = members(expected, "$one-of") {
        let holds = choices.iter().any(|choice| matches(choice, answer, &mut names.clone()).is_ok());
        return if holds { Ok(()) } else { Err(format!("{answer} is none of {choices:?}")) };
    }
    if let Some(wanted) = members(expected, "$any-order") {
        return match_in_any_order(wanted, answer, names);
    }
    if let Some(pattern) = expected.get("$each") {
        let members = answer.as_array().ok_or_else(|| format!("{answer} is no list"))?;
        return members.iter().try_for_each(|member| matches(pattern, member, &mut names.clone()));
    }
    if let Some(count) = expected.get("$distinct") {
        let members = answer.as_array().ok_or_else(|| format!("{answer} is no list"))?;
        let distinct: HashSet<_> = members.iter().map(Value::to_string).collect();
        let holds = distinct.len() == times(count) && members.len() == distinct.len();
        return if holds { Ok(()) } else { Err(format!("{answer} is no list of {count} different members")) };
    }
    if let Some([low, high]) = arguments(expected, "$between") {
        let holds = answer.as_i64() >= low.as_i64() && answer.as_i64() <= high.as_i64() && answer.is_i64();
        return if holds { Ok(()) } else { Err(format!("{answer} is not from {low} to {high}")) };
    }
    match (expected, answer) {
        (Value::String(name), _) if name.starts_with('$') => {
            let known = names.entry(name.clone()).or_insert_with(|| answer.clone());
            if known == answer { Ok(()) } else { Err(format!("{answer} is not {name}, which was {known}")) }
        }
        (Value::Object(wanted), Value::Object(members)) => wanted.iter().try_for_each(|(name, pattern)| {
            let member = members.get(name).ok_or_else(|| format!("there is no {name}"))?;
            matches(pattern, member, names).map_err(|why| format!("{name}: {why}"))
        }),
        (Value::Array(wanted), Value::Array(members)) if wanted.len() == members.len() => {
            wanted.iter().zip(members).enumerate().try_for_each(|(at, (pattern, member))| {
                matches(pattern, member, names).map_err(|why| format!("{at}: {why}"))
            })
        }
        _ if expected == answer => Ok(()),
        _ => Err(format!("{answer} is not {expected}")),
    }
}

fn match_in_any_order(wanted: &[Value], answer: &Value, names: &HashMap<String, Value>) -> Result<(), String> {
    let mut left: Vec<_> = answer.as_array().ok_or_else(|| format!("{answer} is no list"))?.iter().collect();
    for pattern in wanted {
        let found = left.iter().position(|member| matches(pattern, member, &mut names.clone()).is_ok());
        left.swap_remove(found.ok_or_else(|| format!("there is no {pattern} in {answer}"))?);
    }
    if left.is_empty() { Ok(()) } else { Err(format!("{} is too much", json!(left))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(expected: &Value, answer: &Value) -> bool {
        matches(expected, answer, &mut HashMap::new()).is_ok()
    }

    #[test]
    fn a_pattern_matches_exactly_what_it_describes() {
        let answer = json!({ "a": 1, "b": ["x", "y"], "c": null });
        for expected in [
            json!({}),
            json!({ "a": 1, "c": null }),
            json!({ "b": ["$one", "$other"] }),
            json!({ "b": { "$any-order": ["y", "x"] } }),
            json!({ "a": { "$between": [0, 1] } }),
            json!({ "a": { "$one-of": [2, 1] } }),
            json!({ "a": { "$not": 2 } }),
            json!({ "b": { "$each": { "$one-of": ["x", "y"] } } }),
            json!({ "b": { "$distinct": 2 } }),
        ] {
            assert!(holds(&expected, &answer), "{expected}");
        }
        for expected in [
            json!({ "d": null }),
            json!({ "a": 2 }),
            json!({ "a": "1" }),
            json!({ "c": 0 }),
            json!({ "b": ["x"] }),
            json!({ "b": ["y", "x"] }),
            json!({ "b": ["$one", "$one"] }),
            json!({ "b": { "$any-order": ["x", "x"] } }),
            json!({ "b": { "$any-order": ["x"] } }),
            json!({ "a": { "$between": [2, 9] } }),
            json!({ "b": { "$between": [0, 9] } }),
            json!({ "c": { "$between": [0, 9] } }),
            json!({ "a": { "$one-of": [] } }),
            json!({ "a": { "$not": 1 } }),
            json!({ "b": { "$each": "x" } }),
            json!({ "a": { "$each": 1 } }),
            json!({ "b": { "$distinct": 3 } }),
            json!({ "c": { "$distinct": 0 } }),
            json!([]),
        ] {
            assert!(!holds(&expected, &answer), "{expected}");
        }
    }

    #[test]
    fn limits_are_replaced_also_within_other_abbreviations() {
        let short = json!([{ "$text": ["a", { "$limit": ["text-bytes", -1] }] }, { "$limit": ["reads", 1] }]);
        let limits = |name: &str| if name == "reads" { 16 } else { 4 };
        assert_eq!(expanded(with_limits(short, &limits)), json!(["aaa", 17]));
    }

    #[test]
    fn abbreviations_are_written_out() {
        let short = json!({ "t": { "$text": ["ab", 2] }, "l": { "$list": [2, { "k": "k#", "n": 1 }] } });
        let long = json!({ "t": "abab", "l": [{ "k": "k0", "n": 1 }, { "k": "k1", "n": 1 }] });
        assert_eq!(expanded(short), long);
        let nested = json!({ "$list": [2, { "$list": [2, "#.@", "@"] }] });
        assert_eq!(expanded(nested), json!([["0.0", "0.1"], ["1.0", "1.1"]]));
        let names = HashMap::from([("$life".to_owned(), json!("1.0"))]);
        assert_eq!(substituted(json!([{ "i": "$life" }]), &names), json!([{ "i": "1.0" }]));
        let names = HashMap::from([("$n".to_owned(), json!("41"))]);
        assert_eq!(substituted(json!([{ "$sum": ["$n", 1] }]), &names), json!(["42"]));
    }
}
