//! The types of the contract in `wit/` as plain Rust, under the same names; those of `key-value` are in the stores'
//! crate.
//!
//! These types cross the component's boundary themselves: each instance is checked against them when it is made.

#![allow(unsafe_code, reason = "what is derived implements wasmtime's unsafe traits")]

pub(crate) mod filter;
pub(crate) mod logging;
pub(crate) mod maintenance;
pub(crate) mod sessions;
pub(crate) mod storage_names;
pub(crate) mod transcripts;

/// The interfaces that a plugin may import. WASI's clock in any 0.2.x, as its versioning rules allow.
pub(crate) const IMPORTS: [&str; 3] =
    ["keepline:memory/key-value@0.2.0", "wasi:clocks/wall-clock@0.2", "wasi:logging/logging@0.1.0-draft"];

pub(crate) fn may_import(name: &str) -> bool {
    let is_version_of = |import: &str| import.ends_with("@0.2") && name.starts_with(&format!("{import}."));
    IMPORTS.iter().any(|import| name == *import || is_version_of(import))
}
