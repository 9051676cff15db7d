//! Resolves the configuration from flags, the environment and the configuration file.

use std::path::{Path, PathBuf};

use anyhow::Result;
use keepline::config::{Config, Origin, Sources};

use super::{
    error::{self, UsageError, usage_error},
    runtime,
};
use crate::{args::GlobalArguments, terminal};

/// Resolves the configuration from the flags, the environment and the file, and prints its warnings.
pub fn load_config(global: &GlobalArguments) -> Result<Config> {
    load_config_with(global, &[])
}

/// As [`load_config`], with fields set by the command.
pub fn load_config_with(global: &GlobalArguments, fields: &[(&str, &str)]) -> Result<Config> {
    let mut sources = config_sources(global)?;
    sources.set.extend(fields.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())));
    let config = Config::resolve(sources.with_environment(std::env::vars_os())?)?;
    for warning in &config.warnings {
        terminal::print_warning(warning);
    }
    if let Some(place) = store_address(&config) {
        error::set_store_address(place);
    }
    let config = with_settled_key_prefix(config)?;
    let (profile, origin) = (config.profile.name(), &config.profile_origin);
    tracing::debug!(target: "keepline", "profile {profile} ({origin}); the store is {}", config.store_name);
    Ok(config)
}

/// Refuses to delete from a store other than the one that the command line names.
pub fn refuse_replaced_store(global: &GlobalArguments) -> Result<()> {
    let Some(replaced) = quiet_config(global)?.replaced_store else { return Ok(()) };
    let arguments = replaced.used.arguments();
    Err(usage_error(format!("{replaced}. This command deletes: name the store that you mean, for example {arguments}")))
}

/// The target of `keepline migrate`: the source's configuration with other fields, or that of a file.
pub fn target_config(
    global: &GlobalArguments,
    fields: &[(String, String)],
    directory: Option<&Path>,
    file: Option<&Path>,
) -> Result<Config> {
    let mut sources = match file {
        Some(path) => Sources::default().with_file(path)?,
        None => config_sources(global)?.with_environment(std::env::vars_os())?,
    };
    if let Some(directory) = directory {
        sources.set.extend(directory_fields("--to-dir", directory, "--to", fields)?);
    }
    sources.set.extend(fields.iter().cloned());
    with_settled_key_prefix(Config::resolve(sources)?)
}

fn config_sources(global: &GlobalArguments) -> Result<Sources> {
    let mut sources = Sources::default();
    if let Some(directory) = &global.dir {
        sources.set = directory_fields("--dir", directory, "--set", &global.set)?.to_vec();
    }
    sources.set.extend(global.set.iter().cloned());
    sources.profile = global.profile.clone().map(|name| (name, Origin::CommandLine));
    sources.is_document_typed = global.config.is_some();
    match flag_or_variable_path(global.config.as_deref(), "KEEPLINE_CONFIG") {
        Some(path) => Ok(sources.with_file(&path)?),
        None => Ok(sources),
    }
}

/// The fields that a flag for a directory sets; the flag for single fields must not contradict them.
fn directory_fields(
    flag: &str,
    directory: &Path,
    other: &str,
    fields: &[(String, String)],
) -> Result<[(String, String); 2]> {
    let directory = directory
        .to_str()
        .ok_or_else(|| UsageError(format!("{flag}: the path {} must be UTF-8", directory.display())))?;
    let chosen = [("backend", "directory"), ("directory", directory)];
    let contradicts =
        |(name, text): &&(String, String)| chosen.iter().any(|(chosen, other)| name == chosen && text != other);
    if let Some((name, text)) = fields.iter().find(contradicts) {
        let message = format!(
            "{flag} sets the backend to \"directory\" and its path, but {other} {name}={text} contradicts that"
        );
        return Err(usage_error(message));
    }
    Ok(chosen.map(|(name, text)| (name.to_owned(), text.to_owned())))
}

/// The configuration, without its warnings.
pub fn quiet_config(global: &GlobalArguments) -> Result<Config> {
    Ok(Config::resolve(config_sources(global)?.with_environment(std::env::vars_os())?)?)
}

/// Settles on the key prefix under which there are sessions.
fn with_settled_key_prefix(mut config: Config) -> Result<Config> {
    if config.has_earlier_key_prefix()
        && let Err(failure) = runtime::build_single_threaded()?.block_on(config.settle_key_prefix())
    {
        terminal::print_warning(&format!(
            "can't tell whether Redis holds sessions under the key prefix \"{}\", so it is used: {failure}",
            config.host.key_prefix
        ));
    }
    Ok(config)
}

pub fn store_address(config: &Config) -> Option<String> {
    config.is_redis().then(|| config.redis_options().place()).flatten()
}

/// The file of a flag, else of its environment variable, unless that is empty.
fn flag_or_variable_path(flag: Option<&Path>, variable: &str) -> Option<PathBuf> {
    let of_environment = || std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    flag.map(Path::to_owned).or_else(of_environment)
}

/// The file of a component that replaces the bundled one.
pub fn plugin_file(global: &GlobalArguments) -> Option<PathBuf> {
    flag_or_variable_path(global.plugin.as_deref(), "KEEPLINE_PLUGIN")
}

/// The file of a component that replaces the bundled pipelines.
pub fn pipelines_file(global: &GlobalArguments) -> Option<PathBuf> {
    flag_or_variable_path(global.pipelines.as_deref(), "KEEPLINE_PIPELINES")
}
