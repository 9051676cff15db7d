//! `keepline recall`: shows what a question would recall from outside its window, and maintains the index.
//!
//! Showing it writes nothing. Searching and ranking are the component's.

pub mod arguments;
mod dataset;
mod evaluate;
mod rebuild;

use std::process::ExitCode;

use anyhow::Result;
use serde_json::Value;

use self::arguments::{RecallArguments, RecallCommand, RecallQueryArguments};
use crate::{
    app::{error::UsageError, store_settings::lacks_index, with_keepline},
    args::{GlobalArguments, StoreAccess, TranscriptArguments, WindowArguments},
    deferred::scope::{RecallMode, require_recall},
    operations::{
        recall::{RECALL_MEMBER, has_nothing_to_search, print_passages},
        window::{preview_in_new_session, preview_question},
    },
    terminal::{self, print_json},
};

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
            return Err(UsageError(usage.into()).into());
        }
    };
    let is_new = session.is_none();
    if is_new && (asked.parent.is_some() || node.is_some()) {
        let usage = "--parent and --node name something of a session: keepline recall SESSION QUERY";
        return Err(UsageError(usage.into()).into());
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
                return Err(
                    UsageError("without a session, recall=user is needed, but it is recall=session".into()).into()
                );
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
