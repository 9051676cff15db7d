//! Exports the lanes and maintenance.

use std::cell::{Cell, RefCell};

use crate::component::allocator::Arena;
use crate::component::imports::Imports;
use crate::contract::{Level, StoreProfile, bindings, filter as lanes, maintenance};
use crate::tasks::job::Job;
use crate::{AnswerEntry, Config, Filter, QuestionEntry, ToolActivity};

/// The exports of the contract are implemented for it.
pub(super) struct Component;

#[allow(unsafe_code, clippy::all, clippy::pedantic, clippy::restriction, reason = "generated")]
mod symbols {
    use super::{Component, bindings};

    bindings::export!(Component with_types_in bindings);
}

/// Room for all that a usual entry needs: as much as the ordinary allocator would begin with.
#[global_allocator]
static HEAP: Arena<{ 64 << 10 }> = Arena::new();

thread_local! {
    /// What an instance keeps between calls. None: the defaults.
    pub(super) static CONFIG: RefCell<Option<Config>> = const { RefCell::new(None) };
    /// The lowest level that the host wants.
    pub(super) static LOG_FROM: Cell<Level> = const { Cell::new(Level::Debug) };
    /// What the store said of itself, once it was asked.
    pub(super) static STORE: Cell<Option<StoreProfile>> = const { Cell::new(None) };
}

pub(super) fn config() -> Config {
    CONFIG.with_borrow(Clone::clone).unwrap_or_default()
}

fn filter() -> Filter<Imports> {
    Filter::new(Imports, config())
}

impl lanes::Guest for Component {
    fn configure(options: String, log_from: Level) -> Result<lanes::Configured, lanes::ConfigProblem> {
        let log_before = LOG_FROM.replace(log_from);
        match HEAP.outside(|| Config::parse_for(&Imports, &options)) {
            Ok(config) => {
                let configured = lanes::Configured {
                    effective: config.effective(),
                    wants_vectors: config.conversation.as_ref().is_some_and(|options| options.wants_vectors()),
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
        filter().question(&QuestionEntry {
            text: &entry.text,
            metadata: &entry.metadata,
            message_id: entry.message_id.as_deref(),
            vector: entry.vector.as_ref().map(|vector| (&*vector.model, &*vector.data)),
        })
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
        filter().answer(&told)
    }
}

impl maintenance::Guest for Component {
    fn advance(job: maintenance::Job) -> maintenance::Progress {
        let mut task = job.task;
        let progress = filter().advance(&Job {
            subject: &task.subject,
            name: &task.name,
            state: &task.state,
            holder: &job.holder,
            lease_milliseconds: job.lease_milliseconds,
            // No step needs more than one thing.
            result: job.results.first(),
        });
        task.state = progress.state.unwrap_or(task.state);
        maintenance::Progress {
            step: progress.step,
            task,
            needs: progress.need.into_iter().collect(),
            problem: progress.problem,
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
