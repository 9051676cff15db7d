//! Prints the outcome of an import.

use std::process::ExitCode;

use anyhow::Result;
use keepline_session_file::{DeliveryOutcome, ImportReport, LeftOut, Reason, SessionOutcome};
use serde_json::json;

use crate::terminal::{self, format_count};

/// Left-out parts of a session that are shown to people.
const MAX_SHOWN_SKIPPED: usize = 10;

pub fn print_report(report: &ImportReport, is_dry_run: bool, as_json: bool) -> Result<ExitCode> {
    let ImportReport { imported, messages, already_there, sessions, skipped, left } = report;
    for left in left {
        let (session, why) = (&left.session, reason_text(left));
        let message = if session.is_empty() { why } else { format!("session {session}: {why}") };
        terminal::print_error_with_code("not-imported", &message);
    }
    if as_json {
        let row = |row: &SessionOutcome| {
            let SessionOutcome { session, messages, nodes, outcome, .. } = row;
            json!({"session": session, "messages": messages, "nodes": nodes, "outcome": outcome_text(*outcome)})
        };
        let skipped: Vec<_> = skipped.iter().map(|(session, what)| json!({"session": session, "what": what})).collect();
        let left: Vec<_> = left.iter().map(|left| json!({"session": left.session, "why": reason_text(left)})).collect();
        let mut all = json!({
            "imported": imported, "messages": messages, "already_there": already_there,
            "skipped": skipped, "left": left, "dry_run": is_dry_run,
        });
        if let Some(all) = all.as_object_mut().filter(|_| is_dry_run) {
            all.insert("sessions".to_owned(), sessions.iter().map(row).collect());
        }
        terminal::print_json(&all)?;
    } else {
        print_skipped(skipped);
        if is_dry_run {
            let row = |row: &SessionOutcome| {
                let outcome = outcome_text(row.outcome).to_owned();
                [row.session.clone(), row.messages.to_string(), row.nodes.to_string(), outcome]
            };
            let rows = sessions.iter().map(row).collect();
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

fn outcome_text(outcome: DeliveryOutcome) -> &'static str {
    match outcome {
        DeliveryOutcome::Imported | DeliveryOutcome::Replaced => "import",
        DeliveryOutcome::AlreadyThere => "already there",
        DeliveryOutcome::Expired => "expired",
        DeliveryOutcome::Exists | DeliveryOutcome::Foreign | DeliveryOutcome::Changed => "exists",
    }
}

/// Why a session was left out, and what can be done about it.
fn reason_text(left: &LeftOut) -> String {
    match left.reason {
        Reason::Exists => format!("{}; use --replace to replace it", left.why),
        _ => left.why.clone(),
    }
}

/// Notes the first ones of each session.
fn print_skipped(skipped: &[(String, String)]) {
    for told in skipped.chunk_by(|(one, _), (other, _)| one == other) {
        for (session, what) in told.iter().take(MAX_SHOWN_SKIPPED) {
            terminal::print_note(&format!("session {session}: left out: {what}"));
        }
        if let (Some((session, _)), more @ 1..) = (told.first(), told.len().saturating_sub(MAX_SHOWN_SKIPPED)) {
            terminal::print_note(&format!("session {session}: {more} more left out; --json names all"));
        }
    }
}
