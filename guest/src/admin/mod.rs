//! What operators and tools do to sessions, transcripts and users.
//!
//! Each function takes a [`Context`](crate::Context), follows the lanes' rules for names, values and limits, and refuses with a
//! [`SessionProblem`](crate::SessionProblem).

mod delete;
mod edit;
pub mod forget;
pub mod grep;
mod import;
pub mod messages;
mod register;
pub mod sessions;
pub mod transcripts;
pub mod user_sessions;
mod user_values;

pub use edit::{clear_messages, rewrite};
pub use forget::forget_user;
pub use grep::find_lines;
pub use import::set_messages;
pub use messages::{content, messages};
pub use register::register;
pub use sessions::{
    clear, create, create_with_id, delete, get, history, increment, keys, list, put, resume, with_name,
};
pub use transcripts::{describe, set_settings, set_title};
pub use user_sessions::user_sessions;
pub use user_values::{put_user_value, user_values};
