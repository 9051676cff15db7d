//! Turns JSON as common writers emit it into JSON that strict readers take.
//!
//! Promises the same value: half a surrogate pair becomes U+FFFD, as [`string`](crate::string) reads it, and what JSON has
//! no word for (`NaN`, `Infinity`, `-Infinity`, numbers beyond a float) becomes `null`; a byte order mark goes. All else
//! stays as it is written. Text that is JSON already is handed back without a copy.

use std::borrow::Cow;

use super::{is_value, parse_number};

/// The text as strict JSON. None: it is not one value, by the lenient rules either.
pub fn mend_json(text: &str) -> Option<Cow<'_, str>> {
    if !is_value(text) {
        return None;
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut out, mut copied, mut at) = (String::new(), 0, 0);
    let bytes = text.as_bytes();
    while let Some(&byte) = bytes.get(at) {
        let (length, instead) = match byte {
            b'"' => {
                let end = end_of_string(text, at, &mut out, &mut copied);
                at = end;
                continue;
            }
            b'N' | b'I' | b'-' | b'0'..=b'9' => {
                let rest = bytes.get(at..).unwrap_or_default();
                let length = rest.iter().take_while(|byte| is_of_word(**byte)).count();
                let word = text.get(at..at + length).unwrap_or_default();
                (length, parse_number(word).is_none().then_some("null"))
            }
            _ => (1, None),
        };
        if let Some(instead) = instead {
            out.push_str(text.get(copied..at).unwrap_or_default());
            out.push_str(instead);
            copied = at + length;
        }
        at += length.max(1);
    }
    if copied == 0 {
        return Some(text.into());
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Some(out.into())
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

/// Where the string ends that begins at `from`. Halves of pairs in it are replaced.
fn end_of_string(text: &str, from: usize, out: &mut String, copied: &mut usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = from + 1;
    loop {
        match bytes.get(at) {
            None => return bytes.len(),
            Some(b'"') => return at + 1,
            Some(b'\\') => {
                let unit = unit(text, at);
                let is_pair = |low: Option<u32>| low.is_some_and(|low| (0xdc00..0xe000).contains(&low));
                match unit {
                    Some(0xd800..0xdc00) if is_pair(self::unit(text, at + 6)) => at += 12,
                    Some(0xd800..0xe000) => {
                        out.push_str(text.get(*copied..at).unwrap_or_default());
                        out.push_str("\\ufffd");
                        at += 6;
                        *copied = at;
                    }
                    _ => at += 2,
                }
            }
            Some(_) => at += 1,
        }
    }
}

/// The number that an escape there spells.
fn unit(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_common_writers_becomes_strict_json() {
        for (given, strict) in [
            (r#"{"a":NaN,"b":[-Infinity,Infinity,-1.50]}"#, r#"{"a":null,"b":[null,null,-1.50]}"#),
            (r#"["\ud83e\udda6","\ud83e","x\udda6\ud83e"]"#, r#"["\ud83e\udda6","\ufffd","x\ufffd\ufffd"]"#),
            (r#"["\\ud83e NaN \"","\\\ud83e"]"#, r#"["\\ud83e NaN \"","\\\ufffd"]"#),
            (r#""\uD83E\u0041""#, r#""\ufffd\u0041""#),
            ("\u{feff}[1e400, 1e-400]", "[null, 1e-400]"),
            ("[true,false,null]", "[true,false,null]"),
        ] {
            let mended = mend_json(given).unwrap();
            assert_eq!(mended, strict);
            assert!(serde_json::from_str::<serde_json::Value>(&mended).is_ok());
        }
        let strict = r#"{"é":[1.0,12345678901234567890,"\ud83e\udda6"]}"#;
        assert!(matches!(mend_json(strict), Some(Cow::Borrowed(same)) if same == strict));
        for text in ["", "nan", "{\"a\":}", "[1] 2", "\"\\u12g4\""] {
            assert_eq!(mend_json(text), None, "{text}");
        }
    }
}
