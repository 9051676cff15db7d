//! Runs one command over the configured store, with a plugin.

use std::{path::Path, process::ExitCode, sync::Arc, time::Instant};

use anyhow::Result;
use keepline::{
    Keepline, Pipelines,
    config::Config,
    pipelines::{Owner, ProjectStore},
    store::{MemoryStore, Store},
};
use tokio::runtime::Runtime;

use super::{
    error::coded_error,
    load_config, load_plugin,
    open::{load_pipelines, open_pipelines_on},
    open_existing_store, open_keepline_with_pipelines, runtime,
    shutdown::ShutdownSignals,
    store_settings,
};
use crate::{
    args::{GRACE, GlobalArguments, StoreAccess},
    terminal,
};

/// Runs one command over the configured store and filter. A signal during a command that changes something gives it time to
/// finish, and is reported. Only a command that adds something creates a missing directory.
pub fn with_keepline(
    global: &GlobalArguments,
    access: StoreAccess,
    serve: impl AsyncFnOnce(Keepline, &Config, &Runtime) -> Result<()>,
) -> Result<ExitCode> {
    let config = load_config(global)?;
    let plugin = load_plugin(global, &config)?;
    with_store(config, access, false, async |store, config, runtime| {
        let keepline = open_keepline_with_pipelines(global, store, plugin, config).await?;
        serve(keepline, config, runtime).await
    })
}

/// Whose pipelines a command is about, and when.
#[derive(Clone, Copy, Default)]
pub struct PipelineScope<'a> {
    /// None: the configured project.
    pub owner: Option<&'a Owner>,
    /// The folder whose files are the owner's definitions; none: they are in the store.
    pub project: Option<&'a Path>,
    /// The time that runs see; none: now.
    pub at: Option<jiff::Timestamp>,
}

/// Runs one command over the configured store and the pipelines' component.
pub fn with_pipelines(
    global: &GlobalArguments,
    access: StoreAccess,
    scope: PipelineScope<'_>,
    serve: impl AsyncFnOnce(Pipelines, Owner) -> Result<()>,
) -> Result<ExitCode> {
    let config = load_config(global)?;
    let plugin = load_pipelines(global, &config)?;
    with_store(config, access, scope.project.is_some(), async |store, config, _| {
        let owner = scope.owner.cloned().unwrap_or_else(|| Owner::project(&*config.host.project));
        let store = match scope.project {
            Some(folder) => Arc::new(ProjectStore::new(store, folder, &owner)),
            None => store,
        };
        let pipelines = open_pipelines_on(store, plugin, config, scope.at).await?;
        serve(pipelines, owner).await
    })
}

/// `has_files`: what the command is about may lie outside the store.
fn with_store(
    config: Config,
    access: StoreAccess,
    has_files: bool,
    serve: impl AsyncFnOnce(Arc<dyn Store>, &Config, &Runtime) -> Result<()>,
) -> Result<ExitCode> {
    if !config.is_durable() && access != StoreAccess::Untouched && !has_files {
        terminal::print_note(
            "the \"memory\" backend lives only as long as this process: there are no earlier sessions, and none will \
             be kept; to keep them in a directory, add --dir PATH; for Redis, add --profile redis, or set \
             KEEPLINE_PROFILE=redis and KEEPLINE_REDIS_URL",
        );
    }
    let runtime = runtime::build_single_threaded()?;
    let done: Result<()> = runtime.block_on(async {
        let served = async {
            let store = match access {
                StoreAccess::Untouched => Arc::new(MemoryStore::default()),
                _ if access.adds() => config.store()?,
                _ => open_existing_store(&config)?,
            };
            let config =
                if access.adds() { config } else { store_settings::adopt_store_settings(&config, &store).await };
            let began = Instant::now();
            let served = serve(store.clone(), &config, &runtime).await;
            let (trips, took) =
                (terminal::format_count(store.round_trips(), "round trip", "round trips"), began.elapsed());
            tracing::debug!(target: "keepline", "{trips} to the store in {} ms", took.as_millis());
            served
        };
        if matches!(access, StoreAccess::Read | StoreAccess::Untouched) {
            return served.await;
        }
        // A change that was sent may be done already: its answer is waited for and reported.
        let shutdown = ShutdownSignals::listen(GRACE)?;
        tokio::select! {
            served = served => served,
            () = shutdown.wait_until_grace_ends(|_| ()) => {
                let message = "interrupted before the store answered: the change may or may not have been applied";
                Err(coded_error("interrupted", message))
            }
        }
    });
    // Calls to a model are not waited for.
    runtime.shutdown_background();
    done.map(|()| ExitCode::SUCCESS)
}
