//! Counts requests over HTTP, by route. No label names a session, a user or a tenant.

use std::{sync::LazyLock, time::Duration};

use prometheus_client::{
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::{Registry, Unit},
};

use crate::access::KeyRefusal;

/// Bounds of the buckets, in seconds.
static BOUNDS: LazyLock<Vec<f64>> = LazyLock::new(|| {
    vec![0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0]
});

type Labels<const N: usize> = [(&'static str, String); N];

/// What has become of requests.
#[derive(Debug)]
pub struct RequestCounters {
    /// What the store is called.
    store_name: String,
    requests: Family<Labels<3>, Counter>,
    durations: Family<Labels<1>, Histogram, fn() -> Histogram>,
    refused_keys: Family<Labels<1>, Counter>,
}

impl RequestCounters {
    /// Those of a service on a store of that name.
    pub fn new(store_name: &str) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BOUNDS.iter().copied());
        Self {
            store_name: store_name.to_owned(),
            requests: Family::default(),
            durations: Family::new_with_constructor(histogram),
            refused_keys: Family::default(),
        }
    }

    /// What the store is called.
    pub fn store_name(&self) -> &str {
        &self.store_name
    }

    pub(crate) fn count(&self, method: &str, route: &'static str, status: u16, took: Duration) {
        let labels = [("method", method.to_owned()), ("route", route.to_owned()), ("status", status.to_string())];
        self.requests.get_or_create(&labels).inc();
        self.durations.get_or_create(&[("route", route.to_owned())]).observe(took.as_secs_f64());
    }

    pub(crate) fn count_refused_key(&self, refusal: KeyRefusal) {
        let reason = match refusal {
            KeyRefusal::Missing => "missing",
            KeyRefusal::Invalid => "invalid",
        };
        self.refused_keys.get_or_create(&[("reason", reason.to_owned())]).inc();
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("http_requests", "Requests over HTTP, by route and status", self.requests.clone());
        let took = "How long requests over HTTP took until their reply began, by route";
        registry.register_with_unit("http_request_duration", took, Unit::Seconds, self.durations.clone());
        let refused = "Requests over HTTP without a valid key, by reason";
        registry.register("http_refused_keys", refused, self.refused_keys.clone());
    }
}
