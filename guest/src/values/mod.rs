//! The values of a session, their history, and the ids of messages without a conversation.

pub(crate) mod attach;
pub(crate) mod fitting;
pub mod history;
pub mod history_summary;
pub(crate) mod message_ids;
pub(crate) mod record_answer;
pub(crate) mod session_id;
