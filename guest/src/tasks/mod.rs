//! Deferred work: one task per module, advanced one step at a time.
//!
//! No step waits for a model: a step returns what it needs, and the next one gets the result. Each write expects what the work was
//! based on, and each step holds a lease, so concurrent work is neither lost nor done twice; a task may be abandoned at any
//! point.

pub(crate) mod activity;
pub(crate) mod advance;
pub(crate) mod checkpoint;
pub(crate) mod copy_to_user;
pub(crate) mod embed;
pub(crate) mod generate_title;
pub(crate) mod index_passages;
pub mod job;
pub(crate) mod retention;
pub(crate) mod summarize;
pub(crate) mod task;
