//! Passes an entry through the filter, and writes its reply as JSON. Metadata are passed on as they stand, not parsed.

use std::borrow::Cow;
use std::sync::OnceLock;

use keepline_json::{ObjectWriter, as_strict_value, decode_string, member};

use crate::bindings::{
    keepline::{
        common::shared::Problem,
        host::log::{self, Level},
        memory::lanes::{self, AnswerEntry, QuestionEntry, Task, TurnQuestion},
    },
    wasi::cli::environment,
};

/// The environment variable with the filter's options, a JSON object.
const OPTIONS: &str = "KEEPLINE_OPTIONS";

/// What a client gets, and what is to be done after that.
pub struct Reply {
    pub status: u16,
    pub body: String,
    pub due: Vec<Task>,
}

impl Reply {
    pub fn refused(status: u16, code: &str, message: &str) -> Self {
        let mut body = ObjectWriter::with_capacity(128);
        body.object("problem", |problem| {
            problem.text("code", Some(code));
            problem.text("message", Some(message));
        });
        Self { status, body: body.finish(), due: Vec::new() }
    }

    fn invalid(message: &str) -> Self {
        Self::refused(400, "invalid", message)
    }
}

/// Configures the filter, once an instance. Warnings go to the log.
fn configure() -> Result<(), Reply> {
    static CONFIGURED: OnceLock<Result<(), Problem>> = OnceLock::new();
    let configured = CONFIGURED.get_or_init(|| {
        let options = environment::get_environment().into_iter().find(|(name, _)| name == OPTIONS);
        let options = options.map_or_else(|| "{}".to_owned(), |(_, options)| options);
        let configured = lanes::configure(&options, Level::Info)?;
        for warning in configured.warnings {
            log::write(Level::Warn, "keepline.config", &warning.message);
        }
        Ok(())
    });
    configured.as_ref().map_err(|problem| Reply::refused(500, &problem.code, &problem.message)).copied()
}

/// A member that is a text; an empty one if it is not there.
fn text<'a>(entry: &'a str, name: &str) -> Result<Cow<'a, str>, Reply> {
    match member(entry, name) {
        None | Some("null") => Ok(Cow::Borrowed("")),
        Some(raw) => decode_string(raw).ok_or_else(|| Reply::invalid(&format!("{name} must be a string"))),
    }
}

fn metadata(entry: &str) -> Result<String, Reply> {
    match member(entry, "metadata") {
        None | Some("null") => Ok("{}".to_owned()),
        Some(raw) if raw.starts_with('{') => Ok(raw.to_owned()),
        Some(_) => Err(Reply::invalid("metadata must be an object")),
    }
}

fn check(entry: &str) -> Result<(), Reply> {
    let is_object = entry.trim_start().starts_with('{') && as_strict_value(entry.trim()).is_some();
    if is_object { configure() } else { Err(Reply::invalid("the body must be a JSON object")) }
}

/// What an answer gets of its question.
#[derive(Default)]
struct Asked {
    turn: String,
    text: String,
}

/// A question: `text`, `metadata`. The reply has its `metadata`, and the `turn` to pass with its answers.
pub fn question(entry: &str) -> Reply {
    pass_question(entry, &mut Asked::default()).unwrap_or_else(|refused| refused)
}

/// Entries, a line each, as for [`question`] and [`answer`], which `lane` tells apart; a line of reply for each. An answer without a
/// `turn` belongs to the question before it.
pub fn entries(body: &str) -> Reply {
    let mut all = Reply { status: 200, body: String::new(), due: Vec::new() };
    let mut asked = Asked::default();
    for entry in body.lines().filter(|line| !line.trim().is_empty()) {
        let passed = match member(entry, "lane").and_then(decode_string).as_deref() {
            Some("questions") => pass_question(entry, &mut asked),
            Some("answers") => pass_answer(entry, &asked),
            _ => Err(Reply::invalid("lane must be \"questions\" or \"answers\"")),
        };
        let mut reply = passed.unwrap_or_else(|refused| refused);
        all.body.push_str(&reply.body);
        all.body.push('\n');
        all.due.append(&mut reply.due);
    }
    all
}

fn pass_question(entry: &str, asked: &mut Asked) -> Result<Reply, Reply> {
    check(entry)?;
    let metadata = metadata(entry)?;
    let said = text(entry, "text")?.into_owned();
    let reply = lanes::question(&QuestionEntry {
        text: said.clone(),
        metadata: metadata.clone(),
        message_id: None,
        tokens: None,
        vector: None,
        extras: None,
    });
    let mut body = ObjectWriter::with_capacity(1024);
    body.json("metadata", Some(reply.metadata.as_deref().unwrap_or(&metadata)));
    body.text("turn", Some(&reply.turn));
    *asked = Asked { turn: reply.turn, text: said };
    Ok(finish(body, &reply.effect, reply.problem.as_ref(), reply.due))
}

/// An answer: `text`, `metadata`, the `turn` of its question, and its text as `question`.
pub fn answer(entry: &str) -> Reply {
    pass_answer(entry, &Asked::default()).unwrap_or_else(|refused| refused)
}

fn pass_answer(entry: &str, asked: &Asked) -> Result<Reply, Reply> {
    check(entry)?;
    let (turn, question) = match member(entry, "turn") {
        None => (asked.turn.clone(), asked.text.clone()),
        Some(_) => (text(entry, "turn")?.into_owned(), text(entry, "question")?.into_owned()),
    };
    let reply = lanes::answer(&AnswerEntry {
        text: text(entry, "text")?.into_owned(),
        metadata: metadata(entry)?,
        turn,
        message_id: None,
        question: TurnQuestion { text: question, tokens: None },
        tools: Vec::new(),
        status: None,
        tokens: None,
        details: None,
        extras: None,
    });
    Ok(finish(ObjectWriter::with_capacity(128), &reply.effect, reply.problem.as_ref(), reply.due))
}

fn finish(mut body: ObjectWriter, effect: &str, problem: Option<&Problem>, due: Vec<Task>) -> Reply {
    body.text("effect", Some(effect));
    if let Some(problem) = problem {
        body.object("problem", |told| {
            told.text("code", Some(&problem.code));
            told.text("subject", Some(&problem.subject));
            told.text("message", Some(&problem.message));
        });
    }
    Reply { status: 200, body: body.finish(), due }
}
