//! Entries, the metadata that come with them, and replies.

pub(crate) mod directives;
pub mod metadata;
pub mod session_problem;
pub mod turn_token;
pub mod types;
