//! The commands, one module each, grouped where several are about one thing. No group imports another.

pub mod completions;
pub mod config;
pub mod demo;
pub mod explain;
pub mod memories;
pub mod plugin;
pub mod recall;
pub mod run;
pub mod session;
pub mod store;
pub mod user;
