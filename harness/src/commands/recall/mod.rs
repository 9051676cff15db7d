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

use self::arguments::{LookArguments, RecallArguments, RecallCommand};
use crate::{
    app::{error::Usage, store_settings::lacks_index, with_keepline},
    args::{Access, Global, TranscriptArguments, WindowArguments},
    deferred::scope::{Scope, require_recall},
    operations::{
        recall::{MEMBER, has_nothing_to_seek, table},
        window::{preview_in_new_session, window},
    },
    terminal::{self, print_json},
};

pub fn main(global: &Global, arguments: RecallArguments) -> Result<ExitCode> {
    let json = arguments.json;
    match (arguments.command, arguments.look) {
        (Some(RecallCommand::Rebuild(rebuild)), _) => rebuild::main(global, &rebuild, json),
        (Some(RecallCommand::Evaluate(evaluate)), _) => evaluate::main(global, &evaluate, json),
        (None, asked) => look(global, asked, json),
    }
}

fn look(global: &Global, asked: LookArguments, json: bool) -> Result<ExitCode> {
    let LookArguments { session, query, node, app, asked } = asked;
    let (session, query) = match (session, query) {
        (Some(session), Some(query)) => (Some(session), query),
        (Some(query), None) if asked.user.is_some() => (None, query),
        _ => {
            let usage = "a session and a question are needed, or --user and a question: keepline recall SESSION QUERY";
            return Err(Usage(usage.into()).into());
        }
    };
    let is_new = session.is_none();
    if is_new && (asked.parent.is_some() || node.is_some()) {
        let usage = "--parent and --node name something of a session: keepline recall SESSION QUERY";
        return Err(Usage(usage.into()).into());
    }
    // A name that no session has.
    let session = session.unwrap_or_else(|| format!("look-{:032x}", fastrand::u128(..)));
    let transcript = TranscriptArguments { session, node, app };
    let asked = WindowArguments { transcript, query, asked };
    with_keepline(global, Access::Read, async |keepline, _, _| {
        let scope = require_recall(&keepline)?;
        let passed = match (is_new, scope) {
            (false, _) => Some(window(&keepline, &mut keepline.sessions(), &asked).await?),
            (true, Scope::User) => preview_in_new_session(&keepline, &asked).await?,
            (true, Scope::Session) => {
                return Err(Usage("without a session, recall=user is needed, but it is recall=session".into()).into());
            }
        };
        let metadata = passed.and_then(|passed| passed.metadata);
        let metadata: Value = serde_json::from_str(metadata.as_deref().unwrap_or("{}"))?;
        let recalled = metadata.get(MEMBER).unwrap_or(&Value::Null);
        if json {
            return print_json(recalled);
        }
        if recalled.is_null() {
            terminal::note("nothing is recalled for this question");
            let TranscriptArguments { session, node, .. } = &asked.transcript;
            let seeks = node.is_none() && !is_new && !has_nothing_to_seek(&asked.query, None);
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
