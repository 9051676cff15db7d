//! Calls of tools whose results are still to come: whether a result that comes without its call may be one of theirs.

use std::{borrow::Cow, collections::HashSet};

use keepline_json::{self as json, elements, members};

use super::{Question, ToolActivity};
use crate::contract::filter::QuestionReply;

/// Whether a question may go on with a turn that waits for results: it names a message of that turn then, and its window
/// ends with the calls. Where no window can tell, it may.
pub(super) fn may_wait(question: &Question<'_>, reply: &QuestionReply) -> bool {
    let (mut names, mut has_switches) = (question.message_id.is_some(), false);
    let _ = members(question.metadata, |key, value| match json::string(key).as_deref() {
        Some("message_id" | "parent_message_id") => names |= value.starts_with('"'),
        Some("memory") => has_switches = true,
        _ => {}
    });
    if !names {
        return false;
    }
    let mut window = None;
    let _ = members(reply.metadata.as_deref().unwrap_or_default(), |key, value| {
        if json::key_is(key, "memory_messages") {
            window = Some(value);
        }
    });
    match window {
        // Most windows need no closer look. One that is a text does not tell.
        Some(window) => !window.starts_with('[') || (window.contains("\"tool_calls\"") && shows_open_calls(window)),
        None => has_switches || reply.problem.is_some(),
    }
}

fn shows_open_calls(window: &str) -> bool {
    let mut open: HashSet<Cow<'_, str>> = HashSet::new();
    let read = elements(window, |message| {
        let _ = members(message, |key, value| match json::string(key).as_deref() {
            Some("tool_calls") => {
                let _ = elements(value, |call| {
                    let _ = members(call, |key, value| {
                        open.extend(json::string(value).filter(|_| json::key_is(key, "id")));
                    });
                });
            }
            Some("tool_call_id") => _ = json::string(value).map(|id| open.remove(&id)),
            _ => {}
        });
    });
    read.is_none() || !open.is_empty()
}

/// Whether a step leaves calls without results.
pub(super) fn are_left<'a>(activity: impl Iterator<Item = &'a ToolActivity>) -> bool {
    let mut open = HashSet::new();
    for tool in activity {
        if tool.is_ended() {
            open.remove(&tool.call_id);
        } else {
            open.insert(&tool.call_id);
        }
    }
    !open.is_empty()
}
