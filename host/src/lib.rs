//! Keepline: persistent memory for LLM pipelines, as a sandboxed WASI component and the host that lends
//! it a store.

pub mod config;
pub mod contract;
mod keepline;
pub mod lend;
pub mod local_redis;
pub mod pipe;
pub mod plugin;
mod runtime;
mod secret;
pub mod sessions;
pub mod store;

pub use self::{
    keepline::{Counters, Keepline, KeeplineError, OnStoreError, Options},
    pipe::{EntryError, Passed, Pipe},
    plugin::{CodeCache, Plugin, PluginError, Sandbox},
    sessions::{SessionError, Sessions},
};
