//! Keepline's filter as a component of the world `memory-filter` in `wit/`.

/// The component. What it imports is the complete list of its powers.
pub const FILTER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/keepline.wasm"));
