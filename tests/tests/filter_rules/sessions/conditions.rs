//! Conditions of the calls that write to a session, with the component on each store.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use async_trait::async_trait;
use futures::future::join_all;
use keepline::{
    sessions::{
        ExpectedValue, SessionErrorCode, Transcript, TranscriptSettings, WriteConditions, chat_messages, user_bucket,
    },
    store::{Deadline, Failure, IndexedReceipt, IndexedTransaction, Store, Writer, kind},
};
use keepline_tests::{
    intercept::{Intercept, Intercepted},
    lanes::Node,
    on_every_store,
};
use tokio::sync::Notify;

use crate::Given;

const CONVERSATION: &str = r#"{"conversation": true}"#;

fn owned_by(user: &str) -> WriteConditions {
    WriteConditions { owner: Some(user.into()), ..WriteConditions::default() }
}

async fn a_session_is_written_to_under_its_owner_only(given: Given) {
    let mut node = Node::new(&given.store, CONVERSATION).await;
    // One whose id is hashed, and one whose id is not.
    for owner in ["anna", "Anna Müller"] {
        node.sessions.create("s").await.unwrap();
        node.sessions.register("s".into(), Some(owner)).await.unwrap();
        let messages = [r#"{"role": "user", "content": "?"}"#];
        for (user, is_owner) in [("boris", false), (owner, true)] {
            let mut sessions = node.keepline.sessions().under(&owned_by(user));
            let done = [
                sessions.put("s", "k", "1").await.map(drop),
                sessions.increment("s", "n", 1).await.map(drop),
                sessions.clear("s", Some("k")).await.map(drop),
                sessions.set_messages("s".into(), &chat_messages(&messages), None).await.map(drop),
                sessions.rewrite("s".into(), 0, Some("!")).await.map(drop),
                sessions.set_title("s".into(), Some("t")).await.map(drop),
                sessions.clear_messages("s".into(), None).await.map(drop),
                sessions.delete("s").await.map(drop),
            ];
            for (number, done) in done.into_iter().enumerate() {
                let code = done.err().map(|error| error.code);
                assert_eq!(code, (!is_owner).then_some(SessionErrorCode::NotFound), "{owner}, {user}, call {number}");
            }
        }
    }
}

async fn a_node_is_written_to_under_its_owner_only(given: Given) {
    let mut node = Node::new(&given.store, CONVERSATION).await;
    let transcript = Transcript { session: "s", app_id: Some("shop"), node_id: Some("llm") };
    let messages = [r#"{"role": "user", "content": "?"}"#];
    for owner in ["anna", "Anna Müller"] {
        node.sessions.create("s").await.unwrap();
        node.sessions.register("s".into(), Some(owner)).await.unwrap();
        // It becomes the writer's.
        let mut owned = node.keepline.sessions().under(&owned_by(owner));
        owned.set_messages(transcript, &chat_messages(&messages), None).await.unwrap();
        assert_eq!(node.sessions.describe(transcript).await.unwrap().owner, Some(user_bucket(owner)));
        node.sessions.register(transcript, None).await.unwrap();
        for (user, is_owner) in [("boris", false), (owner, true)] {
            let mut sessions = node.keepline.sessions().under(&owned_by(user));
            let done = [
                sessions.set_messages(transcript, &chat_messages(&messages), None).await.map(drop),
                sessions.rewrite(transcript, 1, Some("!")).await.map(drop),
                sessions.clear_messages(transcript, Some(1)).await.map(drop),
                sessions.set_title(transcript, Some("t")).await.map(drop),
                sessions.set_settings(transcript, &TranscriptSettings::default()).await.map(drop),
                sessions.clear_messages(transcript, None).await.map(drop),
            ];
            for (number, done) in done.into_iter().enumerate() {
                let code = done.err().map(|error| error.code);
                assert_eq!(code, (!is_owner).then_some(SessionErrorCode::NotFound), "{owner}, {user}, call {number}");
            }
        }
        node.keepline.sessions().under(&owned_by(owner)).delete("s").await.unwrap();
        assert_eq!(node.sessions.describe(transcript).await.unwrap_err().code, SessionErrorCode::NotFound);
    }
}

/// Holds the first write to a node until something else has been done.
#[derive(Debug, Default)]
struct HeldNode {
    was_held: AtomicBool,
    reached: Notify,
    go_on: Notify,
}

#[async_trait]
impl Intercept for HeldNode {
    async fn transact(
        &self,
        store: &dyn Store,
        writer: &Writer,
        transaction: &IndexedTransaction,
        deadline: Deadline,
    ) -> Result<IndexedReceipt, Failure> {
        let writes_node = transaction.transaction.bucket.kind == kind::NODE && transaction.has_writes();
        if writes_node && !self.was_held.swap(true, SeqCst) {
            self.reached.notify_one();
            self.go_on.notified().await;
        }
        store.transact(writer, transaction, deadline).await
    }
}

async fn a_node_written_while_its_session_became_anothers_is_removed(given: Given) {
    let mut node = Node::new(&given.store, CONVERSATION).await;
    let transcript = Transcript { session: "s", app_id: None, node_id: Some("llm") };
    let messages = [r#"{"role": "user", "content": "?"}"#];
    for is_begun_again in [false, true] {
        let held = Arc::new(Intercepted::new(given.store.clone(), HeldNode::default()));
        let late = Node::new(&(held.clone() as Arc<dyn Store>), CONVERSATION).await;
        node.sessions.create("s").await.unwrap();
        node.sessions.register("s".into(), Some("anna")).await.unwrap();
        let written = tokio::spawn(async move {
            let mut anna = late.keepline.sessions().under(&owned_by("anna"));
            anna.set_messages(transcript, &chat_messages(&messages), None).await.unwrap();
            anna.register(transcript, None).await
        });
        held.reached.notified().await;
        node.sessions.delete("s").await.unwrap();
        if is_begun_again {
            node.sessions.create("s").await.unwrap();
            node.sessions.register("s".into(), Some("boris")).await.unwrap();
        }
        held.go_on.notify_one();
        assert_eq!(written.await.unwrap().unwrap_err().code, SessionErrorCode::NotFound);
        assert_eq!(node.sessions.describe(transcript).await.unwrap_err().code, SessionErrorCode::NotFound);
    }
    // Its name is the new owner's to use.
    let mut boris = node.keepline.sessions().under(&owned_by("boris"));
    boris.set_messages(transcript, &chat_messages(&messages), None).await.unwrap();
    boris.register(transcript, None).await.unwrap();
    assert_eq!(node.sessions.describe(transcript).await.unwrap().owner, Some(user_bucket("boris")));
}

/// At once, with as many pipes.
async fn a_call_under_a_request_id_counts_once_however_often_it_is_made(given: Given) {
    let mut node = Node::new(&given.store, CONVERSATION).await;
    node.sessions.create("s").await.unwrap();
    for key in ["n", "answer_count"] {
        let calls = (0..24).map(async |number| {
            let request_id = Some(format!("{key} {}", number % 3));
            let conditions = WriteConditions { request_id, ..WriteConditions::default() };
            node.keepline.sessions().under(&conditions).increment("s", key, 1).await.unwrap().value
        });
        let told = join_all(calls).await;
        assert!(told.iter().all(|value| (1..=3).contains(value)), "{told:?}");
        assert_eq!(node.sessions.get("s", key).await.unwrap().value(), Some("3"));
    }
}

/// The value of a user that the conditions are about, in place of a session's.
const USER: &str = "anna";

async fn value_of(node: &Node, is_users: bool) -> Option<String> {
    let mut sessions = node.keepline.sessions();
    let found = match is_users {
        true => sessions.user_values(USER, Some("k")).await,
        false => sessions.get("s", "k").await,
    };
    found.unwrap().value().map(str::to_owned)
}

/// Reads a value, and writes one more on it, until nobody came between.
async fn a_value_that_many_change_under_what_they_have_read_loses_no_change(given: Given) {
    let mut node = Node::new(&given.store, CONVERSATION).await;
    node.sessions.create("s").await.unwrap();
    let expecting = |expected_value| {
        let conditions = WriteConditions { expected_value: Some(expected_value), ..WriteConditions::default() };
        node.keepline.sessions().under(&conditions)
    };
    for is_users in [false, true] {
        let writers = (0..6).map(async |_| {
            for _ in 0..5 {
                loop {
                    let found = value_of(&node, is_users).await;
                    let next = found.as_ref().map_or(1, |text| text.parse::<u64>().unwrap() + 1).to_string();
                    let mut sessions = expecting(found.map_or(ExpectedValue::Absent, ExpectedValue::Text));
                    let written = match is_users {
                        true => sessions.put_user_value(USER, "k", Some(&next)).await,
                        false => sessions.put("s", "k", &next).await,
                    };
                    match written {
                        Ok(_) => break,
                        Err(error) => assert_eq!(error.code, SessionErrorCode::Conflict),
                    }
                }
            }
        });
        join_all(writers).await;
        assert_eq!(value_of(&node, is_users).await.as_deref(), Some("30"));
    }
    for (expected, is_met) in [
        (ExpectedValue::Absent, false),
        (ExpectedValue::Text("29".into()), false),
        (ExpectedValue::Present, true),
        (ExpectedValue::Absent, true),
    ] {
        let cleared = expecting(expected.clone()).clear("s", Some("k")).await;
        assert_eq!(cleared.map_err(|error| error.code).is_ok(), is_met);
        let removed = expecting(expected).put_user_value(USER, "k", None).await;
        assert_eq!(removed.map_err(|error| error.code).is_ok(), is_met);
    }
    // A call that would not look at it is not made.
    let refused = expecting(ExpectedValue::Absent).increment("s", "n", 1).await.unwrap_err();
    assert_eq!(refused.code, SessionErrorCode::InvalidValue);
    let refused = expecting(ExpectedValue::Absent).clear("s", None).await.unwrap_err();
    assert_eq!(refused.code, SessionErrorCode::InvalidValue);
    let refused = expecting(ExpectedValue::Absent).create("new").await.unwrap_err();
    assert_eq!(refused.code, SessionErrorCode::InvalidValue);
    assert_eq!(node.sessions.resume("new").await.unwrap_err().code, SessionErrorCode::NotFound);
    let refused = expecting(ExpectedValue::Absent).forget_user(USER).await.unwrap_err();
    assert_eq!(refused.code, SessionErrorCode::InvalidValue);
}

/// At once, each in another way.
async fn of_many_who_change_the_version_that_they_have_read_one_does(given: Given) {
    let mut node = Node::new(&given.store, CONVERSATION).await;
    node.sessions.create("s").await.unwrap();
    let messages = [r#"{"role": "user", "content": "?"}"#, r#"{"role": "assistant", "content": "!"}"#];
    let messages = chat_messages(&messages);
    let transcript = Transcript::from("s");
    for round in 0..4 {
        node.sessions.set_messages(transcript, &messages, None).await.unwrap();
        let seen = node.sessions.describe(transcript).await.unwrap();
        let conditions = WriteConditions { expected_version: seen.version(), ..WriteConditions::default() };
        let changes = (0..12).map(async |number| {
            let mut sessions = node.keepline.sessions().under(&conditions);
            // To set what is set already is no change.
            let text = format!("{number} in round {round}");
            match number % 4 {
                0 => sessions.set_messages(transcript, &messages, None).await.map(drop),
                1 => sessions.rewrite(transcript, seen.oldest, Some(&text)).await.map(drop),
                2 => sessions.set_title(transcript, Some(&text)).await.map(drop),
                _ => sessions.clear_messages(transcript, None).await.map(drop),
            }
        });
        let done = join_all(changes).await;
        assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 1, "{done:?}");
        let codes = done.iter().filter_map(|done| Some(done.as_ref().err()?.code));
        assert!(codes.into_iter().all(|code| code == SessionErrorCode::Conflict), "{done:?}");
        assert_ne!(node.sessions.describe(transcript).await.unwrap().version(), seen.version());
    }
    let mut sessions = node.keepline.sessions().under(&WriteConditions {
        expected_version: node.sessions.describe(transcript).await.unwrap().version(),
        ..WriteConditions::default()
    });
    // What takes more than one transaction is not begun.
    assert_eq!(sessions.delete("s").await.unwrap_err().code, SessionErrorCode::InvalidValue);
    assert_eq!(sessions.clear_messages(transcript, Some(0)).await.unwrap_err().code, SessionErrorCode::InvalidValue);
}

on_every_store![
    a_session_is_written_to_under_its_owner_only,
    a_node_is_written_to_under_its_owner_only,
    a_node_written_while_its_session_became_anothers_is_removed,
    a_call_under_a_request_id_counts_once_however_often_it_is_made,
    a_value_that_many_change_under_what_they_have_read_loses_no_change,
    of_many_who_change_the_version_that_they_have_read_one_does,
];
