//! JSON as Python writes it: it means the same, in ASCII, on one line; and no text is a danger.

use serde_json::Value;

use crate::{is_json, run::python_json::dumps, tree};

pub fn holds(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let written = dumps(text);
    assert!(written.len() <= 12 * text.len() + 16);
    if !is_json(text) {
        return;
    }
    assert!(written.is_ascii() && !written.contains(|c: char| c.is_ascii_control() && c != '\u{7f}'), "{written}");
    // Python's own words, beyond JSON.
    if written.contains("Infinity") {
        return;
    }
    assert!(is_json(&written), "{written}");
    assert_eq!(dumps(&written), written);
    if let Some(value) = tree(text) {
        assert!(is_same(&tree(&written).unwrap(), &value), "{written}");
    }
}

/// serde_json, as it is built here, misses a float's last digits; that those stay, a test of their own says.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            a == b || (a - b).abs() <= a.abs() * 1e-12
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((k, a), (l, b))| k == l && is_same(a, b))
        }
        (a, b) => a == b,
    }
}
