//! The session that an entry belongs to: its id, its owner, its end, answers that come again, and conditions of calls.

mod conditions;
mod expiry;
mod message_ids;
mod owners;
mod session_ids;
