//! Writes the metrics as OpenMetrics text, which Prometheus reads.
//!
//! Their names, types and units are stable: `docs/metrics.md` has the table. Each scrape reads the library's counters;
//! nothing is counted here.

use std::fmt;

use keepline::{
    Keepline, Metrics,
    maintenance::{MaintenanceCounters, TaskCounters},
    store::{BreakerState, Latencies},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text},
    metrics::MetricType,
    registry::{Registry, Unit},
};

const BREAKER_STATES: [BreakerState; 3] = [BreakerState::Closed, BreakerState::HalfOpen, BreakerState::Open];

pub fn encode_metrics(keepline: &Keepline, deferred: MaintenanceCounters, backend: &str) -> Result<String, fmt::Error> {
    let moment = MetricsSnapshot {
        metrics: keepline.metrics(),
        deferred,
        round_trips: keepline.store().round_trips(),
        backend: backend.to_owned(),
    };
    let mut registry = Registry::with_prefix("keepline");
    registry.register_collector(Box::new(moment));
    let mut told = String::new();
    text::encode(&mut told, &registry)?;
    Ok(told)
}

#[derive(Debug)]
struct MetricsSnapshot {
    metrics: Metrics,
    deferred: MaintenanceCounters,
    round_trips: u64,
    backend: String,
}

impl Collector for MetricsSnapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self { metrics, deferred, round_trips, backend } = self;
        let (entries, store) = (&metrics.entries, &metrics.store);
        let mut families = MetricFamilies(encoder);
        let build = [("version", env!("CARGO_PKG_VERSION")), ("backend", &**backend)];
        families.0.encode_descriptor("build", "This program.", None, MetricType::Info)?.encode_info(&build)?;

        families.counters("entries", "Entries, by what became of them.", "effect", entries.effects())?;
        let skips = "Answers that were not stored, by reason.";
        families.counters("skipped_answers", skips, "reason", metrics.skips.reasons())?;
        let lanes = [("questions", &metrics.questions), ("answers", &metrics.answers)];
        families.histograms("lane_duration", "How long entries took, by lane.", "lane", lanes)?;
        let memories = &metrics.memories;
        let outcomes = [
            ("stored", memories.stored),
            ("repeated", memories.repeated),
            ("skipped", memories.skipped),
            ("failed", memories.failed),
        ];
        families.counters("memories", "Memories that were to be stored.", "outcome", outcomes)?;
        families.counters("titles", "Titles that were due.", "outcome", task_outcomes(deferred.titles))?;
        families.counters("summaries", "Summaries that were due.", "outcome", task_outcomes(deferred.summaries))?;
        families.counters("other_tasks", "Other deferred tasks.", "outcome", task_outcomes(deferred.others))?;
        families.counter("dropped_tasks", "Deferred tasks that there was no room for.", deferred.dropped)?;
        families.counter("busy_calls", "Calls that got no instance in time, or for lack of memory.", entries.busy)?;

        let outcomes = [
            ("succeeded", store.succeeded),
            ("failed", store.failed),
            ("abandoned", store.abandoned),
            ("panicked", store.panicked),
            ("left_alone", store.left_alone),
        ];
        families.counters("store_calls", "Store calls, by how they ended.", "outcome", outcomes)?;
        let failures = store.failures().map(|(code, count)| (code.name(), count));
        families.counters("store_failures", "Failures that the store answered with, by code.", "code", failures)?;
        let waited = "How long store calls took that were not answered at once.";
        families.histogram("store_wait", waited, &store.waits)?;
        families.counter("store_round_trips", "Requests to the store over the network.", *round_trips)?;
        let in_a_row = "Consecutive calls up to now that failed because of the store.";
        families.gauge("store_consecutive_failures", in_a_row, None, store.consecutive_failures)?;
        let states = BREAKER_STATES.map(|state| (state.name(), u64::from(state == store.breaker)));
        families.gauges("store_breaker", "Whether the store's circuit breaker is in this state.", "state", states)?;

        families.counter("plugin_faults", "Instances of the plugin that were stopped.", entries.faults)?;
        let left_alone = "Calls that were not made because the plugin had been stopped repeatedly.";
        families.counter("plugin_left_alone_calls", left_alone, entries.left_alone)?;
        let open = "Whether the plugin is left alone now.";
        families.gauge("plugin_breaker_open", open, None, u64::from(metrics.is_plugin_left_alone))?;
        let denied = "Store calls of the plugin that were outside the scope of their entry.";
        families.counter("plugin_denied_calls", denied, entries.denied)?;
        let instances = [("busy", metrics.instances_at_work), ("idle", metrics.instances_idle)];
        let instances = instances.map(|(state, count)| (state, as_u64(count)));
        families.gauges("plugin_instances", "Instances of the plugin.", "state", instances)?;
        let (held, waiting) = (as_u64(metrics.instances_bytes), as_u64(metrics.calls_waiting));
        families.gauge("plugin_memory", "What all instances hold.", Some(&Unit::Bytes), held)?;
        families.gauge("waiting_calls", "Calls that wait for an instance.", None, waiting)?;

        let embeddings = &metrics.embeddings;
        let took = "How long calls for embeddings took.";
        families.histogram("embedding_duration", took, &embeddings.requests)?;
        families.counter("embedding_failures", "Calls for embeddings that failed.", embeddings.failures)?;
        let hits = "Questions whose embedding was there already.";
        families.counter("embedding_cache_hits", hits, embeddings.cache_hits)?;
        let without = [("late", embeddings.late), ("left_alone", embeddings.left_alone)];
        let help = "Questions that went without their embedding, by reason.";
        families.counters("questions_without_embedding", help, "reason", without)
    }
}

fn task_outcomes(tasks: TaskCounters) -> [(&'static str, u64); 4] {
    [("done", tasks.done), ("taken", tasks.taken), ("ended", tasks.ended), ("failed", tasks.failed)]
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

struct MetricFamilies<'a>(DescriptorEncoder<'a>);

impl MetricFamilies<'_> {
    fn counter(&mut self, name: &str, help: &str, count: u64) -> fmt::Result {
        encode_count(self.0.encode_descriptor(name, help, None, MetricType::Counter)?, count)
    }

    fn counters<'v>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        counts: impl IntoIterator<Item = (&'v str, u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        counts.into_iter().try_for_each(|(value, count)| encode_count(family.encode_family(&[(label, value)])?, count))
    }

    fn gauge(&mut self, name: &str, help: &str, unit: Option<&Unit>, value: u64) -> fmt::Result {
        self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?.encode_gauge(&value)
    }

    fn gauges<'v>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'v str, u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        values.into_iter().try_for_each(|(of, value)| family.encode_family(&[(label, of)])?.encode_gauge(&value))
    }

    fn histogram(&mut self, name: &str, help: &str, latencies: &Latencies) -> fmt::Result {
        encode_latencies(self.0.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?, latencies)
    }

    fn histograms<'v>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        times: impl IntoIterator<Item = (&'v str, &'v Latencies)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        times
            .into_iter()
            .try_for_each(|(value, times)| encode_latencies(family.encode_family(&[(label, value)])?, times))
    }
}

fn encode_count(mut metric: MetricEncoder<'_>, count: u64) -> fmt::Result {
    metric.encode_counter::<NoLabelSet, _, f64>(&count, None)
}

fn encode_latencies(mut metric: MetricEncoder<'_>, latencies: &Latencies) -> fmt::Result {
    let seconds = |bound: Option<std::time::Duration>| bound.map_or(f64::INFINITY, |bound| bound.as_secs_f64());
    let buckets: Vec<(f64, u64)> = latencies.buckets().map(|(bound, count)| (seconds(bound), count)).collect();
    metric.encode_histogram::<NoLabelSet>(latencies.sum().as_secs_f64(), latencies.count(), &buckets, None)
}
