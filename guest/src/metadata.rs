//! An entry's metadata: find the session, attach or cut out the memory.
//!
//! Promises that every byte that is not the filter's stays as it is and where it is, and that metadata
//! without a session costs a look through its bytes. Accepts what common writers emit beside JSON: `NaN`,
//! `Infinity`, `-Infinity`, a byte order mark. Refuses nothing: what is not an object has no session.

use std::borrow::Cow;
use std::ops::Range;

use keepline_json as json;

use crate::names::{InvalidId, SessionIds, repr_json};

const SESSION: &str = "session_id";
const MESSAGE: &str = "message_id";
/// What is attached.
const CONTEXT: &str = "memory_context";
/// How the members begin and go on that are the filter's to attach, whether it does so already or not.
const OWN: (&str, [&str; 7]) = ("memory", ["context", "messages", "summary", "recall", "trace", "sections", "model"]);

/// What metadata say about the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Session<'a> {
    /// Nothing, or something that Python takes for nothing: null, an empty text, 0, false.
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
#[derive(Clone, Debug)]
pub struct Metadata<'a> {
    text: &'a str,
    /// The session it names.
    pub session: Session<'a>,
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
}

impl<'a> Metadata<'a> {
    /// Look for a session and a message id, and for members that are the filter's own if there is one or `unbound`
    /// asks for them anyway. Then metadata that nobody can read, but that may hold such a member for a reader who
    /// guesses (one of JSON5, say), are withheld: [`stripped`](Self::stripped) makes `{}` of them.
    pub fn parse(text: &'a str, unbound: bool, ids: SessionIds) -> Self {
        let mut metadata = Self {
            text,
            session: Session::None,
            session_id: None,
            message_id: None,
            unreadable: false,
            withheld: false,
            cuts: Vec::new(),
            end: 0,
            has_members: false,
        };
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
        let read = json::members(text, |key, value| {
            let start = json::offset(text, key);
            let stop = json::offset(text, value) + value.len();
            if is_own(key) {
                // With the comma before it; without one, the comma after it goes, once it is met.
                if metadata.has_members {
                    metadata.cuts.push(end..stop);
                } else {
                    leading_cut.get_or_insert(start);
                }
            } else {
                if json::key_is(key, SESSION) {
                    // The last one counts, as in Python.
                    session = Some(value);
                } else if json::key_is(key, MESSAGE) {
                    message_id = Some(value);
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
        metadata.message_id = message_id.and_then(json::string).filter(|id| !id.is_empty());
        metadata
    }

    fn read_session(&mut self, raw: &'a str, ids: SessionIds) {
        let malformed = |why| Session::Malformed { shown: repr_json(raw), why };
        let Some(id) = json::string(raw) else {
            self.session = if is_falsy(raw) { Session::None } else { malformed(InvalidId::Type) };
            return;
        };
        if id.is_empty() {
            return;
        }
        let made = ids.name(&id).map(|name| match name {
            Cow::Borrowed(_) => None,
            Cow::Owned(name) => Some(name),
        });
        self.session = match made {
            Ok(None) => Session::Named(id),
            Ok(Some(name)) => {
                self.session_id = Some(id);
                Session::Named(name.into())
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
        Some(key) => json::has_escapes(key) && json::string(raw).is_some_and(|key| is_one(&key)),
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
        _ => json::number(raw) == Some(0.0),
    }
}

#[cfg(test)]
mod tests;
