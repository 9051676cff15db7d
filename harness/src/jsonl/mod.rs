//! Entries and messages as lines of JSON.

pub mod chat_messages;
pub mod entry;
pub mod members;
pub mod value;
