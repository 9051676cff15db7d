//! Shared helpers of the black-box tests. A helper that can't do its part ends the test.

pub mod component_host;
pub mod component_store;
pub mod confined;
pub mod guests;
pub mod host_kit;
pub mod interfaces;
pub mod ladder;
pub mod lanes;
pub mod models;
pub mod original;
pub mod place;
pub mod programs;
pub mod schemas;
pub mod valid_window;
pub mod watch;

pub use keepline_stores_tests::{
    intercept, on_every_store, on_stores, proxy, random, requests, servers, stores, until,
};
