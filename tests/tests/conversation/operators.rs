//! Operators find, read, correct and remove messages, over every store.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use keepline::{
    pipe::Effect,
    sessions::{MessageQuery, SessionErrorCode as Code, Transcript},
};
use keepline_tests::{
    lanes::{Node, StillClock},
    on_every_store,
};
use serde_json::{Value, json};

use super::{Given, UNASKED, ask, call, reply, result, said, talking, turn};

on_every_store! {
    messages_are_found_by_thread_id_role_and_text,
    a_long_tool_result_is_read_in_full_and_removed_with_its_message,
    removed_messages_are_found_nowhere_and_the_rest_stays,
    a_transcript_is_described,
    a_node_is_read_and_cleared_by_its_ids,
    bad_input_is_refused_before_any_store_is_asked,
    readers_see_only_whole_turns_while_others_write_and_correct,
}

/// Positions and texts of what a query finds, in as many pages as it takes.
async fn found(node: &mut Node, query: MessageQuery<'_>) -> Vec<(u64, String)> {
    let (mut all, mut query) = (Vec::new(), query);
    loop {
        let page = node.sessions.messages("s".into(), query).await.unwrap();
        let content = |text: &str| {
            let record: Value = serde_json::from_str(text).unwrap();
            record["content"].as_str().unwrap().to_owned()
        };
        all.splice(0..0, page.messages.iter().map(|message| (message.position, content(&message.to_json()))));
        query.before = page.older;
        if page.older.is_none() {
            return all;
        }
    }
}

async fn positions(node: &mut Node, query: MessageQuery<'_>) -> Vec<u64> {
    found(node, query).await.into_iter().map(|(position, _)| position).collect()
}

/// Two branches: 1, 2 and 3 in a line, and 4 that goes on from 1.
async fn branched(node: &mut Node) {
    for (name, parent) in [("1", None), ("2", Some("a1")), ("3", Some("a2")), ("4", Some("a1"))] {
        let mut metadata = json!({"session_id": "s", "message_id": format!("q{name}")});
        if let Some(parent) = parent {
            metadata["parent_message_id"] = parent.into();
        }
        ask(node, &format!("question {name}"), &metadata).await;
        let told = json!({"message_id": format!("a{name}")});
        assert_eq!(reply(node, &format!("answer {name}"), &told).await.effect, Effect::Stored);
    }
}

async fn messages_are_found_by_thread_id_role_and_text(given: Given) {
    let mut node = talking(&given, &json!({})).await;
    branched(&mut node).await;
    let all = MessageQuery::default();
    let before = given.everything().await;
    for (query, wanted) in [
        (all, &[0, 1, 2, 3, 4, 5, 6, 7][..]),
        (MessageQuery { limit: 3, ..all }, &[0, 1, 2, 3, 4, 5, 6, 7]),
        (MessageQuery { thread: Some("a4"), limit: 1, ..all }, &[0, 1, 6, 7]),
        (MessageQuery { thread: Some("a3"), ..all }, &[0, 1, 2, 3, 4, 5]),
        (MessageQuery { id: Some("a2"), ..all }, &[3]),
        (MessageQuery { id: Some("a2"), thread: Some("a4"), ..all }, &[]),
        (MessageQuery { role: Some("user"), ..all }, &[0, 2, 4, 6]),
        (MessageQuery { contains: Some("ANSWER 2"), ..all }, &[3]),
        (MessageQuery { before: Some(3), ..all }, &[0, 1, 2]),
        (MessageQuery { before: Some(0), ..all }, &[]),
        (MessageQuery { before: Some(u64::MAX), ..all }, &[0, 1, 2, 3, 4, 5, 6, 7]),
    ] {
        assert_eq!(positions(&mut node, query).await, wanted, "{query:?}");
    }
    given.assert_unchanged(&before, "reading").await;
}

async fn a_long_tool_result_is_read_in_full_and_removed_with_its_message(given: Given) {
    let mut node = talking(&given, &json!({"max_context_tokens": 1000})).await;
    let whole = "é1".repeat(5000);
    ask(&mut node, "?", &json!({"session_id": "s"})).await;
    node.pipe.tool(call("c"));
    node.pipe.tool(result("c", &whole));
    assert_eq!(reply(&mut node, "!", &json!({})).await.effect, Effect::Stored);
    let s = Transcript::from("s");
    let part = node.sessions.content(s, 2, 9_990, 100).await.unwrap();
    assert_eq!((&*part.text, part.length), (&*"é1".repeat(5), 10_000));
    assert_eq!(node.sessions.content(s, 2, 0, 0).await.unwrap().text, whole);
    assert_eq!(node.sessions.rewrite(s, 2, None).await.unwrap().count, 1);
    assert_eq!(node.sessions.content(s, 2, 0, 0).await.unwrap_err().code, Code::NotFound);
    assert!(!format!("{:?}", given.everything().await).contains("é1é1"));
}

async fn removed_messages_are_found_nowhere_and_the_rest_stays(given: Given) {
    let mut node = talking(&given, &json!({})).await;
    branched(&mut node).await;
    let s = Transcript::from("s");
    assert_eq!(node.sessions.rewrite(s, 3, Some("another answer")).await.unwrap().count, 1);
    assert_eq!(node.sessions.rewrite(s, 0, None).await.unwrap().count, 1);
    assert_eq!(node.sessions.rewrite(s, 0, None).await.unwrap().count, 0);
    let stored = format!("{:?}", given.everything().await);
    assert!(!stored.contains("question 1") && !stored.contains("answer 2\""), "also not as the title");
    // Another process's window is the same.
    let mut other = talking(&given, &json!({})).await;
    let metadata = json!({"session_id": "s", "parent_message_id": "a3"});
    let window = said(&ask(&mut other, "?", &metadata).await);
    assert_eq!(
        window,
        [
            UNASKED,
            "assistant: answer 1",
            "user: question 2",
            "assistant: another answer",
            "user: question 3",
            "assistant: answer 3"
        ]
    );
    assert_eq!(said(&ask(&mut node, "?", &metadata).await), window);
    // A branch, and then all of it.
    assert_eq!(node.sessions.clear_messages(s, Some(2)).await.unwrap().count, 4);
    assert_eq!(positions(&mut node, MessageQuery::default()).await, [1, 6, 7]);
    assert_eq!(node.sessions.clear_messages(s, None).await.unwrap().count, 8);
    assert_eq!(found(&mut node, MessageQuery::default()).await, []);
    assert!(!format!("{:?}", given.everything().await).contains("question"));
    assert_eq!(node.sessions.get("s", "answer_count").await.unwrap().value(), Some("4"));
    turn(&mut node, "s", "5", "five").await;
    assert_eq!(positions(&mut node, MessageQuery::default()).await, [8, 9], "positions go on");
}

async fn a_transcript_is_described(given: Given) {
    let mut node = talking(&given, &json!({"session_ttl_hours": 1})).await;
    for (question, answer) in [("Where is my parcel?", "In Bonn."), ("And now?", "In Leipzig.")] {
        ask(&mut node, question, &json!({"session_id": "s", "user_id": "anna@example.org"})).await;
        assert_eq!(reply(&mut node, answer, &json!({})).await.effect, Effect::Stored);
    }
    let state = node.sessions.describe("s".into()).await.unwrap();
    assert_eq!((state.oldest, state.next, state.answers), (0, 4, 2));
    assert_eq!(state.title.as_deref(), Some("Where is my parcel?"));
    assert!(state.owner.is_some_and(|owner| owner.starts_with("h-") && owner.len() == 54));
    assert!(state.created_at > 0);
    let last = format!("{}.{:03}", state.last_at / 1000, state.last_at % 1000);
    assert!(StillClock::START.starts_with(&last), "{last}");
    assert!(state.weight > 0 && state.bytes > 0 && state.expires_in.is_some_and(|left| left <= 3_600_000));
    // Of a session without a conversation there is less to tell.
    node.sessions.create("plain").await.unwrap();
    let plain = node.sessions.describe("plain".into()).await.unwrap();
    assert_eq!((plain.next, plain.answers, plain.last_at, plain.title), (0, 0, 0, None));
    assert!(plain.created_at >= state.created_at);

    let named = node.sessions.set_title("s".into(), Some(" My\n parcel ")).await.unwrap();
    assert_eq!(named.title.as_deref(), Some("My parcel"));
    assert_eq!(node.sessions.set_title("s".into(), None).await.unwrap().title, None);
    assert_eq!(node.sessions.describe("s".into()).await.unwrap().title, None);
}

async fn a_node_is_read_and_cleared_by_its_ids(given: Given) {
    let mut node = talking(&given, &json!({})).await;
    turn(&mut node, "s", "1", "one").await;
    let metadata = json!({"session_id": "s", "memory_mode": "node", "app_id": "shop", "node_id": "llm 1"});
    ask(&mut node, "2", &metadata).await;
    assert_eq!(reply(&mut node, "two", &json!({})).await.effect, Effect::Stored);
    let at = Transcript { session: "s", app_id: Some("shop"), node_id: Some("llm 1") };
    let page = node.sessions.messages(at, MessageQuery::default()).await.unwrap();
    assert_eq!(page.messages.len(), 2);
    assert!(page.messages[1].content.contains("two"));
    assert_eq!(node.sessions.rewrite(at, 1, Some("deux")).await.unwrap().count, 1);
    assert_eq!(said(&ask(&mut node, "?", &metadata).await), ["user: 2", "assistant: deux"]);
    assert_eq!(node.sessions.clear_messages(at, None).await.unwrap().count, 2);
    assert_eq!(said(&ask(&mut node, "?", &metadata).await), [""; 0]);
    assert_eq!(positions(&mut node, MessageQuery::default()).await, [0, 1]);
    let other = Transcript { app_id: None, ..at };
    assert_eq!(node.sessions.describe(other).await.unwrap_err().code, Code::NotFound);
}

async fn bad_input_is_refused_before_any_store_is_asked(given: Given) {
    let mut node = talking(&given, &json!({})).await;
    turn(&mut node, "s", "1", "one").await;
    let before = given.everything().await;
    node.store.calls();
    let long = "x".repeat(1025);
    for name in ["", "a b", "../s", "s\n", "é", &long] {
        let at = Transcript::from(name);
        let codes = [
            node.sessions.describe(at).await.unwrap_err().code,
            node.sessions.messages(at, MessageQuery::default()).await.unwrap_err().code,
            node.sessions.content(at, 0, 0, 0).await.unwrap_err().code,
            node.sessions.rewrite(at, 0, None).await.unwrap_err().code,
            node.sessions.clear_messages(at, None).await.unwrap_err().code,
            node.sessions.set_title(at, Some("t")).await.unwrap_err().code,
        ];
        assert_eq!(codes, [Code::InvalidSession; 6], "{name:?}");
    }
    let s = Transcript::from("s");
    let searched = MessageQuery { contains: Some(&long), ..MessageQuery::default() };
    assert_eq!(node.sessions.messages(s, searched).await.unwrap_err().code, Code::InvalidValue);
    assert_eq!(node.sessions.set_title(s, Some(&"é".repeat(201))).await.unwrap_err().code, Code::Limit);
    for user in ["", &long] {
        let codes = [
            node.sessions.user_values(user, None).await.unwrap_err().code,
            node.sessions.put_user_value(user, "k", Some("1")).await.unwrap_err().code,
            node.sessions.user_sessions(user, None, 0).await.unwrap_err().code,
            node.sessions.search_user(user, "word", None, 0).await.unwrap_err().code,
            node.sessions.forget_user(user).await.unwrap_err().code,
        ];
        assert_eq!(codes, [Code::InvalidValue; 5], "{user:?}");
    }
    assert_eq!(node.sessions.put_user_value("anna", "a b", None).await.unwrap_err().code, Code::InvalidKey);
    assert_eq!(node.sessions.put_user_value("anna", "k", Some("{")).await.unwrap_err().code, Code::InvalidValue);
    for (words, after) in [("", None), (&*long, None), ("word", Some("x")), ("word", Some("1.2.3"))] {
        assert_eq!(node.sessions.search_user("anna", words, after, 0).await.unwrap_err().code, Code::InvalidValue);
    }
    assert_eq!(node.store.calls(), 0);
    // And what is not there is not made.
    for position in [2, 1 << 53, u64::MAX] {
        assert_eq!(node.sessions.rewrite(s, position, None).await.unwrap_err().code, Code::NotFound);
        assert_eq!(node.sessions.clear_messages(s, Some(position)).await.unwrap_err().code, Code::NotFound);
        assert_eq!(node.sessions.content(s, position, 0, 0).await.unwrap_err().code, Code::NotFound);
    }
    let none = MessageQuery { thread: Some("nobody"), ..MessageQuery::default() };
    assert_eq!(node.sessions.messages(s, none).await.unwrap_err().code, Code::NotFound);
    assert_eq!(node.sessions.user_sessions("nobody", Some(u64::MAX), u32::MAX).await.unwrap().sessions, []);
    assert_eq!(node.sessions.search_user("nobody", "word", None, u32::MAX).await.unwrap().found, []);
    assert_eq!(node.sessions.user_values("nobody", None).await.unwrap().values, []);
    given.assert_unchanged(&before, "bad input").await;
}

const WRITERS: usize = 16;
const TURNS: usize = 6;

async fn readers_see_only_whole_turns_while_others_write_and_correct(given: Given) {
    let (node, other) = (talking(&given, &json!({})).await, talking(&given, &json!({})).await);
    let is_done = AtomicBool::new(false);
    let writing = async {
        let writers = (0..WRITERS).map(|number| {
            let mut pipe = [&node, &other][number % 2].keepline.pipe();
            async move {
                for round in 0..TURNS {
                    super::concurrency::write(&mut pipe, &format!("{number}/{round}")).await;
                    tokio::task::yield_now().await;
                }
            }
        });
        join_all(writers).await;
        is_done.store(true, Ordering::Relaxed);
    };
    let at = Transcript::from("shared");
    // One removes answers, one puts questions in other words, both while positions come and others change the same.
    let correcting = async {
        let (mut removed, mut edited) = (0, 0);
        let (mut one, mut two) = (node.keepline.sessions(), other.keepline.sessions());
        let mut next = 0;
        while !is_done.load(Ordering::Relaxed) {
            let Ok(state) = one.describe(at).await else {
                tokio::task::yield_now().await;
                continue;
            };
            while next + 6 <= state.next {
                let (gone, put) = tokio::join!(one.rewrite(at, next + 5, None), two.rewrite(at, next, Some("edited")));
                for (done, count) in [(gone, &mut removed), (put, &mut edited)] {
                    match done {
                        Ok(changed) => *count += changed.count,
                        // Others were at it each time; nothing was changed.
                        Err(error) => assert_eq!(error.code, Code::Conflict, "{error}"),
                    }
                }
                next += 6;
            }
            tokio::task::yield_now().await;
        }
        (removed, edited)
    };
    let reading = async {
        let mut sessions = node.keepline.sessions();
        let mut reads = 0;
        while !is_done.load(Ordering::Relaxed) {
            let page = sessions.messages(at, MessageQuery { limit: 1000, ..MessageQuery::default() }).await;
            for message in page.map(|page| page.messages).unwrap_or_default() {
                let record: Value = serde_json::from_str(&message.to_json()).unwrap();
                let kind = record["kind"].as_str().or(record["role"].as_str()).unwrap();
                let place = usize::try_from(message.position % 6).unwrap();
                assert_eq!(kind, super::concurrency::WHOLE[place], "{record}");
                let content = record["content"].as_str().unwrap();
                assert!(place > 0 || content == "edited" || content.starts_with("question "), "{record}");
            }
            reads += 1;
            tokio::task::yield_now().await;
        }
        reads
    };
    let ((), (removed, edited), reads) = tokio::join!(writing, correcting, reading);
    assert!(reads > 1, "{reads}");
    let mut sessions = node.keepline.sessions();
    let state = sessions.describe(at).await.unwrap();
    let count = u64::try_from(WRITERS * TURNS).unwrap();
    assert_eq!((state.oldest, state.next, state.answers), (0, 6 * count, count));
    // What was told to be changed is changed, and nothing else.
    let (mut gone, mut put, mut bytes) = (0, 0, 0);
    for record in &super::users::records(&given.store, "shared").await {
        bytes += record.len() as u64;
        let record: Value = serde_json::from_str(record).unwrap();
        gone += u64::from(record["kind"] == "other");
        put += u64::from(record["content"] == "edited");
    }
    assert_eq!((gone, put), (removed, edited));
    assert_eq!(state.bytes, bytes);
}
