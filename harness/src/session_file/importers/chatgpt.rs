//! Reads ChatGPT's export: `conversations.json`, an array of conversations, each a tree of messages.
//!
//! Branches are kept: each message names the one before it, and the branch that was open last comes last. Where the
//! first question was edited there are several roots; each becomes a session of its own, since a transcript has one.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::{EMPTY, ForeignConversation, NO_CALL, set_member};
use crate::operations::records::array_member;

/// The recipient of a model's message to the user.
const EVERYBODY: &str = "all";

/// Reads one element of the array. The branch that was open last comes first.
pub fn read_conversations(document: &Map<String, Value>, name: &str) -> Result<Vec<ForeignConversation>, String> {
    let nodes = document.get("mapping").and_then(Value::as_object).ok_or("it has no mapping")?;
    let tree = MessageTree::from_mapping(nodes, document.get("current_node").and_then(Value::as_str));
    let title = document.get("title").and_then(Value::as_str).filter(|title| !title.is_empty());
    let mut conversations: Vec<ForeignConversation> = Vec::new();
    for beginning in tree.conversation_starts() {
        let mut conversation =
            ForeignConversation { title: title.map(str::to_owned), ..ForeignConversation::default() };
        tree.add_branches(&mut conversation, beginning);
        if !conversation.messages.is_empty() || conversations.is_empty() {
            conversations.push(conversation);
        }
    }
    conversations.reverse();
    for (index, conversation) in conversations.iter_mut().enumerate() {
        conversation.session = if index == 0 { name.to_owned() } else { format!("{name}-{}", index + 1) };
        if index > 0 {
            conversation.left_out.push(format!(
                "nothing: these are the messages of {name} that follow another first question, as a session of their own"
            ));
        }
    }
    Ok(conversations)
}

struct TreeNode<'a> {
    /// Its place in the file, from 0.
    index: usize,
    message: Option<&'a Map<String, Value>>,
    children: Vec<&'a str>,
}

struct MessageTree<'a> {
    nodes: HashMap<&'a str, TreeNode<'a>>,
    roots: Vec<&'a str>,
    /// The path to the message that was open last.
    current: HashSet<&'a str>,
}

/// Facts that a message passes on to those that follow it.
#[derive(Clone, Copy)]
struct Predecessor<'a> {
    parent: Option<&'a str>,
    /// The call that a tool's message is the result of.
    call: Option<&'a str>,
}

impl<'a> MessageTree<'a> {
    fn from_mapping(mapping: &'a Map<String, Value>, current: Option<&'a str>) -> Self {
        let mut nodes: HashMap<&str, TreeNode<'_>> = HashMap::new();
        let mut parents: HashMap<&str, &str> = HashMap::new();
        for (index, (id, node)) in mapping.iter().enumerate() {
            let message = node.get("message").and_then(Value::as_object);
            nodes.insert(id, TreeNode { index, message, children: Vec::new() });
            if let Some(parent) =
                node.get("parent").and_then(Value::as_str).filter(|parent| mapping.contains_key(*parent))
            {
                parents.insert(id, parent);
            }
        }
        // The order of siblings is that of the parent's list; the tree itself is that of the parents.
        let listed = mapping.iter().flat_map(|(id, node)| {
            array_member(node, "children").iter().filter_map(Value::as_str).map(move |child| (&**id, child))
        });
        let mut placed = HashSet::new();
        for (parent, child) in listed.chain(parents.iter().map(|(child, parent)| (*parent, *child))) {
            let Some((&child, _)) = nodes.get_key_value(child) else { continue };
            if parents.get(child) == Some(&parent)
                && placed.insert(child)
                && let Some(node) = nodes.get_mut(parent)
            {
                node.children.push(child);
            }
        }
        let roots = mapping.keys().map(|id| &**id).filter(|id| !parents.contains_key(id)).collect();
        let (mut way, mut at) = (HashSet::new(), current.and_then(|id| nodes.get_key_value(id)).map(|(id, _)| *id));
        while let Some(id) = at.filter(|id| way.insert(*id)) {
            at = parents.get(id).copied();
        }
        let mut tree = Self { nodes, roots, current: way };
        let is_current = |id: &&str| tree.current.contains(id);
        for node in tree.nodes.values_mut() {
            node.children.sort_by_key(is_current);
        }
        tree.roots.sort_by_key(is_current);
        tree
    }

    /// The nodes at which conversations begin: the first ones with a message on each path.
    fn conversation_starts(&self) -> Vec<&'a str> {
        let (mut found, mut stack) = (Vec::new(), self.roots.iter().rev().copied().collect::<Vec<_>>());
        while let Some(id) = stack.pop() {
            let Some(node) = self.nodes.get(id) else { continue };
            let is_shown = node.message.is_some_and(|message| !is_hidden(message));
            if is_shown || node.children.is_empty() {
                found.push(id);
            } else {
                stack.extend(node.children.iter().rev());
            }
        }
        found
    }

    /// Adds a node and all that follows it, the branch that was open last at the end.
    fn add_branches(&self, conversation: &mut ForeignConversation, from: &'a str) {
        let mut stack = vec![(from, Predecessor { parent: None, call: None })];
        while let Some((id, before)) = stack.pop() {
            let Some(node) = self.nodes.get(id) else { continue };
            let mut after = before;
            if let Some(message) = node.message.filter(|message| !is_hidden(message)) {
                let read = read_message(id, message, before);
                if let Ok((_, call)) = read {
                    after = Predecessor { parent: Some(id), call };
                }
                conversation.add_message(node.index, read.map(|(message, _)| message));
            }
            stack.extend(node.children.iter().rev().map(|child| (*child, after)));
        }
    }
}

/// Messages that were never shown: the empty ones at the beginning of each conversation, and the program's own.
fn is_hidden(message: &Map<String, Value>) -> bool {
    let is_blank = || {
        let parts = message.get("content").and_then(|content| content.get("parts")).and_then(Value::as_array);
        parts.is_some_and(|parts| parts.iter().all(|part| part.as_str().is_some_and(|text| text.trim().is_empty())))
    };
    let is_marked = message.get("metadata").and_then(|about| about.get("is_visually_hidden_from_conversation"));
    let role = message.get("author").and_then(|author| author.get("role")).and_then(Value::as_str);
    role == Some("system") && (is_marked == Some(&Value::Bool(true)) || is_blank())
}

/// Reads a message. Returns it with the call that a tool's message after it is the result of.
fn read_message<'a>(
    id: &'a str,
    message: &Map<String, Value>,
    before: Predecessor<'a>,
) -> Result<(Value, Option<&'a str>), String> {
    let author =
        message.get("author").and_then(|author| author.get("role")).and_then(Value::as_str).unwrap_or_default();
    let content = message_content(message.get("content").unwrap_or(&Value::Null))?;
    let recipient = message.get("recipient").and_then(Value::as_str).filter(|recipient| *recipient != EVERYBODY);
    let (mut said, call) = match (author, recipient) {
        ("assistant", Some(recipient)) => {
            let text = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
            let is_object = serde_json::from_str::<Map<String, Value>>(&text).is_ok();
            let arguments = if is_object { text } else { json!({"input": text}).to_string() };
            let call = json!({"id": id, "type": "function", "function": {"name": recipient, "arguments": arguments}});
            (json!({"role": "assistant", "content": null, "tool_calls": [call]}), Some(id))
        }
        ("tool", _) => {
            let call = before.call.ok_or(NO_CALL)?;
            (json!({"role": "tool", "tool_call_id": call, "content": content}), None)
        }
        ("user" | "assistant" | "system", _) => (json!({"role": author, "content": content}), before.call),
        _ => return Err("its author is neither a user, an assistant, a tool nor the system".to_owned()),
    };
    set_member(&mut said, "id", json!(id));
    set_member(&mut said, "parent", before.parent.map(Value::from));
    set_member(&mut said, "at", message.get("create_time").filter(|at| at.is_number()).cloned());
    let model = message.get("metadata").and_then(|about| about.get("model_slug"));
    set_member(&mut said, "model", model.map(|model| json!({"name": model})));
    Ok((said, call))
}

/// A text, or parts. The error says why the content is left out.
fn message_content(content: &Value) -> Result<Value, String> {
    let kind = content.get("content_type").and_then(Value::as_str).unwrap_or("text");
    let text = |name: &str| content.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    if matches!(kind, "thoughts" | "reasoning_recap" | "user_editable_context" | "model_editable_context") {
        return Err(format!("content of type {kind} is not supported"));
    }
    if let Some(parts) = content.get("parts").and_then(Value::as_array) {
        if parts.iter().all(Value::is_string) {
            let texts: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
            let text = texts.join("\n");
            return if text.trim().is_empty() { Err(EMPTY.to_owned()) } else { Ok(text.into()) };
        }
        let parts = parts.iter().filter(|part| part.as_str() != Some("")).map(|part| match part {
            Value::String(text) => json!({"type": "text", "text": text}),
            Value::Object(members) => {
                let mut members = members.clone();
                let kind = members.get("content_type").cloned().unwrap_or_else(|| "other".into());
                members.entry("type").or_insert(kind);
                Value::Object(members)
            }
            other => json!({"type": "text", "text": other.to_string()}),
        });
        return Ok(Value::Array(parts.collect()));
    }
    let found = ["text", "result", "summary"].into_iter().find_map(text);
    found.map(Value::from).ok_or_else(|| format!("content of type {kind} is not supported, or empty"))
}
