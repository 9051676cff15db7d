//! Reads chat content that is an array of parts: texts, images and other files, thoughts.
//!
//! Promises that every reader, the filter and its host, finds the same parts. Refuses parts of
//! types that it does not know, and those that belong to tools: a text that holds such is a text.

use std::borrow::Cow;

use crate::{as_strict_value, decode_string, for_each_element, for_each_member, key_matches};

/// The types of parts that chat APIs take in what users and assistants say.
const TYPES: [&str; 18] = [
    "text",
    "input_text",
    "output_text",
    "refusal",
    "thinking",
    "redacted_thinking",
    "reasoning",
    "image",
    "image_url",
    "input_image",
    "audio",
    "input_audio",
    "video",
    "video_url",
    "input_video",
    "file",
    "input_file",
    "document",
];
/// Those of them that hold a text.
const TEXTS: [&str; 3] = ["text", "input_text", "output_text"];

/// Whether a text is content of this form, and nothing else: an array of objects, at least one, each with a `type` that is
/// known and something beside it.
pub fn is_content(text: &str) -> bool {
    if !text.starts_with('[') || as_strict_value(text).is_none() {
        return false;
    }
    let (mut count, mut is_good) = (0_usize, true);
    let read = for_each_element(text, |part| {
        count += 1;
        is_good = is_good && is_part(part);
    });
    read.is_some() && is_good && count > 0
}

fn is_part(part: &str) -> bool {
    let (mut kind, mut has_text, mut count) = (None, false, 0_usize);
    let read = for_each_member(part, |key, raw| {
        count += 1;
        if key_matches(key, "type") {
            kind = decode_string(raw);
        } else if key_matches(key, "text") {
            has_text = raw.starts_with('"');
        }
    });
    let Some(kind) = kind.filter(|_| read.is_some() && count > 1) else { return false };
    TYPES.contains(&&*kind) && (has_text || !TEXTS.contains(&&*kind))
}

/// What is said in a message: the text itself, or the texts of its parts, each on lines of its own.
pub fn spoken_text(text: &str) -> Cow<'_, str> {
    if is_content(text) { join_texts(text).into() } else { text.into() }
}

/// The texts of all parts of an array, each on lines of its own.
pub fn join_texts(parts: &str) -> String {
    let mut out = String::new();
    let mut is_first = true;
    let _ = for_each_element(parts, |part| {
        if let Some(text) = part_text(part).and_then(decode_string) {
            if !is_first {
                out.push('\n');
            }
            is_first = false;
            out.push_str(&text);
        }
    });
    out
}

/// A part's text as it is written: its member `text`, or the part itself if that is a string.
pub fn part_text(part: &str) -> Option<&str> {
    if part.starts_with('"') {
        return Some(part);
    }
    let mut text = None;
    for_each_member(part, |key, raw| {
        if key_matches(key, "text") {
            text = Some(raw).filter(|raw| raw.starts_with('"'));
        }
    })?;
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_arrays_of_known_parts_are_content() {
        for content in [
            r#"[{"type":"text","text":"a"}]"#,
            r#"[ {"type":"image_url","image_url":{"url":"x"}}, {"text":"a","type":"t\u0065xt"} ]"#,
            r#"[{"type":"thinking","thinking":"hm"}]"#,
        ] {
            assert!(is_content(content), "{content}");
        }
        for text in [
            "",
            "[]",
            "[1]",
            r#"["a"]"#,
            r#"[{"type":"text"}]"#,
            r#"[{"type":"text","text":7}]"#,
            r#"[{"type":"image_url"}]"#,
            r#"[{"type":"tool_result","content":"x"}]"#,
            r#"[{"type":"text","text":"a"}] and more"#,
            r#" [{"type":"text","text":"a"}]"#,
            r#"[{"type":"text","text":"a","n":NaN}]"#,
            r#"{"type":"text","text":"a"}"#,
        ] {
            assert!(!is_content(text), "{text}");
            assert_eq!(spoken_text(text), text);
        }
        assert_eq!(
            spoken_text(r#"[{"type":"text","text":"a"},{"type":"image","n":1},{"type":"text","text":"\u00e9"}]"#),
            "a\né"
        );
    }
}
