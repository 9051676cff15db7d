//! Failures of the library as Python's exceptions: the class by their kind, with the library's code and message.

use keepline::{
    EntryError, KeeplineError, PluginError, SessionError,
    config::{ConfigError, StoreError},
    pipelines::{Finding, PipelineError},
    sessions::SessionErrorCode,
};
use pyo3::{prelude::*, sync::PyOnceLock, types::PyDict};

/// Which class of `keepline._errors` it is.
#[derive(Clone, Copy)]
enum Class {
    Keepline,
    Config,
    Entry,
    Session,
    Pipeline,
}

impl Class {
    fn name(self) -> &'static str {
        match self {
            Self::Keepline => "KeeplineError",
            Self::Config => "ConfigError",
            Self::Entry => "EntryError",
            Self::Session => "SessionError",
            Self::Pipeline => "PipelineError",
        }
    }
}

/// Why a call failed.
pub struct Failure {
    class: Class,
    code: String,
    message: String,
    /// More that the class has: the option, or where in a definition.
    subject: Option<String>,
    findings: Vec<Finding>,
}

impl Failure {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self::of(Class::Keepline, code, message.into())
    }

    /// An argument that this layer reads itself.
    pub fn invalid(argument: &str, message: impl Into<String>) -> Self {
        Self { subject: Some(argument.to_owned()), ..Self::of(Class::Config, "config", message.into()) }
    }

    fn of(class: Class, code: &str, message: String) -> Self {
        Self { class, code: code.to_owned(), message, subject: None, findings: Vec::new() }
    }

    pub fn into_error(self, py: Python<'_>) -> PyErr {
        self.to_exception(py).map_or_else(|error| error, PyErr::from_value)
    }

    fn to_exception<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
        let errors = ERRORS.get_or_try_init(py, || py.import("keepline._errors").map(Bound::unbind))?;
        let class = errors.bind(py).getattr(self.class.name())?;
        let error = class.call1((&self.message, &self.code))?;
        match self.class {
            Class::Config => error.setattr("option", self.subject.as_deref().filter(|option| !option.is_empty()))?,
            Class::Pipeline => {
                error.setattr("path", self.subject.as_deref().unwrap_or_default())?;
                let findings = self.findings.iter().map(|finding| {
                    let shown = PyDict::new(py);
                    shown.set_item("path", &finding.path)?;
                    shown.set_item("is_error", finding.is_error)?;
                    shown.set_item("message", &finding.message)?;
                    Ok(shown)
                });
                error.setattr("findings", findings.collect::<PyResult<Vec<_>>>()?)?;
            }
            Class::Keepline | Class::Entry | Class::Session => {}
        }
        Ok(error)
    }
}

impl From<KeeplineError> for Failure {
    fn from(error: KeeplineError) -> Self {
        let message = error.to_string();
        match error {
            KeeplineError::Config { field, .. } => {
                Self { subject: Some(field), ..Self::of(Class::Config, "config", message) }
            }
            KeeplineError::StoreUnusable(failure) => Self::new(failure.code.name(), message),
            KeeplineError::Store(_) => Self::new("store", message),
            _ => Self::new("plugin", message),
        }
    }
}

impl From<PluginError> for Failure {
    fn from(error: PluginError) -> Self {
        Self::new("plugin", error.to_string())
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::of(Class::Config, "config", error.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new("store", error.to_string())
    }
}

impl From<EntryError> for Failure {
    fn from(error: EntryError) -> Self {
        Self::of(Class::Entry, &error.code.to_string(), error.message)
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        // The store's own word says more than `store`.
        let code = match error.code {
            SessionErrorCode::Store(code) => code.name().to_owned(),
            code => code.to_string(),
        };
        Self::of(Class::Session, &code, error.message)
    }
}

impl From<PipelineError> for Failure {
    fn from(error: PipelineError) -> Self {
        let mut failure = Self::of(Class::Pipeline, &error.code.to_string(), error.to_string());
        failure.subject = Some(error.path);
        failure.findings = error.findings;
        failure
    }
}
