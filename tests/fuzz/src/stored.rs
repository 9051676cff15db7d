//! Foreign data in a session's keys and history: enrichment attaches what is valid JSON, a summary
//! counts all that there was, and neither grows without bound.

use keepline_filter::admin;
use std::collections::BTreeMap;

use keepline_filter::values::history_summary;
use keepline_filter::{AnswerEntry, Config, Context, Effect, Filter, QuestionEntry};
use serde_json::Value;

use crate::{is_json, test_host::TestHost, tree};

const METADATA: &str = r#"{"session_id":"s"}"#;
const MOST: u64 = (1 << 53) - 1;

/// Parts between bytes of 0xff: values under keys that need not be any, and records of the history.
pub fn holds(data: &[u8]) {
    let host = TestHost::new();
    let config = Config { max_history: 4, ..Config::default() };
    let filter = Filter::new(&host, config.clone());
    filter.question(&QuestionEntry { metadata: METADATA, ..QuestionEntry::default() });
    let mut records = Vec::new();
    for part in data.split(|byte| *byte == 0xff) {
        match part {
            [b'=', rest @ ..] => {
                let key: Vec<u8> = rest.iter().copied().take_while(|byte| *byte != b'=').collect();
                let value = rest.get(key.len() + 1..).unwrap_or_default();
                host.set("s", &String::from_utf8_lossy(&key), value);
            }
            record => {
                let record = String::from_utf8_lossy(record).into_owned();
                host.push("s", &record);
                records.push(record);
            }
        }
    }
    enrichment(&host, &filter);
    summary(&records);
    let before = host.values("s").remove("answer_count");
    for round in 0..4 {
        let reply = filter.answer(&AnswerEntry { text: "said", metadata: METADATA, ..AnswerEntry::default() });
        // A counter that is none is left alone, and told: the answer is stored without it.
        let counts = before.as_deref().is_none_or(|value| {
            std::str::from_utf8(value).is_ok_and(|text| {
                text.parse::<i64>().is_ok_and(|count| count < i64::MAX - 4 && count.to_string() == text)
            })
        });
        assert_eq!((reply.effect, reply.problem.is_none()), (Effect::Stored, counts), "{round}: {reply:?}");
    }
    let history = host.history("s");
    assert!(history.len() <= records.len().max(4) + 8);
    for record in &history {
        assert!(records.contains(record) || is_json(record), "{record}");
    }
    let sessions = Context::new(&host, config);
    for record in admin::read_history(&sessions, "s", None, 0).unwrap().records {
        assert!(record.key.is_none_or(|key| key.len() <= 300_000));
    }
    for (_, _, line) in host.lines.borrow().iter() {
        assert!(line.len() < 5000, "{line}");
    }
}

fn enrichment(host: &TestHost, filter: &Filter<&TestHost>) {
    let reply = filter.question(&QuestionEntry { metadata: METADATA, ..QuestionEntry::default() });
    let values = host.values("s");
    let good: BTreeMap<String, String> = values
        .into_iter()
        .filter(|(key, _)| is_key(key))
        .filter_map(|(key, value)| Some((key, String::from_utf8(value).ok()?)))
        .filter(|(_, value)| is_json(value) && is_portable(value))
        .collect();
    let Some(metadata) = reply.metadata else {
        return assert!(good.is_empty() && reply.effect == Effect::Resumed, "{reply:?}");
    };
    assert!(is_json(&metadata) && !metadata.contains(['\n', '\r']), "{metadata}");
    assert_eq!((reply.effect, reply.attached as usize), (Effect::Enriched, good.len()));
    let mut context = "";
    keepline_json::for_each_member(&metadata, |key, value| {
        if key == "\"memory_context\"" {
            context = value;
        }
    })
    .unwrap();
    let mut attached = BTreeMap::new();
    keepline_json::for_each_member(context, |key, value| {
        attached.insert(key.trim_matches('"').to_owned(), value.to_owned());
    })
    .unwrap();
    assert!(attached.keys().eq(good.keys()));
    for (key, value) in &good {
        assert_eq!(tree(value), tree(&attached[key]), "{key}");
    }
}

/// Whether strict readers take a JSON value as a part of a line: up to 120 levels, numbers of up to 100 characters, and no
/// half of a surrogate pair.
fn is_portable(json: &str) -> bool {
    let (mut depth, mut deepest, mut longest_number) = (0_usize, 0, 0);
    let mut rest = json;
    while let Some(first) = rest.chars().next() {
        let mut length = first.len_utf8();
        match first {
            '"' => {
                let mut escaped = false;
                let end = rest[1..].find(|c| {
                    let is_end = c == '"' && !escaped;
                    escaped = c == '\\' && !escaped;
                    is_end
                });
                length = end.unwrap() + 2;
                // serde_json refuses one with half a pair.
                if serde_json::from_str::<String>(&rest[..length]).is_err() {
                    return false;
                }
            }
            '[' | '{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            ']' | '}' => depth -= 1,
            '-' | '0'..='9' => {
                length = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c)).unwrap_or(rest.len());
                longest_number = longest_number.max(length);
            }
            _ => {}
        }
        rest = &rest[length..];
    }
    deepest <= 120 && longest_number <= 100
}

/// The rule as the contract tells it.
fn is_key(key: &str) -> bool {
    (1..=256).contains(&key.len())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
        && !(key.starts_with("__") && key.ends_with("__"))
}

fn summary(records: &[String]) {
    let read = |summary: &str| serde_json::from_str::<Value>(summary).unwrap();
    let text = history_summary::summarize_history(records, "1.0");
    assert!(text.len() < 100_000);
    let whole = read(&text);
    let count = whole["summarized_count"].as_u64().unwrap();
    let named = whole["op_counts"].as_object().unwrap().values().map(|count| count.as_u64().unwrap());
    let named = named.fold(0, u64::saturating_add);
    assert!(named == count || count == MOST, "{whole}");
    assert!(count == MOST || count <= MOST);
    // In two steps it comes to the same.
    let (first, rest) = records.split_at(records.len() / 2);
    let mut steps = vec![history_summary::summarize_history(first, "1.0")];
    steps.extend_from_slice(rest);
    assert_eq!(read(&history_summary::summarize_history(&steps, "1.0"))["summarized_count"], whole["summarized_count"]);
}
