//! The session that an entry belongs to: its id, its owner, its end, and answers that come again.

mod expiry;
mod message_ids;
mod owners;
mod session_ids;
