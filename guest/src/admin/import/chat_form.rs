//! Converts messages in the form of chat APIs into records.

use keepline_json as json;
use keepline_json::push_string;
use std::borrow::Cow;

use crate::text;
use crate::text::json_values::array;
use crate::text::quoting::python_repr;
use crate::transcript::parts;
use crate::transcript::record::{CHAT_MEMBERS, RecordMember};

/// Those that each record of a message gets.
const SHARED: [&str; 4] = ["turn", "at", "source", "trust"];

/// The longest of them.
const BESIDE_MAX: usize = 32 << 10;

/// Members of a call that are read, or say nothing.
const OF_CALLS: [&str; 6] = ["id", "type", "function", "custom", "index", "caller"];

/// How many numbers of messages a note names, and how many notes there are.
const NUMBERS: usize = 20;

const NOTES: usize = 32;

/// What was not stored, and of which messages.
#[derive(Default)]
pub(crate) struct ConversionNotes(Vec<(String, Vec<u64>)>);

impl ConversionNotes {
    pub(crate) fn add(&mut self, what: &str, number: u64) {
        let has_room = self.0.len() < NOTES;
        match self.0.iter_mut().find(|(known, _)| known == what) {
            Some((_, numbers)) if numbers.last() != Some(&number) => numbers.push(number),
            None if has_room => self.0.push((what.to_owned(), vec![number])),
            _ => {}
        }
    }

    /// For people, on one line. None: everything is stored.
    pub(crate) fn format_report(&self) -> Option<String> {
        let mut out = String::new();
        for (what, numbers) in &self.0 {
            out.push_str(if out.is_empty() { "" } else { "; " });
            out.push_str(what);
            out.push_str(if numbers.len() == 1 { " (message " } else { " (messages " });
            let shown: Vec<String> = numbers.iter().take(NUMBERS).map(u64::to_string).collect();
            out.push_str(&text::join(&shown, ", "));
            if let Some(more @ 1..) = numbers.len().checked_sub(NUMBERS) {
                out.push_str(&[" and ", &*more.to_string(), " more"].concat());
            }
            out.push(')');
        }
        (!out.is_empty()).then_some(out)
    }
}

/// Converts one message after the other.
#[derive(Default)]
pub(crate) struct ChatConverter {
    pub notes: ConversionNotes,
    /// Calls of the old form that have no result yet: the function's name, and the id that the call was given.
    functions: Vec<(String, String)>,
}

/// A call, or its result.
struct ChatTool<'a> {
    call_id: Cow<'a, str>,
    name: Cow<'a, str>,
    arguments: Option<Cow<'a, str>>,
    /// Of a result: JSON.
    content: Cow<'a, str>,
    is_error: bool,
    /// No text came with it.
    is_apart: bool,
}

/// A message, member by member.
#[derive(Default)]
struct ParsedChatMessage<'a> {
    role: Cow<'a, str>,
    content: &'a str,
    /// Of a record, in order.
    members: Vec<(&'a str, &'a str)>,
    beside: Vec<(&'static str, &'a str)>,
    tool_calls: &'a str,
    function_call: &'a str,
    tool_call_id: &'a str,
    refusal: &'a str,
    name: Cow<'a, str>,
    is_record: bool,
}

/// Whether a member of a record goes into one as it is.
fn is_taken_as_is(name: &str) -> bool {
    RecordMember::from_name(name).is_some_and(|member| !matches!(member, RecordMember::Chat | RecordMember::Vector))
}

/// Whether a value says nothing.
fn is_nothing(raw: &str) -> bool {
    matches!(raw, "null" | "\"\"" | "[]" | "{}" | "false" | "")
}

/// Whether content holds nothing that a model could read.
pub(crate) fn is_blank(content: &str) -> bool {
    match json::decode_string(content) {
        Some(text) => text.trim().is_empty(),
        None if content.starts_with('[') => {
            let mut is_blank = true;
            let read = json::for_each_element(content, |part| is_blank &= parts::is_blank(part));
            read.is_some() && is_blank
        }
        None => content.is_empty() || content == "null",
    }
}

impl ChatConverter {
    /// The records that a message becomes: JSON objects. None: it is not one.
    pub(crate) fn convert_message(&mut self, text: &str, number: u64) -> Option<Vec<String>> {
        let message = self.read(text, number)?;
        let is_known = matches!(&*message.role, "user" | "assistant" | "tool" | "function" | "system" | "developer");
        if message.is_record || !is_known {
            return Some(vec![text.to_owned()]);
        }
        let records = match &*message.role {
            "tool" | "function" => self.result(&message, number).into_iter().collect(),
            _ => self.said(&message, number),
        };
        Some(records)
    }

    fn read<'a>(&mut self, text: &'a str, number: u64) -> Option<ParsedChatMessage<'a>> {
        let mut message = ParsedChatMessage::default();
        let mut others: Vec<Cow<'a, str>> = Vec::new();
        json::for_each_member(text, |key, raw| {
            let Some(name) = json::decode_string(key) else { return };
            match &*name {
                "role" => {
                    message.role = match json::decode_string(raw) {
                        Some(role) if role == "human" => "user".into(),
                        Some(role) if role == "ai" => "assistant".into(),
                        role => role.unwrap_or_default(),
                    }
                }
                "content" => message.content = raw,
                "tool_calls" if !is_nothing(raw) => message.tool_calls = raw,
                "function_call" if !is_nothing(raw) => message.function_call = raw,
                "tool_call_id" if !is_nothing(raw) => message.tool_call_id = raw,
                "refusal" if !is_nothing(raw) => message.refusal = raw,
                "line" => {}
                "tool" | "kind" | "chat" if !is_nothing(raw) => message.is_record = true,
                other => match CHAT_MEMBERS.iter().find(|known| **known == other) {
                    Some(known) if raw.len() > BESIDE_MAX => {
                        self.notes.add(&["member '", known, "' of more than 32 KiB is not stored"].concat(), number);
                    }
                    Some(known) if raw.starts_with('"') => {
                        if *known == "name" {
                            message.name = json::decode_string(raw).unwrap_or_default();
                        }
                        message.beside.push((*known, raw));
                    }
                    _ if is_taken_as_is(other) => message.members.push((key, raw)),
                    _ if !is_nothing(raw) => others.push(name),
                    _ => {}
                },
            }
        })?;
        for name in others {
            self.notes.add(&["member ", &*python_repr(&name), " is not stored"].concat(), number);
        }
        Some(message)
    }

    /// A message of a tool.
    fn result(&mut self, message: &ParsedChatMessage<'_>, number: u64) -> Option<String> {
        let mut call_id = json::decode_string(message.tool_call_id).unwrap_or_default();
        if call_id.is_empty() && message.role == "function" {
            let Some(at) = self.functions.iter().position(|(name, _)| *name == *message.name) else {
                self.notes.add("results of functions that no message calls are not stored", number);
                return None;
            };
            call_id = self.functions.remove(at).1.into();
        }
        let content = if message.content.is_empty() { "\"\"" } else { message.content };
        let name = message.name.clone();
        let tool =
            ChatTool { call_id, name, arguments: None, content: content.into(), ..ChatTool::call(String::new()) };
        Some(message.record("tool", &tool.content, Some(&tool), true, true))
    }

    /// A message of anybody else.
    fn said(&mut self, message: &ParsedChatMessage<'_>, number: u64) -> Vec<String> {
        let (mut calls, mut results) = (self.calls(message, number), Vec::new());
        let content = self.without_tools(message, number, &mut calls, &mut results);
        let mut content: &str = &content;
        if !message.refusal.is_empty() {
            if is_blank(content) && message.refusal.starts_with('"') {
                content = message.refusal;
                self.notes.add("the refusal is stored as the content", number);
            } else {
                self.notes.add("member 'refusal' is not stored beside content", number);
            }
        }
        let mut records: Vec<String> = Vec::new();
        for result in &results {
            records.push(message.record("tool", &result.content, Some(result), records.is_empty(), false));
        }
        let mut is_main = true;
        // One that has an id can be named, as another's parent.
        let is_named =
            message.members.iter().any(|(key, raw)| (*key == "\"id\"" || *key == "\"files\"") && !is_nothing(raw));
        if !is_blank(content) || (is_named && calls.is_empty() && results.is_empty()) {
            let content = if content.is_empty() || content == "null" { "\"\"" } else { content };
            records.push(message.record(&message.role, content, None, records.is_empty(), true));
            is_main = false;
        }
        for call in &mut calls {
            call.is_apart = is_main;
            let is_first = records.is_empty();
            records.push(message.record("assistant", "\"\"", Some(&*call), is_first, std::mem::take(&mut is_main)));
        }
        let is_text = matches!(content.as_bytes().first(), None | Some(b'"' | b'[' | b'n'));
        if records.is_empty() && !is_text {
            // It is refused for what it is.
            return vec![message.record(&message.role, content, None, true, true)];
        }
        if records.is_empty() {
            self.notes.add("blank messages are not stored", number);
        }
        records
    }

    fn calls<'a>(&mut self, message: &ParsedChatMessage<'a>, number: u64) -> Vec<ChatTool<'a>> {
        let mut calls = Vec::new();
        let _ = json::for_each_element(if message.tool_calls.is_empty() { "[]" } else { message.tool_calls }, |raw| {
            let own_id = ["call-", &*number.to_string(), "-", &*calls.len().to_string()].concat();
            let mut call = ChatTool::call(own_id);
            let _ = json::for_each_member(raw, |key, raw| {
                let Some(name) = json::decode_string(key).filter(|_| !is_nothing(raw)) else { return };
                match &*name {
                    "id" => call.call_id = json::decode_string(raw).unwrap_or_default(),
                    "function" | "custom" => call.read(raw),
                    other if OF_CALLS.contains(&other) => {}
                    other => self
                        .notes
                        .add(&["member ", &*python_repr(other), " of tool_calls is not stored"].concat(), number),
                }
            });
            calls.push(call);
        });
        if message.function_call.starts_with('{') {
            let id = ["function-", &*number.to_string()].concat();
            let mut call = ChatTool::call(id.clone());
            call.read(message.function_call);
            self.functions.push((call.name.to_string(), id));
            calls.push(call);
        }
        calls
    }

    /// Content without the calls and results that Anthropic's form has among its parts.
    fn without_tools<'a>(
        &mut self,
        message: &ParsedChatMessage<'a>,
        number: u64,
        calls: &mut Vec<ChatTool<'a>>,
        results: &mut Vec<ChatTool<'a>>,
    ) -> Cow<'a, str> {
        if !message.content.starts_with('[') {
            return message.content.into();
        }
        let (mut kept, mut has_tools) = (Vec::new(), false);
        let _ = json::for_each_element(message.content, |part| {
            match (parts::kind(part).as_deref(), &*message.role) {
                (Some("tool_use"), "assistant") => {
                    has_tools = true;
                    let own_id = ["call-", &*number.to_string(), "-", &*calls.len().to_string()].concat();
                    let mut call = ChatTool::call(own_id);
                    let _ = json::for_each_member(part, |key, raw| match json::decode_string(key).as_deref() {
                        Some("id") => call.call_id = json::decode_string(raw).unwrap_or_default(),
                        Some("name") => call.name = json::decode_string(raw).unwrap_or_default(),
                        Some("input") => call.arguments = Some(raw.into()),
                        _ => {}
                    });
                    // Some writers have each call in both forms.
                    if !calls.iter().any(|known| known.call_id == call.call_id) {
                        calls.push(call);
                    }
                }
                (Some("tool_result"), "user") => {
                    has_tools = true;
                    let mut result = ChatTool { arguments: None, ..ChatTool::call(String::new()) };
                    let _ = json::for_each_member(part, |key, raw| match json::decode_string(key).as_deref() {
                        Some("tool_use_id") => result.call_id = json::decode_string(raw).unwrap_or_default(),
                        Some("content") if raw != "null" => result.content = raw.into(),
                        Some("is_error") => result.is_error = raw == "true",
                        _ => {}
                    });
                    results.push(result);
                }
                _ => kept.push(part),
            }
        });
        if !has_tools {
            return message.content.into();
        }
        array(&kept).into()
    }
}

impl<'a> ChatTool<'a> {
    /// A call of which only its id is known.
    fn call(id: String) -> Self {
        Self {
            call_id: id.into(),
            name: "".into(),
            arguments: Some("{}".into()),
            content: "\"\"".into(),
            is_error: false,
            is_apart: false,
        }
    }

    /// Name and arguments of a call: a text, or JSON, which is taken as the text that it is.
    fn read(&mut self, raw: &'a str) {
        let _ = json::for_each_member(raw, |key, raw| match json::decode_string(key).as_deref() {
            Some("name") => self.name = json::decode_string(raw).unwrap_or_default(),
            Some("arguments") => self.arguments = Some(json::decode_string(raw).unwrap_or(raw.into())),
            Some("input") => self.arguments = Some(raw.into()),
            _ => {}
        });
    }

    fn push(&self, out: &mut String) {
        out.push_str(",\"tool\":{\"call_id\":");
        push_string(out, &self.call_id);
        let texts = [("name", Some(&*self.name)), ("arguments", self.arguments.as_deref())];
        for (name, text) in texts {
            if let Some(text) = text {
                out.push_str(&[",\"", name, "\":"].concat());
                push_string(out, text);
            }
        }
        if self.is_error {
            out.push_str(",\"error\":");
            match json::decode_string(&self.content) {
                Some(text) => push_string(out, &text),
                None => push_string(out, &json::join_texts(&self.content)),
            }
        }
        out.push('}');
        if self.is_apart {
            out.push_str(",\"apart\":true");
        }
    }
}

impl ParsedChatMessage<'_> {
    /// A record of this message. `is_first`: it follows the message's parent. `is_main`: what belongs to the message as a
    /// whole goes with it.
    fn record(&self, role: &str, content: &str, tool: Option<&ChatTool<'_>>, is_first: bool, is_main: bool) -> String {
        let mut out = String::from("{\"role\":");
        push_string(&mut out, role);
        out.push_str(",\"content\":");
        out.push_str(content);
        let is_said = |key: &str| match json::key_matches(key, "parent") {
            true => is_first,
            false => is_main || SHARED.iter().any(|shared| json::key_matches(key, shared)),
        };
        for (key, raw) in self.members.iter().filter(|(key, _)| is_said(key)) {
            out.push_str(&[",", *key, ":", *raw].concat());
        }
        if let Some(tool) = tool {
            tool.push(&mut out);
        }
        let mut separator = ",\"chat\":{";
        for (name, raw) in self.beside.iter().filter(|_| is_main && role != "tool") {
            out.push_str(&[separator, "\"", name, "\":", raw].concat());
            separator = ",";
        }
        out.push_str(if separator == "," { "}}" } else { "}" });
        out
    }
}
