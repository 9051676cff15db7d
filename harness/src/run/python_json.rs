//! JSON as Python's `json.dumps` writes it, for what the node stores of an answer that is no string.
//!
//! Works on the text, token by token, so that no depth of nesting is a danger and no number loses a digit.
//! It differs from Python in one place: of members of one name Python keeps only the last, here all stay.

use std::fmt::Write;

/// Write JSON text anew: `", "` and `": "` between, everything beyond ASCII escaped, numbers as Python shows
/// them. The text must be valid JSON; what is not comes out somehow, without harm.
pub fn dumps(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + json.len() / 8);
    let mut rest = json;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_length(rest),
            '-' | '0'..='9' => {
                rest.find(|c: char| !matches!(c, '-' | '+' | '.' | 'e' | 'E' | '0'..='9')).unwrap_or(rest.len())
            }
            _ => first.len_utf8(),
        };
        let (token, tail) = rest.split_at_checked(length).unwrap_or((rest, ""));
        match first {
            ' ' | '\t' | '\n' | '\r' => {}
            ',' => out.push_str(", "),
            ':' => out.push_str(": "),
            '"' => push_string(&mut out, token),
            '-' | '0'..='9' => push_number(&mut out, token),
            _ => out.push_str(token),
        }
        rest = tail;
    }
    out
}

/// Bytes of the string that `text` begins with, both quotes included.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn push_string(out: &mut String, token: &str) {
    let inner = token.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(token);
    out.push('"');
    let mut characters = inner.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| push_unit(out, *unit));
            continue;
        }
        match characters.next() {
            Some('u') => {
                // By units, not characters: Python keeps half a surrogate pair, too.
                let digits: String = characters.by_ref().take(4).collect();
                push_unit(out, u16::from_str_radix(&digits, 16).unwrap_or(0xfffd));
            }
            Some('/') => out.push('/'),
            Some(short) => out.extend(['\\', short]),
            None => {}
        }
    }
    out.push('"');
}

/// One UTF-16 unit, escaped as Python does.
fn push_unit(out: &mut String, unit: u16) {
    match unit {
        0x22 => out.push_str("\\\""),
        0x5c => out.push_str("\\\\"),
        0x08 => out.push_str("\\b"),
        0x0c => out.push_str("\\f"),
        0x0a => out.push_str("\\n"),
        0x0d => out.push_str("\\r"),
        0x09 => out.push_str("\\t"),
        0x20..=0x7e => out.push(char::from(u8::try_from(unit).unwrap_or(b'?'))),
        // Writing to a string can't fail.
        _ => _ = write!(out, "\\u{unit:04x}"),
    }
}

fn push_number(out: &mut String, token: &str) {
    if !token.contains(['.', 'e', 'E']) {
        // Integers have any length in Python, and there is no negative zero.
        out.push_str(if token == "-0" { "0" } else { token });
        return;
    }
    match token.parse::<f64>() {
        Ok(number) => push_float(out, number),
        Err(_) => out.push_str(token),
    }
}

/// A float as Python's `repr`: the fewest digits that tell it from its neighbours, an exponent from 1e16 on
/// and below 1e-4.
fn push_float(out: &mut String, number: f64) {
    if number.is_infinite() {
        out.push_str(if number > 0.0 { "Infinity" } else { "-Infinity" });
        return;
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        _ = write!(out, "{mantissa}e{sign}{:02}", exponent.unsigned_abs());
        return;
    }
    let plain = number.to_string();
    out.push_str(&plain);
    if !plain.contains('.') {
        out.push_str(".0");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn json_is_written_as_python_writes_it() {
        // The right-hand sides are what `json.dumps(json.loads(…))` of Python 3.11 printed.
        for (json, python) in [
            ("[ 1,2 ,{\"a\":null , \"b\":[true,false]}]", "[1, 2, {\"a\": null, \"b\": [true, false]}]"),
            ("\"H\u{e9}llo \u{1f389} \u{7f}\"", "\"H\\u00e9llo \\ud83c\\udf89 \\u007f\""),
            (r#""\/\b\f\n\r\t\"\\\u0041\u0022\u005c\u0000\uD83D""#, r#""/\b\f\n\r\t\"\\A\"\\\u0000\ud83d""#),
            (
                "[0, -0, -0.0, 1.0, 1.50, 100, 12345678901234567890123]",
                "[0, 0, -0.0, 1.0, 1.5, 100, 12345678901234567890123]",
            ),
            (
                "[1e5, 1E15, 1e16, 1.5e300, 1e-4, 0.00001, 1.25e-7]",
                "[100000.0, 1000000000000000.0, 1e+16, 1.5e+300, 0.0001, 1e-05, 1.25e-07]",
            ),
            ("[1e999, -1e999, 1e-999, 0.1, 3.141592653589793]", "[Infinity, -Infinity, 0.0, 0.1, 3.141592653589793]"),
            ("{\"a,b\":\"x: \\\"y\\\", z\"}", "{\"a,b\": \"x: \\\"y\\\", z\"}"),
            ("[]", "[]"),
            ("{ }", "{}"),
        ] {
            assert_eq!(dumps(json), python);
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_danger(text in ".{0,60}") {
            dumps(&text);
        }

        #[test]
        fn floats_keep_their_value(float in any::<f64>().prop_filter("no JSON", |float| float.is_finite())) {
            prop_assert_eq!(dumps(&format!("{float:e}")).parse::<f64>().unwrap().to_bits(), float.to_bits());
        }

        #[test]
        fn what_is_written_means_the_same(text in ".{0,30}", whole in any::<i64>()) {
            let value = serde_json::json!({"a": [text, whole, 0.5], text.clone(): null});
            let written = dumps(&value.to_string());
            prop_assert!(written.is_ascii());
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&written).unwrap(), value);
        }
    }
}
