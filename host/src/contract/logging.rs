//! The levels of the interface `log`.

use wasmtime::component::{ComponentType, Lift, Lower};

/// How urgent a message is, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
pub enum LogLevel {
    /// Each step.
    #[component(name = "trace")]
    Trace,
    /// What was done.
    #[component(name = "debug")]
    Debug,
    /// What is worth knowing.
    #[component(name = "info")]
    Info,
    /// Something was left out, or went wrong and was coped with.
    #[component(name = "warn")]
    Warn,
    /// Something failed.
    #[component(name = "error")]
    Error,
    /// All fails.
    #[component(name = "critical")]
    Critical,
}
