//! Searches by recall's passages or by words, and returns the exchanges that they belong to.
//!
//! Promises that a search writes nothing, finds nothing of another user's, and says by what it found. An exchange is scored
//! on its own, by the best passage of its question and the best of its answer, as recall scores them without their
//! neighbours.

use keepline_options::words::Recall;
use serde_json::{Value, json};

use super::{
    remember::configured_recall,
    transcripts::{TranscriptMessage, TranscriptReader},
};
use crate::{
    entry::{Effect, Question},
    keepline::Keepline,
    sessions::{MessageQuery, SessionError, SessionErrorCode, Sessions, UserListing},
    store::FailureCode,
};

const LIMIT: u32 = 5;
const LIMIT_MAX: u32 = 100;
/// Calls of a search for words that find too little.
const MAX_SEARCH_CALLS: u32 = 16;

/// The method by which memories are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// By recall: words, names and dates of the query in the exchange itself; with
    /// [`Options::embedder`](crate::Options::embedder) also what is like it.
    #[default]
    Recall,
    /// Messages that contain all words of the query, also within longer words; the newest first.
    Keyword,
}

/// The method by which memories were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MethodUsed {
    /// By recall without an embedding of the query: words, names and dates.
    #[default]
    Lexical,
    /// By recall, with words and the query's embedding.
    Hybrid,
    /// All words of the query.
    Keyword,
}

impl MethodUsed {
    /// One word, for scripts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lexical => "lexical",
            Self::Hybrid => "hybrid",
            Self::Keyword => "keyword",
        }
    }
}

/// The memories that a search found.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Memories {
    /// The query. Empty: nothing was asked yet.
    pub query: String,
    /// The method that was used.
    pub method: MethodUsed,
    /// The best first, or with words the newest.
    pub found: Vec<FoundMemory>,
}

/// An exchange that was found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FoundMemory {
    /// The answer's message id, if it has one.
    pub id: Option<String>,
    /// The place of its first message in the session's transcript.
    pub position: u64,
    /// The session's id.
    pub session: String,
    /// The session's title.
    pub title: Option<String>,
    /// Empty: there is none.
    pub user_message: String,
    /// Empty: there is none.
    pub ai_response: String,
    /// `User: {user_message}`, an empty line, `Assistant: {ai_response}`.
    pub combined_text: String,
    /// Its best passage's score, as a share of the best one of all: 0 to 1, not comparable between queries. None: it was
    /// found by words.
    pub similarity: Option<f64>,
    /// Seconds since 1970.
    pub created_at: Option<f64>,
    /// As it was stored with the answer: a JSON object.
    pub metadata: Option<String>,
}

impl FoundMemory {
    pub(in crate::memories) fn of(session: &str, user_message: &str, ai_response: &str) -> Self {
        Self {
            id: None,
            position: 0,
            session: session.to_owned(),
            title: None,
            user_message: user_message.to_owned(),
            ai_response: ai_response.to_owned(),
            combined_text: format!("User: {user_message}\n\nAssistant: {ai_response}"),
            similarity: None,
            created_at: None,
            metadata: None,
        }
    }
}

/// What is looked for: `MemorySearch { user, query: Some("dog"), ..MemorySearch::default() }`.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "made field by field, with the default for the rest")]
pub struct MemorySearch<'a> {
    /// The user's id.
    pub user: &'a str,
    /// None: the newest question of the session, or else of the session used last; its own turn is not found then, and
    /// nothing for standing beside it.
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
    is_question: bool,
}

/// A question and its answer, some of whose messages were found.
struct ScoredExchange {
    /// Session, and where the answer is.
    key: (String, u64),
    memory: FoundMemory,
    /// What the best of each side scores.
    question: Option<f64>,
    answer: Option<f64>,
}

impl ScoredExchange {
    /// What both sides score together; none: they were found by words.
    fn score(&self) -> Option<f64> {
        self.question.or(self.answer).map(|_| self.question.unwrap_or(0.0) + self.answer.unwrap_or(0.0))
    }
}

/// Those above the threshold, the best first, and of equal ones the newer; those found by words as they came.
fn rank_exchanges(exchanges: Vec<ScoredExchange>, threshold: f64) -> Vec<FoundMemory> {
    let best = exchanges.iter().filter_map(ScoredExchange::score).fold(0.0, f64::max);
    let similar = |exchange: ScoredExchange| FoundMemory {
        similarity: exchange.score().map(|score| score / best),
        ..exchange.memory
    };
    let mut found: Vec<FoundMemory> = exchanges.into_iter().map(similar).collect();
    found.retain(|memory| memory.similarity.is_none_or(|similarity| similarity > threshold));
    found.sort_by(|one, other| {
        let by_time = || other.created_at.unwrap_or(0.0).total_cmp(&one.created_at.unwrap_or(0.0));
        match (one.similarity, other.similarity) {
            (Some(one), Some(other)) => other.total_cmp(&one).then_with(by_time),
            _ => std::cmp::Ordering::Equal,
        }
    });
    found
}

#[allow(clippy::multiple_inherent_impl, reason = "memories are built on a Keepline, which knows nothing of them")]
impl Keepline {
    /// Memories of a user that bear on a query. A user of whom nothing is known has none. Cost: that of a question with
    /// recall, three transactions, and four for each session in which something is found; or that of
    /// [`Sessions::search_user`].
    ///
    /// # Errors
    /// See [`SessionError`]. [`SessionErrorCode::InvalidValue`] if recall does not reach so far as it is configured, and for
    /// a threshold that is not from 0 to 1; [`SessionErrorCode::NotFound`] for a session that is another user's.
    pub async fn memories(&self, mut search: MemorySearch<'_>) -> Result<Memories, SessionError> {
        // As in an entry's metadata, an empty id names no session.
        search.session = search.session.filter(|session| !session.is_empty());
        if !(0.0..=1.0).contains(&search.threshold) {
            return Err(invalid_value_error("A threshold is a number from 0 to 1"));
        }
        if search.method == Method::Recall {
            reaches(configured_recall(self), search.session)?;
        }
        let limit = if search.limit == 0 { LIMIT } else { search.limit.min(LIMIT_MAX) };
        let mut sessions = self.sessions();
        let listed = UserListing::for_user(search.user);
        let list = sessions.list_user_sessions(&listed, search.user, None, 1).await?;
        let latest = list.sessions.into_iter().next().map(|latest| latest.session);
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
        let newest = match search.query {
            Some(_) => None,
            None => newest_question(&mut sessions, search.session.is_none().then_some(&listed), &asking).await?,
        };
        let query = search.query.or(newest.as_ref().map(|message| &*message.text)).unwrap_or_default();
        if query.trim().is_empty() {
            return Ok(none(query));
        }
        let (method, hits) = match search.method {
            Method::Recall => {
                let asked = newest.as_ref().map(|message| message.position);
                let (method, mut hits) = self.recall_hits(&search, &asking, query, asked).await?;
                let mut ids: Vec<String> = hits.iter().map(|hit| hit.session.clone()).collect();
                sessions.replace_hashes_by_ids(&mut ids).await?;
                hits.iter_mut().zip(ids).for_each(|(hit, id)| hit.session = id);
                hits.retain(|hit| hit.score > Some(0.0));
                // Of the same score the first stays the first: in order of time.
                hits.sort_by(|one, other| other.score.unwrap_or(0.0).total_cmp(&one.score.unwrap_or(0.0)));
                (method, hits)
            }
            Method::Keyword => (MethodUsed::Keyword, search_by_words(&mut sessions, &search, query, limit).await?),
        };
        let mut transcripts = TranscriptReader::new(&mut sessions, &listed, search.session);
        let own = newest.as_ref().map(|message| (asking.clone(), message.turn.clone()));
        let mut exchanges: Vec<ScoredExchange> = Vec::new();
        let is_enough = |exchanges: &[ScoredExchange]| {
            search.method == Method::Keyword && exchanges.len() as u64 >= u64::from(limit)
        };
        for hit in hits {
            // Of what is found: recall's may be the answer to what is asked.
            let best = exchanges.iter().filter_map(ScoredExchange::score).fold(0.0, f64::max);
            // An exchange has two sides, and both may be as good as this one.
            let is_too_low = hit.score.is_some_and(|score| 2.0 * score <= search.threshold * best);
            if is_too_low || is_enough(&exchanges) {
                break;
            }
            // Another filter than the bundled one may recall from any.
            if search.session.is_some_and(|only| only != hit.session) {
                continue;
            }
            let found = transcripts.read_exchange(&hit.session, hit.position).await?;
            let Some((turn, answer, memory)) = found else { continue };
            if own.as_ref().is_some_and(|(session, asked)| *session == hit.session && *asked == turn) {
                continue;
            }
            // A turn has as many exchanges as its question has answers.
            let key = (hit.session, answer);
            let known = exchanges.iter().position(|exchange| exchange.key == key);
            let index = known.unwrap_or(exchanges.len());
            if known.is_none() {
                exchanges.push(ScoredExchange { key, memory, question: None, answer: None });
            }
            if let Some(ScoredExchange { question, answer, .. }) = exchanges.get_mut(index) {
                let side = if hit.is_question { question } else { answer };
                // The best of a side comes first.
                *side = side.or(hit.score);
            }
        }
        let mut found = rank_exchanges(exchanges, search.threshold);
        found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(Memories { query: query.to_owned(), method, found })
    }

    /// The passages that a question gets that only looks, and has no window; and by what they were found. `asked`: the
    /// message that it is, if it is one of the session's.
    async fn recall_hits(
        &self,
        search: &MemorySearch<'_>,
        session: &str,
        query: &str,
        asked: Option<u64>,
    ) -> Result<(MethodUsed, Vec<Hit>), SessionError> {
        // What all of the user's sessions hold may leave no room for what the named one does.
        let recall = if search.session.is_some() { json!("session") } else { json!(true) };
        let metadata = json!({
            "session_id": session, "user_id": search.user, "memory_mode": "conversation",
            "memory": {"look": true, "recall": recall, "neighbors": false, "window": false, "asked": asked},
        });
        let question = Question { text: query, metadata: &metadata.to_string(), ..Question::default() };
        let failed = |message: String| SessionError { code: SessionErrorCode::Store(FailureCode::Other), message };
        let passed = self.pipe().into_read_only().ask(question, None).await.map_err(|error| failed(error.message))?;
        match passed.effect {
            Effect::Foreign => {
                let message = format!("Session '{session}' belongs to another user");
                return Err(SessionError { code: SessionErrorCode::NotFound, message });
            }
            Effect::Failed => {
                let message =
                    passed.problem.map_or_else(|| "The question failed".to_owned(), |problem| problem.message);
                return Err(failed(message));
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
                is_question: passage.get("role")?.as_str()? == "user",
            })
        };
        let method = if passed.has_vector { MethodUsed::Hybrid } else { MethodUsed::Lexical };
        Ok((method, passages.into_iter().flatten().filter_map(hit).collect()))
    }
}

/// Whether recall looks there.
fn reaches(scope: Option<Recall>, session: Option<&str>) -> Result<(), SessionError> {
    match scope {
        None => Err(invalid_value_error("Conversations are off: set conversation=true")),
        Some(Recall::Off) => Err(invalid_value_error("Recall is off: set recall=user, or search for words")),
        Some(Recall::Session) if session.is_none() => {
            let message =
                "recall=session searches a single session: name it with --session, set recall=user, or use --keyword";
            Err(invalid_value_error(message))
        }
        Some(_) => Ok(()),
    }
}

fn invalid_value_error(message: &str) -> SessionError {
    SessionError { code: SessionErrorCode::InvalidValue, message: message.to_owned() }
}

/// The last thing that a user said in a session, which is on their list, or named by the caller.
async fn newest_question(
    sessions: &mut Sessions,
    listed: Option<&UserListing>,
    session: &str,
) -> Result<Option<TranscriptMessage>, SessionError> {
    let query = MessageQuery { role: Some("user"), limit: 1, ..MessageQuery::default() };
    let page = sessions.read_messages(listed, session, query).await?;
    Ok(page.and_then(|mut page| page.messages.pop()).map(TranscriptMessage::from))
}

async fn search_by_words(
    sessions: &mut Sessions,
    search: &MemorySearch<'_>,
    words: &str,
    limit: u32,
) -> Result<Vec<Hit>, SessionError> {
    let (mut hits, mut after): (Vec<Hit>, Option<String>) = (Vec::new(), None);
    // A question and its answer may both hold them.
    let wanted = limit.saturating_mul(2);
    for _ in 0..MAX_SEARCH_CALLS {
        let page = match search.session {
            Some(session) => sessions.search_one_session(session, words, after.as_deref(), wanted).await?,
            None => sessions.search_user(search.user, words, after.as_deref(), wanted).await?,
        };
        let of = |found: crate::sessions::FoundMessage| Hit {
            session: found.session,
            position: found.message.position,
            score: None,
            is_question: false,
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
mod tests;
