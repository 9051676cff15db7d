//! Whose a session is, and which of a user's sessions was used last.

pub(crate) mod activity_log;
pub(crate) mod registry;
