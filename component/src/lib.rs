//! Keepline's components, in bytes. What one imports is the complete list of its powers.

/// The filter: world `memory-filter` in `wit/`.
pub const FILTER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/keepline.wasm"));

/// Declared retrieval: world `pipelines` in `wit/pipelines/`.
pub const PIPELINES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/keepline-pipelines.wasm"));
