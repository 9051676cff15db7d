//! What can be configured, and what can be set for one session.

pub mod config;
pub mod conversation;
pub(crate) mod reader;
pub mod recall;
pub mod settings;
