//! Deferred work, done by a command itself.

pub mod run_task;
pub mod scope;
