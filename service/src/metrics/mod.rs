//! What is counted, as OpenMetrics text: the library's counters, and those of requests over HTTP.

mod exposition;
mod prompts;
mod requests;

pub use self::{
    exposition::{OPEN_METRICS, StoreMetrics, encode_metrics},
    prompts::{PromptCounters, PromptPrefixes},
    requests::RequestCounters,
};
