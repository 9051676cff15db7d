//! Searching, on the bundled filter.

use std::{sync::Arc, time::Duration};

use super::*;
use crate::{
    Options,
    embedding::{Embedder, Embedding, EmbeddingError},
    maintenance::{Maintenance, MaintenanceOptions, NoModel},
    memories::{Remember, RememberOutcome},
    plugin,
    store::MemoryStore,
};

async fn keepline(filter: &str) -> Keepline {
    let plugin = plugin::for_tests();
    let options = Options { filter: filter.into(), ..Options::default() };
    Keepline::new(plugin, Arc::new(MemoryStore::default()), options).await.unwrap()
}

/// And what is due then is done.
async fn remember(keepline: &Keepline, user: &str, session: &str, said: [&str; 2]) {
    let [question, answer] = said;
    let messages = [json!({"role": "user", "content": question}), json!({"role": "assistant", "content": answer})];
    let told = Remember { user, session: Some(session), messages: &messages, ..Remember::default() };
    let remembered = keepline.remember(told, None).await;
    assert!(matches!(remembered.outcome, RememberOutcome::Stored { .. }), "{remembered:?}");
    let runtime = tokio::runtime::Handle::current();
    let maintenance = Maintenance::new(keepline.clone(), Arc::new(NoModel), MaintenanceOptions::default(), runtime);
    for task in remembered.due {
        maintenance.run(task).await;
    }
}

const DOG: [&str; 2] = ["Our dog Bruno chased a squirrel.", "Did he catch it?"];
const TEA: [&str; 2] = ["I like tea.", "Green or black?"];

fn said(found: &Memories) -> Vec<&str> {
    found.found.iter().map(|memory| &*memory.user_message).collect()
}

#[tokio::test]
async fn memories_are_found_in_their_session_including_the_newest_turn() {
    let keepline = keepline(r#"{"conversation": true, "recall": "session"}"#).await;
    remember(&keepline, "anna", "s", TEA).await;
    remember(&keepline, "anna", "s", DOG).await;
    let search = MemorySearch { user: "anna", session: Some("s"), ..MemorySearch::default() };
    let found = keepline.memories(MemorySearch { query: Some("What did Bruno chase?"), ..search }).await.unwrap();
    let best = &found.found[0];
    assert_eq!((&*best.session, best.position, best.similarity), ("s", 2, Some(1.0)));
    assert_eq!(best.combined_text, format!("User: {}\n\nAssistant: {}", DOG[0], DOG[1]));
    assert!(best.id.as_ref().is_some_and(|id| id.starts_with("mem-")) && best.created_at > Some(1e9));
    let metadata: Value = serde_json::from_str(best.metadata.as_deref().unwrap()).unwrap();
    assert_eq!(metadata["storage_version"], "v1");
    assert_eq!(said(&found).iter().filter(|text| **text == DOG[0]).count(), 1, "one memory, not one a passage");

    // A share of the best is never above all of it.
    let none = keepline.memories(MemorySearch { query: Some("Bruno"), threshold: 1.0, ..search }).await.unwrap();
    assert_eq!(said(&none), [""; 0]);
    let one = keepline.memories(MemorySearch { query: Some("Bruno tea"), limit: 1, threshold: 0.0, ..search }).await;
    assert_eq!(said(&one.unwrap()).len(), 1);
    assert_eq!(said(&keepline.memories(MemorySearch { query: Some("zeppelin"), ..search }).await.unwrap()), [""; 0]);

    // The newest question does not find itself.
    remember(&keepline, "anna", "s", ["Where is Bruno the dog now?", "I can't tell."]).await;
    let found = keepline.memories(search).await.unwrap();
    assert_eq!((&*found.query, said(&found)[0]), ("Where is Bruno the dog now?", DOG[0]));
    assert!(!said(&found).contains(&"Where is Bruno the dog now?"));
    assert_eq!(found.found[0].similarity, Some(1.0));
    // Nor what merely stands beside it.
    remember(&keepline, "anna", "s", ["Quantum zeppelins fascinate physicists.", "Quantum zeppelins do."]).await;
    assert_eq!(said(&keepline.memories(search).await.unwrap()), [""; 0]);
}

#[tokio::test]
async fn an_exchange_is_found_by_its_own_words_and_not_by_its_neighbours() {
    for filter in [r#"{"conversation": true, "recall": "session"}"#, r#"{"conversation": true, "recall": "user"}"#] {
        let keepline = keepline(filter).await;
        let france = ["What is the capital of France?", "Paris."];
        for said in [TEA, ["My dog is called Bruno.", "A fine name."], france, ["I live by the sea.", "Lovely."]] {
            remember(&keepline, "anna", "s", said).await;
        }
        let search = MemorySearch { user: "anna", session: Some("s"), ..MemorySearch::default() };
        let found = keepline.memories(MemorySearch { query: Some("capital of France"), ..search }).await.unwrap();
        assert_eq!(said(&found), [france[0]]);
        // A question and its answer count together.
        remember(&keepline, "anna", "s", ["Where are my keys?", "In the red drawer."]).await;
        remember(&keepline, "anna", "s", ["Which keys open the gate?", "None."]).await;
        let found = keepline.memories(MemorySearch { query: Some("keys drawer"), ..search }).await.unwrap();
        assert_eq!(said(&found)[0], "Where are my keys?");
    }
}

#[tokio::test]
async fn nothing_is_found_for_another_user() {
    let keepline = keepline(r#"{"conversation": true, "recall": "session"}"#).await;
    remember(&keepline, "anna", "s", DOG).await;
    remember(&keepline, "ben", "b", TEA).await;
    let search = MemorySearch { user: "ben", query: Some("dog"), ..MemorySearch::default() };
    let foreign = keepline.memories(MemorySearch { session: Some("s"), ..search }).await.unwrap_err();
    assert_eq!(foreign.code, SessionErrorCode::NotFound);
    let words = MemorySearch { method: Method::Keyword, ..search };
    assert_eq!(said(&keepline.memories(words).await.unwrap()), [""; 0]);
    assert_eq!(said(&keepline.memories(MemorySearch { session: Some("s"), ..words }).await.unwrap()), [""; 0]);
    let nobody = MemorySearch { user: "eve", method: Method::Keyword, query: None, ..search };
    assert_eq!(keepline.memories(nobody).await.unwrap().found, []);
}

#[tokio::test]
async fn a_keyword_search_finds_whole_exchanges() {
    let keepline = keepline(r#"{"conversation": true}"#).await;
    remember(&keepline, "anna", "s", TEA).await;
    remember(&keepline, "anna", "t", DOG).await;
    let search = MemorySearch { user: "anna", method: Method::Keyword, ..MemorySearch::default() };
    for (words, expected) in [("GREEN", vec![TEA[0]]), ("i", vec![DOG[0], TEA[0]]), ("dog tea", vec![])] {
        let found = keepline.memories(MemorySearch { query: Some(words), ..search }).await.unwrap();
        assert_eq!((said(&found), found.method.name()), (expected, "keyword"), "{words}");
        assert!(found.found.iter().all(|memory| memory.similarity.is_none()));
    }
}

#[tokio::test]
async fn a_regenerated_answer_is_found_by_its_own_words() {
    let keepline = keepline(r#"{"conversation": true}"#).await;
    let metadata = r#"{"session_id": "s", "user_id": "anna", "message_id": "m"}"#;
    for (answer, id) in [("GREEN, I think.", "a1"), ("RED, I am sure.", "a2")] {
        let mut pipe = keepline.pipe();
        let question = Question { text: "Which colour?", metadata, ..Question::default() };
        pipe.ask(question, None).await.unwrap();
        pipe.answer(answer, &format!(r#"{{"message_id": "{id}"}}"#)).await.unwrap();
    }
    let search = MemorySearch { user: "anna", method: Method::Keyword, ..MemorySearch::default() };
    for (word, expected) in [("GREEN", "GREEN, I think."), ("RED", "RED, I am sure."), ("colour", "RED, I am sure.")] {
        let found = keepline.memories(MemorySearch { query: Some(word), ..search }).await.unwrap();
        let answers: Vec<&str> = found.found.iter().map(|memory| &*memory.ai_response).collect();
        assert_eq!((said(&found), answers), (vec!["Which colour?"], vec![expected]), "{word}");
    }
}

/// A model that knows what animals are, or one that never answers.
struct Animals {
    answers: bool,
}

#[async_trait::async_trait]
impl Embedder for Animals {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbeddingError> {
        if !self.answers {
            std::future::pending::<()>().await;
        }
        let of = |text: &String| {
            let is_animal = ["Bruno", "pets"].iter().any(|word| text.contains(word));
            let values = if is_animal { vec![1.0, 0.1] } else { vec![0.1, 1.0] };
            Embedding { model: "small".into(), values }
        };
        Ok(texts.iter().map(of).collect())
    }
}

#[tokio::test]
async fn the_search_method_tells_whether_embeddings_were_used() {
    let store = Arc::new(MemoryStore::default());
    let keepline = async |answers, wait| {
        let filter = r#"{"conversation": true, "recall": "session", "recall_vectors": true}"#.into();
        let embedder = Some(Arc::new(Animals { answers }) as _);
        let options = Options { filter, embedder, embedding_wait: wait, ..Options::default() };
        let plugin = plugin::for_tests();
        Keepline::new(plugin, store.clone(), options).await.unwrap()
    };
    let prompt = keepline(true, Duration::from_secs(60)).await;
    remember(&prompt, "anna", "s", DOG).await;
    for number in 0..6 {
        remember(&prompt, "anna", "s", [&format!("Remark {number} about nothing."), "Well."]).await;
    }
    let search = MemorySearch { user: "anna", session: Some("s"), limit: 1, ..MemorySearch::default() };
    let search = |query| MemorySearch { query: Some(query), ..search };
    let found = prompt.memories(search("Which pets?")).await.unwrap();
    assert_eq!((said(&found), found.method.name()), (vec![DOG[0]], "hybrid"));
    let words = MemorySearch { method: Method::Keyword, ..search("squirrel") };
    assert_eq!(prompt.memories(words).await.unwrap().method.name(), "keyword");

    let late = keepline(false, Duration::from_millis(1)).await;
    for (query, expected) in [("Which pets?", vec![]), ("What did Bruno chase?", vec![DOG[0]])] {
        let found = late.memories(search(query)).await.unwrap();
        assert_eq!((said(&found), found.method.name()), (expected, "lexical"), "{query}");
    }
}

#[tokio::test]
async fn a_named_session_is_searched_regardless_of_matches_in_others() {
    let keepline = keepline(r#"{"conversation": true, "recall": "user", "recall_tokens": 64}"#).await;
    remember(&keepline, "anna", "a", ["The wifi password is heron.", "Noted."]).await;
    remember(&keepline, "anna", "b", ["The wifi password is heron.", "Noted."]).await;
    remember(&keepline, "anna", "b", TEA).await;
    for number in 0..20 {
        let said = format!("wifi password {number}");
        remember(&keepline, "anna", "c", [&said, "Noted."]).await;
    }
    remember(&keepline, "anna", "d", DOG).await;
    let search = MemorySearch { user: "anna", query: Some("wifi password"), ..MemorySearch::default() };
    for method in [Method::Recall, Method::Keyword] {
        let search = MemorySearch { method, limit: 2, ..search };
        for session in ["a", "b"] {
            let found = keepline.memories(MemorySearch { session: Some(session), ..search }).await.unwrap();
            assert_eq!(said(&found).first(), Some(&"The wifi password is heron."), "{session} {method:?}");
            assert_eq!(found.found[0].session, session);
        }
        let found = keepline.memories(MemorySearch { session: Some("d"), ..search }).await.unwrap();
        assert_eq!(said(&found), [""; 0], "{method:?}");
        // An empty name is none.
        for session in [None, Some("")] {
            let found = keepline.memories(MemorySearch { session, ..search }).await.unwrap();
            assert!(found.found.iter().all(|memory| memory.session == "c"), "{found:?}");
            assert!(!found.found.is_empty());
        }
    }
}

#[tokio::test]
async fn a_search_that_recall_cannot_serve_is_refused_with_a_reason() {
    let search = MemorySearch { user: "anna", query: Some("dog"), ..MemorySearch::default() };
    for (filter, told) in [
        ("{}", "conversation=true"),
        (r#"{"conversation": true}"#, "Recall is off"),
        (r#"{"conversation": true, "recall": "session"}"#, "a single session"),
    ] {
        let error = keepline(filter).await.memories(search).await.unwrap_err();
        assert!(error.code == SessionErrorCode::InvalidValue && error.message.contains(told), "{error:?}");
    }
    let on = keepline(r#"{"conversation": true, "recall": "session"}"#).await;
    for threshold in [-0.1, 1.1, f64::NAN] {
        let error = on.memories(MemorySearch { threshold, ..search }).await.unwrap_err();
        assert_eq!(error.code, SessionErrorCode::InvalidValue);
    }
}
