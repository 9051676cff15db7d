//! `keepline session set-messages`: replaces all messages of a conversation, to repair it.
//!
//! The old messages stay until all of the new ones are stored. More messages than one transaction takes are staged
//! first, see [`session_file::replace`].

use std::{cell::Cell, path::Path, process::ExitCode};

use anyhow::Result;
use keepline::{
    Keepline,
    sessions::{SessionError, SessionErrorCode},
};
use serde_json::json;

use crate::{
    app::with_keepline,
    args::{Access, Global, TranscriptArguments},
    jsonl::chat_messages::{self, ChatMessage},
    operations::transcripts::{hint_at_app, named, patient_sessions},
    session_file,
    terminal::{self, print_result},
};

/// More messages, or bytes of them, certainly don't fit into one transaction.
const MOST_AT_ONCE: usize = 10_000;
const MOST_BYTES_AT_ONCE: usize = 16 << 20;

pub fn main(global: &Global, transcript: &TranscriptArguments, file: &Path, json: bool) -> Result<ExitCode> {
    // Read before signal handlers are installed: a signal ends a process that waits for standard input.
    let messages: Vec<String> = chat_messages::read(file)?.iter().map(ChatMessage::numbered).collect();
    let bytes: usize = messages.iter().map(String::len).sum();
    let is_large = Cell::new(messages.len() > MOST_AT_ONCE || bytes > MOST_BYTES_AT_ONCE);
    if !is_large.get() {
        let done = with_keepline(global, Access::Replace, async |keepline, _, _| {
            let done = at_once(&keepline, json, transcript, &messages, &is_large).await;
            done.map_err(|error| hint_at_app(transcript, error))
        })?;
        if !is_large.get() {
            return Ok(done);
        }
    }
    let count = session_file::replace::messages(global, transcript, &messages)?;
    told(json, &transcript.session, count)?;
    Ok(ExitCode::SUCCESS)
}

/// Replaces them in one transaction, or sets `is_large` if they don't fit.
async fn at_once(
    keepline: &Keepline,
    json: bool,
    transcript: &TranscriptArguments,
    messages: &[String],
    is_large: &Cell<bool>,
) -> Result<()> {
    let mut sessions = patient_sessions(keepline, &transcript.session).await?;
    if transcript.node.is_some() {
        // A node without its session could not be found.
        sessions.describe((&*transcript.session).into()).await?;
    }
    terminal::logging::suppress("plugin: keepline.limit");
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
    print_result(json, &json!({"session": session, "count": count}), &count.to_string())
}
