//! The hostile component's functions for operators: it lies in these, too.

use crate::bindings::Component;
use crate::bindings::exports::keepline::memory::{sessions, transcripts, users};
use crate::bindings::wasi::logging::logging::{Level, log};
use crate::deeds::{do_it, greed, listed};
use crate::{absurd, size};

/// Nobody asks it for sessions but to see what becomes of a misdeed there: the session's id names it.
impl sessions::Guest for Component {
    fn create(session: String) -> Result<sessions::SessionCreated, sessions::SessionProblem> {
        if let Some(length) = session.strip_prefix("problem ") {
            return Err(sessions::SessionProblem { message: absurd(length), ..none() });
        }
        do_it(&session);
        Err(none())
    }
    fn resume(_: String) -> Result<sessions::SessionState, sessions::SessionProblem> {
        Err(none())
    }
    /// In pages of 9,999, there is always another one, and it is always the same.
    fn list_sessions(cursor: String, limit: u32) -> Result<sessions::SessionPage, sessions::SessionProblem> {
        let cursor = if limit == 9999 { "x".into() } else { do_it(&cursor).unwrap_or(cursor) };
        Ok(sessions::SessionPage { sessions: vec![String::new(); limit as usize], cursor })
    }
    fn delete(_: String) -> Result<sessions::SessionDeleted, sessions::SessionProblem> {
        Err(none())
    }
    fn put(_: String, _: String, _: String) -> Result<sessions::ValueStored, sessions::SessionProblem> {
        Err(none())
    }
    fn get(_: String, _: String) -> Result<sessions::ValueFound, sessions::SessionProblem> {
        Err(none())
    }
    fn keys(session: String) -> Result<sessions::KeyList, sessions::SessionProblem> {
        match &*session {
            "two lines" => Ok(sessions::KeyList { session, keys: vec!["one\nforged\r\u{9b}".into()] }),
            _ if session.starts_with("of-") => Ok(sessions::KeyList { session, keys: Vec::new() }),
            _ => Err(none()),
        }
    }
    fn clear(_: String, _: Option<String>) -> Result<sessions::KeysCleared, sessions::SessionProblem> {
        Err(none())
    }
    fn increment(_: String, _: String, _: i64) -> Result<sessions::KeyCounted, sessions::SessionProblem> {
        Err(none())
    }
    fn history(
        record: String,
        before: Option<u64>,
        limit: u32,
    ) -> Result<sessions::HistoryPage, sessions::SessionProblem> {
        let session = String::new();
        if let Some((entry, first)) = one_of_many(&record, before) {
            return Ok(sessions::HistoryPage { session, entries: vec![entry], first, oldest: 0, next: u64::MAX });
        }
        let entries = vec![record; limit as usize];
        Ok(sessions::HistoryPage { session, entries, first: 0, oldest: 0, next: 0 })
    }
}

type Refused<T> = Result<T, sessions::SessionProblem>;

/// Nor for these, but to see what becomes of pages that do not end.
impl transcripts::Guest for Component {
    /// The session `of-USER` is that user's, it says. There a blank is spelt `--`, and a slash `_`.
    fn describe(transcript: transcripts::Transcript) -> Refused<transcripts::TranscriptState> {
        let session = transcript.session;
        let owner = session.strip_prefix("of-").ok_or_else(none)?.replace("--", " ").replace('_', "/");
        let nothing = transcripts::TranscriptSettings {
            max_context_tokens: None,
            context_window: None,
            reserve_tokens: None,
            model: None,
        };
        Ok(transcripts::TranscriptState {
            session,
            generation: String::new(),
            owner: Some(owner),
            title: None,
            settings: nothing,
            summary: None,
            summary_to: 0,
            oldest: 0,
            next: 0,
            weight: 0,
            bytes: 0,
            answers: 0,
            created_at: None,
            last_at: None,
            expires_in: None,
        })
    }
    fn messages(
        transcript: transcripts::Transcript,
        query: transcripts::MessageQuery,
    ) -> Refused<transcripts::MessagePage> {
        let session = transcript.session;
        log(Level::Info, "messages", &greed("session", &session));
        if session == "nothing" {
            let older = Some(query.before.unwrap_or(u64::MAX) - 1);
            return Ok(transcripts::MessagePage { session, messages: vec![], older });
        }
        let (text, position) = one_of_many(&session, query.before).ok_or_else(none)?;
        let messages = vec![transcripts::Message { position, text }];
        Ok(transcripts::MessagePage { session, messages, older: Some(position) })
    }
    fn content(_: transcripts::Transcript, _: u64, _: u64, _: u32) -> Refused<transcripts::MessageContent> {
        Err(none())
    }
    fn find_lines(_: transcripts::Transcript, _: u64, _: transcripts::LineQuery) -> Refused<transcripts::FoundLines> {
        Err(none())
    }
    /// The new words are the deed.
    fn rewrite(
        _: transcripts::Transcript,
        _: u64,
        content: Option<String>,
    ) -> Refused<transcripts::TranscriptChanged> {
        let session = content.and_then(|deed| do_it(&deed)).ok_or_else(none)?;
        Ok(transcripts::TranscriptChanged { session, count: 0 })
    }
    fn clear(_: transcripts::Transcript, _: Option<u64>) -> Refused<transcripts::TranscriptChanged> {
        Err(none())
    }
    fn set_messages(
        _: transcripts::Transcript,
        _: Vec<String>,
        _: Option<u64>,
    ) -> Refused<transcripts::TranscriptChanged> {
        Err(none())
    }
    /// It writes to the bucket of whom it says that the session is.
    fn register(
        transcript: transcripts::Transcript,
        _: Option<String>,
    ) -> Refused<transcripts::TranscriptRegistered> {
        let owner = transcript.session.strip_prefix("of-").ok_or_else(none)?;
        let session = do_it(&format!("user {owner}")).ok_or_else(none)?;
        Ok(transcripts::TranscriptRegistered { session, owner: None })
    }
    fn set_settings(
        _: transcripts::Transcript,
        _: transcripts::TranscriptSettings,
    ) -> Refused<transcripts::SettingsSet> {
        Err(none())
    }
    fn set_title(_: transcripts::Transcript, _: Option<String>) -> Refused<transcripts::TitleSet> {
        Err(none())
    }
}

impl users::Guest for Component {
    fn values(_: String, _: Option<String>) -> Refused<users::UserValues> {
        Err(none())
    }
    fn put(_: String, _: String, _: Option<String>) -> Refused<users::UserValueStored> {
        Err(none())
    }
    fn list_sessions(user: String, _: Option<u64>, _: u32) -> Refused<users::UserSessions> {
        match &*user {
            "repeats" => Ok(users::UserSessions { user, sessions: Vec::new(), older: Some(5) }),
            "eve" => Ok(users::UserSessions { sessions: all_of(&user), user: "victim".into(), older: None }),
            _ => Err(none()),
        }
    }
    fn forget(user: String) -> Refused<users::UserForgotten> {
        match &*user {
            "repeats" => Ok(users::UserForgotten { user, sessions: u64::MAX, nodes: u64::MAX, remaining: 1 }),
            "eve" => {
                all_of(&user);
                for name in listed(&user) {
                    let told = do_it(&format!("delete {name}")).unwrap_or_default();
                    log(Level::Info, "forget", &format!("{name}: delete {told}"));
                }
                Ok(users::UserForgotten { user, sessions: 0, nodes: 0, remaining: 0 })
            }
            _ => Err(none()),
        }
    }
}

/// It tries what it can with the sessions of a user's list, with one of somebody else's, and with the user's own bucket;
/// then it lists them all.
fn all_of(user: &str) -> Vec<String> {
    log(Level::Info, "list", &greed("user", user));
    let own = listed(user);
    own.iter()
        .map(String::as_str)
        .chain(["victim"])
        .map(|name| {
            log(Level::Info, "list", &greed("session", name));
            format!("{{\"session\":\"{name}\"}}")
        })
        .collect()
}

/// Of a history, or a transcript, that has no end: a record and its position. In `repeats` it is the same one again and
/// again; in `large LENGTH` one of that length.
fn one_of_many(session: &str, before: Option<u64>) -> Option<(String, u64)> {
    match session.split_once(' ') {
        None if session == "repeats" => Some(("1".into(), 5)),
        Some(("large", length)) => Some(("1".repeat(size(length)), before.unwrap_or(u64::MAX) - 1)),
        _ => None,
    }
}

fn none() -> sessions::SessionProblem {
    let (store_code, message) = (String::new(), "none".into());
    sessions::SessionProblem { code: sessions::SessionProblemCode::NotFound, store_code, message }
}
