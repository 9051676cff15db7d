//! `keepline session set-messages`: replaces all messages of a conversation, to repair it.
//!
//! The old messages stay until all of the new ones are stored. More messages than one transaction takes are staged
//! first, see [`session_file::replace`].

use std::{path::Path, process::ExitCode};

use anyhow::Result;
use keepline::{
    Keepline,
    sessions::{SessionError, SessionErrorCode, chat_messages},
};
use keepline_service::jsonl::chat_messages::ChatMessage;
use serde_json::json;

use crate::{
    app::with_keepline,
    args::{GlobalArguments, StoreAccess, TranscriptArguments},
    jsonl::chat_messages::read_replacement_messages,
    operations::transcripts::{as_transcript, hint_at_app, sessions_with_long_timeout},
    session_file,
    terminal::{self, print_result},
};

/// More messages, or bytes of them, certainly don't fit into one transaction.
const MOST_AT_ONCE: usize = 10_000;
const MOST_BYTES_AT_ONCE: usize = 16 << 20;

pub fn main(global: &GlobalArguments, transcript: &TranscriptArguments, file: &Path, json: bool) -> Result<ExitCode> {
    // Read before signal handlers are installed: a signal ends a process that waits for standard input.
    let messages: Vec<String> = read_replacement_messages(file)?.iter().map(ChatMessage::numbered_text).collect();
    let bytes: usize = messages.iter().map(String::len).sum();
    let mut is_set = false;
    if messages.len() <= MOST_AT_ONCE && bytes <= MOST_BYTES_AT_ONCE {
        with_keepline(global, StoreAccess::Replace, async |keepline, _, _| {
            let set = set_in_one_transaction(&keepline, json, transcript, &messages).await;
            is_set = set.map_err(|error| hint_at_app(transcript, error))?;
            Ok(())
        })?;
    }
    if !is_set {
        let count = session_file::replace::replace_messages(global, transcript, &messages)?;
        print_message_count(json, &transcript.session, count)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Replaces them in one transaction. False if they don't fit.
async fn set_in_one_transaction(
    keepline: &Keepline,
    json: bool,
    transcript: &TranscriptArguments,
    messages: &[String],
) -> Result<bool> {
    let mut sessions = sessions_with_long_timeout(keepline, &transcript.session).await?;
    if transcript.node.is_some() {
        // A node without its session could not be found.
        sessions.describe((&*transcript.session).into()).await?;
    }
    terminal::logging::suppress_context("plugin: keepline.limit");
    let changed = match sessions.set_messages(as_transcript(transcript), &chat_messages(messages), None).await {
        Err(SessionError { code: SessionErrorCode::Limit, .. }) => return Ok(false),
        changed => changed?,
    };
    if transcript.node.is_some() {
        sessions.register(as_transcript(transcript), None).await?;
    }
    print_message_count(json, &transcript.session, changed.count)?;
    Ok(true)
}

fn print_message_count(json: bool, session: &str, count: u64) -> Result<()> {
    print_result(json, &json!({"session": session, "count": count}), &count.to_string())
}
