//! What the black-box tests share. A helper that can't do its part ends the test.

pub mod guests;
pub mod lanes;
pub mod original;
pub mod programs;
pub mod proxy;
pub mod requests;
pub mod servers;
pub mod stores;
pub mod watch;
