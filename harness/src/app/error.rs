//! Maps errors to exit codes, to codes for scripts, and to one line for people.

use std::{io, process::ExitCode, sync::OnceLock};

use keepline::{
    KeeplineError, PluginError,
    config::{ConfigError, StoreError},
    pipelines::{Finding, PipelineError, PipelineErrorCode},
    sessions::{SessionError, SessionErrorCode},
    store::{DirectoryError, Failure, RedisOptionsError},
};
use serde_json::{Value, json};

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// An error with a code of its own for scripts.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CodedError {
    pub code: &'static str,
    pub message: String,
}

pub fn usage_error(message: impl Into<String>) -> anyhow::Error {
    UsageError(message.into()).into()
}

pub fn coded_error(code: &'static str, message: impl Into<String>) -> anyhow::Error {
    CodedError { code, message: message.into() }.into()
}

/// The code of an error for scripts; `--help` of a command with `--json` lists them.
pub fn error_code(error: &anyhow::Error) -> String {
    for cause in error.chain() {
        if let Some(CodedError { code, .. }) = cause.downcast_ref() {
            return (*code).to_owned();
        }
        if let Some(SessionError { code, .. }) = cause.downcast_ref() {
            return code.to_string();
        }
        if let Some(PipelineError { code, .. }) = cause.downcast_ref() {
            return code.to_string();
        }
        if matches!(cause.downcast_ref(), Some(KeeplineError::StoreUnusable(_))) {
            return "store".to_owned();
        }
        if cause.is::<UsageError>() {
            return "usage".to_owned();
        }
    }
    let code = match exit_code(error) {
        code if code == ExitCode::from(2) => "configuration",
        code if code == ExitCode::from(3) => "plugin",
        _ => "failed",
    };
    code.to_owned()
}

/// Of an error in a definition or request, where it is, and all errors there.
pub fn error_details(error: &anyhow::Error) -> Vec<(&'static str, Value)> {
    let Some(PipelineError { path, findings, .. }) = error.chain().find_map(|cause| cause.downcast_ref()) else {
        return Vec::new();
    };
    let mut details = vec![("path", json!(path))];
    if !findings.is_empty() {
        let finding = |finding: &Finding| json!({"path": finding.path, "message": finding.message});
        details.push(("errors", findings.iter().map(finding).collect()));
    }
    details
}

/// The exit code of an error; see [`crate::args::EXIT_CODES`].
pub fn exit_code(error: &anyhow::Error) -> ExitCode {
    for cause in error.chain() {
        let is_configuration = cause.is::<UsageError>()
            || cause.is::<ConfigError>()
            || cause.is::<RedisOptionsError>()
            || match cause.downcast_ref() {
                Some(StoreError::Directory(error)) => needs_other_directory(error),
                Some(StoreError::Redis(_)) => true,
                None => cause.downcast_ref().is_some_and(needs_other_directory),
            };
        if is_configuration || matches!(cause.downcast_ref(), Some(KeeplineError::Config { .. })) {
            return ExitCode::from(2);
        }
        if matches!(cause.downcast_ref(), Some(KeeplineError::StoreUnusable(_))) {
            return ExitCode::FAILURE;
        }
        if cause.is::<PluginError>() || cause.is::<KeeplineError>() {
            return ExitCode::from(3);
        }
    }
    ExitCode::FAILURE
}

/// Whether the remedy is to choose another directory, not to wait for it or repair it.
fn needs_other_directory(error: &DirectoryError) -> bool {
    matches!(
        error,
        DirectoryError::Unusable { .. }
            | DirectoryError::ReadOnly
            | DirectoryError::Foreign
            | DirectoryError::Newer { .. }
            | DirectoryError::NetworkFileSystem { .. }
            | DirectoryError::Missing { .. }
            | DirectoryError::Occupied { .. }
    )
}

/// The store's address, for people. The store's own errors name none, since a component may read them.
static STORE_ADDRESS: OnceLock<String> = OnceLock::new();

/// Reports failures of the store with this address from now on.
pub fn set_store_address(place: String) {
    // With several stores, as in a migration, each failure names its own.
    let _ = STORE_ADDRESS.set(place);
}

/// The error with its causes, and with the store's address if the store failed.
pub fn format_with_store_address(error: &anyhow::Error) -> String {
    let told = format_with_causes(error);
    match STORE_ADDRESS.get().filter(|_| is_store_failure(error)) {
        Some(place) => format!("{told} ({place})"),
        None => told,
    }
}

fn is_store_failure(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let of_session = cause.downcast_ref().and_then(|SessionError { code, .. }| match code {
            SessionErrorCode::Store(code) => Some(*code),
            _ => None,
        });
        let of_keepline = cause.downcast_ref().and_then(|error| match error {
            KeeplineError::StoreUnusable(Failure { code, .. }) => Some(*code),
            _ => None,
        });
        let of_pipelines = cause.downcast_ref().and_then(|PipelineError { code, .. }| match code {
            PipelineErrorCode::Store(code) => Some(*code),
            _ => None,
        });
        let own = cause.downcast_ref().map(|Failure { code, .. }| *code);
        of_session.or(of_pipelines).or(of_keepline).or(own).is_some_and(|code| code.is_store_failure())
    })
}

/// The error with its causes, on one line; a cause that is part of the message is not repeated.
pub fn format_with_causes(error: &anyhow::Error) -> String {
    let mut told = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !told.ends_with(&cause) {
            if !told.is_empty() {
                told.push_str(": ");
            }
            told.push_str(&cause);
        }
    }
    told
}

/// Whether the only problem is that the reader of standard output is gone.
pub fn is_closed_output(error: &anyhow::Error) -> bool {
    let is_pipe = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_pipe))
}

#[cfg(test)]
mod tests {
    use keepline::store::{Failure, FailureCode};

    use super::*;

    #[test]
    fn a_cause_is_reported_once() {
        let source = io::Error::other("no such thing");
        let error = anyhow::Error::from(DirectoryError::Unusable { path: "p".into(), source }).context("c");
        assert_eq!(format_with_causes(&error), "c: the directory p can't be used: no such thing");
        assert_eq!(format_with_causes(&anyhow::anyhow!("inner").context("outer")), "outer: inner");
    }

    #[test]
    fn an_error_has_the_code_of_its_kind() {
        for (error, code) in [
            (anyhow::Error::from(UsageError("u".to_owned())).context("c"), "usage"),
            (ConfigError::Profile { given: "x".to_owned() }.into(), "configuration"),
            (KeeplineError::Config { field: "f".to_owned(), message: "m".to_owned() }.into(), "configuration"),
            (KeeplineError::StoreUnusable(Failure::new(FailureCode::TimedOut, "", "m")).into(), "store"),
            (CodedError { code: "interrupted", message: "m".to_owned() }.into(), "interrupted"),
            (DirectoryError::Foreign.into(), "configuration"),
            (StoreError::from(DirectoryError::Full).into(), "failed"),
            (anyhow::anyhow!("x"), "failed"),
        ] {
            assert_eq!(error_code(&error), code);
        }
    }
}
