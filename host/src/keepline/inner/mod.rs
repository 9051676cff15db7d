//! The state that a Keepline, its pipes and its sessions share, and how they call an instance.

pub(crate) mod counters;

use std::{collections::HashSet, sync::Arc, time::Duration};

use keepline_json as json;
use keepline_options::bucket_names::SessionIds;
use parking_lot::Mutex;
use tokio::time::Instant;

use self::counters::Tally;
use crate::{
    embedding::EmbeddingScheduler,
    entry::Vector,
    entry::{
        files::{FileResolver, resolve_files},
        metadata::AttachedRanges,
        sections::Assembly,
        tokens::{TokenCounter, count_tokens_within},
    },
    keepline::options::OnStoreError,
    logging::{LogLevel, RateLimitedLog},
    runtime::{CallDeadline, CallRefusal, EntryOwner, InstancePool, PluginFault, PluginInstance, PooledInstance},
    store::{Deadline, StoreGuard, Writer},
};

pub(crate) struct KeeplineInner {
    pub(crate) pool: InstancePool,
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
    pub(crate) assembly: Option<Assembly>,
    pub(crate) embeddings: Option<Arc<EmbeddingScheduler>>,
    pub(crate) writers: IdleWriters,
}

impl KeeplineInner {
    pub(crate) fn log(&self) -> &RateLimitedLog {
        &self.pool.services().log
    }

    /// For a call that comes in now, perhaps with a deadline of its caller's.
    pub(crate) fn call_deadline(&self, now: Instant, deadline: Option<Deadline>) -> CallDeadline {
        deadline.map_or_else(|| CallDeadline::within(now, self.entry_timeout), CallDeadline::by)
    }

    /// The number of a text's tokens, for this model if one is set, if there is a counter, the filter wants turns and there is time:
    /// counting takes no more than half of what is left.
    pub(crate) async fn count_tokens(&self, model: Option<&str>, text: &str, due: CallDeadline) -> Option<u32> {
        let counter = self.counter()?;
        // Images are weighed by the filter.
        let text = &json::spoken_text(text);
        let time = due.deadline.left().map_or(self.entry_timeout, |left| left.min(self.entry_timeout)) / 2;
        match count_tokens_within(counter, model, text, time).await {
            Ok(count) => Some(count),
            Err(uncounted) => {
                self.log().log_from_host(LogLevel::Warn, "keepline.tokens", &uncounted.to_string());
                None
            }
        }
    }

    /// The model that is set for a question's session or for the question itself, if tokens are counted.
    pub(crate) fn model(&self, metadata: Option<&str>, attached: &AttachedRanges) -> Option<String> {
        self.counter()?;
        json::decode_string(metadata?.get(attached.model.clone()?)?).map(Into::into)
    }

    pub(crate) fn counts_tokens(&self) -> bool {
        self.counter().is_some()
    }

    fn counter(&self) -> Option<&dyn TokenCounter> {
        self.token_counter.as_deref().filter(|_| self.pool.wants_turns())
    }

    /// The embedding of a question, if it is wanted, and there in time.
    pub(crate) async fn embed_question(
        &self,
        owner: &EntryOwner,
        text: &str,
        due: CallDeadline,
    ) -> Option<Arc<Vector>> {
        let desk = self.embeddings.as_ref()?;
        let session = owner.session.as_ref()?;
        if text.trim().is_empty() || !self.pool.plugin_info().wants_vectors {
            return None;
        }
        desk.embed_question(owner.user.as_ref().unwrap_or(session), &json::spoken_text(text), due.deadline.left()).await
    }

    /// What declared memories contribute to a question, if there is anything, and it is there in time.
    pub(crate) async fn assemble_sections(
        &self,
        assembly: &Assembly,
        store: &Arc<StoreGuard>,
        owner: &EntryOwner,
        text: &str,
        due: CallDeadline,
    ) -> Option<String> {
        owner.session.as_ref()?;
        // The question goes on with what is left.
        let time = due.deadline.left().map_or(self.entry_timeout, |left| left.min(self.entry_timeout)) / 5 * 4;
        let assembling = assembly.0.assemble(store, owner, text, Deadline::after(time));
        let problem = match tokio::time::timeout(time, assembling).await {
            Ok(Ok(sections)) => return sections,
            Ok(Err(problem)) => problem,
            Err(_) => format!("they took longer than {} ms", time.as_millis()),
        };
        let message = format!("memory_sections are left out of a question: {problem}");
        self.log().log_from_host(LogLevel::Warn, "keepline.pipeline", &message);
        None
    }

    /// A question's metadata with its files resolved; as it is where that takes too long.
    pub(crate) async fn with_files(
        &self,
        metadata: Option<String>,
        attached: &AttachedRanges,
        due: CallDeadline,
    ) -> Option<String> {
        let (Some(resolver), Some(messages), Some(text)) = (&self.file_resolver, &attached.messages, &metadata) else {
            return metadata;
        };
        let log = self.log();
        let left = due.deadline.left().unwrap_or(self.entry_timeout);
        match tokio::time::timeout(left, resolve_files(text, messages.clone(), &**resolver, log)).await {
            Ok(resolved) => resolved.or(metadata),
            Err(_) => {
                log.log_from_host(
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
    pub(crate) async fn call_instance<R>(
        &self,
        store: &Arc<StoreGuard>,
        mut due: CallDeadline,
        call: impl AsyncFnOnce(&mut PluginInstance, Writer, CallDeadline) -> Result<(R, Writer), PluginFault>,
    ) -> Result<R, CallRefusal> {
        let called = async {
            let mut taken: PooledInstance<'_> = self.pool.take_instance(store, &mut due).await?;
            taken.instance.use_store(store);
            // Not before there is an instance: a call that never had one has used no number.
            match call(&mut taken.instance, self.writers.take(), due).await {
                Ok((reply, returned)) => {
                    self.writers.put_back(returned);
                    self.pool.return_instance(taken);
                    Ok(reply)
                }
                Err(fault) => Err(self.pool.discard_faulted(taken, fault)),
            }
        };
        called.await.inspect_err(|refusal| self.report_refusal(refusal))
    }

    fn report_refusal(&self, refusal: &CallRefusal) {
        let (level, context) = match refusal {
            CallRefusal::Full(_) | CallRefusal::Late(_) | CallRefusal::NoMemory(_) => {
                self.tally.entries.lock().busy += 1;
                (LogLevel::Warn, "keepline.busy")
            }
            // That it is left alone was said when that began.
            CallRefusal::LeftAlone(_) => {
                self.tally.entries.lock().left_alone += 1;
                return;
            }
            CallRefusal::Closed => (LogLevel::Warn, "keepline.closed"),
            CallRefusal::Fault(_) => {
                self.tally.entries.lock().faults += 1;
                (LogLevel::Error, "keepline.plugin")
            }
        };
        self.log().log_from_host(level, context, &refusal.to_string());
    }
}

/// Writers that wait for their next call, at most one for each call that was under way at once.
///
/// Stores note who wrote to a session until no retry of it can come any more. Pipes and handles that live for one call, as
/// those of a service do, would each be one more to note and to forget.
#[derive(Default)]
pub(crate) struct IdleWriters(Mutex<Vec<Writer>>);

impl IdleWriters {
    /// The one that was used last, so that few are in use; a new one, if all are.
    fn take(&self) -> Writer {
        self.0.lock().pop().unwrap_or_default()
    }

    /// After a call that is done. One of a call that was dropped or faulted doesn't come back: its number may be in use.
    fn put_back(&self, writer: Writer) {
        self.0.lock().push(writer);
    }
}

/// Kinds of ids that no session can have, each reported once: how often they come, the counters tell.
#[derive(Default)]
pub(crate) struct UnusableIds(Mutex<HashSet<String>>);

impl UnusableIds {
    /// Whatever a plugin tells, there are no more kinds than these.
    const KINDS: usize = 8;

    /// Whether an entry whose session has such an id is the first one of its kind.
    pub(crate) fn is_first_of_kind(&self, kind: &str) -> bool {
        let mut kinds = self.0.lock();
        kinds.len() < Self::KINDS && kinds.insert(kind.to_owned())
    }
}
