//! Opens the configured store, plugin and filter.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use keepline::{
    Keepline, KeeplineError, Options, Pipelines, Plugin, Sandbox,
    config::{Config, FIELDS, StoreError, WithoutEffect},
    logging::Clock,
    pipelines::PipelineOptions,
    plugin::{Compiler, PluginError},
    store::{DirectoryStore, MemoryStore, RedisStore, Store, TransferStore},
};
use keepline_session_file::TRANSFER_TIMEOUT;

use super::{
    config::{pipelines_source, plugin_source},
    openai::embeddings,
    plugins::PluginSource,
    tokenizers,
};
use crate::{
    args::{COMPILE_COMMAND, GlobalArguments},
    terminal,
};

/// How long a command of pipelines may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Warns of a store that is set up badly, as far as it reports that.
pub async fn print_store_warnings(store: Arc<dyn Store>) {
    for warning in store.warnings().await {
        terminal::print_warning(&warning);
    }
}

/// The configured store, for copying buckets from or to it; a missing directory is created if `creates`.
pub fn open_transfer_store(config: &Config, creates: bool) -> Result<Arc<dyn TransferStore>> {
    let Some(path) = config.directory() else { return Ok(Arc::new(transfer_redis(config)?)) };
    let mut options = config.directory_options();
    options.timeout = options.timeout.max(TRANSFER_TIMEOUT);
    let opened =
        if creates { DirectoryStore::open(path, options) } else { DirectoryStore::open_existing(path, options) };
    Ok(Arc::new(opened?))
}

/// The configured Redis, for copying or repairing buckets.
pub fn transfer_redis(config: &Config) -> Result<RedisStore> {
    let mut options = config.redis_options();
    options.store_timeout = options.store_timeout.max(TRANSFER_TIMEOUT);
    Ok(RedisStore::new(options)?)
}

/// The limits of the plugin, which this program compiles in a process of its own.
pub fn configured_sandbox(config: &Config) -> Result<Sandbox> {
    let mut sandbox = config.sandbox();
    sandbox.compiler = Compiler::this_program([COMPILE_COMMAND]).context("can't tell which program this is")?;
    Ok(sandbox)
}

/// Loads the component of `--plugin`, or the bundled one.
pub fn load_plugin(global: &GlobalArguments, config: &Config) -> Result<Plugin> {
    load_component(plugin_source(global)?, config, Plugin::bundled)
}

/// Loads the component of `--pipelines`, or the bundled one.
pub fn load_pipelines(global: &GlobalArguments, config: &Config) -> Result<Plugin> {
    load_component(pipelines_source(global)?, config, Plugin::bundled_pipelines)
}

fn load_component(
    source: Option<PluginSource>,
    config: &Config,
    bundled: fn(&Sandbox) -> Result<Plugin, PluginError>,
) -> Result<Plugin> {
    let (sandbox, began) = (configured_sandbox(config)?, Instant::now());
    let (plugin, name) = match source {
        Some(source) => (source.load(&sandbox)?, source.to_string()),
        None => (bundled(&sandbox)?, "the bundled component".to_owned()),
    };
    tracing::debug!(target: "keepline", "{name} was loaded in {} ms", began.elapsed().as_millis());
    Ok(plugin)
}

/// A clock that stands still.
struct StoppedClock(Duration);

impl Clock for StoppedClock {
    fn now(&self) -> Duration {
        self.0
    }
}

/// Opens pipelines on that store, with the embedding model that is configured. `at`: the time that runs see.
pub async fn open_pipelines_on(
    store: Arc<dyn Store>,
    plugin: Plugin,
    config: &Config,
    at: Option<jiff::Timestamp>,
) -> Result<Pipelines> {
    let mut options = pipeline_options(keepline_options(config)?, config);
    // A person waits for a command, and no entry does.
    options.host.entry_timeout = options.host.entry_timeout.max(COMMAND_TIMEOUT);
    if let Some(at) = at {
        options.host.clock = Arc::new(StoppedClock(at.duration_since(jiff::Timestamp::UNIX_EPOCH).unsigned_abs()));
    }
    Ok(Pipelines::new(plugin, store, options).await?)
}

/// Opens the configured store; unlike `Config::store`, it does not create a directory.
pub fn open_existing_store(config: &Config) -> Result<Arc<dyn Store>, StoreError> {
    match config.directory() {
        Some(path) => Ok(Arc::new(DirectoryStore::open_existing(path, config.directory_options())?)),
        None => config.store(),
    }
}

/// The options of a Keepline: the filter's, token counter and embedding model included.
pub fn keepline_options(config: &Config) -> Result<Options> {
    let mut options = config.options();
    options.token_counter = tokenizers::configured_token_counter(config);
    options.embedder = embeddings::configured_embedder(config)?;
    Ok(options)
}

fn pipeline_options(host: Options, config: &Config) -> PipelineOptions {
    let mut options = PipelineOptions::default();
    options.host = host;
    options.host.filter = config.pipeline_options();
    options
}

/// As [`open_keepline_on`], for questions that gain what memories contribute.
pub async fn open_keepline_with_pipelines(
    global: &GlobalArguments,
    store: Arc<dyn Store>,
    plugin: Plugin,
    config: &Config,
) -> Result<Keepline> {
    let mut options = keepline_options(config)?;
    if let Some(assembly) = config.assembly() {
        let pipelines = load_pipelines(global, config)?;
        let pipelines = Pipelines::new(pipelines, store.clone(), pipeline_options(options.clone(), config)).await?;
        options.assembly = Some(pipelines.assembly(assembly));
    }
    open_keepline_of(store, plugin, config, options).await
}

/// Opens a Keepline on that store, and warns of fields that have no effect.
pub async fn open_keepline_on(store: Arc<dyn Store>, plugin: Plugin, config: &Config) -> Result<Keepline> {
    open_keepline_of(store, plugin, config, keepline_options(config)?).await
}

async fn open_keepline_of(
    store: Arc<dyn Store>,
    plugin: Plugin,
    config: &Config,
    options: Options,
) -> Result<Keepline> {
    let keepline = match Keepline::new(plugin.clone(), store, options).await {
        Err(KeeplineError::Config { field, message }) => {
            return Err(explain_refused_field(plugin, config, field, message).await.into());
        }
        made => made?,
    };
    warn_of_fields_without_effect(&plugin, config, &keepline.filter_options()).await;
    Ok(keepline)
}

async fn warn_of_fields_without_effect(plugin: &Plugin, config: &Config, effective: &str) {
    let found = config.without_effect(effective);
    let of_conversations = match found.iter().any(|field| field.needs.is_none()) {
        true => list_filter_fields(plugin).await,
        false => Vec::new(),
    };
    for WithoutEffect { name, origin, needs } in found {
        // A plugin need not repeat all options that it takes.
        let needs = needs.or_else(|| of_conversations.contains(&name).then_some("conversation=true"));
        if let Some(needs) = needs {
            terminal::print_warning(&format!("{name} ({origin}) has no effect without {needs}"));
        }
    }
}

/// Explains which field the filter refused: for an unknown one, similar names are suggested.
async fn explain_refused_field(plugin: Plugin, config: &Config, field: String, message: String) -> KeeplineError {
    let origin = config.origin(&field);
    let of_filter = list_filter_fields(&plugin).await;
    let of_host: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
    let is_unknown = !field.is_empty() && !of_filter.is_empty() && !of_filter.contains(&field);
    let message = if is_unknown {
        let names = of_host.iter().copied().chain(of_filter.iter().map(String::as_str));
        let hint = match suggest_similar_names(&field, names).as_slice() {
            [] => "`keepline config` lists all fields".to_owned(),
            near => format!("did you mean {}?", near.join(" or ")),
        };
        format!("unknown field {field} ({origin}); {hint}")
    } else {
        format!("{message} ({origin})")
    };
    KeeplineError::Config { field, message }
}

/// The fields that the filter knows, those of conversations included; empty if it does not report them.
pub async fn list_filter_fields(plugin: &Plugin) -> Vec<String> {
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

/// The names that were probably meant: one that differs by a typo, else up to three that share a word with it.
fn suggest_similar_names<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
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
    fn a_typo_finds_the_intended_name() {
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
            assert_eq!(suggest_similar_names(wrong, names.into_iter()), meant, "{wrong}");
        }
    }
}
