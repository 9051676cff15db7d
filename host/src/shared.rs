//! What a Keepline, its pipes and its sessions share, and how each of them calls an instance.

use std::{sync::Arc, time::Duration};

use keepline_json as json;
use tokio::time::Instant;

use crate::{
    contract::filter::Vector,
    counters::Tally,
    embedding::Desk,
    files::{FileResolver, resolved},
    lend::LogLevel,
    options::OnStoreError,
    runtime::{Due, Fault, Instance, Owner, Pool, Refusal, Taken},
    session_ids::{SessionIds, UnusableIds},
    store::{Deadline, Guard, Writer},
    tokens::{TokenCounter, counted},
};

pub(crate) struct Shared {
    pub(crate) pool: Pool,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) max_entry_bytes: usize,
    pub(crate) entry_timeout: Duration,
    /// By the option that the filter was given, whatever it says itself.
    pub(crate) session_ids: SessionIds,
    pub(crate) unusable_ids: UnusableIds,
    /// By the same options: `require_node`.
    pub(crate) requires_node: bool,
    pub(crate) tally: Tally,
    pub(crate) token_counter: Option<Arc<dyn TokenCounter>>,
    pub(crate) file_resolver: Option<Arc<dyn FileResolver>>,
    pub(crate) embeddings: Option<Arc<Desk>>,
}

impl Shared {
    /// For a call that comes in now, perhaps with a deadline of its caller's.
    pub(crate) fn due(&self, now: Instant, deadline: Option<Deadline>) -> Due {
        deadline.map_or_else(|| Due::within(now, self.entry_timeout), Due::by)
    }

    /// How many tokens a text is, for this model if one is set, if anybody counts them, they are wanted, and there is time:
    /// counting takes no more than half of what is left.
    pub(crate) async fn count_tokens(&self, model: Option<&str>, text: &str, due: Due) -> Option<u32> {
        let counter = self.counter()?;
        // Images are weighed by the filter.
        let text = &json::spoken(text);
        let time = due.deadline.left().map_or(self.entry_timeout, |left| left.min(self.entry_timeout)) / 2;
        match counted(counter, model, text, time).await {
            Ok(count) => Some(count),
            Err(uncounted) => {
                self.pool.lent().log.report(LogLevel::Warn, "keepline.tokens", &uncounted.to_string());
                None
            }
        }
    }

    /// The model that is set for a question's session, or for itself, as it is told by what the question gets. Nobody
    /// needs it if nobody counts.
    pub(crate) fn model(&self, metadata: Option<&str>) -> Option<String> {
        self.counter()?;
        let mut model = None;
        json::members(metadata?, |key, raw| {
            if json::key_is(key, "memory_model") {
                model = json::string(raw).map(Into::into);
            }
        })?;
        model
    }

    pub(crate) fn counts_tokens(&self) -> bool {
        self.counter().is_some()
    }

    fn counter(&self) -> Option<&dyn TokenCounter> {
        self.token_counter.as_deref().filter(|_| self.pool.wants_turns())
    }

    /// The embedding of a question, if it is wanted, and there in time.
    pub(crate) async fn vector_of(&self, owner: &Owner, text: &str, due: Due) -> Option<Arc<Vector>> {
        let desk = self.embeddings.as_ref()?;
        let session = owner.session.as_ref()?;
        if text.trim().is_empty() || !self.pool.told().wants_vectors {
            return None;
        }
        desk.of_question(owner.user.as_ref().unwrap_or(session), &json::spoken(text), due.deadline.left()).await
    }

    /// What a question gets, with what its files are. When that takes too long, as it is.
    pub(crate) async fn with_files(&self, metadata: Option<String>, due: Due) -> Option<String> {
        let (Some(resolver), Some(told)) = (&self.file_resolver, &metadata) else { return metadata };
        let log = &self.pool.lent().log;
        let left = due.deadline.left().unwrap_or(self.entry_timeout);
        match tokio::time::timeout(left, resolved(told, &**resolver, log)).await {
            Ok(resolved) => resolved.or(metadata),
            Err(_) => {
                log.report(
                    LogLevel::Warn,
                    "keepline.files",
                    "files were not resolved in time; references are left as they are",
                );
                metadata
            }
        }
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
            let mut taken: Taken<'_> = self.pool.take(store, &mut due).await?;
            taken.instance.lend(store);
            // Not before there is an instance: a call that never had one has used no number.
            match call(&mut taken.instance, writer.take().unwrap_or_default(), due).await {
                Ok((reply, returned)) => {
                    *writer = Some(returned);
                    self.pool.give_back(taken);
                    Ok(reply)
                }
                Err(fault) => Err(self.pool.fault(taken, fault)),
            }
        };
        called.await.inspect_err(|refusal| self.report(refusal))
    }

    fn report(&self, refusal: &Refusal) {
        let (level, context) = match refusal {
            Refusal::Full(_) | Refusal::Late(_) | Refusal::NoMemory(_) => {
                self.tally.count_busy();
                (LogLevel::Warn, "keepline.busy")
            }
            // That it is left alone was said when that began.
            Refusal::LeftAlone(_) => return self.tally.count_left_alone(),
            Refusal::Closed => (LogLevel::Warn, "keepline.closed"),
            Refusal::Fault(_) => {
                self.tally.count_fault();
                (LogLevel::Error, "keepline.plugin")
            }
        };
        self.pool.lent().log.report(level, context, &refusal.to_string());
    }
}
