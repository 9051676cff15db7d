//! Metrics: counters, latencies and gauges, read at one moment.

use crate::{
    embedding::EmbeddingMetrics,
    keepline::inner::counters::{Counters, MemoryCounters, SkipCounters},
    store::{Latencies, StoreCounters},
};

/// All there is to watch about a [`Keepline`](crate::Keepline), read at one moment.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// What has become of entries.
    pub entries: Counters,
    /// Why answers were skipped.
    pub skips: SkipCounters,
    /// How long questions took, from the call to the reply: waiting for an instance, for the store, and computing.
    pub questions: Latencies,
    /// How long answers took.
    pub answers: Latencies,
    /// What has become of [memories](crate::memories) that were to be stored. Their answers are among the entries.
    pub memories: MemoryCounters,
    /// How calls of the store have ended. It is the one of this Keepline, not of
    /// [others](crate::Keepline::with_store) that share its instances.
    pub store: StoreCounters,
    /// Instances that are serving a call.
    pub instances_at_work: usize,
    /// Instances at rest.
    pub instances_idle: usize,
    /// What all instances hold together, bytes: memories, tables, globals and their own state.
    pub instances_bytes: usize,
    /// Whether the plugin is left alone now, because it was stopped time after time:
    /// [`Options::plugin_breaker`](crate::Options::plugin_breaker).
    pub is_plugin_left_alone: bool,
    /// Calls that wait for an instance.
    pub calls_waiting: usize,
    /// What has become of calls for embeddings.
    pub embeddings: EmbeddingMetrics,
}
