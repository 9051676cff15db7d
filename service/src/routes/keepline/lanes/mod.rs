//! The lanes: questions on their way to the model, answers on their way back, and what tools did in between.
//!
//! Each takes an entry as `keepline run` reads it, with a few members beside it. A reply has the `turn`, an opaque text that
//! comes back with what belongs to the question: instances hold no conversation, so any service of the store takes it. The
//! same lanes take a stream of lines (`content-type: application/x-ndjson`), in which turns are found as `run` finds them.
//!
//! An entry of a caller with a user is that user's: its metadata gets the `user_id`, and naming another one, or a session
//! that is not the user's, is the same 404.

mod fields;
mod stream;

use axum::{
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use keepline::pipe::{Answer, Effect, Passed, Question, Turn, TurnState};
use serde::Serialize;
use serde_json::value::RawValue;

use self::fields::{AnswerFields, QuestionFields, ToolFields};
use super::ownership::{OwnedSession, reached_user, session_not_found};
use crate::{
    events::{SessionChange, announce_session},
    http::{self, ApiError, Call, NDJSON, raw_json},
    jsonl::entry::{Entry, Lane},
    tenants::Tenant,
};

/// What became of an entry.
#[derive(Serialize)]
struct PassedEntry {
    object: &'static str,
    effect: &'static str,
    /// To send on, of a question.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attached: Option<u32>,
    problem: Option<EntryProblem>,
    turn: String,
}

#[derive(Serialize)]
struct EntryProblem {
    code: String,
    message: String,
}

/// Passes a question.
pub async fn questions(mut call: Call) -> Result<Response, ApiError> {
    if has_lines(call.headers()) {
        return stream::pass_lines(call, Lane::Questions);
    }
    let body = call.bytes().await?;
    let entry = bound_entry(&call, Lane::Questions, &body).await?;
    let fields = QuestionFields::parse(&body)?;
    let (text, metadata) = (entry.text(), entry.metadata());
    let question = Question {
        text: &text,
        metadata,
        message_id: fields.message_id.as_deref(),
        tokens: fields.tokens,
        vector: fields.vector.as_ref(),
    };
    let keepline = call.tenant.keepline();
    let turn = keepline.open_turns().question(metadata, text.len());
    let passed = keepline.pipe().ask_in(&turn, question, Some(call.deadline)).await?;
    count_prompt(&call.tenant, &turn, passed.metadata.as_deref());
    let sent_on = raw_json(passed.metadata.as_deref().unwrap_or(metadata));
    finish(&call, "question", passed, Some(sent_on), &turn)
}

/// Passes an answer.
pub async fn answers(mut call: Call) -> Result<Response, ApiError> {
    if has_lines(call.headers()) {
        return stream::pass_lines(call, Lane::Answers);
    }
    let body = call.bytes().await?;
    let entry = bound_entry(&call, Lane::Answers, &body).await?;
    let fields = AnswerFields::parse(&body)?;
    let (text, metadata) = (entry.text(), entry.metadata());
    let turn = match &fields.turn {
        Some(turn) => resume_turn(&call, turn).await?,
        None => call.tenant.keepline().open_turns().answer(metadata),
    };
    let answer = Answer {
        text: &text,
        metadata,
        message_id: fields.message_id.as_deref().or(call.idempotency_key()?),
        question_text: fields.question_text.as_deref(),
        activity: &fields.tools,
        status: fields.status,
        question_tokens: fields.question_tokens,
        tokens: fields.tokens,
        details: fields.details.as_deref().unwrap_or_default(),
    };
    let passed = call.tenant.keepline().pipe().reply_in(&turn, answer, Some(call.deadline)).await?;
    finish(&call, "answer", passed, None, &turn)
}

/// Takes in what a tool did, for the answer of its turn.
pub async fn tools(mut call: Call) -> Result<Response, ApiError> {
    if has_lines(call.headers()) {
        return stream::pass_lines(call, Lane::Tools);
    }
    let body = call.bytes().await?;
    let mut entry = bound_entry(&call, Lane::Tools, &body).await?;
    let Some(activity) = entry.take_tool_activity() else { return Err(ApiError::invalid("tool", "missing tool")) };
    let keepline = call.tenant.keepline();
    let turn = match ToolFields::parse(&body)?.turn {
        Some(turn) => resume_turn(&call, &turn).await?,
        None => keepline.open_turns().tool(&activity, entry.metadata()).ok_or_else(|| {
            ApiError::invalid("turn", "turn is required: that of the question's reply, or metadata with a session_id")
        })?,
    };
    if !keepline.pipe().tool_in(&turn, activity) {
        let message = "the activity of tools is over max_entry_bytes";
        return Err(ApiError {
            path: Some("tool".into()),
            ..ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "limit", message)
        });
    }
    http::json(&serde_json::json!({"object": "tool", "turn": turn_text(&turn)?}))
}

fn has_lines(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(NDJSON))
}

/// The entry of a body, as one of the caller's.
async fn bound_entry(call: &Call, lane: Lane, body: &[u8]) -> Result<Entry, ApiError> {
    let malformed = |problem| ApiError::new(StatusCode::BAD_REQUEST, "malformed", format!("the body: {problem}"));
    let entry = Entry::parse_for(Some(lane), body.to_vec()).map_err(|invalid| malformed(invalid.problem))?;
    if entry.lane != lane {
        return Err(ApiError::invalid("lane", "lane must be that of the path, or be left out"));
    }
    bind_entry(call, entry).await
}

/// The entry with the caller's user, if the caller has one, and its session is that user's or none yet.
async fn bind_entry(call: &Call, entry: Entry) -> Result<Entry, ApiError> {
    if call.caller.user.is_none() {
        return Ok(entry);
    }
    let mut session = None;
    let mut named = None;
    let (mut is_member_last, mut only_looks) = (false, false);
    let read = keepline_json::for_each_member(entry.metadata(), |key, value| {
        is_member_last = true;
        match keepline_json::decode_string(key).as_deref() {
            Some("user_id") => named = Some(value.to_owned()),
            Some("session_id") => session = keepline_json::decode_string(value).map(|id| id.into_owned()),
            Some("memory") => only_looks = has_look(value),
            _ => {}
        }
    });
    if read.is_none() {
        // No object: there is no session in it, and nothing is remembered.
        return Ok(entry);
    }
    let named = named.filter(|raw| raw != "null");
    let user = match &named {
        None => None,
        Some(raw) => {
            let allowed = "metadata.user_id must be a text";
            Some(keepline_json::decode_string(raw).ok_or_else(|| ApiError::invalid("metadata.user_id", allowed))?)
        }
    };
    let user_is_named = user.as_deref().is_some_and(|user| !user.is_empty());
    let own = reached_user(call, user.as_deref())?;
    if let Some(session) = session.as_deref().filter(|session| !session.is_empty()) {
        if entry.lane == Lane::Questions && !only_looks {
            OwnedSession::open_or_begin(call, session).await?;
        } else {
            OwnedSession::open_or_absent(call, session).await?;
        }
    }
    let (false, Some(own)) = (user_is_named, own) else { return Ok(entry) };
    let metadata = entry.metadata();
    let mut bound = metadata.get(..metadata.rfind('}').unwrap_or_default()).unwrap_or_default().to_owned();
    bound.push_str(if is_member_last { ",\"user_id\":" } else { "\"user_id\":" });
    keepline_json::push_string(&mut bound, &own);
    bound.push('}');
    let lane = entry.lane;
    Entry::parse_for(Some(lane), entry.with_metadata(&bound)).map_err(|invalid| ApiError::internal(&invalid.problem))
}

/// Whether the switches of a question say that it writes nothing.
fn has_look(switches: &str) -> bool {
    let mut looks = false;
    let _ = keepline_json::for_each_member(switches, |key, value| {
        if keepline_json::key_matches(key, "look") {
            looks = value == "true";
        }
    });
    looks
}

/// The turn that a client brings back, if the caller reaches what it names.
async fn resume_turn(call: &Call, text: &str) -> Result<Turn, ApiError> {
    let wrong = |_| ApiError::invalid("turn", "turn must be the text that the reply to the question had");
    let state: TurnState = serde_json::from_str(text).map_err(wrong)?;
    if call.caller.user.is_some() {
        let session = state.session().unwrap_or_default();
        if state.user() != call.caller.user.as_deref() {
            return Err(session_not_found(session));
        }
        if !session.is_empty() {
            OwnedSession::open_or_absent(call, session).await?;
        }
    }
    Ok(state.into())
}

fn turn_text(turn: &Turn) -> Result<String, ApiError> {
    serde_json::to_string(&turn.export()).map_err(|error| ApiError::internal(&error))
}

/// Tells followers of an answer that was stored. Of a session that a question begins they hear with its first answer.
fn announce_effect(tenant: &Tenant, effect: Effect, turn: &Turn) {
    if effect != Effect::Stored {
        return;
    }
    let turn = turn.export();
    if let Some(session) = turn.session() {
        announce_session(tenant, SessionChange::Answered, session, turn.user());
    }
}

/// Counts how much of the conversation in these metadata begins as it did at the question before.
fn count_prompt(tenant: &Tenant, turn: &Turn, metadata: Option<&str>) {
    const MESSAGES: &str = "memory_messages";
    let Some(metadata) = metadata.filter(|metadata| metadata.contains(MESSAGES)) else { return };
    let mut messages = None;
    let _ = keepline_json::for_each_member(metadata, |key, value| {
        if keepline_json::key_matches(key, MESSAGES) {
            messages = Some(value);
        }
    });
    let turn = turn.export();
    if let (Some(messages), Some(session)) = (messages, turn.session()) {
        tenant.prompts().count((session, turn.node()), messages);
    }
}

/// The reply to an entry that was passed.
fn finish(
    call: &Call,
    object: &'static str,
    passed: Passed,
    metadata: Option<Box<RawValue>>,
    turn: &Turn,
) -> Result<Response, ApiError> {
    call.tenant.maintenance().submit(passed.due);
    announce_effect(&call.tenant, passed.effect, turn);
    let problem = passed.problem;
    match (passed.effect, problem) {
        (Effect::Foreign, _) => Err(session_not_found(turn.export().session().unwrap_or_default())),
        (Effect::Failed, Some(problem)) => Err(http::of_problem(&problem.code, problem.message)),
        (effect, problem) => http::json(&PassedEntry {
            object,
            effect: effect.name(),
            attached: metadata.is_some().then_some(passed.attached),
            metadata,
            problem: problem.map(|problem| EntryProblem { code: problem.code.to_string(), message: problem.message }),
            turn: turn_text(turn)?,
        }),
    }
}
