//! Conditions of `conditional` and `early_exit`: one comparison, parsed and never evaluated as code.
//!
//! A side is `results.count`, `results.A.length`, `query`, a number, a quoted text, `true`, `false`, or a placeholder; or the
//! whole is `query.contains(text)`. Placeholders are filled in after parsing, so what they hold can't change the form.

use std::rc::Rc;

use super::template;
use crate::value::Value;

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression(Form);

#[derive(Clone, Debug, PartialEq)]
enum Form {
    Compare {
        left: Side,
        sign: Sign,
        right: Side,
    },
    /// `query.contains(text)`.
    QueryContains(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Equal,
    Unequal,
    AtLeast,
    AtMost,
    Over,
    Under,
}

/// Those of two characters first.
const SIGNS: [(&str, Sign); 6] = [
    (">=", Sign::AtLeast),
    ("<=", Sign::AtMost),
    ("==", Sign::Equal),
    ("!=", Sign::Unequal),
    (">", Sign::Over),
    ("<", Sign::Under),
];

#[derive(Clone, Debug, PartialEq)]
enum Side {
    Count,
    Length(String),
    Query,
    Constant(Value),
    /// A text that may have placeholders.
    Text(String),
    Placeholder(String),
}

/// What a condition is about.
pub trait ExpressionScope {
    /// How many items are in hand.
    fn count(&mut self) -> usize;

    /// How many items a step's result has; none: there is no such result.
    fn length(&mut self, alias: &str) -> Option<usize>;

    /// The run's query.
    fn query(&mut self) -> Rc<str>;

    /// What a placeholder stands for.
    fn variable(&mut self, name: &str) -> Option<Value>;
}

/// What a condition came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluated {
    pub value: bool,
    pub warning: Option<String>,
}

const FORMS: &str = "one comparison of results.count, results.ALIAS.length, query, a number, a quoted text, true, false or a \
                     placeholder, or query.contains('text')";

impl Expression {
    /// Parse a condition.
    ///
    /// # Errors
    /// What is allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?} is no condition: it has to be {FORMS}");
        let text = text.trim();
        if let Some(argument) = text.strip_prefix("query.contains(") {
            let inner = argument.strip_suffix(')').ok_or_else(expected)?.trim();
            return match side(inner).filter(|(_, rest)| rest.is_empty()) {
                Some((Side::Text(wanted), _)) => Ok(Self(Form::QueryContains(wanted))),
                Some((Side::Placeholder(name), _)) => Ok(Self(Form::QueryContains(format!("${{{name}}}")))),
                _ => Err(expected()),
            };
        }
        let (left, rest) = side(text).ok_or_else(expected)?;
        let sign = SIGNS.iter().find_map(|(sign, kind)| Some((*kind, rest.strip_prefix(sign)?)));
        let (sign, rest) = sign.ok_or_else(expected)?;
        let (right, rest) = side(rest.trim_start()).ok_or_else(expected)?;
        if rest.is_empty() { Ok(Self(Form::Compare { left, sign, right })) } else { Err(expected()) }
    }

    /// The steps that it looks at.
    pub fn aliases(&self) -> impl Iterator<Item = &str> {
        self.sides().filter_map(|side| match side {
            Side::Length(alias) => Some(&**alias),
            _ => None,
        })
    }

    /// The names of its placeholders.
    pub fn placeholders(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for side in self.sides() {
            match side {
                Side::Placeholder(name) => names.push(&**name),
                Side::Text(text) => names.extend(template::placeholders(text)),
                _ => {}
            }
        }
        if let Form::QueryContains(text) = &self.0 {
            names.extend(template::placeholders(text));
        }
        names
    }

    fn sides(&self) -> impl Iterator<Item = &Side> {
        let sides = match &self.0 {
            Form::Compare { left, right, .. } => [Some(left), Some(right)],
            Form::QueryContains(_) => [None, None],
        };
        sides.into_iter().flatten()
    }

    /// Whether it holds. A text and a number are unequal; to order them is false, with a warning.
    pub fn evaluate(&self, scope: &mut dyn ExpressionScope) -> Evaluated {
        let (left, sign, right) = match &self.0 {
            Form::QueryContains(wanted) => {
                let wanted = filled(wanted, scope);
                return Evaluated { value: scope.query().contains(&wanted), warning: None };
            }
            Form::Compare { left, sign, right } => (left.value(scope), *sign, right.value(scope)),
        };
        let value = match sign {
            Sign::Equal => left == right,
            Sign::Unequal => left != right,
            Sign::AtLeast | Sign::AtMost | Sign::Over | Sign::Under => {
                let Some(order) = left.order(&right) else {
                    let warning = format!("{} and {} have no order: false", left.kind(), right.kind());
                    return Evaluated { value: false, warning: Some(warning) };
                };
                match sign {
                    Sign::AtLeast => order.is_ge(),
                    Sign::AtMost => order.is_le(),
                    Sign::Over => order.is_gt(),
                    _ => order.is_lt(),
                }
            }
        };
        Evaluated { value, warning: None }
    }
}

impl Side {
    fn value(&self, scope: &mut dyn ExpressionScope) -> Value {
        match self {
            Self::Count => scope.count().into(),
            Self::Length(alias) => scope.length(alias).unwrap_or(0).into(),
            Self::Query => Value::Text(scope.query()),
            Self::Constant(value) => value.clone(),
            Self::Text(text) => filled(text, scope).into(),
            Self::Placeholder(name) => scope.variable(name).unwrap_or_else(|| format!("${{{name}}}").into()),
        }
    }
}

/// A quoted text with its placeholders filled in. What would make it too long stays as written.
fn filled(text: &str, scope: &mut dyn ExpressionScope) -> String {
    let resolved = template::resolve_text(text, &mut |name| scope.variable(name), &mut indexmap::IndexSet::new());
    resolved.unwrap_or_else(|_| text.to_owned())
}

/// A side, and what follows it, without spaces between.
fn side(text: &str) -> Option<(Side, &str)> {
    for quote in ['\'', '"'] {
        if let Some(quoted) = text.strip_prefix(quote) {
            let (inner, rest) = quoted.split_once(quote)?;
            return Some((Side::Text(inner.to_owned()), rest.trim_start()));
        }
    }
    if text.starts_with("${") {
        let (placeholder, rest) = text.split_at_checked(text.find('}')? + 1)?;
        let name = template::whole_placeholder(placeholder)?;
        return Some((Side::Placeholder(name.to_owned()), rest.trim_start()));
    }
    let end = text.find(|c: char| c.is_whitespace() || "=!<>".contains(c)).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let side = match word {
        "results.count" => Side::Count,
        "query" => Side::Query,
        "true" => Side::Constant(Value::Bool(true)),
        "false" => Side::Constant(Value::Bool(false)),
        _ => match word.strip_prefix("results.").and_then(|rest| rest.strip_suffix(".length")) {
            Some(alias) if is_alias(alias) => Side::Length(alias.to_owned()),
            Some(_) => return None,
            None => Side::Constant(Value::parse(word).ok().filter(|value| value.as_number().is_some())?),
        },
    };
    Some((side, rest.trim_start()))
}

/// A letter or `_`, then letters, digits, `_` and `-`, up to 64.
pub fn is_alias(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    text.len() <= 64 && text.bytes().next().is_some_and(is_first) && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Fixed;

    impl ExpressionScope for Fixed {
        fn count(&mut self) -> usize {
            5
        }

        fn length(&mut self, alias: &str) -> Option<usize> {
            (alias == "hits").then_some(2)
        }

        fn query(&mut self) -> Rc<str> {
            "if a >= b".into()
        }

        fn variable(&mut self, name: &str) -> Option<Value> {
            match name {
                "min" => Some(5_u64.into()),
                "trick" => Some("x') == ('x".into()),
                _ => None,
            }
        }
    }

    fn holds(text: &str) -> bool {
        Expression::parse(text).unwrap().evaluate(&mut Fixed).value
    }

    #[test]
    fn either_side_may_be_anything() {
        assert!(holds("5==results.count") && holds("results.count >= ${min}") && holds("1.5 < results.hits.length"));
        assert!(
            holds("query == 'if a >= b'") && holds("query.contains( \"a >= b\" )") && holds("results.none.length == 0")
        );
        assert!(!holds("query.contains('${trick}')") && holds("true != false") && holds("results.count > -1e3"));
    }

    #[test]
    fn a_number_and_a_text_have_no_order() {
        let evaluated = Expression::parse("results.count > 'x'").unwrap().evaluate(&mut Fixed);
        assert!(!evaluated.value && evaluated.warning.is_some());
        assert!(holds("results.count != '5'"));
    }

    #[test]
    fn nothing_else_is_a_condition() {
        for text in [
            "",
            "query",
            "results.count",
            "results.count = 5",
            "a == b",
            "results.count > 1 && true",
            "results.count > 1 > 0",
            "query.contains(x)",
            "query.contains('a') == true",
            "results..length > 1",
            "'a == 'b'",
            "1 == ",
            "eval(1) == 1",
        ] {
            assert!(Expression::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in r#"(results|\.|count|length|query|contains|[ ='"()<>!${}a1ü-]){0,12}"#) {
            let _ = Expression::parse(&text).map(|expression| expression.evaluate(&mut Fixed));
        }
    }
}
