//! Resolves the configuration from flags, the environment and the configuration file.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use anyhow::Result;
use keepline::config::{Config, Origin, Profile, Sources};

use super::{
    error::{self, UsageError, usage_error},
    plugins::{PluginSource, TrustFile},
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
    resolve(sources.with_environment(std::env::vars_os())?)
}

/// As [`load_config`], for a service. Where nothing says otherwise, it keeps conversations (profile `chat`), in a folder of
/// the user's.
pub fn load_service_config(global: &GlobalArguments) -> Result<Config> {
    let mut sources = config_sources(global)?.with_environment(std::env::vars_os())?;
    let of_document = sources.document.as_ref().and_then(|(_, document)| document.as_object());
    let names_profile = sources.profile.is_some()
        || of_document.is_some_and(|document| document.contains_key("profile"))
        || Config::resolve(sources.clone()).is_ok_and(|config| config.profile_origin != Origin::Default);
    if !names_profile {
        sources.profile = Some((Profile::Chat.name().to_owned(), Origin::Default));
    }
    if Config::resolve(sources.clone()).is_err() {
        let mut in_data_folder = sources.clone();
        in_data_folder.set.push(("directory".to_owned(), data_folder()?.join("memory").display().to_string()));
        // Whatever else is wrong is reported as it was given.
        if Config::resolve(in_data_folder.clone()).is_ok_and(|config| config.directory().is_some()) {
            sources = in_data_folder;
        }
    }
    resolve(sources)
}

/// Where this user's programs keep data: `$XDG_DATA_HOME/keepline`, by default `~/.local/share/keepline`.
pub fn data_folder() -> Result<PathBuf> {
    user_folder("XDG_DATA_HOME", ".local/share")
}

/// This program's folder in one of the user's, which a variable names, else its place below `HOME`.
fn user_folder(variable: &str, place: &str) -> Result<PathBuf> {
    let of_variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = of_variable(variable).or_else(|| Some(of_variable("HOME")?.join(place)));
    let folder =
        folder.ok_or_else(|| usage_error(format!("neither HOME nor {variable} is set: name the folder or file")))?;
    Ok(folder.join("keepline"))
}

fn resolve(sources: Sources) -> Result<Config> {
    let config = Config::resolve(sources)?;
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
    flag_or_variable(flag.map(Path::as_os_str), variable).map(PathBuf::from)
}

fn flag_or_variable(flag: Option<&OsStr>, variable: &str) -> Option<OsString> {
    let of_environment = || std::env::var_os(variable).filter(|value| !value.is_empty());
    flag.map(OsStr::to_owned).or_else(of_environment)
}

/// The component that replaces the bundled one.
pub fn plugin_source(global: &GlobalArguments) -> Result<Option<PluginSource>> {
    let named = flag_or_variable(global.plugin.as_deref(), "KEEPLINE_PLUGIN");
    named.map(|named| parse_source(global, &named)).transpose()
}

/// The component that replaces the bundled pipelines.
pub fn pipelines_source(global: &GlobalArguments) -> Result<Option<PluginSource>> {
    let named = flag_or_variable(global.pipelines.as_deref(), "KEEPLINE_PIPELINES");
    named.map(|named| parse_source(global, &named)).transpose()
}

/// What names a component on the command line.
pub fn parse_source(global: &GlobalArguments, named: &OsStr) -> Result<PluginSource> {
    PluginSource::parse(named, || trust_file(global))
}

/// The file of pinned plugins: by default `$XDG_CONFIG_HOME/keepline/plugins.json`, in `~/.config`.
pub fn trust_file(global: &GlobalArguments) -> Result<TrustFile> {
    let path = match flag_or_variable_path(global.trust.as_deref(), "KEEPLINE_TRUST") {
        Some(path) => path,
        None => user_folder("XDG_CONFIG_HOME", ".config")?.join("plugins.json"),
    };
    Ok(TrustFile::new(path))
}
