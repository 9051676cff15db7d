//! Messages whose content is a list of parts.

use keepline_filter::conversation::{desk::Transcript, record::Record, tokens};
use keepline_filter::{Config, Sessions};
use serde_json::{Value, json};

use super::{ask, attached, entry, filter, messages, s, transcript};
use crate::fake::Fake;

const S: Transcript<'static> = Transcript { session: "s", app_id: None, node_id: None };

/// A fake with these messages, imported under these options.
fn imported(options: &str, given: &[Value]) -> Fake {
    let fake = Fake::new();
    let config = Config::parse(&format!("{{\"conversation\": true, {options}}}")).unwrap();
    let sessions = Sessions::new(&fake, config);
    sessions.create("s").unwrap();
    let given: Vec<String> = given.iter().map(Value::to_string).collect();
    assert_eq!(sessions.set_messages(&S, &given, None), Ok(given.len() as u64));
    fake
}

fn said(role: &str, text: &str) -> Value {
    json!({"role": role, "content": [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": text}]})
}

/// What a text or parts count for.
fn shown_tokens(messages: &Value) -> u64 {
    let content = |message: &Value| match &message["content"] {
        Value::String(text) => tokens::of(text),
        content => tokens::of(&content.to_string()),
    };
    messages.as_array().unwrap().iter().map(|message| content(message) + tokens::MESSAGE).sum()
}

#[test]
fn parts_weigh_what_their_text_does_and_windows_keep_to_the_budget() {
    let options = r#""max_context_tokens": 1000, "max_message_length": 0"#;
    let given: Vec<Value> = (0..40).map(|n| said(["user", "assistant"][n % 2], &"long ".repeat(3600))).collect();
    let fake = imported(options, &given);
    for record in transcript(&fake, "s") {
        assert_eq!(record["weight"], tokens::of(&record["content"].to_string()) + tokens::MESSAGE);
    }
    let check = |fake: &Fake| {
        let shown = attached(&ask(&filter(fake, options), "?", &s()), "memory_messages");
        assert!(shown_tokens(&shown) <= 1000, "{}", shown_tokens(&shown));
        // The newest turn, as what of its texts fits.
        let texts: Vec<&str> = shown.as_array().unwrap().iter().map(|one| one["content"].as_str().unwrap()).collect();
        assert!(texts.len() == 2 && texts.iter().all(|text| text.starts_with("long long ") && text.len() > 1000));
    };
    check(&fake);

    // Those of an earlier version were stored as if they weighed nothing.
    let mut buckets = fake.buckets.borrow_mut();
    let (_, records) = buckets.get_mut("s").unwrap().logs.get_mut("transcript").unwrap();
    for text in records.iter_mut() {
        let mut record = Record::parse(text).unwrap();
        record.weight = tokens::MESSAGE;
        let written = record.write();
        *text = written;
    }
    drop(buckets);
    check(&fake);
}

#[test]
fn short_parts_are_shown_as_they_are_and_their_texts_are_read() {
    let fake =
        imported(r#""max_context_tokens": 1000"#, &[said("user", "Where is it?"), said("assistant", "In Bonn.")]);
    assert_eq!(entry(&fake, "session", "title").as_deref(), Some("Where is it?"));
    let shown = attached(&ask(&filter(&fake, ""), "?", &s()), "memory_messages");
    assert_eq!(shown[1]["content"], said("", "In Bonn.")["content"]);
    let shown = attached(&ask(&filter(&fake, r#""window_form": "text""#), "?", &s()), "memory_messages");
    assert_eq!(shown, "Human: Where is it?\nAssistant: In Bonn.");
}

#[test]
fn their_texts_are_stored_by_the_rules_of_texts() {
    let options = r#""max_message_length": 10, "strip_thinking": true, "redact": ["sk-{w6+}"]"#;
    let image = json!({"type": "image", "source": "x"});
    let text = |text: &str| json!({"type": "text", "text": text});
    let content = json!([text("<think>hm</think>12345"), image, text("678"), text("90 and more"), text("more")]);
    let secret = json!([text("a sk-1234567"), image]);
    let fake = imported(
        options,
        &[
            json!({"role": "user", "content": secret}),
            json!({"role": "assistant", "content": content, "tokens": 7}),
            json!({"role": "user", "content": [text("0123456789"), image]}),
        ],
    );
    let records = transcript(&fake, "s");
    assert_eq!(records[0]["content"], json!([text("a [redacte"), image]));
    assert_eq!(records[1]["content"], json!([text("12345"), image, text("678"), text("90")]));
    let marks: Vec<bool> = records.iter().map(|record| record["truncated"] == true).collect();
    assert_eq!((marks, &records[1]["tokens"]), (vec![true, true, false], &Value::Null));
    assert_eq!(entry(&fake, "session", "title").as_deref(), Some("a [redacte"));
}

#[test]
fn a_result_that_is_parts_is_cut_to_a_preview() {
    let long = (0..2000).map(|line| format!("line {line}\n")).collect::<String>();
    let text = |text: &str| json!({"type": "text", "text": text});
    let fake = imported(
        r#""max_context_tokens": 4000"#,
        &[
            json!({"role": "user", "content": "?"}),
            json!({"role": "assistant", "tool": {"call_id": "c", "name": "n", "arguments": "{}"}}),
            json!({"role": "tool", "content": [text(&long), {"type": "image"}, text("end")], "tool": {"call_id": "c"}}),
            json!({"role": "assistant", "content": "!"}),
        ],
    );
    let record = &transcript(&fake, "s")[2];
    let preview = record["content"][0]["text"].as_str().unwrap();
    assert!(preview.len() <= 1600 && preview.starts_with("line 0\n") && preview.ends_with("\nend"), "{preview}");
    assert_eq!((&record["content"][1], &record["content"][2]), (&json!({"type": "image"}), &Value::Null));
    let key = record["tool"]["whole"].as_str().unwrap();
    assert_eq!(entry(&fake, "results", key).unwrap(), [&*long, "end"].join("\n"));
    // In a small window it is cut further, to what of its text fits.
    let shown = messages(&ask(&filter(&fake, r#""max_context_tokens": 200"#), "?", &s()));
    assert!(shown[2].starts_with("tool: line 0") && shown[2].len() < 800, "{shown:?}");
}
