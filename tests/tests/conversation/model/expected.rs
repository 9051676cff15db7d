//! The windows that a question may get, derived from what was said alone, not from how windows are made.

use std::collections::{BTreeMap, BTreeSet};

use keepline::sessions::Transcript as Address;
use keepline_tests::valid_window::fault;
use serde_json::{Value, json};

use super::transcript::{Transcript, Turn};

const UNASKED: &str = "[The user's message was not recorded]";

/// Where a conversation is kept.
pub struct Place {
    pub session: String,
    /// An app, and its node.
    pub node: Option<(&'static str, &'static str)>,
    pub user: Option<&'static str>,
    pub transcript: Transcript,
}

impl Place {
    /// What an operator names it by.
    pub fn address(&self) -> Address<'_> {
        let (app_id, node_id) = self.node.map_or((None, None), |(app, node)| (Some(app), Some(node)));
        Address { session: &self.session, app_id, node_id }
    }

    /// What an entry names it by.
    pub fn metadata(&self) -> Value {
        let mut metadata = json!({"session_id": self.session});
        if let Some(user) = self.user {
            metadata["user_id"] = json!(user);
        }
        if let Some((app, node)) = self.node {
            metadata["memory_mode"] = json!("node");
            metadata["app_id"] = json!(app);
            metadata["node_id"] = json!(node);
        }
        metadata
    }
}

/// All that was said.
#[derive(Default)]
pub struct World {
    pub places: Vec<Place>,
    /// Of each mark the place, and whether an operator has removed it.
    pub marks: BTreeMap<String, (usize, bool)>,
}

/// What a process has recalled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Recall {
    Off,
    Session,
    User,
}

/// The options that say what its questions get.
pub struct Shape {
    pub budget: u64,
    pub pins: bool,
    /// The window is a text.
    pub is_text: bool,
    pub recall: Recall,
}

/// What a question got.
pub struct Got<'a> {
    pub metadata: &'a Value,
    pub question: &'a str,
    /// It goes on with a turn, and brings the results of its last calls.
    pub continues: bool,
}

impl World {
    /// Holds what a question of a place got against what its thread has, as far as there is room. How much was recalled.
    pub fn check(&self, place: usize, turns: &[Turn], shape: &Shape, got: &Got<'_>) -> Result<usize, String> {
        let mut allowed = BTreeSet::from([place]);
        let window = window(shape, got)?;
        self.check_marks(&json!([window, got.metadata["memory_summary"]]), &allowed)?;
        if !got.continues {
            check_window(&window, turns, shape, got.metadata)?;
        }
        let (window, thread) = (marks(&json!(window).to_string()), turns.iter().flat_map(|turn| &turn.marks));
        let thread: BTreeSet<&String> = thread.collect();
        let of = &self.places[place];
        if shape.recall == Recall::User && of.user.is_some() && of.node.is_none() {
            let same = |place: &Place| place.user == of.user && place.node.is_none();
            allowed.extend((0..self.places.len()).filter(|place| same(&self.places[*place])));
        }
        self.check_marks(&got.metadata["memory_recall"], &allowed)?;
        let passages = got.metadata["memory_recall"]["passages"].as_array().map_or(&[][..], Vec::as_slice);
        if shape.recall == Recall::Off && !got.metadata["memory_recall"].is_null() {
            return Err("there is recall, and it is off".into());
        }
        let mut seen = BTreeSet::new();
        for passage in passages {
            let text = passage["text"].as_str().unwrap();
            let marks = marks(text);
            if marks.is_empty() && text.contains("bytes omitted") {
                continue;
            }
            let [mark] = &*marks.iter().collect::<Vec<_>>() else {
                return Err(format!("a passage is of {marks:?}: {passage}"));
            };
            let (from, _) = self.marks[*mark];
            if passage["session"] != self.places[from].session || !seen.insert((mark.to_string(), text)) {
                return Err(format!("a passage of another session, or twice: {passage}"));
            }
            // What the window shows is not recalled, nor what is on another branch, or gone.
            if from == place && (window.contains(*mark) || !thread.contains(*mark)) {
                return Err(format!("in the window, or not of its thread: {passage}"));
            }
        }
        Ok(passages.len())
    }

    fn check_marks(&self, shown: &Value, allowed: &BTreeSet<usize>) -> Result<(), String> {
        let mut strings = vec![shown];
        while let Some(value) = strings.pop() {
            match value {
                Value::Array(values) => strings.extend(values),
                Value::Object(members) => strings.extend(members.values()),
                Value::String(text) => {
                    for mark in marks(text) {
                        match self.marks.get(&mark) {
                            Some((place, false)) if allowed.contains(place) => {}
                            Some((_, true)) => return Err(format!("{mark} was removed: {text}")),
                            _ => return Err(format!("{mark} is of another user or session: {text}")),
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The marks in a text, but for those that are cut off.
pub fn marks(text: &str) -> BTreeSet<String> {
    let words = text.split(|char: char| !char.is_ascii_alphanumeric());
    let is_mark = |word: &&str| {
        let rest = word.strip_prefix("mk").and_then(|rest| rest.strip_suffix('z'));
        rest.is_some_and(|rest| rest.starts_with(|char: char| char.is_ascii_digit()))
    };
    words.filter(is_mark).map(ToOwned::to_owned).collect()
}

/// The messages that a question got.
fn window(shape: &Shape, got: &Got<'_>) -> Result<Vec<Value>, String> {
    let attached = &got.metadata["memory_messages"];
    if shape.is_text {
        return attached.as_str().map_or(Ok(Vec::new()), |text| spoken(text, got.question));
    }
    let window = attached.as_array().map_or(&[][..], Vec::as_slice);
    fault(window, got.continues).map_or(Ok(window.to_vec()), Err)
}

/// Whether a window is of a thread's newest turns, as far as there is room.
fn check_window(shown: &[Value], turns: &[Turn], shape: &Shape, metadata: &Value) -> Result<(), String> {
    let trace = &metadata["memory_trace"];
    if trace["tokens"].as_u64().is_none_or(|tokens| tokens > shape.budget) {
        return Err(format!("{} tokens of {}", trace["tokens"], shape.budget));
    }
    let as_shown = |messages: &[Value]| -> Vec<Value> {
        if shape.is_text { messages.iter().filter_map(as_spoken).collect() } else { messages.to_vec() }
    };
    // Turns of which nothing is left leave nothing out.
    let all: Vec<(&Turn, Vec<Value>)> = turns.iter().map(|turn| (turn, as_shown(&turn.messages))).collect();
    let fate =
        |fate: &str| trace["turns"].as_array().is_some_and(|turns| turns.iter().any(|turn| turn["fate"] == fate));
    let (told, tells) = (trace["summary_to"].as_u64(), trace["gap"] == true);
    // What retention has left of a turn that went on later is shown where all of the thread was read; else that is told.
    let is_unread = fate("beginning not read");
    let may_hide = |turn: &Turn| is_unread && turn.is_cut && (tells || told.is_some_and(|told| turn.last <= told));
    let mut window = shown;
    // The newest turns, from the end on.
    let mut start = all.len();
    while let Some((turn, messages)) = start.checked_sub(1).and_then(|index| all.get(index)) {
        match window.split_at_checked(window.len().wrapping_sub(messages.len())) {
            Some((before, tail)) if are_same(tail, messages) => window = before,
            _ if may_hide(turn) => {}
            _ => break,
        }
        start -= 1;
    }
    // What stands for the question of the turn that it begins with.
    let is_unasked = |rest: &[Value]| rest.len() == 1 && rest[0]["content"] == UNASKED && rest[0]["role"] == "user";
    let lacks = |(turn, _): &(&Turn, Vec<Value>)| turn.messages.first().is_some_and(|first| first["role"] != "user");
    let begins = all[start..].iter().find(|(turn, _)| !turn.messages.is_empty());
    // Nor does a text show more of a first turn of tools alone.
    let is_pinned = |turn: &(&Turn, Vec<Value>)| shape.pins && turn.1.is_empty() && lacks(turn);
    if is_unasked(window) && (begins.is_some_and(lacks) || all[..start].iter().any(is_pinned)) {
        window = &[];
    }
    let is_first = |messages: &[Value]| {
        let rest = if is_unasked(window.get(..1).unwrap_or_default()) { &window[1..] } else { window };
        !messages.is_empty() && (are_same(window, messages) || are_same(rest, messages))
    };
    // A first turn that went on after others has its place among them.
    let mut pinned = all.iter().take(start).position(|(_, messages)| is_first(messages)).filter(|_| shape.pins);
    if fate("cut") {
        // One turn that is too long: its question, and as much of the rest as there is room for.
        let has_messages = |turn: &Turn| !turn.messages.is_empty();
        let newest = turns.iter().rposition(|turn| has_messages(turn) && !may_hide(turn));
        let newest = newest.or_else(|| turns.iter().rposition(has_messages)).unwrap();
        let question = &turns[newest].messages[0];
        let first = shown.iter().rfind(|message| message["role"] == "user").unwrap_or(&shown[0]);
        let text = |message: &Value| message["content"].to_string().chars().skip(1).take(5).collect::<String>();
        let is_made = question["role"] != "user";
        let has_text = question["content"].as_str().is_some_and(|text| !text.is_empty());
        let is_question = first["role"] == question["role"] && (!has_text || text(first) == text(question));
        if !is_made && !is_question {
            return Err(format!("cut to {first}, not {question}"));
        }
        start = newest;
        let begins = |shown: &[Value], messages: &[Value]| {
            shown.get(..messages.len()).is_some_and(|some| are_same(some, messages))
        };
        let is_first = |messages: &[Value]| {
            let rest = if is_unasked(&shown[..1]) { &shown[1..] } else { shown };
            !messages.is_empty() && (begins(shown, messages) || begins(rest, messages))
        };
        pinned = all.iter().take(start).position(|(_, messages)| is_first(messages)).filter(|_| shape.pins);
    } else if !window.is_empty() && pinned.is_none() {
        let expected = start.checked_sub(1).map(|index| &all[index].1);
        return Err(format!("{window:#?} are not those of the thread, such as {expected:#?}"));
    }
    let is_any = turns.iter().any(|turn| !turn.messages.is_empty());
    if shown.is_empty() && is_any && !shape.is_text {
        return Err("there is nothing".into());
    }
    let mut left_out = (0..start).filter(|index| Some(*index) != pinned);
    let is_lost =
        |(turn, messages): &(&Turn, Vec<Value>)| told.is_none_or(|told| turn.last > told) && !messages.is_empty();
    let is_gap = left_out.any(|index| is_lost(&all[index]));
    // It may tell of what retention has left a part of that can't be shown; and of what a text does not show.
    let is_hidden = |(turn, messages): &(&Turn, Vec<Value>)| turn.is_cut || messages.is_empty();
    let may_tell = is_gap || all.iter().any(is_hidden);
    if is_gap && !tells || tells && !may_tell {
        return Err(format!(
            "gap {tells}, but {start} turns of {} are left out, told up to {told:?}: {:?}",
            turns.len(),
            turns.iter().map(|turn| (&turn.marks, turn.last, turn.is_cut)).collect::<Vec<_>>()
        ));
    }
    Ok(())
}

/// What is too long for the window of whoever stored it, or too old, is shown in part, or not at all.
fn is_same(one: &Value, other: &Value) -> bool {
    let is_placeholder = |text: &str| text.starts_with("[Old result") || text.contains("bytes omitted");
    let is_cleared = one["role"] == "tool" && one["content"].as_str().is_some_and(is_placeholder);
    one == other || (is_cleared && one["tool_call_id"] == other["tool_call_id"])
}

fn are_same(some: &[Value], others: &[Value]) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(one, other)| is_same(one, other))
}

const SPEAKERS: [(&str, &str); 2] = [("user", "Human: "), ("assistant", "Assistant: ")];

/// The template of windows that are texts.
pub const TEMPLATE: &str = "Before:\n{{history}}\nNow: {{query}}";

/// A window's text as messages again.
fn spoken(text: &str, question: &str) -> Result<Vec<Value>, String> {
    let end = format!("\nNow: {question}");
    let history = text.strip_prefix("Before:\n").and_then(|text| text.strip_suffix(&end));
    let history = history.ok_or_else(|| format!("not as the template has it: {text}"))?;
    let mut all: Vec<Value> = Vec::new();
    for line in history.lines() {
        let speaker = SPEAKERS.iter().find_map(|(role, prefix)| Some((role, line.strip_prefix(prefix)?)));
        match (speaker, line.strip_prefix("  "), all.last_mut()) {
            (Some((role, said)), ..) => all.push(json!({"role": role, "content": said})),
            (None, Some(more), Some(last)) => {
                last["content"] = json!(format!("{}\n{more}", last["content"].as_str().unwrap()));
            }
            _ => return Err(format!("nobody says {line:?}")),
        }
    }
    Ok(all)
}

/// What a text has of a message; none: it is left out.
fn as_spoken(message: &Value) -> Option<Value> {
    let content = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => return None,
    };
    SPEAKERS
        .iter()
        .any(|(role, _)| message["role"] == *role)
        .then(|| json!({"role": message["role"], "content": content}))
}
