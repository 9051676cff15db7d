//! JSON without trees: look at the members of an object, write strings and numbers.
//!
//! Promises that parts are handed out as they stand in the text, borrowed, whatever they hold and
//! however deep they go. Refuses what the JSON grammar refuses, Python's `NaN` and `Infinity` included.

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Hand each member of the JSON object `text` to `each`, in order: its key (with quotes and escapes) and
/// its value, both as slices of `text`. Members before a fault are handed out
/// before it is found. Values are not parsed, only checked, so no depth of
/// nesting is a danger.
///
/// # Errors
/// When `text` is not one JSON object and nothing else.
pub fn members<'a>(text: &'a str, each: impl FnMut(&'a str, &'a str)) -> Result<(), serde_json::Error> {
    struct Members<F>(F);

    impl<'de, F: FnMut(&'de str, &'de str)> Visitor<'de> for Members<F> {
        type Value = ();

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("a JSON object")
        }

        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
            while let Some((key, value)) = map.next_entry::<&'de RawValue, &'de RawValue>()? {
                (self.0)(key.get(), value.get());
            }
            Ok(())
        }
    }

    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.deserialize_map(Members(each))?;
    deserializer.end()
}

/// Whether the raw key (with quotes) spells `name`.
pub(crate) fn key_is(raw: &str, name: &str) -> bool {
    match raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) if inner == name => true,
        Some(inner) => inner.contains('\\') && string(raw).is_some_and(|key| key == name),
        None => false,
    }
}

/// The string that a raw value spells; none if it is no string, or holds half a surrogate pair.
pub(crate) fn string(raw: &str) -> Option<std::borrow::Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') { serde_json::from_str::<String>(raw).ok().map(Into::into) } else { Some(inner.into()) }
}

/// The text without the blanks around it, if it is one JSON value.
pub(crate) fn value(text: &str) -> Option<&str> {
    serde_json::from_str::<&RawValue>(text).ok().map(RawValue::get)
}

/// The number that a raw value is; none if it is no number, or one beyond what a float holds.
pub(crate) fn number(raw: &str) -> Option<f64> {
    // The standard library's reader would be exact to the last bit, for 15 KiB of tables.
    serde_json::from_str(raw).ok()
}

/// Where `part`, a slice of `text`, begins in it.
pub(crate) fn offset(text: &str, part: &str) -> usize {
    part.as_ptr().addr().saturating_sub(text.as_ptr().addr())
}

/// Append `text` as a JSON string. Non-ASCII text stays as it is.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = first_special(rest.as_bytes()) {
        let (plain, tail) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(plain);
        let mut tail = tail.chars();
        match tail.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some('\u{8}') => out.push_str("\\b"),
            Some('\u{c}') => out.push_str("\\f"),
            Some(control) => {
                out.push_str("\\u00");
                push_hex(out, u32::from(control), 2);
            }
            None => {}
        }
        rest = tail.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

/// The first byte that a JSON string can't hold as it is. Eight bytes at a time: answers are most of
/// what the filter copies, and this is the only look it takes at them.
fn first_special(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    let is_special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word_bits = u64::from_le_bytes(*word);
        // A byte is zero, or below a bound, when subtracting sets its high bit and it was not set
        // before. A borrow can only give false alarms, above a true one.
        let below = word_bits.wrapping_sub(ONES * 0x20) & !word_bits;
        let quote = word_bits ^ (ONES * u64::from(b'"'));
        let slash = word_bits ^ (ONES * u64::from(b'\\'));
        let found = below | (quote.wrapping_sub(ONES) & !quote) | (slash.wrapping_sub(ONES) & !slash);
        if found & HIGHS != 0
            && let Some(at) = word.iter().position(is_special)
        {
            return Some(index * 8 + at);
        }
    }
    let at = tail.iter().position(is_special)?;
    Some(words.len() * 8 + at)
}

/// Append a number.
pub(crate) fn push_number(out: &mut String, number: u64) {
    if number >= 10 {
        push_number(out, number / 10);
    }
    out.push(char::from(b'0' + u8::try_from(number % 10).unwrap_or(0)));
}

/// Append the last `digits` hexadecimal digits of a number.
pub(crate) fn push_hex(out: &mut String, number: u32, digits: u32) {
    for place in (0..digits).rev() {
        out.push(char::from_digit((number >> (4 * place)) & 0xf, 16).unwrap_or('0'));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn strings_are_written_as_serde_json_writes_them() {
        let mut all: String = (0..0x250u32).filter_map(char::from_u32).collect();
        all.push_str("plain text that is longer than a word, then \" and 🎉\u{2028} \\ end");
        for start in all.char_indices().map(|(at, _)| at).take(40) {
            let text = &all[start..];
            let mut ours = String::new();
            push_string(&mut ours, text);
            assert_eq!(ours, serde_json::to_string(text).unwrap());
        }
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        for number in [0, 7, 10, 1_000, 65_535, u64::MAX] {
            let mut out = String::new();
            push_number(&mut out, number);
            assert_eq!(out, number.to_string());
        }
    }

    #[test]
    fn members_come_as_they_stand() {
        let mut seen = Vec::new();
        members(r#" {"a" : [1, {"b":2}] , "\u0061":"\ud800"} "#, |k, v| {
            seen.push((k, v));
        })
        .unwrap();
        assert_eq!(seen, [("\"a\"", r#"[1, {"b":2}]"#), (r#""\u0061""#, r#""\ud800""#)]);
        assert!(members("[1]", |_, _| {}).is_err());
        assert!(members("{} x", |_, _| {}).is_err());
        assert!(members("{\"a\":NaN}", |_, _| {}).is_err());
        assert!(members("{1:2}", |_, _| {}).is_err());
    }

    #[test]
    fn a_million_levels_of_nesting_are_no_danger() {
        let deep = format!("{{\"x\":{}{}}}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        let mut count = 0;
        members(&deep, |_, _| count += 1).unwrap();
        assert_eq!(count, 1);
        let deep = format!("{}1{}", "{\"a\":".repeat(1_000_000), "}".repeat(1_000_000));
        assert!(value(&deep).is_some());
        assert!(members(&deep, |_, _| {}).is_ok());
        assert!(value(&"[".repeat(1_000_000)).is_none());
    }

    #[test]
    fn escaped_keys_are_recognised() {
        assert!(key_is(r#""session_id""#, "session_id"));
        assert!(key_is(r#""\u0073ession_id""#, "session_id"));
        assert!(!key_is(r#""session\\id""#, "session_id"));
        assert!(!key_is(r#""session_id\ud800""#, "session_id"));
    }
}
