//! A pipe: questions and answers pass, and the turn between them is carried.

use std::sync::Arc;

use tokio::time::Instant;

pub use crate::entry::{
    Answer, AnswerStatus, Effect, EntryError, Passed, Problem, ProblemCode, Question, Task, ToolActivity, Vector,
};
use crate::{
    contract::filter::{AnswerReply, QuestionReply},
    lend::LogLevel,
    options::OnStoreError,
    runtime::{Instance, Refusal},
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
    /// What goes with the next answer, if the filter wants turns.
    staged: Staged,
    /// None while a call is under way, and after one that was dropped: its number may be in use.
    writer: Option<Writer>,
}

/// What is known of a turn before its answer.
#[derive(Default)]
struct Staged {
    question_text: Option<String>,
    activity: Vec<ToolActivity>,
    activity_bytes: usize,
}

impl Pipe {
    pub(crate) fn new(shared: Arc<Shared>, store: Arc<Guard>) -> Self {
        Self { shared, store, turn: String::new(), staged: Staged::default(), writer: None }
    }

    /// A new object begins: what follows has nothing to do with the question before.
    pub fn open(&mut self) {
        self.turn.clear();
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
        let call = async |instance: &mut Instance, writer, due| instance.question(writer, due, question).await;
        let called = self.shared.call(&self.store, &mut self.writer, due, call).await;
        self.shared.tally.questions.record(began.elapsed());
        match called {
            Ok(QuestionReply { metadata, turn, effect, attached, due, problem }) => {
                self.turn = turn;
                if self.shared.pool.wants_turns() {
                    self.staged.question_text = Some(question.text.to_owned());
                }
                self.conclude(Passed { metadata, effect, attached, due, problem: problem.map(Problem::from) })
            }
            Err(refusal) => self.conclude(without_memory(&refusal)),
        }
    }

    /// What a tool did since the question: it goes with the next answer, if the filter keeps such things, else it is
    /// forgotten at once. No more than [`Options::max_entry_bytes`](crate::Options::max_entry_bytes) is kept for one
    /// answer.
    pub fn tool(&mut self, activity: ToolActivity) {
        if !self.shared.pool.wants_turns() {
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
    pub async fn reply(&mut self, answer: Answer<'_>, by: Option<Deadline>) -> Result<Passed, EntryError> {
        if let Some(refused) = self.too_large(answer.size()) {
            return Ok(refused);
        }
        let staged = &self.staged;
        let joined;
        let activity = match (staged.activity.as_slice(), answer.activity) {
            ([], activity) | (activity, []) => activity,
            (before, after) => {
                joined = [before, after].concat();
                &joined
            }
        };
        let entry = answer.entry(&self.turn, staged.question_text.as_deref(), activity);
        let began = Instant::now();
        let due = self.shared.due(began, by);
        let call = async |instance: &mut Instance, writer, due| instance.answer(writer, due, entry).await;
        let called = self.shared.call(&self.store, &mut self.writer, due, call).await;
        self.shared.tally.answers.record(began.elapsed());
        match called {
            Ok(AnswerReply { metadata, effect, due, problem }) => {
                if effect != Effect::Failed {
                    // What follows goes on from here, or is another answer to the same question.
                    self.staged = Staged::default();
                }
                self.conclude(Passed { metadata, effect, attached: 0, due, problem: problem.map(Problem::from) })
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
    Passed { metadata: None, effect, attached: 0, due: Vec::new(), problem: Some(problem) }
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
