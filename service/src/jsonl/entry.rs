//! Parses one input line, and writes it with one member replaced.
//!
//! A line comes out byte for byte as it went in, except for the one member that is replaced or added: other fields,
//! their order, blanks and the line ending stay. Lines that are not a JSON object with a lane are refused. Of a member
//! that occurs twice, the last one counts, as in Python.
//!
//! Of a question with several `metadata` only the last one stays: the filter sees only that one, and a reader
//! downstream must not find an unchecked memory in another.

use std::{borrow::Cow, ops::Range};

use keepline::pipe::ToolActivity;
use keepline_json::is_content;

use super::members::{EntryMembers, decode_json_string, parse_tool_activity};

/// Explains valid lines, for errors about invalid ones.
pub const ENTRY_FORMAT_HINT: &str = r#"an entry is a JSON object such as {"lane":"questions","text":"…","metadata":{…}}; the lanes are "questions", "answers", "tools" and "open". After an invalid line, answers and tools without a session_id are not stored until the next question"#;

/// Where an entry goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// To the model.
    Questions,
    /// Back from it.
    Answers,
    /// Tool calls and results, stored with the next answer.
    Tools,
    /// A new object begins.
    Open,
}

/// A line that is an entry. Members are kept as places in the line, so that it can be moved and spliced.
#[derive(Debug)]
pub struct Entry {
    line: String,
    /// Where it goes.
    pub lane: Lane,
    text: Option<Range<usize>>,
    metadata: Option<Range<usize>>,
    tool: Option<Box<ToolActivity>>,
}

/// An invalid line.
#[derive(Debug)]
pub struct InvalidLine {
    /// What is wrong with it.
    pub problem: String,
    /// As it came.
    pub line: Vec<u8>,
}

impl Entry {
    /// Parses a line, its ending included.
    ///
    /// # Errors
    /// When it is not an entry.
    pub fn parse(line: Vec<u8>) -> Result<Self, InvalidLine> {
        Self::parse_for(None, line)
    }

    /// The same; a line without a lane goes to that one, if one is given.
    ///
    /// # Errors
    /// When it is not an entry.
    pub fn parse_for(lane: Option<Lane>, line: Vec<u8>) -> Result<Self, InvalidLine> {
        let line = String::from_utf8(line).map_err(|error| {
            let problem = format!("invalid UTF-8 at byte {}", error.utf8_error().valid_up_to() + 1);
            InvalidLine { problem, line: error.into_bytes() }
        })?;
        match Self::members(lane, &line) {
            Ok((_, found, _)) if !found.superseded.is_empty() => {
                Self::parse_for(lane, remove_ranges(&line, &found.superseded).into_bytes())
            }
            Ok((lane, found, tool)) => Ok(Self { line, lane, text: found.text, metadata: found.metadata, tool }),
            Err(problem) => Err(InvalidLine { problem, line: line.into_bytes() }),
        }
    }

    fn members(lane: Option<Lane>, line: &str) -> Result<(Lane, EntryMembers, Option<Box<ToolActivity>>), String> {
        let mut found = EntryMembers::find_in_line(line)?;
        let lane = found.parse_lane(line)?.or(lane).ok_or("missing lane")?;
        if lane != Lane::Questions {
            // Only a question loses its superseded metadata.
            found.superseded.clear();
        }
        let tool = match lane {
            Lane::Tools => Some(Box::new(parse_tool_activity(found.tool.clone().and_then(|place| line.get(place)))?)),
            _ => None,
        };
        Ok((lane, found, tool))
    }

    /// The text: a string is itself, null is empty, and any other value is its JSON text in the line. A string
    /// that spells an array of content parts gets a blank before it, so that it is not taken for one.
    pub fn text(&self) -> Cow<'_, str> {
        match self.member_text(self.text.as_ref()) {
            None | Some("null") => Cow::Borrowed(""),
            Some(raw) if raw.starts_with('"') => {
                let text = decode_json_string(raw);
                if is_content(&text) { Cow::Owned([" ", &text].concat()) } else { text }
            }
            Some(raw) => Cow::Borrowed(raw),
        }
    }

    /// Bytes of the text in the line.
    pub fn text_bytes(&self) -> usize {
        self.text.as_ref().map_or(0, ExactSizeIterator::len)
    }

    /// What a tool did, of an entry of the tools' lane.
    pub fn tool_activity(&self) -> Option<&ToolActivity> {
        self.tool.as_deref()
    }

    /// The same, once.
    pub fn take_tool_activity(&mut self) -> Option<ToolActivity> {
        self.tool.take().map(|tool| *tool)
    }

    /// The metadata, as JSON text. An entry without any has an empty object.
    pub fn metadata(&self) -> &str {
        self.member_text(self.metadata.as_ref()).unwrap_or("{}")
    }

    /// Bytes of the line.
    #[allow(clippy::len_without_is_empty, reason = "no entry is empty")]
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// The line as it came, without superseded metadata.
    pub fn into_unchanged_line(self) -> Vec<u8> {
        self.line.into_bytes()
    }

    /// The line with these metadata in place of its own.
    pub fn with_metadata(self, metadata: &str) -> Vec<u8> {
        match &self.metadata {
            Some(place) => {
                let (before, after) = self.split_around(place.start, place.end);
                [before, metadata, after].concat().into_bytes()
            }
            None => self.with_member("metadata", metadata),
        }
    }

    /// The line with an `error` beside what it holds. As the last member, so that it is the one that counts
    /// should there be one already.
    pub fn with_error(self, code: &str, message: &str) -> Vec<u8> {
        let error = serde_json::json!({"code": code, "message": message});
        self.with_member("error", &error.to_string())
    }

    fn with_member(&self, name: &str, json: &str) -> Vec<u8> {
        let end = self.line.rfind('}').unwrap_or(self.line.len());
        let (before, after) = self.split_around(end, end);
        let separator = if before.trim_end().ends_with('{') { "\"" } else { ",\"" };
        [before, separator, name, "\":", json, after].concat().into_bytes()
    }

    fn member_text(&self, place: Option<&Range<usize>>) -> Option<&str> {
        self.line.get(place?.clone())
    }

    fn split_around(&self, from: usize, to: usize) -> (&str, &str) {
        (self.line.get(..from).unwrap_or_default(), self.line.get(to..).unwrap_or_default())
    }
}

fn remove_ranges(line: &str, parts: &[Range<usize>]) -> String {
    let mut out = String::with_capacity(line.len());
    let mut from = 0;
    for part in parts {
        out.push_str(line.get(from..part.start).unwrap_or_default());
        from = part.end;
    }
    out.push_str(line.get(from..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(line: &str) -> Entry {
        Entry::parse(line.as_bytes().to_vec()).unwrap()
    }

    fn problem(line: &[u8]) -> String {
        let refused = Entry::parse(line.to_vec()).unwrap_err();
        assert_eq!(refused.line, line);
        refused.problem
    }

    #[test]
    fn entry_members_are_found_in_any_order() {
        let found =
            entry("{\"x\":[1, 2],\"metadata\" : {\"session_id\":\"s\"} ,\"text\":\"hi\",\"lane\":\"answers\"}\r\n");
        assert_eq!((found.lane, &*found.text(), found.metadata()), (Lane::Answers, "hi", r#"{"session_id":"s"}"#));
        let found = entry(r#"{"l\u0061ne":"open"}"#);
        assert_eq!((found.lane, &*found.text(), found.metadata()), (Lane::Open, "", "{}"));
    }

    #[test]
    fn metadata_are_replaced_and_nothing_else_moves() {
        let line =
            "{ \"n\" : 1.50 ,\"metadata\":  {\"a\":1}  ,\"lane\":\"questions\" , \"n\":12345678901234567890 }  \r\n";
        let expected = line.replace("{\"a\":1}", "{}");
        assert_eq!(entry(line).with_metadata("{}"), expected.as_bytes());
        assert_eq!(entry(line).into_unchanged_line(), line.as_bytes());
        let null = r#"{"lane":"questions","metadata":null}"#;
        assert_eq!(entry(null).with_metadata("{}"), br#"{"lane":"questions","metadata":{}}"#);
    }

    #[test]
    fn a_new_member_goes_last() {
        let line = "{\"lane\":\"open\"} \n";
        assert_eq!(entry(line).with_metadata("{}"), b"{\"lane\":\"open\",\"metadata\":{}} \n");
        let failed = entry("{\"lane\":\"open\",\"x\":\"}\"}\n").with_error("timed-out", "say \"no\"");
        let expected =
            "{\"lane\":\"open\",\"x\":\"}\",\"error\":{\"code\":\"timed-out\",\"message\":\"say \\\"no\\\"\"}}\n";
        assert_eq!(String::from_utf8(failed).unwrap(), expected);
    }

    #[test]
    fn a_line_without_a_lane_goes_to_the_given_one() {
        let parse = |line: &str| Entry::parse_for(Some(Lane::Answers), line.as_bytes().to_vec()).unwrap();
        assert_eq!(parse("{}").lane, Lane::Answers);
        assert_eq!(parse("{}").with_error("a", "b"), br#"{"error":{"code":"a","message":"b"}}"#);
        assert_eq!(parse(r#"{"lane":"questions"}"#).lane, Lane::Questions);
        assert_eq!(
            Entry::parse_for(Some(Lane::Answers), br#"{"lane":1}"#.to_vec()).unwrap_err().problem,
            "the lane is not a string"
        );
        assert_eq!(Entry::parse(b"{}".to_vec()).unwrap_err().problem, "missing lane");
    }

    #[test]
    fn the_last_of_duplicate_members_counts() {
        let line = r#"{"lane":"open","text":"a","lane":"answers","text":"b","metadata":{"session_id":"w"},"metadata":{"session_id":"x","session_id":"y"}}"#;
        let found = entry(line);
        assert_eq!((found.lane, &*found.text()), (Lane::Answers, "b"));
        assert_eq!(found.metadata(), r#"{"session_id":"x","session_id":"y"}"#);
        // Nothing is ever attached to an answer, nor taken from it.
        assert_eq!(found.into_unchanged_line(), line.as_bytes());
    }

    #[test]
    fn a_question_keeps_its_last_metadata_only() {
        for (line, kept) in [
            (
                r#"{"lane":"questions","metadata":{"memory_context":1},"metadata":{"a":1}}"#,
                r#"{"lane":"questions","metadata":{"a":1}}"#,
            ),
            (
                r#"{ "metadata" : {"memory_context":1} , "x":0 , "m\u0065tadata":2, "metadata":3,"metadata" : {} ,"lane":"questions" } "#,
                r#"{ "x":0 , "metadata" : {} ,"lane":"questions" } "#,
            ),
            (
                r#"{"metadata":{"session_id":"a","memory_context":NaN},"lane":"questions","metadata":null,"metadata":null}"#,
                r#"{"lane":"questions","metadata":null}"#,
            ),
        ] {
            assert_eq!(String::from_utf8(entry(line).into_unchanged_line()).unwrap(), kept);
            let place = kept.rfind("\"metadata\"").unwrap();
            let enriched = String::from_utf8(entry(line).with_metadata("NEW")).unwrap();
            assert!(enriched.starts_with(&kept[..place]) && enriched.matches("metadata").count() == 1, "{enriched}");
        }
    }

    #[test]
    fn nan_infinity_and_a_byte_order_mark_are_accepted() {
        let line = "\u{feff}{\"x\":[NaN,{\"y\":-Infinity}],\"lane\":\"questions\",\"text\":Infinity,\"metadata\":{\"session_id\":\"s\",\"score\":NaN}}\r\n";
        let found = entry(line);
        assert_eq!((found.lane, &*found.text()), (Lane::Questions, "Infinity"));
        assert_eq!(found.into_unchanged_line(), line.as_bytes());
        let replaced = line.replace("{\"session_id\":\"s\",\"score\":NaN}", "{}");
        assert_eq!(entry(line).with_metadata("{}"), replaced.as_bytes());
        assert_eq!(entry("{\"lane\":\"answers\",\"text\":[NaN,-Infinity]}").text(), "[NaN,-Infinity]");
    }

    #[test]
    fn a_text_that_is_not_a_string_is_kept_as_json() {
        for (raw, text) in [
            (r#""a\nb\u00e9""#, "a\nbé"),
            ("null", ""),
            ("true", "true"),
            (r#"[{"type":"text","text":"a"}]"#, r#"[{"type":"text","text":"a"}]"#),
            (r#""[{\"type\":\"text\",\"text\":\"a\"}]""#, r#" [{"type":"text","text":"a"}]"#),
            ("[1,2.50, \"é\"]", "[1,2.50, \"é\"]"),
            (r#""half \ud83d""#, "half \u{fffd}"),
        ] {
            assert_eq!(entry(&format!("{{\"lane\":\"answers\",\"text\":{raw}}}")).text(), text);
        }
        assert_eq!(entry(r#"{"lane":"answers"}"#).text(), "");
    }

    #[test]
    fn invalid_lines_are_explained_and_kept() {
        for (line, told) in [
            (&b"\n"[..], "empty line"),
            (b"nonsense\n", "not JSON: expected ident at column 2"),
            (b"[\"questions\",\"text\",{}]\n", "not a JSON object"),
            (b"{\"text\":\"x\"}\n", "missing lane"),
            (b"\xef\xbb\xbf\r\n", "empty line"),
            (b"\xef\xbb\xbf{}", "missing lane"),
            (b"{\"x\":NaN,\"y\":nan}\n", "not JSON: expected ident at column 15"),
            (b"{\"x\":-Infinity", "not JSON: EOF while parsing an object at column 14"),
            (
                b"{\"lane\":\"open\",\"x\":\"a\0b\"}\n",
                "not JSON: control character (\\u0000-\\u001F) found while parsing a string at column 21",
            ),
            (b"{\"lane\":7}\n", "the lane is not a string"),
            (b"{\"lane\":\"question\"}\n", "unknown lane \"question\""),
            (b"{\"lane\":\"tools\",\"tool\":{}}\n", "the tool has no call_id"),
            (b"{\"lane\":\"open\"} {}\n", "not JSON: trailing characters at column 17"),
            (b"{\"lane\":\"\xff\"}\n", "invalid UTF-8 at byte 10"),
        ] {
            assert_eq!(problem(line), told);
        }
    }

    #[test]
    fn a_deeply_nested_entry_is_parsed() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let line = format!(
            "{{\"lane\":\"answers\",\"text\":{deep},\"metadata\":{{\"session_id\":\"s\",\"x\":{deep}}},\"y\":{deep}}}"
        );
        let found = entry(&line);
        assert_eq!(found.text().len(), deep.len());
        assert_eq!(found.into_unchanged_line(), line.as_bytes());
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_returned_unchanged(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            match Entry::parse(bytes.clone()) {
                // Random bytes hold no two metadata.
                Ok(entry) => prop_assert_eq!(entry.into_unchanged_line(), bytes),
                Err(refused) => prop_assert_eq!(refused.line, bytes),
            }
        }

        #[test]
        fn any_json_like_line_is_parsed_or_returned_unchanged(
            lane in prop::sample::select(vec!["\"open\"", "\"questions\"", "\"answers\"", "7", "", "\"\\ud800\"", "\"x"]),
            text in r#"["\[\]{}:,\\a0-9.eE u-]{0,24}"#,
            metadata in r#"["\[\]{}:,\\a0-9 u-]{0,24}"#,
        ) {
            let line = format!("{{\"metadata\":{metadata},\"lane\":{lane},\"text\":{text},\"metadata\":{metadata}}}");
            match Entry::parse(line.clone().into_bytes()) {
                Ok(entry) => {
                    let _ = entry.text().len();
                    let whole = String::from_utf8(entry.with_metadata("{\"new\":1}")).unwrap();
                    prop_assert!(serde_json::from_str::<&serde_json::value::RawValue>(&whole).is_ok());
                }
                Err(refused) => prop_assert_eq!(refused.line, line.into_bytes()),
            }
        }
    }
}
