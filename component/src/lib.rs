//! Keepline's components, in bytes. What one imports is the complete list of its powers.
//!
//! They are statics: of a constant, a program has a copy for each unit of code that uses it.

/// The filter: world `memory-filter` in `wit/`.
pub static FILTER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/keepline.wasm"));

/// Declared retrieval: world `pipelines` in `wit/pipelines/`.
pub static PIPELINES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/keepline-pipelines.wasm"));
