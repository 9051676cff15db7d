//! A pipe: questions and answers pass, and the turn between them is carried.

use std::sync::Arc;

use crate::{
    contract::filter::{AnswerReply, Problem, QuestionReply},
    keepline::{OnStoreError, Shared},
    lend::{LogLevel, MAX_MESSAGE, MAX_NAME, tame},
    runtime::{Due, Fault, Instance, Refusal, Taken},
    store::{Deadline, Writer},
};

pub use crate::contract::filter::Effect;

/// The longest turn state that is carried: there is one a pipe, and ours has some 150 bytes.
const MAX_TURN: usize = 64 << 10;

/// What the filter made of an entry. The text is the caller's and stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Passed {
    /// The metadata to send on; none: as they came.
    pub metadata: Option<String>,
    /// What was done.
    pub effect: Effect,
    /// Keys attached to a question.
    pub attached: u32,
    /// What kept the entry from its memory, or from a part of it: a question may be enriched, and an answer stored,
    /// with a problem that names what was left out.
    pub problem: Option<Problem>,
}

/// An entry whose memory failed, under [`OnStoreError::Fail`]. The entry itself is unharmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct EntryError {
    /// A failure code of `key-value`; `plugin`: it was stopped; `busy`: no instance came free in time;
    /// `timed-out`: its time was over before the store had answered; `closed`: after [`Keepline::shutdown`](crate::Keepline::shutdown).
    pub code: String,
    /// One sentence without a full stop.
    pub message: String,
}

/// The lanes of one conversation at a time: what remembers, between a question and its answers, whose
/// they are. A pipe is used by one task at a time; many pipes work side by side.
///
/// A call that is dropped before it is done loses its entry's memory, and nothing else: one that waits for an
/// instance leaves the line, one that has an instance takes it along.
pub struct Pipe {
    shared: Arc<Shared>,
    turn: String,
    /// None while a call is under way, and after one that was dropped: its number may be in use.
    writer: Option<Writer>,
}

impl Pipe {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, turn: String::new(), writer: None }
    }

    /// A new object begins: what follows has nothing to do with the question before.
    pub fn open(&mut self) {
        self.turn.clear();
    }

    /// A question on its way to the model, within [`Options::entry_timeout`](crate::Options::entry_timeout). Cost: one
    /// transaction if it has a session, none if not; three or four when the session's memory is over a limit.
    ///
    /// Whatever becomes of it, even if the call is dropped before it begins: an answer that names no session belongs to
    /// none from now on, or to this question's.
    ///
    /// # Errors
    /// Under [`OnStoreError::Fail`] only: the store or the plugin failed.
    pub fn question(&mut self, text: &str, metadata: &str) -> impl Future<Output = Result<Passed, EntryError>> + Send {
        self.turn.clear();
        self.ask(text, metadata, None)
    }

    /// As [`Self::question`], by a deadline of the caller's. [`Deadline::NEVER`]: only the store's own limits hold.
    ///
    /// # Errors
    /// As [`Self::question`].
    pub fn question_by(
        &mut self,
        text: &str,
        metadata: &str,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Passed, EntryError>> + Send {
        self.turn.clear();
        self.ask(text, metadata, Some(deadline))
    }

    async fn ask(&mut self, text: &str, metadata: &str, deadline: Option<Deadline>) -> Result<Passed, EntryError> {
        if let Some(refused) = self.too_large(text, metadata) {
            return Ok(refused);
        }
        let due = self.shared.due(deadline);
        let call = async |instance: &mut Instance, writer, due| instance.question(writer, due, text, metadata).await;
        match self.shared.call(&mut self.writer, due, call).await {
            Ok(QuestionReply { metadata, turn, effect, attached, problem }) => {
                if turn.len() > MAX_TURN {
                    let refusal = Refusal::from(Fault::of(format!("its turn state is over {MAX_TURN} bytes")));
                    self.shared.report(&refusal);
                    return self.conclude(without_memory(&refusal));
                }
                self.turn = turn;
                self.conclude(Passed { metadata, effect, attached, problem })
            }
            Err(refusal) => self.conclude(without_memory(&refusal)),
        }
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
        self.reply(text, metadata, None).await
    }

    /// As [`Self::answer`], by a deadline of the caller's. [`Deadline::NEVER`]: only the store's own limits hold.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub async fn answer_by(&mut self, text: &str, metadata: &str, deadline: Deadline) -> Result<Passed, EntryError> {
        self.reply(text, metadata, Some(deadline)).await
    }

    async fn reply(&mut self, text: &str, metadata: &str, deadline: Option<Deadline>) -> Result<Passed, EntryError> {
        if let Some(refused) = self.too_large(text, metadata) {
            return Ok(refused);
        }
        let turn = &self.turn;
        let due = self.shared.due(deadline);
        let call =
            async |instance: &mut Instance, writer, due| instance.answer(writer, due, text, metadata, turn).await;
        match self.shared.call(&mut self.writer, due, call).await {
            Ok(AnswerReply { metadata, effect, problem }) => {
                self.conclude(Passed { metadata, effect, attached: 0, problem })
            }
            Err(refusal) => self.conclude(without_memory(&refusal)),
        }
    }

    /// The sandbox's business, not the filter's: what is over the limit never enters an instance.
    fn too_large(&self, text: &str, metadata: &str) -> Option<Passed> {
        let limit = self.shared.max_entry_bytes;
        let size = text.len().saturating_add(metadata.len());
        if size <= limit {
            return None;
        }
        let message = format!("an entry of {size} bytes is over max_entry_bytes ({limit}); it is forwarded unchanged");
        self.shared.pool.lent().log.report(LogLevel::Warn, "keepline.limit", &message);
        self.shared.tally.count(Effect::Limited);
        let problem = Some(Problem { code: "limit".into(), message });
        Some(Passed { metadata: None, effect: Effect::Limited, attached: 0, problem })
    }

    fn conclude(&self, mut passed: Passed) -> Result<Passed, EntryError> {
        if let Some(problem) = &mut passed.problem {
            tame(&mut problem.code, MAX_NAME);
            tame(&mut problem.message, MAX_MESSAGE);
        }
        self.shared.tally.count(passed.effect);
        if passed.effect == Effect::Failed && self.shared.on_store_error == OnStoreError::Fail {
            let problem =
                passed.problem.unwrap_or(Problem { code: "other".into(), message: "the store failed".into() });
            return Err(EntryError { code: problem.code, message: problem.message });
        }
        Ok(passed)
    }
}

fn without_memory(refusal: &Refusal) -> Passed {
    let code = match refusal {
        Refusal::Full(_) | Refusal::Late(_) => "busy",
        Refusal::Closed => "closed",
        Refusal::Fault(_) => "plugin",
    };
    let problem = Some(Problem { code: code.into(), message: refusal.to_string() });
    Passed { metadata: None, effect: Effect::Failed, attached: 0, problem }
}

impl Shared {
    /// One call of an instance. What keeps it from its reply is logged in one line; an instance that faulted
    /// is not used again.
    pub(crate) async fn call<R>(
        &self,
        writer: &mut Option<Writer>,
        mut due: Due,
        call: impl AsyncFnOnce(&mut Instance, Writer, Due) -> Result<(R, Writer), Fault>,
    ) -> Result<R, Refusal> {
        let called = async {
            let mut taken: Taken<'_> = self.pool.take(&mut due).await?;
            // Not before there is an instance: a call that never had one has used no number.
            let (reply, returned) = call(&mut taken.instance, writer.take().unwrap_or_default(), due).await?;
            *writer = Some(returned);
            self.pool.give_back(taken);
            Ok(reply)
        };
        called.await.inspect_err(|refusal| self.report(refusal))
    }

    fn report(&self, refusal: &Refusal) {
        let (level, context) = match refusal {
            Refusal::Full(_) | Refusal::Late(_) => {
                self.tally.count_busy();
                (LogLevel::Warn, "keepline.busy")
            }
            Refusal::Closed => (LogLevel::Warn, "keepline.closed"),
            Refusal::Fault(_) => {
                self.tally.count_fault();
                (LogLevel::Error, "keepline.plugin")
            }
        };
        self.pool.lent().log.report(level, context, &refusal.to_string());
    }
}
