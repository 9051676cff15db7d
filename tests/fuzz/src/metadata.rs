//! Metadata: nothing but the filter's own members changes, and JSON stays JSON.

use keepline_filter::entry::metadata::{EntryMetadata, EntrySession};
use keepline_filter::text::ids::SessionIds;
use keepline_json::for_each_member;
use serde_json::Value;

use crate::{is_json, is_session, tree};

const NEW: &str = r#"{"k": [1]}"#;

/// What a client can't bring along, by the contract's own words.
const OWN: [&str; 7] = [
    "memory_context",
    "memory_messages",
    "memory_summary",
    "memory_recall",
    "memory_trace",
    "memory_sections",
    "memory_model",
];

pub fn holds(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for unbound in [false, true] {
        one(text, unbound);
    }
}

fn one(text: &str, unbound: bool) {
    let metadata = EntryMetadata::parse(text, unbound, SessionIds::Strict);
    let stripped = metadata.stripped();
    let is_readable = is_json(&strictly(text));
    let is_object = is_readable && strictly(text).trim_start().starts_with('{');
    if !is_object {
        assert_eq!(metadata.session, EntrySession::None);
        // What nobody can read is let through, or nothing of it is.
        assert_eq!(stripped.as_deref(), metadata.withheld.then_some("{}"));
        assert!(!metadata.withheld || (unbound && !is_readable));
        assert!(!unbound || is_readable || metadata.withheld || !OWN.iter().any(|own| text.contains(own)));
        return;
    }
    if let Some(tree) = tree(text) {
        session_is_the_tree_s(&metadata.session, &tree["session_id"]);
    }
    let mut kept: Vec<_> = pairs(text);
    let all = kept.len();
    kept.retain(|(key, _)| !spells_own(key));
    match &stripped {
        Some(stripped) => {
            assert!(kept.len() < all && is_json(&strictly(stripped)) && is_part(stripped, text), "{stripped}");
            assert_eq!(pairs(stripped), kept);
            assert_eq!(EntryMetadata::parse(stripped, true, SessionIds::Strict).stripped(), None);
        }
        None => assert!(kept.len() == all || (!unbound && metadata.session == EntrySession::None)),
    }
    if matches!(metadata.session, EntrySession::Named(_)) {
        let enriched = metadata.enriched(NEW.len(), |out| out.push_str(NEW));
        assert!(is_json(&strictly(&enriched)), "{enriched}");
        let base = stripped.as_deref().unwrap_or(text);
        let comma = if kept.is_empty() { "" } else { "," };
        let inserted = format!("{comma}\"memory_context\":{NEW}");
        let at = enriched.rfind(&inserted).unwrap();
        assert_eq!([&enriched[..at], &enriched[at + inserted.len()..]].concat(), base);
        kept.push(("\"memory_context\"", NEW));
        assert_eq!(pairs(&enriched), kept);
    }
}

/// The words that Python writes and JSON does not know are a value that it knows, in texts too: one with which nothing
/// before it becomes an escape or a longer number.
fn strictly(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.replace("-Infinity", "[]").replace("Infinity", "[]").replace("NaN", "[]")
}

fn pairs(text: &str) -> Vec<(&str, &str)> {
    let mut pairs = Vec::new();
    for_each_member(text, |key, value| pairs.push((key, value))).unwrap();
    pairs
}

fn spells_own(key: &str) -> bool {
    serde_json::from_str::<String>(key).is_ok_and(|key| OWN.contains(&&*key))
}

/// Whether it comes about by leaving out.
fn is_part(part: &str, whole: &str) -> bool {
    let mut whole = whole.bytes();
    part.bytes().all(|byte| whole.any(|other| other == byte))
}

fn session_is_the_tree_s(session: &EntrySession<'_>, value: &Value) {
    match (session, value) {
        (EntrySession::Named(name), Value::String(value)) => assert!(name == value && is_session(name)),
        (EntrySession::Named(_), _) => panic!("a session that is no text: {value}"),
        (EntrySession::Malformed { shown, .. }, Value::String(value)) => {
            assert!(!value.is_empty() && !is_session(value));
            assert!(shown.len() < 1000 && !shown.contains(|c: char| c.is_control()), "{shown}");
        }
        (EntrySession::None, Value::String(value)) => assert_eq!(value, ""),
        (_, Value::Null | Value::Bool(false)) => assert_eq!(session, &EntrySession::None),
        (_, Value::Bool(true)) => assert!(matches!(session, EntrySession::Malformed { .. })),
        (_, Value::Number(number)) => {
            assert_eq!(session == &EntrySession::None, number.as_f64() == Some(0.0), "{number}")
        }
        (_, Value::Array(items)) => assert_eq!(session == &EntrySession::None, items.is_empty()),
        (_, Value::Object(items)) => assert_eq!(session == &EntrySession::None, items.is_empty()),
    }
}
