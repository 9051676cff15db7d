//! The token that a question hands to its answers, by way of the host.
//!
//! Reads whatever comes back: a token that was lost, cut or forged is none. A token has at most 4 KiB of printable ASCII and is
//! not a secret: it grants nothing that naming the session, or the message before, would not grant.

use keepline_json as json;
use keepline_json::{push_number, split_before};
use std::borrow::Cow;

use crate::store::is_generation;
use crate::text::ascii::{push_ascii, push_escaped};
use crate::text::ids::{is_map_key, is_session};
use crate::text::json_values::{as_container, parse_count};

/// Tells these states from those of filters without conversations.
const MARK: &str = "k2:";

/// Tells the state of a question whose session is another user's. Filters that don't know it take it for none.
const FOREIGN_MARK: &str = "k3:";

/// What the contract allows.
const BYTES_MAX: usize = 4096;

/// Where a turn goes that does not follow the newest message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ForkPoint {
    /// The position that it follows.
    pub after: u64,
    /// What its thread weighs up to there.
    pub total: u64,
    /// The position that it gets.
    pub next: u64,
}

/// A turn, as its question saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TurnToken<'a> {
    pub session: Cow<'a, str>,
    /// The bucket of the node, if it is not the session's.
    pub node: Option<Cow<'a, str>>,
    /// Empty: not known.
    pub generation: Cow<'a, str>,
    /// The turn's id.
    pub turn: Cow<'a, str>,
    /// The key of the question's message.
    pub question: Cow<'a, str>,
    /// Whether that is an id that the client gave.
    pub is_named: bool,
    /// Whether nothing of the question's message is to be stored.
    pub is_unwritten: bool,
    /// Whether the question has a text, which its first answer should come with.
    pub has_text: bool,
    /// The open turn that it goes on with, if its answers have what that lacks.
    pub open: Option<Cow<'a, str>>,
    /// Whether the question's message is a part of that already.
    pub is_asked: bool,
    /// The key of the message that it follows; none: whichever is the newest.
    pub parent: Option<Cow<'a, str>>,
    /// If that was not the newest.
    pub fork: Option<ForkPoint>,
    /// What the thread weighed.
    pub total: u64,
    /// References to the question's files: a JSON array.
    pub files: Option<Cow<'a, str>>,
    /// The question's embedding, as recall keeps it.
    pub vector: Option<Cow<'a, str>>,
    /// The session's generation, if the bucket is a node's.
    pub session_life: Option<Cow<'a, str>>,
    /// The user: the name of their bucket.
    pub user: Option<Cow<'a, str>>,
    /// Whether the session is theirs already.
    pub is_owned: bool,
    /// Whether nothing was in the transcript yet.
    pub is_new: bool,
    /// Whether it is to get a title.
    pub wants_title: bool,
    /// Whether it is the session that its user used last.
    pub is_latest: bool,
    /// What of the thread's weight its summary holds.
    pub summarized: u64,
    /// The session's budget, if that is not the configuration's.
    pub budget: Option<u64>,
    /// What the user's tombstone says, if there is one.
    pub forgotten: Option<Cow<'a, str>>,
    /// The node's own ids, if they are short.
    pub app_id: Option<Cow<'a, str>>,
    pub node_id: Option<Cow<'a, str>>,
}

impl<'a> TurnToken<'a> {
    /// Read one; none if it is not one of ours.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let mut state = Self::default();
        let (mut after, mut total, mut next) = (None, None, None);
        json::for_each_member(text.strip_prefix(MARK)?, |key, raw| {
            let text = || json::decode_string(raw).unwrap_or_default();
            match key.trim_matches('"') {
                "s" => state.session = text(),
                "n" => state.node = Some(text()),
                "i" => state.generation = text(),
                "t" => state.turn = text(),
                "q" => state.question = text(),
                "c" => state.is_named = raw == "1",
                "j" => state.is_unwritten = raw == "1",
                "T" => state.has_text = raw == "1",
                "r" => state.open = Some(text()),
                "y" => state.is_asked = raw == "1",
                "p" => state.parent = Some(text()),
                "a" => after = parse_count(raw),
                "b" => total = parse_count(raw),
                "x" => next = parse_count(raw),
                "w" => state.total = parse_count(raw).unwrap_or(0),
                "l" => state.session_life = Some(text()),
                "u" => state.user = Some(text()),
                "o" => state.is_owned = raw == "1",
                "e" => state.is_new = raw == "1",
                "h" => state.wants_title = raw == "1",
                "v" => state.is_latest = raw == "1",
                "z" => state.summarized = parse_count(raw).unwrap_or(0),
                "k" => state.budget = parse_count(raw),
                "g" => state.forgotten = Some(text()),
                "m" => state.app_id = Some(text()),
                "d" => state.node_id = Some(text()),
                "f" => state.files = as_container(raw, '['),
                "E" => state.vector = Some(text()),
                _ => {}
            }
        })?;
        if let (Some(after), Some(total), Some(next)) = (after, total, next) {
            state.fork = Some(ForkPoint { after, total, next });
        }
        let is_good = is_session(&state.session)
            && state.node.as_deref().is_none_or(is_session)
            && (state.generation.is_empty() || is_generation(&state.generation))
            && is_map_key(&state.turn)
            && is_map_key(&state.question)
            && state.open.as_deref().is_none_or(is_map_key)
            && state.user.as_deref().is_none_or(is_session)
            && state.session_life.as_deref().is_none_or(is_generation)
            && state.parent.as_deref().is_none_or(is_map_key);
        is_good.then_some(state)
    }

    /// Write it; references to files only if there is room for them. Whether there was.
    pub(crate) fn write(&self) -> (String, bool) {
        let mut out = String::with_capacity(192);
        out.push_str(MARK);
        out.push_str("{\"s\":");
        push_ascii(&mut out, &self.session);
        let texts = [
            ("t", Some(&self.turn)),
            ("q", Some(&self.question)),
            ("n", self.node.as_ref()),
            ("r", self.open.as_ref()),
            ("p", self.parent.as_ref()),
            ("l", self.session_life.as_ref()),
            ("u", self.user.as_ref()),
            ("g", self.forgotten.as_ref()),
        ];
        let generation = Some(&self.generation).filter(|stamp| is_generation(stamp));
        for (name, text) in texts.into_iter().chain([("i", generation)]) {
            if let Some(text) = text {
                push_name(&mut out, name);
                push_ascii(&mut out, text);
            }
        }
        let fork = self.fork.map(|ForkPoint { after, total, next }| [("a", after), ("b", total), ("x", next)]);
        let flags = [
            ("c", self.is_named),
            ("j", self.is_unwritten),
            ("T", self.has_text),
            ("y", self.is_asked),
            ("o", self.is_owned),
            ("e", self.is_new),
            ("h", self.wants_title),
            ("v", self.is_latest),
        ];
        let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| (name, 1));
        let counts =
            flags.chain([("w", self.total), ("z", self.summarized)]).chain(self.budget.map(|count| ("k", count)));
        for (name, count) in counts.chain(fork.into_iter().flatten()) {
            push_name(&mut out, name);
            push_number(&mut out, count);
        }
        let quoted = |id: &Option<Cow<'_, str>>| {
            id.as_deref().map(|id| {
                let mut json = String::new();
                json::push_string(&mut json, id);
                json
            })
        };
        let optional = [("m", quoted(&self.app_id)), ("d", quoted(&self.node_id))];
        let mut has_room = true;
        let files = ("f", self.files.as_deref());
        for (name, json) in optional.iter().map(|(name, json)| (*name, json.as_deref())).chain([files]) {
            let before = out.len();
            if let Some(json) = json {
                push_name(&mut out, name);
                push_escaped(&mut out, json);
            }
            if out.len() >= BYTES_MAX {
                out.truncate(before);
                has_room = false;
            }
        }
        // Without it, the question is embedded once more.
        if let Some(vector) = self.vector.as_deref().filter(|vector| out.len() + vector.len() + 8 < BYTES_MAX) {
            push_name(&mut out, "E");
            push_ascii(&mut out, vector);
        }
        out.push('}');
        (out, has_room)
    }
}

/// The state of a question of somebody else's session: its answers are not stored there either, whatever they name.
pub(crate) fn foreign_token(session: &str) -> String {
    [FOREIGN_MARK, session].concat()
}

/// The session of such a state.
pub(crate) fn session_of_foreign_token(state: &str) -> Option<&str> {
    state.strip_prefix(FOREIGN_MARK).filter(|session| is_session(session))
}

fn push_name(out: &mut String, name: &str) {
    out.push_str(",\"");
    out.push_str(name);
    out.push_str("\":");
}

/// Tells our states from other text, and a later form from this one.
const PLAIN_MARK: &str = "k1:";

/// A turn state, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainTurnToken<'a> {
    /// The session of the question.
    pub session: &'a str,
    /// Its generation, if the question got as far as seeing it.
    pub generation: Option<&'a str>,
}

impl<'a> PlainTurnToken<'a> {
    /// Read a state; none if it is not one of ours.
    pub fn parse(state: &'a str) -> Option<Self> {
        let rest = state.strip_prefix(PLAIN_MARK)?;
        let (session, generation) = match split_before(rest, b':') {
            Some((session, rest)) => (session, Some(rest.strip_prefix(':').filter(|stamp| is_generation(stamp))?)),
            None => (rest, None),
        };
        is_session(session).then_some(Self { session, generation })
    }

    /// Write a state.
    pub fn write(session: &str, generation: &str) -> String {
        let mut state = String::with_capacity(PLAIN_MARK.len() + session.len() + generation.len() + 1);
        state.push_str(PLAIN_MARK);
        state.push_str(session);
        if is_generation(generation) {
            state.push(':');
            state.push_str(generation);
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> TurnToken<'static> {
        TurnToken {
            session: "s".into(),
            generation: "17:3-\"~".into(),
            turn: "1a-0".into(),
            question: "t-1a-0".into(),
            total: 1234,
            ..TurnToken::default()
        }
    }

    #[test]
    fn a_written_record_is_read_back() {
        let full = TurnToken {
            node: Some("h-abc".into()),
            is_named: true,
            is_unwritten: true,
            has_text: true,
            open: Some("1a-1".into()),
            is_asked: true,
            parent: Some("m\\\"1".into()),
            fork: Some(ForkPoint { after: 1, total: 2, next: 3 }),
            files: Some(r#"[{"url":"x"},null]"#.into()),
            session_life: Some("1-1".into()),
            user: Some("anna".into()),
            is_owned: true,
            is_new: true,
            wants_title: true,
            is_latest: true,
            summarized: 5,
            budget: Some(64),
            forgotten: Some("17".into()),
            app_id: Some("é".into()),
            node_id: Some("n 1".into()),
            ..state()
        };
        for state in [state(), full] {
            let (text, has_room) = state.write();
            assert!(has_room && text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{text}");
            assert_eq!(TurnToken::parse(&text).unwrap(), state);
        }
    }

    #[test]
    fn files_are_carried_as_far_as_there_is_room() {
        let state = TurnToken { files: Some(format!("[\"é🎉{}\"]", "x".repeat(2000)).into()), ..state() };
        let (text, has_room) = state.write();
        assert!(has_room && text.is_ascii());
        let files = TurnToken::parse(&text).unwrap().files.unwrap().into_owned();
        assert!(files.starts_with(r#"["\u00e9\ud83c\udf89xx"#), "{files}");
        let state = TurnToken { files: Some(format!("[\"{}\"]", "é".repeat(2000)).into()), ..state };
        let (text, has_room) = state.write();
        assert!(!has_room && text.len() < BYTES_MAX);
        assert_eq!(TurnToken::parse(&text).unwrap().files, None);
    }

    #[test]
    fn the_longest_names_leave_room() {
        let long = "\"".repeat(256);
        let state = TurnToken {
            session: "s".repeat(128).into(),
            node: Some("n".repeat(128).into()),
            generation: long.clone().into(),
            question: long.clone().into(),
            open: Some(long.clone().into()),
            parent: Some(long.into()),
            fork: Some(ForkPoint { after: 1 << 53, total: 1 << 53, next: 1 << 53 }),
            ..state()
        };
        let (text, _) = state.write();
        assert!(text.len() < BYTES_MAX, "{}", text.len());
        assert_eq!(TurnToken::parse(&text).unwrap(), state);
    }

    #[test]
    fn garbage_is_no_state() {
        for text in [
            "",
            "k1:s",
            "k2:",
            "k2:{}",
            "k2:[]",
            "k2:{\"s\":\"a b\",\"t\":\"t\",\"q\":\"q\"}",
            "k2:{\"s\":\"s\"}",
            "k2:{",
        ] {
            assert_eq!(TurnToken::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_plain_token_that_is_written_is_read() {
        for (session, generation) in [("s", "17:3-~"), ("a-b_C", ""), ("x", "1")] {
            let state = PlainTurnToken::write(session, generation);
            let generation = Some(generation).filter(|text| !text.is_empty());
            assert_eq!(PlainTurnToken::parse(&state), Some(PlainTurnToken { session, generation }));
        }
    }

    #[test]
    fn garbage_is_no_session() {
        let long = format!("k1:s:{}", "9".repeat(257));
        for state in ["", "s", "k1:", "k1:a b", "k1:s:", "k1::1", "k1:s:\n", "k1:s:é", "k1:s:a b", "k2:s", "{}", &long]
        {
            assert_eq!(PlainTurnToken::parse(state), None, "{state}");
        }
    }

    #[test]
    fn a_stamp_that_cant_be_carried_is_left_out() {
        assert_eq!(PlainTurnToken::write("s", "a\0"), "k1:s");
    }
}
