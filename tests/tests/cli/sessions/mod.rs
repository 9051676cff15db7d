//! Sessions, conversations and users from the shell.

mod conversation;
mod memories;
mod operations;
mod recall;
mod replacing;
mod settings;
pub mod transcripts;
mod users;
