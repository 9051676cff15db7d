//! The state of a task between its steps: what its next write expects. Printable ASCII, so that no host can spoil it.

use keepline_json::{self as json, ObjectWriter};

use crate::contract::{Expectation, Precondition};
use crate::store::is_generation;
use crate::text::ascii;
use crate::text::json_values::{array, parse_count};
use crate::transcript::schema::{REVISION, SESSION};

/// The state of a task: what its next write expects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub generation: String,
    /// The entry that is to be replaced, as it was; none: there was none.
    pub before: Option<String>,
    /// Which state of the messages it is made of.
    pub revision: Option<String>,
    /// The last position that was looked at, and what the thread weighs up to there.
    pub to: u64,
    pub total: u64,
    /// What is stored if no model helps.
    pub fallback: String,
    /// Tokens of what is stored, at most.
    pub max_tokens: u64,
    pub is_low_trust: bool,
    /// The key of the message that it is made of.
    pub key: Option<String>,
    /// Summaries that stay beside the new one, by how far they reach.
    pub kept: Vec<u64>,
    /// Whether there is more to be done afterwards.
    pub is_more: bool,
    /// Whether the next step gets what this one needed.
    pub has_need: bool,
}

impl Checkpoint {
    pub(crate) fn write(&self) -> String {
        let mut out = ObjectWriter::with_capacity(192);
        out.text("i", Some(&self.generation));
        out.text("b", self.before.as_deref());
        out.text("r", self.revision.as_deref());
        out.text("f", Some(&*self.fallback).filter(|text| !text.is_empty()));
        out.text("k", self.key.as_deref());
        let [low, more, need] = [self.is_low_trust, self.is_more, self.has_need].map(u64::from);
        let counts = [("t", self.to), ("w", self.total), ("m", self.max_tokens), ("l", low), ("n", more), ("q", need)];
        for (name, count) in counts {
            out.count(name, Some(count).filter(|count| *count > 0));
        }
        let kept: Vec<String> = self.kept.iter().map(u64::to_string).collect();
        let kept = (!kept.is_empty()).then(|| array(&kept));
        out.json("o", kept.as_deref());
        ascii::to_ascii_json(&out.finish())
    }

    /// Of an empty text: nothing is expected yet, whichever life the bucket has.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut basis = Self::default();
        if text.is_empty() {
            return Some(basis);
        }
        json::for_each_member(text, |key, raw| {
            let text = || json::decode_string(raw).unwrap_or_default().into_owned();
            match key.trim_matches('"') {
                "i" => basis.generation = text(),
                "b" => basis.before = Some(text()),
                "r" => basis.revision = Some(text()),
                "f" => basis.fallback = text(),
                "k" => basis.key = Some(text()),
                "t" => basis.to = parse_count(raw).unwrap_or(0),
                "w" => basis.total = parse_count(raw).unwrap_or(0),
                "m" => basis.max_tokens = parse_count(raw).unwrap_or(0),
                "l" => basis.is_low_trust = raw == "1",
                "n" => basis.is_more = raw == "1",
                "q" => basis.has_need = raw == "1",
                "o" => drop(json::for_each_element(raw, |to| basis.kept.extend(parse_count(to)))),
                _ => {}
            }
        })?;
        (basis.generation.is_empty() || is_generation(&basis.generation)).then_some(basis)
    }

    /// The bucket is the one that the task is about; to look after it is no use of it.
    pub(crate) fn precondition(&self) -> Precondition<'_> {
        Precondition::life(&self.generation)
    }

    /// The entry, and the messages, are as they were.
    pub(crate) fn expect_unchanged<'a>(&'a self, key: &'a str) -> [Expectation<'a>; 2] {
        [expect_session_entry(key, self.before.as_deref()), expect_session_entry(REVISION, self.revision.as_deref())]
    }
}

/// What there is once is as it was.
pub(crate) fn expect_session_entry<'a>(key: &'a str, text: Option<&'a str>) -> Expectation<'a> {
    match text {
        Some(text) => Expectation::equal(SESSION, key, text),
        None => Expectation::absent(SESSION, key),
    }
}
