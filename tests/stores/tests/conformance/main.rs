//! Holds every store to the promises of `wit/deps/store`: replays the kit of `conformance/`, and tests what the kit
//! can't express (state kept byte for byte, walks through pages, hundreds of writers, thousands of entries).
//!
//! A case is a function of a store; `on_every_store!` makes one test of it for each store. What can only
//! be seen behind a store's back is in `redis_only/` and `bounded_work.rs`.

mod all_or_none;
mod bounded_work;
mod bulk;
mod every_operation;
mod exactly_once;
mod expiry;
mod indexes;
mod kit;
mod listing;
mod pages;
mod promises;
mod redis_only;
