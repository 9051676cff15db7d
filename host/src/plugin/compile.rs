//! Compiles a component to machine code, within bounds.
//!
//! Code comes from the cache, from a compiler process with limits of its own, or from this process. A component is
//! compiled only once it is known to be within its limits; being in the cache under the same limits proves that, too.
//! The bundled filter is trusted: it is compiled in this process, on all processors.

use wasmtime::{Engine, component::Component};

use keepline_component::FILTER as BUNDLED;

use super::{
    cache::{CacheSlot, Staging},
    compiler_process,
    engine::{Setup, build_component, catch_engine_panic},
    error::PluginError,
    meter::Meter,
    walk::{Interfaces, walk_component},
};
use crate::sandbox::{Compiler, Sandbox};

/// Compiles a component, or finds it compiled.
pub(super) fn load_or_compile(bytes: &[u8], sandbox: &Sandbox) -> Result<(Engine, Component), PluginError> {
    let is_ours = bytes == BUNDLED;
    let setup = Setup { is_parallel: is_ours, cache: None };
    let kept = CacheSlot::for_component(bytes, sandbox, setup)?;
    if let Some(kept) = &kept
        && let Some(code) = kept.find_code()?
    {
        return build_component(bytes, Setup { cache: Some(code), ..setup });
    }
    if !is_ours {
        catch_engine_panic(|| walk_component(bytes, &mut Meter::new(&sandbox.plugin), &mut Interfaces::default()))??;
    }
    match &sandbox.compiler {
        Compiler::Process(command) if !is_ours => {
            let staging = Staging::new(kept.as_ref())?;
            compiler_process::compile_in_process(command, bytes, &sandbox.plugin, staging.directory())?;
            let code = staging.publish(kept.as_ref())?;
            build_component(bytes, Setup { cache: Some(code.directory()), ..setup })
        }
        _ => {
            let code = kept.as_ref().and_then(CacheSlot::create);
            build_component(bytes, Setup { cache: code, ..setup })
        }
    }
}
