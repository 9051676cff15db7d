//! `keepline recall`: shows what a question would recall from outside its window, and maintains the index.
//!
//! Showing it writes nothing. Searching and ranking are the component's.

mod dataset;
mod evaluate;
mod rebuild;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use keepline_service::preview::has_nothing_to_search;
use serde_json::Value;

use self::{evaluate::EvaluateArguments, rebuild::RebuildArguments};
use crate::{
    app::{error::usage_error, store_settings::lacks_index, with_keepline},
    args::{AskedArguments, GlobalArguments, StoreAccess, TranscriptArguments, WindowArguments, help::JSON_HELP},
    deferred::scope::{RecallMode, require_recall},
    operations::{
        recall::{RECALL_MEMBER, print_passages},
        window::{preview_in_new_session, preview_question},
    },
    terminal::{self, print_json},
};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct RecallArguments {
    #[arg(long, global = true, help = JSON_HELP)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Option<RecallCommand>,
    #[command(flatten)]
    pub look: RecallQueryArguments,
}

/// What would be recalled for a question.
#[derive(Debug, Args)]
pub struct RecallQueryArguments {
    /// The session's id; with --user, omit it to ask as a new session of that user
    pub session: Option<String>,
    /// The question's text
    #[arg(allow_hyphen_values = true)]
    pub query: Option<String>,
    /// The transcript of this node instead of the session's own: its node_id
    #[arg(long, value_name = "ID")]
    pub node: Option<String>,
    /// The node's app_id, if it has one
    #[arg(long, value_name = "ID", requires = "node")]
    pub app: Option<String>,
    #[command(flatten)]
    pub asked: AskedArguments,
}

/// What can be done to what is recalled.
#[derive(Debug, Subcommand)]
pub enum RecallCommand {
    /// Rebuild the index of sessions and their nodes from the transcripts
    Rebuild(RebuildArguments),
    /// Measure how much of the evidence for a set of questions is recalled
    Evaluate(EvaluateArguments),
}

pub fn main(global: &GlobalArguments, arguments: RecallArguments) -> Result<ExitCode> {
    let json = arguments.json;
    match (arguments.command, arguments.look) {
        (Some(RecallCommand::Rebuild(rebuild)), _) => rebuild::main(global, &rebuild, json),
        (Some(RecallCommand::Evaluate(evaluate)), _) => evaluate::main(global, &evaluate, json),
        (None, asked) => show_recall(global, asked, json),
    }
}

fn show_recall(global: &GlobalArguments, asked: RecallQueryArguments, json: bool) -> Result<ExitCode> {
    let RecallQueryArguments { session, query, node, app, asked } = asked;
    let (session, query) = match (session, query) {
        (Some(session), Some(query)) => (Some(session), query),
        (Some(query), None) if asked.user.is_some() => (None, query),
        _ => {
            let usage = "a session and a question are needed, or --user and a question: keepline recall SESSION QUERY";
            return Err(usage_error(usage));
        }
    };
    let is_new = session.is_none();
    if is_new && (asked.parent.is_some() || node.is_some()) {
        return Err(usage_error("--parent and --node name something of a session: keepline recall SESSION QUERY"));
    }
    // A name that no session has.
    let session = session.unwrap_or_else(|| format!("look-{:032x}", fastrand::u128(..)));
    let transcript = TranscriptArguments { session, node, app };
    let asked = WindowArguments { transcript, query, asked };
    with_keepline(global, StoreAccess::Read, async |keepline, _, _| {
        let scope = require_recall(&keepline)?;
        let passed = match (is_new, scope) {
            (false, _) => Some(preview_question(&keepline, &mut keepline.sessions(), &asked).await?),
            (true, RecallMode::User) => preview_in_new_session(&keepline, &asked).await?,
            (true, RecallMode::Session) => {
                return Err(usage_error("without a session, recall=user is needed, but it is recall=session"));
            }
        };
        let metadata = passed.and_then(|passed| passed.metadata);
        let metadata: Value = serde_json::from_str(metadata.as_deref().unwrap_or("{}"))?;
        let recalled = metadata.get(RECALL_MEMBER).unwrap_or(&Value::Null);
        if json {
            return print_json(recalled);
        }
        if recalled.is_null() {
            terminal::print_note("nothing is recalled for this question");
            let TranscriptArguments { session, node, .. } = &asked.transcript;
            let seeks = node.is_none() && !is_new && !has_nothing_to_search(&asked.query, None);
            if seeks && lacks_index(keepline.store(), session).await.unwrap_or_default() {
                terminal::print_note(&format!(
                    "session '{session}' has no index yet, as if it was kept without recall: run `keepline recall \
                     rebuild {session}` once"
                ));
            }
        }
        print_passages(recalled)
    })
}
