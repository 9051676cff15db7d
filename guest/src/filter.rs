//! The filter: questions, answers, and deferred work.
//!
//! Promises one transaction for an ordinary entry, a reply to every call, and one warning for each thing that went wrong. A store
//! that fails never holds an entry up: it passes unchanged. An entry without a session is not touched, a client can't forge a
//! session's memory, and a session that has ended is not revived.

use crate::answer::commit_answer;
use crate::context::Context;
use crate::contract::{Host, Precondition};
use crate::entry::directives::missing_session_problem;
use crate::entry::metadata::EntrySession;
use crate::entry::turn_token::{PlainTurnToken, TurnToken};
use crate::entry::types::{AnswerEntry, AnswerReply, Effect, QuestionEntry, QuestionReply};
use crate::log;
use crate::options::config::Config;
use crate::question::{enrich_question, token_of_failed_question};
use crate::tasks::advance::advance_task;
use crate::tasks::job::{Job, Progress};
use crate::values::attach::open_and_attach;
use crate::values::message_ids::MessageId;
use crate::values::record_answer::{answer_too_long, encode_answer, log_invalid_turn, store_answer};
use crate::values::session_id::{keep_session_id, parse_entry_metadata, sessionless_effect};
use keepline_options::words::UnboundContext;

/// Whether a question of this session saw it, so that its id is kept.
fn saw(turn: &str, session: &EntrySession<'_>) -> bool {
    let seen = TurnToken::parse(turn).filter(|state| !state.generation.is_empty());
    matches!((seen, session), (Some(seen), EntrySession::Named(name)) if seen.session == *name)
}

/// An answer on its way back. `turn` is the state that its question gave.
///
/// Whose it is: its own metadata's session, else that of the turn. An answer of the turn's session belongs to
/// the life of it that the question saw, and to no other. Without a turn, or with that of a question that
/// failed, nothing is known of a life: the session is opened, or created.
fn answer(context: &Context<impl Host>, entry: &AnswerEntry<'_>) -> AnswerReply {
    if !context.config.memory_enabled {
        return AnswerReply::of(Effect::Passed);
    }
    let AnswerEntry { text, turn, .. } = *entry;
    let metadata = match parse_entry_metadata(context, entry.metadata, false) {
        Ok(metadata) => metadata,
        Err(failure) => {
            let problem = failure.clone();
            log::warn(&context.host, log::STORE, &["Answer not stored: ", &problem.message]);
            return AnswerReply::with(Effect::Failed, problem);
        }
    };
    if let EntrySession::Malformed { .. } = &metadata.session {
        let (effect, problem) = sessionless_effect(context, &metadata, "answer");
        return AnswerReply { problem, ..AnswerReply::of(effect) };
    }
    if let Some(options) = &context.config.conversation {
        let reply = commit_answer(context, options, entry, &metadata).unwrap_or_else(|reply| reply);
        if reply.effect == Effect::Stored && metadata.session_id.is_some() && !saw(turn, &metadata.session) {
            keep_session_id(context, &metadata);
        }
        return reply;
    }
    let named: Option<&str> = match &metadata.session {
        EntrySession::Named(session) => Some(session),
        EntrySession::None | EntrySession::Malformed { .. } => {
            sessionless_effect(context, &metadata, "answer");
            None
        }
    };
    let carried = PlainTurnToken::parse(turn);
    if carried.is_none() && !turn.is_empty() {
        log_invalid_turn(context, turn);
    }
    let (session, generation) = match (named, carried) {
        (Some(session), Some(turn)) if turn.session != session => (session, None),
        (Some(session), turn) => (session, turn.and_then(|turn| turn.generation)),
        (None, Some(turn)) => (turn.session, turn.generation),
        (None, None) => return AnswerReply::of(Effect::Passed),
    };

    let Some(value) = encode_answer(context, text) else {
        return answer_too_long(context, session);
    };
    let precondition = match generation {
        None => context.config.create(),
        generation => Precondition::existing(generation),
    };
    let message_id = entry.message_id.filter(|id| !id.is_empty()).or(metadata.message_id.as_deref());
    let reply = store_answer(context, session, precondition, &value, message_id.and_then(MessageId::new).as_ref());
    if reply.effect == Effect::Stored && generation.is_none() {
        keep_session_id(context, &metadata);
    }
    reply
}

/// The filter: options, and a host to work with. It holds no conversation.
#[derive(Clone, Debug)]
pub struct Filter<H> {
    context: Context<H>,
}

impl<H: Host> Filter<H> {
    /// A filter with these options. Any number of them can work with one store.
    pub fn new(host: H, config: Config) -> Self {
        Self { context: Context::new(host, config) }
    }

    /// A question on its way to the model.
    pub fn question(&self, entry: &QuestionEntry<'_>) -> QuestionReply {
        question(&self.context, entry)
    }

    /// An answer on its way back. Its metadata's session, or else that of its question's turn, stores it: in the generation
    /// that the question saw, or, where the question is unknown or failed, in the current one, which is created if absent.
    pub fn answer(&self, entry: &AnswerEntry<'_>) -> AnswerReply {
        answer(&self.context, entry)
    }

    /// One step of deferred work: at most three waits for the store, and one more if others came in between.
    pub fn advance(&self, job: &Job<'_>) -> Progress {
        advance_task(&self.context, job)
    }
}

/// A question on its way to the model.
fn question(context: &Context<impl Host>, entry: &QuestionEntry<'_>) -> QuestionReply {
    let strips = context.config.unbound_context == UnboundContext::Strip;
    let metadata = match parse_entry_metadata(context, entry.metadata, strips) {
        Ok(metadata) => metadata,
        Err(failure) => {
            let problem = failure.clone();
            log::warn(&context.host, log::STORE, &["No memory for a question: ", &problem.message]);
            return QuestionReply { problem: Some(problem), ..QuestionReply::untouched(Effect::Failed) };
        }
    };
    let session = match &metadata.session {
        EntrySession::Named(session) => session,
        EntrySession::None | EntrySession::Malformed { .. } => {
            let (effect, invalid) = sessionless_effect(context, &metadata, "question");
            if metadata.withheld {
                let what = "Replaced metadata of a question by {}: nobody can read them, and they may hold a \
                                memory_context or the like";
                log::warn(&context.host, log::SESSION, &[what]);
            }
            let problem = missing_session_problem(context, &metadata.directives());
            return QuestionReply {
                metadata: if strips { metadata.stripped() } else { None },
                effect: if problem.is_some() { Effect::Failed } else { effect },
                problem: problem.or(invalid),
                ..QuestionReply::untouched(effect)
            };
        }
    };

    if !context.config.memory_enabled {
        return QuestionReply { metadata: metadata.stripped(), ..QuestionReply::untouched(Effect::Passed) };
    }
    let mut reply = QuestionReply::untouched(Effect::Resumed);
    let remembered = match &context.config.conversation {
        Some(options) => enrich_question(context, options, session, entry, &metadata, &mut reply),
        None => open_and_attach(context, session, &metadata, &mut reply),
    };
    if let Err(failure) = remembered {
        let problem = failure.clone();
        log::warn(
            &context.host,
            log::STORE,
            &["No memory for a question of session ", session, ": ", &problem.message],
        );
        reply.effect = Effect::Failed;
        reply.problem = Some(problem);
        // Its answers are the session's all the same, as far as that can be told without having seen it.
        if reply.turn.is_empty() {
            reply.turn = match &context.config.conversation {
                Some(options) => token_of_failed_question(context, options, session, entry, &metadata),
                None => PlainTurnToken::write(session, ""),
            };
        }
    }
    if reply.effect != Effect::Enriched {
        reply.metadata = metadata.stripped();
    }
    reply
}
