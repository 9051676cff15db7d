//! Fills in the placeholders of texts: `${name}`.
//!
//! One pass: what was put in is not looked at again. A text that is one placeholder becomes its value, of whatever type; in a
//! longer text values become text.

use std::rc::Rc;

use indexmap::IndexSet;

use crate::value::Value;

/// Bytes of a text after its placeholders are filled in.
pub const TEXT_BYTES: usize = 1 << 20;

/// A part of a text.
enum Part<'a> {
    Text(&'a str),
    /// The name, and the placeholder as written.
    Placeholder(&'a str, &'a str),
}

/// The parts of a text, in order. What isn't a name is no placeholder.
fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut from = 0;
        while let Some(begin) = rest.get(from..).and_then(|rest| rest.find("${")).map(|at| at + from) {
            let (before, placeholder) = rest.split_at_checked(begin)?;
            let end = placeholder.find('}').filter(|end| is_name(placeholder.get(2..*end).unwrap_or_default().trim()));
            let Some(end) = end else {
                from = begin + 2;
                continue;
            };
            if !before.is_empty() {
                rest = placeholder;
                return Some(Part::Text(before));
            }
            let (written, after) = placeholder.split_at_checked(end + 1)?;
            rest = after;
            return Some(Part::Placeholder(written.get(2..end).unwrap_or_default().trim(), written));
        }
        Some(Part::Text(std::mem::take(&mut rest)))
    })
}

/// A letter or `_`, then letters, digits, `_`, `-` and `.`.
fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    name.bytes().next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_') && name.bytes().all(is_part)
}

/// The names of a text's placeholders.
pub fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    parts(text).filter_map(|part| match part {
        Part::Placeholder(name, _) => Some(name),
        Part::Text(_) => None,
    })
}

/// The name, if a text is one placeholder.
pub fn whole_placeholder(text: &str) -> Option<&str> {
    let mut parts = parts(text);
    match (parts.next(), parts.next()) {
        (Some(Part::Placeholder(name, _)), None) => Some(name),
        _ => None,
    }
}

/// Fill in the placeholders of all texts in a value. A name that is not found stays as written, and is added to `missing`.
///
/// # Errors
/// When a text becomes longer than [`TEXT_BYTES`].
pub fn resolve(
    value: &Value,
    lookup: &mut dyn FnMut(&str) -> Option<Value>,
    missing: &mut IndexSet<Rc<str>>,
) -> Result<Value, String> {
    Ok(match value {
        Value::Text(text) if text.contains("${") => match whole_placeholder(text) {
            Some(name) => lookup(name).unwrap_or_else(|| {
                missing.insert(name.into());
                value.clone()
            }),
            None => resolve_text(text, lookup, missing)?.into(),
        },
        Value::List(items) => {
            let items: Result<Vec<_>, _> = items.iter().map(|item| resolve(item, lookup, missing)).collect();
            items?.into()
        }
        Value::Object(members) => {
            let mut resolved = crate::value::Object::new();
            for (name, member) in members.iter() {
                resolved.insert(Rc::clone(name), resolve(member, lookup, missing)?);
            }
            resolved.into()
        }
        _ => value.clone(),
    })
}

/// Fill in the placeholders of a text, as text.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_text(
    text: &str,
    lookup: &mut dyn FnMut(&str) -> Option<Value>,
    missing: &mut IndexSet<Rc<str>>,
) -> Result<String, String> {
    let mut resolved = String::new();
    for part in parts(text) {
        match part {
            Part::Text(text) => resolved.push_str(text),
            Part::Placeholder(name, written) => match lookup(name) {
                Some(value) if value.fits(TEXT_BYTES) => resolved.push_str(&text_of(&value)),
                Some(_) => return Err(too_long(text)),
                None => {
                    missing.insert(name.into());
                    resolved.push_str(written);
                }
            },
        }
        if resolved.len() > TEXT_BYTES {
            return Err(too_long(text));
        }
    }
    Ok(resolved)
}

fn too_long(text: &str) -> String {
    let shown: String = text.chars().take(60).collect();
    format!("with its placeholders filled in, {shown:?} is over the limit of {TEXT_BYTES} bytes")
}

/// A value as text: lists of scalars are joined by one space, other structures are compact JSON, null is empty.
pub fn text_of(value: &Value) -> String {
    let scalar = |value: &Value| match value {
        Value::Null => Some(String::new()),
        Value::Text(text) => Some(text.to_string()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_json()),
        Value::List(_) | Value::Object(_) => None,
    };
    let joined = |items: &[Value]| items.iter().map(scalar).collect::<Option<Vec<_>>>().map(|texts| texts.join(" "));
    scalar(value).or_else(|| joined(value.as_list()?)).unwrap_or_else(|| value.to_json())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn resolved(text: &str) -> (String, Vec<String>) {
        let mut lookup = |name: &str| match name {
            "a" => Some(Value::from("A${b}")),
            "list" => Value::parse(r#"["x",1,true]"#).ok(),
            "object" => Value::parse(r#"{"k":[1,{}]}"#).ok(),
            _ => None,
        };
        let mut missing = IndexSet::new();
        let text = resolve(&text.into(), &mut lookup, &mut missing).unwrap().to_json();
        (text, missing.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn placeholders_are_filled_in_once() {
        assert_eq!(resolved("<${a}${ a }>").0, r#""<A${b}A${b}>""#);
    }

    #[test]
    fn a_whole_text_keeps_the_type_and_a_longer_one_does_not() {
        assert_eq!(resolved("${list}").0, r#"["x",1,true]"#);
        assert_eq!(resolved("${list} ${object}").0, r#""x 1 true {\"k\":[1,{}]}""#);
    }

    #[test]
    fn what_is_no_name_stays_and_what_is_missing_is_named_once() {
        let text = "${} ${open $5 {a} $a ${1a} ${a b} ${no} ${no} ${ü}";
        assert_eq!(resolved(text), (Value::from(text).to_json(), vec!["no".into()]));
    }

    #[test]
    fn growing_texts_end_in_an_error_that_names_the_limit() {
        let long = Value::from("x".repeat(TEXT_BYTES / 2 + 1));
        let mut lookup = |_: &str| Some(long.clone());
        let error = resolve(&"${a}${a}".into(), &mut lookup, &mut IndexSet::new()).unwrap_err();
        assert!(error.contains("1048576"), "{error}");
    }

    proptest! {
        #[test]
        fn a_text_is_the_sum_of_its_parts(text in r"(\$\{[a-z ]{0,3}\}?|[${}aü]){0,12}") {
            let joined: String = parts(&text).map(|part| match part {
                Part::Text(text) | Part::Placeholder(_, text) => text,
            }).collect();
            prop_assert_eq!(joined, text);
        }
    }
}
