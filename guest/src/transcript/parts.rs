//! Content that is a list of parts: texts, images and others.
//!
//! Promises to leave all but the texts as it is, as long as it fits. A part's text is its member `text`, or the part itself
//! if that is a string. A part that is too large to be stored is replaced by a text that says so.

use keepline_json as json;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Deref;

use crate::options::conversation::Options;
use crate::text::json_values::{array, on_one_line};
use crate::text::{tokens, truncate};
use crate::transcript::sanitize;

/// Parts of a record: a JSON array.
#[derive(Clone)]
pub struct ContentParts<'a> {
    json: Cow<'a, str>,
    weight: OnceCell<PartsWeight>,
}

/// Tokens of parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartsWeight {
    /// Of their texts.
    pub texts: u64,
    /// Of all that is no text: an image, or another file, counts as one, however long its data are.
    pub others: u64,
    /// How many images and other files there are.
    pub files: u64,
}

impl ContentParts<'_> {
    /// What they weigh, once it was asked for.
    pub fn weight(&self) -> PartsWeight {
        *self.weight.get_or_init(|| weigh(&self.json))
    }
}

fn weigh(parts: &str) -> PartsWeight {
    let (mut weight, mut bytes, mut count) = (PartsWeight::default(), 0_usize, 0_usize);
    let _ = json::for_each_element(parts, |part| match json::part_text(part).and_then(json::decode_string) {
        Some(text) => {
            bytes += text.len();
            count += 1;
        }
        None if is_file(part) => {
            weight.files += 1;
            weight.others += tokens::IMAGE_TOKENS;
        }
        None => weight.others += tokens::estimate_tokens(part),
    });
    // They are shown on lines of their own.
    weight.texts = tokens::estimate_for_bytes(bytes + count.saturating_sub(1));
    weight
}

/// Whether there is a part that says something: a text that isn't blank, or what is neither a text nor a thought.
pub(crate) fn have_content(parts: &str) -> bool {
    let mut found = false;
    let _ = json::for_each_element(parts, |part| {
        let text = json::part_text(part).and_then(json::decode_string);
        found |= !is_thought(part) && text.is_none_or(|text| !text.trim().is_empty());
    });
    found
}

fn is_thought(part: &str) -> bool {
    const THOUGHTS: [&str; 3] = ["thinking", "redacted_thinking", "reasoning"];
    kind(part).is_some_and(|kind| THOUGHTS.contains(&&*kind))
}

/// Whether an array has elements.
pub(crate) fn are_there(array: &str) -> bool {
    let mut found = false;
    json::for_each_element(array, |_| found = true).is_some() && found
}

/// Whether an entry's text is parts with an image or another file among them.
pub(crate) fn have_files(text: &str) -> bool {
    json::is_content(text) && weigh(text).files > 0
}

/// Whether a part is an image or another file, by its type.
fn is_file(part: &str) -> bool {
    kind(part).is_some_and(|kind| {
        ["image", "audio", "video", "file", "document"]
            .iter()
            .any(|name| crate::text::find_substring(&kind, name).is_some())
    })
}

pub(crate) fn kind(part: &str) -> Option<Cow<'_, str>> {
    json::member(part, "type").and_then(json::decode_string)
}

impl Deref for ContentParts<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.json
    }
}

impl<'a> From<Cow<'a, str>> for ContentParts<'a> {
    fn from(json: Cow<'a, str>) -> Self {
        Self { json, weight: OnceCell::new() }
    }
}

impl From<String> for ContentParts<'_> {
    fn from(json: String) -> Self {
        Cow::from(json).into()
    }
}

impl PartialEq for ContentParts<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json
    }
}

impl Eq for ContentParts<'_> {}

impl std::fmt::Debug for ContentParts<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.json.fmt(formatter)
    }
}

/// The same parts by the rules of what is stored: texts cleaned, patterns replaced wherever they stand, thoughts left out
/// of answers if texts' are. What is left of a message that has nothing else is a text, an empty one if need be; so is
/// what patterns have made no JSON of.
pub(crate) fn clean_parts(options: &Options, parts: &str, is_answer: bool) -> String {
    let without_thoughts = is_answer && options.strip_thinking;
    let mut kept: Vec<&str> = Vec::new();
    let _ = json::for_each_element(parts, |part| {
        if !(without_thoughts && is_thought(part)) {
            kept.push(part);
        }
    });
    let kept = array(&kept);
    let kept = map_part_texts(&kept, |text| Some(sanitize::cleaned_text(options, text, is_answer).into_owned()));
    let kept = kept.unwrap_or_default();
    let kept = sanitize::redact_json(options, kept.into()).into_owned();
    if json::is_content(&kept) {
        return on_one_line(kept.into()).into_owned();
    }
    sanitize::cleaned_text(options, json::join_texts(parts).into(), is_answer).into_owned()
}

/// No longer than so many characters of text, and bytes of JSON. None: they are.
pub(crate) fn truncate_parts(parts: &str, characters: usize, bytes: usize) -> Option<String> {
    let mut out: Option<String> = None;
    let all = if parts.len() > characters { characters_of(parts) } else { 0 };
    if all > characters {
        out = shortened(parts, all, characters);
    }
    // The largest of what can't be cut goes first.
    loop {
        let kept = out.as_deref().unwrap_or(parts);
        let Some(less) = Some(kept).filter(|kept| kept.len() > bytes).and_then(without_largest) else { break };
        out = Some(less);
    }
    let rest = out.as_deref().unwrap_or(parts);
    if rest.len() > bytes {
        // Texts alone: a character takes no more than six bytes in JSON.
        let mut text = Cow::Owned(json::join_texts(rest));
        truncate::shorten_with_note(&mut text, usize::MAX, bytes.saturating_sub(64));
        out = Some(text_part(&text, true));
    }
    out
}

/// Of all texts together.
fn characters_of(parts: &str) -> usize {
    let mut count = 0;
    let _ = json::for_each_element(parts, |part| {
        count += json::part_text(part).and_then(json::decode_string).map_or(0, |text| text.chars().count());
    });
    count
}

/// With texts of so many characters together, of `all` that they have, and a note of it if there is room for one.
fn shortened(parts: &str, all: usize, characters: usize) -> Option<String> {
    let has_note = characters >= truncate::NOTED;
    let most = if has_note { characters - truncate::CUT_NOTE } else { characters };
    let mut room = most;
    let mut out = map_part_texts(parts, |mut text| {
        let is_empty = text.is_empty();
        truncate::up_to_characters(&mut text, room);
        room -= text.chars().count();
        (is_empty || !text.is_empty()).then(|| text.into_owned())
    })?;
    if has_note {
        out.pop();
        out.push_str(if out.len() > 1 { "," } else { "" });
        out.push_str(&text_part(&truncate::omission_note(all.saturating_sub(most)), false));
        out.push(']');
    }
    Some(out)
}

/// Replaces the largest part that is not text with a note. `None`: no such part is longer than a note.
fn without_largest(parts: &str) -> Option<String> {
    let mut all = Vec::new();
    json::for_each_element(parts, |part| all.push(part))?;
    let is_cuttable = |part: &&&str| json::part_text(part).is_some();
    let largest = *all.iter().filter(|part| !is_cuttable(part)).max_by_key(|part| part.len())?;
    let name = kind(largest).map(|kind| kind.chars().take(32).collect::<String>()).unwrap_or_default();
    let note =
        ["[A part of type ", &name, ", ", &largest.len().to_string(), " bytes, left out: too large to be stored]"];
    let note = text_part(&note.concat(), false);
    if note.len() >= largest.len() {
        return None;
    }
    let is_largest = |part: &str| std::ptr::eq(part, largest);
    let kept: Vec<&str> = all.iter().map(|part| if is_largest(part) { &*note } else { *part }).collect();
    Some(array(&kept))
}

fn text_part(text: &str, is_alone: bool) -> String {
    let mut out = String::from(if is_alone { "[" } else { "" });
    out.push_str("{\"type\":\"text\",\"text\":");
    json::push_string(&mut out, text);
    out.push_str(if is_alone { "}]" } else { "}" });
    out
}

/// Replaces the texts; a part without a new text is removed. `None`: it is not JSON.
pub(crate) fn map_part_texts(parts: &str, mut changed: impl FnMut(Cow<'_, str>) -> Option<String>) -> Option<String> {
    let mut out = String::from("[");
    json::for_each_element(parts, |part| {
        let (raw, new) = match json::part_text(part).and_then(|raw| Some((raw, json::decode_string(raw)?))) {
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
        let at = json::offset_in(part, raw);
        out.push_str(part.get(..at).unwrap_or_default());
        json::push_string(&mut out, &new);
        out.push_str(part.get(at + raw.len()..).unwrap_or_default());
    })?;
    out.push(']');
    Some(out)
}

/// Whether a part is a text that says nothing.
pub(crate) fn is_blank(part: &str) -> bool {
    json::part_text(part).and_then(json::decode_string).is_some_and(|text| text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: &str = r#"["a", {"type":"image","url":"x"}, {"type":"text","text":"b\u00e9","n":1}, {"text":7}, 3]"#;

    #[test]
    fn texts_are_found_and_changed_where_they_stand() {
        assert_eq!(json::join_texts(PARTS), "a\nbé");
        let shout = |text: Cow<'_, str>| Some(text.to_uppercase());
        let expected = r#"["A",{"type":"image","url":"x"},{"type":"text","text":"BÉ","n":1},{"text":7},3]"#;
        assert_eq!(map_part_texts(PARTS, shout).as_deref(), Some(expected));
        let none = |_: Cow<'_, str>| None;
        assert_eq!(map_part_texts(PARTS, none).as_deref(), Some(r#"[{"type":"image","url":"x"},{"text":7},3]"#));
        assert_eq!(map_part_texts(r#"["a", "#, none), None);
    }

    #[test]
    fn an_image_weighs_as_one_however_long_its_data_are() {
        let image = |bytes: usize| {
            let data = "A".repeat(bytes);
            format!(
                r#"[{{"type":"text","text":"Hi"}},{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}]"#
            )
        };
        for bytes in [10, 300_000] {
            let weight = ContentParts::from(image(bytes)).weight();
            assert_eq!(
                (weight.texts, weight.others, weight.files),
                (tokens::estimate_tokens("Hi"), tokens::IMAGE_TOKENS, 1)
            );
        }
        let thought = r#"{"type":"thinking","thinking":"hm"}"#;
        assert_eq!(ContentParts::from(format!("[{thought}]")).weight().others, tokens::estimate_tokens(thought));
    }

    #[test]
    fn a_part_too_large_is_replaced_by_a_text_that_says_so() {
        let data = "A".repeat(2000);
        let parts = format!(
            r#"[{{"type":"image","data":"{data}"}},{{"type":"text","text":"Hi"}},{{"type":"image","data":"B"}}]"#
        );
        assert_eq!(truncate_parts(&parts, usize::MAX, 4000), None);
        let kept = truncate_parts(&parts, usize::MAX, 1000).unwrap();
        let texts = json::join_texts(&kept);
        assert!(texts.starts_with("[A part of type image, 2026 bytes, left out") && texts.ends_with("\nHi"), "{texts}");
        assert!(json::is_content(&kept) && kept.ends_with(r#"{"type":"image","data":"B"}]"#), "{kept}");
        // Where texts alone are too long, too.
        let long = format!(r#"[{{"type":"text","text":"{}"}},{{"type":"image","data":"{data}"}}]"#, "é".repeat(2000));
        let kept = truncate_parts(&long, usize::MAX, 1000).unwrap();
        assert!(kept.len() <= 1000 && json::is_content(&kept) && kept.contains("characters left out"), "{kept}");
        let kept = truncate_parts(&long, 1000, 100_000).unwrap();
        assert_eq!(
            json::join_texts(&kept).chars().count(),
            1000 - truncate::CUT_NOTE + 1 + truncate::omission_note(1000 + truncate::CUT_NOTE).chars().count()
        );
        assert!(json::is_content(&kept) && kept.contains(&data));
        assert_eq!(truncate_parts(&kept, 1000, 100_000), None, "what was cut is not cut again");
    }
}
