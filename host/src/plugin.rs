//! Plugins: loading a component, after having looked at what it asks for.
//!
//! Deny by default: the linker holds the contract's three imports and nothing else, and a component that
//! wants more is refused with the list of what it asked for.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};
use wasmtime::{Cache, CacheConfig, Config, Engine, Inlining, component::Component};

use crate::runtime::{Program, start_ticking};
pub use crate::sandbox::{CodeCache, Sandbox};

/// The bundled filter, as a component.
pub use keepline_component::FILTER as BUNDLED;

/// Why a plugin can't be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// The file can't be read.
    #[error("can't read the plugin {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The bytes are no component.
    #[error("not a WebAssembly component: {0}")]
    NotAComponent(String),
    /// It asks for more than the contract's imports.
    #[error("refused: the plugin imports {}; this host provides only {}", list(.0), list(&LENT))]
    ForbiddenImports(Vec<String>),
    /// It does not fit the contract.
    #[error("the plugin does not fit the world keepline:memory/memory-filter: {0}")]
    Misfit(String),
    /// wasmtime can't be set up as wanted.
    #[error("can't set up the sandbox: {0}")]
    Sandbox(String),
}

/// The interfaces that a plugin may import. WASI's clock in any 0.2.x, as its versioning rules allow.
const LENT: [&str; 3] =
    ["keepline:memory/key-value@0.2.0", "wasi:clocks/wall-clock@0.2", "wasi:logging/logging@0.1.0-draft"];

fn is_lent(import: &str) -> bool {
    LENT.iter().any(|lent| import == *lent || (lent.ends_with("@0.2") && import.starts_with(&format!("{lent}."))))
}

fn list(names: &[impl fmt::Display]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

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
    /// Interfaces and functions that it offers.
    pub exports: Vec<String>,
    /// Why this host would not load it; none: it would.
    pub refusal: Option<String>,
}

/// Looks at a component without running any of it. Cost: compiles it, unless the code is cached.
///
/// # Errors
/// When the bytes are no component at all.
pub fn inspect(bytes: &[u8]) -> Result<Inspection, PluginError> {
    let engine = engine(&Sandbox::default())?;
    let component = compile(&engine, bytes)?;
    let (imports, exports) = interfaces(&component, &engine);
    let sha256 = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let refusal = link(&engine, &component, &Sandbox::default()).err().map(|error| error.to_string());
    Ok(Inspection { size: bytes.len(), sha256, imports, exports, refusal })
}

/// A component, compiled, checked and ready to be instantiated. Cheap to clone; one a process is enough.
#[derive(Clone)]
pub struct Plugin {
    program: Program,
}

impl Plugin {
    /// The bundled filter.
    ///
    /// # Errors
    /// When wasmtime refuses the sandbox's settings.
    pub fn bundled(sandbox: &Sandbox) -> Result<Self, PluginError> {
        Self::from_bytes(BUNDLED, sandbox)
    }

    /// The component in a file.
    ///
    /// # Errors
    /// When it can't be read, is no component, asks for too much or does not fit.
    pub fn from_file(path: impl AsRef<Path>, sandbox: &Sandbox) -> Result<Self, PluginError> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|source| PluginError::Read { path: path.to_owned(), source })?;
        Self::from_bytes(&bytes, sandbox)
    }

    /// A component. Cost: a quarter of a second to compile, one or two milliseconds with cached code.
    ///
    /// # Errors
    /// When it is no component, asks for too much or does not fit.
    pub fn from_bytes(bytes: &[u8], sandbox: &Sandbox) -> Result<Self, PluginError> {
        let engine = engine(sandbox)?;
        let component = compile(&engine, bytes)?;
        let program = link(&engine, &component, sandbox)?;
        start_ticking(&engine).map_err(|error| PluginError::Sandbox(error.to_string()))?;
        Ok(Self { program })
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("sandbox", self.program.sandbox()).finish_non_exhaustive()
    }
}

fn engine(sandbox: &Sandbox) -> Result<Engine, PluginError> {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        // The contract is synchronous; without this a call costs three times as much.
        .concurrency_support(false)
        .epoch_interruption(true)
        // A twenty-fifth of an entry; it doubles the time to compile, which is cached.
        .compiler_inlining(Inlining::Yes)
        // No shared memories, no wide or exotic extensions: the less there is, the less can be wrong.
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_tail_call(false)
        .wasm_relaxed_simd(false)
        .memory_guaranteed_dense_image_size(1 << 20);
    let cache = match &sandbox.cache {
        CodeCache::Off => None,
        CodeCache::Default => Some(CacheConfig::new()),
        CodeCache::At(directory) => {
            let mut cache = CacheConfig::new();
            cache.with_directory(directory);
            Some(cache)
        }
    };
    if let Some(cache) = cache {
        match Cache::new(cache) {
            Ok(cache) => {
                config.cache(Some(cache));
            }
            // A read-only home must not keep anybody from running.
            Err(error) => tracing::debug!(target: "keepline", "compiled code is not cached: {error:#}"),
        }
    }
    Engine::new(&config).map_err(|error| PluginError::Sandbox(format!("{error:#}")))
}

fn compile(engine: &Engine, bytes: &[u8]) -> Result<Component, PluginError> {
    if !bytes.starts_with(b"\0asm") {
        return Err(PluginError::NotAComponent("it does not start with the WebAssembly magic number".into()));
    }
    Component::from_binary(engine, bytes).map_err(|error| PluginError::NotAComponent(format!("{error:#}")))
}

fn interfaces(component: &Component, engine: &Engine) -> (Vec<String>, Vec<String>) {
    let component = component.component_type();
    let imports = component.imports(engine).map(|(name, _)| name.to_owned()).collect();
    let exports = component.exports(engine).map(|(name, _)| name.to_owned()).collect();
    (imports, exports)
}

fn link(engine: &Engine, component: &Component, sandbox: &Sandbox) -> Result<Program, PluginError> {
    let (imports, _) = interfaces(component, engine);
    let forbidden: Vec<_> = imports.into_iter().filter(|import| !is_lent(import)).collect();
    if !forbidden.is_empty() {
        return Err(PluginError::ForbiddenImports(forbidden));
    }
    Program::link(engine, component, sandbox).map_err(|error| PluginError::Misfit(format!("{error:#}")))
}
