//! Counts what a tenant's store holds.

use axum::response::Response;
use keepline::store::kind;
use serde_json::json;

use crate::http::{self, ApiError, Call};

/// Names of a page.
const PAGE: u32 = 1000;

/// Counts sessions, nodes and users; of a caller with a user, that user's sessions. `is_complete` is false where the request's
/// time did not suffice.
pub async fn show(call: Call) -> Result<Response, ApiError> {
    if let Some(user) = &call.caller.user {
        let (mut count, mut before) = (0_u64, None);
        loop {
            let page = call.sessions().user_sessions(user, before, 100).await?;
            count += page.sessions.len() as u64;
            match page.older {
                Some(older) if !call.deadline.is_over() => before = Some(older),
                older => {
                    return http::json(&json!({"object": "stats", "sessions": count, "is_complete": older.is_none()}));
                }
            }
        }
    }
    let (mut counts, mut is_complete) = ([0_u64; 3], true);
    for (kind, count) in [kind::SESSION, kind::NODE, kind::USER].into_iter().zip(&mut counts) {
        is_complete &= count_buckets(&call, kind, count).await?;
    }
    let [sessions, nodes, users] = counts;
    http::json(&json!({
        "object": "stats", "sessions": sessions, "nodes": nodes, "users": users, "is_complete": is_complete,
    }))
}

/// Whether all were counted.
async fn count_buckets(call: &Call, kind: &str, count: &mut u64) -> Result<bool, ApiError> {
    let mut cursor = String::new();
    loop {
        let page = call.tenant.keepline().store().list_buckets(kind, &cursor, PAGE, call.deadline).await?;
        *count += page.names.len() as u64;
        if page.cursor.is_empty() {
            return Ok(true);
        }
        if call.deadline.is_over() || page.cursor == cursor {
            return Ok(false);
        }
        cursor = page.cursor;
    }
}
