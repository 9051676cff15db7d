//! `keepline remember`: stores an exchange as a memory of a user.
//!
//! Deferred work is done before the command ends, so that the next command finds what was remembered.

use std::{collections::BTreeMap, path::Path, process::ExitCode};

use anyhow::Result;
use clap::Args;
use keepline::{
    maintenance::Outcome,
    memories::{MemorySkip, Remember, RememberOutcome},
};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use crate::{
    app::{
        error::{CodedError, UsageError, coded_error, usage_error},
        with_keepline,
    },
    args::{GlobalArguments, StoreAccess, help::JSON_HELP},
    jsonl::chat_messages,
    maintenance,
    terminal::{self, print_json},
};

#[derive(Debug, Args)]
pub struct RememberArguments {
    #[arg(long, help = JSON_HELP)]
    pub json: bool,
    /// The user's id; without one, nothing is stored
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    pub user: String,
    /// The conversation's session; if omitted with recall=user, a session that belongs to the user alone
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// The message id of the answer, instead of one derived from the exchange
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// The memory's `source` in its metadata [default: chat]
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Additional metadata to store: a JSON object
    #[arg(long, value_name = "JSON")]
    pub metadata: Option<String>,
}

// Paragraphs are one line each: clap breaks them where the terminal ends.
pub const REMEMBER_HELP: &str = r#"Standard input holds the messages of a conversation, oldest first, as a JSON array, as JSON lines, as an object with "messages", or as `session messages --json` prints them; tools may be in OpenAI's or Anthropic's form:
  [{"role":"user","content":"My dog is called Bruno."},{"role":"assistant","content":"A fine name."}]

The newest message of a user with its answer is stored, whatever tools did between them. Sent again, it is stored once. It prints what was done: "stored" or "repeated" and the session, or "skipped" and the reason: no-user, too-few-messages, no-pair, empty, no-session, invalid-session, foreign, ended, and the filter's own, such as too-short. What is due after an answer (its title, recall's index) is done as well.

Needs conversation=true, as the profile chat has it.

Exit codes: 0 stored, repeated or skipped, 1 the store failed (with --json, the error's code is "not-stored"), 2 the command line, the messages or the configuration are wrong, 3 the plugin could not be loaded."#;

pub fn main(global: &GlobalArguments, arguments: &RememberArguments) -> Result<ExitCode> {
    let metadata = build_memory_metadata(arguments)?;
    // Read before signal handlers are installed: a signal ends a process that waits for standard input.
    let messages = read_stdin_messages()?;
    with_keepline(global, StoreAccess::Add, async |keepline, config, runtime| {
        let RememberArguments { user, session, id, .. } = arguments;
        let (session, message_id) = (session.as_deref(), id.as_deref());
        let told = Remember { user, session, messages: &messages, message_id, metadata: &metadata };
        let remembered = keepline.remember(told, None).await;
        let maintenance = maintenance::open_maintenance(&keepline, config, runtime.handle())?;
        for task in remembered.due {
            let name = task.name.clone();
            if let Outcome::Failed(problem) = maintenance.run(task).await {
                terminal::print_warning(&format!("{name}: {problem}; it is due again after the next answer"));
            }
        }
        match remembered.outcome {
            RememberOutcome::Stored { session, message_id, problem } => {
                if let Some(problem) = problem {
                    terminal::print_warning(&problem.message);
                }
                print_memory_outcome(arguments.json, "stored", &session, &message_id)
            }
            RememberOutcome::Repeated { session, message_id } => {
                print_memory_outcome(arguments.json, "repeated", &session, &message_id)
            }
            RememberOutcome::Skipped(skip @ MemorySkip::NoConversations) => Err(usage_error(skip.to_string())),
            RememberOutcome::Skipped(skip) => {
                let (code, reason) = (skip.code(), skip.to_string());
                if arguments.json {
                    return print_json(&json!({"outcome": "skipped", "code": code, "reason": reason}));
                }
                terminal::print_table(["Outcome", "Code", "Reason"], vec![["skipped".to_owned(), code, reason]])
            }
            RememberOutcome::Failed(problem) => Err(coded_error("not-stored", problem.message)),
            other => Err(anyhow::anyhow!("unexpected outcome: {other:?}")),
        }
    })
}

fn print_memory_outcome(json: bool, outcome: &str, session: &str, message_id: &str) -> Result<()> {
    if json {
        return print_json(&json!({"outcome": outcome, "session": session, "message_id": message_id}));
    }
    let row = [outcome, session, message_id].map(str::to_owned);
    terminal::print_table(["Outcome", "Session", "Message"], vec![row])
}

/// The given metadata, as written, with the source.
fn build_memory_metadata(arguments: &RememberArguments) -> Result<String> {
    let given = arguments.metadata.as_deref().unwrap_or("{}");
    let mut metadata: BTreeMap<String, Box<RawValue>> = serde_json::from_str(given)
        .map_err(|error| UsageError(format!("--metadata must be a JSON object: {error}")))?;
    if let Some(source) = &arguments.source {
        metadata.insert("source".to_owned(), to_raw_value(source)?);
    }
    Ok(serde_json::to_string(&metadata)?)
}

fn read_stdin_messages() -> Result<Vec<Value>> {
    let wrong = |error: anyhow::Error| match error.downcast::<CodedError>() {
        Ok(CodedError { message, .. }) => {
            let forms = "JSON lines, a JSON array, or an object with \"messages\"";
            usage_error(format!("standard input must hold messages as {forms}: {message}"))
        }
        Err(other) => other,
    };
    let messages = chat_messages::read_chat_messages(Path::new("-")).map_err(wrong)?;
    messages.iter().map(|message| Ok(message.parse_value()?)).collect()
}
