//! The contract of `wit/` as plain Rust, but for `key-value`, name for name.
//!
//! These very types cross the boundary of the component; each instance is checked against them when it is made. The
//! types of `key-value` are the stores' own.

#![allow(unsafe_code, reason = "what is derived implements wasmtime's unsafe traits")]

pub(crate) mod filter;
pub(crate) mod logging;
pub(crate) mod maintenance;
pub(crate) mod sessions;
pub(crate) mod transcripts;
