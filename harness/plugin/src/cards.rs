//! Finds card numbers and puts their last four digits in their place: in texts, in JSON, and in the metadata of an entry.
//!
//! A card number is 13 to 19 digits, the first of them 2 to 6, whose check digit is right (Luhn). They may stand in groups, with a
//! space or a hyphen between two. Other numbers of this form are redacted, too: one in ten has the right check digit.

use std::ops::Range;

use keepline_json as json;

/// Digits of a card number.
const DIGITS: Range<usize> = 13..20;

/// Members of metadata that name something and are no text: the bundled filter finds sessions and messages by them.
const NAMES: [&str; 6] = ["session_id", "user_id", "app_id", "node_id", "message_id", "parent_message_id"];

/// Redacts the card numbers in a text.
pub fn redact_text(text: &mut String) {
    if let Some(redacted) = redacted(text) {
        *text = redacted;
    }
}

/// Redacts the card numbers in JSON: in its strings, and its numbers, which become strings.
pub fn redact_json(text: &mut String) {
    let mut out = String::with_capacity(text.len());
    let mut rest = &**text;
    while let Some(at) = rest.find(|sign: char| matches!(sign, '"' | '-' | '0'..='9')) {
        let (before, token) = rest.split_at(at);
        let (token, after) = token.split_at(token_length(token));
        out.push_str(before);
        // A string's text may be spelled with escapes.
        let spoken = json::decode_string(token);
        match redacted(spoken.as_deref().unwrap_or(token)) {
            Some(redacted) => json::push_string(&mut out, &redacted),
            None => out.push_str(token),
        }
        rest = after;
    }
    out.push_str(rest);
    *text = out;
}

/// Redacts the card numbers in an entry's metadata, but for its names.
pub fn redact_metadata(metadata: &mut String) {
    let mut out = String::with_capacity(metadata.len());
    let mut copied = 0;
    let read = json::for_each_member(metadata, |key, raw| {
        if json::decode_string(key).is_some_and(|key| NAMES.contains(&&*key)) {
            return;
        }
        let mut value = raw.to_owned();
        redact_json(&mut value);
        let start = json::offset_in(metadata, raw);
        out.push_str(&metadata[copied..start]);
        out.push_str(&value);
        copied = start + raw.len();
    });
    // Of metadata that are no object, nothing is stored.
    if read.is_some() {
        out.push_str(&metadata[copied..]);
        *metadata = out;
    }
}

/// How long the string or the number is that the JSON begins with.
fn token_length(json: &str) -> usize {
    if !json.starts_with('"') {
        return json.find(|sign: char| !sign.is_ascii_alphanumeric() && !"+-.".contains(sign)).unwrap_or(json.len());
    }
    let mut is_escaped = true;
    let end = json.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        // The first quotation mark ends nothing.
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(json.len(), |end| end + 1)
}

/// The text without its card numbers; none: it has none.
fn redacted(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(start) = text[at..].find(|sign: char| sign.is_ascii_digit()).map(|found| at + found) {
        if let Some(end) = card_end(text, start) {
            let digits: Vec<char> = text[start..end].chars().filter(char::is_ascii_digit).collect();
            out.push_str(&text[copied..start]);
            out.push_str("[card ending in ");
            out.extend(&digits[digits.len() - 4..]);
            out.push(']');
            (copied, at) = (end, end);
        } else {
            // The next group of digits.
            at = start + group_length(&text[start..]);
        }
    }
    out.push_str(&text[copied..]);
    (copied > 0).then_some(out)
}

/// Where the longest card number ends that begins with the group of digits at `start`.
fn card_end(text: &str, start: usize) -> Option<usize> {
    let (mut digits, mut longest, mut end) = (Vec::new(), None, start);
    loop {
        let length = group_length(&text[end..]);
        digits.extend(text[end..end + length].bytes().map(|digit| u32::from(digit - b'0')));
        end += length;
        if digits.len() >= DIGITS.end {
            return longest;
        }
        if DIGITS.contains(&digits.len()) && (2..=6).contains(&digits[0]) && has_check_digit(&digits) {
            longest = Some(end);
        }
        let goes_on = text[end..]
            .strip_prefix([' ', '-'])
            .is_some_and(|next| next.starts_with(|sign: char| sign.is_ascii_digit()));
        if !goes_on {
            return longest;
        }
        end += 1;
    }
}

fn group_length(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Luhn's: every second digit from the right counts twice, by its digits' sum.
fn has_check_digit(digits: &[u32]) -> bool {
    let counted = digits.iter().rev().enumerate().map(|(place, digit)| match digit * (1 + place as u32 % 2) {
        twice @ 10.. => twice - 9,
        once => once,
    });
    counted.sum::<u32>().is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> String {
        let mut text = text.to_owned();
        redact_text(&mut text);
        text
    }

    fn json(text: &str) -> String {
        let mut text = text.to_owned();
        redact_json(&mut text);
        text
    }

    #[test]
    fn card_numbers_in_a_text_are_redacted() {
        for (given, expected) in [
            ("4111111111111111", "[card ending in 1111]"),
            ("My card is 4111 1111 1111 1111.", "My card is [card ending in 1111]."),
            ("5500-0055-5555-5559, 378282246310005", "[card ending in 5559], [card ending in 0005]"),
            ("2 4111 1111 1111 1111 12/27 123", "2 [card ending in 1111] 12/27 123"),
            ("№4111111111111111é", "№[card ending in 1111]é"),
        ] {
            assert_eq!(text(given), expected);
        }
    }

    #[test]
    fn other_numbers_stay() {
        for given in [
            "",
            "4111111111111112",
            "1764338559000000",
            "411111111111",
            "41111111111111111111111111111111",
            "4111  1111  1111  1111",
            "2026-11-28 14:02:39",
        ] {
            assert_eq!(text(given), given);
        }
    }

    #[test]
    fn json_stays_json() {
        for (given, expected) in [
            (r#"{"card":4111111111111111,"n":[1.5e3,null]}"#, r#"{"card":"[card ending in 1111]","n":[1.5e3,null]}"#),
            (r#"["\"4111 1111\u00201111 1111\" \\"]"#, r#"["\"[card ending in 1111]\" \\"]"#),
            (r#"{"a\\":"b","n":-4111111111111111}"#, r#"{"a\\":"b","n":"-[card ending in 1111]"}"#),
            (r#"{"\u0034111111111111111":1}"#, r#"{"[card ending in 1111]":1}"#),
            ("", ""),
        ] {
            assert_eq!(json(given), expected);
        }
    }

    #[test]
    fn names_in_metadata_stay() {
        let mut metadata =
            r#"{"session_id":"4111111111111111", "memory_question":"4111111111111111", "metadata":{"a":[4111111111111111]}}"#
                .to_owned();
        redact_metadata(&mut metadata);
        let expected = r#"{"session_id":"4111111111111111", "memory_question":"[card ending in 1111]", "metadata":{"a":["[card ending in 1111]"]}}"#;
        assert_eq!(metadata, expected);
        let mut broken = "[4111111111111111".to_owned();
        redact_metadata(&mut broken);
        assert_eq!(broken, "[4111111111111111");
    }
}
