//! A plugin that misbehaves. What it does is told by the first word of a question's text; the rest of the
//! text is the argument. Anything else passes, as through a filter that has nothing to add. What it tells of a deed is
//! the member `told` of a question's metadata, and the problem `told` of an answer.

#[allow(unsafe_code, missing_docs, clippy::all, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ path: "../../../wit", world: "memory-filter", generate_all });
    export!(Component with_types_in self);
    pub struct Component;
}

mod deeds;
mod operators;

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use bindings::Component;
use bindings::exports::keepline::memory::filter::{
    AnswerEntry, AnswerReply, ConfigProblem, Configured, Effect, Guest, Problem, QuestionEntry, QuestionReply, Task,
};
use bindings::exports::keepline::memory::maintenance::{
    self, CompletionNeed, Job, Need, Progress, Purpose, Step, VectorsNeed,
};
use bindings::wasi::clocks::wall_clock;
use bindings::wasi::logging::logging::{Level, log};
use deeds::{do_it, greed};

/// How many entries this instance has served: what a well-behaved filter would not keep.
static SERVED: AtomicU64 = AtomicU64::new(0);
/// The text of the last entry: what it would like to tell others.
static OVERHEARD: Mutex<String> = Mutex::new(String::new());

impl Guest for Component {
    fn configure(options: String, _: Level) -> Result<Configured, ConfigProblem> {
        if let Some(misdeed) = options.strip_prefix("misdeed: ") {
            do_it(misdeed);
        }
        if options == "refuse" {
            return Err(ConfigProblem { field: "field".into(), message: "no".into() });
        }
        if let Some(length) = options.strip_prefix("refuse at length ") {
            return Err(ConfigProblem { field: absurd(length), message: absurd(length) });
        }
        // It took them once.
        if let Some(second) = options.strip_prefix("refuse from second ") {
            if wall_clock::now().seconds >= size(second) as u64 {
                return Err(ConfigProblem { field: String::new(), message: absurd("1000000") });
            }
        }
        let wants_turns = options == "turns";
        Ok(Configured { effective: options, wants_vectors: false, wants_tokens: false, wants_turns })
    }

    fn question(entry: QuestionEntry) -> QuestionReply {
        SERVED.fetch_add(1, Ordering::Relaxed);
        let mut reply = QuestionReply {
            metadata: None,
            turn: String::new(),
            effect: Effect::Passed,
            attached: 0,
            due: Vec::new(),
            problem: None,
        };
        match entry.text.split_once(' ') {
            Some(("turn", turn)) => reply.turn = turn.to_owned(),
            Some(("turn-of", length)) => reply.turn = "x".repeat(size(length)),
            Some(("problem", length)) => {
                reply.effect = Effect::Failed;
                reply.problem = Some(Problem { code: absurd(length), message: absurd(length) });
            }
            Some(("due", what)) => reply.due = tasks(what),
            // Anything at all in place of the metadata.
            Some(("return", metadata)) => reply.metadata = Some(metadata.to_owned()),
            _ => reply.metadata = do_it(&entry.text).map(|told| with_told(&entry.metadata, &told)),
        }
        *OVERHEARD.lock().unwrap() = entry.text;
        reply
    }

    /// Tells which turn it was given, and on demand what else.
    fn answer(entry: AnswerEntry) -> AnswerReply {
        SERVED.fetch_add(1, Ordering::Relaxed);
        let mut reply = AnswerReply { metadata: None, effect: Effect::Passed, due: Vec::new(), problem: None };
        match entry.text.split_once(' ') {
            Some(("due", what)) => reply.due = tasks(what),
            Some(("return", metadata)) => reply.metadata = Some(metadata.to_owned()),
            deed => {
                let message = match deed {
                    Some(("tell", _)) => format!("{entry:?}"),
                    _ => do_it(&entry.text).unwrap_or(entry.turn),
                };
                reply.problem = Some(Problem { code: "told".into(), message });
            }
        }
        reply
    }
}

/// The name of a task tells what becomes of it; its state is the argument.
impl maintenance::Guest for Component {
    fn advance(job: Job) -> Progress {
        let number = size(&job.task.state);
        let mut progress = Progress { step: Step::Done, task: job.task, needs: Vec::new(), problem: None };
        let need = |input: String| {
            let (instructions, purpose) = (String::new(), Purpose::Summary);
            Need::Completion(CompletionNeed { id: 0, purpose, instructions, input, max_tokens: 0 })
        };
        match &*progress.task.name {
            "state-of" => (progress.step, progress.task.state) = (Step::Again, "x".repeat(number)),
            "needs" => (progress.step, progress.needs) = (Step::Needs, vec![need(String::new()); number]),
            "need-of" => (progress.step, progress.needs) = (Step::Needs, vec![need("x".repeat(number))]),
            "texts" => {
                let texts = vec!["x".to_owned(); number];
                (progress.step, progress.needs) = (Step::Needs, vec![Need::Vectors(VectorsNeed { id: 0, texts })]);
            }
            "problem" => {
                let text = absurd(&progress.task.state);
                (progress.step, progress.problem) = (Step::Failed, Some(Problem { code: text.clone(), message: text }));
            }
            // What it was lent beside the first bucket.
            "recall" | "recall-reset" => {
                for part in progress.task.subject.split(' ').skip(1) {
                    let (kind, name) = part.split_once('/').unwrap_or_default();
                    log(Level::Info, "task", &greed(kind, name));
                }
            }
            misdeed => drop(do_it(misdeed)),
        }
        progress
    }
}

/// `NUMBER`, or a subject, a name and a state as JSON strings are not: parts between `|`.
fn tasks(what: &str) -> Vec<Task> {
    let task = |subject: &str, name: &str, state: &str| Task {
        subject: subject.to_owned(),
        name: name.to_owned(),
        state: state.to_owned(),
    };
    match what.split('|').collect::<Vec<_>>()[..] {
        [subject, name, state] => vec![task(subject, name, state)],
        ["state-of", length] => vec![task("session/s1", "fold", &"x".repeat(size(length)))],
        _ => vec![task("session/s1", "fold", ""); size(what)],
    }
}

fn size(number: &str) -> usize {
    number.parse().unwrap_or(0)
}

/// Metadata with one more member.
fn with_told(metadata: &str, told: &str) -> String {
    let before = metadata.trim_end().strip_suffix('}').unwrap_or("{");
    let comma = if before.trim_end().ends_with('{') { "" } else { "," };
    let mut out = format!("{before}{comma}\"told\":\"");
    out.reserve(told.len() + 2);
    for c in told.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push_str("\"}");
    out
}

/// Long, and nothing that a terminal should see.
fn absurd(length: &str) -> String {
    "\u{1b}[2J\n".repeat(size(length) / 5)
}
