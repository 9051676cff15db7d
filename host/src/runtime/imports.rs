//! What the component may import, and nothing else: `key-value`, a wall clock, a log.

use wasmtime::component::{ComponentType, Lift, Linker, Lower};

use super::{InstanceState, key_value};
use crate::contract::logging::LogLevel;

/// A linker that holds what every component is lent.
///
/// # Errors
/// None that depends on a component.
pub(super) fn lend(linker: &mut Linker<InstanceState>) -> wasmtime::Result<()> {
    key_value::lend(linker)?;
    let mut clock = linker.instance("wasi:clocks/wall-clock@0.2.0")?;
    clock.func_wrap("now", |context, ()| {
        let now = context.data().lent().clock.now();
        Ok((Datetime { seconds: now.as_secs(), nanoseconds: now.subsec_nanos() },))
    })?;
    clock.func_wrap("resolution", |_, ()| Ok((Datetime { seconds: 0, nanoseconds: 1000 },)))?;
    let mut logging = linker.instance("wasi:logging/logging@0.1.0-draft")?;
    logging.func_wrap("log", |mut context, (level, kind, message): (LogLevel, String, String)| {
        context.data_mut().log(level, &kind, &message);
        Ok(())
    })
}

#[derive(Clone, Copy, ComponentType, Lift, Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}
