//! The forms in which a window is attached: chat messages as chat APIs take them, or one text.
//!
//! Promises that nothing speaks as the system but an operator's instruction, and that in a text no message holds a line that
//! begins as another one does. A call and its result keep their id; a message's files come before its
//! text, in order, as they were given. Refuses nothing: a window is rendered whole.

use keepline_json::{self as json, ObjectWriter, push_string};

use crate::options::conversation::Options;
use crate::text;
use crate::transcript::record::{CHAT_MEMBERS, RecordKind, Role};
use crate::window::select::WindowItem;

/// What begins the summary as a message.
const SUMMARY: &str = "[Summary of the conversation so far]\n";

/// As an array of chat messages.
pub(crate) fn push_messages(out: &mut String, items: &[WindowItem<'_, '_>]) {
    out.push('[');
    let mut rest = items.iter().peekable();
    let mut separator = "";
    while let Some(item) = rest.next() {
        out.push_str(separator);
        separator = ",";
        let is_call = item.kind == RecordKind::ToolCall;
        out.push_str("{\"role\":\"");
        out.push_str(item.role.name());
        out.push('"');
        if item.kind == RecordKind::ToolResult {
            out.push_str(",\"tool_call_id\":");
            push_string(out, item.call_id());
        }
        out.push_str(",\"content\":");
        if is_call {
            out.push_str("null");
        } else {
            push_content(out, item);
        }
        push_beside(out, item);
        // What a model says and the calls that it makes with it are one message. A turn need not begin with its user's.
        if item.role == Role::Assistant {
            let mut calls = is_call.then_some(item).into_iter().collect::<Vec<_>>();
            let is_with =
                |next: &&WindowItem<'_, '_>| next.kind == RecordKind::ToolCall && next.record.turn == item.record.turn;
            while let Some(call) = rest.next_if(|next| is_with(next) && !(calls.is_empty() && next.record.is_apart)) {
                calls.push(call);
            }
            push_calls(out, &calls);
        }
        out.push('}');
    }
    out.push(']');
}

/// What a chat message has beside its content.
fn push_beside(out: &mut String, item: &WindowItem<'_, '_>) {
    let Some(chat) = item.record.chat.as_deref().filter(|_| !item.is_made) else { return };
    // Whatever else is stored there must not pass for what a message is.
    let _ = json::for_each_member(chat, |key, raw| {
        if CHAT_MEMBERS.iter().any(|name| json::key_matches(key, name)) {
            out.push(',');
            for text in [key, ":", raw] {
                out.push_str(text);
            }
        }
    });
}

fn push_content(out: &mut String, item: &WindowItem<'_, '_>) {
    let files = item.record.files.as_deref().filter(|_| !item.is_bare);
    // What others have stored may be JSON that a reader of the whole refuses: then its texts are shown.
    let is_shown = |parts: &&str| !item.is_bare && item.instead.is_none() && json::as_portable_value(parts).is_some();
    let parts = item.record.parts.as_deref().filter(is_shown);
    if let (None, Some(parts)) = (files, parts) {
        return out.push_str(parts);
    }
    let Some(files) = files.filter(|files| json::as_portable_value(files).is_some()) else {
        return push_shown(out, item);
    };
    let mut separator = "[";
    let _ = json::for_each_element(files, |file| {
        out.push_str(separator);
        separator = ",";
        out.push_str("{\"type\":\"file\",\"file\":");
        out.push_str(file);
        out.push('}');
    });
    if let Some(inner) = parts.and_then(|parts| parts.trim().strip_prefix('[')) {
        out.push_str(separator);
        return out.push_str(inner);
    }
    // Chat APIs refuse empty texts.
    if item.instead.is_some() || !item.record.content.is_blank() || separator == "[" {
        out.push_str(separator);
        out.push_str("{\"type\":\"text\",\"text\":");
        push_shown(out, item);
        out.push('}');
    }
    out.push(']');
}

fn push_shown(out: &mut String, item: &WindowItem<'_, '_>) {
    match &item.instead {
        Some(text) => push_string(out, text),
        None => item.record.content.push_to(out),
    }
}

fn push_calls(out: &mut String, calls: &[&WindowItem<'_, '_>]) {
    let mut separator = ",\"tool_calls\":[";
    for (call, tool) in calls.iter().filter_map(|call| Some((call, call.record.tool.as_ref()?))) {
        out.push_str(separator);
        separator = ",";
        out.push_str("{\"id\":");
        push_string(out, call.call_id());
        out.push_str(",\"type\":\"function\",\"function\":{\"name\":");
        push_string(out, &tool.name);
        out.push_str(",\"arguments\":");
        push_string(out, tool.arguments.as_deref().unwrap_or("{}"));
        out.push_str("}}");
    }
    if separator == "," {
        out.push(']');
    }
}

/// As one text: who speaks, and what; tools are left out.
pub(crate) fn render_as_text(options: &Options, items: &[WindowItem<'_, '_>], query: &str) -> String {
    let mut history = String::new();
    for item in items.iter().filter(|item| item.kind == RecordKind::Message) {
        let prefix = match item.role {
            Role::User => &options.human_prefix,
            Role::Assistant | Role::Tool | Role::System | Role::Developer => &options.assistant_prefix,
        };
        if !history.is_empty() {
            history.push('\n');
        }
        history.push_str(prefix);
        history.push_str(": ");
        let parts = item.record.parts.as_ref().filter(|_| !item.is_bare).map_or(0, |parts| parts.weight().files);
        let mut said = String::new();
        for _ in 0..images(item.record.files.as_deref().filter(|_| !item.is_bare)) + parts {
            said.push_str("[image]\n");
        }
        said.push_str(item.text());
        push_lines(&mut history, &said);
    }
    if options.query_prompt_template.is_empty() {
        return history;
    }
    // What is put in is not looked through: a message may hold the names, too.
    let mut out = String::new();
    let mut rest = &*options.query_prompt_template;
    while let Some(at) = text::find_substring(rest, "{{") {
        let (before, tail) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(before);
        let named = [("{{history}}", &*history), ("{{query}}", query)];
        let found = named.into_iter().find_map(|(name, text)| Some((tail.strip_prefix(name)?, text)));
        let (after, text) = found.unwrap_or((tail.get(1..).unwrap_or_default(), "{"));
        out.push_str(text);
        rest = after;
    }
    out.push_str(rest);
    out
}

/// A text whose lines, but for the first, stand further to the right: so that none passes for what another one says.
pub(crate) fn push_lines(out: &mut String, text: &str) {
    // Most are one line, and these are the first bytes of all that ends one.
    if !text.bytes().any(|byte| matches!(byte, b'\n'..=b'\r' | 0xc2 | 0xe2)) {
        return out.push_str(text);
    }
    let is_line_end = |char| matches!(char, '\n'..='\r' | '\u{85}' | '\u{2028}'..='\u{2029}');
    for (index, line) in text.split(is_line_end).enumerate() {
        out.push_str(if index > 0 { "\n  " } else { "" });
        out.push_str(line);
    }
}

fn images(files: Option<&str>) -> u64 {
    let mut count = 0;
    let _ = json::for_each_element(files.unwrap_or("[]"), |file| {
        let _ = json::for_each_member(file, |key, raw| {
            if json::key_matches(key, "type") && json::decode_string(raw).is_some_and(|kind| kind == "image") {
                count += 1;
            }
        });
    });
    count
}

/// The summary, as a message of the user's.
pub(crate) fn render_summary(text: &str) -> String {
    let mut out = ObjectWriter::with_capacity(text.len() + 96);
    out.text("role", Some("user"));
    out.text("content", Some(&[SUMMARY, text].concat()));
    out.finish()
}

/// What a summary weighs as a message.
pub(crate) fn summary_weight(text: &str) -> u64 {
    crate::text::tokens::estimate_for_bytes(SUMMARY.len() + text.len()) + crate::text::tokens::MESSAGE_TOKENS
}

/// As a JSON string.
pub(crate) fn to_json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    push_string(&mut out, text);
    out
}
