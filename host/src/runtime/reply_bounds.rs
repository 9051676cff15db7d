//! Checks replies of a component against bounds. An instance whose reply is over one is dropped, and the reply with it.
//!
//! However much a component returns, the host copies no more than [`Sandbox::copy_bytes`](crate::Sandbox::copy_bytes)
//! in one call. These bounds are for what is kept, passed to the next call or shown. Metadata of an entry is checked
//! where the entry's own is known, in `entry::metadata`.

use super::{fault::PluginFault, scope::CallScope};
use crate::contract::{
    lanes::{AnswerReply, QuestionReply, Task},
    needs::Need,
    pipeline_needs,
    pipelines::{
        definitions::{Definition, DefinitionPage, DefinitionRemoved, Refusal, RequiredVariables},
        runs,
    },
    shared::Problem,
    tasks::Progress,
};

/// There is one a pipe, and ours has some 150 bytes.
const MAX_TURN: usize = 4 << 10;
const MAX_TASKS: usize = 64;
const MAX_TASK_STATE: usize = 4 << 10;
/// Of a task under way.
const MAX_PROGRESS_STATE: usize = 1 << 20;
/// Of a bucket that a task works on.
const MAX_BUCKET_KIND: usize = 32;
const MAX_BUCKET_NAME: usize = 128;
/// Of a pipeline's need.
const MAX_DIGEST: usize = 128;
const MAX_TASK_NAME: usize = 64;
/// Of one step: how many, how many texts to be embedded in all of them, and bytes of these texts and of prompts.
const MAX_NEEDS: usize = 64;
const MAX_TEXTS: usize = 1024;
const MAX_NEEDED: usize = 8 << 20;

/// What can be looked at before it is believed.
pub(crate) trait BoundedReply {
    /// # Errors
    /// When it is over a bound, or about what was out of the call's scope.
    fn check_bounds(&self, scope: &CallScope) -> Result<(), PluginFault>;

    /// The tasks that it names for an entry.
    fn due_tasks(&self) -> &[Task] {
        &[]
    }
}

impl BoundedReply for QuestionReply {
    fn check_bounds(&self, scope: &CallScope) -> Result<(), PluginFault> {
        check_printable("turn", &self.turn, MAX_TURN)?;
        check_tasks(&self.due, scope)
    }

    fn due_tasks(&self) -> &[Task] {
        &self.due
    }
}

impl BoundedReply for AnswerReply {
    fn check_bounds(&self, scope: &CallScope) -> Result<(), PluginFault> {
        check_tasks(&self.due, scope)
    }

    fn due_tasks(&self) -> &[Task] {
        &self.due
    }
}

impl BoundedReply for Progress {
    fn check_bounds(&self, scope: &CallScope) -> Result<(), PluginFault> {
        check_task(&self.task, MAX_PROGRESS_STATE)?;
        in_scope(&self.task, scope)?;
        check_needs(self.needs.iter().map(|need| match need {
            Need::Completion(need) => (0, need.instructions.len() + need.input.len()),
            Need::Call(need) => (0, need.name.len() + need.input.len()),
            Need::Vectors(need) => (need.texts.len(), need.texts.iter().map(String::len).sum()),
        }))
    }
}

impl BoundedReply for Result<runs::Reply, Refusal> {
    fn check_bounds(&self, _: &CallScope) -> Result<(), PluginFault> {
        let Ok(reply) = self else { return Ok(()) };
        for pending in &reply.needs {
            check_printable("need's digest", &pending.digest, MAX_DIGEST)?;
        }
        check_needs(reply.needs.iter().map(|pending| match &pending.need {
            pipeline_needs::Need::Completion(need) => (0, need.instructions.len() + need.input.len()),
            pipeline_needs::Need::Call(need) => (0, need.name.len() + need.input.len()),
            pipeline_needs::Need::Vectors(need) => (need.texts.len(), need.texts.iter().map(String::len).sum()),
        }))
    }
}

/// Each need is given by its texts to be embedded, and its bytes.
fn check_needs(needs: impl ExactSizeIterator<Item = (usize, usize)>) -> Result<(), PluginFault> {
    if needs.len() > MAX_NEEDS {
        return Err(PluginFault::from_reason(format!("it needs more than {MAX_NEEDS} things at a time")));
    }
    let (texts, bytes) = needs.fold((0, 0), |(texts, bytes), need| (texts + need.0, bytes + need.1));
    if texts > MAX_TEXTS {
        return Err(PluginFault::from_reason(format!("it needs embeddings of more than {MAX_TEXTS} texts at a time")));
    }
    if bytes > MAX_NEEDED {
        return Err(PluginFault::from_reason(format!(
            "its prompts and texts come to more than {MAX_NEEDED} bytes at a time"
        )));
    }
    Ok(())
}

/// Nothing of these is kept.
macro_rules! unbounded {
    ($($reply:ty),*) => {
        $(impl BoundedReply for Result<$reply, Refusal> {
            fn check_bounds(&self, _: &CallScope) -> Result<(), PluginFault> {
                Ok(())
            }
        })*
    };
}

unbounded!(Definition, DefinitionPage, DefinitionRemoved, RequiredVariables);

/// Nothing of it is kept.
impl<T> BoundedReply for Result<T, Problem> {
    fn check_bounds(&self, _: &CallScope) -> Result<(), PluginFault> {
        Ok(())
    }
}

/// Whether a component could have named this task. Checked before the task is run, so that an instance which hands it
/// back is not taken for a faulty one.
pub(crate) fn is_valid_task(task: &Task) -> bool {
    self::check_task(task, MAX_PROGRESS_STATE).is_ok()
}

fn check_tasks(due: &[Task], scope: &CallScope) -> Result<(), PluginFault> {
    if due.len() > MAX_TASKS {
        return Err(PluginFault::from_reason(format!("it names more than {MAX_TASKS} tasks")));
    }
    due.iter().try_for_each(|one| {
        check_task(one, MAX_TASK_STATE)?;
        in_scope(one, scope)
    })
}

/// A task reaches its buckets: to name others would be a way to reach them.
fn in_scope(task: &Task, scope: &CallScope) -> Result<(), PluginFault> {
    if scope.holds_task(&task.buckets) {
        return Ok(());
    }
    let subject = task_subject(task);
    Err(PluginFault::from_reason(format!(
        "it names a task of '{subject}', which does not belong to the entry that it serves"
    )))
}

/// The buckets of a task as a text, for logs and as a key.
pub(crate) fn task_subject(task: &Task) -> String {
    let names: Vec<String> = task.buckets.iter().map(|bucket| format!("{}/{}", bucket.kind, bucket.name)).collect();
    names.join(" ")
}

fn check_task(task: &Task, max_state: usize) -> Result<(), PluginFault> {
    for bucket in &task.buckets {
        check_printable("task's kind of bucket", &bucket.kind, MAX_BUCKET_KIND)?;
        check_printable("task's bucket", &bucket.name, MAX_BUCKET_NAME)?;
    }
    check_printable("task's name", &task.name, MAX_TASK_NAME)?;
    check_printable("task's state", &task.state, max_state)
}

fn check_printable(what: &str, text: &str, max: usize) -> Result<(), PluginFault> {
    if text.len() > max {
        return Err(PluginFault::from_reason(format!("its {what} is over {max} bytes")));
    }
    // Without an early end: so a compiler looks at many bytes at a time.
    if text.bytes().fold(true, |so_far, byte| so_far & matches!(byte, b' '..=b'~')) {
        return Ok(());
    }
    Err(PluginFault::from_reason(format!("its {what} is not printable ASCII")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        contract::needs::{CompletionNeed, VectorsNeed},
        runtime::{TaskScope, TaskSubject, scope::task_buckets},
    };

    fn reply(turn: String, due: Vec<Task>) -> QuestionReply {
        QuestionReply { metadata: None, turn, effect: "resumed".into(), attached: 0, due, problem: None, extras: None }
    }

    fn a_task(state: String) -> Task {
        Task { buckets: task_buckets("session/a"), name: "fold".into(), state }
    }

    #[test]
    fn a_reply_beyond_its_bounds_is_refused() {
        let scope = CallScope::for_session("a");
        let check = |turn: String, due| reply(turn, due).check_bounds(&scope);
        let most = vec![a_task("x".repeat(MAX_TASK_STATE)); MAX_TASKS];
        assert!(check("x".repeat(MAX_TURN), most.clone()).is_ok());
        assert!(check("x".repeat(MAX_TURN + 1), vec![]).is_err());
        assert!(check("a\nb".into(), vec![]).is_err());
        assert!(check("é".into(), vec![]).is_err());
        assert!(check(String::new(), [most, vec![a_task(String::new())]].concat()).is_err());
        assert!(check(String::new(), vec![a_task("x".repeat(MAX_TASK_STATE + 1))]).is_err());
        let unprintable = Task { name: "\u{1b}[2J".into(), ..a_task(String::new()) };
        assert!(check(String::new(), vec![unprintable]).is_err());
    }

    #[test]
    fn the_needs_of_a_step_are_bounded_in_number_and_bytes() {
        let scope = CallScope::Task(TaskScope {
            subject: TaskSubject::of(&task_buckets("session/a")).unwrap(),
            is_user_withheld: false,
        });
        let check = |needs| {
            let task = a_task(String::new());
            Progress { step: "needs".into(), task, needs, problem: None }.check_bounds(&scope)
        };
        let prompt = |bytes: usize| {
            let (purpose, instructions, input) = ("summary".to_owned(), String::new(), "x".repeat(bytes));
            Need::Completion(CompletionNeed { id: 0, purpose, instructions, input, max_tokens: 1, extras: Vec::new() })
        };
        let texts = |count: usize| Need::Vectors(VectorsNeed { id: 0, texts: vec!["x".to_owned(); count] });
        assert!(check(vec![prompt(MAX_NEEDED / 2); 2]).is_ok());
        assert!(check(vec![prompt(MAX_NEEDED / 2), prompt(MAX_NEEDED / 2 + 1)]).is_err());
        assert!(check(vec![texts(MAX_TEXTS / 2); 2]).is_ok());
        assert!(check(vec![texts(MAX_TEXTS / 2), texts(MAX_TEXTS / 2 + 1)]).is_err());
        assert!(check(vec![texts(1); MAX_NEEDS + 1]).is_err());
    }

    #[test]
    fn a_reply_that_names_tasks_outside_its_scope_is_refused() {
        let due = || reply(String::new(), vec![a_task(String::new())]);
        assert!(due().check_bounds(&CallScope::for_session("a")).is_ok());
        let task_scope = |subject| {
            CallScope::Task(TaskScope {
                subject: TaskSubject::of(&task_buckets(subject)).unwrap(),
                is_user_withheld: false,
            })
        };
        for scope in [CallScope::for_session("b"), CallScope::Nothing, CallScope::SessionNames, task_scope("user/a")] {
            assert!(due().check_bounds(&scope).is_err(), "{scope:?}");
        }
        let progress = |task| Progress { step: "again".into(), task, needs: Vec::new(), problem: None };
        assert!(progress(a_task(String::new())).check_bounds(&task_scope("session/a")).is_ok());
        assert!(progress(a_task(String::new())).check_bounds(&task_scope("session/b")).is_err());
    }
}
