//! The answers' lane: what was said is stored as `last_answer` and counted in `answer_count`.
//!
//! Promises both and their history in one transaction. Where something in the session is broken (others write
//! to the same store, and not all keep to its types) the rest is stored without it and the warning names it: one
//! broken key must not cost a session its memory for good. Refuses to overwrite what is broken.

use keepline_json as json;

use crate::conversation::commit;
use crate::conversation::state::State;
use crate::filter::{AnswerEntry, AnswerReply, Effect, Filter, Problem};
use crate::history;
use crate::log;
use crate::message_id::{self, MessageId};
use crate::metadata::Session;
use crate::names::{ANSWER_COUNT, LAST_ANSWER, repr};
use crate::reply;
use crate::store::{Bucket, Expectation, Failure, FailureCode, Host, Opening, Operation, Status, Transaction, VALUES};
use crate::turn::Turn;

impl AnswerReply {
    pub(crate) fn of(effect: Effect) -> Self {
        Self { metadata: None, effect, due: Vec::new(), problem: None }
    }

    pub(crate) fn with(effect: Effect, problem: Problem) -> Self {
        Self { problem: Some(problem), ..Self::of(effect) }
    }
}

/// What of an answer can be stored.
pub(crate) struct Parts {
    pub text: bool,
    pub count: bool,
    pub history: bool,
    message_id: bool,
    /// Its step of the conversation.
    pub conversation: bool,
    /// Why not all of it.
    problem: Option<Problem>,
}

impl Parts {
    pub(crate) fn all() -> Self {
        Self { text: true, count: true, history: true, message_id: true, conversation: true, problem: None }
    }

    /// All but the text, which is longer than a value may be.
    pub(crate) fn without_text() -> Self {
        let message = ["without ", LAST_ANSWER, ": it is over max_value_bytes"].concat();
        Self { text: false, problem: Some(Problem::limit(message)), ..Self::all() }
    }

    /// Why not all of it was stored.
    pub(crate) fn take_problem(&mut self) -> Option<Problem> {
        self.problem.take()
    }

    /// Leave out what a transaction failed for. Whether there was such a part, and the answer's text or its
    /// count is left.
    pub(crate) fn leave_out(&mut self, failure: &Failure) -> bool {
        let part = match (failure.code, &*failure.subject) {
            _ if self.conversation && commit::is_conversation(failure) => &mut self.conversation,
            (FailureCode::WrongType, LAST_ANSWER) => &mut self.text,
            (FailureCode::WrongType | FailureCode::NotACounter | FailureCode::CounterOverflow, ANSWER_COUNT) => {
                &mut self.count
            }
            (FailureCode::WrongType, history::LOG) => &mut self.history,
            (FailureCode::WrongType, message_id::LOG | message_id::MAP) => &mut self.message_id,
            _ => return false,
        };
        if !std::mem::replace(part, false) {
            return false;
        }
        // A store's own words tell that nothing was changed, which soon is not so.
        let why = match failure.code {
            FailureCode::NotACounter => "its value is no counter",
            FailureCode::CounterOverflow => "it can't be counted any further",
            _ => "what is stored there has the wrong type",
        };
        self.note(failure.code.as_str(), &format!("without {}: {why}", failure.subject));
        self.text || self.count
    }

    /// One more reason why not all of it is stored.
    pub(crate) fn note(&mut self, code: &'static str, reason: &str) {
        match &mut self.problem {
            None => self.problem = Some(Problem { code, message: reason.to_owned() }),
            Some(problem) => problem.message = format!("{}; {reason}", problem.message),
        }
    }
}

/// Whether a question of this session saw it, so that its id is kept.
fn saw(turn: &str, session: &Session<'_>) -> bool {
    let seen = State::parse(turn).filter(|state| !state.incarnation.is_empty());
    matches!((seen, session), (Some(seen), Session::Named(name)) if seen.session == *name)
}

impl<H: Host> Filter<H> {
    /// An answer on its way back. `turn` is the state that its question gave.
    ///
    /// Whose it is: its own metadata's session, else that of the turn. An answer of the turn's session belongs to
    /// the life of it that the question saw, and to no other. Without a turn, or with that of a question that
    /// failed, nothing is known of a life: the session is opened, or created.
    pub fn answer(&self, entry: &AnswerEntry<'_>) -> AnswerReply {
        if !self.config.memory_enabled {
            return AnswerReply::of(Effect::Passed);
        }
        let AnswerEntry { text, turn, .. } = *entry;
        let metadata = match self.read(entry.metadata, false) {
            Ok(metadata) => metadata,
            Err(failure) => {
                let problem = Problem::store(&failure);
                log::warn(&self.host, log::STORE, &["Answer not stored: ", &problem.message]);
                return AnswerReply::with(Effect::Failed, problem);
            }
        };
        if let Session::Malformed { .. } = &metadata.session {
            let (effect, problem) = self.unbound(&metadata, "answer");
            return AnswerReply { problem, ..AnswerReply::of(effect) };
        }
        if let Some(options) = &self.config.conversation {
            let reply = self.commit(options, entry, &metadata);
            if reply.effect == Effect::Stored && metadata.session_id.is_some() && !saw(turn, &metadata.session) {
                self.keep_id(&metadata);
            }
            return reply;
        }
        let named: Option<&str> = match &metadata.session {
            Session::Named(session) => Some(session),
            Session::None | Session::Malformed { .. } => {
                self.unbound(&metadata, "answer");
                None
            }
        };
        let carried = Turn::parse(turn);
        if carried.is_none() && !turn.is_empty() {
            self.invalid_turn(turn);
        }
        let (session, incarnation) = match (named, carried) {
            (Some(session), Some(turn)) if turn.session != session => (session, None),
            (Some(session), turn) => (session, turn.and_then(|turn| turn.incarnation)),
            (None, Some(turn)) => (turn.session, turn.incarnation),
            (None, None) => return AnswerReply::of(Effect::Passed),
        };

        let Some(value) = self.encode(text) else {
            return self.too_long(session);
        };
        let opening = match incarnation {
            None => self.config.create(),
            incarnation => Opening::Existing { incarnation, renew: true },
        };
        let message_id = entry.message_id.filter(|id| !id.is_empty()).or(metadata.message_id.as_deref());
        let reply = self.store(session, opening, &value, message_id.and_then(MessageId::new).as_ref());
        if reply.effect == Effect::Stored && incarnation.is_none() {
            self.keep_id(&metadata);
        }
        reply
    }

    pub(crate) fn invalid_turn(&self, turn: &str) {
        log::debug(&self.host, |line| {
            line.push_str("Ignoring invalid turn state: ");
            line.push_str(&repr(turn));
        });
    }

    pub(crate) fn too_long(&self, session: &str) -> AnswerReply {
        let limit = self.config.max_value_bytes;
        let message = format!("Answer in session {session} is over max_value_bytes ({limit})");
        log::warn(&self.host, log::LIMIT, &[&message]);
        AnswerReply::with(Effect::Limited, Problem::limit(message))
    }

    /// The answer as a JSON string, unless it is over the limit.
    pub(crate) fn encode(&self, text: &str) -> Option<String> {
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
    fn store(&self, session: &str, opening: Opening<'_>, value: &str, id: Option<&MessageId<'_>>) -> AnswerReply {
        let stamp = history::timestamp(self.host.now_micros());
        let mut parts = Parts { conversation: false, ..Parts::all() };
        loop {
            match self.write(session, opening, value, id, &stamp, &mut parts) {
                Ok(reply) => return reply,
                // Nothing was changed by it: a transaction is applied as a whole.
                Err(failure) if parts.leave_out(&failure) => {}
                Err(failure) => return self.failed(session, &failure),
            }
        }
    }

    fn write(
        &self,
        session: &str,
        opening: Opening<'_>,
        value: &str,
        id: Option<&MessageId<'_>>,
        stamp: &str,
        parts: &mut Parts,
    ) -> Result<AnswerReply, Failure> {
        let id = id.filter(|_| parts.message_id);
        let put = history::record("put", LAST_ANSWER, stamp);
        let increment = history::record("increment", ANSWER_COUNT, stamp);
        let records = [&*put, &*increment];
        let written = usize::from(!parts.text)..1 + usize::from(parts.count);
        let records = records.get(written).filter(|_| parts.history).unwrap_or_default();
        let id_record = id.map(MessageId::record);
        let id_mark = id.map(MessageId::mark);

        let mut operations = Vec::with_capacity(6);
        if parts.text {
            operations.push(Operation::Put { map: VALUES, key: LAST_ANSWER, text: value });
        }
        if parts.count {
            operations.push(Operation::Increment { map: VALUES, key: ANSWER_COUNT, amount: 1 });
        }
        history::append(&mut operations, &self.config, records);
        if let Some(id) = id {
            id.append(&mut operations, id_record.as_slice(), id_mark.as_slice());
        }
        // The id comes first: an answer that is stored already needs no room.
        let room = Expectation::Room { map: VALUES, limit: self.config.max_keys };
        let expectations = [id.map_or(room, MessageId::is_new), room];
        let expectations = expectations.get(usize::from(id.is_none())..).unwrap_or_default();
        let transaction =
            Transaction { bucket: Bucket::session(session), opening, expectations, operations: &operations };
        let receipt = reply::transact(&self.host, &transaction)?;
        let reply = match receipt.status {
            Status::Applied | Status::Repeated => self.stored(session, parts.problem.take()),
            Status::Absent | Status::Expired | Status::AnotherLife => self.ended(session),
            Status::Unmet => match reply::unmet(&receipt, &transaction) {
                Some(Expectation::Absent { .. }) => self.repeated(session),
                _ => self.no_room(session),
            },
            Status::Exists => return Err(Failure::out_of_turn()),
        };
        if receipt.is_applied() {
            history::tidy(&self.host, &self.config, &transaction, &receipt, stamp);
            message_id::tidy(&self.host, &transaction, &receipt);
        }
        Ok(reply)
    }

    pub(crate) fn ended(&self, session: &str) -> AnswerReply {
        log::warn(&self.host, log::SESSION, &["Answer not stored: its question's session has ended: ", session]);
        AnswerReply::of(Effect::Ended)
    }

    pub(crate) fn repeated(&self, session: &str) -> AnswerReply {
        log::debug(&self.host, |line| {
            line.push_str("Answer already stored in session ");
            line.push_str(session);
        });
        AnswerReply::of(Effect::Repeated)
    }

    /// `problem` is why a part of it is not.
    pub(crate) fn stored(&self, session: &str, problem: Option<Problem>) -> AnswerReply {
        let problem = problem.map(|Problem { code, message }| {
            let message = format!("Answer in session {session} stored {message}");
            log::warn(&self.host, log::VALUE, &[&message]);
            Problem { code, message }
        });
        if problem.is_none() {
            log::debug(&self.host, |line| {
                line.push_str("Stored answer in session ");
                line.push_str(session);
            });
        }
        AnswerReply { problem, ..AnswerReply::of(Effect::Stored) }
    }

    pub(crate) fn no_room(&self, session: &str) -> AnswerReply {
        let limit = self.config.max_keys;
        let message = format!("Answer in session {session} finds no room within max_keys ({limit})");
        log::warn(&self.host, log::LIMIT, &[&message]);
        AnswerReply::with(Effect::Limited, Problem::limit(message))
    }

    pub(crate) fn failed(&self, session: &str, failure: &Failure) -> AnswerReply {
        let problem = Problem::store(failure);
        log::warn(&self.host, log::STORE, &["Answer not stored in session ", session, ": ", &problem.message]);
        AnswerReply::with(Effect::Failed, problem)
    }
}
