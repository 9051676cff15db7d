//! `keepline session show`: shows all facts about a session or a node, and the values of a session.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use indicatif::HumanBytes;
use keepline::{
    Keepline, Sessions,
    sessions::{SessionError, SessionErrorCode},
};
use serde_json::json;

use super::settings;
use crate::{
    args::TranscriptArguments,
    operations::{
        nodes::{SessionNode, session_nodes},
        pages::PageLimits,
        transcripts::{as_transcript, known_time, message_count},
    },
    terminal::{
        self, fact_rows, format_age, format_count,
        json_text::{EmbeddedJson, json_cell},
        object, print_json, truncate_text,
    },
};

/// Characters of a summary that people see.
const SUMMARY_CHARACTERS: usize = 300;
/// Nodes that are named; `session nodes` lists all.
const MOST_NODES: usize = 20;
/// The most keys of a session by the contract.
const MOST_KEYS: usize = 10_000;

/// Shows it, which counts as a use of the session, but not of a node.
pub(super) async fn show_session(keepline: &Keepline, json: bool, transcript: &TranscriptArguments) -> Result<()> {
    let mut sessions = keepline.sessions();
    if transcript.node.is_some() {
        return show_transcript(&mut sessions, json, transcript).await;
    }
    let session = &*transcript.session;
    let state = sessions.resume(session).await?;
    let transcript = sessions.describe(session.into()).await?;
    let nodes = session_nodes(keepline, session).await?;
    let keys = sessions.keys(session).await?.keys;
    let (mut values, mut unreadable) = (BTreeMap::new(), Vec::new());
    let mut kept = PageLimits::default();
    for key in keys.into_iter().take(MOST_KEYS) {
        match sessions.get(session, &key).await {
            Ok(found) => {
                // A key that was cleared meanwhile is left out.
                if let Some(value) = found.values.into_iter().next().map(|found| found.value) {
                    kept.count_kept_texts([key.as_str(), value.as_str()], "use `keepline session keys` and `get`")?;
                    values.insert(key, value);
                }
            }
            Err(SessionError { code: SessionErrorCode::InvalidValue | SessionErrorCode::Limit, message, .. }) => {
                let shown = terminal::escape_to_one_line(&key);
                terminal::print_warning(&format!("key '{shown}' is left out: {message}"));
                unreadable.push(key);
            }
            Err(other) => return Err(other.into()),
        }
    }
    let messages = message_count(&transcript);
    if json {
        let named = |node: &SessionNode| json!({"node": node.node_id, "app": node.app_id, "bucket": node.bucket});
        return print_json(&object! {
            session: session,
            generation: &state.generation,
            owner: transcript.owner,
            title: transcript.title,
            summary: &transcript.summary,
            settings: settings::settings_json(&transcript.settings),
            created_at_ms: known_time(transcript.created_at),
            last_at_ms: known_time(transcript.last_at),
            expires_in_ms: state.expires_in,
            messages: messages,
            tokens: transcript.weight,
            bytes: transcript.bytes,
            summary_to: transcript.summary.is_some().then_some(transcript.summary_to),
            oldest: transcript.oldest,
            next: transcript.next,
            nodes: nodes.iter().map(named).collect::<Vec<_>>(),
            key_count: state.key_count,
            history_length: state.history_length,
            values: values.iter().map(|(key, value)| (key, EmbeddedJson(value))).collect::<BTreeMap<_, _>>(),
            unreadable: &unreadable,
        });
    }
    let expiry = state
        .expires_in
        .map_or("never".to_owned(), |left| terminal::format_rough_duration(Duration::from_millis(left)));
    let number = |count: u64| Some(count).filter(|count| *count > 0).map(|count| count.to_string());
    let size = Some(transcript.bytes).filter(|bytes| *bytes > 0).map(|bytes| HumanBytes(bytes).to_string());
    let mut rows = fact_rows([
        ("session", Some(session.to_owned())),
        // A session without a conversation has none of these.
        ("title", transcript.title),
        ("owner", transcript.owner),
        ("created", known_time(transcript.created_at).map(format_age)),
        ("last message", known_time(transcript.last_at).map(format_age)),
        ("messages", number(messages)),
        ("tokens", number(transcript.weight)),
        ("size", size),
        ("summary", transcript.summary.map(|text| truncate_text(text, SUMMARY_CHARACTERS))),
    ]);
    rows.extend(settings::settings_rows(transcript.settings));
    if !terminal::is_terminal_output() {
        rows.push(["generation".to_owned(), state.generation]);
    }
    rows.extend([
        ["expires in".to_owned(), expiry],
        ["keys".to_owned(), state.key_count.to_string()],
        ["history".to_owned(), state.history_length.to_string()],
    ]);
    rows.extend(nodes.iter().take(MOST_NODES).map(|node| ["node".to_owned(), node.display_name()]));
    rows.extend(values.into_iter().map(|(key, value)| [format!(".{key}"), json_cell(&value)]));
    terminal::print_table(["", "Value"], rows)?;
    if nodes.len() > MOST_NODES {
        let more = format_count((nodes.len() - MOST_NODES) as u64, "more node", "more nodes");
        terminal::print_note(&format!("{more}: use `keepline session nodes`"));
    }
    Ok(())
}

pub(super) async fn show_transcript(
    sessions: &mut Sessions,
    json: bool,
    transcript: &TranscriptArguments,
) -> Result<()> {
    let state = sessions.describe(as_transcript(transcript)).await?;
    if json {
        let summary_to = state.summary.is_some().then_some(state.summary_to);
        let shown = json!({
            "session": transcript.session, "generation": state.generation, "owner": state.owner, "title": state.title,
            "summary": state.summary, "summary_to": summary_to, "oldest": state.oldest, "next": state.next,
            "weight": state.weight, "bytes": state.bytes, "expires_in_ms": state.expires_in,
            "settings": settings::settings_json(&state.settings),
        });
        return print_json(&shown);
    }
    let optional = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let records = message_count(&state).to_string();
    let mut rows = vec![
        ["session".to_owned(), transcript.session.clone()],
        ["owner".to_owned(), optional(state.owner)],
        ["title".to_owned(), optional(state.title)],
        ["records".to_owned(), records],
        ["tokens".to_owned(), state.weight.to_string()],
        ["bytes".to_owned(), state.bytes.to_string()],
        ["summary".to_owned(), optional(state.summary)],
    ];
    rows.extend(settings::settings_rows(state.settings));
    terminal::print_table(["", "Value"], rows)
}
