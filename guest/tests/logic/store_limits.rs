//! The filter keeps to limits that a store reports. The test host fails a call that exceeds one.

use keepline_filter::admin;
use keepline_filter::contract::{StoreLimits, StoreProfile};
use keepline_filter::transcript::address::TranscriptId;
use keepline_filter::{AnswerEntry, Config, Context, Effect, Filter, QuestionEntry, ToolActivity};

use crate::admin_calls::set_messages;
use crate::test_host::TestHost;

const S: &str = r#"{"session_id":"s"}"#;

const S_TRANSCRIPT: TranscriptId<'static> = TranscriptId { session: "s", app_id: None, node_id: None };

/// The lowest that a store may have.
const FLOOR: StoreLimits = StoreLimits {
    text_bytes: 16 << 10,
    record_bytes: 16 << 10,
    call_bytes: 256 << 10,
    call_pieces: 1000,
    values: 1000,
    transactions: 16,
    call_terms: 8192,
    search_terms: 64,
    remove_runs: 32,
};

fn host(limits: StoreLimits) -> TestHost {
    let host = TestHost::new();
    host.profile.set(Some(StoreProfile { limits, ..StoreProfile::default() }));
    host
}

#[test]
fn an_answer_longer_than_a_text_of_the_store_is_stored_with_a_note_of_what_is_missing() {
    let host = host(StoreLimits { text_bytes: 64 << 10, record_bytes: 64 << 10, ..StoreLimits::default() });
    let filter = Filter::new(&host, Config::parse_for(&&host, "{}").unwrap().0);
    let asked = filter.question(&QuestionEntry { text: "q", metadata: S, ..QuestionEntry::default() });
    let text = "é\"".repeat(100_000);
    let answer = AnswerEntry { text: &text, metadata: "{}", turn: &asked.turn, ..AnswerEntry::default() };
    assert_eq!(filter.answer(&answer).effect, Effect::Stored);
    let kept = host.get("s", "last_answer").unwrap();
    assert!(kept.len() <= 64 << 10 && kept.len() > 63 << 10, "{}", kept.len());
    let kept: String = serde_json::from_str(&kept).unwrap();
    assert!(kept.starts_with("é\"é\"") && kept.ends_with("characters left out …]"), "{:.60}", kept);
}

#[test]
fn a_conversation_keeps_to_the_lowest_limits() {
    let host = host(FLOOR);
    let options = r#"{"conversation": true, "recall": "session", "max_session_messages": 100, "recall_vectors": true}"#;
    let config = Config::parse_for(&&host, options).unwrap().0;
    let filter = Filter::new(&host, config.clone());
    for number in 0..12 {
        let question = format!("What is {number}? {}", "Why is the sea blue? ".repeat(40_000));
        let asked = filter.question(&QuestionEntry { text: &question, metadata: S, ..QuestionEntry::default() });
        let output = format!("Result {number}: {}", "\u{1}line\n".repeat(50_000));
        let names: Vec<String> = (0..400).map(|call| format!("call-{number}-{call}")).collect();
        let details = format!(r#"{{"model":"{}","raw":"{}"}}"#, "m".repeat(3000), "r".repeat(3000));
        let activity = |call_id| ToolActivity {
            call_id,
            name: "search",
            arguments: Some(r#"{"query":"sea"}"#),
            output: Some(&output),
            error: None,
            details: &details,
        };
        let activity: Vec<_> = names.iter().map(|name| activity(name)).collect();
        let text = "Because it is deep, and the sky is in it. ".repeat(20_000);
        let step =
            AnswerEntry { text: &text, metadata: "{}", turn: &asked.turn, details: &details, ..AnswerEntry::default() };
        let answer = AnswerEntry { question_text: &question, activity: &activity, ..step };
        let reply = filter.answer(&answer);
        assert_eq!(reply.effect, Effect::Stored, "{:?}", reply.problem);
        let mut due = reply.due;
        for _ in 0..200 {
            let Some(task) = due.pop() else { break };
            let job = keepline_filter::tasks::job::Job {
                buckets: &task.buckets,
                name: &task.name,
                state: &task.state,
                holder: "h",
                lease_milliseconds: 1000,
                results: &[],
            };
            let progress = filter.advance(&job);
            assert_eq!(progress.problem, None, "{}", task.name);
            if progress.step == keepline_filter::tasks::job::Step::Again {
                due.push(keepline_filter::Task { state: progress.state.unwrap_or(task.state), ..task });
            }
        }
    }
    let question = (0..300).map(|word| format!("word{word}")).collect::<Vec<_>>().join(" ");
    filter.question(&QuestionEntry { text: &question, metadata: S, ..QuestionEntry::default() });
    admin::clear_messages(&Context::new(&host, config), &S_TRANSCRIPT, None).unwrap();
}

#[test]
fn messages_that_are_set_keep_to_the_lowest_limits_or_are_refused_by_name() {
    let host = host(FLOOR);
    let config = Config::parse_for(&&host, r#"{"conversation": true}"#).unwrap().0;
    let sessions = Context::new(&host, config);
    admin::create_session(&sessions, "s").unwrap();
    let (mut set, mut refused) = (0, 0);
    for count in [1, 440, 880, 900, 901, 2_000] {
        for has_ids in [false, true] {
            for length in [10, 3_000] {
                for is_added in [false, true] {
                    let message = |number: usize| {
                        let id = has_ids.then(|| format!("{count}-{length}-{is_added}-{number}"));
                        let role = if number.is_multiple_of(2) { "user" } else { "assistant" };
                        let text = "x".repeat(length);
                        serde_json::json!({"role": role, "content": text, "id": id}).to_string()
                    };
                    let texts: Vec<String> = (0..count).map(message).collect();
                    let next = is_added.then(|| admin::describe_transcript(&sessions, &S_TRANSCRIPT).unwrap().next);
                    match set_messages(&sessions, &S_TRANSCRIPT, &texts, next) {
                        Ok(messages) => {
                            assert_eq!(messages, count as u64);
                            set += 1;
                        }
                        Err(problem) => {
                            assert_eq!(
                                (&*problem.code, &*problem.subject),
                                ("limit", "call-pieces"),
                                "{count} {has_ids}"
                            );
                            refused += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(set > 20 && refused > 0, "{set} {refused}");
}
