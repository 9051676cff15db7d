//! A host of `keepline.wasm` on plain wasmtime, written against `wit/`, the kits and `docs/hosts.md` alone.

pub mod bindings;
pub mod filter;
pub mod host;
pub mod metadata;
pub mod store;
pub mod turns;
