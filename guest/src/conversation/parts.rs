//! Content that is a list of parts: texts, and what is none, such as images.
//!
//! Promises to leave all but the texts as it is. A part's text is its member `text`, or the part itself if that is a
//! string.

use std::borrow::Cow;

use keepline_json as json;

/// The texts of all parts, each on lines of its own.
pub(super) fn text(parts: &str) -> String {
    let mut out = String::new();
    let _ = json::elements(parts, |part| {
        if let Some(text) = raw_text(part).and_then(json::string) {
            if !out.is_empty() {
                out.push('\n');
            }
            out.push_str(&text);
        }
    });
    out
}

/// Whether there is a part that says something: a text that isn't blank, or what is neither a text nor a thought.
pub(super) fn have_content(parts: &str) -> bool {
    const THOUGHTS: [&str; 3] = ["thinking", "redacted_thinking", "reasoning"];
    let mut found = false;
    let _ = json::elements(parts, |part| {
        let text = raw_text(part).and_then(json::string);
        let mut is_thought = false;
        let _ = json::members(part, |key, raw| {
            let kind = Some(raw).filter(|_| json::key_is(key, "type")).and_then(json::string);
            is_thought |= kind.is_some_and(|kind| THOUGHTS.contains(&&*kind));
        });
        found |= !is_thought && text.is_none_or(|text| !text.trim().is_empty());
    });
    found
}

/// Whether an array has elements.
pub(super) fn are_there(array: &str) -> bool {
    let mut found = false;
    json::elements(array, |_| found = true).is_some() && found
}

/// With other texts; a part goes for whose text there is none. `None`: it is no JSON.
pub(super) fn with_texts(parts: &str, mut changed: impl FnMut(Cow<'_, str>) -> Option<String>) -> Option<String> {
    let mut out = String::from("[");
    json::elements(parts, |part| {
        let (raw, new) = match raw_text(part).and_then(|raw| Some((raw, json::string(raw)?))) {
            Some((raw, text)) => match changed(text) {
                Some(new) => (raw, new),
                None => return,
            },
            None => ("", String::new()),
        };
        if out.len() > 1 {
            out.push(',');
        }
        if raw.is_empty() {
            return out.push_str(part);
        }
        let at = json::offset(part, raw);
        out.push_str(part.get(..at).unwrap_or_default());
        json::push_string(&mut out, &new);
        out.push_str(part.get(at + raw.len()..).unwrap_or_default());
    })?;
    out.push(']');
    Some(out)
}

/// Whether a part is a text that says nothing.
pub(super) fn is_blank(part: &str) -> bool {
    raw_text(part).and_then(json::string).is_some_and(|text| text.trim().is_empty())
}

/// A part's text as it is written.
fn raw_text(part: &str) -> Option<&str> {
    if part.starts_with('"') {
        return Some(part);
    }
    let mut text = None;
    json::members(part, |key, raw| {
        if json::key_is(key, "text") {
            text = Some(raw).filter(|raw| raw.starts_with('"'));
        }
    })?;
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: &str = r#"["a", {"type":"image","url":"x"}, {"type":"text","text":"b\u00e9","n":1}, {"text":7}, 3]"#;

    #[test]
    fn texts_are_found_and_changed_where_they_stand() {
        assert_eq!(text(PARTS), "a\nbé");
        let shout = |text: Cow<'_, str>| Some(text.to_uppercase());
        let expected = r#"["A",{"type":"image","url":"x"},{"type":"text","text":"BÉ","n":1},{"text":7},3]"#;
        assert_eq!(with_texts(PARTS, shout).as_deref(), Some(expected));
        let none = |_: Cow<'_, str>| None;
        assert_eq!(with_texts(PARTS, none).as_deref(), Some(r#"[{"type":"image","url":"x"},{"text":7},3]"#));
        assert_eq!(with_texts(r#"["a", "#, none), None);
    }
}
