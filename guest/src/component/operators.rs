//! Exports the calls of operators and tools: sessions, transcripts and users.

use keepline_store_client::component::imports::Imports;

use crate::admin::conditions::{Conditions, EXPECTED_VALUE, EXPECTED_VERSION, OwnedHost};
use crate::admin::grep::LineQuery;
use crate::admin::messages::MessageQuery;
use crate::component::exports::{config, host};
use crate::contract::lanes;
use crate::contract::sessions::{
    HistoryPage, KeyCounted, KeyList, NamedValue, SessionDeleted, SessionPage, SessionState, ValueChanged, ValueList,
};
use crate::contract::transcripts::{
    FoundLines, MessageContent, MessagePage, NewMessage, TitleState, Transcript, TranscriptChanged,
    TranscriptRegistered, TranscriptSettings, TranscriptState,
};
use crate::contract::users::{SessionList, UserForgotten};
use crate::contract::{Member, Problem, sessions, transcripts, users};
use crate::transcript::address::TranscriptId;
use crate::{Context, admin};

type Reply<T> = Result<T, Problem>;

/// What a function of the administration returns.
type Called<T> = Result<T, Box<Problem>>;

type Extras = Option<Vec<Member>>;

fn context() -> Context<OwnedHost<Imports>> {
    Context::new(host(), config())
}

/// A call on the session with this id.
fn on_session<T>(id: &str, call: impl FnOnce(&Context<OwnedHost<Imports>>, &str) -> Called<T>) -> Reply<T> {
    call_on_session(context_of(id), id, call)
}

fn call_on_session<T>(
    found: Called<(Context<OwnedHost<Imports>>, String)>,
    id: &str,
    call: impl FnOnce(&Context<OwnedHost<Imports>>, &str) -> Called<T>,
) -> Reply<T> {
    let (context, session) = found?;
    Ok(call(&context, &session).map_err(|problem| admin::name_id(problem, &session, id))?)
}

/// What a call works with, and the session's name. Apart, so that the component has it once for all calls.
fn context_of(id: &str) -> Called<(Context<OwnedHost<Imports>>, String)> {
    let context = context();
    let session = admin::session_name(&context, id)?.into_owned();
    Ok((context, session))
}

/// A call that writes to it, under the conditions of its `extras`, with the one expectation that it `takes`.
fn write_session<T>(
    id: &str,
    (extras, takes): (&Extras, &str),
    call: impl FnOnce(&Context<OwnedHost<Imports>>, &str) -> Called<T>,
) -> Reply<T> {
    call_on_session(writing_context(id, extras, takes), id, call)
}

fn writing_context(id: &str, extras: &Extras, takes: &str) -> Called<(Context<OwnedHost<Imports>>, String)> {
    let mut context = context_under(extras, takes)?;
    let session = admin::session_name(&context, id)?.into_owned();
    context.host = OwnedHost::new(Imports, &session, context.owner.clone());
    Ok((context, session))
}

/// What a call works with under the conditions of its `extras`. Apart, so that the component has it once for all calls.
#[inline(never)]
fn context_under(extras: &Extras, takes: &str) -> Called<Context<OwnedHost<Imports>>> {
    let Conditions { owner, request_id, expected_value, expected_version } =
        Conditions::parse(extras.as_deref(), takes)?;
    Ok(Context { request_id, owner, expected_value, expected_version, ..context() })
}

fn id_of<'a>(transcript: &'a Transcript, session: &'a str) -> TranscriptId<'a> {
    TranscriptId { session, app_id: transcript.app_id.as_deref(), node_id: transcript.node_id.as_deref() }
}

fn on_transcript<T>(
    transcript: &Transcript,
    call: impl FnOnce(&Context<OwnedHost<Imports>>, &TranscriptId<'_>) -> Called<T>,
) -> Reply<T> {
    on_session(&transcript.session, |context, session| call(context, &id_of(transcript, session)))
}

fn write_transcript<T>(
    transcript: &Transcript,
    extras: (&Extras, &str),
    call: impl FnOnce(&Context<OwnedHost<Imports>>, &TranscriptId<'_>) -> Called<T>,
) -> Reply<T> {
    write_session(&transcript.session, extras, |context, session| call(context, &id_of(transcript, session)))
}

impl<L: lanes::Guest> sessions::Guest for L {
    fn create(session: String, extras: Extras) -> Reply<SessionState> {
        Ok(admin::create_with_id(&context_under(&extras, "")?, &session)?)
    }

    fn resume(session: String) -> Reply<SessionState> {
        on_session(&session, admin::resume_session)
    }

    fn list_sessions(cursor: String, limit: u32) -> Reply<SessionPage> {
        Ok(admin::list_sessions(&context(), &cursor, limit)?)
    }

    fn delete(session: String, extras: Extras) -> Reply<SessionDeleted> {
        write_session(&session, (&extras, ""), admin::delete_session)
    }

    fn put(session: String, key: String, value: String, extras: Extras) -> Reply<ValueChanged> {
        let existed = write_session(&session, (&extras, EXPECTED_VALUE), |context, name| {
            admin::put_value(context, name, &key, &value)
        })?;
        Ok(ValueChanged { existed })
    }

    fn get(session: String, key: String) -> Reply<ValueList> {
        let value = on_session(&session, |context, name| admin::read_value(context, name, &key))?;
        Ok(ValueList { values: value.map(|value| NamedValue { key, value }).into_iter().collect() })
    }

    fn keys(session: String) -> Reply<KeyList> {
        Ok(KeyList { keys: on_session(&session, admin::list_session_keys)? })
    }

    fn clear(session: String, key: Option<String>, extras: Extras) -> Reply<KeyList> {
        let takes = if key.is_some() { EXPECTED_VALUE } else { "" };
        let keys = write_session(&session, (&extras, takes), |context, name| {
            admin::clear_values(context, name, key.as_deref())
        })?;
        Ok(KeyList { keys })
    }

    fn increment(session: String, key: String, amount: i64, extras: Extras) -> Reply<KeyCounted> {
        let value = write_session(&session, (&extras, ""), |context, name| {
            admin::increment_value(context, name, &key, amount)
        })?;
        Ok(KeyCounted { value })
    }

    fn history(session: String, before: Option<u64>, limit: u32) -> Reply<HistoryPage> {
        on_session(&session, |context, name| admin::read_history(context, name, before, limit))
    }
}

impl<L: lanes::Guest> transcripts::Guest for L {
    fn describe(transcript: Transcript) -> Reply<TranscriptState> {
        on_transcript(&transcript, admin::describe_transcript)
    }

    fn messages(transcript: Transcript, query: transcripts::MessageQuery) -> Reply<MessagePage> {
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

    fn content(transcript: Transcript, position: u64, offset: u64, limit: u32) -> Reply<MessageContent> {
        on_transcript(&transcript, |context, at| admin::read_message_content(context, at, position, offset, limit))
    }

    fn find_lines(transcript: Transcript, position: u64, query: transcripts::LineQuery) -> Reply<FoundLines> {
        let transcripts::LineQuery { text, ignore_case, context, from_line: from, limit } = query;
        let wanted = LineQuery { text: &text, ignore_case, context, from, limit };
        on_transcript(&transcript, |context, at| admin::find_lines(context, at, position, &wanted))
    }

    fn rewrite(
        transcript: Transcript,
        position: u64,
        content: Option<String>,
        extras: Extras,
    ) -> Reply<TranscriptChanged> {
        write_transcript(&transcript, (&extras, EXPECTED_VERSION), |context, at| {
            admin::rewrite_message(context, at, position, content.as_deref())
        })
    }

    fn clear(transcript: Transcript, branch: Option<u64>, extras: Extras) -> Reply<TranscriptChanged> {
        // A branch goes in as many transactions as it takes.
        let takes = if branch.is_none() { EXPECTED_VERSION } else { "" };
        write_transcript(&transcript, (&extras, takes), |context, at| admin::clear_messages(context, at, branch))
    }

    fn set_messages(
        transcript: Transcript,
        messages: Vec<NewMessage>,
        next: Option<u64>,
        extras: Extras,
    ) -> Reply<TranscriptChanged> {
        write_transcript(&transcript, (&extras, EXPECTED_VERSION), |context, at| {
            admin::set_messages(context, at, &messages, next)
        })
    }

    fn register(transcript: Transcript, user: Option<String>, extras: Extras) -> Reply<TranscriptRegistered> {
        // Whose the session is, is what it finds out.
        Conditions::parse(extras.as_deref(), "")?;
        let owner = on_transcript(&transcript, |context, at| admin::register_transcript(context, at, user.as_deref()))?;
        Ok(TranscriptRegistered { owner })
    }

    fn set_title(transcript: Transcript, title: Option<String>, extras: Extras) -> Reply<TitleState> {
        let title = write_transcript(&transcript, (&extras, EXPECTED_VERSION), |context, at| {
            admin::set_title(context, at, title.as_deref())
        })?;
        Ok(TitleState { title })
    }

    fn set_settings(transcript: Transcript, settings: TranscriptSettings, extras: Extras) -> Reply<TranscriptSettings> {
        write_transcript(&transcript, (&extras, EXPECTED_VERSION), |context, at| {
            admin::set_settings(context, at, &settings)
        })?;
        Ok(settings)
    }
}

impl<L: lanes::Guest> users::Guest for L {
    fn values(user: String, key: Option<String>) -> Reply<ValueList> {
        Ok(ValueList { values: admin::read_user_values(&context(), &user, key.as_deref())? })
    }

    fn put(user: String, key: String, value: Option<String>, extras: Extras) -> Reply<ValueChanged> {
        let context = context_under(&extras, EXPECTED_VALUE)?;
        Ok(ValueChanged { existed: admin::put_user_value(&context, &user, &key, value.as_deref())? })
    }

    fn list_sessions(user: String, before: Option<u64>, limit: u32) -> Reply<SessionList> {
        Ok(admin::list_user_sessions(&context(), &user, before, limit)?)
    }

    fn forget(user: String, extras: Extras) -> Reply<UserForgotten> {
        Ok(admin::forget_user(&context_under(&extras, "")?, &user)?)
    }
}
