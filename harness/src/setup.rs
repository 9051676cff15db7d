//! From flags to a running Keepline, and from what went wrong to an exit code.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context, Result};
use keepline::{
    Keepline, KeeplineError, Plugin, PluginError,
    config::{Config, ConfigError, FIELDS, Origin, Sources},
    sessions::SessionError,
    store::{MemoryStore, RedisOptionsError, Store},
};

use crate::{
    cli::{Global, MigrateArguments},
    terminal,
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
        if let Some(SessionError { code: Some(code), .. }) = cause.downcast_ref() {
            return kebab(&format!("{code:?}"));
        }
        if cause.is::<SessionError>() {
            return "plugin".to_owned();
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

/// A name of the contract as its WIT spells it, from Rust's spelling of it.
fn kebab(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for c in name.rsplit("::").next().unwrap_or_default().chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
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

/// The configuration that the flags, the environment and the file make together. Warnings are told.
pub fn config(global: &Global) -> Result<Config> {
    resolve(sources(global)?)
}

/// Where `keepline migrate` copies to: the configuration with some fields set otherwise, or one of its own.
pub fn target_config(global: &Global, arguments: &MigrateArguments) -> Result<Config> {
    let mut sources = match &arguments.to_config {
        Some(path) => Sources::default().with_file(path)?,
        None => sources(global)?.with_environment(std::env::vars_os())?,
    };
    sources.set.extend(arguments.to.iter().cloned());
    Ok(Config::resolve(sources)?)
}

fn sources(global: &Global) -> Result<Sources> {
    let mut sources = Sources { set: global.set.clone(), ..Sources::default() };
    sources.profile = global.profile.clone().map(|name| (name, Origin::CommandLine));
    match file(global.config.as_deref(), "KEEPLINE_CONFIG") {
        Some(path) => Ok(sources.with_file(&path)?),
        None => Ok(sources),
    }
}

fn resolve(sources: Sources) -> Result<Config> {
    let config = Config::resolve(sources.with_environment(std::env::vars_os())?)?;
    for warning in &config.warnings {
        terminal::warning(warning);
    }
    Ok(config)
}

/// The file of a flag, else of its variable in the environment. An empty variable stands for none.
fn file(flag: Option<&Path>, variable: &str) -> Option<PathBuf> {
    let of_environment = || std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    flag.map(Path::to_owned).or_else(of_environment)
}

/// The file of another component than the bundled one.
pub fn plugin_file(global: &Global) -> Option<PathBuf> {
    file(global.plugin.as_deref(), "KEEPLINE_PLUGIN")
}

/// The component: that of `--plugin`, or the bundled one.
pub fn plugin(global: &Global, config: &Config) -> Result<Plugin> {
    let sandbox = config.sandbox();
    Ok(match plugin_file(global) {
        Some(path) => Plugin::from_file(&path, &sandbox)
            .with_context(|| format!("{} can't be loaded; `keepline inspect` shows details", path.display()))?,
        None => Plugin::bundled(&sandbox)?,
    })
}

/// All of it, ready for entries.
pub async fn keepline(plugin: Plugin, config: &Config) -> Result<Keepline> {
    let made = Keepline::new(plugin.clone(), config.store()?, config.options()).await;
    match made {
        Err(KeeplineError::Config { field, message }) => Err(explained(plugin, config, field, message).await.into()),
        other => Ok(other?),
    }
}

/// A field that the filter refuses may be one that it does not know; then it was perhaps meant for the
/// host, whose fields the filter can't tell.
async fn explained(plugin: Plugin, config: &Config, field: String, message: String) -> KeeplineError {
    let origin = config.origin(&field);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let untouched = Keepline::new(plugin, store, keepline::Options::default()).await;
    let known = untouched.ok().and_then(|keepline| {
        serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&keepline.filter_options()).ok()
    });
    let is_unknown = known.is_some_and(|known| !known.contains_key(&field)) && !field.is_empty();
    let message = if is_unknown {
        let host: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
        format!("{message} ({origin}). The host's fields are {}", host.join(", "))
    } else {
        format!("{message} ({origin})")
    };
    KeeplineError::Config { field, message }
}

/// A runtime for commands that do one thing after another.
pub fn single_runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("can't start the runtime")
}

#[cfg(test)]
mod tests {
    use keepline::sessions::SessionProblemCode;

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

    #[test]
    fn codes_of_sessions_are_spelled_as_in_the_contract() {
        for (code, spelled) in [
            (SessionProblemCode::NotACounter, "not-a-counter"),
            (SessionProblemCode::TooManySessions, "too-many-sessions"),
            (SessionProblemCode::Store, "store"),
        ] {
            assert_eq!(kebab(&format!("{code:?}")), spelled);
        }
    }
}
