//! Arguments of calls.

use std::time::Duration;

use keepline::sessions::Message;
use keepline::{
    Deadline,
    sessions::{ToolPart, Transcript},
};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};

use crate::bridge::failure::Failure;

/// Seconds, as Python counts time. None stays none; infinite is never.
///
/// # Errors
/// For a number that is no time.
pub fn deadline(seconds: Option<f64>) -> Result<Option<Deadline>, Failure> {
    match seconds {
        None => Ok(None),
        Some(seconds) if seconds.is_infinite() && seconds > 0.0 => Ok(Some(Deadline::NEVER)),
        Some(seconds) => Duration::try_from_secs_f64(seconds).map(|time| Some(Deadline::after(time))).map_err(|_| {
            Failure::invalid("timeout", format!("timeout is a number of seconds from 0 on, not {seconds}"))
        }),
    }
}

/// A session's transcript, or that of one of its nodes.
#[derive(FromPyObject)]
pub struct TranscriptName(String, Option<String>, Option<String>);

impl TranscriptName {
    pub fn get(&self) -> Transcript<'_> {
        let Self(session, app_id, node_id) = self;
        Transcript { session, app_id: app_id.as_deref(), node_id: node_id.as_deref() }
    }
}

/// A message to store: JSON as chat APIs write it, or a record with all its fields.
pub enum GivenMessage {
    Chat(String),
    Record(Message),
}

impl<'a, 'py> FromPyObject<'a, 'py> for GivenMessage {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = given.extract::<String>() {
            return Ok(Self::Chat(text));
        }
        let given = given.cast::<PyDict>()?;
        record(&given).map(Self::Record)
    }
}

fn record(given: &Bound<'_, PyDict>) -> PyResult<Message> {
    fn field<'py, T: for<'a> FromPyObject<'a, 'py>>(given: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<T>> {
        let Some(value) = given.get_item(name)?.filter(|value| !value.is_none()) else { return Ok(None) };
        let wrong = |_| PyValueError::new_err(format!("a message's {name} has another type"));
        value.extract().map(Some).map_err(wrong)
    }
    let text = |name: &str| -> PyResult<String> { Ok(field(given, name)?.unwrap_or_default()) };
    let extras: Option<Vec<(String, String)>> = field(given, "extras")?;
    let member = |(name, value)| keepline_member(name, value);
    let tool: Option<Bound<'_, PyDict>> = field(given, "tool")?;
    let tool = tool
        .map(|tool| {
            PyResult::Ok(ToolPart {
                call_id: field(&tool, "call_id")?.unwrap_or_default(),
                name: field(&tool, "name")?.unwrap_or_default(),
                arguments: field(&tool, "arguments")?,
                error: field(&tool, "error")?,
            })
        })
        .transpose()?;
    Ok(Message {
        position: 0,
        id: text("id")?,
        parent: text("parent")?,
        turn: text("turn")?,
        role: text("role")?,
        kind: text("kind")?,
        at: field(given, "at")?.unwrap_or_default(),
        tokens: field(given, "tokens")?,
        content: text("content")?,
        tool,
        extras: extras.map(|extras| extras.into_iter().map(member).collect()),
    })
}

fn keepline_member(name: String, value: String) -> keepline::sessions::Member {
    keepline::sessions::Member { name, value }
}
