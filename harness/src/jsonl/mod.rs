//! Messages and values from files and the command line.

pub mod chat_messages;
pub mod value;
