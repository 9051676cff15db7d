//! What the black-box tests share. A helper that can't do its part ends the test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "only tests call this, and a test ends at the first thing that is not as it should be"
)]

pub mod guests;
pub mod lanes;
pub mod proxy;
pub mod requests;
pub mod stores;
pub mod watch;
