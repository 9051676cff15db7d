//! Entries and messages as lines of JSON: what `keepline run` reads, and what the service's lanes read.

pub mod chat_messages;
pub mod entry;
pub mod members;
