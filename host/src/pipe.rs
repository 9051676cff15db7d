//! A pipe: questions and answers pass, and the turn between them is carried.

use std::sync::Arc;

use compact_str::CompactString;
use tokio::time::Instant;

pub use crate::entry::{
    Answer, AnswerStatus, Effect, EntryError, Passed, Problem, ProblemCode, Question, Task, ToolActivity, Vector,
};
use crate::{
    contract::filter::{AnswerReply, QuestionReply},
    lend::LogLevel,
    metadata::Metadata,
    options::OnStoreError,
    runtime::{Instance, Owner, Refusal, Scope},
    shared::Shared,
    store::{Deadline, FailureCode, Guard, Writer},
};

/// The lanes of one conversation at a time: what remembers, between a question and its answers, whose
/// they are. A pipe is used by one task at a time; many pipes work side by side.
///
/// A call that is dropped before it is done loses its entry's memory, and nothing else: one that waits for an
/// instance leaves the line, one that has an instance takes it along.
pub struct Pipe {
    shared: Arc<Shared>,
    store: Arc<Guard>,
    /// Of the question at hand: the filter's own.
    turn: String,
    /// Whom that question belongs to. None: there is none.
    owner: Option<Arc<Owner>>,
    /// What goes with the next answer, if the filter wants turns.
    staged: Staged,
    /// None while a call is under way, and after one that was dropped: its number may be in use.
    writer: Option<Writer>,
}

/// What is known of a turn before its answer.
#[derive(Default)]
struct Staged {
    /// Whose it is. None: whosever the answer is.
    session: Option<CompactString>,
    question_text: Option<String>,
    /// As whoever asked has counted them.
    question_tokens: Option<u32>,
    /// The model that is set for it.
    model: Option<String>,
    activity: Vec<ToolActivity>,
    activity_bytes: usize,
}

impl Pipe {
    pub(crate) fn new(shared: Arc<Shared>, store: Arc<Guard>) -> Self {
        Self { shared, store, turn: String::new(), owner: None, staged: Staged::default(), writer: None }
    }

    /// A new object begins: what follows has nothing to do with the question before.
    pub fn open(&mut self) {
        self.turn.clear();
        self.owner = None;
        self.staged = Staged::default();
    }

    /// A question on its way to the model, within [`Options::entry_timeout`](crate::Options::entry_timeout). Cost: one
    /// transaction if it has a session, none if not; three or four when the session's memory is over a limit.
    ///
    /// Whatever becomes of it, even if the call is dropped before it begins: an answer that names no session belongs to
    /// none from now on, or to this question's.
    ///
    /// # Errors
    /// Under [`OnStoreError::Fail`] only: the store or the plugin failed.
    pub fn question<'a>(
        &mut self,
        text: &'a str,
        metadata: &'a str,
    ) -> impl Future<Output = Result<Passed, EntryError>> + Send {
        self.ask(Question { text, metadata, ..Question::default() }, None)
    }

    /// As [`Self::question`], with more that is known of it, and perhaps by a deadline of the caller's.
    /// [`Deadline::NEVER`]: only the store's own limits hold.
    ///
    /// # Errors
    /// As [`Self::question`].
    pub fn ask(
        &mut self,
        question: Question<'_>,
        by: Option<Deadline>,
    ) -> impl Future<Output = Result<Passed, EntryError>> + Send {
        self.open();
        self.pass_question(question, by)
    }

    async fn pass_question(&mut self, question: Question<'_>, by: Option<Deadline>) -> Result<Passed, EntryError> {
        if let Some(refused) = self.too_large(question.size()) {
            return Ok(refused);
        }
        let began = Instant::now();
        let due = self.shared.due(began, by);
        let metadata = Metadata::read(question.metadata);
        let owner = Arc::new(metadata.owner());
        let most_added = self.shared.pool.most_attached();
        if self.shared.pool.wants_turns() {
            // Also of a question that fails: its answer is none the less one to it.
            self.staged.session = owner.session.clone();
            self.staged.question_text = Some(question.text.to_owned());
            self.staged.question_tokens = question.tokens;
        }
        let vector = match question.vector {
            None => self.shared.vector_of(&owner, question.text, due).await,
            Some(_) => None,
        };
        let question = Question { vector: question.vector.or(vector.as_deref()), ..question };
        let has_vector = question.vector.is_some();
        let call = async |instance: &mut Instance, writer, due| {
            let called = instance.question(writer, due, Scope::Entry(owner.clone()), question).await?;
            if let Some(returned) = &called.0.metadata {
                metadata.accept(returned, most_added)?;
            }
            Ok(called)
        };
        let called = self.shared.call(&self.store, &mut self.writer, due, call).await;
        self.shared.tally.questions.record(began.elapsed());
        match called {
            Ok(QuestionReply { metadata, turn, effect, attached, due: tasks, problem }) => {
                (self.turn, self.owner) = (turn, Some(owner));
                self.staged.model = self.shared.model(metadata.as_deref());
                let metadata = self.shared.with_files(metadata, due).await;
                let problem = problem.map(Problem::from);
                self.conclude(Passed { metadata, effect, attached, has_vector, due: tasks, problem })
            }
            Err(refusal) => self.conclude(without_memory(&refusal)),
        }
    }

    /// What a tool did since the question: it goes with the next answer of the question's session, if the filter keeps
    /// such things, else it is forgotten at once. Calls and results belong together by their `call_id`, in the order in
    /// which they come; one that is handed in again as it was is taken once. No more than
    /// [`Options::max_entry_bytes`](crate::Options::max_entry_bytes) is kept for one answer, and nothing beyond the next
    /// question.
    pub fn tool(&mut self, activity: ToolActivity) {
        if !self.shared.pool.wants_turns() {
            return;
        }
        // The same call of the same tool may come twice, but not with nothing in between.
        let mut staged = self.staged.activity.iter().rev();
        if staged.find(|before| before.call_id == activity.call_id) == Some(&activity) {
            return;
        }
        let bytes = self.staged.activity_bytes.saturating_add(activity.size());
        let limit = self.shared.max_entry_bytes;
        if bytes > limit {
            let message = format!("the activity of tools is over max_entry_bytes ({limit}); the rest is not kept");
            self.shared.pool.lent().log.report(LogLevel::Warn, "keepline.limit", &message);
            return;
        }
        self.staged.activity_bytes = bytes;
        self.staged.activity.push(activity);
    }

    /// As [`Self::tool`], of an entry whose metadata may name a session. Whether it is taken: what is of another session
    /// than the question is not.
    pub fn tool_of(&mut self, activity: ToolActivity, metadata: &str) -> bool {
        let named = Metadata::read(metadata).owner().session;
        let staged = &mut self.staged.session;
        if named.is_some() && staged.is_some() && named != *staged {
            let message = "what a tool did is not kept: it names another session than the question before it";
            self.shared.pool.lent().log.report(LogLevel::Warn, "keepline.session", message);
            return false;
        }
        if staged.is_none() {
            *staged = named;
        }
        self.tool(activity);
        true
    }

    /// An answer on its way back, within [`Options::entry_timeout`](crate::Options::entry_timeout): stored in the session
    /// that its metadata name, else in that of the question before it. If that is the question's session, named or
    /// not, an answer whose question saw an earlier life of it, one that has been deleted or has expired since, is
    /// dropped with a warning. An answer that names a session creates it when it is absent, if this pipe knows of no
    /// earlier life: there was no question of that session before it, or its transaction failed. Cost: one
    /// transaction; a second one when history is summarised, one more for each broken key of the session that is left
    /// out.
    ///
    /// # Errors
    /// Under [`OnStoreError::Fail`] only: the store or the plugin failed.
    pub async fn answer(&mut self, text: &str, metadata: &str) -> Result<Passed, EntryError> {
        self.reply(Answer { text, metadata, ..Answer::default() }, None).await
    }

    /// As [`Self::answer`], with more that is known of it, and perhaps by a deadline of the caller's.
    /// [`Deadline::NEVER`]: only the store's own limits hold.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub async fn reply(&mut self, mut answer: Answer<'_>, by: Option<Deadline>) -> Result<Passed, EntryError> {
        if let Some(refused) = self.too_large(answer.size()) {
            return Ok(refused);
        }
        let owner = Metadata::read(answer.metadata).owner();
        // What was said in one session is nothing that another one may learn.
        let none = Staged::default();
        let session = owner.session.as_ref().or_else(|| self.owner.as_ref()?.session.as_ref());
        let continues = self.staged.session.is_none() || self.staged.session.as_ref() == session;
        let staged = if continues { &self.staged } else { &none };
        let count = |text: &str| self.shared.count_tokens(staged.model.as_deref(), text);
        answer.tokens = answer.tokens.or_else(|| count(answer.text));
        answer.question_tokens = answer.question_tokens.or_else(|| match answer.question_text {
            Some(text) => count(text),
            None => staged.question_tokens.or_else(|| count(staged.question_text.as_deref()?)),
        });
        let parts = answer.parts(staged.question_text.as_deref(), &staged.activity);
        let entry = answer.entry(&self.turn, &parts);
        let began = Instant::now();
        let due = self.shared.due(began, by);
        let scope = Scope::Entry(match &self.owner {
            Some(question) => owner.after(question),
            None => Arc::new(owner),
        });
        let call = async |instance: &mut Instance, writer, due| instance.answer(writer, due, scope, entry).await;
        let called = self.shared.call(&self.store, &mut self.writer, due, call).await;
        self.shared.tally.answers.record(began.elapsed());
        match called {
            // Whatever the filter takes for an answer's metadata: they are none of its business.
            Ok(AnswerReply { metadata: _, effect, due, problem }) => {
                if effect != Effect::Failed && continues {
                    // What follows goes on from here, or is another answer to the same question.
                    self.staged = Staged::default();
                }
                let problem = problem.map(Problem::from);
                self.conclude(Passed { metadata: None, effect, attached: 0, has_vector: false, due, problem })
            }
            Err(refusal) => self.conclude(without_memory(&refusal)),
        }
    }

    /// The sandbox's business, not the filter's: what is over the limit never enters an instance.
    fn too_large(&self, size: usize) -> Option<Passed> {
        let limit = self.shared.max_entry_bytes;
        if size <= limit {
            return None;
        }
        let message = format!("an entry of {size} bytes is over max_entry_bytes ({limit}); it is forwarded unchanged");
        self.shared.pool.lent().log.report(LogLevel::Warn, "keepline.limit", &message);
        self.shared.tally.count(Effect::Limited);
        Some(unchanged(Effect::Limited, Problem { code: ProblemCode::Limit, message }))
    }

    fn conclude(&self, passed: Passed) -> Result<Passed, EntryError> {
        self.shared.tally.count(passed.effect);
        if passed.effect == Effect::Failed && self.shared.on_store_error == OnStoreError::Fail {
            let unknown =
                || Problem { code: ProblemCode::Store(FailureCode::Other), message: "the store failed".into() };
            return Err(passed.problem.unwrap_or_else(unknown).into());
        }
        Ok(passed)
    }
}

fn without_memory(refusal: &Refusal) -> Passed {
    unchanged(Effect::Failed, refusal.into())
}

fn unchanged(effect: Effect, problem: Problem) -> Passed {
    Passed { metadata: None, effect, attached: 0, has_vector: false, due: Vec::new(), problem: Some(problem) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Keepline, Options, Plugin, Sandbox,
        maintenance::{Job, Step},
        store::MemoryStore,
    };

    const ANNA: &str = r#"{"session_id":"anna"}"#;

    async fn keepline(options: Options) -> Keepline {
        let plugin = Plugin::bundled(&Sandbox::default()).unwrap();
        Keepline::new(plugin, Arc::new(MemoryStore::default()), options).await.unwrap()
    }

    fn activity(output: &str) -> ToolActivity {
        ToolActivity { call_id: "1".into(), output: Some(output.into()), ..ToolActivity::default() }
    }

    #[tokio::test]
    async fn an_answer_with_an_id_counts_once() {
        let keepline = keepline(Options::default()).await;
        let mut pipe = keepline.pipe();
        let question = Question { text: "?", metadata: ANNA, tokens: Some(1), ..Question::default() };
        assert_eq!(pipe.ask(question, None).await.unwrap().effect, Effect::Resumed);
        let answer = Answer { text: "!", message_id: Some("m1"), ..Answer::default() };
        assert_eq!(pipe.reply(answer, None).await.unwrap().effect, Effect::Stored);
        assert_eq!(pipe.reply(answer, Some(Deadline::NEVER)).await.unwrap().effect, Effect::Repeated);
        let counters = keepline.counters();
        assert_eq!((counters.stored, counters.repeated), (1, 1));
        assert_eq!(keepline.sessions().get("anna", "answer_count").await.unwrap().value.as_deref(), Some("1"));
    }

    #[tokio::test]
    async fn what_tools_do_goes_with_the_answer_only_if_it_is_wanted() {
        let keepline = keepline(Options { max_entry_bytes: 200, ..Options::default() }).await;
        let mut pipe = keepline.pipe();
        pipe.question("?", ANNA).await.unwrap();
        pipe.tool(activity("sunny"));
        assert!(pipe.staged.question_text.is_none() && pipe.staged.activity.is_empty());

        pipe.shared.pool.want_turns();
        pipe.question("?", ANNA).await.unwrap();
        pipe.tool(activity("sunny"));
        pipe.tool(activity(&"x".repeat(200)));
        assert_eq!(pipe.staged.question_text.as_deref(), Some("?"));
        assert_eq!(pipe.staged.activity, [activity("sunny")]);
        // One that was not passed on leaves them to the next one.
        assert_eq!(pipe.answer(&"x".repeat(200), "{}").await.unwrap().effect, Effect::Limited);
        assert_eq!(pipe.staged.activity.len(), 1);
        let answer = Answer { text: "!", activity: &[activity("windy")], ..Answer::default() };
        assert_eq!(pipe.reply(answer, None).await.unwrap().effect, Effect::Stored);
        assert!(pipe.staged.question_text.is_none() && pipe.staged.activity.is_empty());
    }

    #[tokio::test]
    async fn what_was_said_in_a_session_is_no_part_of_another() {
        let filter = r#"{"conversation":true}"#.into();
        let keepline = keepline(Options { filter, ..Options::default() }).await;
        let mut pipe = keepline.pipe();
        pipe.question("a secret", ANNA).await.unwrap();
        assert!(pipe.tool_of(activity("sunny"), "{}") && pipe.tool_of(activity("sunny"), ANNA));
        assert!(!pipe.tool_of(activity("rain"), r#"{"session_id":"bob"}"#));
        assert_eq!(pipe.staged.activity, [activity("sunny")]);
        assert_eq!(pipe.answer("!", r#"{"session_id":"bob"}"#).await.unwrap().effect, Effect::Stored);
        assert_eq!(pipe.staged.activity.len(), 1);
        assert_eq!(pipe.answer("!", "{}").await.unwrap().effect, Effect::Stored);
        assert!(pipe.staged.activity.is_empty());
        let bob = pipe.question("?", r#"{"session_id":"bob"}"#).await.unwrap().metadata.unwrap();
        assert!(bob.contains("memory_messages") && !bob.contains("secret") && !bob.contains("sunny"), "{bob}");
        let anna = pipe.question("?", ANNA).await.unwrap().metadata.unwrap();
        assert!(anna.contains("a secret"), "{anna}");
        // Without a question: what an answer's own process is told of.
        pipe.open();
        assert!(pipe.tool_of(activity("snow"), ANNA) && !pipe.tool_of(activity("hail"), r#"{"session_id":"bob"}"#));
    }

    #[derive(Debug)]
    struct Words;

    impl crate::TokenCounter for Words {
        fn count(&self, text: &str) -> u32 {
            u32::try_from(text.split_whitespace().count()).unwrap()
        }
    }

    #[tokio::test]
    async fn tokens_are_counted_by_whoever_counts_them_and_those_that_come_along_are_kept() {
        let (filter, token_counter) = (r#"{"conversation":true}"#.into(), Some(Arc::new(Words) as _));
        let keepline = keepline(Options { filter, token_counter, ..Options::default() }).await;
        let mut pipe = keepline.pipe();
        pipe.question("one two three", ANNA).await.unwrap();
        pipe.answer("four five", "{}").await.unwrap();
        pipe.ask(Question { text: "six", metadata: ANNA, tokens: Some(60), ..Question::default() }, None)
            .await
            .unwrap();
        pipe.reply(Answer { text: "seven", tokens: Some(70), ..Answer::default() }, None).await.unwrap();
        let told = Answer { text: "a b", metadata: ANNA, question_text: Some("c d e f"), ..Answer::default() };
        keepline.pipe().reply(told, None).await.unwrap();
        let query = crate::sessions::MessageQuery::default();
        let page = keepline.sessions().messages("anna".into(), query).await.unwrap();
        let tokens = page.messages.iter().map(|message| {
            serde_json::from_str::<serde_json::Value>(&message.text).unwrap()["tokens"].as_u64().unwrap()
        });
        assert_eq!(tokens.collect::<Vec<_>>(), [3, 2, 60, 70, 4, 2]);
    }

    #[derive(Debug)]
    struct Shelf;

    #[async_trait::async_trait]
    impl crate::FileResolver for Shelf {
        async fn resolve(&self, file: &serde_json::Value) -> Result<crate::ResolvedFile, String> {
            match file["id"].as_str() {
                Some("slow") => std::future::pending().await,
                Some("lost") | None => Err("nobody has it".into()),
                Some(id) => {
                    let url = format!("https://files.example/{id}");
                    Ok(crate::ResolvedFile { url, mime_type: "image/png".into(), size: Some(7) })
                }
            }
        }
    }

    #[tokio::test]
    async fn files_come_back_with_where_they_are_and_those_that_nobody_knows_do_not() {
        let (filter, file_resolver) = (r#"{"conversation":true}"#.into(), Some(Arc::new(Shelf) as _));
        let keepline = keepline(Options { filter, file_resolver, ..Options::default() }).await;
        let mut pipe = keepline.pipe();
        let asked = r#"{"session_id":"anna","n":1.50,"files":[{"id":"cat","type":"image"},{"id":"lost"}]}"#;
        pipe.question("what is it?", asked).await.unwrap();
        pipe.answer("a cat", "{}").await.unwrap();
        let told = pipe.question("really?", asked).await.unwrap().metadata.unwrap();
        assert!(told.contains(r#""n":1.50"#), "{told}");
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        let cat = serde_json::json!({
            "id": "cat", "type": "image", "url": "https://files.example/cat", "mime_type": "image/png", "size": 7,
        });
        let parts = serde_json::json!([{"type": "file", "file": cat}, {"type": "text", "text": "what is it?"}]);
        assert_eq!(told["memory_messages"][0]["content"], parts);
        assert_eq!(told["memory_messages"][1]["content"], "a cat");

        // In time, or as they were.
        pipe.question("and this?", r#"{"session_id":"bob","files":[{"id":"slow"}]}"#).await.unwrap();
        pipe.answer("a dog", "{}").await.unwrap();
        let question = Question { text: "?", metadata: r#"{"session_id":"bob"}"#, ..Question::default() };
        let passed = pipe.ask(question, Some(Deadline::after(std::time::Duration::from_secs(2)))).await.unwrap();
        let told = passed.metadata.unwrap();
        assert!(told.contains(r#"{"type":"file","file":{"id":"slow"}}"#), "{told}");
    }

    #[tokio::test]
    async fn a_task_that_nobody_knows_fails() {
        let keepline = keepline(Options::default()).await;
        let task = Task { subject: "session/anna".into(), name: "dance".into(), state: String::new() };
        let job = Job { task: task.clone(), holder: "h".into(), lease_milliseconds: 1000, results: Vec::new() };
        let progress = keepline.advance(&job, None).await;
        assert_eq!((progress.step, progress.task), (Step::Failed, task.clone()));
        assert_eq!(progress.problem.unwrap().code, ProblemCode::Store(FailureCode::Unsupported));

        keepline.shutdown(std::time::Duration::ZERO).await;
        let progress = keepline.advance(&job, None).await;
        assert_eq!((progress.step, progress.task), (Step::Failed, task));
        assert_eq!(progress.problem.unwrap().code, ProblemCode::Closed);
    }
}
