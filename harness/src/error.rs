//! From what went wrong to an exit code, and to a code for scripts.

use std::{fmt, io, process::ExitCode};

use keepline::{KeeplineError, PluginError, config::ConfigError, sessions::SessionError, store::RedisOptionsError};

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
        let is_configuration = cause.is::<Usage>() || cause.is::<ConfigError>() || cause.is::<RedisOptionsError>();
        if is_configuration || matches!(cause.downcast_ref(), Some(KeeplineError::Config { .. })) {
            return ExitCode::from(2);
        }
        if cause.is::<PluginError>() || cause.is::<KeeplineError>() {
            return ExitCode::from(3);
        }
    }
    ExitCode::FAILURE
}

/// Whether it only says that nobody reads standard output any more.
pub fn is_closed_output(error: &anyhow::Error) -> bool {
    let is_pipe = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_pipe))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_code_of_its_kind() {
        for (error, code) in [
            (anyhow::Error::from(Usage("u".to_owned())).context("c"), "usage"),
            (ConfigError::Profile { given: "x".to_owned() }.into(), "configuration"),
            (KeeplineError::Config { field: "f".to_owned(), message: "m".to_owned() }.into(), "configuration"),
            (Coded { code: "interrupted", message: "m".to_owned() }.into(), "interrupted"),
            (anyhow::anyhow!("x"), "failed"),
        ] {
            assert_eq!(error_code(&error), code);
        }
    }
}
