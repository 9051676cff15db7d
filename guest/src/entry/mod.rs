//! What comes with an entry, and what goes back.

pub(crate) mod directives;
pub mod metadata;
pub mod session_problem;
pub mod turn_token;
pub mod types;
