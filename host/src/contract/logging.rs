//! The levels of the interface `log`.

pub use super::generated::keepline::host::log::Level as LogLevel;
