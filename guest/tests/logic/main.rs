//! The rules of the filter and of the operations on sessions, over a small faithful store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod configure;
mod conversation;
mod fake;
mod filter;
mod message_id;
mod properties;
mod sessions;
