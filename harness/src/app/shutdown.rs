//! Handles SIGTERM and SIGINT.

use std::{process, process::ExitCode, thread, time::Duration};

use anyhow::{Context, Result};
use keepline_local_redis as local_redis;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::runtime;
use crate::terminal;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndSignal {
    Terminate,
    Interrupt,
}

impl EndSignal {
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
pub struct Shutdown {
    terminate: Signal,
    interrupt: Signal,
    grace: Duration,
}

impl Shutdown {
    /// Installs the handlers. Needs a runtime.
    pub fn listen(grace: Duration) -> Result<Self> {
        let listen = |kind| signal(kind).context("can't install signal handlers");
        let (terminate, interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, grace })
    }

    async fn signal(&mut self) -> EndSignal {
        tokio::select! {
            _ = self.terminate.recv() => EndSignal::Terminate,
            _ = self.interrupt.recv() => EndSignal::Interrupt,
        }
    }

    /// Waits for a signal, calls `at_first`, and returns after the grace period or at a second signal.
    pub async fn grace_over(mut self, at_first: impl FnOnce(EndSignal)) {
        at_first(self.signal().await);
        // A second signal does not wait.
        let _ = tokio::time::timeout(self.grace, self.signal()).await;
    }
}

/// For a command that starts servers: a signal stops them, cleans up and exits with code 1.
pub fn stop_servers_at_a_signal(clean_up: impl FnOnce() + Send + 'static) -> Result<()> {
    let runtime = runtime::single()?;
    let mut shutdown = runtime.block_on(async { Shutdown::listen(Duration::ZERO) })?;
    let stop = move || {
        runtime.block_on(shutdown.signal());
        local_redis::stop_all();
        clean_up();
        terminal::error("terminated by a signal");
        process::exit(1);
    };
    thread::Builder::new().spawn(stop).context("can't start the signal thread")?;
    Ok(())
}
