//! Exports the calls of operators and tools: sessions, transcripts and users.

use crate::admin::grep::LineQuery;
use crate::admin::messages::MessageQuery;
use crate::component::exports::{Component, config};
use crate::component::imports::Imports;
use crate::contract::{sessions as operator, transcripts, users};
use crate::transcript::address::TranscriptId;
use crate::{Context, SessionProblem, admin};

type Reply<T> = Result<T, SessionProblem>;

fn context() -> Context<Imports> {
    Context::new(Imports, config())
}

/// A call on the session with this id. Replies have the id where the call has the session's name.
fn on_session<T>(id: &str, call: impl FnOnce(&Context<Imports>, &str) -> Reply<T>) -> Reply<T> {
    admin::with_session_name(&context(), id, call)
}

fn on_transcript<T>(
    transcript: &transcripts::Transcript,
    call: impl FnOnce(&Context<Imports>, &TranscriptId<'_>) -> Reply<T>,
) -> Reply<T> {
    let transcripts::Transcript { session, app_id, node_id } = transcript;
    on_session(session, |context, session| {
        call(context, &TranscriptId { session, app_id: app_id.as_deref(), node_id: node_id.as_deref() })
    })
}

impl operator::Guest for Component {
    fn create(session: String) -> Reply<operator::SessionCreated> {
        let generation = admin::create_with_id(&context(), &session)?;
        Ok(operator::SessionCreated { session, generation })
    }

    fn resume(session: String) -> Reply<operator::SessionState> {
        let state = on_session(&session, admin::resume_session)?;
        Ok(operator::SessionState { session, ..state })
    }

    fn list_sessions(cursor: String, limit: u32) -> Reply<operator::SessionPage> {
        admin::list_sessions(&context(), &cursor, limit)
    }

    fn delete(session: String) -> Reply<operator::SessionDeleted> {
        let deleted = on_session(&session, admin::delete_session)?;
        Ok(operator::SessionDeleted { session, ..deleted })
    }

    fn put(session: String, key: String, value: String) -> Reply<operator::ValueStored> {
        on_session(&session, |context, name| admin::put_value(context, name, &key, &value))?;
        Ok(operator::ValueStored { session, key })
    }

    fn get(session: String, key: String) -> Reply<operator::ValueFound> {
        let value = on_session(&session, |context, name| admin::read_value(context, name, &key))?;
        Ok(operator::ValueFound { session, key, value })
    }

    fn keys(session: String) -> Reply<operator::KeyList> {
        let keys = on_session(&session, admin::list_session_keys)?;
        Ok(operator::KeyList { session, keys })
    }

    fn clear(session: String, key: Option<String>) -> Reply<operator::KeysCleared> {
        let cleared = on_session(&session, |context, name| admin::clear_values(context, name, key.as_deref()))?;
        Ok(operator::KeysCleared { session, cleared })
    }

    fn increment(session: String, key: String, amount: i64) -> Reply<operator::KeyCounted> {
        let value = on_session(&session, |context, name| admin::increment_value(context, name, &key, amount))?;
        Ok(operator::KeyCounted { session, key, value })
    }

    fn history(session: String, before: Option<u64>, limit: u32) -> Reply<operator::HistoryPage> {
        let page = on_session(&session, |context, name| admin::read_history(context, name, before, limit))?;
        Ok(operator::HistoryPage { session, ..page })
    }
}

impl transcripts::Guest for Component {
    fn describe(transcript: transcripts::Transcript) -> Reply<transcripts::TranscriptState> {
        let state = on_transcript(&transcript, admin::describe_transcript)?;
        Ok(transcripts::TranscriptState { session: transcript.session, ..state })
    }

    fn messages(
        transcript: transcripts::Transcript,
        query: transcripts::MessageQuery,
    ) -> Reply<transcripts::MessagePage> {
        let wanted = MessageQuery {
            id: query.id.as_deref(),
            thread: query.thread.as_deref(),
            role: query.role.as_deref(),
            contains: query.contains.as_deref(),
            before: query.before,
            limit: query.limit,
        };
        let page = on_transcript(&transcript, |context, at| admin::find_messages(context, at, &wanted))?;
        Ok(transcripts::MessagePage { session: transcript.session, ..page })
    }

    fn content(
        transcript: transcripts::Transcript,
        position: u64,
        offset: u64,
        limit: u32,
    ) -> Reply<transcripts::MessageContent> {
        let found = on_transcript(&transcript, |context, at| {
            admin::read_message_content(context, at, position, offset, limit)
        })?;
        Ok(transcripts::MessageContent { session: transcript.session, ..found })
    }

    fn find_lines(
        transcript: transcripts::Transcript,
        position: u64,
        query: transcripts::LineQuery,
    ) -> Reply<transcripts::FoundLines> {
        let transcripts::LineQuery { text, ignore_case, context, from_line: from, limit } = query;
        let wanted = LineQuery { text: &text, ignore_case, context, from, limit };
        let found = on_transcript(&transcript, |context, at| admin::find_lines(context, at, position, &wanted))?;
        Ok(transcripts::FoundLines { session: transcript.session, ..found })
    }

    fn rewrite(
        transcript: transcripts::Transcript,
        position: u64,
        content: Option<String>,
    ) -> Reply<transcripts::TranscriptChanged> {
        let count = on_transcript(&transcript, |context, at| {
            admin::rewrite_message(context, at, position, content.as_deref())
        })?;
        Ok(transcripts::TranscriptChanged { session: transcript.session, count })
    }

    fn clear(transcript: transcripts::Transcript, branch: Option<u64>) -> Reply<transcripts::TranscriptChanged> {
        let count = on_transcript(&transcript, |context, at| admin::clear_messages(context, at, branch))?;
        Ok(transcripts::TranscriptChanged { session: transcript.session, count })
    }

    fn set_messages(
        transcript: transcripts::Transcript,
        messages: Vec<String>,
        next: Option<u64>,
    ) -> Reply<transcripts::TranscriptChanged> {
        let count = on_transcript(&transcript, |context, at| admin::set_messages(context, at, &messages, next))?;
        Ok(transcripts::TranscriptChanged { session: transcript.session, count })
    }

    fn register(transcript: transcripts::Transcript, user: Option<String>) -> Reply<transcripts::TranscriptRegistered> {
        let owner = on_transcript(&transcript, |context, at| admin::register_transcript(context, at, user.as_deref()))?;
        Ok(transcripts::TranscriptRegistered { session: transcript.session, owner })
    }

    fn set_title(transcript: transcripts::Transcript, title: Option<String>) -> Reply<transcripts::TitleSet> {
        let title = on_transcript(&transcript, |context, at| admin::set_title(context, at, title.as_deref()))?;
        Ok(transcripts::TitleSet { session: transcript.session, title })
    }

    fn set_settings(
        transcript: transcripts::Transcript,
        settings: transcripts::TranscriptSettings,
    ) -> Reply<transcripts::SettingsSet> {
        on_transcript(&transcript, |context, at| admin::set_settings(context, at, &settings))?;
        Ok(transcripts::SettingsSet { session: transcript.session })
    }
}

impl users::Guest for Component {
    fn values(user: String, key: Option<String>) -> Reply<users::UserValues> {
        let (user, found) = admin::read_user_values(&context(), &user, key.as_deref())?;
        let values = found.into_iter().map(|entry| users::UserValue { key: entry.key, value: entry.text });
        Ok(users::UserValues { user, values: values.collect() })
    }

    fn put(user: String, key: String, value: Option<String>) -> Reply<users::UserValueStored> {
        let user = admin::put_user_value(&context(), &user, &key, value.as_deref())?;
        Ok(users::UserValueStored { user, key })
    }

    fn list_sessions(user: String, before: Option<u64>, limit: u32) -> Reply<users::UserSessions> {
        admin::list_user_sessions(&context(), &user, before, limit)
    }

    fn forget(user: String) -> Reply<users::UserForgotten> {
        let done = admin::forget_user(&context(), &user)?;
        Ok(users::UserForgotten { user, ..done })
    }
}
