//! Finds the newest exchange in a list of chat messages.
//!
//! Promises that it is the newest one, whatever tools did between its question and its answer. An older one is taken only
//! if no answer to a later question has begun. Refuses to guess what a row of an unknown role is: it is passed
//! over.

use keepline_json::push_base32;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::MemorySkip;

/// The version of the rule that makes a pair's id, hashed with it.
const DOMAIN: &[u8] = b"keepline memory v1";

/// What a user said, and what the assistant answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub user: String,
    pub assistant: String,
    /// How often the same was said and answered before.
    repetition: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaker {
    User,
    Assistant,
    Tool,
}

/// What follows a message of a user.
struct ChatTurn {
    user: String,
    answer: Option<String>,
    has_tools: bool,
}

impl Pair {
    /// In chat messages, oldest first.
    pub(super) fn newest(messages: &[Value]) -> Result<Self, MemorySkip> {
        if messages.len() < 2 {
            return Err(MemorySkip::TooFewMessages);
        }
        let mut turns = turns(messages);
        while turns.last().is_some_and(|turn| turn.answer.is_none() && !turn.has_tools) {
            turns.pop();
        }
        let Some(ChatTurn { user, answer: Some(assistant), .. }) = turns.pop() else { return Err(MemorySkip::NoPair) };
        if user.trim().is_empty() || assistant.trim().is_empty() {
            return Err(MemorySkip::Empty);
        }
        let is_same = |turn: &&ChatTurn| turn.user == user && turn.answer.as_ref() == Some(&assistant);
        let repetition = turns.iter().filter(is_same).count() as u64;
        Ok(Self { user, assistant, repetition })
    }

    /// The same for the same pair in the same place: among equal ones, how many of them came before.
    pub(super) fn id(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(DOMAIN);
        for text in [&self.user, &self.assistant] {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        }
        hash.update(self.repetition.to_be_bytes());
        let mut id = String::from("mem-");
        push_base32(&mut id, &hash.finalize());
        id
    }
}

fn turns(messages: &[Value]) -> Vec<ChatTurn> {
    let mut turns: Vec<ChatTurn> = Vec::new();
    for message in messages {
        let Some(speaker) = speaker(message) else { continue };
        if speaker == Speaker::User && is_only_results(message) {
            if let Some(turn) = turns.last_mut() {
                (turn.answer, turn.has_tools) = (None, true);
            }
            continue;
        }
        if speaker == Speaker::User {
            turns.push(ChatTurn { user: message_text(message), answer: None, has_tools: false });
            continue;
        }
        let Some(turn) = turns.last_mut() else { continue };
        if speaker == Speaker::Tool || calls_tools(message) {
            // What was said before is no answer yet.
            (turn.answer, turn.has_tools) = (None, true);
        } else {
            turn.answer = Some(message_text(message));
        }
    }
    turns
}

/// By `role`, or by `type` as LangChain writes messages.
fn speaker(message: &Value) -> Option<Speaker> {
    let role = message.get("role").or_else(|| message.get("type"))?.as_str()?;
    match role {
        "user" | "human" => Some(Speaker::User),
        "assistant" | "ai" => Some(Speaker::Assistant),
        "tool" | "function" => Some(Speaker::Tool),
        _ => None,
    }
}

fn calls_tools(message: &Value) -> bool {
    let has_calls = message.get("tool_calls").and_then(Value::as_array).is_some_and(|calls| !calls.is_empty());
    has_calls || message.get("function_call").is_some_and(Value::is_object) || has_part(message, "tool_use")
}

/// Whether a user's message says nothing: in Anthropic's form it brings the results of tools.
fn is_only_results(message: &Value) -> bool {
    has_part(message, "tool_result") && message_text(message).trim().is_empty()
}

/// Whether a part of the content is of this type.
fn has_part(message: &Value, kind: &str) -> bool {
    let parts = message.get("content").and_then(Value::as_array);
    parts.is_some_and(|parts| parts.iter().any(|part| part.get("type").is_some_and(|named| named == kind)))
}

/// A message's `content`.
fn message_text(message: &Value) -> String {
    message.get("content").map(content_text).unwrap_or_default()
}

/// A text, or the texts among the parts that content may consist of.
pub(super) fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.as_str().or_else(|| part.get("text")?.as_str()));
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(rows: &[(&str, &str)]) -> Vec<Value> {
        rows.iter()
            .map(|(role, text)| match *role {
                "calls" => json!({"role": "assistant", "content": text, "tool_calls": [{"id": "c"}]}),
                role => json!({"role": role, "content": text}),
            })
            .collect()
    }

    fn newest(rows: &[(&str, &str)]) -> Result<(String, String), MemorySkip> {
        Pair::newest(&messages(rows)).map(|pair| (pair.user, pair.assistant))
    }

    #[test]
    fn the_newest_exchange_is_taken_even_if_it_contains_tool_calls() {
        let older = [("user", "old"), ("assistant", "older")];
        let pair = |user: &str, assistant: &str| Ok((user.to_owned(), assistant.to_owned()));
        for (rows, expected) in [
            (&[("human", "q"), ("ai", "a")][..], pair("q", "a")),
            (&[("user", "q"), ("calls", ""), ("tool", "t"), ("tool", "t"), ("assistant", "a")], pair("q", "a")),
            (&[("user", "q"), ("calls", "wait"), ("function", "t"), ("assistant", "a")], pair("q", "a")),
            (&[("user", "q"), ("system", "s"), ("assistant", "a"), ("assistant", "b")], pair("q", "b")),
            (&[("user", "q"), ("user", "r"), ("assistant", "a")], pair("r", "a")),
            // No answer has begun: the pair before is the newest.
            (&[("user", "q")], pair("old", "older")),
            // An answer has begun.
            (&[("user", "q"), ("calls", ""), ("tool", "t")], Err(MemorySkip::NoPair)),
            (&[("user", "q"), ("assistant", "wait"), ("tool", "t")], Err(MemorySkip::NoPair)),
            (&[("user", "q"), ("assistant", " \n")], Err(MemorySkip::Empty)),
            (&[("user", ""), ("assistant", "a")], Err(MemorySkip::Empty)),
        ] {
            assert_eq!(newest(&[&older, rows].concat()), expected, "{rows:?}");
        }
    }

    #[test]
    fn messages_without_an_exchange_are_skipped_with_a_reason() {
        for (rows, expected) in [
            (&[][..], MemorySkip::TooFewMessages),
            (&[("user", "q")], MemorySkip::TooFewMessages),
            (&[("user", "q"), ("user", "r")], MemorySkip::NoPair),
            (&[("assistant", "a"), ("user", "q")], MemorySkip::NoPair),
            (&[("system", "s"), ("assistant", "a")], MemorySkip::NoPair),
        ] {
            assert_eq!(newest(rows), Err(expected), "{rows:?}");
        }
        assert_eq!(Pair::newest(&[json!(1), json!({})]), Err(MemorySkip::NoPair));
    }

    #[test]
    fn content_may_be_parts() {
        let parts = json!([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}, "b"]);
        let rows = [json!({"type": "human", "content": parts}), json!({"type": "ai", "content": "c"})];
        let pair = Pair::newest(&rows).unwrap();
        assert_eq!((&*pair.user, &*pair.assistant), ("a\nb", "c"));
        let none = [json!({"role": "user", "content": "q"}), json!({"role": "assistant", "content": null})];
        assert_eq!(Pair::newest(&none), Err(MemorySkip::Empty));
    }

    #[test]
    fn anthropic_tool_results_are_not_taken_for_a_question() {
        let rows = json!([
            {"role": "user", "content": "Which berth has shore power?"},
            {"role": "assistant", "content": [{"type": "text", "text": "Let me see."}, {"type": "tool_use", "id": "a", "name": "berths", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "berth 7"}]}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Berth 7 has it."}]},
        ]);
        let rows = rows.as_array().unwrap();
        let pair = Pair::newest(rows).unwrap();
        assert_eq!((&*pair.user, &*pair.assistant), ("Which berth has shore power?", "Berth 7 has it."));
        // Until there is an answer, there is no pair.
        assert_eq!(Pair::newest(&rows[..3]), Err(MemorySkip::NoPair));
        assert_eq!(Pair::newest(&rows[..2]), Err(MemorySkip::NoPair));
        // Who says something with the results asks.
        let mut with_words = rows.clone();
        with_words[2]["content"].as_array_mut().unwrap().push(json!({"type": "text", "text": "And the price?"}));
        assert_eq!(Pair::newest(&with_words).unwrap().user, "And the price?");
    }

    #[test]
    fn each_pair_has_a_distinct_id_unaffected_by_truncated_history() {
        let id = |rows: &[(&str, &str)]| Pair::newest(&messages(rows)).unwrap().id();
        let once = [("user", "yes"), ("assistant", "ok")];
        let before = [("user", "older"), ("assistant", "x")];
        assert_eq!(id(&once), id(&[&before[..], &once].concat()), "what stands before may be cut away");
        let others = [
            id(&once),
            id(&[once, once].concat()),
            id(&[("user", "yeso"), ("assistant", "k")]),
            id(&[("user", "ok"), ("assistant", "yes")]),
        ];
        assert_eq!(others.iter().collect::<std::collections::BTreeSet<_>>().len(), others.len());
        assert!(others.iter().all(|id| id.starts_with("mem-") && id.len() == 56));
    }
}
