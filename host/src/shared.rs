//! What a Keepline, its pipes and its sessions share, and how each of them calls an instance.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    counters::Tally,
    lend::LogLevel,
    options::OnStoreError,
    runtime::{Due, Fault, Instance, Pool, Refusal, Taken},
    store::{Deadline, Guard, Writer},
};

pub(crate) struct Shared {
    pub(crate) pool: Pool,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) max_entry_bytes: usize,
    pub(crate) entry_timeout: Duration,
    pub(crate) tally: Tally,
}

impl Shared {
    /// For a call that comes in now, perhaps with a deadline of its caller's.
    pub(crate) fn due(&self, now: Instant, deadline: Option<Deadline>) -> Due {
        deadline.map_or_else(|| Due::within(now, self.entry_timeout), Due::by)
    }

    /// One call of an instance. What keeps it from its reply is logged in one line; an instance that faulted
    /// is not used again.
    pub(crate) async fn call<R>(
        &self,
        store: &Arc<Guard>,
        writer: &mut Option<Writer>,
        mut due: Due,
        call: impl AsyncFnOnce(&mut Instance, Writer, Due) -> Result<(R, Writer), Fault>,
    ) -> Result<R, Refusal> {
        let called = async {
            let mut taken: Taken<'_> = self.pool.take(&mut due).await?;
            taken.instance.lend(store);
            // Not before there is an instance: a call that never had one has used no number.
            let (reply, returned) = call(&mut taken.instance, writer.take().unwrap_or_default(), due).await?;
            *writer = Some(returned);
            self.pool.give_back(taken);
            Ok(reply)
        };
        called.await.inspect_err(|refusal| self.report(refusal))
    }

    fn report(&self, refusal: &Refusal) {
        let (level, context) = match refusal {
            Refusal::Full(_) | Refusal::Late(_) => {
                self.tally.count_busy();
                (LogLevel::Warn, "keepline.busy")
            }
            Refusal::Closed => (LogLevel::Warn, "keepline.closed"),
            Refusal::Fault(_) => {
                self.tally.count_fault();
                (LogLevel::Error, "keepline.plugin")
            }
        };
        self.pool.lent().log.report(level, context, &refusal.to_string());
    }
}
