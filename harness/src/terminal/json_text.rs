//! Formats stored JSON without changing it: for a terminal, on one line, or embedded in other JSON.
//!
//! No value is parsed and written again: digits, escapes, the order of members and duplicate members stay as they are.

use std::borrow::Cow;

use keepline::logging::is_printable;
use keepline_json::mend_json;
use serde::{Serialize, Serializer, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::text::escaped_where;

/// Escapes control characters and invisible characters: the same JSON value. Line feeds stay.
pub fn escape_unprintable_json(json: &str) -> Cow<'_, str> {
    // DEL and everything beyond ASCII occurs in strings only; tabs and returns between tokens only.
    let escaped = escaped_where(json, |c| !is_printable(c) && !matches!(c, '\n' | '\r' | '\t'));
    if escaped.contains(['\r', '\t']) { Cow::Owned(escaped.replace(['\r', '\t'], " ")) } else { escaped }
}

/// Replaces line breaks, which JSON has between tokens only.
pub fn join_json_lines(json: &str) -> Cow<'_, str> {
    if json.contains(['\n', '\r']) { Cow::Owned(json.replace(['\n', '\r'], " ")) } else { Cow::Borrowed(json) }
}

/// A stored value to be embedded in other JSON. It is embedded as it is, or as a string if it is not JSON.
pub struct EmbeddedJson<'a>(pub &'a str);

impl Serialize for EmbeddedJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serde_json::from_str::<&RawValue>(self.0) {
            Ok(json) => json.serialize(serializer),
            Err(_) => self.0.serialize(serializer),
        }
    }
}

/// Parses JSON as other programs write it: with lone surrogates, `NaN` and a byte order mark.
pub fn parse_lenient<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    // serde_json's error for the original text is the best.
    serde_json::from_str(&mend_json(text).unwrap_or(Cow::Borrowed(text)))
}

/// A stored value on one line, escaped: the same JSON value.
pub fn json_cell(json: &str) -> String {
    escape_unprintable_json(&join_json_lines(json)).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn making_json_printable_keeps_its_value() {
        for (json, shown) in [
            ("\"a\u{9b}2J\u{7f}\"", "\"a\\u009b2J\\u007f\""),
            ("[1,\t2]\r\n", "[1, 2] \n"),
            ("\"\u{202e}\u{2028}\u{e0001}\u{3000}\"", "\"\\u202e\\u2028\\udb40\\udc01\u{3000}\""),
            ("{\"é\":1e400}", "{\"é\":1e400}"),
        ] {
            assert_eq!(escape_unprintable_json(json), shown);
        }
        assert_eq!(join_json_lines("[1,\r\n2]"), "[1,  2]");
    }

    #[test]
    fn stored_json_is_embedded_as_it_is() {
        for stored in ["18446744073709551616", "1e400", "\"\\ud800\"", "-0", "{\"a\":1,\"a\":2.50}", "[ ]"] {
            assert_eq!(serde_json::to_string(&[EmbeddedJson(stored)]).unwrap(), format!("[{stored}]"));
        }
        assert_eq!(serde_json::to_string(&EmbeddedJson("NaN")).unwrap(), "\"NaN\"");
    }

    #[test]
    fn nan_lone_surrogates_and_a_byte_order_mark_are_read() {
        let found: Value = parse_lenient("\u{feff}{\"a\":\"\\ud83e\",\"b\":NaN}").unwrap();
        assert_eq!(found, serde_json::json!({"a": "\u{fffd}", "b": null}));
        assert!(parse_lenient::<Value>("{\"a\"").is_err());
    }
}
