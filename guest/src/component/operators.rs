//! The calls of operators and tools: sessions, transcripts and users.

use super::bindings::Component;
use super::bindings::exports::keepline::memory::{sessions as operator, transcripts, users};
use super::{Imports, config};
use crate::conversation::desk::Transcript;
use crate::conversation::lines::{Line, LineQuery};
use crate::conversation::messages::MessageQuery;
use crate::conversation::settings::Settings;
use crate::{SessionProblem, SessionProblemCode as Code, Sessions};

fn sessions() -> Sessions<Imports> {
    Sessions::new(Imports, config())
}

type Reply<T> = Result<T, operator::SessionProblem>;

impl operator::Guest for Component {
    fn create(session: String) -> Reply<operator::SessionCreated> {
        let incarnation = sessions().create_with_id(&session)?;
        Ok(operator::SessionCreated { session, incarnation })
    }

    fn resume(session: String) -> Reply<operator::SessionState> {
        let state = sessions().on(&session, |sessions, name| sessions.resume(name))?;
        Ok(operator::SessionState {
            session,
            incarnation: state.incarnation,
            key_count: state.key_count,
            history_length: state.history_length,
            expires_in: state.expires_in,
        })
    }

    fn list_sessions(cursor: String, limit: u32) -> Reply<operator::SessionPage> {
        let page = sessions().list(&cursor, limit)?;
        Ok(operator::SessionPage { sessions: page.sessions, cursor: page.cursor })
    }

    fn delete(session: String) -> Reply<operator::SessionDeleted> {
        let deleted = sessions().on(&session, |sessions, name| sessions.delete(name))?;
        Ok(operator::SessionDeleted { session, key_count: deleted.key_count, keys_cleared: deleted.keys_cleared })
    }

    fn put(session: String, key: String, value: String) -> Reply<operator::ValueStored> {
        sessions().on(&session, |sessions, name| sessions.put(name, &key, &value))?;
        Ok(operator::ValueStored { session, key })
    }

    fn get(session: String, key: String) -> Reply<operator::ValueFound> {
        let value = sessions().on(&session, |sessions, name| sessions.get(name, &key))?;
        Ok(operator::ValueFound { session, key, value })
    }

    fn keys(session: String) -> Reply<operator::KeyList> {
        let keys = sessions().on(&session, |sessions, name| sessions.keys(name))?;
        Ok(operator::KeyList { session, keys })
    }

    fn clear(session: String, key: Option<String>) -> Reply<operator::KeysCleared> {
        let cleared = sessions().on(&session, |sessions, name| sessions.clear(name, key.as_deref()))?;
        Ok(operator::KeysCleared { session, cleared })
    }

    fn increment(session: String, key: String, amount: i64) -> Reply<operator::KeyCounted> {
        let value = sessions().on(&session, |sessions, name| sessions.increment(name, &key, amount))?;
        Ok(operator::KeyCounted { session, key, value })
    }

    fn history(session: String, before: Option<u64>, limit: u32) -> Reply<operator::HistoryPage> {
        let page = sessions().on(&session, |sessions, name| sessions.history(name, before, limit))?;
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
        let state = on(&transcript, |sessions, at| sessions.describe(at))?;
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
        let page = on(&transcript, |sessions, at| sessions.messages(at, &wanted))?;
        let messages = page.messages.into_iter().map(|(position, text)| transcripts::Message { position, text });
        Ok(transcripts::MessagePage { session: transcript.session, messages: messages.collect(), older: page.older })
    }

    fn content(
        transcript: transcripts::Transcript,
        position: u64,
        offset: u64,
        limit: u32,
    ) -> Reply<transcripts::MessageContent> {
        let found = on(&transcript, |sessions, at| sessions.content(at, position, offset, limit))?;
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
        let found = on(&transcript, |sessions, at| sessions.find_lines(at, position, &wanted))?;
        let line = |line: Line| transcripts::ContentLine {
            number: line.number,
            is_match: line.is_match,
            text: line.text,
            offset: line.offset,
            is_cut: line.is_cut,
        };
        let lines = found.lines.into_iter().map(line).collect();
        Ok(transcripts::FoundLines { session: transcript.session, position, lines, next: found.next })
    }

    fn rewrite(
        transcript: transcripts::Transcript,
        position: u64,
        content: Option<String>,
    ) -> Reply<transcripts::TranscriptChanged> {
        let count = on(&transcript, |sessions, at| sessions.rewrite(at, position, content.as_deref()))?;
        Ok(transcripts::TranscriptChanged { session: transcript.session, count })
    }

    fn clear(transcript: transcripts::Transcript, branch: Option<u64>) -> Reply<transcripts::TranscriptChanged> {
        let count = on(&transcript, |sessions, at| sessions.clear_messages(at, branch))?;
        Ok(transcripts::TranscriptChanged { session: transcript.session, count })
    }

    fn set_messages(
        transcript: transcripts::Transcript,
        messages: Vec<String>,
        next: Option<u64>,
    ) -> Reply<transcripts::TranscriptChanged> {
        let count = on(&transcript, |sessions, at| sessions.set_messages(at, &messages, next))?;
        Ok(transcripts::TranscriptChanged { session: transcript.session, count })
    }

    fn register(transcript: transcripts::Transcript, user: Option<String>) -> Reply<transcripts::TranscriptRegistered> {
        let owner = on(&transcript, |sessions, at| sessions.register(at, user.as_deref()))?;
        Ok(transcripts::TranscriptRegistered { session: transcript.session, owner })
    }

    fn set_title(transcript: transcripts::Transcript, title: Option<String>) -> Reply<transcripts::TitleSet> {
        let title = on(&transcript, |sessions, at| sessions.set_title(at, title.as_deref()))?;
        Ok(transcripts::TitleSet { session: transcript.session, title })
    }

    fn set_settings(
        transcript: transcripts::Transcript,
        settings: transcripts::TranscriptSettings,
    ) -> Reply<transcripts::SettingsSet> {
        on(&transcript, |sessions, at| sessions.set_settings(at, &settings.into()))?;
        Ok(transcripts::SettingsSet { session: transcript.session })
    }
}

fn on<T>(
    transcript: &transcripts::Transcript,
    call: impl FnOnce(&Sessions<Imports>, &Transcript<'_>) -> Result<T, SessionProblem>,
) -> Result<T, SessionProblem> {
    let transcripts::Transcript { session, app_id, node_id } = transcript;
    sessions().on(session, |sessions, session| {
        call(sessions, &Transcript { session, app_id: app_id.as_deref(), node_id: node_id.as_deref() })
    })
}

impl users::Guest for Component {
    fn values(user: String, key: Option<String>) -> Reply<users::UserValues> {
        let (user, found) = sessions().user_values(&user, key.as_deref())?;
        let values = found.into_iter().map(|entry| users::UserValue { key: entry.key, value: entry.text });
        Ok(users::UserValues { user, values: values.collect() })
    }

    fn put(user: String, key: String, value: Option<String>) -> Reply<users::UserValueStored> {
        let user = sessions().put_user_value(&user, &key, value.as_deref())?;
        Ok(users::UserValueStored { user, key })
    }

    fn list_sessions(user: String, before: Option<u64>, limit: u32) -> Reply<users::UserSessions> {
        let page = sessions().user_sessions(&user, before, limit)?;
        Ok(users::UserSessions { user: page.user, sessions: page.sessions, older: page.older })
    }

    fn forget(user: String) -> Reply<users::UserForgotten> {
        let done = sessions().forget_user(&user)?;
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

impl From<SessionProblem> for operator::SessionProblem {
    fn from(problem: SessionProblem) -> Self {
        use operator::SessionProblemCode as To;
        Self {
            code: match problem.code {
                Code::InvalidSession => To::InvalidSession,
                Code::InvalidKey => To::InvalidKey,
                Code::InvalidValue => To::InvalidValue,
                Code::NotFound => To::NotFound,
                Code::Expired => To::Expired,
                Code::AlreadyExists => To::AlreadyExists,
                Code::NotACounter => To::NotACounter,
                Code::CounterOverflow => To::CounterOverflow,
                Code::Limit => To::Limit,
                Code::TooManySessions => To::TooManySessions,
                Code::Conflict => To::Conflict,
                Code::Store => To::Store,
            },
            store_code: problem.store_code.to_owned(),
            message: problem.message,
        }
    }
}
