//! Compares a reply with what a case expects (conformance/pipelines/README.md has the matchers).

use std::collections::BTreeSet;

use keepline_pipelines::value::{Object, Value};

/// Where a reply differs; none: it matches.
pub fn mismatch(expected: &Value, found: Option<&Value>) -> Option<String> {
    compare(expected, found, "reply")
}

fn compare(expected: &Value, found: Option<&Value>, path: &str) -> Option<String> {
    match expected {
        Value::Object(members) => members.iter().find_map(|(name, wanted)| {
            let is_argument = |of: &str, argument: &str| &**name == argument && members.contains_key(of);
            if is_argument("$approx", "within") || is_argument("$pluck", "is") {
                return None;
            }
            if name.starts_with('$') {
                matches(name, wanted, members, found, path)
            } else {
                match found {
                    Some(Value::Object(found)) => compare(wanted, found.get(name), &format!("{path}.{name}")),
                    _ => compare(wanted, None, &format!("{path}.{name}")),
                }
            }
        }),
        Value::List(wanted) => {
            let Some(list) = found.and_then(Value::as_list) else { return differs(expected, found, path) };
            if list.len() != wanted.len() {
                return Some(format!("{path}: {} elements, not {}: {}", list.len(), wanted.len(), shown(found)));
            }
            let mut pairs = wanted.iter().zip(list).enumerate();
            pairs.find_map(|(at, (wanted, found))| compare(wanted, Some(found), &format!("{path}[{at}]")))
        }
        _ if found == Some(expected) => None,
        _ => differs(expected, found, path),
    }
}

fn matches(name: &str, wanted: &Value, beside: &Object, found: Option<&Value>, path: &str) -> Option<String> {
    let number = found.and_then(Value::as_number);
    let list = found.and_then(Value::as_list);
    let text = found.and_then(Value::as_text);
    let holds = match name {
        // What it is called is the runner's matter.
        "$any" | "$as" => found.is_some(),
        "$not" => compare(wanted, found, path).is_some(),
        "$absent" => found.is_none_or(Value::is_null),
        "$exact" => found == Some(wanted),
        "$approx" => {
            let within = beside.get("within").and_then(Value::as_number).unwrap_or(1e-6);
            number.zip(wanted.as_number()).is_some_and(|(found, wanted)| (found - wanted).abs() <= within)
        }
        "$gte" => number.zip(wanted.as_number()).is_some_and(|(found, wanted)| found >= wanted),
        "$lte" => number.zip(wanted.as_number()).is_some_and(|(found, wanted)| found <= wanted),
        "$type" => found.is_some_and(|found| {
            let kind = match found {
                Value::Null => "null",
                Value::Bool(_) => "boolean",
                Value::Number(_) => "number",
                Value::Text(_) => "string",
                Value::List(_) => "array",
                Value::Object(_) => "object",
            };
            match wanted.as_text() {
                Some("instant") => found.as_text().is_some_and(|text| text.parse::<jiff::Timestamp>().is_ok()),
                wanted => wanted == Some(kind),
            }
        }),
        "$length" => {
            let length = list.map(<[Value]>::len).or_else(|| text.map(|text| text.chars().count()));
            length.map(|length| length as u64) == wanted.as_whole()
        }
        "$prefix" => text.zip(wanted.as_text()).is_some_and(|(found, wanted)| found.starts_with(wanted)),
        "$contains" | "$not_contains" => {
            let is_in = |part: &Value| match (list, text) {
                (Some(list), _) => list.iter().any(|element| compare(part, Some(element), path).is_none()),
                (_, Some(text)) => part.as_text().is_some_and(|part| text.contains(part)),
                _ => false,
            };
            let parts = wanted.as_list().unwrap();
            if name == "$contains" {
                parts.iter().all(is_in)
            } else {
                (list.is_some() || text.is_some()) && !parts.iter().any(is_in)
            }
        }
        "$unordered" => list.is_some_and(|list| is_pairing(wanted.as_list().unwrap(), list)),
        "$each" => list.is_some_and(|list| list.iter().all(|element| compare(wanted, Some(element), path).is_none())),
        "$pluck" => {
            let Some(list) = list else { return differs(&Value::from(beside.clone()), found, path) };
            let inner = wanted.as_text().unwrap();
            let plucked: Vec<_> =
                list.iter().map(|element| by_path(element, inner).cloned().unwrap_or_default()).collect();
            return compare(beside.get("is").unwrap(), Some(&plucked.into()), &format!("{path}/{inner}"));
        }
        "$keys" => {
            let keys: Option<Vec<Value>> =
                found.and_then(Value::as_object).map(|found| found.keys().map(|key| Value::from(&**key)).collect());
            keys.as_deref() == wanted.as_list()
        }
        "$json" => text.and_then(|text| Value::parse(text).ok()).as_ref() == Some(wanted),
        "$instant" => text.zip(wanted.as_text()).is_some_and(|(found, wanted)| instant(found) == instant(wanted)),
        other => panic!("{path}: no matcher is called {other}"),
    };
    if holds { None } else { differs(&Value::object([(name, wanted.clone())]), found, path) }
}

fn instant(text: &str) -> jiff::Timestamp {
    text.parse().unwrap()
}

fn by_path<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, name| value.member(name))
}

/// Whether each expectation has an element of its own.
fn is_pairing(wanted: &[Value], list: &[Value]) -> bool {
    fn pair(wanted: &[Value], list: &[Value], taken: &mut BTreeSet<usize>) -> bool {
        let Some((first, rest)) = wanted.split_first() else { return true };
        (0..list.len()).any(|at| {
            if taken.contains(&at) || compare(first, list.get(at), "").is_some() {
                return false;
            }
            taken.insert(at);
            pair(rest, list, taken) || !taken.remove(&at)
        })
    }
    wanted.len() == list.len() && pair(wanted, list, &mut BTreeSet::new())
}

fn shown(value: Option<&Value>) -> String {
    value.map_or("nothing".into(), |value| value.to_json().chars().take(400).collect())
}

fn differs(expected: &Value, found: Option<&Value>, path: &str) -> Option<String> {
    Some(format!("{path}: expected {}, found {}", shown(Some(expected)), shown(found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(expected: &str, found: &str) -> bool {
        mismatch(&Value::parse(expected).unwrap(), Some(&Value::parse(found).unwrap())).is_none()
    }

    #[test]
    fn each_matcher_can_hold_and_fail() {
        for (expected, held, failed) in [
            (r#"{"a":7}"#, r#"{"a":7.0,"b":1}"#, r#"{"a":"7"}"#),
            (r#"{"a":{"$any":true}}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":{"$absent":true}}"#, r#"{"a":null}"#, r#"{"a":1}"#),
            (r#"{"$exact":{"a":1}}"#, r#"{"a":1}"#, r#"{"a":1,"b":2}"#),
            (r#"{"$approx":1,"within":0.1}"#, "1.05", "1.2"),
            (r#"{"$gte":1,"$lte":2}"#, "2", "2.1"),
            (r#"{"$type":"number"}"#, "1", r#""1""#),
            (r#"{"$type":"instant"}"#, r#""2026-03-01T12:00:00.5Z""#, r#""yesterday""#),
            (r#"{"a":{"$not":{"$gte":1}}}"#, "{}", r#"{"a":1}"#),
            (r#"{"a":{"$as":"x"}}"#, r#"{"a":0}"#, "{}"),
            (r#"{"$length":2}"#, r#""ü1""#, "[1]"),
            (r#"{"$prefix":"a"}"#, r#""ab""#, r#""ba""#),
            (r#"{"$contains":[{"a":1}]}"#, r#"[{"a":1,"b":2}]"#, "[]"),
            (r#"{"$not_contains":["b"]}"#, r#""ac""#, r#""abc""#),
            (r#"{"$unordered":[{"$any":true},1]}"#, "[1,2]", "[2,2]"),
            (r#"{"$each":{"$gte":1}}"#, "[1,2]", "[1,0]"),
            (r#"{"$pluck":"a.b","is":[1]}"#, r#"[{"a":{"b":1}}]"#, r#"[{"a":{"b":2}}]"#),
            (r#"{"$keys":["b","a"]}"#, r#"{"b":1,"a":2}"#, r#"{"a":1,"b":2}"#),
            (r#"{"$json":[1]}"#, r#""[ 1.0 ]""#, r#""[2]""#),
            (r#"{"$instant":"2026-03-01T12:00:00Z"}"#, r#""2026-03-01T13:00:00+01:00""#, r#""2026-03-01T12:00:01Z""#),
            ("[1,2]", "[1,2]", "[2,1]"),
        ] {
            assert!(matched(expected, held) && !matched(expected, failed), "{expected}");
        }
    }
}
