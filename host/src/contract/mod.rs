//! The types of the contract in `wit/` as plain Rust, under the same names; those of `keepline:store` are in the
//! stores' crate.
//!
//! These types cross the component's boundary themselves: each instance is checked against them when it is made.

#![allow(unsafe_code, reason = "what is derived implements wasmtime's unsafe traits")]

pub(crate) mod filter;
pub(crate) mod logging;
pub(crate) mod maintenance;
pub(crate) mod sessions;
pub(crate) mod storage_names;
pub(crate) mod transcripts;

/// What a plugin may import, in any version that fits: all interfaces of the store, a log, a clock.
pub(crate) const IMPORTS: [&str; 3] = ["keepline:store@0.3", "keepline:host/log@0.3", "wasi:clocks/wall-clock@0.2"];

/// Interfaces that hold only types, which their users import as well.
const TYPES: [&str; 2] = ["keepline:common/shared@0.3", "keepline:host/needs@0.3"];

/// The interfaces of the store that this host knows; `types` holds only types.
const STORE_INTERFACES: [&str; 5] = ["types", "core", "leases", "indexes", "listing"];

pub(crate) fn may_import(name: &str) -> bool {
    let is_version_of = |import: &str| name.strip_prefix(import).is_some_and(|rest| rest.starts_with('.'));
    store_interface(name).is_some() || IMPORTS.iter().chain(&TYPES).any(|import| is_version_of(import))
}

/// Whether it is an interface of the store that was added after this host was built. A component calls it only if the store
/// has its capability, and so never here.
pub(crate) fn is_unknown_store_interface(name: &str) -> bool {
    store_interface(name).is_some_and(|interface| !STORE_INTERFACES.contains(&interface))
}

/// The interface of `keepline:store@0.3.x` that an import names.
fn store_interface(name: &str) -> Option<&str> {
    let (interface, version) = name.strip_prefix("keepline:store/")?.split_once('@')?;
    version.starts_with("0.3.").then_some(interface)
}
