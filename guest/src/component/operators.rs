//! Exports the calls of operators and tools: sessions, transcripts and users. No `extras` is registered yet: they are ignored.

use keepline_store_client::component::imports::Imports;

use crate::admin::grep::LineQuery;
use crate::admin::messages::MessageQuery;
use crate::component::exports::{Component, config};
use crate::contract::{Member, Problem, sessions, transcripts, users};
use crate::transcript::address::TranscriptId;
use crate::{Context, admin};

type Reply<T> = Result<T, Problem>;

/// What a function of the administration returns.
type Called<T> = Result<T, Box<Problem>>;

type Extras = Option<Vec<Member>>;

fn context() -> Context<Imports> {
    Context::new(Imports, config())
}

/// A call on the session with this id.
fn on_session<T>(id: &str, call: impl FnOnce(&Context<Imports>, &str) -> Called<T>) -> Reply<T> {
    Ok(admin::with_session_name(&context(), id, call)?)
}

fn on_transcript<T>(
    transcript: &transcripts::Transcript,
    call: impl FnOnce(&Context<Imports>, &TranscriptId<'_>) -> Called<T>,
) -> Reply<T> {
    let transcripts::Transcript { session, app_id, node_id } = transcript;
    on_session(session, |context, session| {
        call(context, &TranscriptId { session, app_id: app_id.as_deref(), node_id: node_id.as_deref() })
    })
}

impl sessions::Guest for Component {
    fn create(session: String, _: Extras) -> Reply<sessions::SessionState> {
        Ok(admin::create_with_id(&context(), &session)?)
    }

    fn resume(session: String) -> Reply<sessions::SessionState> {
        on_session(&session, admin::resume_session)
    }

    fn list_sessions(cursor: String, limit: u32) -> Reply<sessions::SessionPage> {
        Ok(admin::list_sessions(&context(), &cursor, limit)?)
    }

    fn delete(session: String, _: Extras) -> Reply<sessions::SessionDeleted> {
        on_session(&session, admin::delete_session)
    }

    fn put(session: String, key: String, value: String, _: Extras) -> Reply<sessions::ValueChanged> {
        let existed = on_session(&session, |context, name| admin::put_value(context, name, &key, &value))?;
        Ok(sessions::ValueChanged { existed })
    }

    fn get(session: String, key: String) -> Reply<sessions::ValueList> {
        let value = on_session(&session, |context, name| admin::read_value(context, name, &key))?;
        Ok(sessions::ValueList { values: value.map(|value| sessions::NamedValue { key, value }).into_iter().collect() })
    }

    fn keys(session: String) -> Reply<sessions::KeyList> {
        Ok(sessions::KeyList { keys: on_session(&session, admin::list_session_keys)? })
    }

    fn clear(session: String, key: Option<String>, _: Extras) -> Reply<sessions::KeyList> {
        let keys = on_session(&session, |context, name| admin::clear_values(context, name, key.as_deref()))?;
        Ok(sessions::KeyList { keys })
    }

    fn increment(session: String, key: String, amount: i64, _: Extras) -> Reply<sessions::KeyCounted> {
        let value = on_session(&session, |context, name| admin::increment_value(context, name, &key, amount))?;
        Ok(sessions::KeyCounted { value })
    }

    fn history(session: String, before: Option<u64>, limit: u32) -> Reply<sessions::HistoryPage> {
        on_session(&session, |context, name| admin::read_history(context, name, before, limit))
    }
}

impl transcripts::Guest for Component {
    fn describe(transcript: transcripts::Transcript) -> Reply<transcripts::TranscriptState> {
        on_transcript(&transcript, admin::describe_transcript)
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
        on_transcript(&transcript, |context, at| admin::find_messages(context, at, &wanted))
    }

    fn content(
        transcript: transcripts::Transcript,
        position: u64,
        offset: u64,
        limit: u32,
    ) -> Reply<transcripts::MessageContent> {
        on_transcript(&transcript, |context, at| admin::read_message_content(context, at, position, offset, limit))
    }

    fn find_lines(
        transcript: transcripts::Transcript,
        position: u64,
        query: transcripts::LineQuery,
    ) -> Reply<transcripts::FoundLines> {
        let transcripts::LineQuery { text, ignore_case, context, from_line: from, limit } = query;
        let wanted = LineQuery { text: &text, ignore_case, context, from, limit };
        on_transcript(&transcript, |context, at| admin::find_lines(context, at, position, &wanted))
    }

    fn rewrite(
        transcript: transcripts::Transcript,
        position: u64,
        content: Option<String>,
        _: Extras,
    ) -> Reply<transcripts::TranscriptChanged> {
        on_transcript(&transcript, |context, at| admin::rewrite_message(context, at, position, content.as_deref()))
    }

    fn clear(
        transcript: transcripts::Transcript,
        branch: Option<u64>,
        _: Extras,
    ) -> Reply<transcripts::TranscriptChanged> {
        on_transcript(&transcript, |context, at| admin::clear_messages(context, at, branch))
    }

    fn set_messages(
        transcript: transcripts::Transcript,
        messages: Vec<transcripts::NewMessage>,
        next: Option<u64>,
        _: Extras,
    ) -> Reply<transcripts::TranscriptChanged> {
        on_transcript(&transcript, |context, at| admin::set_messages(context, at, &messages, next))
    }

    fn register(
        transcript: transcripts::Transcript,
        user: Option<String>,
        _: Extras,
    ) -> Reply<transcripts::TranscriptRegistered> {
        let owner = on_transcript(&transcript, |context, at| admin::register_transcript(context, at, user.as_deref()))?;
        Ok(transcripts::TranscriptRegistered { owner })
    }

    fn set_title(
        transcript: transcripts::Transcript,
        title: Option<String>,
        _: Extras,
    ) -> Reply<transcripts::TitleState> {
        let title = on_transcript(&transcript, |context, at| admin::set_title(context, at, title.as_deref()))?;
        Ok(transcripts::TitleState { title })
    }

    fn set_settings(
        transcript: transcripts::Transcript,
        settings: transcripts::TranscriptSettings,
        _: Extras,
    ) -> Reply<transcripts::TranscriptSettings> {
        on_transcript(&transcript, |context, at| admin::set_settings(context, at, &settings))?;
        Ok(settings)
    }
}

impl users::Guest for Component {
    fn values(user: String, key: Option<String>) -> Reply<sessions::ValueList> {
        Ok(sessions::ValueList { values: admin::read_user_values(&context(), &user, key.as_deref())? })
    }

    fn put(user: String, key: String, value: Option<String>, _: Extras) -> Reply<sessions::ValueChanged> {
        Ok(sessions::ValueChanged { existed: admin::put_user_value(&context(), &user, &key, value.as_deref())? })
    }

    fn list_sessions(user: String, before: Option<u64>, limit: u32) -> Reply<users::SessionList> {
        Ok(admin::list_user_sessions(&context(), &user, before, limit)?)
    }

    fn forget(user: String, _: Extras) -> Reply<users::UserForgotten> {
        Ok(admin::forget_user(&context(), &user)?)
    }
}
