//! The imports of a component, and there are no others: `key-value`, a wall clock, a log.
//!
//! Each call begins with [`enter_host_call`]. An instance's own code checks its time on entering a function or a loop; code that
//! calls the host in a straight line is checked here.

mod key_value;
mod payload_size;

use wasmtime::{
    AsContextMut, StoreContextMut,
    component::{ComponentType, Lift, Linker, Lower},
};

use super::instance_state::InstanceState;
use crate::contract::logging::LogLevel;

/// A linker that holds what every component is lent.
///
/// # Errors
/// None that depends on a component.
pub(super) fn add_to_linker(linker: &mut Linker<InstanceState>) -> wasmtime::Result<()> {
    key_value::add_to_linker(linker)?;
    let mut clock = linker.instance("wasi:clocks/wall-clock@0.2.0")?;
    clock.func_wrap("now", |mut context, ()| {
        enter_briefly(&mut context)?;
        let now = context.data().services().clock.now();
        Ok((Datetime { seconds: now.as_secs(), nanoseconds: now.subsec_nanos() },))
    })?;
    clock.func_wrap("resolution", |mut context, ()| {
        enter_briefly(&mut context)?;
        Ok((Datetime { seconds: 0, nanoseconds: 1000 },))
    })?;
    let mut logging = linker.instance("keepline:host/log@0.3.0")?;
    logging.func_wrap_async("write", |mut context, (level, kind, message): (LogLevel, String, String)| {
        Box::new(async move {
            enter_host_call(&mut context, (kind.len() + message.len()) as u64).await?;
            context.data_mut().log_within_budget(level, &kind, &message);
            Ok(())
        })
    })
}

/// A call of the host begins, for which so many bytes were copied.
///
/// # Errors
/// When the instance is over a budget.
async fn enter_host_call(context: &mut StoreContextMut<'_, InstanceState>, bytes: u64) -> wasmtime::Result<()> {
    context.data_mut().begin_host_call(bytes)?;
    // The next call, or the reply, can't have more copied than is left.
    let left = context.data().copy_bytes_left();
    context.as_context_mut().set_hostcall_fuel(left);
    let mut must_make_way = context.data_mut().on_host_call()?;
    while let Some(patience) = must_make_way {
        let meter = context.data().meter().clone();
        meter.make_way(patience).await;
        must_make_way = context.data_mut().on_tick()?;
    }
    Ok(())
}

/// The same for a call that takes nothing and no time. It can't make way, nor need it: there is a limit to such calls.
fn enter_briefly(context: &mut StoreContextMut<'_, InstanceState>) -> wasmtime::Result<()> {
    context.data_mut().begin_host_call(0)?;
    context.data_mut().on_host_call().map(drop)
}

#[derive(Clone, Copy, ComponentType, Lift, Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}
