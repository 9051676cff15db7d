//! The contract as Rust types, generated from `wit/`.
#![allow(missing_docs)]

wasmtime::component::bindgen!({ path: "../../../wit", world: "memory-filter", additional_derives: [PartialEq] });

pub use exports::keepline::memory::{lanes, tasks};
pub use keepline::common::shared::Problem;
pub use keepline::host::{log, needs};
pub use keepline::store::{core, listing, types};
pub use wasi::clocks::wall_clock;

impl Problem {
    /// A problem of a registered code.
    pub fn new(code: &str, subject: &str, limit: u64, message: &str) -> Self {
        Self { code: code.into(), subject: subject.into(), limit, message: message.into() }
    }
}
