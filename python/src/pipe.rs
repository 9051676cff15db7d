//! Pipes: questions and answers on their way.

use std::sync::Arc;

use keepline::{
    Keepline, Pipe,
    pipe::{Answer, AnswerStatus, Passed as PassedEntry, Question, ToolActivity},
};
use pyo3::{prelude::*, types::PyDict};
use tokio::sync::Mutex;

use crate::{
    bridge::{call::Call, failure::Failure, runtime::OwnedByProcess},
    convert::{Reply, arguments::deadline, dict, json},
    maintenance::Task,
};

/// A pipe. Calls on it are done one after another, in the order in which they begin.
#[pyclass(module = "keepline._keepline", frozen)]
pub struct NativePipe {
    pipe: OwnedByProcess<Arc<Mutex<Pipe>>>,
}

impl NativePipe {
    pub fn new(keepline: &Keepline) -> Self {
        Self { pipe: OwnedByProcess::new(Arc::new(Mutex::new(keepline.pipe()))) }
    }

    fn pipe(&self) -> Result<Arc<Mutex<Pipe>>, Failure> {
        self.pipe.get().cloned()
    }
}

#[pymethods]
impl NativePipe {
    #[pyo3(signature = (text, metadata, message_id, tokens, timeout))]
    fn ask(
        &self,
        py: Python<'_>,
        text: String,
        metadata: String,
        message_id: Option<String>,
        tokens: Option<u32>,
        timeout: Option<f64>,
    ) -> PyResult<Call> {
        let fail = |failure: Failure| failure.into_error(py);
        let (pipe, by) = (self.pipe().map_err(fail)?, deadline(timeout).map_err(fail)?);
        Ok(Call::new(async move {
            let question = Question {
                text: &text,
                metadata: &metadata,
                message_id: message_id.as_deref(),
                tokens,
                ..Question::default()
            };
            let passed = pipe.lock().await.ask(question, by).await?;
            Ok(Passed::reply(passed, metadata))
        }))
    }

    #[pyo3(signature = (text, metadata, message_id, question_text, activity, is_complete, question_tokens, tokens, details, timeout))]
    #[allow(clippy::too_many_arguments, reason = "an answer's")]
    fn reply(
        &self,
        py: Python<'_>,
        text: String,
        metadata: String,
        message_id: Option<String>,
        question_text: Option<String>,
        activity: Vec<Activity>,
        is_complete: bool,
        question_tokens: Option<u32>,
        tokens: Option<u32>,
        details: String,
        timeout: Option<f64>,
    ) -> PyResult<Call> {
        let fail = |failure: Failure| failure.into_error(py);
        let (pipe, by) = (self.pipe().map_err(fail)?, deadline(timeout).map_err(fail)?);
        let activity: Vec<ToolActivity> = activity.into_iter().map(|Activity(activity)| activity).collect();
        Ok(Call::new(async move {
            let answer = Answer {
                text: &text,
                metadata: &metadata,
                message_id: message_id.as_deref(),
                question_text: question_text.as_deref(),
                activity: &activity,
                status: if is_complete { AnswerStatus::Complete } else { AnswerStatus::Incomplete },
                question_tokens,
                tokens,
                details: &details,
            };
            let passed = pipe.lock().await.reply(answer, by).await?;
            Ok(Passed::reply(passed, metadata))
        }))
    }

    fn tool(&self, py: Python<'_>, activity: Activity, metadata: String) -> PyResult<Call> {
        let pipe = self.pipe().map_err(|failure| failure.into_error(py))?;
        Ok(Call::new(async move { Ok(Reply::plain(pipe.lock().await.tool_of(activity.0, &metadata))) }))
    }

    fn open(&self, py: Python<'_>, metadata: String) -> PyResult<Call> {
        let pipe = self.pipe().map_err(|failure| failure.into_error(py))?;
        Ok(Call::new(async move {
            pipe.lock().await.open_of(&metadata);
            Ok(Reply::none())
        }))
    }
}

/// What a tool did: a dictionary, JSON texts in it.
struct Activity(ToolActivity);

impl<'a, 'py> FromPyObject<'a, 'py> for Activity {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let given = given.cast::<PyDict>()?;
        let field = |name: &str| -> PyResult<Option<String>> {
            given.get_item(name)?.filter(|value| !value.is_none()).map(|value| value.extract()).transpose()
        };
        Ok(Self(ToolActivity {
            call_id: field("call_id")?.unwrap_or_default(),
            name: field("name")?.unwrap_or_default(),
            arguments: field("arguments")?,
            output: field("output")?,
            error: field("error")?,
            details: field("details")?.unwrap_or_default(),
        }))
    }
}

/// What the filter made of an entry.
#[pyclass(module = "keepline", frozen)]
pub struct Passed {
    passed: PassedEntry,
    own: String,
}

impl Passed {
    fn reply(passed: PassedEntry, own: String) -> Reply {
        Reply::new(move |py| Bound::new(py, Self { passed, own }))
    }
}

#[pymethods]
impl Passed {
    #[getter]
    fn effect(&self) -> &'static str {
        self.passed.effect.name()
    }

    #[getter]
    fn metadata_json(&self) -> &str {
        self.passed.metadata.as_deref().unwrap_or(&self.own)
    }

    #[getter]
    fn is_changed(&self) -> bool {
        self.passed.metadata.is_some()
    }

    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::read(py, self.metadata_json())
    }

    #[getter]
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let metadata = self.metadata(py)?;
        let Ok(metadata) = metadata.cast::<PyDict>() else { return Ok(pyo3::types::PyList::empty(py).into_any()) };
        let messages = metadata.get_item("memory_messages")?;
        Ok(messages.unwrap_or_else(|| pyo3::types::PyList::empty(py).into_any()))
    }

    #[getter]
    fn attached(&self) -> u32 {
        self.passed.attached
    }

    #[getter]
    fn has_vector(&self) -> bool {
        self.passed.has_vector
    }

    #[getter]
    fn due(&self) -> Vec<Task> {
        self.passed.due.iter().cloned().map(Task::of).collect()
    }

    #[getter]
    fn problem<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let shown = |problem: &keepline::pipe::Problem| {
            Ok(dict!(py; "code": problem.code.to_string(), "message": &problem.message))
        };
        self.passed.problem.as_ref().map(shown).transpose()
    }

    fn __repr__(&self) -> String {
        let Self { passed, .. } = self;
        let problem =
            passed.problem.as_ref().map_or(String::new(), |problem| format!(", problem={:?}", problem.message));
        format!("Passed(effect={:?}, attached={}{problem})", passed.effect.name(), passed.attached)
    }
}
