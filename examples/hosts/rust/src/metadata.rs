//! Metadata and lines as the filter reads them: `NaN` and infinities are values, a byte order mark may come first, and
//! of duplicate members the last counts. What is read stays where it is, so that it can be replaced byte for byte.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde_json::value::RawValue;

/// The members of a JSON object, and where their values are. None: it is no object.
pub fn members(text: &str) -> Option<BTreeMap<String, Range<usize>>> {
    let strict = strict(text);
    let object: BTreeMap<Text, &RawValue> = serde_json::from_str(&strict).ok()?;
    let place = |value: &RawValue| {
        let start = value.get().as_ptr().addr() - strict.as_ptr().addr();
        start..start + value.get().len()
    };
    Some(object.into_iter().map(|(name, value)| (name.0, place(value))).collect())
}

/// A JSON string's text; of another value its JSON; of null nothing.
pub fn text(json: &str) -> String {
    match serde_json::from_str::<Text>(json) {
        Ok(text) => text.0,
        Err(_) if json == "null" => String::new(),
        Err(_) => json.to_owned(),
    }
}

/// The same JSON, byte for byte as long, with zeros for what strict JSON lacks, and blanks for a byte order mark.
fn strict(text: &str) -> String {
    let mut strict = text.replacen('\u{feff}', "   ", usize::from(text.starts_with('\u{feff}')));
    let (mut at, mut in_string) = (0, false);
    while let Some(rest) = strict.get(at..).filter(|rest| !rest.is_empty()) {
        let zeros = ["NaN", "Infinity"].into_iter().find(|name| !in_string && rest.starts_with(name)).map(str::len);
        let step = match (rest.as_bytes().first(), zeros) {
            (_, Some(length)) => {
                strict.replace_range(at..at + length, &format!("0.{:0<1$}", "", length - 2));
                length
            }
            (Some(b'\\'), _) if in_string => 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
            (Some(b'"'), _) => {
                in_string = !in_string;
                1
            }
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
        at += step;
    }
    strict
}

/// A text that may hold half a surrogate pair, which becomes U+FFFD.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Text(String);

impl<'a> Deserialize<'a> for Text {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Text;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a string")
            }
            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Text, E> {
                Ok(Text(String::from_utf8_lossy(bytes).into_owned()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}
