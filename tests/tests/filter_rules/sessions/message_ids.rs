//! An answer with a message id counts once, whoever sends it again, and from wherever.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use keepline::{
    Pipe,
    pipe::{Answer, Effect},
    store::{
        Deadline, Failure, FailureCode, IndexedReceipt, IndexedTransaction, MemoryStore, Operation, Store, Writer, part,
    },
};
use keepline_tests::{
    intercept::{Intercept, Intercepted},
    lanes::{Node, metadata_of, operations_told, problem_code, problem_message, untouched},
    on_every_store,
    requests::{self, count, description, extent, get_all_in},
    stores::StoreUnderTest,
};
use parking_lot::Mutex;
use serde_json::json;

use crate::Given;

/// An answer of session `s1` whose metadata have this id.
async fn send(pipe: &mut Pipe, id: &str) -> Effect {
    let metadata = json!({"session_id": "s1", "message_id": id}).to_string();
    pipe.answer(id, &metadata).await.unwrap().effect
}

async fn answers(node: &mut Node, session: &str) -> u64 {
    let count = node.sessions.get(session, "answer_count").await.unwrap().value().map(str::to_owned);
    count.map_or(0, |count| count.parse().unwrap())
}

async fn an_answer_that_is_sent_again_counts_once(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    assert_eq!(send(&mut node.pipe, "m-1").await, Effect::Stored);
    assert_eq!(node.store.calls(), 1);
    let before = given.contents(&requests::session("s1")).await;
    node.log.take();

    let metadata = r#"{"session_id":"s1","message_id":"m-1"}"#;
    assert!(untouched(Effect::Repeated, &node.answer("other words", metadata).await));
    assert_eq!(node.store.calls(), 1);
    assert_eq!(node.log.take(), ["plugin: keepline.session: Answer already stored in session s1"]);
    // As a record, in the turn of a question, on another pipe, and by another host.
    let entry = Answer { text: "other words", metadata: "{}", message_id: Some("m-1"), ..Answer::default() };
    node.ask("s1").await;
    assert!(untouched(Effect::Repeated, &node.pipe.reply(entry, None).await.unwrap()));
    assert_eq!(send(&mut node.keepline.pipe(), "m-1").await, Effect::Repeated);
    let mut other = Node::new(&given.store, r#"{"max_history": 2}"#).await;
    assert_eq!(send(&mut other.pipe, "m-1").await, Effect::Repeated);
    assert_eq!(given.contents(&requests::session("s1")).await, before);
    assert_eq!((node.counters().stored, node.counters().repeated), (1, 3));
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":1,"last_answer":"m-1"}"#);

    // The entry's goes before that of the metadata; one without counts as often as it is sent.
    let entry = Answer { text: "x", metadata, message_id: Some("m-2"), ..Answer::default() };
    assert!(untouched(Effect::Stored, &node.pipe.reply(entry, None).await.unwrap()));
    for _ in 0..2 {
        assert!(untouched(Effect::Stored, &node.say("s1", "x").await));
    }
    assert_eq!((answers(&mut node, "s1").await, operations_told(&node.history("s1").await)), (4, 8));
    // Another session, and another life of this one, know nothing of it.
    assert_eq!(node.answer("x", r#"{"session_id":"s2","message_id":"m-1"}"#).await.effect, Effect::Stored);
    node.sessions.delete("s1").await.unwrap();
    node.pipe.open();
    assert_eq!(send(&mut node.pipe, "m-1").await, Effect::Stored);
    assert_eq!(answers(&mut node, "s1").await, 1);
}

async fn different_texts_are_different_message_ids(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    let (most, more, far_more) = ("x".repeat(256), "x".repeat(257), "x".repeat(100_000));
    let same_head = format!("{far_more}y");
    let ids = [
        "m",
        "M",
        " ",
        "m ",
        " m",
        "m\n",
        "\0",
        "é",
        "e\u{301}",
        "🎉",
        "a b",
        "a/b:c*[?]{}\"\\",
        "h-",
        "h-abc",
        "__keys__",
        "-0",
        "0",
        "msg_0123-4567",
        &most,
        &more,
        &far_more,
        &same_head,
    ];
    for id in ids {
        assert_eq!(send(&mut node.pipe, id).await, Effect::Stored, "{id:?}");
    }
    for id in ids {
        assert_eq!(send(&mut node.keepline.pipe(), id).await, Effect::Repeated, "{id:?}");
    }
    assert_eq!(answers(&mut node, "s1").await, ids.len() as u64);
    // However it is spelled in JSON.
    let spelled = r#"{"session_id":"s1","message_id":"\u006d","message\u005fid":"\u00e9"}"#;
    assert_eq!(node.answer("x", spelled).await.effect, Effect::Repeated);
    // What is none.
    for none in ["null", "\"\"", "0", "7", "true", "[]", "[\"m\"]", "{}", "NaN"] {
        let metadata = format!(r#"{{"session_id":"s1","message_id":{none}}}"#);
        for _ in 0..2 {
            assert!(untouched(Effect::Stored, &node.answer("x", &metadata).await), "{none}");
        }
    }
    // A question's is no answer's.
    let question = node.question(r#"{"session_id":"s1","message_id":"q"}"#).await;
    assert_eq!((question.effect, question.problem), (Effect::Enriched, None));
    assert_eq!(send(&mut node.pipe, "q").await, Effect::Stored);
}

/// Each is sent by all pipes of two hosts, at the same time.
async fn one_of_many_identical_answers_is_stored(given: Given) {
    const IDS: usize = 40;
    let (mut one, other) = (Node::new(&given.store, r#"{"max_history":4}"#).await, Node::new(&given.store, "{}").await);
    let lanes = (0..8).map(|number| {
        let mut pipe = if number % 2 == 0 { one.keepline.pipe() } else { other.keepline.pipe() };
        async move {
            let mut stored = 0;
            for id in 0..IDS {
                match send(&mut pipe, &format!("m-{}", (id + number) % IDS)).await {
                    Effect::Stored => stored += 1,
                    effect => assert_eq!(effect, Effect::Repeated),
                }
            }
            stored
        }
    });
    assert_eq!(join_all(lanes).await.into_iter().sum::<usize>(), IDS);
    assert_eq!(answers(&mut one, "s1").await, IDS as u64);
    assert_eq!(operations_told(&one.history("s1").await), 2 * IDS as u64);
}

/// A session does not grow with its ids.
async fn beyond_a_thousand_message_ids_the_newest_five_hundred_are_kept(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    for id in 0..=1000 {
        assert_eq!(send(&mut node.pipe, &format!("m-{id}")).await, Effect::Stored);
    }
    assert_eq!(given.apply_one("s1", count("answers")).await, extent(501, 500));
    let parts = given.describe("s1").await.parts;
    let maps: Vec<_> = parts.iter().filter(|one| one.kind == part::MAP).map(|map| (&*map.name, map.count)).collect();
    assert_eq!(maps, [("messages", 500)]);
    for id in [501, 502, 1000] {
        assert_eq!(send(&mut node.pipe, &format!("m-{id}")).await, Effect::Repeated);
    }
    assert_eq!(send(&mut node.pipe, "m-500").await, Effect::Stored);
    assert_eq!(answers(&mut node, "s1").await, 1002);
}

on_every_store! {
    an_answer_that_is_sent_again_counts_once,
    different_texts_are_different_message_ids,
    one_of_many_identical_answers_is_stored,
    beyond_a_thousand_message_ids_the_newest_five_hundred_are_kept,
}

/// Fails what forgets old ids, as if the host had ended between an answer and that.
#[derive(Debug, Default)]
struct Ends(Mutex<bool>);

#[async_trait]
impl Intercept for Ends {
    async fn transact(
        &self,
        store: &dyn Store,
        writer: &Writer,
        transaction: &IndexedTransaction,
        deadline: Deadline,
    ) -> Result<IndexedReceipt, Failure> {
        if *self.0.lock()
            && transaction.transaction.operations.iter().any(|one| matches!(one, Operation::ReplaceOldest(_)))
        {
            let message = "it ended".into();
            return Err(Failure { code: FailureCode::Unavailable, subject: String::new(), limit: 0, message });
        }
        store.transact(writer, transaction, deadline).await
    }
}

#[tokio::test]
async fn an_interrupted_removal_of_old_message_ids_is_done_by_the_next_answer() {
    let ends = Arc::new(Intercepted::new(Arc::new(MemoryStore::default()), Ends::default()));
    let store: Arc<dyn Store> = ends.clone();
    let mut node = Node::new(&store, r#"{"auto_summarize":false}"#).await;
    *ends.0.lock() = true;
    for id in 0..1010 {
        assert_eq!(send(&mut node.pipe, &format!("m-{id}")).await, Effect::Stored);
    }
    assert!(node.log.of("plugin: keepline.store")[0].starts_with("Old message ids of session s1 not forgotten: "));
    // Nothing is forgotten before its time.
    for id in [0, 500, 1009] {
        assert_eq!(send(&mut node.pipe, &format!("m-{id}")).await, Effect::Repeated);
    }
    *ends.0.lock() = false;
    assert_eq!(send(&mut node.pipe, "next").await, Effect::Stored);
    let describe = requests::transaction("s1", requests::unused(), [requests::describe()]);
    let receipt = store.transact(Writer::new().advance(), &describe, Deadline::NEVER).await.unwrap();
    let described = description(receipt.receipt.outcomes[0].clone());
    for (kind, name) in [(part::MAP, "messages"), (part::LOG, "answers")] {
        let found = described.parts.iter().find(|part| (&*part.kind, &*part.name) == (kind, name));
        assert_eq!(found.unwrap().count, 500, "{name}");
    }
    assert_eq!(answers(&mut node, "s1").await, 1011);
}

/// What others made of the place where ids are kept is left as it is, and the answer is stored without its id.
#[tokio::test]
async fn an_answer_is_stored_without_its_id_if_ids_cannot_be_stored() {
    for broken in ["messages", "answers"] {
        let given = StoreUnderTest::redis();
        let mut node = Node::new(&given.store, "{}").await;
        assert_eq!(send(&mut node.pipe, "m-1").await, Effect::Stored);
        let name = if broken == "messages" { "s1:__map.messages__" } else { "s1:__log.answers__" };
        let kind: String = given.raw().on("TYPE", name, &[]);
        assert_eq!(kind, if broken == "messages" { "hash" } else { "list" }, "{name}");
        given.raw().on::<()>("DEL", name, &[]);
        given.raw().on::<()>("SET", name, &["not ours"]);
        let passed = node.answer("two", r#"{"session_id":"s1","message_id":"m-2"}"#).await;
        assert_eq!((passed.effect, problem_code(&passed)), (Effect::Stored, "broken"), "{broken}");
        assert!(problem_message(&passed).starts_with("Answer in session s1 stored without "), "{passed:?}");
        assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":2,"last_answer":"two"}"#);
        assert_eq!(given.raw().on::<String>("GET", name, &[]), "not ours");
        // Those without an id have nothing to do with it.
        assert!(untouched(Effect::Stored, &node.answer("three", &metadata_of("s1")).await));
        // Nor does who reads the other parts.
        let _ = given.try_send(&requests::transaction("s1", requests::unused(), [get_all_in("values")])).await.unwrap();
    }
}
