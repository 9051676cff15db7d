//! A filter that redacts card numbers before they are stored. Everything else is done by the bundled filter.

pub mod cards;
#[cfg(target_arch = "wasm32")]
mod lanes;
