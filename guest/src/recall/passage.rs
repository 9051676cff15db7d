//! The stored form of a passage: its text with its source, and its terms.
//!
//! Promises that what is written is read. Refuses what is neither: nothing is made of it.

use keepline_json::{self as json, ObjectWriter};
use keepline_recall::{
    DOCUMENT_TERMS, PassageDocument, Posting, count_tokens, cut_passages, encode_posting_number, facet_term,
    split_posting,
};
use std::borrow::Cow;

use crate::context::Context;
use crate::contract::Host;
use crate::options::conversation::Options;
use crate::store;
use crate::text::json_values::parse_count;
use crate::text::timestamp::parse_milliseconds;
use crate::transcript::record::{RecordKind, Role, StoredRecord};
use crate::transcript::text::RecordText;

/// Longer names are no speaker's.
const SPEAKER_MAX: usize = 40;

/// Whose transcript passages are from, where they lie with the user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassageOrigin<'a> {
    pub session: &'a str,
    /// The life of it.
    pub life: &'a str,
}

/// A passage, as the log `passages` holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Passage<'a> {
    /// Of its message in the transcript.
    pub position: u64,
    /// Seconds since 1970, as JSON.
    pub at: Cow<'a, str>,
    /// Who speaks: `user`, `assistant` or `tool`.
    pub role: Cow<'a, str>,
    pub text: RecordText<'a>,
    /// Where it is from, if not from whom the role says.
    pub source: Option<Cow<'a, str>>,
    pub has_low_trust: bool,
    /// Of the session that it is from, and of its life. None: where the passage lies.
    pub session: Option<Cow<'a, str>>,
    pub life: Option<Cow<'a, str>>,
}

impl<'a> Passage<'a> {
    pub(crate) fn parse(record: &'a str) -> Option<Self> {
        let (mut position, mut at, mut role, mut text, mut has_low_trust) = (None, None, None, None, false);
        let (mut source, mut session, mut life) = (None, None, None);
        json::for_each_member(record, |key, raw| match key {
            "\"p\"" => position = parse_count(raw),
            "\"at\"" => at = json::parse_number(raw).map(|_| raw.into()),
            "\"role\"" => role = json::decode_string(raw),
            "\"text\"" => text = RecordText::from_json(raw),
            "\"source\"" => source = json::decode_string(raw),
            "\"low\"" => has_low_trust = raw == "1",
            "\"session\"" => session = json::decode_string(raw),
            "\"life\"" => life = json::decode_string(raw),
            _ => {}
        })?;
        let (position, at, role, text) = (position?, at?, role?, text?);
        Some(Self { position, at, role, text, source, has_low_trust, session, life })
    }

    /// Whether it is from there.
    pub(crate) fn is_from(&self, origin: &PassageOrigin<'_>) -> bool {
        self.session.as_deref() == Some(origin.session) && self.life.as_deref() == Some(origin.life)
    }

    fn write(&self) -> String {
        let mut out = ObjectWriter::with_capacity(self.text.len() + 64);
        out.count("p", Some(self.position));
        out.json("at", Some(&self.at));
        out.json("low", self.has_low_trust.then_some("1"));
        out.text("role", Some(&self.role));
        out.text("source", self.source.as_deref());
        out.text("session", self.session.as_deref());
        out.text("life", self.life.as_deref());
        out.text("text", Some(&self.text));
        out.finish()
    }
}

/// Passages that are to be stored: their texts, and their terms.
#[derive(Default)]
pub(crate) struct PassageBatch<'a> {
    /// None: they lie beside the transcript.
    pub origin: Option<PassageOrigin<'a>>,
    /// Whether the first of them has nothing to do with what was kept before.
    pub begins: bool,
    pub passages: Vec<String>,
    pub terms: Vec<String>,
    /// Embeddings that came with messages: of which passage, and as they are kept.
    pub vectors: Vec<(usize, String)>,
}

impl PassageBatch<'_> {
    /// Add those of a message. `is_first`: it has nothing to do with the one before.
    pub(crate) fn add(&mut self, position: u64, record: &StoredRecord<'_>, is_first: bool) {
        let is_cut = matches!(record.kind, RecordKind::Message | RecordKind::ToolResult);
        if !is_cut || matches!(record.role, Role::System | Role::Developer) {
            return;
        }
        let (content, role): (&str, _) = (&record.content, record.role.name());
        let named = parse_speaker(content);
        let speaker = named.unwrap_or(role);
        let time = parse_milliseconds(&record.at).unwrap_or(0);
        let facets = match &self.origin {
            None => vec![message_facet(position)],
            Some(origin) => vec![session_facet(origin.session, Some(position)), session_facet(origin.session, None)],
        };
        let vector = record.vector.as_deref().filter(|_| cut_passages(content).count() == 1);
        self.vectors.extend(vector.map(|vector| (self.passages.len(), vector.to_owned())));
        for (index, text) in cut_passages(content).enumerate() {
            let first = is_first && index == 0;
            // Who speaks stands before it, unless it says so itself.
            let label = if index == 0 && named.is_some() { 0 } else { count_tokens(role) + 1 };
            let posting =
                PassageDocument { text, speaker, time, first, tokens: count_tokens(text) + label }.to_posting();
            self.terms.push(with_facets(posting, &facets).to_text());
            let source = record.source.clone().or_else(|| (record.role == Role::Tool).then_some("tool".into()));
            let has_low_trust = record.trust.as_deref() == Some("low");
            let (at, text) = ((*record.at).into(), text.into());
            let (session, life) = self.origin.map(|origin| (origin.session.into(), origin.life.into())).unzip();
            let role = role.into();
            self.passages.push(Passage { position, at, role, text, source, has_low_trust, session, life }.write());
        }
    }
}

/// Who speaks by the text itself, as in `Anna: hello`: a word or two that begin with a capital letter, or with one of a
/// script that has none.
pub(crate) fn parse_speaker(text: &str) -> Option<&str> {
    let (name, _) = json::split_before(text, b':')?;
    let is_first = |first: char| !first.is_lowercase();
    let is_name = |word: &str| word.chars().all(char::is_alphanumeric) && word.starts_with(is_first);
    (name.len() <= SPEAKER_MAX && name.split(' ').count() <= 2 && name.split(' ').all(is_name)).then_some(name)
}

/// The term that all passages of a message have, and few others: by it they are found again.
pub(crate) fn message_facet(position: u64) -> u32 {
    facet_term(&position.to_le_bytes())
}

/// The same where they lie with the user; without a position, of all that is from a session.
pub(crate) fn session_facet(session: &str, position: Option<u64>) -> u32 {
    let position = position.map(u64::to_le_bytes);
    facet_term(&[session.as_bytes(), b"\0", position.as_ref().map_or(&[][..], |bytes| bytes)].concat())
}

fn with_facets(mut posting: Posting, facets: &[u32]) -> Posting {
    posting.terms.truncate(DOCUMENT_TERMS - facets.len());
    for facet in facets {
        if let Err(at) = posting.terms.binary_search(facet) {
            posting.terms.insert(at, *facet);
        }
    }
    posting
}

/// Terms to look for in what [`Posting::to_text`] wrote, without reading it.
pub(crate) struct TermMatcher {
    /// As they are written, in ascending order; below each, where it stands among those that were asked for.
    terms: Vec<u64>,
}

impl TermMatcher {
    pub(crate) fn of(terms: &[u32]) -> Self {
        let key =
            |(place, term): (u64, &u32)| u64::from(u32::from_be_bytes(encode_posting_number(*term))) << 32 | place;
        Self { terms: store::heap_sorted((0..).zip(terms).map(key).collect()) }
    }

    /// The mark of a passage, once each of its terms that is sought was handed to `each` as its place. None: it was taken
    /// out.
    pub(crate) fn match_passage(&self, text: &str, mut each: impl FnMut(usize)) -> Option<u16> {
        let (mark, terms) = split_posting(text)?;
        let mut sought = self.terms.iter();
        let Some(mut next) = sought.next() else { return Some(mark) };
        // Both are in ascending order.
        for digits in terms {
            let term = u64::from(u32::from_be_bytes(*digits));
            while next >> 32 < term {
                let Some(after) = sought.next() else { return Some(mark) };
                next = after;
            }
            if next >> 32 == term {
                each(*next as u32 as usize);
            }
        }
        Some(mark)
    }
}

/// What was said before that is not kept: milliseconds since 1970.
pub(crate) fn oldest_at(context: &Context<impl Host>, options: &Options) -> u64 {
    let kept = crate::options::config::milliseconds(options.recall_ttl_hours).unwrap_or(u64::MAX);
    (context.host.now_micros() / 1000).saturating_sub(kept)
}

/// Whether something was said before that.
pub(crate) fn is_older_than(passage: &Passage<'_>, oldest: u64) -> bool {
    parse_milliseconds(&passage.at).is_some_and(|at| at < oldest)
}
