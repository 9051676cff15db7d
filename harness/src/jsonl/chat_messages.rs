//! Reads chat messages from a file or standard input, for the commands that store them.

use std::{io::Read, path::Path};

use anyhow::{Context, Result};
use keepline_service::jsonl::chat_messages::{
    ChatMessage, InvalidChatMessages, parse_chat_messages, parse_replacement_messages,
};

use crate::app::error::coded_error;

/// Reads all messages of a file; `-` is standard input.
pub fn read_chat_messages(path: &Path) -> Result<Vec<ChatMessage>> {
    read_messages(path, parse_chat_messages)
}

/// As [`read_chat_messages`], for messages that take the place of all others: an empty file is an error.
pub fn read_replacement_messages(path: &Path) -> Result<Vec<ChatMessage>> {
    read_messages(path, parse_replacement_messages)
}

fn read_messages(
    path: &Path,
    parse: fn(&str) -> Result<Vec<ChatMessage>, InvalidChatMessages>,
) -> Result<Vec<ChatMessage>> {
    let mut text = String::new();
    if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).context("can't read the messages from standard input")?;
    } else {
        text = std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
    }
    parse(&text).map_err(|error| coded_error("invalid-value", error.0))
}
