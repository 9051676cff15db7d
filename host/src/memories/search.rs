//! Searching: recall's passages or words, and the exchanges that they are a part of.
//!
//! Promises that a search writes nothing, finds nothing of another user's, and says by what it found. Nothing is ranked here:
//! recall's order and scores are kept.

use serde_json::{Value, json};

use super::{
    found::{FoundMemory, Memories, MethodUsed},
    remember::Scope,
    transcripts::{Message, Transcripts, is_gone},
};
use crate::{
    Keepline, Sessions,
    entry::{Effect, Question},
    sessions::{MessageQuery, SessionError, SessionErrorCode},
    store::FailureCode,
};

const LIMIT: u32 = 5;
const LIMIT_MAX: u32 = 100;
/// Calls of a search for words that find too little.
const CALLS: u32 = 16;

/// By what memories are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// By recall: words, names and dates of the query, and what stands near them; with
    /// [`Options::embedder`](crate::Options::embedder) also what is like it.
    #[default]
    Recall,
    /// Messages that hold all words of the query, the newest first.
    Keyword,
}

/// What is looked for: `MemorySearch { user, query: Some("dog"), ..MemorySearch::default() }`.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "made field by field, with the default for the rest")]
pub struct MemorySearch<'a> {
    /// The user's id.
    pub user: &'a str,
    /// None: the newest question of the session, or else of the session used last; its own turn is not found then.
    pub query: Option<&'a str>,
    /// None: all sessions of the user. Recall needs it where its scope is not the user.
    pub session: Option<&'a str>,
    /// 0: 5; no more than 100. A node that retrieves before each answer takes 3 as a rule.
    pub limit: u32,
    /// What a memory's similarity has to be above, from 0 to 1; default 0.5. Not for words.
    pub threshold: f64,
    /// Default recall.
    pub method: Method,
}

impl Default for MemorySearch<'_> {
    fn default() -> Self {
        Self { user: "", query: None, session: None, limit: 0, threshold: 0.5, method: Method::default() }
    }
}

/// A message that was found.
struct Hit {
    session: String,
    position: u64,
    score: Option<f64>,
}

impl Keepline {
    /// Memories of a user that bear on a query. A user of whom nothing is known has none. Cost: that of a question with
    /// recall, three transactions, and three for each session in which something is found; or that of
    /// [`Sessions::search_user`].
    ///
    /// # Errors
    /// See [`SessionError`]. [`SessionErrorCode::InvalidValue`] if recall does not reach so far as it is configured, and for
    /// a threshold that is not from 0 to 1; [`SessionErrorCode::NotFound`] for a session that is another user's.
    pub async fn memories(&self, search: MemorySearch<'_>) -> Result<Memories, SessionError> {
        if !(0.0..=1.0).contains(&search.threshold) {
            return Err(invalid("A threshold is a number from 0 to 1"));
        }
        if search.method == Method::Recall {
            reaches(Scope::of(self), search.session)?;
        }
        let limit = if search.limit == 0 { LIMIT } else { search.limit.min(LIMIT_MAX) };
        let mut sessions = self.sessions();
        let list = sessions.user_sessions(search.user, None, 1).await?;
        let latest = list.sessions.first().and_then(|text| {
            let entry: Value = serde_json::from_str(text).ok()?;
            entry.get("session")?.as_str().map(str::to_owned)
        });
        let none = |query: &str| {
            let method = match search.method {
                Method::Recall => MethodUsed::Lexical,
                Method::Keyword => MethodUsed::Keyword,
            };
            Memories { query: query.to_owned(), method, found: Vec::new() }
        };
        let Some(asking) = search.session.map(str::to_owned).or(latest) else {
            return Ok(none(search.query.unwrap_or_default()));
        };
        let newest = if search.query.is_none() { newest_question(&mut sessions, &asking).await? } else { None };
        let query = search.query.or(newest.as_ref().map(|message| &*message.text)).unwrap_or_default();
        if query.trim().is_empty() {
            return Ok(none(query));
        }
        let (method, hits) = match search.method {
            Method::Recall => {
                let (method, mut hits) = self.recalled(search.user, &asking, query).await?;
                hits.retain(|hit| hit.score > Some(search.threshold));
                // Of the same score the first stays the first: in order of time.
                hits.sort_by(|one, other| other.score.unwrap_or(0.0).total_cmp(&one.score.unwrap_or(0.0)));
                (method, hits)
            }
            Method::Keyword => (MethodUsed::Keyword, with_words(&mut sessions, search.user, query, limit).await?),
        };
        let mut transcripts = Transcripts::new(&mut sessions, &list.user, search.session);
        let mut seen: Vec<(String, String)> = Vec::new();
        let own = newest.as_ref().map(|message| (asking.clone(), message.turn.clone()));
        let mut found: Vec<FoundMemory> = Vec::new();
        for Hit { session, position, score } in hits {
            if found.len() as u64 >= u64::from(limit) {
                break;
            }
            if search.session.is_some_and(|only| only != session) {
                continue;
            }
            let Some((turn, memory)) = transcripts.exchange(&session, position).await? else { continue };
            let key = (session, turn);
            if own.as_ref() != Some(&key) && !seen.contains(&key) {
                seen.push(key);
                found.push(FoundMemory { similarity: score, ..memory });
            }
        }
        if search.method == Method::Recall {
            let newer = |one: &FoundMemory, other: &FoundMemory| {
                let by_time = other.created_at.unwrap_or(0.0).total_cmp(&one.created_at.unwrap_or(0.0));
                other.similarity.unwrap_or(0.0).total_cmp(&one.similarity.unwrap_or(0.0)).then(by_time)
            };
            found.sort_by(newer);
        }
        Ok(Memories { query: query.to_owned(), method, found })
    }

    /// The passages that a question gets that only looks, and has no window; and by what they were found.
    async fn recalled(&self, user: &str, session: &str, query: &str) -> Result<(MethodUsed, Vec<Hit>), SessionError> {
        let metadata = json!({
            "session_id": session, "user_id": user, "memory_mode": "conversation",
            "memory": {"look": true, "recall": true, "window": false},
        });
        let question = Question { text: query, metadata: &metadata.to_string(), ..Question::default() };
        let failed = |message: String| SessionError { code: SessionErrorCode::Store(FailureCode::Other), message };
        let passed = self.pipe().ask(question, None).await.map_err(|error| failed(error.message))?;
        match passed.effect {
            Effect::Foreign => {
                let message = format!("Session '{session}' belongs to another user");
                return Err(SessionError { code: SessionErrorCode::NotFound, message });
            }
            Effect::Failed => {
                let told = passed.problem.map_or_else(|| "The question failed".to_owned(), |problem| problem.message);
                return Err(failed(told));
            }
            _ => {}
        }
        let metadata: Value = serde_json::from_str(passed.metadata.as_deref().unwrap_or("{}")).unwrap_or_default();
        let passages = metadata.pointer("/memory_recall/passages").and_then(Value::as_array);
        let hit = |passage: &Value| {
            Some(Hit {
                session: passage.get("session")?.as_str()?.to_owned(),
                position: passage.get("position")?.as_u64()?,
                score: Some(passage.get("score")?.as_f64()?),
            })
        };
        let method = if passed.has_vector { MethodUsed::Hybrid } else { MethodUsed::Lexical };
        Ok((method, passages.into_iter().flatten().filter_map(hit).collect()))
    }
}

/// Whether recall looks there.
fn reaches(scope: Option<Scope>, session: Option<&str>) -> Result<(), SessionError> {
    match scope {
        None => Err(invalid("Conversations are off: set conversation=true")),
        Some(Scope::Off) => Err(invalid("Recall is off: set recall=user, or search for words")),
        Some(Scope::Session) if session.is_none() => {
            Err(invalid("Recall reaches one session: name it, set recall=user, or search for words"))
        }
        Some(_) => Ok(()),
    }
}

fn invalid(message: &str) -> SessionError {
    SessionError { code: SessionErrorCode::InvalidValue, message: message.to_owned() }
}

/// The last thing that a user said in a session.
async fn newest_question(sessions: &mut Sessions, session: &str) -> Result<Option<Message>, SessionError> {
    let query = MessageQuery { role: Some("user"), limit: 1, ..MessageQuery::default() };
    match sessions.messages(session.into(), query).await {
        Ok(page) => Ok(page.messages.last().and_then(|message| Message::parse(message.position, &message.text))),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn with_words(sessions: &mut Sessions, user: &str, words: &str, limit: u32) -> Result<Vec<Hit>, SessionError> {
    let (mut hits, mut after): (Vec<Hit>, Option<String>) = (Vec::new(), None);
    // A question and its answer may both hold them.
    let wanted = limit.saturating_mul(2);
    for _ in 0..CALLS {
        let page = sessions.search_user(user, words, after.as_deref(), wanted).await?;
        let of = |found: crate::sessions::FoundMessage| Hit {
            session: found.session,
            position: found.position,
            score: None,
        };
        hits.extend(page.found.into_iter().map(of));
        after = page.next;
        if after.is_none() || hits.len() as u64 >= u64::from(wanted) {
            break;
        }
    }
    Ok(hits)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::{
        Options, Plugin, Sandbox,
        embedding::{Embedder, Embedding},
        maintenance::{Maintenance, MaintenanceOptions, ModelError, NoModel},
        memories::{Remember, RememberOutcome},
        store::MemoryStore,
    };

    async fn keepline(filter: &str) -> Keepline {
        let plugin = Plugin::bundled(&Sandbox::default()).unwrap();
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
    async fn what_was_said_is_found_in_its_session_also_in_the_newest_turn() {
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
        let one =
            keepline.memories(MemorySearch { query: Some("Bruno tea"), limit: 1, threshold: 0.0, ..search }).await;
        assert_eq!(said(&one.unwrap()).len(), 1);
        assert_eq!(
            said(&keepline.memories(MemorySearch { query: Some("zeppelin"), ..search }).await.unwrap()),
            [""; 0]
        );

        // The newest question does not find itself.
        remember(&keepline, "anna", "s", ["Where is Bruno the dog now?", "I can't tell."]).await;
        let found = keepline.memories(search).await.unwrap();
        assert_eq!((&*found.query, said(&found)[0]), ("Where is Bruno the dog now?", DOG[0]));
        assert!(!said(&found).contains(&"Where is Bruno the dog now?"));
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
    async fn words_find_whole_exchanges() {
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

    /// A model that knows what animals are, or one that never answers.
    struct Animals {
        answers: bool,
    }

    #[async_trait::async_trait]
    impl Embedder for Animals {
        async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, ModelError> {
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
    async fn what_is_found_by_its_embedding_is_told_so() {
        let store = Arc::new(MemoryStore::default());
        let keepline = async |answers, wait| {
            let filter = r#"{"conversation": true, "recall": "session", "recall_vectors": true}"#.into();
            let embedder = Some(Arc::new(Animals { answers }) as _);
            let options = Options { filter, embedder, embedding_wait: wait, ..Options::default() };
            let plugin = Plugin::bundled(&Sandbox::default()).unwrap();
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
    async fn what_recall_can_t_reach_is_said() {
        let search = MemorySearch { user: "anna", query: Some("dog"), ..MemorySearch::default() };
        for (filter, told) in [
            ("{}", "conversation=true"),
            (r#"{"conversation": true}"#, "Recall is off"),
            (r#"{"conversation": true, "recall": "session"}"#, "one session"),
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
}
