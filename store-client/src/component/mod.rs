//! What only a compiled component needs.

pub mod allocator;
#[cfg(target_arch = "wasm32")]
pub mod imports;
