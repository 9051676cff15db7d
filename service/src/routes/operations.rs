//! What orchestrators and scrapers ask.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use serde_json::json;

use crate::{
    access::TenantName,
    http::{self, ApiError, Call, Route, rows},
    metrics::{OPEN_METRICS, StoreMetrics, encode_metrics},
    tenants::Tenant,
};

/// The routes of this family.
pub fn routes() -> Vec<Route> {
    rows! {
        Keepline:
        GET "/healthz" PUBLIC "Says that the service is alive" alive;
        GET "/readyz" PUBLIC "Says whether the store can be used" ready;
        GET "/metrics" ADMIN "Shows metrics for Prometheus" metrics;
    }
}

async fn alive(_: Call) -> Result<Response, ApiError> {
    http::json(&json!({"status": "alive"}))
}

/// 503 where the store can't be used, or the service is about to stop: nothing more should be sent to it.
async fn ready(call: Call) -> Result<Response, ApiError> {
    let health = call.tenant.keepline().health(Some(call.deadline)).await;
    let problem = match &health.problem {
        _ if call.end.is_stopping() => Some("stopping"),
        // Its message may name an address.
        Some(problem) => Some(problem.code.name()),
        None => None,
    };
    let status = if problem.is_none() { "ready" } else { "not_ready" };
    let reply = json!({"status": status, "problem": problem, "breaker": health.breaker.name()});
    let mut response = http::json(&reply)?;
    if problem.is_some() {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    Ok(response)
}

async fn metrics(call: Call) -> Result<Response, ApiError> {
    let read = |tenant: &Tenant, name: Option<&TenantName>| {
        let read = StoreMetrics::read(tenant.keepline(), tenant.maintenance().counters(), name);
        read.with_prompts(tenant.prompts().counted())
    };
    let own = call.caller.tenant.as_ref();
    let mut stores = vec![read(&call.tenant, own)];
    // A tenant's key sees nothing of others, and nothing that is counted for all together.
    let process = own.is_none().then(|| (call.tenant.keepline(), Some(&*call.counters)));
    if own.is_none() {
        stores.extend(call.tenants.named().await.iter().map(|(name, tenant)| read(tenant, Some(name))));
    }
    let text = encode_metrics(call.counters.store_name(), stores, process);
    let mut response = Response::new(Body::from(text.map_err(|error| ApiError::internal(&error))?));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(OPEN_METRICS));
    Ok(response)
}
