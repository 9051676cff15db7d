//! Tracks tool calls whose results are still to come, to tell whether a result without its call may belong to one of
//! them.

use std::{borrow::Cow, collections::HashSet};

use keepline_json::{self as json, for_each_element, for_each_member};

use super::ToolActivity;
use crate::{contract::lanes::QuestionReply, entry::metadata::AttachedRanges};

/// Whether a question that names a message may go on with a turn that waits for results: then its window ends with the
/// calls. Where no window can tell, it may. Cost: the window is searched; the rest of the reply is not read.
pub(super) fn may_await_results(reply: &QuestionReply, attached: &AttachedRanges, has_switches: bool) -> bool {
    let window = reply.metadata.as_deref().zip(attached.messages.clone());
    match window.and_then(|(metadata, range)| metadata.get(range)) {
        // Most windows need no closer look. One that is a text does not tell.
        Some(window) => !window.starts_with('[') || (window.contains("\"tool_calls\"") && shows_open_calls(window)),
        None => has_switches || reply.problem.is_some(),
    }
}

fn shows_open_calls(window: &str) -> bool {
    let mut open: HashSet<Cow<'_, str>> = HashSet::new();
    let read = for_each_element(window, |message| {
        let _ = for_each_member(message, |key, value| match json::decode_string(key).as_deref() {
            Some("tool_calls") => {
                let _ = for_each_element(value, |call| {
                    let _ = for_each_member(call, |key, value| {
                        open.extend(json::decode_string(value).filter(|_| json::key_matches(key, "id")));
                    });
                });
            }
            Some("tool_call_id") => _ = json::decode_string(value).map(|id| open.remove(&id)),
            _ => {}
        });
    });
    read.is_none() || !open.is_empty()
}

/// Whether a step leaves calls without results.
pub(super) fn has_unanswered_calls<'a>(activity: impl Iterator<Item = &'a ToolActivity>) -> bool {
    let mut open = HashSet::new();
    for tool in activity {
        if tool.has_result() {
            open.remove(&tool.call_id);
        } else {
            open.insert(&tool.call_id);
        }
    }
    !open.is_empty()
}
