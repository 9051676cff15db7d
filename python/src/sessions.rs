//! What is done to sessions, transcripts and users beside the lanes.

use keepline::{
    Keepline, Sessions,
    sessions::{
        ChatMessage, FoundMessage, HistoryRecord, LineQuery, Message, MessageQuery, NewMessage, SessionState,
        SessionSummary, TranscriptSettings, TranscriptState, ValueList, WriteConditions,
    },
};
use pyo3::{prelude::*, types::PyDict};

use crate::{
    bridge::{call::Call, failure::Failure, runtime::OwnedByProcess},
    convert::{
        Reply,
        arguments::{GivenMessage, TranscriptName, deadline},
        dict, json,
    },
};

/// Sessions, under conditions or without.
#[pyclass(module = "keepline._keepline", frozen)]
pub struct NativeSessions {
    keepline: OwnedByProcess<Keepline>,
    conditions: WriteConditions,
    timeout: Option<f64>,
}

impl NativeSessions {
    pub fn new(keepline: Keepline, conditions: WriteConditions, timeout: Option<f64>) -> Self {
        Self { keepline: OwnedByProcess::new(keepline), conditions, timeout }
    }

    fn begin(&self, py: Python<'_>) -> PyResult<Sessions> {
        self.sessions().map_err(|failure| failure.into_error(py))
    }

    fn sessions(&self) -> Result<Sessions, Failure> {
        let sessions = self.keepline.get()?.sessions().under(&self.conditions);
        Ok(match deadline(self.timeout)? {
            Some(deadline) => sessions.by(deadline),
            None => sessions,
        })
    }
}

/// A call on sessions, and what becomes of its reply.
macro_rules! call {
    ($self:ident, $py:ident, |$sessions:ident| $work:expr, |$reply:ident| $make:expr) => {{
        let mut $sessions = $self.begin($py)?;
        Ok(Call::new(async move {
            let $reply = $work.await?;
            Ok($make)
        }))
    }};
}

#[pymethods]
impl NativeSessions {
    fn create(&self, py: Python<'_>, session: String) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.create(&session), |state| state_reply(state))
    }

    fn resume(&self, py: Python<'_>, session: String) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.resume(&session), |state| state_reply(state))
    }

    fn list(&self, py: Python<'_>, cursor: String, limit: u32) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.list(&cursor, limit), |page| Reply::plain((page.sessions, page.cursor)))
    }

    fn delete(&self, py: Python<'_>, session: String) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.delete(&session), |deleted| Reply::new(move |py| {
            Ok(dict!(py; "key_count": deleted.key_count, "keys": deleted.keys))
        }))
    }

    fn put(&self, py: Python<'_>, session: String, key: String, value: String) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.put(&session, &key, &value), |changed| Reply::plain(changed.existed))
    }

    /// The value in a list, or an empty one: a stored `null` is not none.
    fn get(&self, py: Python<'_>, session: String, key: String) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.get(&session, &key), |found| Reply::new(move |py| {
            let values = found.values.iter().map(|found| json::read(py, &found.value));
            pyo3::types::PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)
        }))
    }

    fn keys(&self, py: Python<'_>, session: String) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.keys(&session), |list| Reply::plain(list.keys))
    }

    fn clear(&self, py: Python<'_>, session: String, key: Option<String>) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.clear(&session, key.as_deref()), |list| Reply::plain(list.keys))
    }

    fn increment(&self, py: Python<'_>, session: String, key: String, amount: i64) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.increment(&session, &key, amount), |counted| Reply::plain(counted.value))
    }

    fn history(&self, py: Python<'_>, session: String, before: Option<u64>, limit: u32) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.history(&session, before, limit), |page| Reply::new(move |py| {
            let records = page.records.into_iter().map(|record| history_record(py, record));
            let records = records.collect::<PyResult<Vec<_>>>()?;
            Ok(dict!(py; "first": page.first, "records": records, "oldest": page.oldest, "next": page.next))
        }))
    }

    fn describe(&self, py: Python<'_>, transcript: TranscriptName) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.describe(transcript.get()), |state| Reply::new(move |py| {
            transcript_state(py, state)
        }))
    }

    #[pyo3(signature = (transcript, id, thread, role, contains, before, limit))]
    #[allow(clippy::too_many_arguments, reason = "a query's")]
    fn messages(
        &self,
        py: Python<'_>,
        transcript: TranscriptName,
        id: Option<String>,
        thread: Option<String>,
        role: Option<String>,
        contains: Option<String>,
        before: Option<u64>,
        limit: u32,
    ) -> PyResult<Call> {
        let mut sessions = self.begin(py)?;
        Ok(Call::new(async move {
            let query = MessageQuery {
                id: id.as_deref(),
                thread: thread.as_deref(),
                role: role.as_deref(),
                contains: contains.as_deref(),
                before,
                limit,
            };
            let page = sessions.messages(transcript.get(), query).await?;
            Ok(Reply::new(move |py| {
                let messages = page.messages.into_iter().map(|message| stored_message(py, message));
                Ok(dict!(py; "messages": messages.collect::<PyResult<Vec<_>>>()?, "older": page.older))
            }))
        }))
    }

    /// A page of messages as sessions of frameworks read them: role, content, `raw`, whether it is a plain message, position.
    fn items(&self, py: Python<'_>, transcript: TranscriptName, before: Option<u64>, limit: u32) -> PyResult<Call> {
        let mut sessions = self.begin(py)?;
        Ok(Call::new(async move {
            let query = MessageQuery { before, limit, ..MessageQuery::default() };
            let page = sessions.messages(transcript.get(), query).await?;
            Ok(Reply::new(move |py| {
                let items = page.messages.into_iter().map(|message| item(py, message));
                (items.collect::<PyResult<Vec<_>>>()?, page.older).into_pyobject(py)
            }))
        }))
    }

    fn content(
        &self,
        py: Python<'_>,
        transcript: TranscriptName,
        position: u64,
        offset: u64,
        limit: u32,
    ) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.content(transcript.get(), position, offset, limit), |content| {
            Reply::plain((content.text, content.length))
        })
    }

    #[allow(clippy::too_many_arguments, reason = "a query's")]
    fn find_lines(
        &self,
        py: Python<'_>,
        transcript: TranscriptName,
        position: u64,
        text: String,
        ignore_case: bool,
        context: u32,
        from_line: u64,
        limit: u32,
    ) -> PyResult<Call> {
        let mut sessions = self.begin(py)?;
        Ok(Call::new(async move {
            let query = LineQuery { text: &text, ignore_case, context, from_line, limit };
            let found = sessions.find_lines(transcript.get(), position, query).await?;
            Ok(Reply::new(move |py| {
                let lines = found.lines.into_iter().map(|line| {
                    Ok(dict!(py; "number": line.number, "is_match": line.is_match, "text": line.text,
                        "offset": line.offset, "is_cut": line.is_cut))
                });
                Ok(dict!(py; "lines": lines.collect::<PyResult<Vec<_>>>()?, "next": found.next))
            }))
        }))
    }

    fn set_messages(
        &self,
        py: Python<'_>,
        transcript: TranscriptName,
        messages: Vec<GivenMessage>,
        next: Option<u64>,
    ) -> PyResult<Call> {
        let mut sessions = self.begin(py)?;
        Ok(Call::new(async move {
            let given: Vec<NewMessage<'_>> = messages
                .iter()
                .map(|message| match message {
                    GivenMessage::Chat(text) => NewMessage::Chat(ChatMessage { text }),
                    GivenMessage::Record(record) => NewMessage::Message(record),
                })
                .collect();
            let changed = sessions.set_messages(transcript.get(), &given, next).await?;
            Ok(Reply::plain((changed.count, changed.next)))
        }))
    }

    fn rewrite(
        &self,
        py: Python<'_>,
        transcript: TranscriptName,
        position: u64,
        content: Option<String>,
    ) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.rewrite(transcript.get(), position, content.as_deref()), |changed| {
            Reply::plain((changed.count, changed.next))
        })
    }

    fn clear_messages(&self, py: Python<'_>, transcript: TranscriptName, branch: Option<u64>) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.clear_messages(transcript.get(), branch), |changed| {
            Reply::plain((changed.count, changed.next))
        })
    }

    fn set_title(&self, py: Python<'_>, transcript: TranscriptName, title: Option<String>) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.set_title(transcript.get(), title.as_deref()), |state| {
            Reply::plain(state.title)
        })
    }

    fn set_settings(
        &self,
        py: Python<'_>,
        transcript: TranscriptName,
        max_context_tokens: Option<u64>,
        context_window: Option<u64>,
        reserve_tokens: Option<u64>,
        model: Option<String>,
    ) -> PyResult<Call> {
        let settings = TranscriptSettings { max_context_tokens, context_window, reserve_tokens, model };
        call!(self, py, |sessions| sessions.set_settings(transcript.get(), &settings), |settings| {
            Reply::new(move |py| transcript_settings(py, settings))
        })
    }

    fn register(&self, py: Python<'_>, transcript: TranscriptName, user: Option<String>) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.register(transcript.get(), user.as_deref()), |registered| {
            Reply::plain(registered.owner)
        })
    }

    fn user_values(&self, py: Python<'_>, user: String) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.user_values(&user, None), |list| values_reply(list))
    }

    fn put_user_value(&self, py: Python<'_>, user: String, key: String, value: Option<String>) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.put_user_value(&user, &key, value.as_deref()), |changed| {
            Reply::plain(changed.existed)
        })
    }

    fn user_sessions(&self, py: Python<'_>, user: String, before: Option<u64>, limit: u32) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.user_sessions(&user, before, limit), |list| Reply::new(move |py| {
            let sessions = list.sessions.into_iter().map(|summary| session_summary(py, summary));
            Ok(dict!(py; "sessions": sessions.collect::<PyResult<Vec<_>>>()?, "older": list.older))
        }))
    }

    fn search_user(
        &self,
        py: Python<'_>,
        user: String,
        words: String,
        after: Option<String>,
        limit: u32,
    ) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.search_user(&user, &words, after.as_deref(), limit), |search| {
            Reply::new(move |py| {
                let found = search.found.into_iter().map(|found| found_message(py, found));
                Ok(dict!(py; "found": found.collect::<PyResult<Vec<_>>>()?, "next": search.next))
            })
        })
    }

    fn forget_user(&self, py: Python<'_>, user: String) -> PyResult<Call> {
        call!(self, py, |sessions| sessions.forget_user(&user), |forgotten| Reply::new(move |py| {
            Ok(dict!(py; "sessions": forgotten.sessions, "nodes": forgotten.nodes, "remaining": forgotten.remaining))
        }))
    }
}

/// The name of a user's bucket, as a transcript's state has its owner.
#[pyfunction]
pub fn user_bucket(user: &str) -> String {
    keepline::sessions::user_bucket(user)
}

fn state_reply(state: SessionState) -> Reply {
    Reply::new(move |py| {
        Ok(dict!(py; "generation": state.generation, "key_count": state.key_count,
            "history_length": state.history_length, "created_at": state.created_at, "expires_in": state.expires_in))
    })
}

fn values_reply(list: ValueList) -> Reply {
    Reply::new(move |py| {
        let values = PyDict::new(py);
        for found in &list.values {
            values.set_item(&found.key, json::read(py, &found.value)?)?;
        }
        Ok(values)
    })
}

fn history_record(py: Python<'_>, record: HistoryRecord) -> PyResult<Bound<'_, PyDict>> {
    let summary = record.summary.map(|summary| {
        let operations: Vec<(String, u64)> =
            summary.operations.into_iter().map(|counted| (counted.name, counted.count)).collect();
        PyResult::Ok(dict!(py; "count": summary.count, "operations": operations, "keys": summary.keys))
    });
    Ok(dict!(py; "operation": record.operation, "key": record.key, "cleared": record.cleared,
        "summary": summary.transpose()?, "at": record.at))
}

fn transcript_settings(py: Python<'_>, settings: TranscriptSettings) -> PyResult<Bound<'_, PyDict>> {
    Ok(dict!(py; "max_context_tokens": settings.max_context_tokens, "context_window": settings.context_window,
        "reserve_tokens": settings.reserve_tokens, "model": settings.model))
}

fn transcript_state(py: Python<'_>, state: TranscriptState) -> PyResult<Bound<'_, PyDict>> {
    Ok(dict!(py; "generation": state.generation, "owner": state.owner, "title": state.title,
        "settings": transcript_settings(py, state.settings)?, "summary": state.summary, "summary_to": state.summary_to,
        "oldest": state.oldest, "next": state.next, "weight": state.weight, "bytes": state.bytes,
        "answers": state.answers, "created_at": state.created_at, "last_at": state.last_at,
        "expires_in": state.expires_in))
}

fn stored_message(py: Python<'_>, message: Message) -> PyResult<Bound<'_, PyDict>> {
    let tool = message.tool.map(|tool| {
        PyResult::Ok(dict!(py; "call_id": tool.call_id, "name": tool.name, "arguments": tool.arguments,
            "error": tool.error))
    });
    let extras = PyDict::new(py);
    for member in message.extras.iter().flatten() {
        extras.set_item(&member.name, json::read(py, &member.value)?)?;
    }
    Ok(dict!(py; "position": message.position, "id": message.id, "parent": message.parent, "turn": message.turn,
        "role": message.role, "kind": message.kind, "at": message.at, "tokens": message.tokens,
        "content": message.content, "tool": tool.transpose()?, "extras": extras))
}

type Item<'py> = (String, String, Option<Bound<'py, PyAny>>, bool, u64);

fn item(py: Python<'_>, message: Message) -> PyResult<Item<'_>> {
    let mut extras = message.extras.iter().flatten();
    let raw = json::read_optional(py, extras.find(|member| member.name == "raw").map(|member| member.value.as_str()))?;
    Ok((message.role, message.content, raw, message.kind == "message", message.position))
}

fn session_summary(py: Python<'_>, summary: SessionSummary) -> PyResult<Bound<'_, PyDict>> {
    Ok(dict!(py; "session": summary.session, "title": summary.title, "created_at": summary.created_at,
        "last_at": summary.last_at, "preview": summary.preview, "records": summary.records))
}

fn found_message(py: Python<'_>, found: FoundMessage) -> PyResult<Bound<'_, PyDict>> {
    Ok(dict!(py; "session": found.session, "title": found.title, "message": stored_message(py, found.message)?))
}
