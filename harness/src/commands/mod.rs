//! The commands, one module each. No command imports another.

pub mod completions;
pub mod component;
pub mod config;
pub mod demo;
pub mod explain;
pub mod health;
pub mod inspect;
pub mod memories;
pub mod migrate;
pub mod recall;
pub mod remember;
pub mod run;
pub mod session;
pub mod stats;
pub mod store;
pub mod user;
