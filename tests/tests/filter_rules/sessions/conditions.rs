//! Conditions of the calls that write to a session, with the component on each store.

use futures::future::join_all;
use keepline::sessions::{
    SessionErrorCode, Transcript, TranscriptSettings, WriteConditions, chat_messages, user_bucket,
};
use keepline_tests::{lanes::Node, on_every_store};

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

on_every_store![
    a_session_is_written_to_under_its_owner_only,
    a_node_is_written_to_under_its_owner_only,
    a_call_under_a_request_id_counts_once_however_often_it_is_made,
];
