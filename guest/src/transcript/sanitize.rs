//! Decides what of a text is stored: redacted, without reasoning, within the limits; and which answers are skipped.

use keepline_json as json;
use std::borrow::Cow;

use crate::options::conversation::Options;
use crate::text;
use crate::text::truncate;
use crate::transcript::parts;
use crate::transcript::skip_counters::{BLANK, MARKER, SHORT, skip_reason_code};

/// Why an answer is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SkipReason {
    Blank,
    Marker,
    Short,
    /// The entry asked for it.
    SwitchedOff,
}

impl SkipReason {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Blank => "it is blank",
            Self::Marker => "it is one of skip_markers",
            Self::Short => "it is shorter than min_message_length",
            Self::SwitchedOff => "its metadata say so",
        }
    }

    /// `None`: nothing is to be written, so nothing is counted.
    pub(crate) fn counter(self) -> Option<&'static str> {
        match self {
            Self::Blank => Some(BLANK),
            Self::Marker => Some(MARKER),
            Self::Short => Some(SHORT),
            Self::SwitchedOff => None,
        }
    }

    /// The option, or the member of the entry, that says so.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::Blank => "",
            Self::Marker => "skip_markers",
            Self::Short => "min_message_length",
            Self::SwitchedOff => "memory.write",
        }
    }

    /// As a problem's code.
    pub(crate) fn code(self) -> &'static str {
        self.counter().and_then(skip_reason_code).unwrap_or("switched-off")
    }
}

/// A message as it is stored.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CleanText<'a> {
    /// Of parts, the texts in them.
    pub text: Cow<'a, str>,
    /// JSON; none: it is a text alone.
    pub parts: Option<String>,
    pub is_cut: bool,
}

/// Why an answer that is clean is not stored, if it isn't. With tools at work it is, whatever it says; so is
/// one of files alone.
pub(crate) fn skip_reason(options: &Options, answer: &str, has_activity: bool, has_files: bool) -> Option<SkipReason> {
    let text = answer.trim();
    if has_activity || (has_files && text.is_empty()) {
        None
    } else if text.is_empty() {
        Some(SkipReason::Blank)
    } else if options.skip_markers.iter().any(|marker| marker.trim() == text) {
        Some(SkipReason::Marker)
    } else if length_below(text, options.min_message_length) {
        Some(SkipReason::Short)
    } else {
        None
    }
}

/// Whether a text has fewer characters. One of four times as many bytes has not.
fn length_below(text: &str, characters: u64) -> bool {
    let limit = usize::try_from(characters).unwrap_or(usize::MAX);
    text.len() < limit.saturating_mul(4) && text.chars().count() < limit
}

/// A message as it is stored.
pub(crate) fn sanitize_message<'a>(options: &Options, text: &'a str, is_answer: bool) -> CleanText<'a> {
    limit_message(options, clean_message(options, text.into(), is_answer))
}

/// The same of one that is clean: no longer than it may be.
pub(crate) fn limit_message<'a>(options: &Options, mut text: Cow<'a, str>) -> CleanText<'a> {
    if json::is_content(&text) {
        let kept = parts::truncate_parts(&text, message_length_limit(options), options.message_bytes());
        let is_cut = kept.is_some();
        let content = kept.unwrap_or_else(|| text.into_owned());
        return CleanText { text: json::join_texts(&content).into(), parts: Some(content), is_cut };
    }
    let is_cut = truncate::shorten_with_note(&mut text, message_length_limit(options), options.message_bytes());
    CleanText { text, parts: None, is_cut }
}

/// The most characters of a message.
pub(crate) fn message_length_limit(options: &Options) -> usize {
    usize::try_from(options.max_message_length).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX)
}

/// A message without what is not stored, however long. Content that is parts stays so.
pub(crate) fn clean_message<'a>(options: &Options, text: Cow<'a, str>, is_answer: bool) -> Cow<'a, str> {
    if json::is_content(&text) {
        return parts::clean_parts(options, &text, is_answer).into();
    }
    cleaned_text(options, text, is_answer)
}

/// The same of a text, whatever it spells.
pub(crate) fn cleaned_text<'a>(options: &Options, mut text: Cow<'a, str>, is_answer: bool) -> Cow<'a, str> {
    if is_answer
        && options.strip_thinking
        && let Some(without) = without_thoughts(&text)
    {
        text = Cow::Owned(without);
    }
    redact_text(options, text)
}

/// With all patterns replaced. Of JSON, also what its strings spell with escapes, as many writers do with all but ASCII.
pub(crate) fn redact_text<'a>(options: &Options, text: Cow<'a, str>) -> Cow<'a, str> {
    let text = replaced(options, text);
    if options.redact.0.is_empty() || !text.as_bytes().contains(&b'\\') || json::as_strict_value(&text).is_none() {
        return text;
    }
    let plain = respelled(&text);
    match replaced(options, (&*plain).into()) {
        Cow::Owned(replaced) => replaced.into(),
        Cow::Borrowed(_) => text,
    }
}

/// The same of JSON, which stays JSON: a number that holds a pattern becomes a text. Where one spans more than a text or a
/// number, nothing of it is left.
pub(crate) fn redact_json<'a>(options: &Options, text: Cow<'a, str>) -> Cow<'a, str> {
    let replaced = match redact_text(options, (&*text).into()) {
        Cow::Borrowed(_) => return text,
        Cow::Owned(replaced) => replaced,
    };
    if json::as_strict_value(&replaced).is_some() || json::as_strict_value(&text).is_none() {
        return replaced.into();
    }
    let within = redacted_within(options, &text);
    match redact_text(options, (&*within).into()) {
        Cow::Borrowed(_) => within.into(),
        Cow::Owned(replaced) if json::as_strict_value(&replaced).is_some() => replaced.into(),
        Cow::Owned(_) => match text.trim_start().as_bytes().first() {
            Some(b'{') => "{\"redacted\":\"[redacted]\"}".into(),
            Some(b'[') => "[\"[redacted]\"]".into(),
            _ => "\"[redacted]\"".into(),
        },
    }
}

/// JSON with all patterns replaced in each of its texts and numbers.
fn redacted_within(options: &Options, json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(first) = rest.bytes().next() {
        let is_text = first == b'"';
        let mut is_escaped = is_text;
        let ends = |byte: u8| match is_text {
            true => {
                let ends = byte == b'"' && !is_escaped;
                is_escaped = byte == b'\\' && !is_escaped;
                ends
            }
            false => matches!(byte, b'"' | b',' | b':' | b'{' | b'}' | b'[' | b']' | b' ' | b'\n' | b'\r' | b'\t'),
        };
        let end = rest.bytes().position(ends).map_or(rest.len(), |end| end + usize::from(is_text));
        let (token, after) = rest.split_at_checked(end.max(1)).unwrap_or((rest, ""));
        rest = after;
        let spelt = json::decode_string(token).filter(|_| is_text).unwrap_or(Cow::Borrowed(token));
        match replaced(options, spelt) {
            Cow::Owned(text) => json::push_string(&mut out, &text),
            Cow::Borrowed(_) => out.push_str(token),
        }
    }
    out
}

/// JSON whose strings have no more escapes than they must.
fn respelled(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some((before, string)) = json::split_before(rest, b'"') {
        let mut is_escaped = true; // the quote that it begins with
        let end = string.bytes().position(|byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        });
        let Some((raw, after)) = end.and_then(|end| string.split_at_checked(end + 1)) else { break };
        out.push_str(before);
        json::push_string(&mut out, &json::decode_string(raw).unwrap_or_default());
        rest = after;
    }
    out.push_str(rest);
    out
}

fn replaced<'a>(options: &Options, mut text: Cow<'a, str>) -> Cow<'a, str> {
    for pattern in &options.redact.0 {
        if let Some(replaced) = pattern.redact_matches(&text) {
            text = Cow::Owned(replaced);
        }
    }
    text
}

/// Without `<think>…</think>`; one that doesn't end goes to the end of the text. None: there is none.
fn without_thoughts(text: &str) -> Option<String> {
    const OPEN: &str = "<think>";
    const CLOSE: &str = "</think>";
    let begin = text::split_once(text, OPEN);
    // Some models' templates open the first thought before the model speaks.
    let head = text::split_once(text, CLOSE).filter(|(head, _)| text::find_substring(head, OPEN).is_none());
    let (before, mut rest) = match head {
        Some(_) => ("", text),
        None => begin?,
    };
    let mut out = before.to_owned();
    // Thoughts may hold another beginning, which is a part of them.
    while let Some((_, after)) = text::split_once(rest, CLOSE) {
        let after = if out.trim().is_empty() { after.trim_start() } else { after };
        match text::split_once(after, OPEN) {
            Some((kept, more)) => {
                out.push_str(kept);
                rest = more;
            }
            None => {
                out.push_str(after);
                break;
            }
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::options::reader::PatternList;
    use crate::text::redact::RedactPattern;

    #[test]
    fn thoughts_are_cut_out() {
        for (before, after) in [
            ("<think>hm</think>\n\nYes.", "Yes."),
            ("A<think>x<think>y</think>B</think>C", "AB</think>C"),
            ("A <think>x</think> B <think>y</think> C", "A  B  C"),
            ("A<think>x", "A"),
            ("<think></think>", ""),
        ] {
            assert_eq!(without_thoughts(before).as_deref(), Some(after), "{before}");
        }
        assert_eq!(without_thoughts("hm</think>\n\nA <think>x</think>B").as_deref(), Some("A B"));
        assert_eq!(without_thoughts("a"), None);
    }

    #[test]
    fn skipped_answers_have_their_reason() {
        let options = Options { min_message_length: 3, ..Options::default() };
        for (answer, has_activity, expected) in [
            (" \n", false, Some(SkipReason::Blank)),
            ("", true, None),
            (" [generation was interrupted]\n", false, Some(SkipReason::Marker)),
            ("[generation was interrupted]", true, None),
            ("no", false, Some(SkipReason::Short)),
            ("yes", false, None),
            ("äöü", false, None),
            ("äö", false, Some(SkipReason::Short)),
        ] {
            assert_eq!(skip_reason(&options, answer, has_activity, false), expected, "{answer}");
        }
    }

    #[test]
    fn texts_are_cut_between_characters_and_marked() {
        let options = Options { max_message_length: 3, ..Options::default() };
        for (before, after, is_cut) in [("äöü", "äöü", false), ("äöüß", "äöü", true), ("🎉🎉🎉🎉", "🎉🎉🎉", true)]
        {
            let taken = sanitize_message(&options, before, false);
            assert_eq!((&*taken.text, taken.is_cut), (after, is_cut));
        }
        let options = Options { max_message_length: 0, ..Options::default() };
        assert_eq!(sanitize_message(&options, &"x".repeat(20_000), false).text.len(), 20_000);
    }

    #[test]
    fn texts_with_json_escapes_are_redacted() {
        let redact = PatternList(["Müller", "c/o", "sk-{w6+}"].into_iter().flat_map(RedactPattern::parse).collect());
        let options = Options { redact, ..Options::default() };
        for (before, after) in [
            (r#"{"name": "M\u00fcller", "n": 1e2}"#, r#"{"name": "[redacted]", "n": 1e2}"#),
            (r#"["c\/o \"x\" \\", "\u0073k-123456"]"#, r#"["[redacted] \"x\" \\", "[redacted]"]"#),
            (r#""M\u00fcller \\ue""#, r#""[redacted] \\ue""#),
            // Text without any of it stays as it is, and so does text that is not JSON.
            (r#"{"name": "M\u00f6ller"}"#, r#"{"name": "M\u00f6ller"}"#),
            (r#"M\u00fcller"#, r#"M\u00fcller"#),
        ] {
            assert_eq!(redact_text(&options, before.into()), after, "{before}");
        }
    }

    #[test]
    fn texts_are_redacted_before_they_are_cut() {
        let redact = PatternList(RedactPattern::parse("sk-{w6+}").into_iter().collect());
        let options = Options { max_message_length: 12, strip_thinking: true, redact, ..Options::default() };
        let said = "<think>sk-1234567</think>a sk-1234567 and more";
        assert_eq!(sanitize_message(&options, said, true).text, "a [redacted]");
        // A question's own are its user's words.
        assert_eq!(sanitize_message(&options, "<think>no", false).text, "<think>no");
    }
}
