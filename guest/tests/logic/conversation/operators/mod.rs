//! What operators do to a conversation.

mod admin;
mod chat_form;
mod replace;
mod settings;
