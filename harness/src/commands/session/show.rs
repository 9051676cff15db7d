//! `keepline session show`: shows a session, its conversation in brief, and its values.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use keepline::{
    Sessions,
    sessions::{SessionError, SessionErrorCode},
};
use serde::Serialize;
use serde_json::Value;

use super::settings;
use crate::{
    operations::pages::Pages,
    terminal::{
        self, ago,
        json_text::{Stored, cell},
        print_result, short,
    },
};

/// Characters of a summary that people see.
const SHOWN: usize = 300;
/// The most keys of a session by the contract.
const MOST_KEYS: usize = 10_000;

/// Shows it, which counts as a use of the session.
pub(super) async fn show(sessions: &mut Sessions, json: bool, session: &str) -> Result<()> {
    let state = sessions.resume(session).await?;
    let transcript = sessions.describe(session.into()).await?;
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
    let messages = transcript.next.saturating_sub(transcript.oldest);
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
            key_count: state.key_count,
            history_length: state.history_length,
            values: values.iter().map(|(key, value)| (key.as_str(), Stored(value))).collect(),
            unreadable: &unreadable,
        };
        return print_result(true, &shown, "");
    }
    let expiry = state.expires_in.map_or("never".to_owned(), |left| terminal::rough(Duration::from_millis(left)));
    let mut rows = vec![["session".to_owned(), state.session]];
    let told = [
        ("title", transcript.title),
        ("owner", transcript.owner),
        ("created", transcript.created_at.map(ago)),
        ("last message", transcript.last_at.map(ago)),
        ("messages", Some(messages).filter(|count| *count > 0).map(|count| count.to_string())),
        ("tokens", Some(transcript.weight).filter(|count| *count > 0).map(|count| count.to_string())),
        ("summary", transcript.summary.map(|text| short(text, SHOWN))),
    ];
    // A session without a conversation has none of these.
    rows.extend(told.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?])));
    rows.extend(settings::rows(transcript.settings));
    rows.extend([
        ["incarnation".to_owned(), state.incarnation],
        ["expires in".to_owned(), expiry],
        ["keys".to_owned(), state.key_count.to_string()],
        ["history".to_owned(), state.history_length.to_string()],
    ]);
    rows.extend(values.into_iter().map(|(key, value)| [format!(".{key}"), cell(&value)]));
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
    key_count: u64,
    history_length: u64,
    values: BTreeMap<&'a str, Stored<'a>>,
    /// Keys whose values can't be shown.
    unreadable: &'a [String],
}
