//! A pipe: questions and answers pass, and the turn between them is carried.

mod calls;

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
    /// Whether its turn may wait for results of calls that are not among what is staged.
    may_wait: bool,
    /// None while a call is under way, and after one that was dropped: its number may be in use.
    writer: Option<Writer>,
    /// Whether its questions only read.
    reads_only: bool,
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
        Self {
            shared,
            store,
            turn: String::new(),
            owner: None,
            staged: Staged::default(),
            may_wait: false,
            writer: None,
            reads_only: false,
        }
    }

    /// For questions that change nothing in the store, whatever the plugin does.
    pub(crate) fn reading(self) -> Self {
        Self { reads_only: true, ..self }
    }

    /// A new object begins: what follows has nothing to do with the question before.
    pub fn open(&mut self) {
        self.turn.clear();
        self.owner = None;
        self.staged = Staged::default();
        self.may_wait = false;
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
        let (has_vector, reads_only) = (question.vector.is_some(), self.reads_only);
        let call = async |instance: &mut Instance, writer, due| {
            let scope = if reads_only { Scope::Look(owner.clone()) } else { Scope::Entry(owner.clone()) };
            let called = instance.question(writer, due, scope, question).await?;
            if let Some(returned) = &called.0.metadata {
                metadata.accept(returned, most_added)?;
            }
            Ok(called)
        };
        let called = self.shared.call(&self.store, &mut self.writer, due, call).await;
        self.shared.tally.questions.record(began.elapsed());
        if self.shared.pool.wants_turns() {
            self.may_wait = called.as_ref().is_ok_and(|reply| calls::may_wait(&question, reply));
        }
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
    /// which they come; one that is handed in again as it was is taken once. A result that has a name and no arguments, of
    /// a call that nobody has told of, is taken as both: the call of a tool that takes no arguments. No more than
    /// [`Options::max_entry_bytes`](crate::Options::max_entry_bytes) is kept for one answer, and nothing beyond the next
    /// question.
    pub fn tool(&mut self, mut activity: ToolActivity) {
        if !self.shared.pool.wants_turns() {
            return;
        }
        // The same call of the same tool may come twice, but not with nothing in between.
        let mut staged = self.staged.activity.iter().rev();
        let before = staged.find(|before| before.call_id == activity.call_id);
        if before.is_some_and(|before| activity.repeats(before)) {
            return;
        }
        if before.is_none() && !self.may_wait && activity.lacks_call() {
            activity.arguments = Some("{}".to_owned());
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
                    self.may_wait |= calls::are_left(self.staged.activity.iter().chain(answer.activity));
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
        self.shared.tally.count(Effect::Limited, None);
        Some(unchanged(Effect::Limited, Problem { code: ProblemCode::Limit, message }))
    }

    fn conclude(&self, passed: Passed) -> Result<Passed, EntryError> {
        self.shared.tally.count(passed.effect, passed.problem.as_ref());
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
mod tests;
