//! Holds every store to the promises of `wit/key-value.wit`: replays the kit of `conformance/`, and tests what the kit
//! can't express (state kept byte for byte, walks through pages, hundreds of writers, thousands of entries).
//!
//! A case is a function of a store; `on_every_store!` makes one test of it for each store. What can only
//! be seen behind a store's back is in `conformance/redis_only/` and `conformance/bounded_work.rs`.

#[path = "conformance/all_or_none.rs"]
mod all_or_none;
#[path = "conformance/bounded_work.rs"]
mod bounded_work;
#[path = "conformance/bulk.rs"]
mod bulk;
#[path = "conformance/every_operation.rs"]
mod every_operation;
#[path = "conformance/exactly_once.rs"]
mod exactly_once;
#[path = "conformance/expiry.rs"]
mod expiry;
#[path = "conformance/indexes.rs"]
mod indexes;
#[path = "conformance/kit.rs"]
mod kit;
#[path = "conformance/listing.rs"]
mod listing;
#[path = "conformance/pages.rs"]
mod pages;
#[path = "conformance/promises.rs"]
mod promises;
#[path = "conformance/redis_only/mod.rs"]
mod redis_only;
