//! A stream of lines through the lanes: one line out for each line in, in order, while the body is still being sent.
//!
//! Turns are found as `keepline run` finds them: what names no session belongs to the question before. A line that is no
//! entry, or may not be passed, comes back with an `error`; a blank one comes back as it is. Each entry has the time that an
//! entry has; the stream itself ends when its body does.

use std::convert::Infallible;

use axum::{
    body::{Body, BodyDataStream},
    http::{HeaderValue, header},
    response::Response,
};
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use keepline::{
    Pipe,
    pipe::{Answer, Effect, OpenTurns, ProblemCode, Question},
};
use serde_json::json;

use super::{announce_effect, bind_entry, count_prompt};
use crate::{
    http::{ApiError, Call, NDJSON, of_problem},
    jsonl::entry::{Entry, Lane},
};

/// Passes the lines of a body. Lines without a lane go to this one.
pub fn pass_lines(mut call: Call, lane: Lane) -> Result<Response, ApiError> {
    let body = std::mem::take(call.body.get_mut()).into_data_stream();
    let lines = BodyLines { body, buffer: BytesMut::new(), limit: call.body_limit, is_skipping: false, is_done: false };
    let keepline = call.tenant.keepline();
    let (pipe, turns) = (keepline.pipe(), keepline.open_turns());
    let entries = EntryStream { call, lane, lines, pipe, turns, number: 0 };
    let out = stream::unfold(entries, |mut entries| async {
        let line = entries.next_line().await?;
        Some((Ok::<_, Infallible>(line), entries))
    });
    let mut response = Response::new(Body::from_stream(out));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(NDJSON));
    Ok(response)
}

/// A line of a body.
enum BodyLine {
    /// With its end, if it has one.
    Line(Vec<u8>),
    /// It is longer than a line may be, and was left out.
    TooLong,
}

struct BodyLines {
    body: BodyDataStream,
    buffer: BytesMut,
    limit: usize,
    /// Whether the rest of a line that is too long is to be left out.
    is_skipping: bool,
    is_done: bool,
}

impl BodyLines {
    /// None: the body has ended, or was cut off.
    async fn next(&mut self) -> Option<BodyLine> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                if std::mem::take(&mut self.is_skipping) {
                    continue;
                }
                return Some(BodyLine::Line(line.to_vec()));
            }
            if self.buffer.len() > self.limit {
                self.buffer.clear();
                if !std::mem::replace(&mut self.is_skipping, true) {
                    return Some(BodyLine::TooLong);
                }
            }
            if self.is_done {
                let rest = self.buffer.split();
                return (!rest.is_empty() && !self.is_skipping).then(|| BodyLine::Line(rest.to_vec()));
            }
            match self.body.next().await {
                Some(Ok(bytes)) => self.buffer.extend_from_slice(&bytes),
                // What was not sent whole is not passed.
                Some(Err(_)) => return None,
                None => self.is_done = true,
            }
        }
    }
}

struct EntryStream {
    call: Call,
    lane: Lane,
    lines: BodyLines,
    pipe: Pipe,
    turns: OpenTurns,
    number: u64,
}

impl EntryStream {
    async fn next_line(&mut self) -> Option<Bytes> {
        let line = self.lines.next().await?;
        self.number += 1;
        let line = match line {
            BodyLine::TooLong => {
                self.turns.end_last();
                self.error_line("too_large", &format!("a line may have {} bytes", self.lines.limit))
            }
            BodyLine::Line(line) if line.trim_ascii().is_empty() => {
                // As of any line that is no entry, what follows it belongs to no question before it.
                self.turns.end_last();
                line
            }
            BodyLine::Line(line) => match Entry::parse_for(Some(self.lane), line) {
                Ok(entry) => self.pass(entry).await,
                Err(invalid) => {
                    self.turns.end_last();
                    self.error_line("malformed", &invalid.problem)
                }
            },
        };
        Some(line.into())
    }

    fn error_line(&self, code: &str, message: &str) -> Vec<u8> {
        let error = json!({"error": {"code": code, "message": message, "line": self.number}});
        format!("{error}\n").into_bytes()
    }

    async fn pass(&mut self, entry: Entry) -> Vec<u8> {
        let entry = match bind_entry(&self.call, entry).await {
            Ok(entry) => entry,
            Err(error) => {
                self.turns.end_last();
                return self.error_line(&error.code, &error.message);
            }
        };
        match entry.lane {
            Lane::Open => {
                self.turns.open(entry.metadata());
                entry.into_unchanged_line()
            }
            Lane::Tools => self.pass_tool(entry),
            Lane::Questions | Lane::Answers => self.pass_text(entry).await,
        }
    }

    fn pass_tool(&mut self, mut entry: Entry) -> Vec<u8> {
        let turn = entry.tool_activity().and_then(|activity| self.turns.tool(activity, entry.metadata()));
        let (Some(turn), Some(activity)) = (turn, entry.take_tool_activity()) else {
            return entry.into_unchanged_line();
        };
        if self.pipe.tool_in(&turn, activity) {
            return entry.into_unchanged_line();
        }
        entry.with_error("limit", "the activity of tools is over max_entry_bytes")
    }

    async fn pass_text(&mut self, entry: Entry) -> Vec<u8> {
        let (lane, text, metadata) = (entry.lane, entry.text(), entry.metadata());
        let (turn, passed) = if lane == Lane::Questions {
            let turn = self.turns.question(metadata, entry.text_bytes());
            let question = Question { text: &text, metadata, ..Question::default() };
            let passed = self.pipe.ask_in(&turn, question, None).await;
            if let Ok(passed) = &passed {
                count_prompt(&self.call.tenant, &turn, passed.metadata.as_deref());
            }
            (turn, passed)
        } else {
            let turn = self.turns.answer(metadata);
            let answer = Answer { text: &text, metadata, ..Answer::default() };
            let passed = self.pipe.reply_in(&turn, answer, None).await;
            (turn, passed)
        };
        drop(text);
        match passed {
            Ok(passed) => {
                announce_effect(&self.call.tenant, passed.effect, &turn);
                self.call.tenant.maintenance().submit(passed.due);
                let failure = passed.problem.filter(|_| passed.effect == Effect::Failed);
                let line = match passed.metadata {
                    Some(metadata) => entry.with_metadata(&metadata),
                    None if passed.effect == Effect::Foreign => {
                        entry.with_error("not_found", "there is no such session")
                    }
                    None => entry.into_unchanged_line(),
                };
                match failure {
                    Some(problem) => failed_line(lane, line, &problem.code, problem.message),
                    None => line,
                }
            }
            Err(error) => failed_line(lane, entry.into_unchanged_line(), &error.code, error.message),
        }
    }
}

/// The line with an error, as the reply to a request would have it.
fn failed_line(lane: Lane, line: Vec<u8>, code: &ProblemCode, message: String) -> Vec<u8> {
    let error = of_problem(code, message);
    match Entry::parse_for(Some(lane), line) {
        Ok(entry) => entry.with_error(&error.code, &error.message),
        Err(invalid) => invalid.line,
    }
}
