//! The answers' lane: what was said is stored as `last_answer` and counted in `answer_count`.
//!
//! Promises both and their history in one transaction. Where something in the session is broken (others write
//! to the same store, and not all keep to its types) the rest is stored without it and the warning names it: one
//! broken key must not cost a session its memory for good. Refuses to overwrite what is broken.

use crate::filter::{ANSWER_COUNT, AnswerReply, Effect, Filter, LAST_ANSWER, LIMIT_LOG, Problem, SESSION_LOG};
use crate::filter::{STORE_LOG, VALUE_LOG};
use crate::history;
use crate::json;
use crate::metadata::{Metadata, Session};
use crate::names::repr;
use crate::store::{Expectation, Failure, FailureCode, Host, Opening, Operation, Receipt, Status};
use crate::turn::Turn;

impl AnswerReply {
    fn of(effect: Effect) -> Self {
        Self { metadata: None, effect, problem: None }
    }

    fn with(effect: Effect, problem: Problem) -> Self {
        Self { metadata: None, effect, problem: Some(problem) }
    }
}

/// What of an answer can be stored.
struct Parts {
    text: bool,
    count: bool,
    history: bool,
    /// Why not all of it.
    problem: Option<Problem>,
}

impl Parts {
    /// Leave out what a transaction failed for. Whether there was such a part, and the answer's text or its
    /// count is left.
    fn leave_out(&mut self, failure: &Failure) -> bool {
        let part = match (failure.code, &*failure.subject) {
            (FailureCode::WrongType, LAST_ANSWER) => &mut self.text,
            (FailureCode::WrongType | FailureCode::NotACounter | FailureCode::CounterOverflow, ANSWER_COUNT) => {
                &mut self.count
            }
            (FailureCode::WrongType, history::LOG) => &mut self.history,
            _ => return false,
        };
        if !std::mem::replace(part, false) {
            return false;
        }
        let told = format!("without {}: {}", failure.subject, failure.sentence());
        match &mut self.problem {
            None => self.problem = Some(Problem { code: failure.code.as_str(), message: told }),
            Some(problem) => problem.message = format!("{}; {told}", problem.message),
        }
        self.text || self.count
    }
}

impl<H: Host> Filter<H> {
    /// An answer on its way back. `turn` is the state that its question gave.
    ///
    /// Whose it is: its own metadata's session, else that of the turn. An answer of the turn's session belongs to
    /// the life of it that the question saw, and to no other. Without a turn, or with that of a question that
    /// failed, nothing is known of a life: the session is opened, or created.
    pub fn answer(&self, text: &str, metadata: &str, turn: &str) -> AnswerReply {
        let metadata = Metadata::parse(metadata, false);
        let named: Option<&str> = match &metadata.session {
            Session::Named(session) => Some(session),
            Session::Malformed(_) => return AnswerReply::of(self.unbound(&metadata, "answer")),
            Session::None => {
                self.unbound(&metadata, "answer");
                None
            }
        };
        let carried = Turn::parse(turn);
        if carried.is_none() && !turn.is_empty() {
            self.debug(|line| {
                line.push_str("Ignoring invalid turn state: ");
                line.push_str(&repr(turn));
            });
        }
        let (session, incarnation) = match (named, carried) {
            (Some(session), Some(turn)) if turn.session != session => (session, None),
            (Some(session), turn) => (session, turn.and_then(|turn| turn.incarnation)),
            (None, Some(turn)) => (turn.session, turn.incarnation),
            (None, None) => return AnswerReply::of(Effect::Passed),
        };

        let Some(value) = self.encode(text) else {
            let limit = self.config.max_value_bytes;
            let message = format!("Answer in session {session} is over max_value_bytes ({limit})");
            self.warn(LIMIT_LOG, &[&message]);
            return AnswerReply::with(Effect::Limited, Problem::limit(message));
        };
        let opening = match incarnation {
            None => self.config.create(),
            incarnation => Opening::Existing { incarnation },
        };
        self.store(session, opening, &value)
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

    /// Store all of it, or what is left when broken parts of the session are left out, one after the other.
    fn store(&self, session: &str, opening: Opening<'_>, value: &str) -> AnswerReply {
        let stamp = history::timestamp(self.host.now_micros());
        let mut parts = Parts { text: true, count: true, history: true, problem: None };
        loop {
            match self.write(session, opening, value, &stamp, &parts) {
                Ok(receipt) => return self.stored(session, opening, &receipt, &stamp, parts.problem),
                // Nothing was changed by it: a transaction is applied as a whole.
                Err(failure) if parts.leave_out(&failure) => {}
                Err(failure) => {
                    let problem = Problem::store(&failure);
                    self.warn(STORE_LOG, &["Answer not stored in session ", session, ": ", &problem.message]);
                    return AnswerReply::with(Effect::Failed, problem);
                }
            }
        }
    }

    fn write(
        &self,
        session: &str,
        opening: Opening<'_>,
        value: &str,
        stamp: &str,
        parts: &Parts,
    ) -> Result<Receipt, Failure> {
        let put = history::record("put", LAST_ANSWER, stamp);
        let increment = history::record("increment", ANSWER_COUNT, stamp);
        let text = (Operation::Put { key: LAST_ANSWER, value }, &*put);
        let count = (Operation::Increment { key: ANSWER_COUNT, amount: 1 }, &*increment);
        let (both, one) = ([text.0, count.0], [text.1, count.1]);
        let range = usize::from(!parts.text)..1 + usize::from(parts.count);
        let (writes, records) = (both.get(range.clone()), one.get(range));
        history::write(
            &self.host,
            &self.config,
            session,
            opening,
            &[Expectation::Room { limit: self.config.max_keys }],
            writes.unwrap_or_default(),
            records.filter(|_| parts.history).unwrap_or_default(),
        )
    }

    /// `problem` is why a part of it is not.
    fn stored(
        &self,
        session: &str,
        opening: Opening<'_>,
        receipt: &Receipt,
        stamp: &str,
        problem: Option<Problem>,
    ) -> AnswerReply {
        match receipt.status {
            Status::Applied | Status::Repeated => {
                let problem = problem.map(|Problem { code, message }| {
                    let message = format!("Answer in session {session} stored {message}");
                    self.warn(VALUE_LOG, &[&message]);
                    Problem { code, message }
                });
                if problem.is_none() {
                    self.debug(|line| {
                        line.push_str("Stored answer in session ");
                        line.push_str(session);
                    });
                }
                history::tidy(&self.host, &self.config, session, opening, receipt, stamp);
                AnswerReply { problem, ..AnswerReply::of(Effect::Stored) }
            }
            Status::Absent | Status::Expired | Status::AnotherLife => {
                self.warn(SESSION_LOG, &["Answer not stored: its question's session has ended: ", session]);
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
}
