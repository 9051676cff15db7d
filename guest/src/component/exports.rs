//! Exports the lanes and the tasks.
//!
//! A plugin on this crate exports lanes of its own in the place of [`Bundled`], by [`export_lanes!`](crate::export_lanes).

use std::cell::RefCell;

use keepline_store_client::component::allocator::Arena;
use keepline_store_client::component::imports::{Imports, replace_log_level};

use crate::admin::conditions::OwnedHost;
use crate::contract::{Level, Problem, lanes, tasks};
use crate::tasks::job::Job;
use crate::{AnswerEntry, Config, Filter, QuestionEntry, ToolActivity};

/// The lanes of the bundled filter.
#[derive(Debug)]
pub struct Bundled;

#[cfg(feature = "bundled")]
crate::export_lanes!(Bundled);

/// Room for all that a usual entry needs: as much as the ordinary allocator would begin with.
#[global_allocator]
static HEAP: Arena<{ 64 << 10 }> = Arena::new();

thread_local! {
    /// What an instance keeps between calls. None: the defaults.
    pub(super) static CONFIG: RefCell<Option<Config>> = const { RefCell::new(None) };
}

pub(super) fn config() -> Config {
    CONFIG.with_borrow(Clone::clone).unwrap_or_default()
}

pub(super) fn host() -> OwnedHost<Imports> {
    OwnedHost::unconditional(Imports)
}

fn filter() -> Filter<OwnedHost<Imports>> {
    Filter::new(host(), config())
}

impl lanes::Guest for Bundled {
    fn configure(options: String, log_from: Level) -> Result<lanes::Configured, Problem> {
        let log_before = replace_log_level(log_from);
        match HEAP.outside(|| Config::parse_for(&host(), &options)) {
            Ok((config, warnings)) => {
                let (options, wants) = (config.options(), config.wants());
                CONFIG.set(Some(config));
                Ok(lanes::Configured { options, wants, warnings })
            }
            Err(problem) => {
                replace_log_level(log_before);
                Err(*problem)
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
            effect: reply.effect.name().to_owned(),
            attached: reply.attached,
            due: reply.due,
            problem: reply.problem.map(Problem::from),
            extras: None,
        }
    }

    fn answer(entry: lanes::AnswerEntry) -> lanes::AnswerReply {
        let activity: Vec<_> = entry.tools.iter().map(borrow).collect();
        let reply = filter().answer(&AnswerEntry {
            text: &entry.text,
            metadata: &entry.metadata,
            turn: &entry.turn,
            message_id: entry.message_id.as_deref(),
            question_text: &entry.question.text,
            question_tokens: entry.question.tokens,
            activity: &activity,
            is_incomplete: entry.status.as_deref().is_some_and(|status| status != "complete"),
            tokens: entry.tokens,
            details: entry.details.as_deref().unwrap_or_default(),
        });
        lanes::AnswerReply {
            effect: reply.effect.name().to_owned(),
            due: reply.due,
            problem: reply.problem.map(Problem::from),
            extras: None,
        }
    }
}

// Whoever has lanes has the bundled filter's tasks, and its administration (`operators`).
impl<L: lanes::Guest> tasks::Guest for L {
    fn advance(job: tasks::Job) -> tasks::Progress {
        let mut task = job.task;
        let progress = filter().advance(&Job {
            buckets: &task.buckets,
            name: &task.name,
            state: &task.state,
            holder: &job.holder,
            lease_milliseconds: job.lease_milliseconds,
            results: &job.results,
        });
        task.state = progress.state.unwrap_or(task.state);
        tasks::Progress {
            step: progress.step.name().to_owned(),
            task,
            needs: progress.need.into_iter().collect(),
            problem: progress.problem.map(Problem::from),
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
        details: activity.details.as_deref().unwrap_or_default(),
    }
}
