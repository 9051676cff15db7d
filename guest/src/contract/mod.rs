//! The contract of `wit/` in Rust: the types of the store, the lanes and the administration, generated, and the [`Host`]
//! that lends the filter a store, a clock and a log.
//!
//! The types are the component's own, natively as well: nothing is converted on the way to a store or a caller.

#[allow(unsafe_code, unused, missing_docs, clippy::all, clippy::restriction, rustdoc::all, reason = "generated")]
pub mod bindings;

pub use bindings::exports::keepline::admin::{sessions, transcripts, users};
pub use bindings::exports::keepline::memory::{lanes, tasks};
pub use keepline_store_client::{bindings as imports, *};
