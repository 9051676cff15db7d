//! Compares values: the operators of filters, views and rules.

use std::cmp::Ordering;

use regex_lite::RegexBuilder;

use crate::value::Value;

/// Bytes that a compiled pattern may take.
const PATTERN_BYTES: usize = 1 << 20;

/// How a value is compared with the one that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Exists,
    NotExists,
    Eq,
    Neq,
    In,
    NotIn,
    Contains,
    StartsWith,
    EndsWith,
    Gt,
    Gte,
    Lt,
    Lte,
    Regex,
}

/// Names in rules, and in filters where those have the operator.
const NAMES: [(Operator, &str, Option<&str>); 14] = [
    (Operator::Exists, "exists", Some("exists")),
    (Operator::NotExists, "not_exists", None),
    (Operator::Eq, "eq", Some("eq")),
    (Operator::Neq, "neq", Some("neq")),
    (Operator::In, "in", Some("in")),
    (Operator::NotIn, "not_in", None),
    (Operator::Contains, "contains", Some("contains")),
    (Operator::StartsWith, "starts_with", Some("startsWith")),
    (Operator::EndsWith, "ends_with", Some("endsWith")),
    (Operator::Gt, "gt", Some("gt")),
    (Operator::Gte, "gte", Some("gte")),
    (Operator::Lt, "lt", Some("lt")),
    (Operator::Lte, "lte", Some("lte")),
    (Operator::Regex, "regex", None),
];

impl Operator {
    /// The operator of that name in filters and views.
    pub fn parse_filter(name: &str) -> Option<Self> {
        NAMES.iter().find_map(|(operator, _, known)| (*known == Some(name)).then_some(*operator))
    }

    /// What filters call it; empty if they don't have it.
    pub fn filter_name(self) -> &'static str {
        NAMES.iter().find_map(|(operator, _, name)| name.filter(|_| *operator == self)).unwrap_or_default()
    }

    /// The operator of that name in rules.
    pub fn parse_rule(name: &str) -> Option<Self> {
        NAMES.iter().find_map(|(operator, known, _)| (*known == name).then_some(*operator))
    }

    /// What filters call their operators.
    pub fn filter_names() -> Vec<&'static str> {
        NAMES.iter().filter_map(|(_, _, name)| *name).collect()
    }

    /// What rules call their operators.
    pub fn rule_names() -> Vec<&'static str> {
        NAMES.iter().map(|(_, name, _)| *name).collect()
    }

    /// Whether what was found compares so with what is wanted. Null counts as not there, but `eq` and `in` find it.
    ///
    /// Equality is typed. Only two numbers, or two texts, have an order. All that looks at texts minds their case. `neq` and
    /// `not_in` hold for what is not there.
    pub fn holds(self, found: Option<&Value>, wanted: &Value) -> bool {
        let there = found.filter(|value| !value.is_null());
        let texts = || Some((there?.as_text()?, wanted.as_text()?));
        let is = |matches: fn(Ordering) -> bool| there.and_then(|found| found.order(wanted)).is_some_and(matches);
        let is_in = || found.is_some_and(|found| wanted.as_list().map_or(found == wanted, |list| list.contains(found)));
        match self {
            Self::Exists => there.is_some() != (wanted.as_bool() == Some(false)),
            Self::NotExists => there.is_none() != (wanted.as_bool() == Some(false)),
            Self::Eq => found == Some(wanted),
            Self::Neq => found != Some(wanted),
            Self::In => is_in(),
            Self::NotIn => !is_in(),
            Self::Contains => match there {
                Some(Value::List(items)) => items.contains(wanted),
                _ => texts().is_some_and(|(found, wanted)| found.contains(wanted)),
            },
            Self::StartsWith => texts().is_some_and(|(found, wanted)| found.starts_with(wanted)),
            Self::EndsWith => texts().is_some_and(|(found, wanted)| found.ends_with(wanted)),
            Self::Gt => is(Ordering::is_gt),
            Self::Gte => is(Ordering::is_ge),
            Self::Lt => is(Ordering::is_lt),
            Self::Lte => is(Ordering::is_le),
            Self::Regex => texts()
                .is_some_and(|(found, wanted)| compile_pattern(wanted).is_ok_and(|pattern| pattern.is_match(found))),
        }
    }
}

/// A pattern for a search in time linear in the text: no look-around, no back-references.
///
/// # Errors
/// What is wrong with it, or which limit it exceeds.
pub fn compile_pattern(pattern: &str) -> Result<regex_lite::Regex, String> {
    RegexBuilder::new(pattern)
        .size_limit(PATTERN_BYTES)
        .build()
        .map_err(|error| format!("not a pattern that can be used: {error}"))
}

/// A field that is compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    pub field: String,
    pub operator: Operator,
    pub value: Value,
}

impl Condition {
    /// Whether an item's field compares so.
    pub fn holds(&self, item: &Value) -> bool {
        self.operator.holds(item.field_or_null(&self.field), &self.value)
    }
}

/// Parse `field op value` joined by AND. Values are numbers, truth values, null, texts in quotes, and bare words.
///
/// # Errors
/// What was expected, and at which character.
pub fn parse_where(text: &str) -> Result<Vec<Condition>, String> {
    let mut rest = text.trim_start();
    let at = |rest: &str| text.chars().count() - rest.chars().count() + 1;
    let mut conditions = Vec::new();
    loop {
        let end = rest.find(|c: char| c.is_whitespace() || "=!<>'\"".contains(c)).unwrap_or(rest.len());
        let (field, after) = rest.split_at(end);
        if field.is_empty() {
            return Err(format!("a field is expected at character {}", at(rest)));
        }
        rest = after.trim_start();
        let operators = [
            ("==", Operator::Eq),
            ("!=", Operator::Neq),
            (">=", Operator::Gte),
            ("<=", Operator::Lte),
            (">", Operator::Gt),
            ("<", Operator::Lt),
        ];
        let found = operators.iter().find_map(|(sign, operator)| Some((*operator, rest.strip_prefix(sign)?)));
        let (operator, after) =
            found.ok_or_else(|| format!("one of == != >= <= > < is expected at character {}", at(rest)))?;
        rest = after.trim_start();
        let (value, after) =
            where_value(rest).ok_or_else(|| format!("a value is expected at character {}", at(rest)))?;
        conditions.push(Condition { field: field.to_owned(), operator, value });
        rest = after.trim_start();
        if rest.is_empty() {
            return Ok(conditions);
        }
        let joined = rest.strip_prefix("AND").filter(|after| after.starts_with(char::is_whitespace));
        rest = joined.ok_or_else(|| format!("AND is expected at character {}", at(rest)))?.trim_start();
    }
}

fn where_value(rest: &str) -> Option<(Value, &str)> {
    for quote in ['"', '\''] {
        if let Some(quoted) = rest.strip_prefix(quote) {
            let (text, after) = quoted.split_once(quote)?;
            return Some((text.into(), after));
        }
    }
    // A placeholder may have spaces around its name.
    let end = match rest.strip_prefix("${").and_then(|name| name.find('}')) {
        Some(end) => end + 3,
        None => rest.find(char::is_whitespace).unwrap_or(rest.len()),
    };
    let (word, after) = rest.split_at_checked(end)?;
    let scalar = Value::parse(word).ok().filter(|value| !matches!(value, Value::List(_) | Value::Object(_)));
    (!word.is_empty()).then(|| (scalar.unwrap_or_else(|| word.into()), after))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn holds(operator: Operator, found: &str, wanted: &str) -> bool {
        let found = (found != "-").then(|| Value::parse(found).unwrap());
        operator.holds(found.as_ref(), &Value::parse(wanted).unwrap())
    }

    #[test]
    fn null_counts_as_not_there_but_for_eq_and_in() {
        assert!(holds(Operator::Eq, "null", "null") && !holds(Operator::Eq, "-", "null"));
        assert!(holds(Operator::In, "null", "[1,null]") && !holds(Operator::In, "-", "[1,null]"));
        assert!(!holds(Operator::Exists, "null", "true") && holds(Operator::Exists, "null", "false"));
        assert!(
            holds(Operator::NotExists, "-", "true")
                && holds(Operator::Neq, "-", "1")
                && holds(Operator::NotIn, "-", "[1]")
        );
    }

    #[test]
    fn patterns_are_unanchored_and_have_no_look_around() {
        assert!(holds(Operator::Regex, r#""release 1.2""#, r#""\\d+\\.\\d+""#));
        assert!(compile_pattern("(?=a)").is_err() && compile_pattern(r"(a)\1").is_err());
        assert!(compile_pattern("(a{1000}){1000}").is_err());
    }

    #[test]
    fn where_names_what_it_expects() {
        assert_eq!(parse_where("a.b > 0.5 AND c == x").unwrap().len(), 2);
        for (text, place) in
            [("", "1"), ("a", "2"), ("a ==", "5"), ("a == 1 OR b == 2", "8"), ("a == 1 AND", "8"), ("a == 'x", "6")]
        {
            assert!(parse_where(text).unwrap_err().ends_with(&format!("character {place}")), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in r#"[a ='"<>!$\{\}ANDü1.]{0,20}"#) {
            let _ = parse_where(&text);
            let _ = compile_pattern(&text);
        }
    }
}
