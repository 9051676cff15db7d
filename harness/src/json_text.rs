//! Stored JSON as it stands: on a terminal, on one line, and within other JSON.
//!
//! Promises that no value is read into a number or a tree and written anew: digits, escapes, the order of
//! members and members of one name stay as they are.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A JSON value without anything that a terminal would obey, and still the same value. New lines stay.
pub fn printable(json: &str) -> Cow<'_, str> {
    let is_unsafe = |c: char| c.is_control() && c != '\n';
    if !json.contains(is_unsafe) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 8);
    for c in json.chars() {
        match c {
            // JSON has these between tokens only.
            '\t' | '\r' => out.push(' '),
            // And the controls beyond ASCII, and DEL, in strings only.
            c if is_unsafe(c) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printable_value_is_the_same_value() {
        for (json, shown) in [
            ("\"a\u{9b}2J\u{7f}\"", "\"a\\u009b2J\\u007f\""),
            ("[1,\t2]\r\n", "[1, 2] \n"),
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
}
