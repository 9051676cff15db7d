//! Reads single JSON values, and appends members to objects.

use std::borrow::Cow;

use crate::text;

/// Append a member to others.
pub(crate) fn push_member(out: &mut String, name: &str, json: &str) {
    if !out.is_empty() {
        out.push(',');
    }
    out.push('"');
    out.push_str(name);
    out.push_str("\":");
    out.push_str(json);
}

/// An array of these values.
pub(crate) fn array(values: &[impl AsRef<str>]) -> String {
    ["[", &text::join(values, ","), "]"].concat()
}

/// The same value without line breaks.
pub(crate) fn on_one_line(json: Cow<'_, str>) -> Cow<'_, str> {
    let is_break = |character| matches!(character, '\n' | '\r');
    if !json.contains(is_break) {
        return json;
    }
    json.chars().map(|character| if is_break(character) { ' ' } else { character }).collect::<String>().into()
}

/// Whether a value is a number, by how it begins.
pub(crate) fn is_number(raw: &str) -> bool {
    raw.strip_prefix('-').unwrap_or(raw).starts_with(|first: char| first.is_ascii_digit())
}

/// A count that is written as one.
pub(crate) fn parse_count(raw: &str) -> Option<u64> {
    let is_plain = (1..=16).contains(&raw.len()) && raw.bytes().all(|byte| byte.is_ascii_digit());
    raw.parse().ok().filter(|_| is_plain)
}

/// A value that begins so.
pub(crate) fn as_container(raw: &str, begins: char) -> Option<Cow<'_, str>> {
    raw.starts_with(begins).then_some(raw.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_joined_to_an_array() {
        assert_eq!(array(&[""; 0]), "[]");
        assert_eq!(array(&["1", "", "\"é\""]), "[1,,\"é\"]");
    }

    #[test]
    fn line_breaks_become_blanks() {
        assert_eq!(on_one_line("[\r\n1, \"é\"\n]".into()), "[  1, \"é\" ]");
        assert!(matches!(on_one_line("[1]".into()), Cow::Borrowed("[1]")));
    }
}
