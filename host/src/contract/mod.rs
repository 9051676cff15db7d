//! The contract of `wit/filter.wit` and `wit/sessions.wit` as plain Rust, name for name.
//!
//! These very types cross the boundary of the component; each instance is checked against them when it is made. The
//! types of `key-value` are the stores' own.

#![allow(unsafe_code, reason = "what is derived implements wasmtime's unsafe traits")]

pub(crate) mod filter;
pub(crate) mod logging;
pub(crate) mod maintenance;
pub(crate) mod sessions;
