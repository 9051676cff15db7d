//! `keepline run`: entries pass through the filter, one line out for each line in.

pub mod coprocess;
mod deferred;
mod embeddings;
mod eviction;
mod lines;
mod memory;
mod metrics;
mod pipeline;
mod signals;
mod store_failures;
mod streams;
mod turns;
