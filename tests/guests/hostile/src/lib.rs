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
use bindings::exports::keepline::memory::lanes::{
    AnswerEntry, AnswerReply, Configured, Guest, OptionValue, QuestionEntry, QuestionReply, Task, TaskBucket,
};
use bindings::exports::keepline::memory::tasks::{self, Job, Progress};
use bindings::keepline::common::shared::Problem;
use bindings::keepline::host::log::{Level, write as log};
use bindings::keepline::host::needs::{CallNeed, CompletionNeed, Need, VectorsNeed};
use bindings::wasi::clocks::wall_clock;
use deeds::{do_it, greed};

/// How many entries this instance has served: what a well-behaved filter would not keep.
static SERVED: AtomicU64 = AtomicU64::new(0);
/// The text of the last entry: what it would like to tell others.
static OVERHEARD: Mutex<String> = Mutex::new(String::new());

impl Guest for Component {
    fn configure(options: String, _: Level) -> Result<Configured, Problem> {
        if let Some(misdeed) = options.strip_prefix("misdeed: ") {
            do_it(misdeed);
        }
        if options == "refuse" {
            return Err(Problem { subject: "field".into(), ..problem("no") });
        }
        if let Some(length) = options.strip_prefix("refuse at length ") {
            return Err(Problem { subject: absurd(length), ..problem(&absurd(length)) });
        }
        // It took them once.
        if let Some(second) = options.strip_prefix("refuse from second ") {
            if wall_clock::now().seconds >= size(second) as u64 {
                return Err(problem(&absurd("1000000")));
            }
        }
        let wants = if options == "turns" { vec![options.clone()] } else { Vec::new() };
        // Of a flat object; whatever stands in it is told as it is.
        let members = options.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
        let options = members.split(',').filter_map(|member| {
            let (name, value) = member.split_once(':')?;
            let name = name.trim().trim_matches('"').to_owned();
            Some(OptionValue { name, value: value.trim().to_owned(), is_default: false })
        });
        Ok(Configured { options: options.collect(), wants, warnings: Vec::new() })
    }

    fn question(entry: QuestionEntry) -> QuestionReply {
        SERVED.fetch_add(1, Ordering::Relaxed);
        let mut reply = QuestionReply {
            metadata: None,
            turn: String::new(),
            effect: "passed".into(),
            attached: 0,
            due: Vec::new(),
            problem: None,
            extras: None,
        };
        match entry.text.split_once(' ') {
            Some(("turn", turn)) => reply.turn = turn.to_owned(),
            Some(("turn-of", length)) => reply.turn = "x".repeat(size(length)),
            Some(("problem", length)) => {
                reply.effect = "failed".into();
                reply.problem = Some(Problem { code: absurd(length), ..problem(&absurd(length)) });
            }
            Some(("due", what)) => reply.due = tasks_of(what),
            Some(("effect", name)) => reply.effect = name.to_owned(),
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
        let mut reply = AnswerReply { effect: "passed".into(), due: Vec::new(), problem: None, extras: None };
        match entry.text.split_once(' ') {
            Some(("due", what)) => reply.due = tasks_of(what),
            Some(("effect", name)) => reply.effect = name.to_owned(),
            deed => {
                let message = match deed {
                    Some(("tell", _)) => format!("{entry:?}"),
                    _ => do_it(&entry.text).unwrap_or(entry.turn),
                };
                reply.problem = Some(Problem { code: "told".into(), ..problem(&message) });
            }
        }
        reply
    }
}

/// The name of a task tells what becomes of it; its state is the argument.
impl tasks::Guest for Component {
    fn advance(job: Job) -> Progress {
        let number = size(&job.task.state);
        let mut progress = Progress { step: "done".into(), task: job.task, needs: Vec::new(), problem: None };
        let need = |input: String| {
            let (instructions, purpose) = (String::new(), "summary".into());
            Need::Completion(CompletionNeed { id: 0, purpose, instructions, input, max_tokens: 0, extras: Vec::new() })
        };
        match &*progress.task.name {
            "state-of" => (progress.step, progress.task.state) = ("again".into(), "x".repeat(number)),
            "needs" => (progress.step, progress.needs) = ("needs".into(), vec![need(String::new()); number]),
            "need-of" => (progress.step, progress.needs) = ("needs".into(), vec![need("x".repeat(number))]),
            "texts" => {
                let texts = vec!["x".to_owned(); number];
                (progress.step, progress.needs) = ("needs".into(), vec![Need::Vectors(VectorsNeed { id: 0, texts })]);
            }
            // What no host knows, and then what came of it.
            "call" if job.results.is_empty() => {
                let call = CallNeed { id: 7, name: "x-translation".into(), input: "{}".into() };
                (progress.step, progress.needs) = ("needs".into(), vec![Need::Call(call)]);
            }
            "call" => log(Level::Info, "task", &format!("{:?}", job.results)),
            "step" => progress.step = std::mem::take(&mut progress.task.state),
            "problem" => {
                let text = absurd(&progress.task.state);
                (progress.step, progress.problem) =
                    ("failed".into(), Some(Problem { code: text.clone(), ..problem(&text) }));
            }
            // What it was lent beside the first bucket.
            "recall" | "recall-reset" => {
                for TaskBucket { kind, name } in progress.task.buckets.iter().skip(1) {
                    log(Level::Info, "task", &greed(kind, name));
                }
            }
            misdeed => drop(do_it(misdeed)),
        }
        progress
    }
}

/// `NUMBER`, or buckets (`KIND/NAME`, with blanks between them), a name and a state: parts between `|`.
fn tasks_of(what: &str) -> Vec<Task> {
    let bucket = |text: &str| {
        let (kind, name) = text.split_once('/').unwrap_or((text, ""));
        TaskBucket { kind: kind.to_owned(), name: name.to_owned() }
    };
    let task = |buckets: &str, name: &str, state: &str| Task {
        buckets: buckets.split(' ').map(bucket).collect(),
        name: name.to_owned(),
        state: state.to_owned(),
    };
    match what.split('|').collect::<Vec<_>>()[..] {
        [buckets, name, state] => vec![task(buckets, name, state)],
        ["state-of", length] => vec![task("session/s1", "fold", &"x".repeat(size(length)))],
        _ => vec![task("session/s1", "fold", ""); size(what)],
    }
}

fn problem(message: &str) -> Problem {
    Problem { code: String::new(), subject: String::new(), limit: 0, message: message.to_owned() }
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
