//! Handles SIGTERM and SIGINT.

use std::{process, process::ExitCode, thread, time::Duration};

use anyhow::{Context, Result};
use keepline_local_redis as local_redis;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::runtime;
use crate::terminal;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminationSignal {
    Terminate,
    Interrupt,
}

impl TerminationSignal {
    pub fn name(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        }
    }

    /// The code by which a shell reports the signal.
    pub fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Terminate => 143,
            Self::Interrupt => 130,
        })
    }
}

/// Handlers of the signals. Without them a signal ends the process at once, which suits commands that only read.
pub struct ShutdownSignals {
    terminate: Signal,
    interrupt: Signal,
    grace: Duration,
}

impl ShutdownSignals {
    /// Installs the handlers. Needs a runtime.
    pub fn listen(grace: Duration) -> Result<Self> {
        let listen = |kind| signal(kind).context("can't install signal handlers");
        let (terminate, interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, grace })
    }

    /// Waits for a signal.
    pub async fn wait_for_signal(&mut self) -> TerminationSignal {
        tokio::select! {
            _ = self.terminate.recv() => TerminationSignal::Terminate,
            _ = self.interrupt.recv() => TerminationSignal::Interrupt,
        }
    }

    /// Waits for a signal, calls `at_first`, and returns after the grace period or at a second signal.
    pub async fn wait_until_grace_ends(mut self, at_first: impl FnOnce(TerminationSignal)) {
        at_first(self.wait_for_signal().await);
        // A second signal does not wait.
        let _ = tokio::time::timeout(self.grace, self.wait_for_signal()).await;
    }
}

/// For a command that starts servers: a signal stops them, cleans up and exits with code 1.
pub fn stop_servers_on_signal(clean_up: impl FnOnce() + Send + 'static) -> Result<()> {
    let runtime = runtime::build_single_threaded()?;
    let mut shutdown = runtime.block_on(async { ShutdownSignals::listen(Duration::ZERO) })?;
    let stop = move || {
        runtime.block_on(shutdown.wait_for_signal());
        local_redis::stop_all();
        clean_up();
        terminal::print_error("terminated by a signal");
        process::exit(1);
    };
    thread::Builder::new().spawn(stop).context("can't start the signal thread")?;
    Ok(())
}
