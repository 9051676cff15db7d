//! Messages whose content is a list of parts.

use crate::admin_calls as admin;
use keepline_filter::text::tokens;
use keepline_filter::transcript::address::TranscriptId;
use keepline_filter::transcript::record::StoredRecord;
use keepline_filter::{Config, Context};
use serde_json::{Value, json};

use crate::conversation::{STORED, ask, attached, entry, filter, messages, reply, s, transcript};
use crate::test_host::TestHost;

const S: TranscriptId<'static> = TranscriptId { session: "s", app_id: None, node_id: None };

/// A host with these messages, imported under these options.
fn imported(options: &str, given: &[Value]) -> TestHost {
    let host = TestHost::new();
    let config = Config::parse(&format!("{{\"conversation\": true, {options}}}")).unwrap();
    let sessions = Context::new(&host, config);
    admin::create_session(&sessions, "s").unwrap();
    let given: Vec<String> = given.iter().map(Value::to_string).collect();
    assert_eq!(admin::set_messages(&sessions, &S, &given, None), Ok(given.len() as u64));
    host
}

fn said(role: &str, text: &str) -> Value {
    json!({"role": role, "content": [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": text}]})
}

/// What a text or parts count for.
fn shown_tokens(messages: &Value) -> u64 {
    let content = |message: &Value| match &message["content"] {
        Value::String(text) => tokens::estimate_tokens(text),
        content => {
            let parts = content.as_array().unwrap();
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            tokens::estimate_tokens(&texts.join("\n")) + tokens::IMAGE_TOKENS * (parts.len() - texts.len()) as u64
        }
    };
    messages.as_array().unwrap().iter().map(|message| content(message) + tokens::MESSAGE_TOKENS).sum()
}

#[test]
fn parts_weigh_what_their_text_does_and_windows_keep_to_the_budget() {
    let options = r#""max_context_tokens": 1000, "max_message_length": 0"#;
    let given: Vec<Value> = (0..40).map(|n| said(["user", "assistant"][n % 2], &"long ".repeat(3600))).collect();
    let host = imported(options, &given);
    for record in transcript(&host, "s") {
        let text = record["content"][1]["text"].as_str().unwrap();
        assert_eq!(record["weight"], tokens::estimate_tokens(text) + tokens::IMAGE_TOKENS + tokens::MESSAGE_TOKENS);
    }
    let check = |host: &TestHost| {
        let shown = attached(&ask(&filter(host, options), "?", &s()), "memory_messages");
        assert!(shown_tokens(&shown) <= 1000, "{}", shown_tokens(&shown));
        // The newest turn, as what of its texts fits.
        let texts: Vec<&str> = shown.as_array().unwrap().iter().map(|one| one["content"].as_str().unwrap()).collect();
        assert!(texts.len() == 2 && texts.iter().all(|text| text.starts_with("long long ") && text.len() > 1000));
    };
    check(&host);

    // Those of an earlier version were stored as if they weighed nothing.
    let mut buckets = host.buckets_mut();
    let (_, records) = buckets.get_mut("s").unwrap().logs.get_mut("transcript").unwrap();
    for text in records.iter_mut() {
        let mut record = StoredRecord::parse(text).unwrap();
        record.weight = tokens::MESSAGE_TOKENS;
        let written = record.write();
        *text = written;
    }
    drop(buckets);
    check(&host);
}

#[test]
fn parts_are_shown_unchanged_and_as_text_in_a_text_window() {
    let host =
        imported(r#""max_context_tokens": 3000"#, &[said("user", "Where is it?"), said("assistant", "In Bonn.")]);
    assert_eq!(entry(&host, "session", "title").as_deref(), Some("Where is it?"));
    let shown = attached(&ask(&filter(&host, ""), "?", &s()), "memory_messages");
    assert_eq!(shown[1]["content"], said("", "In Bonn.")["content"]);
    let shown = attached(&ask(&filter(&host, r#""window_form": "text""#), "?", &s()), "memory_messages");
    assert_eq!(shown, "Human: [image]\n  Where is it?\nAssistant: [image]\n  In Bonn.");
}

#[test]
fn text_parts_are_cut_redacted_and_stripped_like_plain_texts() {
    let options = r#""max_message_length": 10, "strip_thinking": true, "redact": ["sk-{w6+}"]"#;
    let image = json!({"type": "image", "source": "x"});
    let text = |text: &str| json!({"type": "text", "text": text});
    let content = json!([text("<think>hm</think>12345"), image, text("678"), text("90 and more"), text("more")]);
    let secret = json!([text("a sk-1234567"), image]);
    let host = imported(
        options,
        &[
            json!({"role": "user", "content": secret}),
            json!({"role": "assistant", "content": content, "tokens": 7}),
            json!({"role": "user", "content": [text("0123456789"), image]}),
        ],
    );
    let records = transcript(&host, "s");
    assert_eq!(records[0]["content"], json!([text("a [redacte"), image]));
    assert_eq!(records[1]["content"], json!([text("12345"), image, text("678"), text("90")]));
    let marks: Vec<bool> = records.iter().map(|record| record["truncated"] == true).collect();
    assert_eq!((marks, &records[1]["tokens"]), (vec![true, true, false], &Value::Null));
    assert_eq!(entry(&host, "session", "title").as_deref(), Some("a [redacte"));
}

fn picture(bytes: usize) -> Value {
    let url = format!("data:image/png;base64,{}", "iVBORw0K".repeat(bytes / 8));
    json!({"type": "image_url", "image_url": {"url": url}})
}

#[test]
fn images_of_any_size_have_the_same_token_weight() {
    let mut given = vec![json!({"role": "user", "content": [{"type": "text", "text": "Look"}, picture(225_000)]})];
    let role = |n: usize| ["assistant", "user"][n % 2];
    given.extend((0..40).map(|n| json!({"role": role(n), "content": format!("message {n}")})));
    let host = imported(r#""summaries": true"#, &given);
    let shown = attached(&ask(&filter(&host, ""), "?", &s()), "memory_messages");
    assert_eq!(shown.as_array().unwrap().len(), 41);
    assert_eq!(shown[0]["content"], given[0]["content"]);
    assert!(transcript(&host, "s")[0]["weight"].as_u64().unwrap() < 2 * tokens::IMAGE_TOKENS);

    // One that no record can hold refuses nothing: a text stands in its place, and says so.
    let text = json!({"type": "text", "text": "Look"});
    let huge = json!({"role": "user", "content": [text, picture(3 << 20), picture(800)]});
    let host = imported(r#""summaries": true"#, &[huge, json!({"role": "assistant", "content": "A lamp."})]);
    let record = &transcript(&host, "s")[0];
    assert_eq!((&record["content"][0], &record["truncated"]), (&text, &json!(true)));
    let note = record["content"][1]["text"].as_str().unwrap();
    assert!(note.starts_with("[A part of type image_url, 31") && note.contains("left out"), "{note}");
    assert_eq!(record["content"][2], picture(800));
}

#[test]
fn images_count_against_the_budget_also_where_the_host_counts_texts() {
    let host = TestHost::new();
    let options = r#""max_context_tokens": 4000"#;
    let filter = filter(&host, options);
    for number in 0..40 {
        let asked = ask(&filter, "Look", &json!({"session_id": "s", "files": [{"type": "image", "id": number}]}));
        let counted = keepline_filter::AnswerEntry {
            text: "Nice.",
            metadata: "{}",
            turn: &asked.turn,
            question_text: "Look",
            question_tokens: Some(1),
            tokens: Some(2),
            ..Default::default()
        };
        assert_eq!(filter.answer(&counted).effect, STORED);
    }
    let shown = attached(&ask(&filter, "?", &s()), "memory_messages");
    let images = shown.to_string().matches("\"type\":\"file\"").count();
    assert!((1..=3).contains(&images), "{images}");
}

#[test]
fn a_message_of_parts_in_an_entry_is_stored_as_parts() {
    let host = TestHost::new();
    let filter = filter(&host, r#""redact": ["sk-{w6+}"], "strip_thinking": true"#);
    let question = json!([{"type": "text", "text": "Look at sk-1234567"}, picture(90_000)]);
    let thought = json!({"type": "thinking", "thinking": "hm", "signature": "x"});
    let answer = json!([thought, {"type": "text", "text": "A lamp."}]);
    let asked = ask(&filter, &question.to_string(), &s());
    assert_eq!(reply(&filter, &question.to_string(), &answer.to_string(), &asked.turn).effect, STORED);
    let kept = json!([{"type": "text", "text": "Look at [redacted]"}, picture(90_000)]);
    let records = transcript(&host, "s");
    assert_eq!((&records[0]["content"], &records[0]["truncated"]), (&kept, &Value::Null));
    assert_eq!(records[1]["content"], json!([{"type": "text", "text": "A lamp."}]));
    assert_eq!(entry(&host, "session", "title").as_deref(), Some("Look at [redacted]"));
    assert_eq!(host.get("s", "last_answer").unwrap(), r#""A lamp.""#);
    let shown = attached(&ask(&filter, "?", &s()), "memory_messages");
    assert_eq!(shown[0]["content"], kept);
    // An answer of thoughts alone says nothing; one of a picture does.
    let thoughts = json!([thought]).to_string();
    assert_eq!(reply(&filter, "", &thoughts, &ask(&filter, "?", &s()).turn).problem.unwrap().code, "blank");
    let drawn = json!([picture(80)]).to_string();
    assert_eq!(reply(&filter, "Draw", &drawn, &ask(&filter, "Draw", &s()).turn).effect, STORED);
    assert_eq!(transcript(&host, "s")[3]["content"], json!([picture(80)]));
    // What is no content of a message stays a text.
    let text = r#"[{"type": "tool_result", "content": "x"}]"#;
    reply(&filter, text, "No.", &ask(&filter, text, &s()).turn);
    assert_eq!(transcript(&host, "s")[4]["content"], text);
}

#[test]
fn a_cut_message_ends_with_a_note() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_message_length": 1000, "max_context_tokens": 100000"#);
    let long = "word ".repeat(1000);
    reply(&filter, &long, &long, &ask(&filter, &long, &s()).turn);
    for record in transcript(&host, "s") {
        let text = record["content"].as_str().unwrap();
        assert!(text.ends_with("\n[… 4048 characters left out …]") && text.chars().count() <= 1000, "{text}");
        assert_eq!(record["truncated"], true);
    }
}

#[test]
fn a_result_that_is_parts_is_cut_to_a_preview() {
    let long = (0..2000).map(|line| format!("line {line}\n")).collect::<String>();
    let text = |text: &str| json!({"type": "text", "text": text});
    let host = imported(
        r#""max_context_tokens": 4000"#,
        &[
            json!({"role": "user", "content": "?"}),
            json!({"role": "assistant", "tool": {"call_id": "c", "name": "n", "arguments": "{}"}}),
            json!({"role": "tool", "content": [text(&long), {"type": "image"}, text("end")], "tool": {"call_id": "c"}}),
            json!({"role": "assistant", "content": "!"}),
        ],
    );
    let record = &transcript(&host, "s")[2];
    let preview = record["content"][0]["text"].as_str().unwrap();
    assert!(preview.len() <= 1600 && preview.starts_with("line 0\n") && preview.ends_with("\nend"), "{preview}");
    assert_eq!((&record["content"][1], &record["content"][2]), (&json!({"type": "image"}), &Value::Null));
    let key = record["tool"]["whole"].as_str().unwrap();
    assert_eq!(entry(&host, "results", key).unwrap(), [&*long, "end"].join("\n"));
    // In a small window it is cut further, to what of its text fits.
    let shown = messages(&ask(&filter(&host, r#""max_context_tokens": 200"#), "?", &s()));
    assert!(shown[2].starts_with("tool: line 0") && shown[2].len() < 800, "{shown:?}");
}
