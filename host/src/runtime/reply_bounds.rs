//! Checks replies of a component against bounds. An instance whose reply is over one is dropped, and the reply with it.
//!
//! However much a component returns, the host copies no more than [`Sandbox::copy_bytes`](crate::Sandbox::copy_bytes)
//! in one call. These bounds are for what is kept, passed to the next call or shown. Metadata of an entry is checked
//! where the entry's own is known, in `entry::metadata`.

use super::{fault::Fault, scope::Scope};
use crate::contract::{
    filter::{AnswerReply, QuestionReply, Task},
    maintenance::{Need, PluginProgress},
    sessions::SessionReply,
};

/// There is one a pipe, and ours has some 150 bytes.
const MAX_TURN: usize = 4 << 10;
const MAX_TASKS: usize = 64;
const MAX_TASK_STATE: usize = 4 << 10;
/// Of a task under way.
const MAX_PROGRESS_STATE: usize = 1 << 20;
/// Of a session and a user, each with a name of 128 bytes.
const MAX_SUBJECT: usize = 280;
const MAX_TASK_NAME: usize = 64;
/// Of one step: how many, how many texts to be embedded in all of them, and bytes of these texts and of prompts.
const MAX_NEEDS: usize = 64;
const MAX_TEXTS: usize = 1024;
const MAX_NEEDED: usize = 8 << 20;

/// What can be looked at before it is believed.
pub(super) trait Bounded {
    /// # Errors
    /// When it is over a bound, or about what was out of the call's scope.
    fn check(&self, scope: &Scope) -> Result<(), Fault>;

    /// The tasks that it names for an entry.
    fn due(&self) -> &[Task] {
        &[]
    }
}

impl Bounded for QuestionReply {
    fn check(&self, scope: &Scope) -> Result<(), Fault> {
        printable("turn", &self.turn, MAX_TURN)?;
        tasks(&self.due, scope)
    }

    fn due(&self) -> &[Task] {
        &self.due
    }
}

impl Bounded for AnswerReply {
    fn check(&self, scope: &Scope) -> Result<(), Fault> {
        tasks(&self.due, scope)
    }

    fn due(&self) -> &[Task] {
        &self.due
    }
}

impl Bounded for PluginProgress {
    fn check(&self, scope: &Scope) -> Result<(), Fault> {
        task(&self.task, MAX_PROGRESS_STATE)?;
        in_scope(&self.task, scope)?;
        if self.needs.len() > MAX_NEEDS {
            return Err(Fault::of(format!("it needs more than {MAX_NEEDS} things at a time")));
        }
        let (mut texts, mut bytes) = (0_usize, 0_usize);
        for need in &self.needs {
            match need {
                Need::Completion(need) => bytes += need.instructions.len() + need.input.len(),
                Need::Vectors(need) => {
                    texts += need.texts.len();
                    bytes += need.texts.iter().map(String::len).sum::<usize>();
                }
            }
        }
        if texts > MAX_TEXTS {
            return Err(Fault::of(format!("it needs embeddings of more than {MAX_TEXTS} texts at a time")));
        }
        if bytes > MAX_NEEDED {
            return Err(Fault::of(format!("its prompts and texts come to more than {MAX_NEEDED} bytes at a time")));
        }
        Ok(())
    }
}

/// Nothing of it is kept.
impl<T> Bounded for SessionReply<T> {
    fn check(&self, _: &Scope) -> Result<(), Fault> {
        Ok(())
    }
}

/// Whether a component could have named this task. Checked before the task is run, so that an instance which hands it
/// back is not taken for a faulty one.
pub(crate) fn is_task(task: &Task) -> bool {
    self::task(task, MAX_PROGRESS_STATE).is_ok()
}

fn tasks(due: &[Task], scope: &Scope) -> Result<(), Fault> {
    if due.len() > MAX_TASKS {
        return Err(Fault::of(format!("it names more than {MAX_TASKS} tasks")));
    }
    due.iter().try_for_each(|one| {
        task(one, MAX_TASK_STATE)?;
        in_scope(one, scope)
    })
}

/// A task is done within its subject: to name another one would be a way to reach it.
fn in_scope(task: &Task, scope: &Scope) -> Result<(), Fault> {
    if scope.holds_subject(&task.subject) {
        return Ok(());
    }
    Err(Fault::of(format!("it names a task of '{}', which is not of the entry that it serves", task.subject)))
}

fn task(task: &Task, max_state: usize) -> Result<(), Fault> {
    printable("task's subject", &task.subject, MAX_SUBJECT)?;
    printable("task's name", &task.name, MAX_TASK_NAME)?;
    printable("task's state", &task.state, max_state)
}

fn printable(what: &str, text: &str, max: usize) -> Result<(), Fault> {
    if text.len() > max {
        return Err(Fault::of(format!("its {what} is over {max} bytes")));
    }
    // Without an early end: so a compiler looks at many bytes at a time.
    if text.bytes().fold(true, |so_far, byte| so_far & matches!(byte, b' '..=b'~')) {
        return Ok(());
    }
    Err(Fault::of(format!("its {what} is not printable ASCII")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        contract::{
            filter::Effect,
            maintenance::{CompletionNeed, Purpose, Step, VectorsNeed},
        },
        runtime::{Subject, TaskScope},
    };

    fn reply(turn: String, due: Vec<Task>) -> QuestionReply {
        QuestionReply { metadata: None, turn, effect: Effect::Resumed, attached: 0, due, problem: None }
    }

    fn a_task(state: String) -> Task {
        Task { subject: "session/a".into(), name: "fold".into(), state }
    }

    #[test]
    fn a_reply_is_believed_up_to_its_bounds() {
        let scope = Scope::session("a");
        let check = |turn: String, due| reply(turn, due).check(&scope);
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
    fn what_a_step_needs_is_bounded_in_number_and_bytes() {
        let scope = Scope::Task(TaskScope { subject: Subject::parse("session/a").unwrap(), is_user_withheld: false });
        let check = |needs| {
            let task = a_task(String::new());
            PluginProgress { step: Step::Needs, task, needs, problem: None }.check(&scope)
        };
        let prompt = |bytes: usize| {
            let (purpose, instructions, input) = (Purpose::Summary, String::new(), "x".repeat(bytes));
            Need::Completion(CompletionNeed { id: 0, purpose, instructions, input, max_tokens: 1 })
        };
        let texts = |count: usize| Need::Vectors(VectorsNeed { id: 0, texts: vec!["x".to_owned(); count] });
        assert!(check(vec![prompt(MAX_NEEDED / 2); 2]).is_ok());
        assert!(check(vec![prompt(MAX_NEEDED / 2), prompt(MAX_NEEDED / 2 + 1)]).is_err());
        assert!(check(vec![texts(MAX_TEXTS / 2); 2]).is_ok());
        assert!(check(vec![texts(MAX_TEXTS / 2), texts(MAX_TEXTS / 2 + 1)]).is_err());
        assert!(check(vec![texts(1); MAX_NEEDS + 1]).is_err());
    }

    #[test]
    fn a_reply_names_no_tasks_of_others() {
        let due = || reply(String::new(), vec![a_task(String::new())]);
        assert!(due().check(&Scope::session("a")).is_ok());
        let task_scope =
            |subject| Scope::Task(TaskScope { subject: Subject::parse(subject).unwrap(), is_user_withheld: false });
        for scope in [Scope::session("b"), Scope::Nothing, Scope::SessionNames, task_scope("user/a")] {
            assert!(due().check(&scope).is_err(), "{scope:?}");
        }
        let progress = |task| PluginProgress { step: Step::Again, task, needs: Vec::new(), problem: None };
        assert!(progress(a_task(String::new())).check(&task_scope("session/a")).is_ok());
        assert!(progress(a_task(String::new())).check(&task_scope("session/b")).is_err());
    }
}
