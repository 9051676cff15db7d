//! Cuts texts to a number of characters or bytes, between characters, with a note of what was cut.

use keepline_json as json;
use std::borrow::Cow;

use crate::text::tokens;

/// The most bytes of a preview, whatever the budget.
const PREVIEW_BYTES: usize = 50 << 10;

/// The most lines of a preview.
const PREVIEW_LINES: usize = 2000;

/// Room for the note between the two.
const NOTE: usize = 64;

/// Room for the note at the end of a text that is cut: characters, and bytes in JSON.
pub(crate) const CUT_NOTE: usize = 48;

const CUT_NOTE_BYTES: usize = 64;

/// Where fewer characters are kept, there is no room for it.
pub(crate) const NOTED: usize = 256;

/// What of a tool's result is stored in the transcript: all of it, if it is no longer than an eighth of the window's
/// budget, 50 KiB and 2,000 lines; else its first quarter and the rest from its end. None: all of it.
pub(crate) fn preview_result(text: &str, budget: u64) -> Option<String> {
    let bytes = tokens::max_bytes_for(budget / 8).min(PREVIEW_BYTES);
    let lines = PREVIEW_LINES;
    if text.len() <= bytes && text.bytes().filter(|byte| *byte == b'\n').count() < lines {
        return None;
    }
    Some(head_and_tail(text, bytes, lines))
}

/// At most so many bytes and lines: a quarter from the beginning, the rest from the end, and a note between them.
pub(crate) fn head_and_tail(text: &str, bytes: usize, lines: usize) -> String {
    let room = bytes.saturating_sub(NOTE).min(text.len());
    let head = head_within(text, room / 4, lines / 4);
    let rest = text.get(head.len()..).unwrap_or_default();
    let tail = down_to(rest, room.saturating_sub(head.len()), lines.saturating_sub(lines / 4 + 1));
    let omitted = text.len().saturating_sub(head.len() + tail.len());
    if omitted == 0 {
        return text.to_owned();
    }
    format!("{head}\n[… {omitted} bytes omitted …]\n{tail}")
}

/// Bytes of a character in a JSON string.
fn width(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..' ' => "\\u0000".len(),
        _ => c.len_utf8(),
    }
}

/// The longest beginning that has at most so many bytes in a JSON string. None: all of it has.
fn encoded_up_to(text: &str, bytes: usize) -> Option<&str> {
    if text.len().saturating_mul(6) <= bytes {
        return None;
    }
    let mut room = bytes;
    let end = text.char_indices().find_map(|(at, c)| {
        let left = room.checked_sub(width(c));
        room = left.unwrap_or_default();
        left.is_none().then_some(at)
    })?;
    text.get(..end)
}

/// Leave no more than so many characters, and bytes in a JSON string, with a note of what is missing among them; whether
/// there was more.
pub(crate) fn shorten_with_note(text: &mut Cow<'_, str>, mut characters: usize, mut bytes: usize) -> bool {
    let is_long = text.len() > characters && text.chars().nth(characters).is_some();
    if !is_long && encoded_up_to(text, bytes).is_none() {
        return false;
    }
    if characters.min(bytes) < NOTED {
        up_to_characters(text, characters);
        truncate_json_bytes(text, bytes);
        return true;
    }
    (characters, bytes) = (characters - CUT_NOTE, bytes - CUT_NOTE_BYTES);
    let all = text.chars().count();
    up_to_characters(text, characters);
    truncate_json_bytes(text, bytes);
    let note = omission_note(all.saturating_sub(text.chars().count()));
    let text = text.to_mut();
    text.push('\n');
    text.push_str(&note);
    true
}

/// What says that so many characters are missing.
pub(crate) fn omission_note(count: usize) -> String {
    format!("[… {count} characters left out …]")
}

/// Leave as many characters; whether there were more.
pub(crate) fn up_to_characters(text: &mut Cow<'_, str>, limit: usize) -> bool {
    if text.len() <= limit {
        return false;
    }
    let Some((at, _)) = text.char_indices().nth(limit) else { return false };
    match text {
        Cow::Borrowed(whole) => *whole = whole.get(..at).unwrap_or_default(),
        Cow::Owned(whole) => whole.truncate(at),
    }
    true
}

/// Leave what has at most so many bytes in a JSON string; whether there was more.
pub(crate) fn truncate_json_bytes(text: &mut Cow<'_, str>, bytes: usize) -> bool {
    let Some(kept) = encoded_up_to(text, bytes).map(str::len) else { return false };
    match text {
        Cow::Borrowed(whole) => *whole = whole.get(..kept).unwrap_or_default(),
        Cow::Owned(whole) => whole.truncate(kept),
    }
    true
}

/// The same of arguments, which stay JSON: of those that are too long the beginning, as `{"truncated": "…"}`.
pub(crate) fn bound_arguments(text: &mut Cow<'_, str>, bytes: usize) -> bool {
    const AROUND: usize = 32;
    if encoded_up_to(text, bytes).is_none() {
        return false;
    }
    // In a string in a string no character takes more than twice as many bytes as in one.
    let kept = encoded_up_to(text, bytes.saturating_sub(AROUND) / 2).unwrap_or_default();
    let mut out = String::from("{\"truncated\":");
    json::push_string(&mut out, kept);
    out.push('}');
    *text = Cow::Owned(out);
    true
}

/// The longest beginning of at most so many bytes and line ends.
pub(crate) fn head_within(text: &str, bytes: usize, lines: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let head = text.get(..end).unwrap_or_default();
    let end = head.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').nth(lines);
    end.and_then(|(end, _)| head.get(..end)).unwrap_or(head)
}

/// The longest end of at most so many bytes and line ends.
fn down_to(text: &str, bytes: usize, lines: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let tail = text.get(start..).unwrap_or_default();
    let start = tail.bytes().enumerate().rev().filter(|(_, byte)| *byte == b'\n').nth(lines);
    start.and_then(|(start, _)| tail.get(start + 1..)).unwrap_or(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_text_keeps_to_its_limit() {
        let quoted = |text: &str| {
            let mut out = String::new();
            json::push_string(&mut out, text);
            out.len() - 2
        };
        for text in ["", "plain", "é\u{1}\"\\\n🎉", "\u{0}\u{1f}\u{7f}\u{8}\u{c}\r\t", "{\"a\":\"b\\\\\"}"] {
            let text = text.repeat(20);
            for bytes in 0..text.len() * 7 {
                let mut kept = Cow::Borrowed(&*text);
                let is_cut = truncate_json_bytes(&mut kept, bytes);
                assert_eq!(is_cut, quoted(&text) > bytes);
                assert!(text.starts_with(&*kept) && quoted(&kept) <= bytes, "{bytes}");
                let next = text.get(kept.len()..).and_then(|rest| rest.chars().next());
                assert!(next.is_none_or(|c| quoted(&kept) + width(c) > bytes), "{bytes}");

                let mut arguments = Cow::Borrowed(&*text);
                assert_eq!(bound_arguments(&mut arguments, bytes), is_cut);
                if is_cut && bytes >= 32 {
                    assert!(
                        quoted(&arguments) <= bytes && json::as_strict_value(&arguments).is_some(),
                        "{bytes}: {arguments}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_text_that_is_cut_says_so_and_is_not_cut_again() {
        for (text, characters, bytes) in [("é".repeat(1000), 400, 1 << 20), ("\u{1}".repeat(1000), 1000, 3000)] {
            let mut kept = Cow::Borrowed(&*text);
            assert!(shorten_with_note(&mut kept, characters, bytes));
            let (begin, note) = kept.split_once('\n').unwrap_or_default();
            assert!(text.starts_with(begin) && begin.len() > 100, "{kept}");
            assert_eq!(note, super::omission_note(1000 - begin.chars().count()));
            assert!(kept.chars().count() <= characters, "{kept}");
            let before = kept.clone();
            assert!(!shorten_with_note(&mut kept, characters, bytes) && kept == before);
        }
        // Where there is no room for a note.
        let mut kept = Cow::Borrowed("0123456789");
        assert!(shorten_with_note(&mut kept, 5, 1000) && kept == "01234");
    }

    #[test]
    fn a_preview_has_both_ends_and_keeps_its_limits() {
        let long = (0..100_000).map(|n| format!("{n}é\n")).collect::<String>();
        for budget in [64, 800, 4000, 50_000, 2_000_000] {
            let bytes = tokens::max_bytes_for(budget / 8).min(PREVIEW_BYTES);
            let Some(preview) = preview_result(&long, budget) else { continue };
            assert!(preview.len() <= bytes.max(NOTE), "{budget}: {}", preview.len());
            assert!(preview.lines().count() <= PREVIEW_LINES + 1);
            assert!(preview.contains("bytes omitted"), "{preview}");
            if budget > 4000 {
                assert!(preview.starts_with("0é\n1é\n") && preview.ends_with("99999é\n"), "{preview}");
            }
        }
        assert_eq!(preview_result("short", 4000), None);
        assert!(preview_result(&"\n".repeat(3000), 50_000).is_some_and(|text| text.lines().count() <= 2001));
    }
}
