//! Sets wasmtime up for plugins, and guards against its panics.

use std::path::Path;

use wasmtime::{Cache, CacheConfig, Config, Engine, Inlining, component::Component};

use super::{
    error::{PluginError, printable_text},
    walk::FEATURES,
};
use crate::sandbox::catch_panic::catch_panic;

/// How one engine differs from another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup<'a> {
    /// Whether to compile several functions at a time: sooner done, and with as many times the memory.
    pub(super) is_parallel: bool,
    /// Where compiled code is read from and written to.
    pub(super) cache: Option<&'a Path>,
}

pub(super) fn engine(setup: Setup<'_>) -> Result<Engine, PluginError> {
    let mut config = Config::new();
    config
        .wasm_features(FEATURES.complement(), false)
        .wasm_features(FEATURES, true)
        // The contract is synchronous; without this a call costs three times as much.
        .concurrency_support(false)
        .epoch_interruption(true)
        // It would save a twentieth of an entry, take ten times the memory to compile, and of a long chain of calls the square
        // of its length. A component's own build inlines better.
        .compiler_inlining(Inlining::No)
        .parallel_compilation(setup.is_parallel)
        .memory_guaranteed_dense_image_size(1 << 20);
    let failed = |error: wasmtime::Error| PluginError::Sandbox(format!("{error:#}"));
    if let Some(directory) = setup.cache {
        let mut cache = CacheConfig::new();
        cache.with_directory(directory);
        config.cache(Some(Cache::new(cache).map_err(failed)?));
    }
    Engine::new(&config).map_err(failed)
}

/// wasmtime compiles it, unless the code is there.
pub(super) fn build_component(bytes: &[u8], setup: Setup<'_>) -> Result<(Engine, Component), PluginError> {
    let engine = engine(setup)?;
    let component = compile_component(&engine, bytes)?;
    Ok((engine, component))
}

/// What a compiler process does: compiled code goes to the directory.
pub(super) fn compile_into(directory: &Path, bytes: &[u8]) -> Result<(), PluginError> {
    let engine = engine(Setup { is_parallel: true, cache: Some(directory) })?;
    compile_component(&engine, bytes).map(drop)
}

fn compile_component(engine: &Engine, bytes: &[u8]) -> Result<Component, PluginError> {
    let refused = |error: wasmtime::Error| PluginError::NotAComponent(printable_text(format!("{error:#}")));
    catch_engine_panic(|| Component::from_binary(engine, bytes))?.map_err(refused)
}

/// Runs code of the engine on untrusted bytes.
///
/// # Errors
/// When it panics.
pub(super) fn catch_engine_panic<T>(body: impl FnOnce() -> T) -> Result<T, PluginError> {
    catch_panic(body).map_err(PluginError::EngineDefect)
}
