//! Further answers to a question whose message is not in the transcript, or far from what is read first.

use crate::admin_calls as admin;
use keepline_filter::transcript::address::TranscriptId;
use keepline_filter::{AnswerEntry, AnswerReply, Context, Effect, Filter, ToolActivity};
use serde_json::json;

use crate::conversation::{STORED, act, ask, call, filter, messages, reply, result, s, say, transcript};
use crate::test_host::TestHost;

fn answer(filter: &Filter<&TestHost>, question: &str, text: &str, turn: &str, id: Option<&str>) -> AnswerReply {
    let metadata = id.map_or_else(|| json!({}), |id| json!({"message_id": id}));
    say(filter, question, text, turn, &metadata)
}

#[test]
fn every_answer_to_a_question_without_a_text_is_stored() {
    for has_ids in [true, false] {
        let host = TestHost::new();
        let filter = filter(&host, "");
        let turn = ask(&filter, "", &s()).turn;
        for number in 0..5 {
            let id = format!("a{number}");
            let told = answer(&filter, "", &format!("answer {number}"), &turn, has_ids.then_some(&*id));
            assert_eq!((told.effect, told.problem), (STORED, None), "{number}");
        }
        assert_eq!(host.get("s", "answer_count").unwrap(), "5");
        let expected: Vec<_> = (0..5).map(|number| format!("assistant: answer {number}")).collect();
        assert_eq!(messages(&ask(&filter, "?", &s()))[1..], expected);
        // A retry with its id is none.
        let again = answer(&filter, "", "answer 3", &turn, Some("a3")).effect;
        assert_eq!(again, if has_ids { Effect::Repeated } else { STORED });
    }
}

#[test]
fn an_answer_without_its_question_s_message_stays_on_its_own_branch() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    crate::conversation::turn(&filter, "1", None);
    crate::conversation::turn(&filter, "2", None);
    let branch = json!({"session_id": "s", "parent_message_id": "a1", "memory": {"write": false}});
    let turn = ask(&filter, "secret", &branch).turn;
    assert_eq!(answer(&filter, "secret", "one", &turn, Some("b1")).effect, STORED);
    crate::conversation::turn(&filter, "3", Some("a2"));
    assert_eq!(answer(&filter, "", "two", &turn, Some("b2")).effect, STORED);
    let after = messages(&ask(&filter, "?", &json!({"session_id": "s", "parent_message_id": "b2"})));
    assert_eq!(after, ["user: question 1", "assistant: answer 1", "assistant: one", "assistant: two"]);
}

#[test]
fn answers_after_a_change_of_the_transcript_are_stored() {
    let set = |sessions: &Context<&TestHost>, transcript: &TranscriptId<'_>| {
        let record = json!({"role": "user", "content": "imported"}).to_string();
        admin::set_messages(sessions, transcript, &[record], None).unwrap();
    };
    let clear = |sessions: &Context<&TestHost>, transcript: &TranscriptId<'_>| {
        admin::clear_messages(sessions, transcript, None).unwrap();
    };
    let remove = |sessions: &Context<&TestHost>, transcript: &TranscriptId<'_>| {
        admin::rewrite_message(sessions, transcript, 0, None).unwrap();
    };
    type Change<'a> = &'a dyn Fn(&Context<&TestHost>, &TranscriptId<'_>);
    let changes: [Change<'_>; 3] = [&set, &clear, &remove];
    for (number, change) in changes.into_iter().enumerate() {
        for has_ids in [true, false] {
            let host = TestHost::new();
            let filter = filter(&host, "");
            let turn = ask(&filter, "1", &s()).turn;
            let id = |id: &'static str| has_ids.then_some(id);
            assert_eq!(answer(&filter, "1", "one", &turn, id("a")).effect, STORED);
            let config = keepline_filter::Config::parse(r#"{"conversation": true}"#).unwrap();
            let transcript = TranscriptId { session: "s", app_id: None, node_id: None };
            change(&Context::new(&host, config), &transcript);
            for (text, id) in [("two", id("b")), ("three", id("c")), ("four", id("d"))] {
                assert_eq!(answer(&filter, "", text, &turn, id).effect, STORED, "{number}: {text}");
            }
            let said = messages(&ask(&filter, "?", &s()));
            let missing = ["two", "three", "four"]
                .into_iter()
                .filter(|text| !said.iter().any(|said| *said == format!("assistant: {text}")));
            assert_eq!(missing.count(), 0, "{number} {has_ids}: {said:?}");
        }
    }
}

#[test]
fn a_second_answer_to_a_long_turn_is_stored() {
    for pairs in [128, 300] {
        for ids in [[None, None], [Some("a"), Some("b")]] {
            let host = TestHost::new();
            let filter = filter(&host, r#""max_context_tokens": 100000"#);
            let names: Vec<String> = (0..pairs).map(|number| format!("c{number}")).collect();
            let activity: Vec<_> = names
                .iter()
                .flat_map(|name| [ToolActivity { call_id: name, ..call("", "look", "{}") }, result(name, "look", "x")])
                .collect();
            let turn = ask(&filter, "1", &s()).turn;
            let first =
                AnswerEntry { text: "one", metadata: "{}", turn: &turn, message_id: ids[0], ..AnswerEntry::default() };
            let told = filter.answer(&AnswerEntry { question_text: "1", activity: &activity, ..first });
            assert_eq!(told.effect, STORED);
            let second = AnswerEntry { text: "two", message_id: ids[1], ..first };
            assert_eq!(filter.answer(&second).effect, STORED, "{pairs} {ids:?}");
            assert_eq!(messages(&ask(&filter, "?", &s())), ["user: 1", "assistant: two"], "{pairs} {ids:?}");
            assert_eq!(host.get("s", "answer_count").unwrap(), "2");
        }
    }
}

/// What a store gives at once is bounded in bytes, too.
#[test]
fn a_second_answer_to_a_turn_with_large_results_is_stored() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 2000000"#);
    let turn = ask(&filter, "1", &s()).turn;
    let large = "x".repeat(200 << 10);
    let names: Vec<String> = (0..2).map(|number| format!("c{number}")).collect();
    for name in &names {
        let activity = [ToolActivity { call_id: name, ..call("", "look", "{}") }, result(name, "look", &large)];
        assert_eq!(act(&filter, "1", &large, &turn, &activity).effect, STORED);
    }
    for number in 0..6 {
        let other = ask(&filter, "other", &s()).turn;
        assert_eq!(reply(&filter, "other", &format!("{number}{large}"), &other).effect, STORED);
    }
    assert_eq!(reply(&filter, "1", "two", &turn).effect, STORED);
    assert_eq!(messages(&ask(&filter, "?", &s())).last().unwrap(), "assistant: two");
}

#[test]
fn steps_of_tools_without_a_text_are_stored_when_a_question_is_asked_again() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let named = json!({"session_id": "s", "message_id": "q"});
    let step = |number: &'static str| [call("x", "look", number), result("x", "look", number)];
    for (number, effect) in [("1", STORED), ("2", STORED), ("2", Effect::Repeated)] {
        host.pass(1);
        let turn = ask(&filter, "1", &named).turn;
        assert_eq!(act(&filter, "1", "", &turn, &step(number)).effect, effect, "{number}");
    }
    assert_eq!(transcript(&host, "s").len(), 5);
}

#[test]
fn a_first_answer_without_its_questions_text_names_the_missing_part() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let turn = ask(&filter, "1", &s()).turn;
    let told = answer(&filter, "", "one", &turn, None);
    let problem = told.problem.unwrap();
    assert_eq!((told.effect, &*problem.code, &*problem.subject), (STORED, "missing-question", "question"));
    for name in ["`answer-entry.question`", "`memory_question`"] {
        assert!(problem.message.contains(name), "{}", problem.message);
    }
    assert_eq!(messages(&ask(&filter, "?", &s()))[1..], ["assistant: one"]);
    // What follows it has nothing to hand in, nor has what had no text, or was not to be written.
    assert_eq!(answer(&filter, "", "two", &turn, None).problem, None);
    for (question, metadata) in [("", json!({})), (" \n", json!({})), ("x", json!({"memory": {"write": false}}))] {
        let mut metadata = metadata;
        metadata["session_id"] = "t".into();
        let turn = ask(&filter, question, &metadata).turn;
        assert_eq!(answer(&filter, "", "one", &turn, None).problem, None, "{question:?}");
    }
    // By either way.
    let turn = ask(&filter, "1", &json!({"session_id": "u"})).turn;
    assert_eq!(say(&filter, "", "one", &turn, &json!({"memory_question": "1"})).problem, None);
}

#[test]
fn answers_to_a_question_of_a_foreign_session_are_not_stored_whatever_they_name() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let of = |user: serde_json::Value| json!({"session_id": "s", "user_id": user});
    reply(&filter, "1", "one", &ask(&filter, "1", &of("anna".into())).turn);
    for (user, effect) in [(json!("eve"), Effect::Foreign), (json!(7), Effect::Ignored)] {
        let asked = ask(&filter, "2", &of(user));
        assert_eq!(asked.effect, effect);
        for metadata in [json!({}), s()] {
            assert_eq!(say(&filter, "2", "two", &asked.turn, &metadata).effect, Effect::Foreign, "{metadata}");
        }
    }
    assert_eq!(messages(&ask(&filter, "?", &of("anna".into()))), ["user: 1", "assistant: one"]);
}

#[test]
fn an_answer_that_names_another_transcript_of_the_session_is_stored_there() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let node = json!({"session_id": "s", "user_id": "anna", "memory_mode": "node", "node_id": "n"});
    let turn = ask(&filter, "1", &json!({"session_id": "s", "user_id": "anna"})).turn;
    let other = json!({"session_id": "s", "memory_mode": "node", "node_id": "n"});
    assert_eq!(say(&filter, "", "of the node", &turn, &other).effect, STORED);
    assert_eq!(messages(&ask(&filter, "?", &node))[1..], ["assistant: of the node"]);
    // It is their user's all the same.
    let eve = json!({"session_id": "s", "user_id": "eve", "memory_mode": "node", "node_id": "n"});
    assert_eq!(ask(&filter, "?", &eve).effect, Effect::Foreign);
    let turn = ask(&filter, "2", &node).turn;
    let session = json!({"session_id": "s", "memory_mode": "conversation"});
    assert_eq!(say(&filter, "", "of the session", &turn, &session).effect, STORED);
    let annas = json!({"session_id": "s", "user_id": "anna"});
    assert_eq!(messages(&ask(&filter, "?", &annas))[1..], ["assistant: of the session"]);
}
