//! Runs one command over the configured store and plugin.

use std::{process::ExitCode, time::Instant};

use anyhow::Result;
use keepline::{Keepline, config::Config};
use tokio::runtime::Runtime;

use super::{config, error::Coded, existing_store, keepline_on, plugin, runtime, shutdown::Shutdown, store_settings};
use crate::{
    args::{Access, GRACE, Global},
    terminal,
};

/// Runs one command over the configured store and plugin. A signal during a command that changes something gives it time to
/// finish, and is reported. Only a command that adds something creates a missing directory.
pub fn with_keepline(
    global: &Global,
    access: Access,
    serve: impl AsyncFnOnce(Keepline, &Config, &Runtime) -> Result<()>,
) -> Result<ExitCode> {
    let config = config(global)?;
    let plugin = plugin(global, &config)?;
    if !config.is_durable() {
        terminal::note(
            "the \"memory\" backend lives only as long as this process: there are no earlier sessions, and none will \
             be kept; to keep them in a directory, add --dir PATH; for Redis, add --profile redis, or set \
             KEEPLINE_PROFILE=redis and KEEPLINE_REDIS_URL",
        );
    }
    let runtime = runtime::single()?;
    let done: Result<()> = runtime.block_on(async {
        let served = async {
            let store = if access.adds() { config.store()? } else { existing_store(&config)? };
            let config = if access.adds() { config } else { store_settings::adopted(&config, &store).await };
            let keepline = keepline_on(store.clone(), plugin, &config).await?;
            let began = Instant::now();
            let served = serve(keepline, &config, &runtime).await;
            let (trips, took) = (terminal::counted(store.round_trips(), "round trip", "round trips"), began.elapsed());
            tracing::debug!(target: "keepline", "{trips} to the store in {} ms", took.as_millis());
            served
        };
        if access == Access::Read {
            return served.await;
        }
        // A change that was sent may be done already: its answer is waited for and reported.
        let shutdown = Shutdown::listen(GRACE)?;
        tokio::select! {
            served = served => served,
            () = shutdown.grace_over(|_| ()) => {
                let message = "interrupted before the store answered: the change may or may not have been applied";
                Err(Coded { code: "interrupted", message: message.to_owned() }.into())
            }
        }
    });
    // Calls to a model are not waited for.
    runtime.shutdown_background();
    done.map(|()| ExitCode::SUCCESS)
}
