//! The clock that interrupts instances: one thread per engine.
//!
//! An epoch is global to its engine, so it advances in many small ticks rather than once per time-out.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::sync::Notify;
use wasmtime::Engine;

/// How exact a deadline is, and how long an instance keeps a thread to itself.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// The ticks so far: time for those who can't look at a clock with each call. They stand still while the process does.
#[derive(Debug, Default)]
pub(crate) struct Ticks {
    count: AtomicU64,
    passed: Notify,
}

impl Ticks {
    pub(in crate::runtime) fn now(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(in crate::runtime) fn advance(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.passed.notify_waiters();
    }

    /// Waits for the next one, without a timer of the runtime's: not every runtime has them.
    pub(in crate::runtime) async fn wait_for_tick(&self) {
        self.passed.notified().await;
    }
}

/// How many ticks make up that time; at least one.
pub(in crate::runtime) fn duration_to_ticks(time: Duration) -> u64 {
    u64::try_from(time.as_nanos() / TICK.as_nanos()).unwrap_or(u64::MAX).max(1)
}

/// Advances the ticks, and the engine's epoch with them, until the engine is gone.
///
/// # Errors
/// When no thread can be started.
pub(crate) fn start_ticking(engine: &Engine, ticks: &Arc<Ticks>) -> io::Result<()> {
    let (engine, ticks) = (engine.weak(), ticks.clone());
    thread::Builder::new().name("keepline-epoch".into()).spawn(move || {
        loop {
            thread::sleep(TICK);
            let Some(engine) = engine.upgrade() else { return };
            // First: who is interrupted finds that time has passed.
            ticks.advance();
            engine.increment_epoch();
        }
    })?;
    Ok(())
}
