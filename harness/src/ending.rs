//! How a process ends that is told to: SIGTERM and SIGINT.

use std::{process, process::ExitCode, thread, time::Duration};

use anyhow::{Context, Result};
use keepline_local_redis as local_redis;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{runtime, terminal};

/// What told a process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndSignal {
    Terminate,
    Interrupt,
}

impl EndSignal {
    /// As people know it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        }
    }

    /// As a shell has it of a process that the signal ended.
    pub fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Terminate => 143,
            Self::Interrupt => 130,
        })
    }
}

/// Hears the signals. Without it they end the process at once, which is right for whoever only reads.
pub struct Ending {
    terminate: Signal,
    interrupt: Signal,
    grace: Duration,
}

impl Ending {
    /// From now on. Needs a runtime.
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

    /// Returns when what is left must be left: some time after a signal, or at the second one.
    pub async fn told(mut self, at_first: impl FnOnce(EndSignal)) {
        at_first(self.signal().await);
        // A second signal does not wait.
        let _ = tokio::time::timeout(self.grace, self.signal()).await;
    }
}

/// For a command that keeps nothing but starts servers: a signal ends it at once, and them with it, and then cleans up
/// what else there is.
pub fn stop_servers_at_a_signal(clean_up: impl FnOnce() + Send + 'static) -> Result<()> {
    let runtime = runtime::single()?;
    let mut ending = runtime.block_on(async { Ending::listen(Duration::ZERO) })?;
    let stop = move || {
        runtime.block_on(ending.signal());
        local_redis::stop_all();
        clean_up();
        terminal::error("terminated by a signal");
        process::exit(1);
    };
    thread::Builder::new().spawn(stop).context("can't start the signal thread")?;
    Ok(())
}
