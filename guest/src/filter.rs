//! The two lanes: questions get what their session remembers, answers are remembered.
//!
//! Promises one transaction an entry (and a second one when history is to be summarised), an answer to
//! every call, and at most one warning for each thing that went wrong. Refuses to touch an entry that
//! has no session, to let a client forge a session's memory, and to revive a session that has ended.

use crate::config::{Config, UnboundContext};
use crate::history;
use crate::json;
use crate::metadata::{Metadata, Session};
use crate::names::{is_key, repr};
use crate::store::{AllValues, Expectation, Failure, Host, Level, Opening, Operation, Outcome, Receipt, Status};
use crate::turn::Turn;

pub(crate) const SESSION_LOG: &str = "keepline.session";
pub(crate) const VALUE_LOG: &str = "keepline.value";
pub(crate) const LIMIT_LOG: &str = "keepline.limit";
pub(crate) const STORE_LOG: &str = "keepline.store";

/// The filter's own keys.
const LAST_ANSWER: &str = "last_answer";
const ANSWER_COUNT: &str = "answer_count";

/// A warning names no more keys than this.
const NAMED_MAX: usize = 8;

/// What the filter did with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: no session.
    Passed,
    /// Nothing: the session id is malformed.
    Ignored,
    /// Question: the session has nothing to tell.
    Resumed,
    /// Question: it got its session's memory.
    Enriched,
    /// Answer: it is stored.
    Stored,
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
    fn limit(message: String) -> Self {
        Self { code: "limit", message }
    }

    fn store(failure: &Failure) -> Self {
        Self { code: failure.code.as_str(), message: failure.sentence() }
    }
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
    /// What went wrong.
    pub problem: Option<Problem>,
}

impl QuestionReply {
    fn untouched(effect: Effect) -> Self {
        Self { metadata: None, turn: String::new(), effect, attached: 0, problem: None }
    }
}

/// What became of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerReply {
    /// The metadata to send on; none: as it came. (Answers are not changed today.)
    pub metadata: Option<String>,
    /// What the filter did.
    pub effect: Effect,
    /// What went wrong.
    pub problem: Option<Problem>,
}

impl AnswerReply {
    fn of(effect: Effect) -> Self {
        Self { metadata: None, effect, problem: None }
    }

    fn with(effect: Effect, problem: Problem) -> Self {
        Self { metadata: None, effect, problem: Some(problem) }
    }
}

/// The filter: options, and a host to work with. It holds no conversation.
#[derive(Clone, Copy, Debug)]
pub struct Filter<H> {
    host: H,
    config: Config,
}

impl<H: Host> Filter<H> {
    /// A filter with these options. Any number of them can work with one store.
    pub fn new(host: H, config: Config) -> Self {
        Self { host, config }
    }

    /// A question on its way to the model.
    pub fn question(&self, _text: &str, metadata: &str) -> QuestionReply {
        let strips = self.config.unbound_context == UnboundContext::Strip;
        let metadata = Metadata::parse(metadata, strips);
        let session = match &metadata.session {
            Session::Named(session) => session,
            Session::None | Session::Malformed(_) => {
                let effect = self.unbound(&metadata, "question");
                return QuestionReply {
                    metadata: if strips { metadata.stripped() } else { None },
                    ..QuestionReply::untouched(effect)
                };
            }
        };

        let read = Operation::GetAll { max_bytes: self.config.max_context_bytes, max_keys: self.config.max_keys };
        let receipt = self.host.transact(session, self.config.create(), &[], &[read]).and_then(applied);
        let receipt = match receipt {
            Ok(receipt) => receipt,
            Err(failure) => {
                let problem = Problem::store(&failure);
                self.warn(STORE_LOG, &["No memory for a question of session ", session, ": ", &problem.message]);
                return QuestionReply {
                    metadata: metadata.stripped(),
                    turn: Turn::write(session, ""),
                    problem: Some(problem),
                    ..QuestionReply::untouched(Effect::Failed)
                };
            }
        };

        let mut reply = QuestionReply {
            turn: Turn::write(session, &receipt.incarnation),
            ..QuestionReply::untouched(Effect::Resumed)
        };
        match receipt.outcomes.into_iter().next() {
            Some(Outcome::Values(values)) => self.enrich(session, &metadata, values, &mut reply),
            Some(Outcome::Oversize { bytes, keys }) => {
                let message = self.oversize(session, bytes, keys);
                self.warn(LIMIT_LOG, &[&message]);
                reply.effect = Effect::Limited;
                reply.problem = Some(Problem::limit(message));
            }
            _ => {
                let problem = Problem::store(&Failure::out_of_turn());
                self.warn(STORE_LOG, &["No memory for a question of session ", session, ": ", &problem.message]);
                reply.effect = Effect::Failed;
                reply.problem = Some(problem);
            }
        }
        if reply.effect != Effect::Enriched {
            reply.metadata = metadata.stripped();
        }
        reply
    }

    /// Attach what can be attached.
    fn enrich(&self, session: &str, metadata: &Metadata<'_>, mut values: AllValues, reply: &mut QuestionReply) {
        let mut skipped = values.unreadable;
        values.entries.retain(|entry| {
            let is_good = is_key(&entry.key) && json::value(&entry.json).is_some();
            if !is_good {
                skipped.push(entry.key.clone());
            }
            is_good
        });
        if !skipped.is_empty() {
            self.warn(VALUE_LOG, &[&skipped_line(session, &skipped)]);
        }
        let entries = &mut values.entries;
        if entries.is_empty() {
            return;
        }

        let size = entries.iter().map(|entry| entry.key.len() + entry.json.len() + "{\"\":".len()).sum::<usize>() + 1;
        reply.metadata = Some(metadata.enriched(size, |out| {
            let mut before = "{\"";
            for entry in entries.iter() {
                out.push_str(before);
                // A key of ours has no character that must be escaped.
                out.push_str(&entry.key);
                out.push_str("\":");
                push_line(out, entry.json.trim_matches([' ', '\t', '\n', '\r']));
                before = ",\"";
            }
            out.push('}');
        }));
        reply.effect = Effect::Enriched;
        reply.attached = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        self.debug(|line| {
            line.push_str("Attached ");
            json::push_number(line, u64::from(reply.attached));
            line.push_str(" memory keys to question for session ");
            line.push_str(session);
        });
    }

    /// An answer on its way back. `turn` is the state that its question gave.
    pub fn answer(&self, text: &str, metadata: &str, turn: &str) -> AnswerReply {
        let metadata = Metadata::parse(metadata, false);
        let (session, incarnation): (&str, _) = match &metadata.session {
            Session::Named(session) => (session, None),
            Session::Malformed(_) => return AnswerReply::of(self.unbound(&metadata, "answer")),
            Session::None => {
                let effect = self.unbound(&metadata, "answer");
                if turn.is_empty() {
                    return AnswerReply::of(effect);
                }
                let Some(turn) = Turn::parse(turn) else {
                    self.debug(|line| {
                        line.push_str("Ignoring invalid turn state: ");
                        line.push_str(&repr(turn));
                    });
                    return AnswerReply::of(effect);
                };
                (turn.session, turn.incarnation)
            }
        };

        let Some(value) = self.encode(text) else {
            let limit = self.config.max_value_bytes;
            let message = format!("Answer in session {session} is over max_value_bytes ({limit})");
            self.warn(LIMIT_LOG, &[&message]);
            return AnswerReply::with(Effect::Limited, Problem::limit(message));
        };
        let stamp = history::timestamp(self.host.now_micros());
        let opening = match incarnation {
            None => self.config.create(),
            incarnation => Opening::Existing { incarnation },
        };
        match self.store(session, opening, &value, &stamp) {
            Ok(receipt) => self.stored(session, opening, receipt, &stamp),
            Err(failure) => {
                let problem = Problem::store(&failure);
                self.warn(STORE_LOG, &["Answer not stored in session ", session, ": ", &problem.message]);
                AnswerReply::with(Effect::Failed, problem)
            }
        }
    }

    /// The answer as a JSON string, unless it is over the limit.
    fn encode(&self, text: &str) -> Option<String> {
        let limit = usize::try_from(self.config.max_value_bytes).unwrap_or(usize::MAX);
        // Encoding never makes a text shorter: what is over the limit already need not be looked at.
        if text.len() + 2 > limit {
            return None;
        }
        // Room for the quotes and some line ends.
        let mut value = String::with_capacity(text.len() + text.len() / 16 + 8);
        json::push_string(&mut value, text);
        (value.len() <= limit).then_some(value)
    }

    fn store(&self, session: &str, opening: Opening<'_>, value: &str, stamp: &str) -> Result<Receipt, Failure> {
        let put = history::record("put", LAST_ANSWER, stamp);
        let increment = history::record("increment", ANSWER_COUNT, stamp);
        history::write(
            &self.host,
            &self.config,
            session,
            opening,
            &[Expectation::Room { limit: self.config.max_keys }],
            &[Operation::Put { key: LAST_ANSWER, value }, Operation::Increment { key: ANSWER_COUNT, amount: 1 }],
            &[&put, &increment],
        )
    }

    fn stored(&self, session: &str, opening: Opening<'_>, receipt: Receipt, stamp: &str) -> AnswerReply {
        match receipt.status {
            Status::Applied | Status::Repeated => {
                self.debug(|line| {
                    line.push_str("Stored answer in session ");
                    line.push_str(session);
                });
                history::tidy(&self.host, &self.config, session, opening, &receipt, stamp);
                AnswerReply::of(Effect::Stored)
            }
            Status::Absent | Status::Expired | Status::AnotherLife => {
                self.debug(|line| {
                    line.push_str("Answer not stored: its question's session has ended: ");
                    line.push_str(session);
                });
                AnswerReply::of(Effect::Ended)
            }
            Status::Unmet => {
                let limit = self.config.max_keys;
                let message = format!("Answer in session {session} finds no room within max_keys ({limit})");
                self.warn(LIMIT_LOG, &[&message]);
                AnswerReply::with(Effect::Limited, Problem::limit(message))
            }
            Status::Exists => {
                let problem = Problem::store(&Failure::out_of_turn());
                self.warn(STORE_LOG, &["Answer not stored in session ", session, ": ", &problem.message]);
                AnswerReply::with(Effect::Failed, problem)
            }
        }
    }

    /// An entry whose metadata name no session that could be used: say why, if there is a reason.
    fn unbound(&self, metadata: &Metadata<'_>, lane: &str) -> Effect {
        match &metadata.session {
            Session::Malformed(shown) => {
                self.debug(|line| {
                    line.push_str("Ignoring invalid session_id in ");
                    line.push_str(lane);
                    line.push_str(" metadata: ");
                    line.push_str(shown);
                });
                Effect::Ignored
            }
            Session::None | Session::Named(_) => {
                if metadata.unreadable {
                    self.debug(|line| {
                        line.push_str("No JSON object in ");
                        line.push_str(lane);
                        line.push_str(" metadata: no session");
                    });
                }
                Effect::Passed
            }
        }
    }

    fn oversize(&self, session: &str, bytes: u64, keys: u64) -> String {
        let Config { max_keys, max_context_bytes, .. } = self.config;
        if keys > max_keys {
            format!("Memory of session {session} ({keys} keys) is over max_keys ({max_keys})")
        } else {
            format!(
                "Memory of session {session} ({bytes} bytes) is over max_context_bytes \
                 ({max_context_bytes})"
            )
        }
    }

    fn debug(&self, write: impl FnOnce(&mut String)) {
        if self.host.logs(Level::Debug) {
            let mut line = String::with_capacity(192);
            write(&mut line);
            self.host.log(Level::Debug, SESSION_LOG, &line);
        }
    }

    fn warn(&self, context: &str, parts: &[&str]) {
        if self.host.logs(Level::Warn) {
            self.host.log(Level::Warn, context, &parts.concat());
        }
    }
}

/// Creating opens what is there and makes what is not: any other status is the store's fault.
fn applied(receipt: Receipt) -> Result<Receipt, Failure> {
    if receipt.is_applied() { Ok(receipt) } else { Err(Failure::out_of_turn()) }
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
    let mut line = format!("Skipped {} stored values of session {session} that are not valid JSON: ", keys.len());
    for (index, key) in keys.iter().take(NAMED_MAX).enumerate() {
        if index > 0 {
            line.push_str(", ");
        }
        line.push_str(&repr(key));
    }
    if keys.len() > NAMED_MAX {
        line.push_str(", …");
    }
    line
}
