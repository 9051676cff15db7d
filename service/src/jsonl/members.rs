//! Finds the members of a line that make it an entry, as ranges of bytes, or says why the line is invalid.

use std::{borrow::Cow, ops::Range};

use keepline::pipe::ToolActivity;
use keepline_json::{self as json, for_each_member};
use serde_json::value::RawValue;

use super::entry::Lane;

/// The members of a line that matter, as ranges of bytes.
#[derive(Default)]
pub struct EntryMembers {
    lane: Option<Range<usize>>,
    /// What was said.
    pub text: Option<Range<usize>>,
    /// The last one, if there are several.
    pub metadata: Option<Range<usize>>,
    /// What a tool did.
    pub tool: Option<Range<usize>>,
    /// Start of the name of the latest `metadata`, and of the member after them.
    metadata_name: usize,
    after_metadata: Option<usize>,
    /// Superseded `metadata`, each with the comma after it.
    pub superseded: Vec<Range<usize>>,
}

impl EntryMembers {
    /// Finds the members of a line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn find_in_line(line: &str) -> Result<Self, String> {
        let mut found = Self::default();
        match for_each_member(line, |key, value| found.record_member(line, key, value)) {
            Some(()) => Ok(found),
            None => Err(describe_invalid_line(line)),
        }
    }

    fn record_member(&mut self, line: &str, key: &str, value: &str) {
        if self.metadata.is_some() && self.after_metadata.is_none() {
            self.after_metadata = Some(byte_offset(line, key));
        }
        let place = || byte_offset(line, value)..byte_offset(line, value) + value.len();
        match &*decode_json_string(key) {
            "lane" => self.lane = Some(place()),
            "text" => self.text = Some(place()),
            "tool" => self.tool = Some(place()),
            "metadata" => {
                if let Some(after) = self.after_metadata.take() {
                    self.superseded.push(self.metadata_name..after);
                }
                self.metadata_name = byte_offset(line, key);
                self.metadata = Some(place());
            }
            _ => {}
        }
    }

    /// Where the entry goes. None: it does not say.
    ///
    /// # Errors
    /// When that is no lane.
    pub fn parse_lane(&self, line: &str) -> Result<Option<Lane>, String> {
        let Some(raw) = self.lane.clone().and_then(|place| line.get(place)) else { return Ok(None) };
        if !raw.starts_with('"') {
            return Err("the lane is not a string".to_owned());
        }
        match &*decode_json_string(raw) {
            "questions" => Ok(Some(Lane::Questions)),
            "answers" => Ok(Some(Lane::Answers)),
            "open" => Ok(Some(Lane::Open)),
            "tools" => Ok(Some(Lane::Tools)),
            other => Err(format!("unknown lane {:?}", shorten_lane_name(other))),
        }
    }
}

/// Parses the member `tool`.
///
/// # Errors
/// What is wrong with it.
pub fn parse_tool_activity(raw: Option<&str>) -> Result<ToolActivity, String> {
    let raw = raw.ok_or("missing tool")?;
    let mut activity = ToolActivity::default();
    let mut call_id = None;
    let read = for_each_member(raw, |key, value| {
        let text = || Some(decode_json_string(value).into_owned());
        let unless_null = || text().filter(|_| value != "null");
        match &*decode_json_string(key) {
            "call_id" => call_id = Some(json::decode_string(value).map(Cow::into_owned).unwrap_or_default()),
            "name" => activity.name = unless_null().unwrap_or_default(),
            "arguments" => activity.arguments = text(),
            "output" => activity.output = text(),
            "error" => activity.error = unless_null(),
            "details" => activity.details = unless_null().unwrap_or_default(),
            _ => {}
        }
    });
    read.ok_or("the tool is not an object")?;
    activity.call_id = call_id.ok_or("the tool has no call_id")?;
    if activity.call_id.is_empty() {
        return Err("the tool's call_id is not a non-empty string".to_owned());
    }
    let is_null = |text: &Option<String>| text.as_deref() == Some("null");
    // A program that writes all members, whatever they are, has a null where there is nothing.
    if is_null(&activity.output) && activity.error.is_some() {
        activity.output = None;
    }
    if is_null(&activity.arguments) {
        let is_ended = activity.output.is_some() || activity.error.is_some();
        activity.arguments = (!is_ended).then(|| "{}".to_owned());
    }
    if activity.arguments.is_none() && activity.output.is_none() && activity.error.is_none() {
        return Err("the tool has neither arguments nor an output nor an error".to_owned());
    }
    Ok(activity)
}

/// Explains why a line could not be parsed.
fn describe_invalid_line(line: &str) -> String {
    // Some writers begin a file with a byte order mark, and so a line of files that were joined.
    let text = line.strip_prefix('\u{feff}').unwrap_or(line);
    if text.trim_ascii().is_empty() {
        return "empty line".to_owned();
    }
    // Those are taken, but not by the parser that can tell what is wrong and where; the places stay.
    let text = text.replace("-Infinity", "-0       ").replace("Infinity", "0       ").replace("NaN", "0  ");
    match serde_json::from_str::<&RawValue>(&text) {
        Ok(value) if !value.get().starts_with('{') => "not a JSON object".to_owned(),
        // Every line is a document of its own: serde_json's "line 1" would mislead.
        Err(error) => format!("not JSON: {}", error.to_string().replace("at line 1 column", "at column")),
        Ok(_) => "not JSON".to_owned(),
    }
}

/// The text that a raw JSON string spells. Half a surrogate pair, which Python lets through, becomes one
/// U+FFFD: the line keeps the string, and the remembered text stays readable.
pub fn decode_json_string(raw: &str) -> Cow<'_, str> {
    json::decode_string(raw).unwrap_or(Cow::Borrowed(raw))
}

fn byte_offset(text: &str, part: &str) -> usize {
    part.as_ptr().addr().saturating_sub(text.as_ptr().addr())
}

fn shorten_lane_name(text: &str) -> Cow<'_, str> {
    const LONGEST: usize = 40;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_tool_are_text_or_other_json() {
        let read = |raw: &str| parse_tool_activity(Some(raw)).unwrap();
        let call = read(r#"{"call_id":"c\u0031","name":"look","arguments":{"city": "Bonn"},"more":1}"#);
        assert_eq!(
            (&*call.call_id, &*call.name, call.arguments.as_deref()),
            ("c1", "look", Some(r#"{"city": "Bonn"}"#))
        );
        assert_eq!(read(r#"{"call_id":"c","arguments":"{\"a\":1}"}"#).arguments.as_deref(), Some(r#"{"a":1}"#));
        let end = read(r#"{"call_id":"c","output":[1, 2],"error":null,"arguments":null,"details":{"raw":1}}"#);
        assert_eq!((end.output.as_deref(), end.error, end.arguments), (Some("[1, 2]"), None, None));
        assert_eq!(end.details, r#"{"raw":1}"#);
        for (raw, problem) in [
            (None, "missing tool"),
            (Some("[]"), "the tool is not an object"),
            (Some("{}"), "the tool has no call_id"),
            (Some(r#"{"call_id":1,"output":""}"#), "the tool's call_id is not a non-empty string"),
            (Some(r#"{"call_id":"","output":""}"#), "the tool's call_id is not a non-empty string"),
            (Some(r#"{"call_id":"c","error":null}"#), "the tool has neither arguments nor an output nor an error"),
        ] {
            assert_eq!(parse_tool_activity(raw).unwrap_err(), problem);
        }
    }

    #[test]
    fn null_is_a_valid_output_empty_arguments_and_no_error() {
        for (raw, arguments, output, error) in [
            (r#""output":null"#, None, Some("null"), None),
            (r#""arguments":{"f":7},"output":null,"error":null"#, Some(r#"{"f":7}"#), Some("null"), None),
            (r#""arguments":null"#, Some("{}"), None, None),
            (r#""arguments":"null""#, Some("{}"), None, None),
            (r#""arguments":null,"output":null,"error":"lost""#, None, None, Some("lost")),
        ] {
            let read = parse_tool_activity(Some(&format!("{{\"call_id\":\"c\",{raw}}}"))).unwrap();
            assert_eq!(
                (read.arguments.as_deref(), read.output.as_deref(), read.error.as_deref()),
                (arguments, output, error),
                "{raw}"
            );
        }
    }

    #[test]
    fn lone_surrogates_become_replacement_characters_and_pairs_one_character() {
        for (raw, text) in [
            (r#""\ud800""#, "\u{fffd}"),
            (r#""a\ud800b""#, "a\u{fffd}b"),
            (r#""\ud800\ud800""#, "\u{fffd}\u{fffd}"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\ud83d\ude00""#, "😀"),
            (r#""\ud800\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\ud83d\u0041""#, "\u{fffd}A"),
            (r#""\ud83d\n""#, "\u{fffd}\n"),
            (r#""\ud83d\\ude00""#, "\u{fffd}\\ude00"),
            (r#""\u00e9\"\\\/\b\f\n\r\t\u0000""#, "é\"\\/\u{8}\u{c}\n\r\t\0"),
        ] {
            assert_eq!(decode_json_string(raw), text, "{raw}");
        }
    }
}
