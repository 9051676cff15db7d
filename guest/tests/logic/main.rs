//! The rules of the filter and of the operations on sessions, over the memory store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod admin_calls;
mod configure;
mod conversation;
mod filter;
mod memory;
mod message_id;
mod option_schema;
mod properties;
mod sessions;
mod store_limits;
mod test_host;

use keepline_stores as stores;
