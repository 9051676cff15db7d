//! Quotes texts as Python's `repr` does, for messages of errors.

use keepline_json::push_hex;

/// Longer values are cut in messages: a log line must not be as long as somebody likes.
const REPR_MAX: usize = 200;

/// A string as Python would show it, cut to a sane length.
pub fn python_repr(text: &str) -> String {
    let quote = if text.as_bytes().contains(&b'\'') && !text.as_bytes().contains(&b'"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len().min(REPR_MAX) + 8);
    out.push(quote);
    let mut chars = text.chars();
    for c in chars.by_ref().take(REPR_MAX) {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => match u32::from(c) {
                code @ ..=0xff => {
                    out.push_str("\\x");
                    push_hex(&mut out, code, 2);
                }
                code @ ..=0xffff => {
                    out.push_str("\\u");
                    push_hex(&mut out, code, 4);
                }
                code => {
                    out.push_str("\\U");
                    push_hex(&mut out, code, 8);
                }
            },
        }
    }
    if !chars.as_str().is_empty() {
        out.push('…');
    }
    out.push(quote);
    out
}

/// A JSON value as Python would show it, near enough: strings and constants exactly, the rest as it
/// stands, on one line and cut.
pub(crate) fn repr_json(raw: &str) -> String {
    if let Some(text) = keepline_json::decode_string(raw) {
        return python_repr(&text);
    }
    match raw {
        "true" => "True".to_owned(),
        "false" => "False".to_owned(),
        "null" => "None".to_owned(),
        _ => cut_to_line(raw),
    }
}

/// Raw text for a message: on one line, and no longer than is sane.
pub(crate) fn cut_to_line(raw: &str) -> String {
    let mut chars = raw.chars();
    let mut out: String = chars.by_ref().take(REPR_MAX).map(|c| if is_printable(c) { c } else { ' ' }).collect();
    if !chars.as_str().is_empty() {
        out.push('…');
    }
    out
}

/// Python's idea of it without its tables: no controls, no blanks but the space, nothing invisible or
/// that changes direction (which could make a log line lie).
fn is_printable(c: char) -> bool {
    c == ' '
        || !(c.is_control()
            || c.is_whitespace()
            || matches!(u32::from(c),
                0xad | 0x061c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f
                | 0xfeff | 0xfff9..=0xfffb | 0xe000..=0xf8ff | 0xe0000..=0x0010_ffff))
}
