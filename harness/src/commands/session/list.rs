//! `keepline session list` and `keepline session nodes`: what there is, a line each.

use anyhow::Result;
use indicatif::HumanBytes;
use keepline::{
    Keepline,
    sessions::{Transcript, TranscriptState},
};
use serde_json::{Map, Value, json};

use super::arguments::ListArguments;
use crate::{
    args::PageArguments,
    operations::{
        nodes::session_nodes,
        pages::{PageLimits, default_limit},
        transcripts::{describe_transcripts, known_time, message_count},
    },
    terminal::{self, format_age, format_count, print_json, truncate_text},
};

/// Sessions after the page that are counted for people, and how many are asked for at a time.
const MOST_COUNTED: u64 = 10_000;
const COUNTED_PAGE: u32 = 1000;
/// Characters of an owner's name, which may be a hash, that people see.
const OWNER_CHARACTERS: usize = 11;

/// Lists one page of sessions, or all of them. One that comes or goes meanwhile may be listed twice; each page is sorted.
pub(super) async fn list_sessions(keepline: &Keepline, as_json: bool, arguments: &ListArguments) -> Result<()> {
    let PageArguments { limit, cursor, all, full } = &arguments.page;
    let is_for_people = !as_json && terminal::is_terminal_output();
    let limit = limit.unwrap_or_else(|| default_limit(as_json));
    let is_long = arguments.long || is_for_people;
    let mut pages = PageLimits::from(cursor);
    let (mut sessions, mut details, mut last) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_empty = true;
    let cursor = loop {
        let page = keepline.sessions().list(pages.cursor(), limit).await?;
        is_empty &= page.sessions.is_empty();
        let transcripts: Vec<Transcript<'_>> = page.sessions.iter().map(|session| (&**session).into()).collect();
        let found = if is_long { describe_transcripts(keepline, &transcripts).await? } else { Vec::new() };
        if as_json {
            let instead = "without --json, sessions are shown page by page; or use --cursor in place of --all";
            pages.count_kept_texts(page.sessions.iter().map(String::as_str), instead)?;
            sessions.extend(page.sessions.iter().cloned());
            details.extend(page.sessions.iter().zip(&found).map(|(name, state)| details_of(name, state.as_ref())));
        } else if !page.sessions.is_empty() && is_long {
            let owner = if is_for_people && !*full { OWNER_CHARACTERS } else { usize::MAX };
            let rows = page
                .sessions
                .iter()
                .zip(&found)
                .map(|(name, state)| session_list_row(name, state.as_ref(), owner))
                .collect();
            terminal::print_list(["Session", "Title", "Owner", "Messages", "Last used", "Size"], rows, *full)?;
        } else if !page.sessions.is_empty() {
            terminal::print_table(["Session"], page.sessions.iter().map(|session| [session.clone()]).collect())?;
        }
        if !*all || page.cursor.is_empty() {
            break page.cursor;
        }
        pages.turn_to(page.cursor, !page.sessions.is_empty() && page.sessions != last)?;
        last = page.sessions;
    };
    if as_json {
        let mut listed = Map::new();
        listed.insert("sessions".to_owned(), json!(sessions));
        listed.insert("cursor".to_owned(), json!(cursor));
        if is_long {
            listed.insert("details".to_owned(), details.into());
        }
        return print_json(&listed);
    }
    if is_for_people && arguments.page.cursor.is_empty() && cursor.is_empty() && is_empty {
        terminal::print_note("there are no sessions");
    }
    if !cursor.is_empty() {
        let more = if is_for_people {
            count_further_sessions(keepline, &cursor).await?
        } else {
            "more sessions follow".to_owned()
        };
        let cursor = terminal::quote_for_shell(&cursor);
        terminal::print_note(&format!("{more}: use --cursor {cursor} for the next page, or --all"));
    }
    Ok(())
}

/// Counts the sessions that follow a page, for people.
async fn count_further_sessions(keepline: &Keepline, cursor: &str) -> Result<String> {
    let (mut count, mut pages) = (0_u64, PageLimits::from(cursor));
    while !pages.cursor().is_empty() {
        if count >= MOST_COUNTED {
            return Ok(format!("more than {MOST_COUNTED} more sessions"));
        }
        let page = keepline.sessions().list(pages.cursor(), COUNTED_PAGE).await?;
        count = count.saturating_add(page.sessions.len() as u64);
        pages.turn_to(page.cursor, !page.sessions.is_empty())?;
    }
    Ok(format_count(count, "more session", "more sessions"))
}

fn details_of(name: &str, state: Option<&TranscriptState>) -> Value {
    json!({
        "session": name,
        "title": state.and_then(|state| state.title.as_deref()),
        "owner": state.and_then(|state| state.owner.as_deref()),
        "messages": state.map(message_count),
        "last_at_ms": state.and_then(|state| known_time(state.last_at)),
        "bytes": state.map(|state| state.bytes),
    })
}

/// A session's row; a dash stands for what it does not have.
fn session_list_row(name: &str, state: Option<&TranscriptState>, owner_length: usize) -> [String; 6] {
    let text = |text: Option<&String>| text.filter(|text| !text.is_empty()).cloned().unwrap_or_else(|| "-".to_owned());
    let (title, owner) = (state.and_then(|state| state.title.as_ref()), state.and_then(|state| state.owner.as_ref()));
    let [messages, last, size] = size_cells(state);
    [name.to_owned(), text(title), truncate_text(text(owner), owner_length), messages, last, size]
}

/// Number of messages, age of the newest, and size.
fn size_cells(state: Option<&TranscriptState>) -> [String; 3] {
    let dash = || "-".to_owned();
    let Some(state) = state.filter(|state| message_count(state) > 0) else { return [dash(), dash(), dash()] };
    let (last, size) = (known_time(state.last_at).map_or_else(dash, format_age), HumanBytes(state.bytes).to_string());
    [message_count(state).to_string(), last, size]
}

pub(super) async fn list_nodes(keepline: &Keepline, as_json: bool, session: &str, is_full: bool) -> Result<()> {
    // The component reports best what is wrong with a name.
    keepline.sessions().describe(session.into()).await?;
    let nodes = session_nodes(keepline, session).await?;
    let named: Vec<Transcript<'_>> = nodes.iter().filter_map(|node| node.transcript(session)).collect();
    let mut found = describe_transcripts(keepline, &named).await?.into_iter();
    let nodes = nodes.into_iter().map(|node| {
        let state = if node.node_id.is_some() { found.next().flatten() } else { None };
        (node, state)
    });
    if as_json {
        let nodes: Vec<Value> = nodes
            .map(|(node, state)| {
                json!({
                    "node": node.node_id, "app": node.app_id, "bucket": node.bucket,
                    "messages": state.as_ref().map(message_count),
                    "last_at_ms": state.as_ref().and_then(|state| known_time(state.last_at)),
                    "bytes": state.as_ref().map(|state| state.bytes),
                })
            })
            .collect();
        return print_json(&json!({"session": session, "nodes": nodes}));
    }
    let rows = nodes.map(|(node, state)| {
        let [messages, last, size] = size_cells(state.as_ref());
        let (app, name) = (node.app_id.unwrap_or_else(|| "-".to_owned()), node.node_id.unwrap_or(node.bucket));
        [name, app, messages, last, size]
    });
    terminal::print_list(["Node", "App", "Messages", "Last used", "Size"], rows.collect(), is_full)
}
