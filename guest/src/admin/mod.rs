//! Functions for operators and tools: sessions, transcripts, messages and users.
//!
//! Each function takes a [`Context`](crate::Context), follows the lanes' rules for names, values and limits, and refuses with a
//! [`Problem`](crate::Problem).

pub mod conditions;
mod delete;
mod edit;
pub mod forget;
pub mod grep;
mod import;
mod message_form;
pub mod messages;
mod register;
pub mod sessions;
pub mod transcripts;
pub mod user_sessions;
mod user_values;
mod version;

pub use edit::{clear_messages, rewrite_message};
pub use forget::forget_user;
pub use grep::find_lines;
pub use import::set_messages;
pub use messages::{find_messages, read_message_content};
pub use register::register_transcript;
pub use sessions::{
    clear_values, create_session, create_with_id, delete_session, increment_value, list_session_keys, list_sessions,
    name_id, put_value, read_history, read_value, resume_session, session_name, with_session_name,
};
pub use transcripts::{describe_transcript, set_settings, set_title};
pub use user_sessions::list_user_sessions;
pub use user_values::{put_user_value, read_user_values};
