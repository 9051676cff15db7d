//! The records of a conversation: what is stored, and which of them lead to a message.

pub mod address;
pub(crate) mod parts;
pub mod record;
pub(crate) mod sanitize;
pub(crate) mod schema;
pub(crate) mod skip_counters;
pub(crate) mod summary;
pub(crate) mod text;
pub(crate) mod thread;
pub(crate) mod title;
pub(crate) mod turn_id;
pub mod turns;
