//! Stored JSON as it stands: on a terminal, on one line, and within other JSON.
//!
//! Promises that no value is read into a number or a tree and written anew: digits, escapes, the order of
//! members and members of one name stay as they are.

use std::{borrow::Cow, io::Read};

use anyhow::{Context, Result};
use keepline::logging::is_printable;
use keepline_json::mended;
use serde::{Serialize, Serializer, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use crate::error::Usage;

/// A JSON value without anything that a terminal would obey or that people can't see for what it is, and still the
/// same value: such characters are spelt by their numbers. New lines stay.
pub fn printable(json: &str) -> Cow<'_, str> {
    let is_unsafe = |c: char| !is_printable(c) && c != '\n';
    if !json.contains(is_unsafe) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 8);
    for c in json.chars() {
        match c {
            // JSON has these between tokens only.
            '\t' | '\r' => out.push(' '),
            // And everything beyond ASCII, and DEL, in strings only.
            c if is_unsafe(c) => out.push_str(&escaped(c)),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// A character by its number, or its two beyond U+FFFF.
pub fn escaped(c: char) -> String {
    c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// The same on one line.
pub fn on_one_line(json: &str) -> Cow<'_, str> {
    if json.contains(['\n', '\r']) { Cow::Owned(json.replace(['\n', '\r'], " ")) } else { Cow::Borrowed(json) }
}

/// What a store holds, to be put into other JSON as it is. What is no JSON after all is put there as text.
pub struct Stored<'a>(pub &'a str);

impl Serialize for Stored<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serde_json::from_str::<&RawValue>(self.0) {
            Ok(json) => json.serialize(serializer),
            Err(_) => self.0.serialize(serializer),
        }
    }
}

/// Reads JSON as other programs write it: with halves of surrogate pairs, `NaN` and a byte order mark.
pub fn parsed<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    // What can't be mended says best itself what is wrong with it.
    serde_json::from_str(&mended(text).unwrap_or(Cow::Borrowed(text)))
}

/// A value as it is given on the command line or, for `-`, on standard input.
pub fn json_value(given: &str, is_text: bool) -> Result<String> {
    let mut read = String::new();
    let given = if given == "-" {
        std::io::stdin().read_to_string(&mut read).context("can't read the value from standard input")?;
        if is_text { read.as_str() } else { read.trim_start_matches('\u{feff}').trim() }
    } else {
        given
    };
    if is_text {
        return Ok(Value::from(given).to_string());
    }
    // Handed on as it is written: numbers keep their digits.
    match serde_json::from_str::<&RawValue>(given) {
        Ok(_) => Ok(given.to_owned()),
        Err(error) => Err(Usage(format!("the value is not valid JSON ({error}); use --text for plain text")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printable_value_is_the_same_value() {
        for (json, shown) in [
            ("\"a\u{9b}2J\u{7f}\"", "\"a\\u009b2J\\u007f\""),
            ("[1,\t2]\r\n", "[1, 2] \n"),
            ("\"\u{202e}\u{2028}\u{e0001}\u{3000}\"", "\"\\u202e\\u2028\\udb40\\udc01\u{3000}\""),
            ("{\"é\":1e400}", "{\"é\":1e400}"),
        ] {
            assert_eq!(printable(json), shown);
        }
        assert_eq!(on_one_line("[1,\r\n2]"), "[1,  2]");
    }

    #[test]
    fn what_is_stored_is_put_into_json_as_it_is() {
        for stored in ["18446744073709551616", "1e400", "\"\\ud800\"", "-0", "{\"a\":1,\"a\":2.50}", "[ ]"] {
            assert_eq!(serde_json::to_string(&[Stored(stored)]).unwrap(), format!("[{stored}]"));
        }
        assert_eq!(serde_json::to_string(&Stored("NaN")).unwrap(), "\"NaN\"");
    }

    #[test]
    fn json_of_other_programs_is_read() {
        let found: Value = parsed("\u{feff}{\"a\":\"\\ud83e\",\"b\":NaN}").unwrap();
        assert_eq!(found, serde_json::json!({"a": "\u{fffd}", "b": null}));
        assert!(parsed::<Value>("{\"a\"").is_err());
    }

    #[test]
    fn a_value_is_json_or_said_to_be_text() {
        assert_eq!(json_value("12345678901234567890123", false).unwrap(), "12345678901234567890123");
        assert_eq!(json_value("a \"b\"", true).unwrap(), r#""a \"b\"""#);
        assert!(json_value("a", false).unwrap_err().to_string().contains("--text"));
    }
}
