//! Probes an idle store, so that a circuit breaker closes and an outage is known without an entry.
//!
//! It keeps nothing alive: it ends with the last Keepline over the store.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::sleep;

use crate::{
    logging::{LogLevel, RateLimitedLog},
    store::{Deadline, StoreGuard},
};

/// Checks the store whenever it was idle for an interval, and logs when it fails and when it is back.
pub(crate) async fn probe_idle_store(
    store: Weak<StoreGuard>,
    log: Arc<RateLimitedLog>,
    interval: Duration,
    limit: Duration,
) {
    let (mut is_good, mut asked) = (true, 0);
    loop {
        sleep(interval).await;
        let Some(store) = store.upgrade() else { return };
        let before = std::mem::replace(&mut asked, store.count_asked());
        if asked != before {
            continue;
        }
        let problem = store.check(Deadline::after(limit)).await.problem;
        asked = store.count_asked();
        match &problem {
            Some(problem) if is_good => {
                let message = format!("the store can't be used, as found while idle: {}", problem.message);
                log.log_from_host(LogLevel::Warn, "keepline.store", &message);
            }
            None if !is_good => log.log_from_host(LogLevel::Info, "keepline.store", "the store can be used again"),
            _ => {}
        }
        is_good = problem.is_none();
    }
}
