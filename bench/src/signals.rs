//! Ends the process at SIGTERM or SIGINT, and with it the Redis servers that it started.

use std::{process, thread};

use anyhow::{Context, Result};
use keepline_local_redis::stop_all;
use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

/// From now on a signal stops the servers, cleans up and exits with code 1.
pub fn clean_up_and_exit(clean_up: impl FnOnce() + Send + 'static) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (mut terminate, mut interrupt) = {
        let _entered = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    let wait_and_exit = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => (),
                _ = interrupt.recv() => (),
            }
        });
        stop_all();
        clean_up();
        eprintln!("error: terminated by a signal");
        process::exit(1);
    };
    thread::Builder::new().spawn(wait_and_exit).context("can't start the signal thread")?;
    Ok(())
}
