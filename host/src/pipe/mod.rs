//! Passes questions and answers to the filter, and carries the turns between them.

mod tool_calls;
mod turns;

use std::sync::Arc;

use tokio::time::Instant;

pub use self::turns::{OpenTurns, Turn, TurnState};
pub use crate::entry::{
    Answer, AnswerStatus, Effect, EntryError, Passed, Problem, ProblemCode, Question, Task, TaskBucket, ToolActivity,
    Vector,
};
use crate::{
    contract::lanes::{AnswerReply, QuestionReply, TurnQuestion},
    entry::{
        metadata::{AttachedRanges, EntryMetadata},
        sections::append_sections,
    },
    keepline::inner::KeeplineInner,
    keepline::options::OnStoreError,
    logging::LogLevel,
    runtime::{CallRefusal, CallScope, EntryOwner, Exports, PluginInstance},
    store::{Deadline, FailureCode, StoreGuard},
};

/// The lanes of one stream of entries, of any number of conversations: what knows, between a question and its answers,
/// whose they are. A pipe is used by one task at a time; many pipes work side by side.
///
/// An entry that names a session belongs to that session's turn, one that names none to the turn of the question asked
/// last. A pipe holds up to 10,000 turns, and as many bytes of them as four of the largest entries have, or 64 MiB if that
/// is more; the oldest are dropped first, and reported if they wait for their answer.
///
/// A call that is dropped before it is done loses its entry's memory, and nothing else: one that waits for an
/// instance leaves the line, one that has an instance takes it along.
pub struct Pipe {
    inner: Arc<KeeplineInner>,
    store: Arc<StoreGuard>,
    turns: OpenTurns,
    /// Whether its questions only read.
    reads_only: bool,
}

impl Pipe {
    pub(crate) fn new(inner: Arc<KeeplineInner>, store: Arc<StoreGuard>) -> Self {
        let turns = OpenTurns::new(inner.clone());
        Self { inner, store, turns, reads_only: false }
    }

    /// For questions that change nothing in the store, whatever the plugin does.
    pub(crate) fn into_read_only(self) -> Self {
        Self { reads_only: true, ..self }
    }

    /// A new object begins: what follows has nothing to do with the questions before.
    pub fn open(&mut self) {
        self.turns.open("{}");
    }

    /// As [`Self::open`], of an entry whose metadata may name a session: then only its turns end.
    pub fn open_of(&mut self, metadata: &str) {
        self.turns.open(metadata);
    }

    /// There was an entry that could not be read, perhaps a question: entries that name no session belong to no turn until
    /// the next question. Those that name one are not affected.
    pub fn end_last(&mut self) {
        self.turns.end_last();
    }

    /// A question on its way to the model, within [`Options::entry_timeout`](crate::Options::entry_timeout). Cost: one
    /// transaction if it has a session, none if not; three or four when the session's memory is over a limit.
    ///
    /// Whatever becomes of it, even if the call is dropped before it begins: an answer that names no session belongs to
    /// none from now on, or to this question's.
    ///
    /// # Errors
    /// Under [`OnStoreError::Fail`]: the store or the plugin failed. With the filter's option `require_node`: there is no node.
    pub fn question<'a>(
        &mut self,
        text: &'a str,
        metadata: &'a str,
    ) -> impl Future<Output = Result<Passed, EntryError>> + Send {
        self.ask(Question { text, metadata, ..Question::default() }, None)
    }

    /// As [`Self::question`], with more that is known of it, and perhaps by a deadline of the caller's.
    /// [`Deadline::NEVER`]: only the store's own limits hold.
    pub fn ask(
        &mut self,
        question: Question<'_>,
        by: Option<Deadline>,
    ) -> impl Future<Output = Result<Passed, EntryError>> + Send {
        let metadata = EntryMetadata::parse(question.metadata);
        let may_continue = metadata.names_message || question.message_id.is_some();
        let turn = self.turns.begin_turn(&metadata, Arc::new(metadata.owner()), question.text.len(), may_continue);
        self.pass_question(turn, question, metadata, by)
    }

    /// As [`Self::ask`], for a question that [`OpenTurns`] has routed.
    pub async fn ask_in(
        &mut self,
        turn: &Turn,
        question: Question<'_>,
        by: Option<Deadline>,
    ) -> Result<Passed, EntryError> {
        self.pass_question(turn.clone(), question, EntryMetadata::parse(question.metadata), by).await
    }

    async fn pass_question(
        &mut self,
        turn: Turn,
        question: Question<'_>,
        metadata: EntryMetadata<'_>,
        by: Option<Deadline>,
    ) -> Result<Passed, EntryError> {
        if let Some(refused) = self.refuse_if_too_large(question.size()) {
            return Ok(refused);
        }
        let began = Instant::now();
        let due = self.inner.call_deadline(began, by);
        let owner = turn.owner();
        let most_added = self.inner.pool.max_attached_bytes();
        if self.inner.pool.wants_turns() {
            // For a failed question, too: its answer still answers it.
            turn.edit(|content| {
                content.staged.question_text = Some(question.text.to_owned());
                content.staged.question_tokens = question.tokens;
            });
        }
        let vector = match question.vector {
            None => self.inner.embed_question(owner, question.text, due).await,
            Some(_) => None,
        };
        let question = Question { vector: question.vector.or(vector.as_deref()), ..question };
        let (has_vector, reads_only) = (question.vector.is_some(), self.reads_only);
        let own_metadata = question.metadata;
        let ids = self.inner.session_ids;
        let call = async |instance: &mut PluginInstance, writer, due| {
            let scope = if reads_only { CallScope::ReadOnly(owner.clone()) } else { CallScope::Entry(owner.clone()) };
            let scope = scope.with_session_ids(ids);
            let call = async |exports: &Exports, store: &mut _| {
                exports.filter_lanes()?.call_question(store, question.to_contract()).await
            };
            let (reply, writer) = instance.call(writer, due, scope, call).await?;
            let attached = match &reply.metadata {
                Some(returned) => metadata.check_returned(returned, most_added)?,
                None => AttachedRanges::default(),
            };
            Ok(((reply, attached), writer))
        };
        let (called, sections) = match &self.inner.assembly {
            None => (self.inner.call_instance(&self.store, due, call).await, None),
            // Boxed: otherwise each question would be as large as this, and be moved.
            Some(assembly) => {
                let assembled = self.inner.assemble_sections(assembly, &self.store, owner, question.text, due);
                let asked = self.inner.call_instance(&self.store, due, call);
                Box::pin(async { futures::join!(asked, assembled) }).await
            }
        };
        self.inner.tally.questions.record(began.elapsed());
        match called {
            Ok((reply, places)) => {
                let names_message = metadata.names_message || question.message_id.is_some();
                let may_wait = self.inner.pool.wants_turns()
                    && names_message
                    && tool_calls::may_await_results(&reply, &places, metadata.has_switches);
                let QuestionReply { metadata, turn: state, effect, attached, due: tasks, problem, .. } = reply;
                let effect = Effect::of_question(&effect, metadata.is_some());
                let model = self.inner.model(metadata.as_deref(), &places);
                turn.edit(|content| {
                    (content.state, content.may_wait, content.staged.model) = (state, may_wait, model);
                });
                let metadata = self.inner.with_files(metadata, &places, due).await;
                // Of a session that the question may not read, nothing is told.
                let is_asking = matches!(effect, Effect::Resumed | Effect::Enriched | Effect::Limited);
                let with_sections = sections
                    .filter(|_| is_asking)
                    .and_then(|sections| append_sections(metadata.as_deref().unwrap_or(own_metadata), &sections));
                let metadata = with_sections.or(metadata);
                let problem = problem.map(Problem::from);
                self.record_outcome(Passed { metadata, effect, attached, has_vector, due: tasks, problem })
            }
            Err(refusal) => self.record_outcome(without_memory(&refusal)),
        }
    }

    /// What a tool did since the question: it goes with the next answer to that, if the filter keeps such things, else it
    /// is forgotten at once. A result goes to the turn that has its call, if exactly one of those that are open has; if
    /// several have, it is left out and reported. Calls and results belong together by their `call_id`, in the order in
    /// which they come; one that is handed in again as it was is taken once. A result that has a name and no arguments, of
    /// an unknown call, is taken as both: the call of a tool that takes no arguments. No more than
    /// [`Options::max_entry_bytes`](crate::Options::max_entry_bytes) is kept for one answer, and nothing beyond the next
    /// question of the same transcript.
    pub fn tool(&mut self, activity: ToolActivity) {
        self.tool_of(activity, "{}");
    }

    /// As [`Self::tool`], of an entry whose metadata may name a session: then it belongs to the turn of that. False: it is
    /// left out, and that is reported.
    pub fn tool_of(&mut self, activity: ToolActivity, metadata: &str) -> bool {
        if !self.inner.pool.wants_turns() {
            return true;
        }
        match self.turns.tool(&activity, metadata) {
            Some(turn) => {
                self.tool_in(&turn, activity);
                true
            }
            None => false,
        }
    }

    /// As [`Self::tool`], for activity that [`OpenTurns`] has routed. False: there was no room for it.
    pub fn tool_in(&mut self, turn: &Turn, activity: ToolActivity) -> bool {
        let limit = self.inner.max_entry_bytes;
        let has_room = turn.edit(|content| content.stage(activity, limit));
        if !has_room {
            let message = format!("the activity of tools is over max_entry_bytes ({limit}); the rest is not kept");
            self.inner.log().log_from_host(LogLevel::Warn, "keepline.limit", &message);
        }
        has_room
    }

    /// An answer on its way back, within [`Options::entry_timeout`](crate::Options::entry_timeout): stored in the session
    /// that its metadata name, else in that of the question asked last. With a question of that session on this pipe it is
    /// part of its turn, named or not, and if the question saw an earlier life of the session, one that has been deleted or
    /// has expired since, it is dropped with a warning. An answer that names a session creates it when it is absent, if
    /// this pipe knows of no earlier life: there was no question of that session, or its transaction failed. Cost: one
    /// transaction; a second one when history is summarised, one more for each broken key of the session that is left
    /// out.
    ///
    /// # Errors
    /// Under [`OnStoreError::Fail`]: the store or the plugin failed. With the filter's option `require_node`: there is no node.
    pub async fn answer(&mut self, text: &str, metadata: &str) -> Result<Passed, EntryError> {
        self.reply(Answer { text, metadata, ..Answer::default() }, None).await
    }

    /// As [`Self::answer`], with more that is known of it, and perhaps by a deadline of the caller's.
    /// [`Deadline::NEVER`]: only the store's own limits hold.
    pub async fn reply(&mut self, answer: Answer<'_>, by: Option<Deadline>) -> Result<Passed, EntryError> {
        let metadata = EntryMetadata::parse(answer.metadata);
        let owner = metadata.owner();
        let turn = self.turns.answer_of(&metadata, &owner);
        self.pass_answer(&turn, answer, metadata, owner, by).await
    }

    /// As [`Self::reply`], for an answer that [`OpenTurns`] has routed.
    pub async fn reply_in(
        &mut self,
        turn: &Turn,
        answer: Answer<'_>,
        by: Option<Deadline>,
    ) -> Result<Passed, EntryError> {
        let metadata = EntryMetadata::parse(answer.metadata);
        let owner = metadata.owner();
        self.pass_answer(turn, answer, metadata, owner, by).await
    }

    async fn pass_answer(
        &mut self,
        turn: &Turn,
        answer: Answer<'_>,
        metadata: EntryMetadata<'_>,
        owner: EntryOwner,
        by: Option<Deadline>,
    ) -> Result<Passed, EntryError> {
        let mut content = turn.take_content();
        if let Some(refused) = self.refuse_if_too_large(answer.size()) {
            return Ok(refused);
        }
        if turn.is_refused() {
            return Ok(self.refuse_ownerless_answer());
        }
        let completed = turn.complete_metadata(&content.state, &metadata, &owner);
        let mut answer = Answer { metadata: completed.as_deref().unwrap_or(answer.metadata), ..answer };
        let staged = &content.staged;
        let began = Instant::now();
        let mut due = self.inner.call_deadline(began, by);
        if self.inner.counts_tokens() {
            let model = staged.model.as_deref();
            if answer.tokens.is_none() {
                answer.tokens = self.inner.count_tokens(model, answer.text, due).await;
            }
            let (text, known) = match answer.question_text {
                Some(text) => (Some(text), answer.question_tokens),
                None => (staged.question_text.as_deref(), answer.question_tokens.or(staged.question_tokens)),
            };
            answer.question_tokens = match (known, text) {
                (None, Some(text)) => self.inner.count_tokens(model, text, due).await,
                (known, _) => known,
            };
            due.mark_waited();
        }
        let question = TurnQuestion {
            text: answer.question_text.or(staged.question_text.as_deref()).unwrap_or_default(),
            tokens: answer.question_tokens,
        };
        let tools: Vec<_> = staged.activity.iter().chain(answer.activity).map(ToolActivity::to_contract).collect();
        let entry = answer.to_contract(&content.state, question, &tools);
        let scope = CallScope::Entry(owner.merge_with_question(turn.owner())).with_session_ids(self.inner.session_ids);
        let call = async |instance: &mut PluginInstance, writer, due| {
            let call = async |exports: &Exports, store: &mut _| exports.filter_lanes()?.call_answer(store, entry).await;
            instance.call(writer, due, scope, call).await
        };
        let called = self.inner.call_instance(&self.store, due, call).await;
        drop(tools);
        self.inner.tally.answers.record(began.elapsed());
        match called {
            Ok(AnswerReply { effect, due, problem, .. }) => {
                let effect = Effect::of_answer(&effect);
                let problem = problem.map(Problem::from);
                if is_turn_consumed(effect, problem.as_ref()) {
                    let activity = content.staged.activity.iter().chain(answer.activity);
                    let is_left = tool_calls::has_unanswered_calls(activity);
                    content.may_wait |= is_left;
                    // What follows goes on from here, or is another answer to the same question.
                    content.clear_staged(matches!(effect, Effect::Stored | Effect::Repeated));
                }
                self.record_outcome(Passed { metadata: None, effect, attached: 0, has_vector: false, due, problem })
            }
            Err(refusal) => self.record_outcome(without_memory(&refusal)),
        }
    }

    /// Refuses an answer that would leave its session without its owner.
    fn refuse_ownerless_answer(&self) -> Passed {
        let message =
            "the answer names no user, and the turn that knew its session's user may have been dropped; it is \
                       not stored"
                .to_owned();
        self.inner.log().log_from_host(LogLevel::Warn, "keepline.limit", &message);
        self.inner.tally.count(Effect::Limited, None);
        passed_unchanged(Effect::Limited, Problem { code: ProblemCode::Limit, message })
    }

    /// The sandbox's business, not the filter's: what is over the limit never enters an instance.
    fn refuse_if_too_large(&self, size: usize) -> Option<Passed> {
        let limit = self.inner.max_entry_bytes;
        if size <= limit {
            return None;
        }
        let message = format!("an entry of {size} bytes is over max_entry_bytes ({limit}); it is forwarded unchanged");
        self.inner.log().log_from_host(LogLevel::Warn, "keepline.limit", &message);
        self.inner.tally.count(Effect::Limited, None);
        Some(passed_unchanged(Effect::Limited, Problem { code: ProblemCode::Limit, message }))
    }

    fn record_outcome(&self, passed: Passed) -> Result<Passed, EntryError> {
        self.inner.tally.count(passed.effect, passed.problem.as_ref());
        if let (Effect::Ignored, Some(problem)) = (passed.effect, &passed.problem)
            && self.inner.unusable_ids.is_first_of_kind(&problem.code.to_string())
        {
            let message = format!("an entry passed without memory: {}; more like it are only counted", problem.message);
            self.inner.log().log_from_host(LogLevel::Warn, "keepline.session", &message);
        }
        // An entry without the node that it must have is not one whose store failed.
        let lacks_node = self.inner.requires_node
            && passed.problem.as_ref().is_some_and(|problem| problem.code.to_string() == "no-node");
        let fails = lacks_node || self.inner.on_store_error == OnStoreError::Fail;
        if passed.effect == Effect::Failed && fails {
            let unknown =
                || Problem { code: ProblemCode::Store(FailureCode::Other), message: "the store failed".into() };
            return Err(passed.problem.unwrap_or_else(unknown).into());
        }
        Ok(passed)
    }
}

/// Whether an answer has taken its question and the activity of tools along. One that was not worth storing, or that a limit
/// kept out, leaves them to the next one; one that says itself that it is not to be stored does not.
fn is_turn_consumed(effect: Effect, problem: Option<&Problem>) -> bool {
    const SWITCHED_OFF: &str = "switched-off";
    match effect {
        Effect::Failed | Effect::Limited | Effect::Ignored => false,
        Effect::Skipped => problem.is_some_and(|problem| problem.code.to_string() == SWITCHED_OFF),
        _ => true,
    }
}

fn without_memory(refusal: &CallRefusal) -> Passed {
    passed_unchanged(Effect::Failed, refusal.into())
}

fn passed_unchanged(effect: Effect, problem: Problem) -> Passed {
    Passed { metadata: None, effect, attached: 0, has_vector: false, due: Vec::new(), problem: Some(problem) }
}

#[cfg(test)]
mod tests;
