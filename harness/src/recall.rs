//! `keepline recall`: what a question would get back of what its window has lost, and what is done about the index.
//!
//! Promises that to look writes nothing; nothing is found or ranked here.

pub mod drive;
mod evaluate;
mod haystack;
mod rebuild;

pub use drive::{EMBED, MAKE};

use std::process::ExitCode;

use anyhow::Result;
use keepline::{Keepline, maintenance::subject_with_user, pipe::Vector};
use keepline_recall::{Embedding, terms};
use serde_json::{Value, json};

use crate::{
    cli::{Access, Global, LookArguments, RecallArguments, RecallCommand, TranscriptArguments, WindowArguments},
    conversation::{ask_anew, text_of, window},
    error::{Coded, Usage},
    session::{answer, watched},
    store_settings::lacks_index,
    terminal,
};

/// The metadata that it comes in.
pub const MEMBER: &str = "memory_recall";

/// Run it.
pub fn main(global: &Global, arguments: RecallArguments) -> Result<ExitCode> {
    let json = arguments.json;
    match (arguments.command, arguments.look) {
        (Some(RecallCommand::Rebuild(rebuild)), _) => rebuild::main(global, &rebuild, json),
        (Some(RecallCommand::Evaluate(evaluate)), _) => evaluate::main(global, &evaluate, json),
        (None, Some(asked)) => look(global, asked, json),
        (None, None) => Err(Usage("a session and a question are needed: keepline recall SESSION QUERY".into()).into()),
    }
}

fn look(global: &Global, asked: LookArguments, json: bool) -> Result<ExitCode> {
    let LookArguments { session, query, node, app, budget, parent, user } = asked;
    let (session, query) = match (session, query) {
        (Some(session), Some(query)) => (Some(session), query),
        (Some(query), None) if user.is_some() => (None, query),
        _ => {
            let usage = "a session and a question are needed, or --user and a question: keepline recall SESSION QUERY";
            return Err(Usage(usage.into()).into());
        }
    };
    let is_new = session.is_none();
    if is_new && (parent.is_some() || node.is_some()) {
        let usage = "--parent and --node name something of a session: keepline recall SESSION QUERY";
        return Err(Usage(usage.into()).into());
    }
    // Nobody has that one.
    let session = session.unwrap_or_else(|| format!("look-{:032x}", fastrand::u128(..)));
    let transcript = TranscriptArguments { session, node, app };
    let asked = WindowArguments { transcript, query, budget, parent, user };
    watched(global, Access::Read, async |keepline, _, _| {
        let scope = is_on(&keepline)?;
        let passed = match (is_new, scope) {
            (false, _) => Some(window(&keepline, &mut keepline.sessions(), &asked).await?),
            (true, Scope::User) => ask_anew(&keepline, &asked).await?,
            (true, Scope::Session) => {
                return Err(Usage("without a session, recall=user is needed, but it is recall=session".into()).into());
            }
        };
        let metadata = passed.and_then(|passed| passed.metadata);
        let metadata: Value = serde_json::from_str(metadata.as_deref().unwrap_or("{}"))?;
        let recalled = metadata.get(MEMBER).unwrap_or(&Value::Null);
        if json {
            return answer(true, recalled, "");
        }
        if recalled.is_null() {
            terminal::note("nothing is recalled for this question");
            let TranscriptArguments { session, node, .. } = &asked.transcript;
            let seeks = node.is_none() && !is_new && !seeks_nothing(&asked.query, None);
            if seeks && lacks_index(keepline.store(), session).await.unwrap_or_default() {
                terminal::note(&format!(
                    "session '{session}' has no index yet, as if it was kept without recall: run `keepline recall \
                     rebuild {session}` once"
                ));
            }
        }
        table(recalled)
    })
}

/// Whether a question gives recall nothing to look for: no word, and no embedding. In a session that is not there, the
/// filter looks for what is recalled or else fails: such a question is not to be asked there.
pub fn seeks_nothing(question: &str, vector: Option<&Vector>) -> bool {
    let embedding = vector.and_then(|vector| Embedding::new(&vector.model, &vector.data));
    terms(question).is_empty() && embedding.is_none()
}

/// Passages, in order of time.
pub fn table(recalled: &Value) -> Result<()> {
    let passages = recalled.get("passages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let rows = passages.iter().map(row).collect();
    Ok(terminal::print_table(["Session", "Position", "Date", "Role", "Score", "Why", "Text"], rows)?)
}

fn row(passage: &Value) -> [String; 7] {
    let number = |name: &str| passage.get(name).map(Value::to_string).unwrap_or_default();
    let (role, source) = (text_of(passage, "role"), text_of(passage, "source"));
    let role = if source.is_empty() || source == role { role } else { format!("{role} ({source})") };
    let why = passage.get("why").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let why: Vec<&str> = why.iter().filter_map(Value::as_str).collect();
    let session = text_of(passage, "session");
    [session, number("position"), date(passage), role, number("score"), why.join(", "), text_of(passage, "text")]
}

/// `2023-05-08 13:56`, in UTC.
fn date(passage: &Value) -> String {
    #[allow(clippy::cast_possible_truncation, reason = "seconds since 1970; what is none has no date")]
    let seconds = passage.get("at").and_then(Value::as_f64).map(|at| at as i64);
    let time = seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.map(|time| time.strftime("%Y-%m-%d %H:%M").to_string()).unwrap_or_default()
}

/// What is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The transcript that asks.
    Session,
    /// All sessions of its owner.
    User,
}

impl Scope {
    /// As the options in force say. None: nothing is.
    pub fn of(keepline: &Keepline) -> Result<Option<Self>> {
        let options: Value = serde_json::from_str(&keepline.filter_options())?;
        let recall =
            options.get("recall").and_then(Value::as_str).filter(|_| options.get("conversation") == Some(&json!(true)));
        Ok(match recall {
            Some("session") => Some(Self::Session),
            Some("user") => Some(Self::User),
            _ => None,
        })
    }

    /// What deferred work about a session is about. The owner is what the plugin says: the library lends their bucket only
    /// if it lists the session.
    ///
    /// # Errors
    /// When that can't be a user's bucket.
    pub fn subject(self, session: &str, owner: Option<&str>) -> Result<String> {
        match (self, owner) {
            (Self::User, Some(owner)) => subject_with_user(session, owner).ok_or_else(|| {
                let owner = terminal::quoted(owner);
                let message =
                    format!("the plugin says that session '{session}' belongs to {owner}, which is no user's name");
                Coded { code: "plugin", message }.into()
            }),
            _ => Ok(format!("session/{session}")),
        }
    }
}

/// # Errors
/// When nothing would ever be recalled.
fn is_on(keepline: &Keepline) -> Result<Scope> {
    let off = || {
        let set = "set conversation=true (as --profile chat does) and recall=session or recall=user, for example";
        Usage(format!("recall is off: {set} --set recall=user")).into()
    };
    Scope::of(keepline)?.ok_or_else(off)
}
