//! Writes the metrics as OpenMetrics text, which Prometheus reads.
//!
//! Their names, types and units are stable: `docs/metrics.md` has the table. Each scrape reads the library's counters;
//! nothing is counted here.

use std::fmt;

use keepline::{
    Keepline, Metrics,
    maintenance::{MaintenanceCounters, TaskCounters},
    store::{BreakerState, Latencies, StoreCounters},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text},
    metrics::MetricType,
    registry::{Registry, Unit},
};

use super::{PromptCounters, RequestCounters};
use crate::access::TenantName;

/// The label of a tenant's store. The configured store has none.
const TENANT: &str = "tenant";

const BREAKER_STATES: [BreakerState; 3] = [BreakerState::Closed, BreakerState::HalfOpen, BreakerState::Open];

/// The content type of the text.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is counted for one store: what it does, and the work that its entries leave behind.
#[derive(Clone, Debug)]
pub struct StoreMetrics {
    tenant: Option<String>,
    store: StoreCounters,
    round_trips: u64,
    deferred: MaintenanceCounters,
    /// None: nobody looks at the prompts of this process.
    prompts: Option<PromptCounters>,
}

impl StoreMetrics {
    /// Of the configured store; of a tenant's with its name, which becomes a label.
    pub fn read(keepline: &Keepline, deferred: MaintenanceCounters, tenant: Option<&TenantName>) -> Self {
        Self {
            tenant: tenant.map(|name| name.as_str().to_owned()),
            store: keepline.metrics().store,
            round_trips: keepline.store().round_trips(),
            deferred,
            prompts: None,
        }
    }

    /// With what was counted of its prompts.
    pub fn with_prompts(self, prompts: PromptCounters) -> Self {
        Self { prompts: Some(prompts), ..self }
    }
}

/// The metrics of these stores, which have this name, and of the process, for those who may see what is counted for all its
/// tenants together.
///
/// # Errors
/// None that depends on what is counted.
pub fn encode_metrics(
    backend: &str,
    stores: Vec<StoreMetrics>,
    process: Option<(&Keepline, Option<&RequestCounters>)>,
) -> Result<String, fmt::Error> {
    let moment = MetricsSnapshot {
        process: process.map(|(keepline, _)| keepline.metrics()),
        stores,
        backend: backend.to_owned(),
    };
    let mut registry = Registry::with_prefix("keepline");
    registry.register_collector(Box::new(moment));
    if let Some((_, Some(requests))) = process {
        requests.register(&mut registry);
    }
    let mut told = String::new();
    text::encode(&mut told, &registry)?;
    Ok(told)
}

#[derive(Debug)]
struct MetricsSnapshot {
    process: Option<Metrics>,
    stores: Vec<StoreMetrics>,
    backend: String,
}

impl Collector for MetricsSnapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = MetricFamilies(encoder);
        let build = [("version", env!("CARGO_PKG_VERSION")), ("backend", &*self.backend)];
        families.0.encode_descriptor("build", "This program.", None, MetricType::Info)?.encode_info(&build)?;
        if let Some(metrics) = &self.process {
            encode_entries(&mut families, metrics)?;
            encode_plugin(&mut families, metrics)?;
            encode_embeddings(&mut families, metrics)?;
        }
        encode_stores(&mut families, &self.stores)?;
        if self.stores.iter().any(|of| of.prompts.is_some()) {
            encode_prompts(&mut families, &self.stores)?;
        }
        Ok(())
    }
}

fn encode_entries(families: &mut MetricFamilies<'_>, metrics: &Metrics) -> fmt::Result {
    let entries = &metrics.entries;
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
    families.counter("busy_calls", "Calls that got no instance in time, or for lack of memory.", entries.busy)
}

fn encode_stores(families: &mut MetricFamilies<'_>, stores: &[StoreMetrics]) -> fmt::Result {
    let titles = |of: &StoreMetrics| task_outcomes(of.deferred.titles);
    families.counters_of_stores("titles", "Titles that were due.", "outcome", stores, titles)?;
    let summaries = |of: &StoreMetrics| task_outcomes(of.deferred.summaries);
    families.counters_of_stores("summaries", "Summaries that were due.", "outcome", stores, summaries)?;
    let others = |of: &StoreMetrics| task_outcomes(of.deferred.others);
    families.counters_of_stores("other_tasks", "Other deferred tasks.", "outcome", stores, others)?;
    let help = "Deferred tasks that there was no room for.";
    families.of_stores("dropped_tasks", help, MetricType::Counter, stores, |of, metric| {
        encode_count(metric, of.deferred.dropped)
    })?;

    let outcomes = |StoreMetrics { store, .. }: &StoreMetrics| {
        [
            ("succeeded", store.succeeded),
            ("failed", store.failed),
            ("abandoned", store.abandoned),
            ("panicked", store.panicked),
            ("left_alone", store.left_alone),
        ]
    };
    families.counters_of_stores("store_calls", "Store calls, by how they ended.", "outcome", stores, outcomes)?;
    let failures =
        |of: &StoreMetrics| of.store.failures().map(|(code, count)| (code.name(), count)).collect::<Vec<_>>();
    let help = "Failures that the store answered with, by code.";
    families.counters_of_stores("store_failures", help, "code", stores, failures)?;
    let help = "How long store calls took that were not answered at once.";
    families.of_stores("store_wait", help, MetricType::Histogram, stores, |of, metric| {
        encode_latencies(metric, &of.store.waits)
    })?;
    let help = "Requests to the store over the network.";
    families.of_stores("store_round_trips", help, MetricType::Counter, stores, |of, metric| {
        encode_count(metric, of.round_trips)
    })?;
    let help = "Consecutive calls up to now that failed because of the store.";
    families.of_stores("store_consecutive_failures", help, MetricType::Gauge, stores, |of, metric| {
        metric.encode_gauge(&of.store.consecutive_failures)
    })?;
    let help = "Whether the store's circuit breaker is in this state.";
    let mut family = families.0.encode_descriptor("store_breaker", help, None, MetricType::Gauge)?;
    for of in stores {
        for state in BREAKER_STATES {
            let labels = labels_of(of, ("state", state.name()));
            family.encode_family(&labels)?.encode_gauge(&u64::from(state == of.store.breaker))?;
        }
    }
    Ok(())
}

fn encode_prompts(families: &mut MetricFamilies<'_>, stores: &[StoreMetrics]) -> fmt::Result {
    let prompts = |of: &StoreMetrics| of.prompts.unwrap_or_default();
    let help = "Bytes of conversations that questions got, from a session's second question on.";
    families.of_stores("prompt_bytes", help, MetricType::Counter, stores, |of, metric| {
        encode_count(metric, prompts(of).bytes)
    })?;
    let help = "Of these, those at the beginning that are as they were at the question before.";
    families.of_stores("prompt_stable_bytes", help, MetricType::Counter, stores, |of, metric| {
        encode_count(metric, prompts(of).stable_bytes)
    })
}

fn encode_plugin(families: &mut MetricFamilies<'_>, metrics: &Metrics) -> fmt::Result {
    let entries = &metrics.entries;
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
    families.gauge("waiting_calls", "Calls that wait for an instance.", None, waiting)
}

fn encode_embeddings(families: &mut MetricFamilies<'_>, metrics: &Metrics) -> fmt::Result {
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

/// A label, and the tenant's after it, if the store is a tenant's.
fn labels_of<'a>(of: &'a StoreMetrics, label: (&'a str, &'a str)) -> Vec<(&'a str, &'a str)> {
    [label].into_iter().chain(of.tenant.as_deref().map(|tenant| (TENANT, tenant))).collect()
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
        encode_count(&mut self.0.encode_descriptor(name, help, None, MetricType::Counter)?, count)
    }

    /// One metric of each store, without another label. A histogram's is in seconds.
    fn of_stores(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        stores: &[StoreMetrics],
        encode: impl Fn(&StoreMetrics, &mut MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let unit = matches!(kind, MetricType::Histogram).then_some(&Unit::Seconds);
        let mut family = self.0.encode_descriptor(name, help, unit, kind)?;
        stores.iter().try_for_each(|of| match &of.tenant {
            None => encode(of, &mut family),
            Some(tenant) => encode(of, &mut family.encode_family(&[(TENANT, &**tenant)])?),
        })
    }

    /// The same for counters with one more label.
    fn counters_of_stores<C: IntoIterator<Item = (&'static str, u64)>>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        stores: &[StoreMetrics],
        counts: impl Fn(&StoreMetrics) -> C,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        stores.iter().try_for_each(|of| {
            counts(of).into_iter().try_for_each(|(value, count)| {
                encode_count(&mut family.encode_family(&labels_of(of, (label, value)))?, count)
            })
        })
    }

    fn counters<'v>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        counts: impl IntoIterator<Item = (&'v str, u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        counts
            .into_iter()
            .try_for_each(|(value, count)| encode_count(&mut family.encode_family(&[(label, value)])?, count))
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
        let mut metric = self.0.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        encode_latencies(&mut metric, latencies)
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
            .try_for_each(|(value, times)| encode_latencies(&mut family.encode_family(&[(label, value)])?, times))
    }
}

fn encode_count(metric: &mut MetricEncoder<'_>, count: u64) -> fmt::Result {
    metric.encode_counter::<NoLabelSet, _, f64>(&count, None)
}

fn encode_latencies(metric: &mut MetricEncoder<'_>, latencies: &Latencies) -> fmt::Result {
    let seconds = |bound: Option<std::time::Duration>| bound.map_or(f64::INFINITY, |bound| bound.as_secs_f64());
    let buckets: Vec<(f64, u64)> = latencies.buckets().map(|(bound, count)| (seconds(bound), count)).collect();
    metric.encode_histogram::<NoLabelSet>(latencies.sum().as_secs_f64(), latencies.count(), &buckets, None)
}
