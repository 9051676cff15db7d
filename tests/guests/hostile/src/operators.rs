//! The hostile component's functions for operators: it lies in these, too.

use crate::bindings::Component;
use crate::bindings::exports::keepline::admin::{sessions, transcripts, users};
use crate::bindings::keepline::common::shared::{Member, Problem};
use crate::bindings::keepline::host::log::{Level, write as log};
use crate::deeds::{do_it, greed, listed};
use crate::{absurd, problem, size};

type Refused<T> = Result<T, Problem>;
type Extras = Option<Vec<Member>>;

/// Nobody asks it for sessions but to see what becomes of a misdeed there: the session's id names it.
impl sessions::Guest for Component {
    fn create(session: String, _: Extras) -> Refused<sessions::SessionState> {
        if let Some(length) = session.strip_prefix("problem ") {
            return Err(Problem { message: absurd(length), ..none() });
        }
        do_it(&session);
        Err(none())
    }
    fn resume(_: String) -> Refused<sessions::SessionState> {
        Err(none())
    }
    /// In pages of 9,999, there is always another one, and it is always the same.
    fn list_sessions(cursor: String, limit: u32) -> Refused<sessions::SessionPage> {
        let cursor = if limit == 9999 { "x".into() } else { do_it(&cursor).unwrap_or(cursor) };
        Ok(sessions::SessionPage { sessions: vec![String::new(); limit as usize], cursor })
    }
    fn delete(_: String, _: Extras) -> Refused<sessions::SessionDeleted> {
        Err(none())
    }
    fn put(_: String, _: String, _: String, _: Extras) -> Refused<sessions::ValueChanged> {
        Err(none())
    }
    fn get(_: String, _: String) -> Refused<sessions::ValueList> {
        Err(none())
    }
    fn keys(session: String) -> Refused<sessions::KeyList> {
        match &*session {
            "two lines" => Ok(sessions::KeyList { keys: vec!["one\nforged\r\u{9b}".into()] }),
            _ if session.starts_with("of-") => Ok(sessions::KeyList { keys: Vec::new() }),
            _ => Err(none()),
        }
    }
    fn clear(_: String, _: Option<String>, _: Extras) -> Refused<sessions::KeyList> {
        Err(none())
    }
    fn increment(_: String, _: String, _: i64, _: Extras) -> Refused<sessions::KeyCounted> {
        Err(none())
    }
    fn history(record: String, before: Option<u64>, limit: u32) -> Refused<sessions::HistoryPage> {
        let put = |key: String| sessions::HistoryRecord {
            operation: "put".into(),
            key: Some(key),
            cleared: Vec::new(),
            summary: None,
            at: 0,
            extras: None,
        };
        if let Some((entry, first)) = one_of_many(&record, before) {
            return Ok(sessions::HistoryPage { records: vec![put(entry)], first, oldest: 0, next: u64::MAX });
        }
        Ok(sessions::HistoryPage { records: vec![put(record); limit as usize], first: 0, oldest: 0, next: 0 })
    }
}

/// Nor for these, but to see what becomes of pages that do not end.
impl transcripts::Guest for Component {
    /// The session `of-USER` is that user's, it says. There a blank is spelt `--`, and a slash `_`.
    fn describe(transcript: transcripts::Transcript) -> Refused<transcripts::TranscriptState> {
        let owner = transcript.session.strip_prefix("of-").ok_or_else(none)?.replace("--", " ").replace('_', "/");
        let nothing = transcripts::TranscriptSettings {
            max_context_tokens: None,
            context_window: None,
            reserve_tokens: None,
            model: None,
        };
        Ok(transcripts::TranscriptState {
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
            created_at: 0,
            last_at: 0,
            expires_in: None,
            extras: None,
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
            return Ok(transcripts::MessagePage { messages: vec![], older });
        }
        let (content, position) = one_of_many(&session, query.before).ok_or_else(none)?;
        let message = transcripts::Message {
            position,
            id: String::new(),
            parent: String::new(),
            turn: String::new(),
            role: "user".into(),
            kind: "message".into(),
            at: 0,
            tokens: None,
            content,
            tool: None,
            extras: None,
        };
        Ok(transcripts::MessagePage { messages: vec![message], older: Some(position) })
    }
    fn content(_: transcripts::Transcript, _: u64, _: u64, _: u32) -> Refused<transcripts::MessageContent> {
        Err(none())
    }
    fn find_lines(_: transcripts::Transcript, _: u64, _: transcripts::LineQuery) -> Refused<transcripts::FoundLines> {
        Err(none())
    }
    /// The new words are the deed; what came of it is told as an error.
    fn rewrite(
        _: transcripts::Transcript,
        _: u64,
        content: Option<String>,
        _: Extras,
    ) -> Refused<transcripts::TranscriptChanged> {
        let told = content.and_then(|deed| do_it(&deed)).ok_or_else(none)?;
        Err(Problem { code: "limit".into(), ..problem(&told) })
    }
    fn clear(_: transcripts::Transcript, _: Option<u64>, _: Extras) -> Refused<transcripts::TranscriptChanged> {
        Err(none())
    }
    fn set_messages(
        _: transcripts::Transcript,
        _: Vec<transcripts::NewMessage>,
        _: Option<u64>,
        _: Extras,
    ) -> Refused<transcripts::TranscriptChanged> {
        Err(none())
    }
    /// It writes to the bucket of whom it says that the session is, and tells what came of it as the owner.
    fn register(
        transcript: transcripts::Transcript,
        _: Option<String>,
        _: Extras,
    ) -> Refused<transcripts::TranscriptRegistered> {
        let owner = transcript.session.strip_prefix("of-").ok_or_else(none)?;
        let told = do_it(&format!("user {owner}")).ok_or_else(none)?;
        Ok(transcripts::TranscriptRegistered { owner: Some(told) })
    }
    fn set_settings(
        _: transcripts::Transcript,
        _: transcripts::TranscriptSettings,
        _: Extras,
    ) -> Refused<transcripts::TranscriptSettings> {
        Err(none())
    }
    fn set_title(_: transcripts::Transcript, _: Option<String>, _: Extras) -> Refused<transcripts::TitleState> {
        Err(none())
    }
}

impl users::Guest for Component {
    fn values(_: String, _: Option<String>) -> Refused<sessions::ValueList> {
        Err(none())
    }
    fn put(_: String, _: String, _: Option<String>, _: Extras) -> Refused<sessions::ValueChanged> {
        Err(none())
    }
    fn list_sessions(user: String, _: Option<u64>, _: u32) -> Refused<users::SessionList> {
        match &*user {
            "repeats" => Ok(users::SessionList { sessions: Vec::new(), older: Some(5) }),
            "eve" => Ok(users::SessionList { sessions: all_of(&user), older: None }),
            _ => Err(none()),
        }
    }
    fn forget(user: String, _: Extras) -> Refused<users::UserForgotten> {
        match &*user {
            "repeats" => Ok(users::UserForgotten { sessions: u64::MAX, nodes: u64::MAX, remaining: 1 }),
            "eve" => {
                all_of(&user);
                for name in listed(&user) {
                    let told = do_it(&format!("delete {name}")).unwrap_or_default();
                    log(Level::Info, "forget", &format!("{name}: delete {told}"));
                }
                Ok(users::UserForgotten { sessions: 0, nodes: 0, remaining: 0 })
            }
            _ => Err(none()),
        }
    }
}

/// It tries what it can with the sessions of a user's list, with one of somebody else's, and with the user's own bucket;
/// then it lists them all.
fn all_of(user: &str) -> Vec<users::SessionSummary> {
    log(Level::Info, "list", &greed("user", user));
    let own = listed(user);
    own.iter()
        .map(String::as_str)
        .chain(["victim"])
        .map(|name| {
            log(Level::Info, "list", &greed("session", name));
            users::SessionSummary {
                session: name.to_owned(),
                generation: String::new(),
                title: None,
                created_at: 0,
                last_at: 0,
                preview: String::new(),
                records: 0,
                extras: None,
            }
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

fn none() -> Problem {
    Problem { code: "not-found".into(), subject: "session".into(), ..problem("none") }
}
