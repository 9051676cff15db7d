//! Exports the lanes and maintenance: the only file with generated bindings.

#[allow(unsafe_code, missing_docs, clippy::all, clippy::pedantic, clippy::restriction, reason = "generated")]
pub(super) mod bindings {
    wit_bindgen::generate!({
        path: "../wit",
        world: "memory-filter",
        generate_all,
        // What goes to the store is borrowed: a transaction copies no text on this side. An entry goes down and comes
        // up, so it is there twice.
        ownership: Borrowing { duplicate_if_necessary: true },
    });

    export!(Component with_types_in self);
    pub struct Component;
}

use std::cell::{Cell, RefCell};

use bindings::Component;
use bindings::exports::keepline::memory::{filter as lanes, maintenance};
use bindings::wasi::logging::logging;

use super::allocator::Arena;
use super::imports::Imports;
use crate::contract::Capabilities;
use crate::tasks::job::{Job, Need, NeedResult, Purpose, Step, Vector};
use crate::{AnswerEntry, Config, Effect, Filter, Problem, QuestionEntry, Task, ToolActivity};

/// Room for all that a usual entry needs: as much as the ordinary allocator would begin with.
#[global_allocator]
static HEAP: Arena<{ 64 << 10 }> = Arena::new();

thread_local! {
    /// What an instance keeps between calls. None: the defaults.
    pub(super) static CONFIG: RefCell<Option<Config>> = const { RefCell::new(None) };
    /// The lowest level that the host wants.
    pub(super) static LOG_FROM: Cell<logging::Level> = const { Cell::new(logging::Level::Debug) };
    /// What the store can promise, once it was asked.
    pub(super) static CAPABILITIES: Cell<Option<Capabilities>> = const { Cell::new(None) };
}

pub(super) fn config() -> Config {
    CONFIG.with_borrow(Clone::clone).unwrap_or_default()
}

fn filter() -> Filter<Imports> {
    Filter::new(Imports, config())
}

impl lanes::Guest for Component {
    fn configure(options: String, log_from: logging::Level) -> Result<lanes::Configured, lanes::ConfigProblem> {
        let log_before = LOG_FROM.replace(log_from);
        match HEAP.outside(|| Config::parse_for(&Imports, &options)) {
            Ok(config) => {
                let configured = lanes::Configured {
                    effective: config.effective(),
                    wants_vectors: config.conversation.as_ref().is_some_and(|options| options.recall.wants_vectors()),
                    wants_tokens: config.conversation.is_some(),
                    wants_turns: config.conversation.is_some(),
                };
                CONFIG.set(Some(config));
                Ok(configured)
            }
            Err(problem) => {
                LOG_FROM.set(log_before);
                Err(lanes::ConfigProblem { field: problem.field, message: problem.message })
            }
        }
    }

    fn question(entry: lanes::QuestionEntry) -> lanes::QuestionReply {
        let reply = filter().question(&QuestionEntry {
            text: &entry.text,
            metadata: &entry.metadata,
            message_id: entry.message_id.as_deref(),
            vector: entry.vector.as_ref().map(|vector| (&*vector.model, &*vector.data)),
        });
        lanes::QuestionReply {
            metadata: reply.metadata,
            turn: reply.turn,
            effect: reply.effect.into(),
            attached: reply.attached,
            due: tasks(reply.due),
            problem: reply.problem.map(Into::into),
        }
    }

    fn answer(entry: lanes::AnswerEntry) -> lanes::AnswerReply {
        let mut activity = Vec::new();
        let mut told = AnswerEntry {
            text: &entry.text,
            metadata: &entry.metadata,
            turn: &entry.turn,
            message_id: entry.message_id.as_deref(),
            ..AnswerEntry::default()
        };
        for part in &entry.parts {
            match part {
                lanes::TurnPart::Question(question) => {
                    told.question_text = Some(&question.text);
                    told.question_tokens = question.tokens;
                }
                lanes::TurnPart::Tool(tool) => activity.push(borrow(tool)),
                lanes::TurnPart::Answer(answer) => {
                    told.is_incomplete = answer.status == lanes::AnswerStatus::Incomplete;
                    told.tokens = answer.tokens;
                    told.details = &answer.details;
                }
            }
        }
        told.activity = &activity;
        let reply = filter().answer(&told);
        lanes::AnswerReply {
            metadata: reply.metadata,
            effect: reply.effect.into(),
            due: tasks(reply.due),
            problem: reply.problem.map(Into::into),
        }
    }
}

impl maintenance::Guest for Component {
    fn advance(job: maintenance::Job) -> maintenance::Progress {
        // No step needs more than one thing.
        let result = job.results.into_iter().next().map(|result| match result {
            maintenance::NeedResult::Completion(found) => NeedResult::Text(found.text),
            maintenance::NeedResult::Vectors(found) => {
                let vectors = found.vectors.into_iter();
                NeedResult::Vectors(vectors.map(|of| Vector { model: of.model, data: of.data }).collect())
            }
            maintenance::NeedResult::Missing(_) => NeedResult::Missing,
            maintenance::NeedResult::Failed(_) => NeedResult::Failed,
        });
        let mut task = job.task;
        let progress = filter().advance(&Job {
            subject: &task.subject,
            name: &task.name,
            state: &task.state,
            holder: &job.holder,
            lease_milliseconds: job.lease_milliseconds,
            result: result.as_ref(),
        });
        task.state = progress.state.unwrap_or(task.state);
        maintenance::Progress {
            step: progress.step.into(),
            task,
            needs: progress.need.into_iter().map(Into::into).collect(),
            problem: progress.problem.map(Into::into),
        }
    }
}

fn borrow(activity: &lanes::ToolActivity) -> ToolActivity<'_> {
    ToolActivity {
        call_id: &activity.call_id,
        name: &activity.name,
        arguments: activity.arguments.as_deref(),
        output: activity.output.as_deref(),
        error: activity.error.as_deref(),
        details: &activity.details,
    }
}

fn tasks(due: Vec<Task>) -> Vec<lanes::Task> {
    due.into_iter().map(Into::into).collect()
}

impl From<Task> for lanes::Task {
    fn from(task: Task) -> Self {
        Self { subject: task.subject, name: task.name.to_owned(), state: task.state }
    }
}

impl From<Step> for maintenance::Step {
    fn from(step: Step) -> Self {
        match step {
            Step::Needs => Self::Needs,
            Step::Again => Self::Again,
            Step::Done => Self::Done,
            Step::Taken => Self::Taken,
            Step::Ended => Self::Ended,
            Step::Failed => Self::Failed,
        }
    }
}

impl From<Need> for maintenance::Need {
    fn from(need: Need) -> Self {
        match need {
            Need::Completion(need) => Self::Completion(maintenance::CompletionNeed {
                id: need.id,
                purpose: match need.purpose {
                    Purpose::Summary => maintenance::Purpose::Summary,
                    Purpose::Title => maintenance::Purpose::Title,
                },
                instructions: need.instructions,
                input: need.input,
                max_tokens: need.max_tokens,
            }),
            Need::Vectors(need) => Self::Vectors(maintenance::VectorsNeed { id: need.id, texts: need.texts }),
        }
    }
}

impl From<Effect> for lanes::Effect {
    fn from(effect: Effect) -> Self {
        match effect {
            Effect::Passed => Self::Passed,
            Effect::Ignored => Self::Ignored,
            Effect::Foreign => Self::Foreign,
            Effect::Resumed => Self::Resumed,
            Effect::Enriched => Self::Enriched,
            Effect::Stored => Self::Stored,
            Effect::Repeated => Self::Repeated,
            Effect::Skipped => Self::Skipped,
            Effect::Limited => Self::Limited,
            Effect::Ended => Self::Ended,
            Effect::Failed => Self::Failed,
        }
    }
}

impl From<Problem> for lanes::Problem {
    fn from(problem: Problem) -> Self {
        Self { code: problem.code.to_owned(), message: problem.message }
    }
}
