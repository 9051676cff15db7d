//! Parses chat messages that are to be stored.
//!
//! Accepts JSON lines with a message each, an array of messages, an object with `messages`, and the output of `session
//! messages --json`. A message keeps its spelling, except where that is not JSON, and its number (its line, or its
//! place in the array) for error messages.

use keepline_json::{for_each_element, for_each_member, is_value, key_matches, mend_json};
use serde_json::Value;

/// What is wrong with the messages, and with which.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidChatMessages(pub String);

/// A message as it is written, a JSON object on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatMessage {
    /// Its line, or its place in the array, from 1.
    pub number: u64,
    /// The message itself.
    pub text: String,
}

impl ChatMessage {
    /// With its number, so that the component names it as the file does.
    pub fn numbered_text(&self) -> String {
        add_line_number(&self.text, self.number)
    }

    /// The message as JSON.
    ///
    /// # Errors
    /// When it has what only lenient readers take.
    pub fn parse_value(&self) -> serde_json::Result<Value> {
        serde_json::from_str(&self.text)
    }
}

/// A message, a JSON object, with the number that it has in reports.
pub fn add_line_number(message: &str, number: u64) -> String {
    let Some(body) = message.trim_end().strip_suffix('}') else { return message.to_owned() };
    let separator = if body.trim_end().ends_with('{') { "" } else { "," };
    format!("{body}{separator}\"line\":{number}}}")
}

/// Messages as lines, as an array, as an object with `messages`, or as `session messages --json` prints them.
///
/// # Errors
/// When something is not a JSON object, by its number.
pub fn parse_chat_messages(text: &str) -> Result<Vec<ChatMessage>, InvalidChatMessages> {
    let text = text.trim_start_matches('\u{feff}').trim();
    let mut found: Vec<(u64, &str)> = Vec::new();
    if !is_value(text) {
        found.extend((1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()));
    } else {
        match messages(text) {
            None => found.push((1, text)),
            Some(list) if list.starts_with('[') => {
                let _ = for_each_element(list, |message| found.push((found.len() as u64 + 1, message)));
            }
            Some(_) => {
                return Err(InvalidChatMessages("the member \"messages\" is not an array".to_owned()));
            }
        }
    }
    found.into_iter().map(|(number, message)| parse_chat_message(number, message)).collect()
}

/// As [`parse_chat_messages`], for messages that take the place of all others: they are removed by `[]`, and not by a
/// text that is empty, as what a program leaves that failed.
///
/// # Errors
/// Its errors, and when the text is empty.
pub fn parse_replacement_messages(text: &str) -> Result<Vec<ChatMessage>, InvalidChatMessages> {
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Err(InvalidChatMessages("there are no messages; [] removes those that are stored".to_owned()));
    }
    parse_chat_messages(text)
}

/// The list of messages that a document is, or its member `messages`.
fn messages(text: &str) -> Option<&str> {
    let mut list = text.starts_with('[').then_some(text);
    let _ = for_each_member(text, |key, raw| {
        if key_matches(key, "messages") {
            list = Some(raw);
        }
    });
    list
}

fn parse_chat_message(number: u64, text: &str) -> Result<ChatMessage, InvalidChatMessages> {
    let bad = || InvalidChatMessages(format!("Message {number}: it is not a JSON object"));
    let text = text.trim();
    let text = mend_json(text).filter(|text| text.starts_with('{')).ok_or_else(bad)?;
    // As `session messages --json` prints it.
    let (mut record, mut has_position) = (None, false);
    let _ = for_each_member(&text, |key, raw| {
        has_position |= key_matches(key, "position");
        if key_matches(key, "message") && raw.starts_with('{') {
            record = Some(raw);
        }
    });
    let text = record.filter(|_| has_position).unwrap_or(&text);
    Ok(ChatMessage { number, text: text.replace(['\n', '\r'], " ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(given: &str) -> Vec<(u64, String)> {
        parse_chat_messages(given).unwrap().into_iter().map(|message| (message.number, message.text)).collect()
    }

    #[test]
    fn messages_are_read_from_lines_arrays_and_printed_output() {
        let (a, b) = (r#"{"role":"user","content":"a","n":1.50}"#, r#"{"role":"assistant","content":"b"}"#);
        let both = [(1, a.to_owned()), (2, b.to_owned())];
        assert_eq!(texts(&format!("[{a},\n {b}]")), both);
        assert_eq!(texts(&format!("\u{feff}{{\"messages\": [{a},{b}]}}\n")), both);
        assert_eq!(texts(&format!("{a}\r\n\n{b}\n")), [(1, a.to_owned()), (3, b.to_owned())]);
        let printed = format!(
            r#"{{"session":"s","messages":[{{"position":7,"message":{a}}},{{"position":9,"message":{b}}}],"older":null}}"#
        );
        assert_eq!(texts(&printed), both);
        assert_eq!(texts(&format!("{{\"position\":7,\"message\":{a}}}")), [(1, a.to_owned())]);
        assert_eq!(texts(a), [(1, a.to_owned())]);
        assert!(texts("").is_empty() && texts("[]").is_empty());
        assert_eq!(
            texts("{\"score\":NaN,\"content\":\"\\ud83e\"}"),
            [(1, r#"{"score":null,"content":"\ufffd"}"#.into())]
        );
    }

    #[test]
    fn an_invalid_message_is_named_by_its_number() {
        for (given, told) in [
            ("{}\n\n[]", "Message 3: it is not a JSON object"),
            ("[{}, 7]", "Message 2: it is not a JSON object"),
            ("{}\n{", "Message 2: it is not a JSON object"),
            ("x", "Message 1: it is not a JSON object"),
            ("{\"messages\":1}", "the member \"messages\" is not an array"),
        ] {
            assert_eq!(parse_chat_messages(given).unwrap_err().to_string(), told, "{given}");
        }
    }

    #[test]
    fn only_an_empty_array_replaces_messages_by_none() {
        for given in ["", " \r\n\n", "\u{feff}"] {
            let error = parse_replacement_messages(given).unwrap_err();
            assert_eq!(error.to_string(), "there are no messages; [] removes those that are stored", "{given:?}");
        }
        for given in ["[]", " [ ]\n", r#"{"messages":[]}"#] {
            assert_eq!(parse_replacement_messages(given).unwrap(), [], "{given:?}");
        }
        assert_eq!(parse_replacement_messages("{}\n{}").unwrap().len(), 2);
    }

    #[test]
    fn a_message_carries_its_number() {
        assert_eq!(add_line_number("{}", 3), "{\"line\":3}");
        assert_eq!(add_line_number("{\"role\":\"user\"} ", 12), "{\"role\":\"user\",\"line\":12}");
    }
}
