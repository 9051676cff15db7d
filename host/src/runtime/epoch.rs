//! The clock that interrupts instances: one thread for each engine.
//!
//! An epoch is global to an engine, so it has many small ticks rather than one for each time-out.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use wasmtime::Engine;

/// How exact a deadline is.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Advances the engine's epoch, and a count that costs less to read than a clock, until the engine is gone.
pub(crate) struct EpochTicker {
    ticks: Arc<AtomicU64>,
}

impl EpochTicker {
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(engine: &Engine) -> io::Result<Self> {
        let ticks = Arc::new(AtomicU64::new(0));
        let (engine, count) = (engine.weak(), ticks.clone());
        thread::Builder::new().name("keepline-epoch".into()).spawn(move || {
            loop {
                thread::sleep(TICK);
                let Some(engine) = engine.upgrade() else { return };
                count.fetch_add(1, Ordering::Relaxed);
                engine.increment_epoch();
            }
        })?;
        Ok(Self { ticks })
    }

    pub(crate) fn counter(&self) -> Arc<AtomicU64> {
        self.ticks.clone()
    }
}
