//! Writes JSON in printable ASCII.

use keepline_json as json;
use keepline_json::push_hex;

pub(crate) fn push_ascii(out: &mut String, text: &str) {
    let mut json = String::with_capacity(text.len() + 2);
    json::push_string(&mut json, text);
    push_escaped(out, &json);
}

/// JSON as printable ASCII.
pub(crate) fn to_ascii_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    push_escaped(&mut out, json);
    out
}

/// JSON with all that is not printable ASCII as escapes. Such blanks between its tokens become one of ours.
pub(crate) fn push_escaped(out: &mut String, json: &str) {
    for c in json.chars() {
        match c {
            ' '..='~' => out.push(c),
            '\t' | '\n' | '\r' => out.push(' '),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str("\\u");
                    push_hex(out, u32::from(*unit), 4);
                }
            }
        }
    }
}
