//! From what went wrong to an exit code, and to a code for scripts.

use std::{fmt, io, process::ExitCode, sync::OnceLock};

use keepline::{
    KeeplineError, PluginError,
    config::{ConfigError, StoreError},
    sessions::{SessionError, SessionErrorCode},
    store::{DirectoryError, Failure, RedisOptionsError},
};

/// The command line asks for something that can't be.
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Something of this command line's own that scripts may want to tell apart.
#[derive(Debug)]
pub struct Coded {
    /// For scripts.
    pub code: &'static str,
    /// For people.
    pub message: String,
}

impl fmt::Display for Coded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Coded {}

/// What kind of error it is, for scripts; see `--help` of a command that has `--json`.
pub fn error_code(error: &anyhow::Error) -> String {
    for cause in error.chain() {
        if let Some(Coded { code, .. }) = cause.downcast_ref() {
            return (*code).to_owned();
        }
        if let Some(SessionError { code, .. }) = cause.downcast_ref() {
            return code.to_string();
        }
        if matches!(cause.downcast_ref(), Some(KeeplineError::StoreUnusable(_))) {
            return "store".to_owned();
        }
        if cause.is::<Usage>() {
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

/// The exit code that goes with an error; see [`crate::cli::EXIT_CODES`].
pub fn exit_code(error: &anyhow::Error) -> ExitCode {
    for cause in error.chain() {
        let is_configuration = cause.is::<Usage>()
            || cause.is::<ConfigError>()
            || cause.is::<RedisOptionsError>()
            || match cause.downcast_ref() {
                Some(StoreError::Directory(error)) => is_choice(error),
                Some(StoreError::Redis(_)) => true,
                None => cause.downcast_ref().is_some_and(is_choice),
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

/// Whether another choice of a directory is the answer, not to wait for it or to repair it.
fn is_choice(error: &DirectoryError) -> bool {
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

/// Where the store of this command is, for people: what a failure of the store says itself may be read by a component, and
/// so names no address.
static STORE_PLACE: OnceLock<String> = OnceLock::new();

/// From here on, failures of the store are reported with this place.
pub fn note_store_place(place: String) {
    // Of several, as in a migration, each is named where it fails.
    let _ = STORE_PLACE.set(place);
}

/// An error as it is reported: with its causes, and with the store's place where it is the store that failed.
pub fn reported(error: &anyhow::Error) -> String {
    let told = told(error);
    match STORE_PLACE.get().filter(|_| is_the_store_s(error)) {
        Some(place) => format!("{told} ({place})"),
        None => told,
    }
}

fn is_the_store_s(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let of_session = cause.downcast_ref().and_then(|SessionError { code, .. }| match code {
            SessionErrorCode::Store(code) => Some(*code),
            _ => None,
        });
        let of_keepline = cause.downcast_ref().and_then(|error| match error {
            KeeplineError::StoreUnusable(Failure { code, .. }) => Some(*code),
            _ => None,
        });
        let own = cause.downcast_ref().map(|Failure { code, .. }| *code);
        of_session.or(of_keepline).or(own).is_some_and(|code| code.is_the_store_s())
    })
}

/// An error with its causes, on one line. One that tells its cause itself does not tell it twice.
pub fn told(error: &anyhow::Error) -> String {
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

/// Whether it only says that nobody reads standard output any more.
pub fn is_closed_output(error: &anyhow::Error) -> bool {
    let is_pipe = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_pipe))
}

#[cfg(test)]
mod tests {
    use keepline::store::{Failure, FailureCode};

    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let source = io::Error::other("no such thing");
        let error = anyhow::Error::from(DirectoryError::Unusable { path: "p".into(), source }).context("c");
        assert_eq!(told(&error), "c: the directory p can't be used: no such thing");
        assert_eq!(told(&anyhow::anyhow!("inner").context("outer")), "outer: inner");
    }

    #[test]
    fn an_error_has_the_code_of_its_kind() {
        for (error, code) in [
            (anyhow::Error::from(Usage("u".to_owned())).context("c"), "usage"),
            (ConfigError::Profile { given: "x".to_owned() }.into(), "configuration"),
            (KeeplineError::Config { field: "f".to_owned(), message: "m".to_owned() }.into(), "configuration"),
            (KeeplineError::StoreUnusable(Failure::new(FailureCode::TimedOut, "", "m")).into(), "store"),
            (Coded { code: "interrupted", message: "m".to_owned() }.into(), "interrupted"),
            (DirectoryError::Foreign.into(), "configuration"),
            (StoreError::from(DirectoryError::Full).into(), "failed"),
            (anyhow::anyhow!("x"), "failed"),
        ] {
            assert_eq!(error_code(&error), code);
        }
    }
}
