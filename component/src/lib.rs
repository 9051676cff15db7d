//! Keepline's filter as a component, for whoever wants to load it: the world `memory-filter` of `wit/`.

/// The component. What it imports is the complete list of its powers.
pub const FILTER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/keepline.wasm"));
