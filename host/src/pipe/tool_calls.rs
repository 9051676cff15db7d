//! Tracks tool calls whose results are still to come, to tell whether a result without its call may belong to one of
//! them.

use std::{borrow::Cow, collections::HashSet};

use keepline_json::{self as json, elements, members};

use super::ToolActivity;
use crate::{contract::filter::QuestionReply, entry::metadata::Attached};

/// Whether a question that names a message may go on with a turn that waits for results: then its window ends with the
/// calls. Where no window can tell, it may. Cost: the window is searched; the rest of the reply is not read.
pub(super) fn may_wait(reply: &QuestionReply, attached: &Attached, has_switches: bool) -> bool {
    let window = reply.metadata.as_deref().zip(attached.messages.clone());
    match window.and_then(|(metadata, range)| metadata.get(range)) {
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
