//! JSON without trees: look at the members of an object, read and write strings and numbers.
//!
//! Promises that parts are handed out as they stand in the text, borrowed, whatever they hold and
//! however deep they go.

use std::borrow::Cow;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

pub mod scan;

/// Hand each member of the JSON object `text` to `each`, in order: its key (with quotes and escapes) and
/// its value, both as slices of `text`. Members before a fault are handed out before it is found. Values are
/// not parsed, only checked, so no depth of nesting is a danger.
///
/// For whoever tells people what is wrong with a text, and where. The filter itself has no use for that: it
/// looks through metadata and the like with a scanner of its own, which takes what common writers emit beside
/// JSON.
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

/// The string that a raw value spells; none if it is no string. Half a surrogate pair is U+FFFD, one each.
pub fn string(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    Some(if inner.contains('\\') { unescaped(inner).into() } else { inner.into() })
}

/// What the inside of a raw string spells, which has been scanned before.
fn unescaped(inner: &str) -> String {
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.push_str(plain);
        let mut chars = escape.chars();
        let spelt = match chars.next() {
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => {
                let (spelt, after) = numbered(chars.as_str());
                chars = after.chars();
                spelt
            }
            Some(itself) => itself,
            None => char::REPLACEMENT_CHARACTER,
        };
        out.push(spelt);
        rest = chars.as_str();
    }
    out.push_str(rest);
    out
}

/// The character whose number comes next, and what comes after it.
fn numbered(text: &str) -> (char, &str) {
    let Some((high, rest)) = unit(text) else { return (char::REPLACEMENT_CHARACTER, text) };
    if (0xd800..0xdc00).contains(&high)
        && let Some((low @ 0xdc00..0xe000, rest)) = rest.strip_prefix("\\u").and_then(unit)
    {
        let spelt = char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00));
        return (spelt.unwrap_or(char::REPLACEMENT_CHARACTER), rest);
    }
    (char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER), rest)
}

/// Four hexadecimal digits, and what comes after them.
fn unit(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    let unit = digits.chars().try_fold(0, |unit, digit| Some(unit << 4 | digit.to_digit(16)?))?;
    Some((unit, rest))
}

/// The text without the blanks around it, if it is one JSON value: of the grammar proper, because what is
/// attached to a question has to be.
pub(crate) fn value(text: &str) -> Option<&str> {
    if is_plain(text) { Some(text) } else { scan::strict_value(text) }
}

/// Whether it is what nearly all values are, and what needs no parser to be seen: a string without
/// escapes, or digits.
fn is_plain(text: &str) -> bool {
    match text.as_bytes() {
        [b'"', inner @ .., b'"'] => first_special(inner).is_none(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// The number that a raw value is; none if it is no number, or one beyond what a float holds. Exact for numbers of
/// up to 15 digits, 22 of them behind the point at most; else a last bit may be missed. (The standard library's
/// reader never misses one, for 15 KiB of tables, and that of serde_json would bring all of serde_json along.)
pub(crate) fn number(raw: &str) -> Option<f64> {
    let (is_negative, digits) = raw.strip_prefix('-').map_or((false, raw), |digits| (true, digits));
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let (digits, power) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    // One of more digits than that is as good as endless.
    let endless = if power.starts_with('-') { -1_000_000 } else { 1_000_000 };
    let mut exponent: i32 = power.parse().unwrap_or(endless);
    let (mut number, mut is_fraction) = (0_u64, false);
    for byte in digits.bytes() {
        if !byte.is_ascii_digit() {
            is_fraction = true;
        } else if number < u64::MAX / 100 {
            number = number * 10 + u64::from(byte - b'0');
            exponent = exponent.saturating_sub(i32::from(is_fraction));
        } else {
            // One digit more is of no weight.
            exponent = exponent.saturating_add(i32::from(!is_fraction));
        }
    }
    let exponent = exponent.clamp(-400, 400);
    #[allow(clippy::cast_precision_loss, reason = "as told above")]
    let mut float = number as f64;
    for _ in 0..exponent.unsigned_abs() / 22 {
        float = scaled(float, 22, exponent < 0);
    }
    float = scaled(float, exponent.unsigned_abs() % 22, exponent < 0);
    float.is_finite().then_some(if is_negative { -float } else { float })
}

/// Times a power of ten that a float holds exactly, or through it.
fn scaled(float: f64, power: u32, down: bool) -> f64 {
    let factor = (0..power).fold(1.0, |factor, _| factor * 10.0);
    if down { float / factor } else { float * factor }
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

/// The first byte that a JSON string can't hold as it is. Sixteen at a time: answers are most of what the
/// filter copies, and this is the only look it takes at them.
fn first_special(bytes: &[u8]) -> Option<usize> {
    let is_special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    let (words, _) = bytes.as_chunks::<8>();
    let (pairs, _) = words.as_chunks::<2>();
    let plain = pairs.iter().take_while(|[one, two]| !(holds_special(one) | holds_special(two))).count() * 16;
    let at = bytes.get(plain..)?.iter().position(is_special)?;
    Some(plain + at)
}

/// Whether one of the eight bytes can't be in a JSON string as it is.
fn holds_special(word: &[u8; 8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    let word = u64::from_le_bytes(*word);
    // A byte is below a bound when subtracting it sets its high bit and it was not set before. A borrow can
    // only give a false alarm above a true one. To flip the second bit puts the quote next to the controls,
    // and nothing else.
    let control_or_quote = (word ^ (ONES * 2)).wrapping_sub(ONES * 0x21);
    let backslash = (word ^ (ONES * u64::from(b'\\'))).wrapping_sub(ONES);
    (control_or_quote | backslash) & !word & (ONES << 7) != 0
}

/// Append a number.
pub(crate) fn push_number(out: &mut String, number: u64) {
    const BILLION: u64 = 1_000_000_000;
    // Nine digits at a time: to divide 64 bits takes ten times as long as to divide 32.
    let low = u32::try_from(number % BILLION).unwrap_or(0);
    if number < BILLION {
        return push_digits(out, low, low.checked_ilog10().unwrap_or(0) as usize + 1);
    }
    push_number(out, number / BILLION);
    push_digits(out, low, 9);
}

/// Append the last so many digits of a number, nine at most.
pub(crate) fn push_digits(out: &mut String, mut number: u32, count: usize) {
    let mut digits = [b'0'; 9];
    for digit in digits.iter_mut().rev().take(count) {
        *digit += u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
    let digits = digits.get(digits.len().saturating_sub(count)..).unwrap_or_default();
    out.push_str(std::str::from_utf8(digits).unwrap_or_default());
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
    fn numbers_are_written_in_decimal() {
        for number in
            [0, 7, 10, 1_000, 65_535, 999_999_999, 1_000_000_000, 1_000_000_001, 12_000_000_034_000_000_567, u64::MAX]
        {
            let mut out = String::from("x");
            push_number(&mut out, number);
            assert_eq!(out, format!("x{number}"));
        }
    }

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
    fn numbers_are_read_as_serde_json_reads_them() {
        for raw in [
            "0",
            "-0",
            "0.0",
            "1",
            "24",
            "0.5",
            "1.01",
            "0.001",
            "-7",
            "1e3",
            "1E+3",
            "1e-7",
            "100.0",
            "876000",
            "8388608",
            "9007199254740991",
            "1.5e0",
            "0e999999999999",
            "0.000e5",
            "123456.789",
        ] {
            let theirs: f64 = serde_json::from_str(raw).unwrap();
            assert_eq!(number(raw).map(f64::to_bits), Some(theirs.to_bits()), "{raw}");
        }
        for raw in
            ["1e400", "-1e999999999999", "9e309", "", "null", "\"1\"", "NaN", "Infinity", "-Infinity", "[1]", "true"]
        {
            assert_eq!(number(raw), None, "{raw}");
        }
        for raw in ["12345678901234567890123", "1.7976931348623157e308", "0.12345678901234567890", "1e-350"] {
            let theirs: f64 = raw.parse().unwrap();
            let ours = number(raw).unwrap();
            assert!((ours - theirs).abs() <= theirs.abs() * 1e-14, "{raw}: {ours}");
        }
        let long = format!("{}.{}e-{}", "7".repeat(4000), "7".repeat(4000), "7".repeat(4000));
        assert_eq!(number(&long), Some(0.0));
        assert_eq!(number(&format!("0.{}1", "0".repeat(100_000))), Some(0.0));
        assert_eq!(number(&"7".repeat(100_000)), None);
    }

    #[test]
    fn specials_are_found_wherever_they_are() {
        for length in 0..70 {
            let plain = "é! ~".chars().cycle().take(length).collect::<String>();
            assert_eq!(first_special(plain.as_bytes()), None, "{plain}");
            for special in ["\0", "\u{1f}", "\"", "\\"] {
                let text = format!("{plain}{special}{plain}\"");
                assert_eq!(first_special(text.as_bytes()), Some(plain.len()), "{text}");
            }
        }
    }

    #[test]
    fn values_are_told_as_serde_json_tells_them() {
        for text in [
            "\"\"",
            "\"",
            "",
            "\"a b\"",
            "\"a\nb\"",
            "\"a\\\"",
            "\"a\\\"\"",
            "\"a\"b\"",
            " \"a\" ",
            "0",
            "-1",
            "01",
            "1",
            "1203",
            "1.5",
            "12a",
            "1 2",
            "null",
            "nul",
            "\"é\"",
        ] {
            assert_eq!(value(text), serde_json::from_str::<&RawValue>(text).ok().map(RawValue::get), "{text}");
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
        assert!(members("[1]", |_, _| {}).unwrap_err().is_data());
        assert!(members("{} x", |_, _| {}).is_err());
        assert!(members("{\"a\":NaN}", |_, _| {}).is_err());
        assert!(members("{1:2}", |_, _| {}).is_err());
    }

    #[test]
    fn half_a_surrogate_pair_is_one_replacement_character() {
        for (raw, spelt) in [
            (r#""\ud800""#, "\u{fffd}"),
            (r#""a\ud83cb""#, "a\u{fffd}b"),
            (r#""\udf89\ud83c""#, "\u{fffd}\u{fffd}"),
            (r#""\ud800\ud83c\udf89""#, "\u{fffd}🎉"),
            (r#""\ud83c\u0041\n""#, "\u{fffd}A\n"),
            (r#""\ud83c\\udf89""#, "\u{fffd}\\udf89"),
        ] {
            assert_eq!(string(raw).unwrap(), spelt, "{raw}");
        }
        for raw in [r#""\"\\\/\b\f\n\r\t\u0000\u00E9\uffff\ud83c\udf89é""#, r#""""#, r#""plain é""#] {
            assert_eq!(string(raw).unwrap(), serde_json::from_str::<String>(raw).unwrap(), "{raw}");
        }
        assert_eq!(string("7"), None);
        // Nothing that was not scanned before can do harm either.
        for raw in [r#""\""#, r#""\u""#, r#""\u12""#, r#""\u00é""#, r#""\ud800\u""#] {
            string(raw).unwrap();
        }
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
