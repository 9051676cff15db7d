//! Operators and tools read and correct conversations.

use crate::admin_calls as admin;
use keepline_filter::admin::grep::LineQuery;
use keepline_filter::admin::messages::MessageQuery;
use keepline_filter::tasks::job::Step;
use keepline_filter::transcript::address::TranscriptId;
use keepline_filter::{Config, Context, Effect, ToolActivity};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::conversation::tasks::Work;
use crate::conversation::{
    STORED, UNASKED, act, ask, attached, call, entry, filter, messages, reply, result, s, say, transcript, turn,
};
use crate::test_host::{Bucket, TestHost};

const S: TranscriptId<'static> = TranscriptId { session: "s", app_id: None, node_id: None };

fn sessions(host: &TestHost) -> Context<&TestHost> {
    Context::new(host, Config::parse(r#"{"conversation": true, "max_context_tokens": 1000}"#).unwrap())
}

/// Everything that a query finds, page after page: position and what was said.
fn found(sessions: &Context<&TestHost>, query: &MessageQuery<'_>) -> Vec<(u64, String)> {
    let mut all = Vec::new();
    let mut query = *query;
    loop {
        let page = admin::find_messages(sessions, &S, &query).unwrap();
        all.splice(0..0, page.messages.into_iter().map(|message| (message.position, message.content)));
        let Some(older) = page.older else { return all };
        assert!(query.before.is_none_or(|before| older < before), "it goes back");
        query.before = Some(older);
    }
}

fn positions(sessions: &Context<&TestHost>, query: MessageQuery<'_>) -> Vec<u64> {
    found(sessions, &query).into_iter().map(|(position, _)| position).collect()
}

/// Two branches: 1, 2 and 3 in a line, and 4 that goes on from 1.
fn branched(host: &TestHost) {
    let filter = filter(host, "");
    for (name, after) in [("1", None), ("2", Some("a1")), ("3", Some("a2")), ("4", Some("a1"))] {
        assert_eq!(turn(&filter, name, after).effect, STORED);
    }
}

#[test]
fn messages_are_found_by_their_details() {
    let host = TestHost::new();
    branched(&host);
    let sessions = sessions(&host);
    let all = MessageQuery::default();
    assert_eq!(positions(&sessions, all), [0, 1, 2, 3, 4, 5, 6, 7]);
    for limit in 1..10 {
        assert_eq!(positions(&sessions, MessageQuery { limit, ..all }), [0, 1, 2, 3, 4, 5, 6, 7], "{limit}");
        assert_eq!(positions(&sessions, MessageQuery { limit, thread: Some("a4"), ..all }), [0, 1, 6, 7], "{limit}");
    }
    assert_eq!(positions(&sessions, MessageQuery { thread: Some("q3"), ..all }), [0, 1, 2, 3, 4]);
    assert_eq!(positions(&sessions, MessageQuery { id: Some("a2"), ..all }), [3]);
    assert_eq!(positions(&sessions, MessageQuery { id: Some("a2"), thread: Some("a3"), ..all }), [3]);
    assert_eq!(positions(&sessions, MessageQuery { id: Some("a2"), thread: Some("a4"), ..all }), [0; 0]);
    assert_eq!(positions(&sessions, MessageQuery { role: Some("user"), ..all }), [0, 2, 4, 6]);
    for role in ["system", "User", ""] {
        let unknown = admin::find_messages(&sessions, &S, &MessageQuery { role: Some(role), ..all }).unwrap_err();
        assert_eq!((&*unknown.code, &*unknown.subject), ("invalid", "role"), "{role}");
    }
    assert_eq!(positions(&sessions, MessageQuery { contains: Some("ANSWER 2"), ..all }), [3]);
    assert_eq!(positions(&sessions, MessageQuery { contains: Some("answer"), role: Some("user"), ..all }), [0; 0]);
    assert_eq!(positions(&sessions, MessageQuery { before: Some(3), ..all }), [0, 1, 2]);
    assert_eq!(positions(&sessions, MessageQuery { before: Some(0), ..all }), [0; 0]);
    assert_eq!(positions(&sessions, MessageQuery { before: Some(u64::MAX), limit: 1, ..all }).len(), 8);
    let newest = admin::find_messages(&sessions, &S, &MessageQuery { limit: 2, ..all }).unwrap();
    assert_eq!((newest.messages[0].position, newest.older), (6, Some(6)));

    let is_unknown = || {
        for query in [MessageQuery { thread: Some("who"), ..all }, MessageQuery { id: Some("who"), ..all }] {
            let unknown = admin::find_messages(&sessions, &S, &query).unwrap_err();
            assert_eq!((&*unknown.code, &*unknown.message), ("not-found", "Session 's' has no message 'who'"));
        }
    };
    is_unknown();
    let long = "x".repeat(257);
    let long = admin::find_messages(&sessions, &S, &MessageQuery { contains: Some(&long), ..all }).unwrap_err();
    assert_eq!(long.code, "invalid");
    let gone = admin::find_messages(&sessions, &TranscriptId { session: "t", ..S }, &all).unwrap_err();
    assert_eq!((&*gone.code, host.names().len()), ("not-found", 1));
    admin::clear_messages(&sessions, &S, None).unwrap();
    is_unknown();
}

#[test]
fn long_records_are_found_one_by_one_and_none_is_left_out() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_message_length": 0"#);
    for number in 0..12 {
        let text = number.to_string() + &"x".repeat(900_000);
        reply(&filter, &number.to_string(), &text, &ask(&filter, &number.to_string(), &s()).turn);
    }
    assert_eq!(positions(&sessions(&host), MessageQuery::default()), (0..24).collect::<Vec<u64>>());
}

#[test]
fn a_long_tool_result_is_read_in_parts_and_removed_with_its_message() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 1000"#);
    let whole = "é".repeat(5000);
    let activity = [call("c", "read", r#"{"path":"a"}"#), result("c", "read", &whole)];
    assert_eq!(act(&filter, "?", "!", &ask(&filter, "?", &s()).turn, &activity).effect, STORED);
    let sessions = sessions(&host);
    let part = admin::read_message_content(&sessions, &S, 2, 10, 5).unwrap();
    assert_eq!((&*part.text, part.length), ("ééééé", 5000));
    assert_eq!(admin::read_message_content(&sessions, &S, 2, 0, 0).unwrap().text, whole);
    assert_eq!(admin::read_message_content(&sessions, &S, 2, 5001, 9).unwrap().text, "");
    assert_eq!(admin::read_message_content(&sessions, &S, 1, 0, 0).unwrap().text, r#"{"path":"a"}"#);
    assert_eq!(admin::read_message_content(&sessions, &S, 9, 0, 0).unwrap_err().code, "not-found");
    // What is removed takes the whole with it.
    assert_eq!(host.bucket("s").maps["results"].len(), 1);
    assert_eq!(admin::rewrite_message(&sessions, &S, 2, None), Ok(1));
    assert!(!host.bucket("s").maps.contains_key("results"));
    assert_eq!(admin::read_message_content(&sessions, &S, 2, 0, 0).unwrap_err().code, "not-found");
}

#[test]
fn lines_are_found_in_the_whole_of_a_result_and_read_where_they_stand() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 1000"#);
    let lines =
        (1..=3000).map(|number| format!("é line {number} {}\n", if number % 1000 == 500 { "NEEDLE" } else { "hay" }));
    let whole: String = lines.collect();
    let activity = [call("c", "read", r#"{"path":"needle"}"#), result("c", "read", &whole)];
    assert_eq!(act(&filter, "?", "!", &ask(&filter, "?", &s()).turn, &activity).effect, STORED);
    assert!(!transcript(&host, "s")[2]["content"].as_str().unwrap().contains("NEEDLE"), "not in the preview");
    let sessions = sessions(&host);
    let query = LineQuery { text: "needle", ignore_case: true, context: 1, limit: 2, ..LineQuery::default() };
    let found = admin::find_lines(&sessions, &S, 2, &query).unwrap();
    let numbers: Vec<u64> = found.lines.iter().map(|line| line.number).collect();
    assert_eq!((numbers, found.next), (vec![499, 500, 501, 1499, 1500, 1501], Some(2499)));
    let line = &found.lines[4];
    assert_eq!((&*line.text, line.is_match, line.is_cut), ("é line 1500 NEEDLE", true, false));
    assert_eq!(admin::read_message_content(&sessions, &S, 2, line.offset, 18).unwrap().text, line.text);
    let rest = admin::find_lines(&sessions, &S, 2, &LineQuery { from: 2499, ..query }).unwrap();
    assert_eq!((rest.lines.len(), rest.next), (3, None));
    assert!(admin::find_lines(&sessions, &S, 2, &LineQuery { ignore_case: false, ..query }).unwrap().lines.is_empty());
    assert_eq!(admin::find_lines(&sessions, &S, 1, &query).unwrap().lines[0].text, r#"{"path":"needle"}"#);
    assert_eq!(admin::find_lines(&sessions, &S, 9, &query).unwrap_err().code, "not-found");
    for text in ["", "a\nb", &"x".repeat(257)] {
        assert_eq!(admin::find_lines(&sessions, &S, 2, &LineQuery { text, ..query }).unwrap_err().code, "invalid");
    }
}

#[test]
fn removing_a_message_erases_its_text_and_keeps_its_thread() {
    let host = TestHost::new();
    branched(&host);
    let sessions = sessions(&host);
    let before: Vec<Value> = transcript(&host, "s").iter().map(|record| record["weight"].clone()).collect();
    let summary = r#"{"text":"question 1","to":3,"total":9}"#;
    let mut buckets = host.buckets_mut();
    let maps = &mut buckets.get_mut("s").unwrap().maps;
    maps.entry("session".into()).or_default().insert("summary".into(), summary.into());
    drop(buckets);
    assert_eq!(entry(&host, "session", "title").unwrap(), "question 1");
    // What it does not cover stays.
    assert_eq!(admin::rewrite_message(&sessions, &S, 6, None), Ok(1));
    assert!(entry(&host, "session", "summary").is_some() && entry(&host, "session", "title").is_some());
    assert_eq!(admin::rewrite_message(&sessions, &S, 0, None), Ok(1));
    assert_eq!((entry(&host, "session", "summary"), entry(&host, "session", "title")), (None, None));
    assert_eq!(admin::rewrite_message(&sessions, &S, 0, None), Ok(0), "once is enough");
    let records = transcript(&host, "s");
    assert!(!records.iter().any(|record| record.to_string().contains("question 1")), "{records:?}");
    let after: Vec<Value> = records.iter().map(|record| record["weight"].clone()).collect();
    assert_eq!(before, after, "the window begins where it began");
    let bytes: usize = host.records("s", "transcript").iter().map(String::len).sum();
    assert_eq!(entry(&host, "session", "bytes").unwrap(), bytes.to_string());
    assert_eq!(positions(&sessions, MessageQuery { thread: Some("a4"), ..MessageQuery::default() }), [1, 7]);
    let shown = messages(&ask(&filter(&host, ""), "?", &s()));
    assert_eq!(shown, [UNASKED, "assistant: answer 1", "assistant: answer 4"]);
    assert_eq!(admin::rewrite_message(&sessions, &S, 8, None).unwrap_err().code, "not-found");
    assert_eq!(admin::rewrite_message(&sessions, &S, 0, Some("back")).unwrap_err().code, "not-found");
}

#[test]
fn removing_a_tool_result_erases_it_and_keeps_its_turn_finished() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 4000, "memory_trace": true, "recall": "session""#);
    let secret = "SECRET ".repeat(3000);
    let whole = ToolActivity {
        error: Some("SECRET"),
        details: r#"{"model":"SECRET","raw":"SECRET","metadata":{"a":"SECRET"}}"#,
        ..result("c", "SECRET", &secret)
    };
    let asked = ask(&filter, "Which key?", &s());
    let done = act(&filter, "Which key?", "That one.", &asked.turn, &[call("c", "look", "{}"), whole]);
    turn(&filter, "2", None);
    let recall = || while Work::of(&done.due, "recall").step(&filter, "h", None).step == Step::Again {};
    recall();
    let before = transcript(&host, "s");
    let secrets = || {
        let bucket = host.bucket("s");
        let mut texts: Vec<String> = bucket.logs.into_values().flat_map(|(_, records)| records).collect();
        texts.extend(bucket.maps.into_values().flat_map(std::collections::BTreeMap::into_values));
        texts.concat().matches("SECRET").count()
    };
    assert!(secrets() > 3000 && host.bucket("s").logs.contains_key("passages"));

    let sessions = sessions(&host);
    assert_eq!(
        (admin::rewrite_message(&sessions, &S, 2, None), admin::rewrite_message(&sessions, &S, 2, None)),
        (Ok(1), Ok(0))
    );
    recall();
    assert_eq!(secrets(), 0);
    let record = transcript(&host, "s").remove(2);
    let kept = json!({
        "v": 1, "turn": before[2]["turn"], "kind": "tool_result", "role": "tool", "content": "", "at": before[2]["at"],
        "weight": before[2]["weight"], "tokens": 6, "tool": {"call_id": "c", "name": ""},
    });
    assert_eq!(record, kept);
    // To whoever looks for it, it is not there.
    assert_eq!(positions(&sessions, MessageQuery::default()), [0, 1, 3, 4, 5]);
    assert_eq!(admin::read_message_content(&sessions, &S, 2, 0, 0).unwrap_err().code, "not-found");
    assert_eq!(admin::rewrite_message(&sessions, &S, 2, Some("back")).unwrap_err().code, "not-found");
    let asked = ask(&filter, "?", &s());
    assert_eq!(messages(&asked)[..4], ["user: Which key?", "assistant: null", "tool: ", "assistant: That one."]);
    let trace = attached(&asked, "memory_trace");
    assert!(trace["turns"].as_array().unwrap().iter().all(|turn| turn["fate"] == "kept"), "{trace}");
    // With its call it goes from the window, too.
    assert_eq!(admin::rewrite_message(&sessions, &S, 1, None), Ok(1));
    assert_eq!(messages(&ask(&filter, "?", &s()))[..2], ["user: Which key?", "assistant: That one."]);
}

#[test]
fn an_edited_message_has_its_new_text_and_token_count() {
    let host = TestHost::new();
    branched(&host);
    let sessions = Context::new(
        &host,
        Config::parse(r#"{"conversation": true, "redact": ["sk-{d+}"], "max_message_length": 400}"#).unwrap(),
    );
    assert_eq!(admin::rewrite_message(&sessions, &S, 1, Some("the key is sk-123")), Ok(1));
    assert_eq!(messages(&ask(&filter(&host, ""), "?", &s()))[1], "assistant: the key is [redacted]");
    assert_eq!(admin::rewrite_message(&sessions, &S, 1, Some(&"x".repeat(500))), Ok(1));
    let record = transcript(&host, "s").remove(1);
    let said = record["content"].as_str().unwrap();
    assert!(said.ends_with("x\n[… 148 characters left out …]") && said.chars().count() <= 400, "{said}");
    assert_eq!(record["truncated"], true);
    assert!(record["tokens"].as_u64().unwrap() > record["weight"].as_u64().unwrap());
    assert_eq!(record["id"], "a1");
}

#[test]
fn removing_a_message_is_retried_after_a_concurrent_write() {
    let host = TestHost::new();
    branched(&host);
    // A summary that comes between the look and the change is not left with what was removed.
    let before = host.transactions.get();
    host.before_each(move |host, number| {
        if number == before + 2 {
            let mut buckets = host.buckets_mut();
            let maps = &mut buckets.get_mut("s").unwrap().maps;
            let summary = r#"{"text":"question 1","to":3,"total":9}"#;
            maps.entry("session".into()).or_default().insert("summary".into(), summary.into());
        }
    });
    assert_eq!(admin::rewrite_message(&sessions(&host), &S, 0, None), Ok(1));
    assert_eq!(entry(&host, "session", "summary"), None);
    assert_eq!(host.transactions.get(), before + 4);
}

#[test]
fn messages_replaced_during_a_read_are_read_again() {
    let host = TestHost::new();
    branched(&host);
    let before = host.transactions.get();
    host.before_each(move |host, number| {
        if number == before + 2 {
            let texts = [r#"{"role":"user","content":"New?"}"#, r#"{"role":"assistant","content":"New."}"#];
            admin::set_messages(&sessions(host), &S, &texts.map(str::to_owned), None).unwrap();
        }
    });
    let before_these = MessageQuery { before: Some(100), ..MessageQuery::default() };
    assert_eq!(positions(&sessions(&host), before_these), [8, 9]);
}

#[test]
fn the_newest_messages_are_read_in_one_transaction() {
    let host = TestHost::new();
    branched(&host);
    let sessions = sessions(&host);
    for (limit, expected) in [(2, &[6, 7][..]), (8, &[0, 1, 2, 3, 4, 5, 6, 7]), (0, &[0, 1, 2, 3, 4, 5, 6, 7])] {
        let before = host.transactions.get();
        let page = admin::find_messages(&sessions, &S, &MessageQuery { limit, ..MessageQuery::default() }).unwrap();
        let found: Vec<u64> = page.messages.iter().map(|message| message.position).collect();
        assert_eq!(found, expected, "{limit}");
        assert_eq!(host.transactions.get(), before + 1, "{limit}");
    }
}

#[test]
fn a_page_is_full_although_messages_in_it_were_removed() {
    let host = TestHost::new();
    branched(&host);
    let sessions = sessions(&host);
    for position in [7, 5, 4] {
        admin::rewrite_message(&sessions, &S, position, None).unwrap();
    }
    let page = |query: MessageQuery<'_>| {
        let page = admin::find_messages(&sessions, &S, &query).unwrap();
        (page.messages.into_iter().map(|message| message.position).collect::<Vec<_>>(), page.older)
    };
    let all = MessageQuery { limit: 3, ..MessageQuery::default() };
    assert_eq!(page(all), (vec![2, 3, 6], Some(2)));
    assert_eq!(page(MessageQuery { before: Some(6), ..all }), (vec![1, 2, 3], Some(1)));
    assert_eq!(page(MessageQuery { thread: Some("a4"), ..all }), (vec![0, 1, 6], None));
}

#[test]
fn clearing_a_branch_keeps_the_other_messages() {
    let host = TestHost::new();
    branched(&host);
    let sessions = sessions(&host);
    assert_eq!(admin::clear_messages(&sessions, &S, Some(2)), Ok(4), "turns 2 and 3");
    assert_eq!(positions(&sessions, MessageQuery::default()), [0, 1, 6, 7]);
    assert_eq!(admin::clear_messages(&sessions, &S, Some(2)), Ok(0));
    assert_eq!(admin::clear_messages(&sessions, &S, Some(99)).unwrap_err().code, "not-found");
    assert_eq!(admin::clear_messages(&sessions, &S, Some(1)), Ok(3));
    assert_eq!(positions(&sessions, MessageQuery::default()), [0]);
}

#[test]
fn clearing_all_messages_keeps_the_session() {
    let host = TestHost::new();
    branched(&host);
    let sessions = sessions(&host);
    assert_eq!(admin::clear_messages(&sessions, &S, None), Ok(8));
    let maps = host.bucket("s").maps;
    let left: Vec<_> = maps["session"].keys().cloned().collect();
    assert_eq!(left, ["revision"]);
    assert!(!maps.contains_key("messages") && !maps.contains_key("branches"));
    assert_eq!(host.get("s", "answer_count").unwrap(), "4");
    let filter = filter(&host, "");
    assert_eq!(messages(&ask(&filter, "?", &s())), Vec::<String>::new());
    turn(&filter, "5", None);
    assert_eq!(messages(&ask(&filter, "?", &s())).len(), 2);
    assert_eq!(positions(&sessions, MessageQuery::default()), [8, 9], "positions go on");
}

#[test]
fn a_set_title_is_stored_on_one_line() {
    let host = TestHost::new();
    branched(&host);
    let sessions = sessions(&host);
    assert_eq!(admin::describe_transcript(&sessions, &S).unwrap().title.unwrap(), "question 1");
    assert_eq!(admin::set_title(&sessions, &S, Some(" My\n parcel ")).unwrap().unwrap(), "My parcel");
    let state = admin::describe_transcript(&sessions, &S).unwrap();
    assert_eq!((state.title.as_deref(), state.oldest, state.next), (Some("My parcel"), 0, 8));
    assert_eq!(state.generation, "life-1");
    assert_eq!(admin::set_title(&sessions, &S, Some(&"é".repeat(201))).unwrap_err().code, "limit");
    assert_eq!(admin::set_title(&sessions, &S, Some(" ")).unwrap(), None);
    assert_eq!(admin::describe_transcript(&sessions, &S).unwrap().title, None);
}

/// All that is stored, and until when.
fn written(host: &TestHost) -> String {
    let mut buckets = host.buckets().clone();
    for bucket in buckets.values_mut() {
        bucket.maps.retain(|_, entries| !entries.is_empty());
    }
    let shown = |(name, bucket): (&String, &Bucket)| {
        format!("{name} {:?} {:?} {:?}", bucket.maps, bucket.logs, bucket.expires_at)
    };
    buckets.iter().map(shown).collect()
}

#[test]
fn a_look_shows_the_window_of_a_question_and_writes_nothing() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 100"#);
    let look = |metadata: Value| ask(&filter, "?", &metadata);
    let missing = look(json!({"session_id": "s", "memory": {"look": true}}));
    assert_eq!((missing.effect, &*missing.problem.unwrap().code), (Effect::Failed, "other"));
    assert!(host.names().is_empty());
    for name in ["1", "2", "3", "4", "5", "6", "7", "8", "9"] {
        turn(&filter, name, None);
    }
    let node = r#"{"session_id":"s","node_id":"n","memory_mode":"node"}"#;
    let node = say(&filter, "?", "!", "", &serde_json::from_str(node).unwrap());
    assert_eq!(node.effect, STORED);
    host.pass(5000);
    let before = written(&host);
    let window = look(json!({"session_id": "s", "memory": {"look": true}}));
    assert_eq!((window.effect, window.due.len()), (Effect::Enriched, 0));
    let trace = attached(&window, "memory_trace");
    assert_eq!(trace["budget"], 100, "{trace}");
    let more = look(json!({"session_id": "s", "memory": {"look": true, "max_context_tokens": 100_000}}));
    assert_eq!(messages(&more).len(), 18);
    let of_node = look(
        json!({"session_id": "s", "node_id": "n", "memory_mode": "node", "user_id": "anna", "memory": {"look": true}}),
    );
    assert_eq!(messages(&of_node).len(), 2);
    let after = written(&host);
    assert_eq!(before, after, "nothing was written, no life renewed");
    assert_eq!(messages(&window), messages(&ask(&filter, "?", &s())));
}

#[test]
fn a_node_has_a_transcript_of_its_own() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let metadata = json!({"session_id": "s", "memory_mode": "node", "app_id": "app", "node_id": "n"});
    reply(&filter, "1", "one", &ask(&filter, "1", &metadata).turn);
    let sessions = sessions(&host);
    let node = TranscriptId { session: "s", app_id: Some("app"), node_id: Some("n") };
    assert_eq!(admin::find_messages(&sessions, &node, &MessageQuery::default()).unwrap().messages.len(), 2);
    assert_eq!(admin::find_messages(&sessions, &S, &MessageQuery::default()).unwrap().messages.len(), 0);
    assert_eq!(admin::clear_messages(&sessions, &node, None), Ok(2));
    let other = TranscriptId { app_id: None, ..node };
    assert_eq!(admin::describe_transcript(&sessions, &other).unwrap_err().code, "not-found");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Against a straightforward reference: follow parents.
    #[test]
    fn a_thread_consists_of_the_ancestors_of_its_message(parents in proptest::collection::vec(any::<prop::sample::Index>(), 1..12), limit in 1..9_u32) {
        let host = TestHost::new();
        let filter = filter(&host, "");
        turn(&filter, "0", None);
        let mut ways = vec![vec![0_u64, 1]];
        for (number, parent) in parents.iter().enumerate() {
            let parent = parent.index(number + 1);
            prop_assert_eq!(turn(&filter, &(number + 1).to_string(), Some(&format!("a{parent}"))).effect, STORED);
            let own = 2 * (number as u64 + 1);
            ways.push(ways[parent].iter().copied().chain([own, own + 1]).collect());
        }
        let sessions = sessions(&host);
        for (number, way) in ways.iter().enumerate() {
            let id = format!("a{number}");
            let query = MessageQuery { thread: Some(&id), limit, ..MessageQuery::default() };
            prop_assert_eq!(&positions(&sessions, query), way);
        }
        // What goes on from a message is what has it on its way.
        let from = ways.len() as u64 / 2 * 2;
        let kept: Vec<u64> = (0..2 * ways.len() as u64)
            .filter(|at| !ways[(at / 2) as usize].contains(&from) || *at < from).collect();
        admin::clear_messages(&sessions, &S, Some(from)).unwrap();
        prop_assert_eq!(positions(&sessions, MessageQuery::default()), kept);
    }
}

#[test]
fn a_generated_title_is_removed_with_the_message_it_was_made_of() {
    // First words of another length, those of a model, and one that somebody gave.
    for (given, model, is_gone) in [(None, None, true), (None, Some("Lost Parcel"), true), (Some("Mine"), None, false)]
    {
        for is_replaced in [false, true] {
            let host = TestHost::new();
            let filter = filter(&host, r#""title_max_length": 20"#);
            let question = "Where is my secret parcel, please tell me?";
            let due = reply(&filter, question, "In Bonn.", &ask(&filter, question, &s()).turn).due;
            if let Some(title) = model {
                let mut work = Work::of(&due, "title");
                work.step(&filter, "h", None);
                work.step(&filter, "h", Some(title));
            }
            let sessions =
                Context::new(&host, Config::parse(r#"{"conversation": true, "title_max_length": 60}"#).unwrap());
            if given.is_some() {
                admin::set_title(&sessions, &S, given).unwrap();
            }
            let before = entry(&host, "session", "title");
            if is_replaced {
                let new = json!({"role": "user", "content": "Hello"}).to_string();
                admin::set_messages(&sessions, &S, &[new], None).unwrap();
                let expected = if is_gone { Some("Hello".to_owned()) } else { before };
                assert_eq!(entry(&host, "session", "title"), expected);
            } else {
                admin::rewrite_message(&sessions, &S, 1, None).unwrap();
                assert_eq!(entry(&host, "session", "title"), before, "it was not made of the answer");
                admin::rewrite_message(&sessions, &S, 0, None).unwrap();
                assert_eq!(entry(&host, "session", "title"), before.filter(|_| !is_gone));
            }
            let kept = format!("{:?}", host.bucket("s").maps["session"]);
            assert!(!is_gone || !kept.contains("secret") && !kept.contains("Parcel"), "{kept}");
        }
    }
}

#[test]
fn a_title_of_unknown_origin_is_removed_with_the_first_message() {
    for (title, untitled) in [("Where is my...", "1"), ("A model's", "0")] {
        let host = TestHost::new();
        let filter = filter(&host, "");
        let question = "Where is my secret parcel?";
        reply(&filter, question, "In Bonn.", &ask(&filter, question, &s()).turn);
        let mut buckets = host.buckets_mut();
        let map = buckets.get_mut("s").unwrap().maps.get_mut("session").unwrap();
        map.remove("title_of");
        map.insert("title".into(), title.into());
        map.insert("untitled".into(), untitled.into());
        drop(buckets);
        let sessions = Context::new(&host, Config::parse(r#"{"conversation": true}"#).unwrap());
        admin::rewrite_message(&sessions, &S, 0, None).unwrap();
        assert_eq!(entry(&host, "session", "title"), None, "{title}");
    }
}

#[test]
fn a_missing_node_is_called_a_node() {
    let host = TestHost::new();
    branched(&host);
    let node = TranscriptId { node_id: Some("n"), ..S };
    let gone = admin::describe_transcript(&sessions(&host), &node).unwrap_err();
    assert_eq!((&*gone.code, &*gone.subject, &*gone.message), ("not-found", "node", "Node of session 's' not found"));
    let absent = admin::describe_transcript(&sessions(&host), &TranscriptId { session: "t", ..S }).unwrap_err();
    assert_eq!((&*absent.code, &*absent.subject), ("not-found", "session"));
}

#[test]
fn a_transcript_is_described_in_milliseconds() {
    let host = TestHost::new();
    branched(&host);
    let state = admin::describe_transcript(&sessions(&host), &S).unwrap();
    // As the store describes it: nothing is read out of a generation, which may look like a time.
    assert_eq!((state.created_at, state.last_at), (1_795_186_917_032, 1_795_186_917_032));
}
