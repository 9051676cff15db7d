//! The calls of operators, with messages as chat APIs write them and counts in place of whole replies: what most tests need.

use keepline_filter::admin as calls;
pub use keepline_filter::admin::*;
use keepline_filter::contract::transcripts::{ChatMessage, Message, NewMessage, TranscriptChanged};
use keepline_filter::transcript::address::TranscriptId;
use keepline_filter::{Context, Host, Problem};

pub fn set_messages(
    context: &Context<impl Host>,
    transcript: &TranscriptId<'_>,
    messages: &[String],
    next: Option<u64>,
) -> Result<u64, Box<Problem>> {
    let chat = |text: &String| NewMessage::Chat(ChatMessage { text: text.clone() });
    let messages: Vec<_> = messages.iter().map(chat).collect();
    calls::set_messages(context, transcript, &messages, next).map(|changed| changed.count)
}

pub fn rewrite_message(
    context: &Context<impl Host>,
    transcript: &TranscriptId<'_>,
    position: u64,
    content: Option<&str>,
) -> Result<u64, Box<Problem>> {
    calls::rewrite_message(context, transcript, position, content).map(|changed| changed.count)
}

pub fn clear_messages(
    context: &Context<impl Host>,
    transcript: &TranscriptId<'_>,
    branch: Option<u64>,
) -> Result<u64, Box<Problem>> {
    let changed: Result<TranscriptChanged, Box<Problem>> = calls::clear_messages(context, transcript, branch);
    changed.map(|changed| changed.count)
}

/// The same with messages as they were read.
pub fn set_read_messages(
    context: &Context<impl Host>,
    transcript: &TranscriptId<'_>,
    messages: Vec<Message>,
) -> Result<u64, Box<Problem>> {
    let messages: Vec<_> = messages.into_iter().map(NewMessage::Message).collect();
    calls::set_messages(context, transcript, &messages, None).map(|changed| changed.count)
}
