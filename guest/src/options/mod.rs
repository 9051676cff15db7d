//! The filter's options, and the settings of single sessions.
//!
//! The table of options is the crate `keepline-options`: a row there is a field here, with its default, range, reader and
//! place in `configure`'s reply.

pub mod config;
pub mod conversation;
pub(crate) mod reader;
mod settings;
mod table;
