//! Stores an answer as `last_answer` and counts it in `answer_count`, with its history, in one transaction.
//!
//! Where something in the session is broken (others write to the same store, and not all keep to its types), the rest is stored
//! without it and the warning names it. What is broken is not overwritten.

use keepline_json as json;
use std::borrow::Cow;

use crate::context::Context;
use crate::contract::{
    BucketId, Expectation, Host, Operation, Precondition, Problem, PutEntry, Status, Transaction, VALUES, codes,
};
use crate::entry::types::{AnswerReply, Effect};
use crate::options::conversation::bounded;
use crate::text::ids::{ANSWER_COUNT, LAST_ANSWER};
use crate::text::quoting::python_repr;
use crate::text::{timestamp, truncate};
use crate::transcript::schema;
use crate::values::message_ids::MessageId;
use crate::values::{history, message_ids};
use crate::{log, store};

/// The code of a problem with a part of the session that is broken in the store.
const BROKEN: &str = "broken";

/// What of an answer can be stored.
pub(crate) struct AnswerParts {
    pub text: bool,
    pub count: bool,
    pub history: bool,
    message_id: bool,
    /// Its step of the conversation.
    pub conversation: bool,
    /// Why not all of it.
    problem: Option<Box<Problem>>,
}

impl AnswerParts {
    pub(crate) fn all() -> Self {
        Self { text: true, count: true, history: true, message_id: true, conversation: true, problem: None }
    }

    /// All but the text, which is longer than a value may be.
    pub(crate) fn without_text(max_value_bytes: u64) -> Self {
        let message = ["without ", LAST_ANSWER, ": it is over max_value_bytes"].concat();
        let problem = Problem::limit("max_value_bytes", max_value_bytes, message);
        Self { text: false, problem: Some(problem), ..Self::all() }
    }

    /// Why not all of it was stored.
    pub(crate) fn take_problem(&mut self) -> Option<Box<Problem>> {
        self.problem.take()
    }

    /// Leave out what a transaction failed for. Whether there was such a part, and the answer's text or its
    /// count is left.
    pub(crate) fn leave_out(&mut self, failure: &Problem) -> bool {
        let part = match (&*failure.code, &*failure.subject) {
            _ if self.conversation && schema::is_conversation_failure(failure) => &mut self.conversation,
            (codes::WRONG_TYPE, LAST_ANSWER) => &mut self.text,
            (codes::WRONG_TYPE | codes::NOT_A_COUNTER | codes::COUNTER_OVERFLOW, ANSWER_COUNT) => &mut self.count,
            (codes::WRONG_TYPE, history::HISTORY_LOG) => &mut self.history,
            (codes::WRONG_TYPE, message_ids::ANSWERS_LOG | message_ids::MESSAGE_IDS_MAP) => &mut self.message_id,
            _ => return false,
        };
        if !std::mem::replace(part, false) {
            return false;
        }
        // A store's own words tell that nothing was changed, which soon is not so.
        let why = match &*failure.code {
            codes::NOT_A_COUNTER => "its value is no counter",
            codes::COUNTER_OVERFLOW => "it can't be counted any further",
            _ => "what is stored there has the wrong type",
        };
        self.add_reason(BROKEN, &failure.subject, &format!("without {}: {why}", failure.subject));
        self.text || self.count
    }

    /// One more reason why not all of it is stored.
    pub(crate) fn add_reason(&mut self, code: &str, subject: &str, reason: &str) {
        match &mut self.problem {
            None => self.problem = Some(Problem::new(code, subject, reason)),
            Some(problem) => problem.message = format!("{}; {reason}", problem.message),
        }
    }
}

pub(crate) fn log_invalid_turn(context: &Context<impl Host>, turn: &str) {
    log::debug(&context.host, &["Ignoring invalid turn state: ", &python_repr(turn)]);
}

pub(crate) fn answer_too_long(context: &Context<impl Host>, session: &str) -> AnswerReply {
    let limit = context.config.max_value_bytes;
    let message = format!("Answer in session {session} is over max_value_bytes ({limit})");
    log::warn(&context.host, log::LIMIT, &[&message]);
    AnswerReply::with(Effect::Limited, Problem::limit("max_value_bytes", limit, message))
}

/// The answer as a JSON string, cut to what the store takes. None: it is over `max_value_bytes`.
pub(crate) fn encode_answer(context: &Context<impl Host>, text: &str) -> Option<String> {
    let config = &context.config;
    let limit = usize::try_from(config.max_value_bytes).unwrap_or(usize::MAX);
    // Encoding never makes a text shorter: what is over the limit already need not be looked at.
    if text.len() + 2 > limit {
        return None;
    }
    // Room for the quotes and some line ends.
    let mut value = String::with_capacity(text.len() + text.len() / 16 + 8);
    json::push_string(&mut value, text);
    if value.len() as u64 > config.limits.text_bytes && value.len() <= limit {
        // Longer than the store takes: the beginning is stored, with a note.
        let mut text = Cow::Borrowed(text);
        truncate::shorten_with_note(&mut text, usize::MAX, bounded(usize::MAX, config.limits.text_bytes - 2));
        value.clear();
        json::push_string(&mut value, &text);
    }
    (value.len() <= limit).then_some(value)
}

/// Store all of it, or what is left when broken parts of the session are left out, one after the other.
pub(crate) fn store_answer(
    context: &Context<impl Host>,
    session: &str,
    precondition: Precondition<'_>,
    value: &str,
    id: Option<&MessageId<'_>>,
) -> AnswerReply {
    let stamp = timestamp::format_timestamp(context.host.now_micros());
    let mut parts = AnswerParts { conversation: false, ..AnswerParts::all() };
    loop {
        match write_answer(context, session, precondition, value, id, &stamp, &mut parts) {
            Ok(reply) => return reply,
            // Nothing was changed by it: a transaction is applied as a whole.
            Err(failure) if parts.leave_out(&failure) => {}
            Err(failure) => return answer_failed(context, session, failure),
        }
    }
}

fn write_answer(
    context: &Context<impl Host>,
    session: &str,
    precondition: Precondition<'_>,
    value: &str,
    id: Option<&MessageId<'_>>,
    stamp: &str,
    parts: &mut AnswerParts,
) -> Result<AnswerReply, Box<Problem>> {
    let id = id.filter(|_| parts.message_id);
    let put = history::format_record("put", LAST_ANSWER, stamp);
    let increment = history::format_record("increment", ANSWER_COUNT, stamp);
    let records = [&*put, &*increment];
    let written = usize::from(!parts.text)..1 + usize::from(parts.count);
    let records = records.get(written).filter(|_| parts.history).unwrap_or_default();
    let id_record = id.map(MessageId::record);
    let id_mark = id.map(MessageId::mark);

    let answer = [PutEntry { key: LAST_ANSWER, text: value }];
    let mut operations = Vec::with_capacity(6);
    if parts.text {
        operations.push(Operation::put(VALUES, &answer));
    }
    if parts.count {
        operations.push(Operation::add(VALUES, ANSWER_COUNT, 1));
    }
    history::push_history_operations(&mut operations, &context.config, records);
    if let Some(id) = id {
        id.push_operations(&mut operations, id_record.as_slice(), id_mark.as_slice(), context.config.limits);
    }
    // The id comes first: an answer that is stored already needs no room.
    let room = || Expectation::room(VALUES, context.config.max_keys);
    let expectations = [id.map_or_else(room, MessageId::is_new), room()];
    let expectations = expectations.get(usize::from(id.is_none())..).unwrap_or_default();
    let transaction =
        Transaction { bucket: BucketId::session(session), precondition, expectations, operations: &operations };
    let receipt = store::transact(&context.host, &transaction)?;
    let reply = match receipt.status {
        Status::Applied | Status::Repeated => answer_stored(context, session, parts.problem.take()),
        Status::Absent | Status::Expired | Status::GenerationMismatch => answer_ended(context, session),
        Status::Unmet => match store::unmet_expectation(&receipt, &transaction) {
            Some(Expectation::Entry(_)) => answer_repeated(context, session),
            _ => answer_finds_no_room(context, session),
        },
        Status::Exists => return Err(Problem::out_of_turn()),
    };
    if receipt.is_applied() {
        history::compact_history(&context.host, &context.config, &transaction, &receipt, stamp);
        message_ids::forget_surplus_ids(&context.host, message_ids::MESSAGE_IDS, &transaction, &receipt);
    }
    Ok(reply)
}

pub(crate) fn answer_ended(context: &Context<impl Host>, session: &str) -> AnswerReply {
    log::warn(&context.host, log::SESSION, &["Answer not stored: its question's session has ended: ", session]);
    AnswerReply::of(Effect::Ended)
}

pub(crate) fn answer_repeated(context: &Context<impl Host>, session: &str) -> AnswerReply {
    log::debug(&context.host, &["Answer already stored in session ", session]);
    AnswerReply::of(Effect::Repeated)
}

/// `problem` is why a part of it is not.
pub(crate) fn answer_stored(context: &Context<impl Host>, session: &str, problem: Option<Box<Problem>>) -> AnswerReply {
    let problem = problem.map(|problem| {
        let message = format!("Answer in session {session} stored {}", problem.message);
        log::warn(&context.host, log::VALUE, &[&message]);
        Box::new(Problem { message, ..*problem })
    });
    if problem.is_none() {
        log::debug(&context.host, &["Stored answer in session ", session]);
    }
    AnswerReply { problem, ..AnswerReply::of(Effect::Stored) }
}

pub(crate) fn answer_finds_no_room(context: &Context<impl Host>, session: &str) -> AnswerReply {
    let limit = context.config.max_keys;
    let message = format!("Answer in session {session} finds no room within max_keys ({limit})");
    log::warn(&context.host, log::LIMIT, &[&message]);
    AnswerReply::with(Effect::Limited, Problem::limit("max_keys", limit, message))
}

pub(crate) fn answer_failed(context: &Context<impl Host>, session: &str, problem: Box<Problem>) -> AnswerReply {
    log::warn(&context.host, log::STORE, &["Answer not stored in session ", session, ": ", &problem.message]);
    AnswerReply::with(Effect::Failed, problem)
}

pub(crate) fn answer_is_foreign(context: &Context<impl Host>, session: &str) -> AnswerReply {
    log::warn(&context.host, log::SESSION, &["Answer not stored: session ", session, " belongs to another user"]);
    AnswerReply::of(Effect::Foreign)
}
