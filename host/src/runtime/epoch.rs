//! The clock that interrupts instances: one thread for each engine.
//!
//! An epoch is global to an engine, so it has many small ticks rather than one for each time-out.

use std::{io, thread, time::Duration};

use wasmtime::Engine;

/// How exact a deadline is, and how long an instance keeps a thread to itself.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Advances the engine's epoch until the engine is gone.
///
/// # Errors
/// When no thread can be started.
pub(crate) fn start_ticking(engine: &Engine) -> io::Result<()> {
    let engine = engine.weak();
    thread::Builder::new().name("keepline-epoch".into()).spawn(move || {
        loop {
            thread::sleep(TICK);
            let Some(engine) = engine.upgrade() else { return };
            engine.increment_epoch();
        }
    })?;
    Ok(())
}
