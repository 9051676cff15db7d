//! Imports sessions from the lines of an export.
//!
//! Nothing is delivered before all lines were read and checked; then each session appears whole or not at all. It spans
//! sessions, and can be repeated: what has arrived is there already. A key that names a user brings that user's sessions only,
//! and replaces no other's.

use std::{collections::HashMap, io::Cursor, sync::Arc, time::Duration};

use async_trait::async_trait;
use axum::{http::StatusCode, response::Response};
use keepline::{
    maintenance::{Outcome, Task, session_buckets},
    sessions::{SessionErrorCode, user_bucket},
    store::names::is_bucket,
};
use keepline_session_file::{
    CopyWithdrawal, DeliveryOutcome, ImportReport, ImportRules, LeftOut, NumberedLines, Reason, SessionDelivery,
    SessionImport, SessionOutcome, StagingStore, import_at_once,
};
use serde_json::{Value, json};
use tokio::time;

use super::error_of;
use crate::{
    events::{SessionChange, announce_of_owner},
    http::{self, ApiError, Call},
    tenants::Tenant,
};

/// The task that removes what recall has copied of a session for its owner.
const RESET_TASK: &str = "recall-reset";
/// Pause between attempts while another process works on the session.
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Imports the sessions of the body.
pub async fn import(mut call: Call) -> Result<Response, ApiError> {
    let replaces = call.query.parse("replace", "true or false")?.unwrap_or(false);
    let is_dry_run = call.query.parse("dry_run", "true or false")?.unwrap_or(false);
    let tenant = call.tenant.clone();
    let transfers = tenant.transfers().await?.ok_or_else(not_transferable)?;
    let body = call.bytes().await?;
    let _slot = tenant.transfer_slot().await;
    let places = transfers.staging.clone();
    let staging = tokio::task::spawn_blocking(move || StagingStore::new(&places)).await;
    let staging = staging.map_err(|error| ApiError::internal(&error))??;
    let owner = call.caller.user.as_deref().map(user_bucket);
    let target = Some(transfers.store.clone());
    let delivery = SessionDelivery { target, staging, replaces, is_dry_run, owner: owner.clone() };
    let mut import = SessionImport::new(delivery, Some(call.tenant.keepline().clone()));
    if copies_for_users(&call.tenant.keepline().filter_options()) {
        import.withdrawal = Some(Box::new(TenantCopies { tenant: call.tenant.clone() }));
    }
    if !is_dry_run {
        let tenant = call.tenant.clone();
        // At once: what was delivered stays so, however the import ends.
        import.on_delivery = Some(Box::new(move |delivered| announce(&tenant, delivered)));
    }
    import_at_once(&mut import, &mut NumberedLines::new(Cursor::new(body)), ImportRules { owner }).await?;
    reply(&import.report, is_dry_run)
}

/// Nothing can be copied to a store that ends with the process.
fn not_transferable() -> ApiError {
    let message = "this service keeps its memory in its own process, which sessions can't be imported to: keep it in a \
                   directory (--profile chat, --dir PATH) or in Redis (--profile redis)";
    ApiError::new(StatusCode::CONFLICT, "not_transferable", message)
}

/// Tells followers of a session that has arrived.
fn announce(tenant: &Tenant, delivered: &SessionOutcome) {
    let change = match delivered.outcome {
        DeliveryOutcome::Imported => SessionChange::Created,
        DeliveryOutcome::Replaced => SessionChange::Updated,
        _ => return,
    };
    announce_of_owner(tenant, change, id_of(delivered), delivered.owner.clone());
}

fn id_of(delivered: &SessionOutcome) -> &str {
    delivered.id.as_deref().unwrap_or(&delivered.session)
}

fn reply(report: &ImportReport, is_dry_run: bool) -> Result<Response, ApiError> {
    let ImportReport { imported, messages, already_there, sessions, left, .. } = report;
    let ids: HashMap<&str, &str> = sessions.iter().map(|one| (&*one.session, id_of(one))).collect();
    let id_of_left = |left: &LeftOut| ids.get(&*left.session).map_or_else(|| left.session.clone(), ToString::to_string);
    let errors: Vec<ApiError> = left.iter().map(|left| error_of(left.reason, &id_of_left(left), &left.why)).collect();
    // What failed for the store's sake is to be sent again; what was imported is there already then.
    let is_failure =
        |(left, _): &(&LeftOut, &ApiError)| matches!(left.reason, Reason::Store(code) if code.is_store_failure());
    let failed = left.iter().zip(&errors).find(is_failure).map(|(_, error)| error);
    let is_nothing = *imported == 0 && *already_there == 0;
    if let Some(error) = failed.or(errors.first().filter(|_| is_nothing)) {
        return Err(error.clone());
    }
    let sessions: Vec<Value> = sessions.iter().filter_map(session_json).collect();
    let left_out = left.iter().zip(&errors);
    let left_out: Vec<Value> = left_out
        .map(|(left, error)| {
            let id = Some(id_of_left(left)).filter(|id| !id.is_empty());
            json!({"id": id, "line": left.line, "code": error.code, "message": error.message})
        })
        .collect();
    http::json(&json!({
        "object": "import", "dry_run": is_dry_run, "imported": imported, "already_there": already_there,
        "messages": messages, "sessions": sessions, "left_out": left_out,
    }))
}

/// None: it was left out.
fn session_json(delivered: &SessionOutcome) -> Option<Value> {
    let outcome = match delivered.outcome {
        DeliveryOutcome::Imported => "imported",
        DeliveryOutcome::Replaced => "replaced",
        DeliveryOutcome::AlreadyThere => "already_there",
        _ => return None,
    };
    let SessionOutcome { messages, nodes, .. } = delivered;
    Some(json!({"id": id_of(delivered), "outcome": outcome, "messages": messages, "nodes": nodes}))
}

/// Withdraws what recall has copied of a tenant's sessions.
struct TenantCopies {
    tenant: Arc<Tenant>,
}

#[async_trait]
impl CopyWithdrawal for TenantCopies {
    async fn withdraw(&self, session: &str) -> Result<(), String> {
        use SessionErrorCode::{Expired, InvalidSession, NotFound};
        let keepline = self.tenant.keepline();
        let mut sessions = keepline.sessions();
        let id = sessions.id_of(session).await.map_err(|error| error.message)?;
        let owner = match sessions.describe((&*id).into()).await {
            Ok(state) => state.owner.filter(|owner| is_bucket(owner)),
            // A missing session whose name looks like a hash is invalid.
            Err(error) if matches!(error.code, NotFound | Expired | InvalidSession) => None,
            Err(error) => return Err(error.message),
        };
        let Some(owner) = owner else { return Ok(()) };
        loop {
            let buckets = session_buckets(session, Some(&owner));
            let task = Task { buckets, name: RESET_TASK.to_owned(), state: String::new() };
            match self.tenant.maintenance().run(task).await {
                Outcome::Done | Outcome::Ended => return Ok(()),
                Outcome::Failed(problem) => return Err(problem.message),
                // At most until the request's time is over.
                Outcome::Taken => time::sleep(BUSY_PAUSE).await,
            }
        }
    }
}

/// Whether recall copies messages of a session for its user's other sessions.
fn copies_for_users(filter_options: &str) -> bool {
    let options: Value = serde_json::from_str(filter_options).unwrap_or_default();
    options.get("conversation") == Some(&Value::Bool(true))
        && options.get("recall").is_some_and(|recall| recall == "user")
}
