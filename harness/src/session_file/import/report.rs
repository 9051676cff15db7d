//! Counts and reports the outcome of an import.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::terminal::{self, format_count};

/// Left-out parts of a session that are shown to people.
const MAX_SHOWN_SKIPPED: usize = 10;

#[derive(Default)]
pub struct ImportReport {
    pub imported: u64,
    pub messages: u64,
    pub already_there: u64,
    /// Of a dry run: session, messages, nodes, outcome.
    pub rows: Vec<(String, u64, usize, &'static str)>,
    /// Parts of sessions that have no place here.
    pub skipped: Vec<(String, String)>,
    /// Sessions that were left out, with the reason.
    pub left: Vec<(String, String)>,
}

impl ImportReport {
    pub fn print_report(&self, is_dry_run: bool, as_json: bool) -> Result<ExitCode> {
        for (session, why) in &self.left {
            let message = if session.is_empty() { why.clone() } else { format!("session {session}: {why}") };
            terminal::print_error_with_code("not-imported", &message);
        }
        if !as_json {
            self.print_skipped();
        }
        let Self { imported, messages, already_there, rows, skipped, left } = self;
        if as_json {
            let row = |(session, messages, nodes, outcome): &(String, u64, usize, &str)| json!({"session": session, "messages": messages, "nodes": nodes, "outcome": outcome});
            let told = |list: &[(String, String)], what: &str| {
                list.iter().map(|(session, why)| json!({"session": session, what: why})).collect::<Vec<_>>()
            };
            let mut all = json!({
                "imported": imported, "messages": messages, "already_there": already_there,
                "skipped": told(skipped, "what"), "left": told(left, "why"), "dry_run": is_dry_run,
            });
            if let Some(all) = all.as_object_mut().filter(|_| is_dry_run) {
                all.insert("sessions".to_owned(), rows.iter().map(row).collect());
            }
            terminal::print_json(&all)?;
        } else {
            if is_dry_run {
                let row = |(session, messages, nodes, outcome): &(String, u64, usize, &str)| {
                    [session.clone(), messages.to_string(), nodes.to_string(), (*outcome).to_owned()]
                };
                let rows = rows.iter().map(row).collect();
                terminal::print_table(["Session", "Messages", "Nodes", "Outcome"], rows)?;
            }
            let what = if is_dry_run { "would be imported" } else { "imported" };
            let sessions = format_count(*imported, "session", "sessions");
            let messages = format_count(*messages, "message", "messages");
            let mut line = format!("{sessions} {what} ({messages})");
            for (count, what) in [(*already_there, "already there"), (left.len() as u64, "left out; see above")] {
                if count > 0 {
                    line.push_str(&format!(", {count} {what}"));
                }
            }
            terminal::print_line(&line)?;
        }
        Ok(if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Notes the first ones of each session.
    fn print_skipped(&self) {
        for told in self.skipped.chunk_by(|(one, _), (other, _)| one == other) {
            for (session, what) in told.iter().take(MAX_SHOWN_SKIPPED) {
                terminal::print_note(&format!("session {session}: left out: {what}"));
            }
            if let (Some((session, _)), more @ 1..) = (told.first(), told.len().saturating_sub(MAX_SHOWN_SKIPPED)) {
                terminal::print_note(&format!("session {session}: {more} more left out; --json names all"));
            }
        }
    }
}
