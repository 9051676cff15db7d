//! Exports the calls of operators and tools: sessions, transcripts and users.

use crate::admin::grep::LineQuery;
use crate::admin::messages::MessageQuery;
use crate::component::exports::{Component, config};
use crate::component::imports::Imports;
use crate::contract::{sessions as operator, transcripts, users};
use crate::options::settings::Settings;
use crate::transcript::address::TranscriptId;
use crate::{Context, SessionProblem, admin};

fn context() -> Context<Imports> {
    Context::new(Imports, config())
}

type Reply<T> = Result<T, SessionProblem>;

impl operator::Guest for Component {
    fn create(session: String) -> Reply<operator::SessionCreated> {
        let incarnation = admin::create_with_id(&context(), &session)?;
        Ok(operator::SessionCreated { session, incarnation })
    }

    fn resume(session: String) -> Reply<operator::SessionState> {
        let state = admin::with_session_name(&context(), &session, admin::resume_session)?;
        Ok(operator::SessionState {
            session,
            incarnation: state.incarnation,
            key_count: state.key_count,
            history_length: state.history_length,
            expires_in: state.expires_in,
        })
    }

    fn list_sessions(cursor: String, limit: u32) -> Reply<operator::SessionPage> {
        let page = admin::list_sessions(&context(), &cursor, limit)?;
        Ok(operator::SessionPage { sessions: page.sessions, cursor: page.cursor })
    }

    fn delete(session: String) -> Reply<operator::SessionDeleted> {
        let deleted = admin::with_session_name(&context(), &session, admin::delete_session)?;
        Ok(operator::SessionDeleted { session, key_count: deleted.key_count, keys_cleared: deleted.keys_cleared })
    }

    fn put(session: String, key: String, value: String) -> Reply<operator::ValueStored> {
        admin::with_session_name(&context(), &session, |context, name| admin::put_value(context, name, &key, &value))?;
        Ok(operator::ValueStored { session, key })
    }

    fn get(session: String, key: String) -> Reply<operator::ValueFound> {
        let value =
            admin::with_session_name(&context(), &session, |context, name| admin::read_value(context, name, &key))?;
        Ok(operator::ValueFound { session, key, value })
    }

    fn keys(session: String) -> Reply<operator::KeyList> {
        let keys = admin::with_session_name(&context(), &session, admin::list_session_keys)?;
        Ok(operator::KeyList { session, keys })
    }

    fn clear(session: String, key: Option<String>) -> Reply<operator::KeysCleared> {
        let cleared = admin::with_session_name(&context(), &session, |context, name| {
            admin::clear_values(context, name, key.as_deref())
        })?;
        Ok(operator::KeysCleared { session, cleared })
    }

    fn increment(session: String, key: String, amount: i64) -> Reply<operator::KeyCounted> {
        let value = admin::with_session_name(&context(), &session, |context, name| {
            admin::increment_value(context, name, &key, amount)
        })?;
        Ok(operator::KeyCounted { session, key, value })
    }

    fn history(session: String, before: Option<u64>, limit: u32) -> Reply<operator::HistoryPage> {
        let page = admin::with_session_name(&context(), &session, |context, name| {
            admin::read_history(context, name, before, limit)
        })?;
        Ok(operator::HistoryPage {
            session,
            entries: page.entries,
            first: page.first,
            oldest: page.oldest,
            next: page.next,
        })
    }
}

impl transcripts::Guest for Component {
    fn describe(transcript: transcripts::Transcript) -> Reply<transcripts::TranscriptState> {
        let state = on(&transcript, admin::describe_transcript)?;
        let (summary, summary_to) = state.summary.map_or((None, 0), |(text, to)| (Some(text), to));
        Ok(transcripts::TranscriptState {
            session: transcript.session,
            incarnation: state.incarnation,
            owner: state.owner,
            title: state.title,
            settings: state.settings.into(),
            summary,
            summary_to,
            oldest: state.oldest,
            next: state.next,
            weight: state.weight,
            bytes: state.bytes,
            answers: state.answers,
            created_at: state.created_at,
            last_at: state.last_at,
            expires_in: state.expires_in,
        })
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
        let page = on(&transcript, |context, at| admin::find_messages(context, at, &wanted))?;
        Ok(transcripts::MessagePage { session: transcript.session, messages: page.messages, older: page.older })
    }

    fn content(
        transcript: transcripts::Transcript,
        position: u64,
        offset: u64,
        limit: u32,
    ) -> Reply<transcripts::MessageContent> {
        let found = on(&transcript, |context, at| admin::read_message_content(context, at, position, offset, limit))?;
        let session = transcript.session;
        Ok(transcripts::MessageContent { session, position, text: found.text, length: found.length })
    }

    fn find_lines(
        transcript: transcripts::Transcript,
        position: u64,
        query: transcripts::LineQuery,
    ) -> Reply<transcripts::FoundLines> {
        let transcripts::LineQuery { text, ignore_case, context, from_line: from, limit } = query;
        let wanted = LineQuery { text: &text, ignore_case, context, from, limit };
        let found = on(&transcript, |context, at| admin::find_lines(context, at, position, &wanted))?;
        Ok(transcripts::FoundLines { session: transcript.session, position, lines: found.lines, next: found.next })
    }

    fn rewrite(
        transcript: transcripts::Transcript,
        position: u64,
        content: Option<String>,
    ) -> Reply<transcripts::TranscriptChanged> {
        let count = on(&transcript, |context, at| admin::rewrite_message(context, at, position, content.as_deref()))?;
        Ok(transcripts::TranscriptChanged { session: transcript.session, count })
    }

    fn clear(transcript: transcripts::Transcript, branch: Option<u64>) -> Reply<transcripts::TranscriptChanged> {
        let count = on(&transcript, |context, at| admin::clear_messages(context, at, branch))?;
        Ok(transcripts::TranscriptChanged { session: transcript.session, count })
    }

    fn set_messages(
        transcript: transcripts::Transcript,
        messages: Vec<String>,
        next: Option<u64>,
    ) -> Reply<transcripts::TranscriptChanged> {
        let count = on(&transcript, |context, at| admin::set_messages(context, at, &messages, next))?;
        Ok(transcripts::TranscriptChanged { session: transcript.session, count })
    }

    fn register(transcript: transcripts::Transcript, user: Option<String>) -> Reply<transcripts::TranscriptRegistered> {
        let owner = on(&transcript, |context, at| admin::register_transcript(context, at, user.as_deref()))?;
        Ok(transcripts::TranscriptRegistered { session: transcript.session, owner })
    }

    fn set_title(transcript: transcripts::Transcript, title: Option<String>) -> Reply<transcripts::TitleSet> {
        let title = on(&transcript, |context, at| admin::set_title(context, at, title.as_deref()))?;
        Ok(transcripts::TitleSet { session: transcript.session, title })
    }

    fn set_settings(
        transcript: transcripts::Transcript,
        settings: transcripts::TranscriptSettings,
    ) -> Reply<transcripts::SettingsSet> {
        on(&transcript, |context, at| admin::set_settings(context, at, &settings.into()))?;
        Ok(transcripts::SettingsSet { session: transcript.session })
    }
}

fn on<T>(
    transcript: &transcripts::Transcript,
    call: impl FnOnce(&Context<Imports>, &TranscriptId<'_>) -> Result<T, SessionProblem>,
) -> Result<T, SessionProblem> {
    let transcripts::Transcript { session, app_id, node_id } = transcript;
    admin::with_session_name(&context(), session, |context, session| {
        call(context, &TranscriptId { session, app_id: app_id.as_deref(), node_id: node_id.as_deref() })
    })
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
        let page = admin::list_user_sessions(&context(), &user, before, limit)?;
        Ok(users::UserSessions { user: page.user, sessions: page.sessions, older: page.older })
    }

    fn forget(user: String) -> Reply<users::UserForgotten> {
        let done = admin::forget_user(&context(), &user)?;
        Ok(users::UserForgotten { user, sessions: done.sessions, nodes: done.nodes, remaining: done.remaining })
    }
}

impl From<transcripts::TranscriptSettings> for Settings {
    fn from(given: transcripts::TranscriptSettings) -> Self {
        let transcripts::TranscriptSettings { max_context_tokens, context_window, reserve_tokens, model } = given;
        Self { max_context_tokens, context_window, reserve_tokens, model }
    }
}

impl From<Settings> for transcripts::TranscriptSettings {
    fn from(set: Settings) -> Self {
        let Settings { max_context_tokens, context_window, reserve_tokens, model } = set;
        Self { max_context_tokens, context_window, reserve_tokens, model }
    }
}
