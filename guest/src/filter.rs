//! The two lanes: questions get what their session remembers, answers are remembered.
//!
//! Promises one transaction an entry, an answer to every call, and at most one warning for each thing that
//! went wrong. More transactions come only where something is out of the ordinary: history is to be
//! summarised, a memory is over its limits (`oversize`), what is stored is broken (`answer`). Refuses to touch
//! an entry that has no session, to let a client forge a session's memory, and to revive a session that has
//! ended.
//!
//! Here is the questions' lane; the answers' is in `answer`.

use keepline_json as json;

use crate::config::{Config, UnboundContext};
use crate::log;
use crate::metadata::{Metadata, Session};
use crate::names::{is_key, repr};
use crate::reply::{self, Found, Outcomes};
use crate::session_id::READ_ID;
use crate::store::{Bucket, Failure, FoundEntries, Host, Operation, Transaction, VALUES};
use crate::turn::Turn;

/// A warning names no more keys than this.
const NAMED_MAX: usize = 8;

/// What the filter did with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: no session.
    Passed,
    /// Nothing: the session id is malformed.
    Ignored,
    /// Nothing: the session belongs to another user.
    Foreign,
    /// Question: the session has nothing to tell.
    Resumed,
    /// Question: it got its session's memory; with a problem: the part of it that the limits have room for.
    Enriched,
    /// Answer: it is stored; with a problem: as far as what is broken in the session lets it be.
    Stored,
    /// Answer: its message id is stored already.
    Repeated,
    /// Answer: it is not worth being stored.
    Skipped,
    /// A limit kept it from being enriched or stored.
    Limited,
    /// Answer: the session that its question saw has ended.
    Ended,
    /// The store failed.
    Failed,
}

/// What went wrong with an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// A failure code as the contract spells it, or `limit`.
    pub code: &'static str,
    /// For people.
    pub message: String,
}

impl Problem {
    pub(crate) fn limit(message: String) -> Self {
        Self { code: "limit", message }
    }

    pub(crate) fn store(failure: &Failure) -> Self {
        Self { code: failure.code.as_str(), message: failure.sentence() }
    }
}

/// A question, as far as the filter looks at it.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuestionEntry<'a> {
    /// What is asked.
    pub text: &'a str,
    /// JSON text.
    pub metadata: &'a str,
    /// None: that of the metadata.
    pub message_id: Option<&'a str>,
    /// The text's embedding: the model's name, and base64 of 32-bit little-endian floats.
    pub vector: Option<(&'a str, &'a str)>,
}

/// What a tool was asked for, what it gave, or both. Paired by `call_id`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the contract, documented there")]
pub struct ToolActivity<'a> {
    pub call_id: &'a str,
    pub name: &'a str,
    pub arguments: Option<&'a str>,
    pub output: Option<&'a str>,
    pub error: Option<&'a str>,
    pub details: &'a str,
}

/// An answer, as far as the filter looks at it.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerEntry<'a> {
    /// What is said.
    pub text: &'a str,
    /// JSON text.
    pub metadata: &'a str,
    /// As the question's reply gave it; empty: none.
    pub turn: &'a str,
    /// None: that of the metadata.
    pub message_id: Option<&'a str>,
    /// The question's text, if it is known.
    pub question_text: Option<&'a str>,
    /// In the order of events.
    pub activity: &'a [ToolActivity<'a>],
    /// Whether it was cut off.
    pub is_incomplete: bool,
    /// Tokens of the question's text, as the host counts them.
    pub question_tokens: Option<u32>,
    /// Tokens of the answer's text, as the host counts them.
    pub tokens: Option<u32>,
    /// More to store with it: a JSON object, or empty.
    pub details: &'a str,
}

/// Work that has become due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// `{kind}/{name}` of the bucket.
    pub subject: String,
    /// What it is.
    pub name: &'static str,
    /// The filter's own.
    pub state: String,
}

/// What became of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionReply {
    /// The metadata to send on; none: as it came.
    pub metadata: Option<String>,
    /// To be handed to the answers. Empty: no session.
    pub turn: String,
    /// What the filter did.
    pub effect: Effect,
    /// How many keys were attached.
    pub attached: u32,
    /// What should be done soon.
    pub due: Vec<Task>,
    /// What went wrong.
    pub problem: Option<Problem>,
}

impl QuestionReply {
    fn untouched(effect: Effect) -> Self {
        Self { metadata: None, turn: String::new(), effect, attached: 0, due: Vec::new(), problem: None }
    }
}

/// What became of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerReply {
    /// The metadata to send on; none: as it came. (Answers are not changed today.)
    pub metadata: Option<String>,
    /// What the filter did.
    pub effect: Effect,
    /// What should be done soon.
    pub due: Vec<Task>,
    /// What went wrong.
    pub problem: Option<Problem>,
}

/// The filter: options, and a host to work with. It holds no conversation.
#[derive(Clone, Debug)]
pub struct Filter<H> {
    pub(crate) host: H,
    pub(crate) config: Config,
}

impl<H: Host> Filter<H> {
    /// A filter with these options. Any number of them can work with one store.
    pub fn new(host: H, config: Config) -> Self {
        Self { host, config }
    }

    /// A question on its way to the model.
    pub fn question(&self, entry: &QuestionEntry<'_>) -> QuestionReply {
        let strips = self.config.unbound_context == UnboundContext::Strip;
        let metadata = match self.read(entry.metadata, strips) {
            Ok(metadata) => metadata,
            Err(failure) => {
                let problem = Problem::store(&failure);
                log::warn(&self.host, log::STORE, &["No memory for a question: ", &problem.message]);
                return QuestionReply { problem: Some(problem), ..QuestionReply::untouched(Effect::Failed) };
            }
        };
        let session = match &metadata.session {
            Session::Named(session) => session,
            Session::None | Session::Malformed { .. } => {
                let (effect, invalid) = self.unbound(&metadata, "question");
                if metadata.withheld {
                    let what = "Replaced metadata of a question by {}: nobody can read them, and they may hold a \
                                memory_context or the like";
                    log::warn(&self.host, log::SESSION, &[what]);
                }
                let problem = self.lacks_session(entry.metadata);
                return QuestionReply {
                    metadata: if strips { metadata.stripped() } else { None },
                    effect: if problem.is_some() { Effect::Failed } else { effect },
                    problem: problem.or(invalid),
                    ..QuestionReply::untouched(effect)
                };
            }
        };

        if !self.config.memory_enabled {
            return QuestionReply { metadata: metadata.stripped(), ..QuestionReply::untouched(Effect::Passed) };
        }
        let mut reply = QuestionReply::untouched(Effect::Resumed);
        let remembered = match &self.config.conversation {
            Some(options) => self.converse(options, session, entry, &metadata, &mut reply),
            None => self.remember(session, &metadata, &mut reply),
        };
        if let Err(failure) = remembered {
            let problem = Problem::store(&failure);
            log::warn(
                &self.host,
                log::STORE,
                &["No memory for a question of session ", session, ": ", &problem.message],
            );
            reply.effect = Effect::Failed;
            reply.problem = Some(problem);
            // Its answers are the session's all the same, as far as that can be told without having seen it.
            if reply.turn.is_empty() {
                reply.turn = match &self.config.conversation {
                    Some(options) => self.unseen(options, session, entry, &metadata),
                    None => Turn::write(session, ""),
                };
            }
        }
        if reply.effect != Effect::Enriched {
            reply.metadata = metadata.stripped();
        }
        reply
    }

    /// Open the session, or create it, and attach what it holds.
    pub(crate) fn remember(
        &self,
        session: &str,
        metadata: &Metadata<'_>,
        reply: &mut QuestionReply,
    ) -> Result<(), Failure> {
        let Config { max_keys, max_context_bytes, .. } = self.config;
        let read = Operation::GetAll { map: VALUES, max_entries: max_keys, max_bytes: max_context_bytes };
        let reads = [read, READ_ID];
        let operations = if metadata.session_id.is_some() { reads.as_slice() } else { &reads[..1] };
        let opening = self.config.create();
        let transaction = Transaction { bucket: Bucket::session(session), opening, expectations: &[], operations };
        let mut receipt = reply::transact(&self.host, &transaction)?;
        // Creating opens what is there and makes what is not: any other status is the store's fault.
        if !receipt.is_applied() {
            return Err(Failure::out_of_turn());
        }
        reply.turn = Turn::write(session, &receipt.incarnation);
        let incarnation = std::mem::take(&mut receipt.incarnation);
        let mut outcomes = Outcomes::of(receipt);
        let found = outcomes.entries()?;
        if metadata.session_id.is_some() && outcomes.text()?.is_none() {
            self.keep_id(metadata);
        }
        self.attach(Bucket::session(session), &incarnation, metadata, found, reply)
    }

    /// Attach the values that were found, or as many of them as fit.
    pub(crate) fn attach(
        &self,
        bucket: Bucket<'_>,
        incarnation: &str,
        metadata: &Metadata<'_>,
        found: Found,
        reply: &mut QuestionReply,
    ) -> Result<(), Failure> {
        let session = bucket.name;
        match found {
            Found::Entries(values) => self.enrich(session, metadata, values, reply),
            Found::Oversize { entries, .. } => {
                let mut message = self.oversize(session, entries);
                let fitting = self.fitting(bucket, incarnation, entries)?;
                self.enrich(session, metadata, fitting.values, reply);
                if reply.effect != Effect::Enriched {
                    reply.effect = Effect::Limited;
                }
                if fitting.left_out_count > 0 {
                    message.push_str("; left out ");
                    json::push_number(&mut message, fitting.left_out_count);
                    message.push_str(" keys: ");
                    push_names(&mut message, &fitting.left_out);
                }
                log::warn(&self.host, log::LIMIT, &[&message]);
                reply.problem = Some(Problem::limit(message));
            }
        }
        Ok(())
    }

    /// Attach what can be attached.
    fn enrich(&self, session: &str, metadata: &Metadata<'_>, mut values: FoundEntries, reply: &mut QuestionReply) {
        let mut skipped = values.unreadable;
        values.entries.retain(|entry| {
            let is_good = is_key(&entry.key) && json::portable(&entry.text).is_some();
            if !is_good {
                skipped.push(entry.key.clone());
            }
            is_good
        });
        if !skipped.is_empty() {
            log::warn(&self.host, log::VALUE, &[&skipped_line(session, &skipped)]);
        }
        let entries = &mut values.entries;
        if entries.is_empty() {
            return;
        }

        let size = entries.iter().map(|entry| entry.key.len() + entry.text.len() + "{\"\":".len()).sum::<usize>() + 1;
        reply.metadata = Some(metadata.enriched(size, |out| {
            let mut before = "{\"";
            for entry in entries.iter() {
                out.push_str(before);
                // A key of ours has no character that must be escaped.
                out.push_str(&entry.key);
                out.push_str("\":");
                push_line(out, entry.text.trim_matches([' ', '\t', '\n', '\r']));
                before = ",\"";
            }
            out.push('}');
        }));
        reply.effect = Effect::Enriched;
        reply.attached = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        log::debug(&self.host, |line| {
            line.push_str("Attached ");
            json::push_number(line, u64::from(reply.attached));
            line.push_str(" memory keys to question for session ");
            line.push_str(session);
        });
    }

    /// An entry whose metadata name no session that could be used: say why, if there is a reason.
    pub(crate) fn unbound(&self, metadata: &Metadata<'_>, lane: &str) -> (Effect, Option<Problem>) {
        match &metadata.session {
            Session::Malformed { shown, why } => {
                log::debug(&self.host, |line| {
                    line.push_str("Ignoring invalid session_id in ");
                    line.push_str(lane);
                    line.push_str(" metadata: ");
                    line.push_str(shown);
                });
                (Effect::Ignored, Some(self.invalid_id(shown, *why)))
            }
            Session::None | Session::Named(_) => {
                if metadata.unreadable {
                    log::debug(&self.host, |line| {
                        line.push_str("No JSON object in ");
                        line.push_str(lane);
                        line.push_str(" metadata: no session");
                    });
                }
                (Effect::Passed, None)
            }
        }
    }

    fn oversize(&self, session: &str, keys: u64) -> String {
        let Config { max_keys, max_context_bytes, .. } = self.config;
        if keys > max_keys {
            format!("Memory of session {session} ({keys} keys) is over max_keys ({max_keys})")
        } else {
            // How far over is not known: a store stops counting bytes at the limit.
            format!("Memory of session {session} is over max_context_bytes ({max_context_bytes})")
        }
    }
}

/// A JSON value on one line. In valid JSON a raw line end is a blank between tokens, so a string, which is
/// what most values are, holds none and need not be searched.
fn push_line(out: &mut String, value: &str) {
    if value.starts_with('"') {
        return out.push_str(value);
    }
    let mut rest = value;
    while let Some((line, tail)) = rest.split_once(['\n', '\r']) {
        out.push_str(line);
        out.push(' ');
        rest = tail;
    }
    out.push_str(rest);
}

fn skipped_line(session: &str, keys: &[String]) -> String {
    let mut line = String::from("Skipped ");
    json::push_number(&mut line, keys.len() as u64);
    line.push_str(" stored values of session ");
    line.push_str(session);
    line.push_str(" that strict JSON parsers refuse: ");
    push_names(&mut line, keys);
    line
}

/// As many names as people want to read.
fn push_names(line: &mut String, keys: &[String]) {
    for (index, key) in keys.iter().take(NAMED_MAX).enumerate() {
        if index > 0 {
            line.push_str(", ");
        }
        line.push_str(&repr(key));
    }
    if keys.len() > NAMED_MAX {
        line.push_str(", …");
    }
}
