//! Reads an entry's metadata once, and attaches the memory to them or cuts it out.
//!
//! Every byte that is not the filter's stays as it is and where it is. Metadata without a session are searched, and not parsed.
//! Accepts what common writers emit beside JSON: `NaN`, `Infinity`, `-Infinity`, a byte order mark. What is not an object has no
//! session.

use std::borrow::Cow;
use std::ops::Range;

use keepline_json as json;

use crate::entry::directives::Directives;
use crate::text::ids::{InvalidId, SessionIds, session_name};
use crate::text::quoting::repr_json;

const SESSION: &str = "session_id";

const MESSAGE: &str = "message_id";

/// What is attached.
const CONTEXT: &str = "memory_context";

/// How the members begin and go on that are the filter's to attach, whether it does so already or not.
const OWN: (&str, [&str; 7]) = ("memory", ["context", "messages", "summary", "recall", "trace", "sections", "model"]);

/// What metadata say about the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EntrySession<'a> {
    /// Nothing, or something that Python takes for nothing: null, an empty text, 0, false.
    #[default]
    None,
    /// What they say can't be a session id.
    Malformed {
        /// As Python would show it.
        shown: String,
        /// Why not.
        why: InvalidId,
    },
    /// The session's name.
    Named(Cow<'a, str>),
}

/// Metadata, looked through once.
#[derive(Clone, Debug, Default)]
pub struct EntryMetadata<'a> {
    text: &'a str,
    /// The session it names.
    pub session: EntrySession<'a>,
    /// The id that the session's name was made of, if that is another text.
    pub session_id: Option<Cow<'a, str>>,
    /// The id of the message, if it is a text and not an empty one.
    pub message_id: Option<Cow<'a, str>>,
    /// Whether it was looked through and is not a JSON object.
    pub unreadable: bool,
    /// Whether it is not even JSON, and what a more lenient reader may find in it is not to be let through.
    pub withheld: bool,
    /// Where the incoming members are that are the filter's own, each with one comma next to it.
    cuts: Vec<Range<usize>>,
    /// Where another member can be put.
    end: usize,
    /// Whether it needs a comma before it.
    has_members: bool,
    directives: Option<Directives<'a>>,
}

impl<'a> EntryMetadata<'a> {
    /// Look for a session and a message id, and for members that are the filter's own if there is one or `unbound`
    /// asks for them anyway. Then metadata that nobody can read, but that may hold such a member for a reader who
    /// guesses (one of JSON5, say), are withheld: [`stripped`](Self::stripped) makes `{}` of them.
    pub fn parse(text: &'a str, unbound: bool, ids: SessionIds) -> Self {
        Self::read(text, unbound, ids, None)
    }

    /// The same, and what they say of the conversation.
    pub(crate) fn parse_of_conversation(text: &'a str, unbound: bool, ids: SessionIds) -> Self {
        Self::read(text, unbound, ids, Some(Directives::default()))
    }

    /// What they say of the conversation: read in one go with the rest, unless nothing of that had to be read.
    pub(crate) fn directives(&self) -> Cow<'_, Directives<'a>> {
        self.directives.as_ref().map_or_else(|| Cow::Owned(Directives::parse(self.text)), Cow::Borrowed)
    }

    fn read(text: &'a str, unbound: bool, ids: SessionIds, mut directives: Option<Directives<'a>>) -> Self {
        let mut metadata = Self { text, ..Self::default() };
        // Most metadata carry no session, and must not be parsed to find that out. The names hold no
        // character that JSON could escape otherwise than by its number.
        let may_hide = || unbound && (mentions_own(text) || json::has_escapes(text));
        let may_matter = mentions_id(text) || mentions_escape(text) || may_hide();
        if !may_matter {
            return metadata;
        }

        // Just behind the opening brace, in case it has no member.
        let mut end = text.find('{').map_or(0, |at| at + 1);
        let (mut session, mut message_id) = (None, None);
        let mut leading_cut: Option<usize> = None;
        let read = json::for_each_member(text, |key, value| {
            let start = json::offset_in(text, key);
            let stop = json::offset_in(text, value) + value.len();
            if is_own(key) {
                // With the comma before it; without one, the comma after it goes, once it is met.
                if metadata.has_members {
                    metadata.cuts.push(end..stop);
                } else {
                    leading_cut.get_or_insert(start);
                }
            } else {
                if json::key_matches(key, SESSION) {
                    // The last one counts, as in Python.
                    session = Some(value);
                } else if json::key_matches(key, MESSAGE) {
                    message_id = Some(value);
                }
                if let Some(directives) = &mut directives {
                    directives.read_member(key, value);
                }
                if let Some(from) = leading_cut.take() {
                    metadata.cuts.push(from..start);
                }
                metadata.has_members = true;
            }
            end = stop;
        });
        if read.is_none() {
            metadata.unreadable = true;
            metadata.withheld = may_hide() && !json::is_value(text);
            metadata.cuts.clear();
            return metadata;
        }
        if let Some(from) = leading_cut {
            metadata.cuts.push(from..end);
        }
        metadata.end = end;
        if let Some(raw) = session {
            metadata.read_session(raw, ids);
        }
        metadata.message_id = message_id.and_then(json::decode_string).filter(|id| !id.is_empty());
        metadata.directives = directives;
        metadata
    }

    fn read_session(&mut self, raw: &'a str, ids: SessionIds) {
        let malformed = |why| EntrySession::Malformed { shown: repr_json(raw), why };
        let Some(id) = json::decode_string(raw) else {
            self.session = if is_falsy(raw) { EntrySession::None } else { malformed(InvalidId::Type) };
            return;
        };
        if id.is_empty() {
            return;
        }
        let made = session_name(ids, &id).map(|name| match name {
            Cow::Borrowed(_) => None,
            Cow::Owned(name) => Some(name),
        });
        self.session = match made {
            Ok(None) => EntrySession::Named(id),
            Ok(Some(name)) => {
                self.session_id = Some(id);
                EntrySession::Named(name.into())
            }
            Err(why) => malformed(why),
        };
    }

    /// The metadata without the filter's own members; none: there is none in them.
    pub fn stripped(&self) -> Option<String> {
        if self.withheld {
            return Some("{}".to_owned());
        }
        if self.cuts.is_empty() {
            return None;
        }
        let mut out = String::with_capacity(self.text.len());
        self.push_kept(&mut out);
        out.push_str(self.text.get(self.end..).unwrap_or_default());
        Some(out)
    }

    /// The metadata with `memory_context` as its last member. `write` writes the value, of `size` bytes as a
    /// rule.
    pub fn enriched(&self, size: usize, write: impl FnOnce(&mut String)) -> String {
        // Exact, unless something is cut: a component's strings leave it without slack.
        let around = CONTEXT.len() + "\"\":".len() + usize::from(self.has_members);
        let mut out = String::with_capacity(self.text.len() + around + size);
        self.push_kept(&mut out);
        if self.has_members {
            out.push(',');
        }
        out.push('"');
        out.push_str(CONTEXT);
        out.push_str("\":");
        write(&mut out);
        out.push_str(self.text.get(self.end..).unwrap_or_default());
        out
    }

    /// The metadata, as [`enriched`](Self::enriched) made them or else without the filter's own members, with more of
    /// them: raw, and at least one.
    pub fn extended(&self, enriched: Option<String>, members: &str) -> String {
        let has_members = self.has_members || enriched.is_some();
        let tail = self.text.get(self.end..).unwrap_or_default();
        let mut out = enriched.unwrap_or_else(|| {
            let mut out = String::with_capacity(self.text.len() + members.len() + 1);
            self.push_kept(&mut out);
            out.push_str(tail);
            out
        });
        out.truncate(out.len() - tail.len());
        if has_members {
            out.push(',');
        }
        out.push_str(members);
        out.push_str(tail);
        out
    }

    /// What comes before `end`, without the cuts.
    fn push_kept(&self, out: &mut String) {
        let mut from = 0;
        for cut in &self.cuts {
            out.push_str(self.text.get(from..cut.start).unwrap_or_default());
            from = cut.end;
        }
        out.push_str(self.text.get(from..self.end).unwrap_or_default());
    }
}

/// Whether the raw key (with quotes) is one of the filter's own.
fn is_own(raw: &str) -> bool {
    let (before, after) = OWN;
    let is_one = |key: &str| {
        let key = key.strip_prefix(before).and_then(|rest| rest.strip_prefix('_'));
        key.is_some_and(|key| after.contains(&key))
    };
    match raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(key) if key.starts_with(before) && is_one(key) => true,
        Some(key) => json::has_escapes(key) && json::decode_string(raw).is_some_and(|key| is_one(&key)),
        None => false,
    }
}

/// Whether the text may name a session or a message.
fn mentions_id(text: &str) -> bool {
    around(text, '_', |before, after| {
        after.starts_with("id") && (before.ends_with("session") || before.ends_with("message"))
    })
}

/// Whether the text may name one of the filter's own members.
fn mentions_own(text: &str) -> bool {
    around(text, '_', |before, after| before.ends_with(OWN.0) && OWN.1.iter().any(|name| after.starts_with(name)))
}

/// Whether a character in the text may be spelt by its number.
fn mentions_escape(text: &str) -> bool {
    around(text, '\\', |_, after| after.starts_with('u'))
}

/// Whether that is true of what is before and after one of these characters. One byte is sooner looked for than a
/// word, for which a search by `str` is prepared anew each time.
fn around(text: &str, rare: char, is_wanted: impl Fn(&str, &str) -> bool) -> bool {
    text.match_indices(rare).any(|(at, found)| {
        text.split_at_checked(at)
            .is_some_and(|(before, rest)| rest.strip_prefix(found).is_some_and(|after| is_wanted(before, after)))
    })
}

/// Whether Python takes a JSON value that is no string for false.
fn is_falsy(raw: &str) -> bool {
    match raw.as_bytes() {
        b"null" | b"false" => true,
        [b'[', inner @ .., b']'] | [b'{', inner @ .., b'}'] => inner.iter().all(u8::is_ascii_whitespace),
        _ => json::parse_number(raw) == Some(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(text: &str) -> EntrySession<'_> {
        EntryMetadata::parse(text, false, SessionIds::Strict).session
    }

    fn named(name: &str) -> EntrySession<'_> {
        EntrySession::Named(name.into())
    }

    #[test]
    fn the_session_is_found_at_the_top_level_only() {
        assert_eq!(session(r#"{"session_id":"s1"}"#), named("s1"));
        assert_eq!(session(" {\n\"a\" : 1 , \"session_id\" : \"s1\" } "), named("s1"));
        assert_eq!(session(r#"{"a":{"session_id":"s1"}}"#), EntrySession::None);
        assert_eq!(session(r#"["session_id"]"#), EntrySession::None);
        assert_eq!(session(r#"{"a":"session_id"}"#), EntrySession::None);
        assert_eq!(session(r#"{"x":"\"session_id\":\"s\""}"#), EntrySession::None);
    }

    #[test]
    fn the_last_of_two_sessions_counts() {
        assert_eq!(session(r#"{"session_id":"a","session_id":"b"}"#), named("b"));
        assert_eq!(session(r#"{"session_id":"a","session_id":null}"#), EntrySession::None);
    }

    #[test]
    fn escapes_hide_no_session() {
        assert_eq!(session(r#"{"\u0073ession_id":"s1"}"#), named("s1"));
        assert_eq!(session(r#"{"session_id":"\u0073-1"}"#), named("s-1"));
    }

    #[test]
    fn falsy_sessions_are_none() {
        for raw in ["null", "\"\"", "0", "-0", "0.0", "0e7", "false", "[]", "[ ]", "{}", "{\n}"] {
            assert_eq!(session(&format!("{{\"session_id\": {raw} }}")), EntrySession::None, "{raw}");
        }
    }

    #[test]
    fn other_sessions_are_malformed() {
        for (raw, shown) in [
            ("1", "1"),
            ("true", "True"),
            ("[0]", "[0]"),
            ("{\"a\":1}", "{\"a\":1}"),
            ("\"a b\"", "'a b'"),
            ("\"a\\n\"", "'a\\n'"),
            ("\"\\ud800\"", "'\u{fffd}'"),
            ("NaN", "NaN"),
            ("-Infinity", "-Infinity"),
        ] {
            let text = format!("{{\"session_id\": {raw} }}");
            let EntrySession::Malformed { shown: told, why } = session(&text) else { panic!("{raw}") };
            assert_eq!(
                (&*told, why),
                (shown, if raw.starts_with('"') { InvalidId::Characters } else { InvalidId::Type }),
                "{raw}"
            );
        }
    }

    #[test]
    fn a_hashed_id_is_listed_beside_the_name() {
        for (raw, id) in
            [(r#""telegram:42""#, "telegram:42"), (r#""tele\u0067ram:42""#, "telegram:42"), (r#""a\n""#, "a\n")]
        {
            let text = format!("{{\"session_id\": {raw}}}");
            let metadata = EntryMetadata::parse(&text, false, SessionIds::Hash);
            let name = session_name(SessionIds::Hash, id).unwrap();
            assert_eq!(
                (metadata.session, metadata.session_id.as_deref()),
                (EntrySession::Named(name), Some(id)),
                "{raw}"
            );
        }
        let plain = EntryMetadata::parse(r#"{"session_id": "s1"}"#, false, SessionIds::Hash);
        assert_eq!((plain.session, plain.session_id), (named("s1"), None));
        for raw in ["7", "[\"s\"]", "true"] {
            let text = format!("{{\"session_id\": {raw}}}");
            let session = EntryMetadata::parse(&text, false, SessionIds::Hash).session;
            assert!(matches!(session, EntrySession::Malformed { why: InvalidId::Type, .. }), "{raw}");
        }
    }

    #[test]
    fn metadata_that_are_no_object_have_no_session() {
        for text in [
            "session_id",
            "[\"session_id\"]",
            "{\"session_id\":\"a\"",
            "{\"session_id\":\"a\"}}",
            "{\"session_id\":nan}",
            "{'session_id':'a'}",
            "{\"session_id\":\"a\",}",
        ] {
            let metadata = EntryMetadata::parse(text, true, SessionIds::Strict);
            assert_eq!(metadata.session, EntrySession::None, "{text}");
            assert!(metadata.unreadable, "{text}");
            assert_eq!(metadata.stripped(), None);
        }
        assert!(!EntryMetadata::parse("not looked through", false, SessionIds::Strict).unreadable);
    }

    #[test]
    fn non_standard_json_hides_no_session_and_no_context() {
        for (before, after) in [
            (r#"{"memory_context":1,"x":NaN,"session_id":"s"}"#, r#"{"x":NaN,"session_id":"s"}"#),
            (
                r#"{"x":[{"y":-Infinity}],"memory_context":Infinity,"session_id":"s"}"#,
                r#"{"x":[{"y":-Infinity}],"session_id":"s"}"#,
            ),
            ("\u{feff} {\"memory_context\":1,\"session_id\":\"s\"}", "\u{feff} {\"session_id\":\"s\"}"),
            (
                r#"{"memory_context":NaN,"session_id":0,"memory_context":NaN,"session_id":"s","memory_context":NaN}"#,
                r#"{"session_id":0,"session_id":"s"}"#,
            ),
        ] {
            let metadata = EntryMetadata::parse(before, false, SessionIds::Strict);
            assert_eq!(metadata.session, named("s"));
            assert_eq!(metadata.stripped().as_deref(), Some(after));
            let expected = format!("{},\"memory_context\":NEW}}", after.strip_suffix('}').unwrap());
            assert_eq!(metadata.enriched(3, |out| out.push_str("NEW")), expected);
        }
    }

    #[test]
    fn unreadable_metadata_carry_no_context_under_strip() {
        for text in [
            r#"{"memory_context":1"#,
            r#"{"memory_context":1,}"#,
            r#"{memory_context:1}"#,
            r#"{'\x6demory_context':1}"#,
            r#"{"memory\u005fcontext":1,"x":nan}"#,
            r#"{"memory_context":1} // "#,
            r#"{"session_id":"s","memory_context":1"#,
        ] {
            let metadata = EntryMetadata::parse(text, true, SessionIds::Strict);
            assert!(metadata.withheld, "{text}");
            assert_eq!(metadata.stripped().as_deref(), Some("{}"), "{text}");
            assert_eq!(EntryMetadata::parse(text, false, SessionIds::Strict).stripped(), None, "{text}");
        }
        // Nothing can be hidden in these.
        for text in ["", "nonsense", "{\"session_id\":\"s\"", "[\"memory_context\"]", "\"memory_context\"", "\"\\n\""] {
            assert_eq!(EntryMetadata::parse(text, true, SessionIds::Strict).stripped(), None, "{text}");
        }
    }

    #[test]
    fn cuts_take_the_context_and_one_comma() {
        for (before, after) in [
            (r#"{"memory_context":1}"#, "{}"),
            (r#"{ "memory_context" : {"a":[1,2]} }"#, "{  }"),
            (r#"{"memory_context":1,"a":2}"#, r#"{"a":2}"#),
            (r#"{ "memory_context":1 , "a":2 }"#, r#"{ "a":2 }"#),
            (r#"{"a":2, "memory_context":1}"#, r#"{"a":2}"#),
            (r#"{"a":2 , "memory_context":1 , "b": 3 }"#, r#"{"a":2 , "b": 3 }"#),
            (
                r#"{"memory_context":1,"memory_context":2,"a":2,"memory_context":3,"memory_context":4,"b":1}"#,
                r#"{"a":2,"b":1}"#,
            ),
            (r#"{"memory_context":1,"memory_context":2}"#, "{}"),
            (r#"{"a":1,"\u006demory_context":2}"#, r#"{"a":1}"#),
        ] {
            let metadata = EntryMetadata::parse(before, true, SessionIds::Strict);
            assert_eq!(metadata.stripped().as_deref(), Some(after), "{before}");
        }
        assert_eq!(EntryMetadata::parse(r#"{"a":{"memory_context":1}}"#, true, SessionIds::Strict).stripped(), None);
    }

    #[test]
    fn whatever_is_the_filters_own_is_cut_and_nothing_else() {
        for name in ["context", "messages", "summary", "recall", "trace", "sections", "model"] {
            let before = format!("{{\"a\":1,\"memory_{name}\":[2],\"session_id\":\"s\",\"memory\\u005f{name}\":3}}");
            for unbound in [false, true] {
                let metadata = EntryMetadata::parse(&before, unbound, SessionIds::Strict);
                assert_eq!(metadata.stripped().as_deref(), Some(r#"{"a":1,"session_id":"s"}"#), "{name}");
            }
            let without = format!("{{\"memory_{name}\":1}}");
            assert_eq!(
                EntryMetadata::parse(&without, true, SessionIds::Strict).stripped().as_deref(),
                Some("{}"),
                "{name}"
            );
            assert_eq!(EntryMetadata::parse(&without, false, SessionIds::Strict).stripped(), None, "{name}");
            assert!(EntryMetadata::parse(&format!("{{memory_{name}:1}}"), true, SessionIds::Strict).withheld, "{name}");
        }
        let kept = r#"{"session_id":"s","memory":1,"memory_":1,"memory_mode":1,"memory_question":1,"memory_contexts":1,"memorycontext":1,"my_memory_trace":1,"Memory_trace":1}"#;
        assert_eq!(EntryMetadata::parse(kept, true, SessionIds::Strict).stripped(), None);
    }

    #[test]
    fn the_message_id_is_a_text_at_the_top_level() {
        let id = |text: &str| EntryMetadata::parse(text, false, SessionIds::Strict).message_id.map(Cow::into_owned);
        assert_eq!(id(r#"{"message_id":"m"}"#).as_deref(), Some("m"));
        assert_eq!(id(r#"{"message\u005fid":"\u006d","session_id":"s"}"#).as_deref(), Some("m"));
        assert_eq!(id(r#"{"message_id":"a","message_id":"b"}"#).as_deref(), Some("b"));
        for raw in ["null", "\"\"", "7", "{\"message_id\":\"m\"}", "[\"m\"]", "true"] {
            assert_eq!(id(&format!("{{\"x\":{{\"message_id\":\"m\"}},\"message_id\":{raw}}}")), None, "{raw}");
        }
        assert_eq!(id(r#"{"message_id":"m""#), None);
    }

    #[test]
    fn the_new_context_is_put_at_the_end() {
        for (before, after) in [
            (r#"{"session_id":"s"}"#, r#"{"session_id":"s","memory_context":NEW}"#),
            (" {\"session_id\" : \"s\"\t}\n", " {\"session_id\" : \"s\",\"memory_context\":NEW\t}\n"),
            (
                r#"{"memory_context":0,"session_id":"s", "z": 1.50}"#,
                r#"{"session_id":"s", "z": 1.50,"memory_context":NEW}"#,
            ),
            (r#"{"session_id":"s","memory_context":{"forged":1}}"#, r#"{"session_id":"s","memory_context":NEW}"#),
        ] {
            let metadata = EntryMetadata::parse(before, false, SessionIds::Strict);
            assert_eq!(metadata.enriched(3, |out| out.push_str("NEW")), after);
        }
        let empty = EntryMetadata::parse(r#" { "memory_context":1 } "#, true, SessionIds::Strict);
        assert_eq!(empty.enriched(0, |out| out.push('2')), r#" { "memory_context":2 } "#);
        let empty = EntryMetadata::parse(r#"{ "\u0020":1,"memory_context":1 } "#, true, SessionIds::Strict);
        assert_eq!(empty.enriched(0, |out| out.push('2')), r#"{ "\u0020":1,"memory_context":2 } "#);
    }

    #[test]
    fn deeply_nested_metadata_is_handled_like_any_other() {
        let text = format!("{{\"a\":{}{},\"session_id\":\"s\"}}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert_eq!(session(&text), named("s"));
    }
}
