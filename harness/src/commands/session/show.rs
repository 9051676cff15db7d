//! `keepline session show`: shows all facts about a session or a node, and the values of a session.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use indicatif::HumanBytes;
use keepline::{
    Keepline, Sessions,
    sessions::{SessionError, SessionErrorCode},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::settings;
use crate::{
    args::TranscriptArguments,
    operations::{
        nodes::session_nodes,
        pages::Pages,
        transcripts::{message_count, named},
    },
    terminal::{
        self, ago, counted,
        json_text::{Stored, cell},
        print_result, short,
    },
};

/// Characters of a summary that people see.
const SHOWN: usize = 300;
/// Nodes that are named; `session nodes` lists all.
const MOST_NODES: usize = 20;
/// The most keys of a session by the contract.
const MOST_KEYS: usize = 10_000;

/// Shows it, which counts as a use of the session, but not of a node.
pub(super) async fn show(
    keepline: &Keepline,
    sessions: &mut Sessions,
    json: bool,
    transcript: &TranscriptArguments,
) -> Result<()> {
    if transcript.node.is_some() {
        return describe(sessions, json, transcript).await;
    }
    let session = &*transcript.session;
    let state = sessions.resume(session).await?;
    let transcript = sessions.describe(session.into()).await?;
    let nodes = session_nodes(keepline, session).await?;
    let keys = sessions.keys(session).await?.keys;
    let (mut values, mut unreadable) = (BTreeMap::new(), Vec::new());
    let mut kept = Pages::default();
    for key in keys.into_iter().take(MOST_KEYS) {
        match sessions.get(session, &key).await {
            Ok(found) => {
                // A key that was cleared meanwhile is left out.
                if let Some(value) = found.value {
                    kept.keep([key.as_str(), value.as_str()], "use `keepline session keys` and `get`")?;
                    values.insert(key, value);
                }
            }
            Err(SessionError { code: SessionErrorCode::InvalidValue | SessionErrorCode::Limit, message, .. }) => {
                terminal::warning(&format!("key '{}' is left out: {message}", terminal::one_line(&key)));
                unreadable.push(key);
            }
            Err(other) => return Err(other.into()),
        }
    }
    let messages = message_count(&transcript);
    if json {
        let shown = ShownSession {
            session: &state.session,
            incarnation: &state.incarnation,
            owner: transcript.owner.as_deref(),
            title: transcript.title.as_deref(),
            summary: transcript.summary.as_deref(),
            settings: settings::shown(&transcript.settings),
            created_at_ms: transcript.created_at,
            last_at_ms: transcript.last_at,
            expires_in_ms: state.expires_in,
            messages,
            tokens: transcript.weight,
            bytes: transcript.bytes,
            summary_to: transcript.summary.is_some().then_some(transcript.summary_to),
            oldest: transcript.oldest,
            next: transcript.next,
            nodes: nodes
                .iter()
                .map(|node| json!({"node": node.node_id, "app": node.app_id, "bucket": node.bucket}))
                .collect(),
            key_count: state.key_count,
            history_length: state.history_length,
            values: values.iter().map(|(key, value)| (key.as_str(), Stored(value))).collect(),
            unreadable: &unreadable,
        };
        return print_result(true, &shown, "");
    }
    let expiry = state.expires_in.map_or("never".to_owned(), |left| terminal::rough(Duration::from_millis(left)));
    let mut rows = vec![["session".to_owned(), state.session]];
    let number = |count: u64| Some(count).filter(|count| *count > 0).map(|count| count.to_string());
    let size = Some(transcript.bytes).filter(|bytes| *bytes > 0).map(|bytes| HumanBytes(bytes).to_string());
    let found = [
        ("title", transcript.title),
        ("owner", transcript.owner),
        ("created", transcript.created_at.map(ago)),
        ("last message", transcript.last_at.map(ago)),
        ("messages", number(messages)),
        ("tokens", number(transcript.weight)),
        ("size", size),
        ("summary", transcript.summary.map(|text| short(text, SHOWN))),
    ];
    // A session without a conversation has none of these.
    rows.extend(found.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?])));
    rows.extend(settings::rows(transcript.settings));
    if !terminal::is_for_people() {
        rows.push(["incarnation".to_owned(), state.incarnation]);
    }
    rows.extend([
        ["expires in".to_owned(), expiry],
        ["keys".to_owned(), state.key_count.to_string()],
        ["history".to_owned(), state.history_length.to_string()],
    ]);
    rows.extend(nodes.iter().take(MOST_NODES).map(|node| ["node".to_owned(), node.name()]));
    rows.extend(values.into_iter().map(|(key, value)| [format!(".{key}"), cell(&value)]));
    terminal::print_table(["", "Value"], rows)?;
    if nodes.len() > MOST_NODES {
        let more = counted((nodes.len() - MOST_NODES) as u64, "more node", "more nodes");
        terminal::note(&format!("{more}: use `keepline session nodes`"));
    }
    Ok(())
}

/// Shows the facts about one transcript: the session's own, or a node's.
pub(super) async fn describe(sessions: &mut Sessions, json: bool, transcript: &TranscriptArguments) -> Result<()> {
    let state = sessions.describe(named(transcript)).await?;
    if json {
        let summary_to = state.summary.is_some().then_some(state.summary_to);
        let shown = json!({
            "session": state.session, "incarnation": state.incarnation, "owner": state.owner, "title": state.title,
            "summary": state.summary, "summary_to": summary_to, "oldest": state.oldest, "next": state.next,
            "weight": state.weight, "bytes": state.bytes, "expires_in_ms": state.expires_in,
            "settings": settings::shown(&state.settings),
        });
        return print_result(true, &shown, "");
    }
    let optional = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let records = message_count(&state).to_string();
    let mut rows = vec![
        ["session".to_owned(), state.session],
        ["owner".to_owned(), optional(state.owner)],
        ["title".to_owned(), optional(state.title)],
        ["records".to_owned(), records],
        ["tokens".to_owned(), state.weight.to_string()],
        ["bytes".to_owned(), state.bytes.to_string()],
        ["summary".to_owned(), optional(state.summary)],
    ];
    rows.extend(settings::rows(state.settings));
    Ok(terminal::print_table(["", "Value"], rows)?)
}

#[derive(Serialize)]
struct ShownSession<'a> {
    session: &'a str,
    incarnation: &'a str,
    owner: Option<&'a str>,
    title: Option<&'a str>,
    summary: Option<&'a str>,
    settings: Value,
    created_at_ms: Option<u64>,
    last_at_ms: Option<u64>,
    expires_in_ms: Option<u64>,
    messages: u64,
    tokens: u64,
    bytes: u64,
    /// The position up to which the summary goes.
    summary_to: Option<u64>,
    oldest: u64,
    next: u64,
    nodes: Vec<Value>,
    key_count: u64,
    history_length: u64,
    values: BTreeMap<&'a str, Stored<'a>>,
    /// Keys whose values can't be shown.
    unreadable: &'a [String],
}
