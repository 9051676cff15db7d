//! `keepline session set-messages`: other messages in the place of all that there are, to repair a conversation.
//!
//! Promises that the old ones are there until all of the new ones are, however many. More of them than one transaction
//! takes are put together aside, see [`moving::replace`].

use std::{cell::Cell, path::Path, process::ExitCode};

use anyhow::Result;
use keepline::{
    Keepline,
    sessions::{SessionError, SessionErrorCode},
};
use serde_json::json;

use super::{named, of_no_app};
use crate::{
    chat_messages::{self, ChatMessage},
    cli::{Access, Global, TranscriptArguments},
    moving,
    session::{answer, patient, watched},
    terminal,
};

/// More certainly don't fit into one transaction, with all that belongs to them: messages, and bytes of them.
const MOST_AT_ONCE: usize = 10_000;
const MOST_BYTES_AT_ONCE: usize = 16 << 20;

/// Put a file's messages in the place of all that there are.
pub fn main(global: &Global, transcript: &TranscriptArguments, file: &Path, json: bool) -> Result<ExitCode> {
    // Before signals are heard: whoever waits for standard input can be ended by one.
    let messages: Vec<String> = chat_messages::read(file)?.iter().map(ChatMessage::numbered).collect();
    let bytes: usize = messages.iter().map(String::len).sum();
    let is_large = Cell::new(messages.len() > MOST_AT_ONCE || bytes > MOST_BYTES_AT_ONCE);
    if !is_large.get() {
        let done = watched(global, Access::Add, async |keepline, _, _| {
            let done = at_once(&keepline, json, transcript, &messages, &is_large).await;
            done.map_err(|error| of_no_app(transcript, error))
        })?;
        if !is_large.get() {
            return Ok(done);
        }
    }
    let count = moving::replace::messages(global, transcript, &messages)?;
    told(json, &transcript.session, count)?;
    Ok(ExitCode::SUCCESS)
}

/// In one transaction, unless it turns out to be too large for that.
async fn at_once(
    keepline: &Keepline,
    json: bool,
    transcript: &TranscriptArguments,
    messages: &[String],
    is_large: &Cell<bool>,
) -> Result<()> {
    let mut sessions = patient(keepline, &transcript.session).await?;
    if transcript.node.is_some() {
        // A node without its session would be found by nobody.
        sessions.describe((&*transcript.session).into()).await?;
    }
    terminal::leave_out("plugin: keepline.limit");
    let changed = match sessions.set_messages(named(transcript), messages, None).await {
        Err(SessionError { code: SessionErrorCode::Limit, .. }) => {
            is_large.set(true);
            return Ok(());
        }
        changed => changed?,
    };
    if transcript.node.is_some() {
        sessions.register(named(transcript), None).await?;
    }
    told(json, &changed.session, changed.count)
}

fn told(json: bool, session: &str, count: u64) -> Result<()> {
    answer(json, &json!({"session": session, "count": count}), &count.to_string())
}
