//! From flags to a running Keepline.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use anyhow::{Context, Result};
use keepline::{
    Keepline, KeeplineError, Options, Plugin, Sandbox,
    config::{Config, FIELDS, Origin, Sources, StoreError, StoreName, WithoutEffect},
    maintenance::Maintenance,
    plugin::Compiler,
    store::{DirectoryStore, MemoryStore, Store},
};
use tokio::runtime::Runtime;

use crate::{
    cli::{COMPILE_COMMAND, Global, MigrateArguments},
    error::{self, Usage},
    moving::archive,
    openai::{completions, embeddings},
    runtime, terminal, tokens,
};

/// The configuration that the flags, the environment and the file make together. Warnings are told.
pub fn config(global: &Global) -> Result<Config> {
    config_with(global, &[])
}

/// As [`config`], with fields that the command itself sets.
pub fn config_with(global: &Global, fields: &[(&str, &str)]) -> Result<Config> {
    let mut sources = sources(global)?;
    sources.set.extend(fields.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())));
    resolve(sources)
}

/// The store in use, for a question that a person must answer before something is deleted from it.
pub fn store_name(global: &Global) -> Result<StoreName> {
    Ok(quiet_config(global)?.store_name)
}

/// Refuses to delete from a store that whoever typed the command line did not name.
pub fn refuse_replaced_store(global: &Global) -> Result<()> {
    match quiet_config(global)?.replaced_store {
        None => Ok(()),
        Some(replaced) => {
            let arguments = replaced.used.arguments();
            Err(Usage(format!(
                "{replaced}. This command deletes: name the store that you mean, for example {arguments}"
            ))
            .into())
        }
    }
}

/// Where `keepline migrate` copies to: the configuration with some fields set otherwise, or one of its own.
pub fn target_config(global: &Global, arguments: &MigrateArguments) -> Result<Config> {
    let mut sources = match &arguments.to_config {
        Some(path) => Sources::default().with_file(path)?,
        None => sources(global)?.with_environment(std::env::vars_os())?,
    };
    if let Some(directory) = &arguments.to_dir {
        sources.set.extend(directory_fields("--to-dir", directory, "--to", &arguments.to)?);
    }
    sources.set.extend(arguments.to.iter().cloned());
    settled(Config::resolve(sources)?)
}

fn sources(global: &Global) -> Result<Sources> {
    let mut sources = Sources::default();
    if let Some(directory) = &global.dir {
        sources.set = directory_fields("--dir", directory, "--set", &global.set)?.to_vec();
    }
    sources.set.extend(global.set.iter().cloned());
    sources.profile = global.profile.clone().map(|name| (name, Origin::CommandLine));
    sources.is_document_typed = global.config.is_some();
    match file(global.config.as_deref(), "KEEPLINE_CONFIG") {
        Some(path) => Ok(sources.with_file(&path)?),
        None => Ok(sources),
    }
}

/// The fields that a flag for a directory stands for, which the other flag for single fields must not contradict.
fn directory_fields(
    flag: &str,
    directory: &Path,
    other: &str,
    fields: &[(String, String)],
) -> Result<[(String, String); 2]> {
    let directory =
        directory.to_str().ok_or_else(|| Usage(format!("{flag}: the path {} must be UTF-8", directory.display())))?;
    let chosen = [("backend", "directory"), ("directory", directory)];
    let contradicts =
        |(name, text): &&(String, String)| chosen.iter().any(|(chosen, other)| name == chosen && text != other);
    if let Some((name, text)) = fields.iter().find(contradicts) {
        let message = format!(
            "{flag} sets the backend to \"directory\" and its path, but {other} {name}={text} contradicts that"
        );
        return Err(Usage(message).into());
    }
    Ok(chosen.map(|(name, text)| (name.to_owned(), text.to_owned())))
}

/// The configuration, without its warnings: a command prints them when it begins.
fn quiet_config(global: &Global) -> Result<Config> {
    Ok(Config::resolve(sources(global)?.with_environment(std::env::vars_os())?)?)
}

fn resolve(sources: Sources) -> Result<Config> {
    let config = Config::resolve(sources.with_environment(std::env::vars_os())?)?;
    for warning in &config.warnings {
        terminal::warning(warning);
    }
    if let Some(place) = store_place(&config) {
        error::note_store_place(place);
    }
    let config = settled(config)?;
    let (profile, origin) = (config.profile.name(), &config.profile_origin);
    tracing::debug!(target: "keepline", "profile {profile} ({origin}); the store is {}", config.store_name);
    Ok(config)
}

/// With the key prefix under which there are sessions.
fn settled(mut config: Config) -> Result<Config> {
    if config.has_earlier_key_prefix()
        && let Err(failure) = runtime::single()?.block_on(config.settle_key_prefix())
    {
        terminal::warning(&format!(
            "can't tell whether Redis holds sessions under the key prefix \"{}\", so it is used: {failure}",
            config.host.key_prefix
        ));
    }
    Ok(config)
}

/// Where a store is that is reached over a network.
pub fn store_place(config: &Config) -> Option<String> {
    config.is_redis().then(|| config.redis_options().place()).flatten()
}

/// What is wrong with how the store is set up, as far as it tells. It does not keep the run waiting.
pub fn warn_of_store(store: &Arc<dyn Store>) -> impl Future<Output = ()> + use<> {
    let store = store.clone();
    async move {
        for warning in store.warnings().await {
            terminal::warning(&warning);
        }
    }
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

/// What the plugin may use of the machine: this program compiles it, in another process.
pub fn sandbox(config: &Config) -> Result<Sandbox> {
    let mut sandbox = config.sandbox();
    sandbox.compiler = Compiler::this_program([COMPILE_COMMAND]).context("can't tell which program this is")?;
    Ok(sandbox)
}

/// The component: that of `--plugin`, or the bundled one.
pub fn plugin(global: &Global, config: &Config) -> Result<Plugin> {
    let (sandbox, began) = (sandbox(config)?, Instant::now());
    let (plugin, name) = match plugin_file(global) {
        Some(path) => {
            let plugin = Plugin::from_file(&path, &sandbox)
                .with_context(|| format!("{} can't be loaded; `keepline inspect` shows details", path.display()))?;
            (plugin, path.display().to_string())
        }
        None => (Plugin::bundled(&sandbox)?, "the bundled component".to_owned()),
    };
    tracing::debug!(target: "keepline", "{name} was loaded in {} ms", began.elapsed().as_millis());
    Ok(plugin)
}

/// All of it, ready for entries.
pub async fn keepline(plugin: Plugin, config: &Config) -> Result<Keepline> {
    keepline_on(config.store()?, plugin, config).await
}

/// The configured store, but none that would have to be made: a directory must hold one.
pub fn existing_store(config: &Config) -> Result<Arc<dyn Store>, StoreError> {
    match config.directory() {
        Some(path) => Ok(Arc::new(DirectoryStore::open_existing(path, config.directory_options())?)),
        None => config.store(),
    }
}

/// What does its deferred work, on that runtime.
pub fn maintenance(keepline: &Keepline, config: &Config, runtime: &Runtime) -> Result<Maintenance> {
    let (model, mut options) = (completions::configured(config)?, config.maintenance_options());
    options.archive = archive::configured(config)?;
    Ok(Maintenance::new(keepline.clone(), model, options, runtime.handle().clone()))
}

/// What is configured of all that entries need beside the store and the plugin.
pub fn options(config: &Config) -> Result<Options> {
    let mut options = config.options();
    options.token_counter = tokens::configured(config);
    options.embedder = embeddings::configured(config)?;
    Ok(options)
}

/// What is configured, but for its store.
pub async fn keepline_on(store: Arc<dyn Store>, plugin: Plugin, config: &Config) -> Result<Keepline> {
    let options = options(config)?;
    let made = Keepline::new(plugin.clone(), store, options).await;
    match made {
        Err(KeeplineError::Config { field, message }) => Err(explained(plugin, config, field, message).await.into()),
        Err(error) => Err(error.into()),
        Ok(keepline) => {
            warn_of_fields_without_effect(&plugin, config, &keepline.filter_options()).await;
            Ok(keepline)
        }
    }
}

async fn warn_of_fields_without_effect(plugin: &Plugin, config: &Config, effective: &str) {
    let found = config.without_effect(effective);
    let of_conversations = match found.iter().any(|field| field.needs.is_none()) {
        true => filter_fields(plugin).await,
        false => Vec::new(),
    };
    for WithoutEffect { name, origin, needs } in found {
        // A plugin need not repeat all options that it takes.
        let needs = needs.or_else(|| of_conversations.contains(&name).then_some("conversation=true"));
        if let Some(needs) = needs {
            terminal::warning(&format!("{name} ({origin}) has no effect without {needs}"));
        }
    }
}

/// A field that the filter refuses may be one that nobody knows: then the nearest names are suggested.
async fn explained(plugin: Plugin, config: &Config, field: String, message: String) -> KeeplineError {
    let origin = config.origin(&field);
    let of_filter = filter_fields(&plugin).await;
    let of_host: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
    let is_unknown = !field.is_empty() && !of_filter.is_empty() && !of_filter.contains(&field);
    let message = if is_unknown {
        let names = of_host.iter().copied().chain(of_filter.iter().map(String::as_str));
        let hint = match nearest(&field, names).as_slice() {
            [] => "`keepline config` lists all fields".to_owned(),
            near => format!("did you mean {}?", near.join(" or ")),
        };
        format!("unknown field {field} ({origin}); {hint}")
    } else {
        format!("{message} ({origin})")
    };
    KeeplineError::Config { field, message }
}

/// The fields that the filter knows, those of conversations included; none if it does not tell them.
async fn filter_fields(plugin: &Plugin) -> Vec<String> {
    for filter in [r#"{"conversation":true}"#, "{}"] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let mut options = Options::default();
        options.filter = filter.to_owned();
        if let Ok(keepline) = Keepline::new(plugin.clone(), store, options).await {
            let told = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&keepline.filter_options());
            return told.unwrap_or_default().into_iter().map(|(name, _)| name).collect();
        }
    }
    Vec::new()
}

/// The names that were probably meant, the nearest first: one that differs by a slip of the finger, else up to three that
/// have a word in common with it.
fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    const MOST: usize = 3;
    let mut names: Vec<_> = names.map(|name| (strsim::osa_distance(wrong, name), name)).collect();
    names.sort_unstable();
    if let Some((distance, name)) = names.first()
        && *distance <= 1 + wrong.len() / 6
    {
        return vec![name];
    }
    let words: Vec<&str> = wrong.split(['_', '-']).filter(|word| word.len() > 2).collect();
    let is_near = |(_, name): &(usize, &'a str)| name.split('_').any(|word| words.contains(&word));
    names.into_iter().filter(is_near).map(|(_, name)| name).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_recognised() {
        let names = ["conversation", "max_history", "redis_host"];
        for (wrong, meant) in [
            ("conversatoin", vec!["conversation"]),
            ("max-history", vec!["max_history"]),
            ("redishost", vec!["redis_host"]),
            ("history", vec!["max_history"]),
            ("redis", vec!["redis_host"]),
            ("xyzzy", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(nearest(wrong, names.into_iter()), meant, "{wrong}");
        }
    }
}
