//! Plugins: loads an untrusted component after checking what it is and what it imports.
//!
//! Bounded: a file is read, measured and compiled within [`PluginLimits`], in a running service as well as at its
//! start. Denied by default: the linker holds the contract's imports and nothing else, and a component that wants
//! more is refused with a list of what it asked for. Interfaces of a newer `keepline:store` are linked to traps. Contained: neither a panic of the engine nor code that others may
//! have written gets past this module.

mod cache;
mod compile;
mod compiler_process;
mod digest;
mod engine;
mod error;
mod file;
mod meter;
mod oci;
mod walk;

use std::{fmt, path::Path};

use wasmtime::{Engine, component::Component};

pub use self::{
    compiler_process::serve as serve_compiler,
    digest::{check_pin, is_sha256, sha256},
    error::PluginError,
    file::read,
    oci::{read_layout, write_layout},
};
use self::{
    engine::catch_engine_panic,
    error::{printable_name, printable_text},
    meter::Meter,
    walk::{Interfaces, walk_component},
};
pub use crate::sandbox::{CodeCache, Compiler, CompilerCommand, Measure, Measured, PluginLimits, Sandbox};
use crate::{
    contract::{is_unknown_store_interface, may_import},
    runtime::{PluginProgram, start_ticking},
};

/// The bundled filter, as a component.
pub use keepline_component::FILTER as BUNDLED;
/// The bundled pipelines, as a component.
pub use keepline_component::PIPELINES as BUNDLED_PIPELINES;

/// What a component says of itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// Bytes.
    pub size: usize,
    /// In base 16.
    pub sha256: String,
    /// Interfaces and functions that it asks for: the complete list of its powers.
    pub imports: Vec<String>,
    /// Those of the imports that this host does not know, which are linked to traps: interfaces of a newer
    /// `keepline:store`, which a component calls only if the store has their capability.
    pub trapping: Vec<String>,
    /// Interfaces and functions that it offers.
    pub exports: Vec<String>,
    /// How large it is, next to what is allowed. Of a component that is over a limit: as far as it was looked at, and so
    /// are the interfaces.
    pub measured: Vec<Measured>,
    /// Why this host would not load it; none: it would.
    pub refusal: Option<String>,
}

/// Looks at a component without running any of it. Cost: that of [`Plugin::from_bytes`], within the same bounds.
///
/// # Errors
/// When the bytes are no component at all, or compiled code can't be trusted.
pub fn inspect(bytes: &[u8], sandbox: &Sandbox) -> Result<Inspection, PluginError> {
    let mut meter = Meter::new(&sandbox.plugin);
    let mut interfaces = Interfaces::default();
    let walked = catch_engine_panic(|| walk_component(bytes, &mut meter, &mut interfaces)).flatten();
    let loaded = walked.and_then(|()| load(bytes, sandbox).map(drop));
    let refusal = match loaded {
        Err(error @ (PluginError::NotAComponent(_) | PluginError::UntrustedCache { .. })) => return Err(error),
        loaded => loaded.err().map(|error| error.to_string()),
    };
    let Interfaces { imports, exports } = interfaces;
    let trapping = imports.iter().filter(|name| is_unknown_store_interface(name)).cloned().collect();
    Ok(Inspection {
        size: bytes.len(),
        sha256: sha256(bytes),
        imports,
        trapping,
        exports,
        measured: meter.measured(),
        refusal,
    })
}

/// A component, compiled, checked and ready to be instantiated. Cheap to clone; one a process is enough.
#[derive(Clone)]
pub struct Plugin {
    program: PluginProgram,
}

impl Plugin {
    /// The bundled filter.
    ///
    /// # Errors
    /// When wasmtime refuses the sandbox's settings, or compiled code can't be trusted.
    pub fn bundled(sandbox: &Sandbox) -> Result<Self, PluginError> {
        Self::from_bytes(BUNDLED, sandbox)
    }

    /// The bundled pipelines, for [`Pipelines`](crate::pipelines::Pipelines).
    ///
    /// # Errors
    /// As [`Plugin::bundled`].
    pub fn bundled_pipelines(sandbox: &Sandbox) -> Result<Self, PluginError> {
        Self::from_bytes(BUNDLED_PIPELINES, sandbox)
    }

    /// The component in a file.
    ///
    /// # Errors
    /// As [`Plugin::from_bytes`]; and when it can't be read, or is no regular file.
    pub fn from_file(path: impl AsRef<Path>, sandbox: &Sandbox) -> Result<Self, PluginError> {
        Self::from_bytes(&read(path.as_ref(), &sandbox.plugin)?, sandbox)
    }

    /// A component. Blocks. Cost: a quarter of a second to compile one of the bundled filter's size, one or two
    /// milliseconds with cached code; at most what [`PluginLimits`] allow.
    ///
    /// # Errors
    /// When it is no component, is too large, asks for too much or does not fit; or when compiled code can't be trusted.
    pub fn from_bytes(bytes: &[u8], sandbox: &Sandbox) -> Result<Self, PluginError> {
        let (engine, program) = load(bytes, sandbox)?;
        start_ticking(&engine, program.ticks()).map_err(|error| PluginError::Sandbox(error.to_string()))?;
        Ok(Self { program })
    }

    pub(crate) fn program(&self) -> &PluginProgram {
        &self.program
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("sandbox", self.program.sandbox()).finish_non_exhaustive()
    }
}

fn load(bytes: &[u8], sandbox: &Sandbox) -> Result<(Engine, PluginProgram), PluginError> {
    let (engine, component) = compile::load_or_compile(bytes, sandbox)?;
    let forbidden = forbidden_imports(&engine, &component);
    if !forbidden.is_empty() {
        return Err(PluginError::ForbiddenImports(forbidden));
    }
    let linked = catch_engine_panic(|| PluginProgram::link(&engine, &component, bytes, sandbox))?;
    let program = linked.map_err(|error| PluginError::Misfit(printable_text(format!("{error:#}"))))?;
    Ok((engine, program))
}

fn forbidden_imports(engine: &Engine, component: &Component) -> Vec<String> {
    let component = component.component_type();
    component.imports(engine).map(|(name, _)| name).filter(|name| !may_import(name)).map(printable_name).collect()
}

/// The bundled filter in the default sandbox, compiled once for all tests.
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends here")]
pub(crate) fn for_tests() -> Plugin {
    static PLUGIN: std::sync::LazyLock<Plugin> =
        std::sync::LazyLock::new(|| Plugin::bundled(&Sandbox::default()).unwrap());
    PLUGIN.clone()
}
