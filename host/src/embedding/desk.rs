//! How embeddings are had: on the path in time or not at all, off it whenever they come.
//!
//! Promises that a question waits no longer than its budget, and not at all for an endpoint that was late or failed time
//! after time. What comes too late is kept for the next time. Refuses to log anything that was said.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::Instant, time::timeout};

use super::{Embedder, cache::Cache, checked};
use crate::{
    contract::filter::Vector,
    lend::{LogLevel, RateLimitedLog},
    maintenance::ModelError,
    store::{Breaker, BreakerOptions, Histogram, Latencies},
};

/// Questions that are asked about at one time; others go without.
const MAX_ASKED: usize = 32;
/// After so many late or failed ones in a row, questions go without for so long; then longer, up to ten times.
const BREAKER: BreakerOptions = BreakerOptions { failures: 3, cooldown: Duration::from_secs(5) };

/// What has become of calls for embeddings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmbeddingMetrics {
    /// How long calls took that ended well or badly, on and off the entries' path.
    pub requests: Latencies,
    /// Calls that failed.
    pub failures: u64,
    /// Questions that got an embedding which was there already.
    pub cache_hits: u64,
    /// Questions that went without, as theirs did not come in time.
    pub late: u64,
    /// Questions that went without, as the endpoint was left alone or had enough to do.
    pub left_alone: u64,
}

/// Where embeddings are asked for.
pub(crate) struct Desk {
    embedder: Arc<dyn Embedder>,
    wait: Duration,
    log: Arc<RateLimitedLog>,
    cache: Mutex<Cache>,
    breaker: Breaker,
    places: Arc<Semaphore>,
    requests: Histogram,
    failures: AtomicU64,
    cache_hits: AtomicU64,
    late: AtomicU64,
    left_alone: AtomicU64,
}

impl Desk {
    pub(crate) fn new(embedder: Arc<dyn Embedder>, wait: Duration, log: Arc<RateLimitedLog>) -> Arc<Self> {
        Arc::new(Self {
            embedder,
            wait,
            log,
            cache: Mutex::default(),
            breaker: Breaker::new(BREAKER),
            places: Arc::new(Semaphore::new(MAX_ASKED)),
            requests: Histogram::default(),
            failures: AtomicU64::new(0),
            cache_hits: AtomicU64::new(0),
            late: AtomicU64::new(0),
            left_alone: AtomicU64::new(0),
        })
    }

    /// One for each text, however long it takes.
    pub(crate) async fn embed(&self, texts: &[String]) -> Result<Vec<Vector>, ModelError> {
        let began = Instant::now();
        let made = self.embedder.embed(texts).await.and_then(|made| checked(&made, texts.len()));
        self.requests.record(began.elapsed());
        made.inspect_err(|_| count(&self.failures))
    }

    /// A question's, if it is there in time: `most` may be less than what is configured. Whose it is, a session's or a
    /// user's name, is for the cache.
    pub(crate) async fn of_question(
        self: &Arc<Self>,
        owner: &str,
        text: &str,
        most: Option<Duration>,
    ) -> Option<Arc<Vector>> {
        let wait = most.map_or(self.wait, |most| most.min(self.wait));
        if wait.is_zero() {
            return None;
        }
        let (key, known) = {
            let cache = self.cache.lock();
            let key = cache.key(owner, text);
            (key, cache.get(key))
        };
        if known.is_some() {
            count(&self.cache_hits);
            return known;
        }
        let leave = self.breaker.admit(Instant::now());
        let place = self.places.clone().try_acquire_owned().ok();
        let (Some(leave), Some(place)) = (leave, place) else {
            count(&self.left_alone);
            return None;
        };
        let (desk, text) = (self.clone(), text.to_owned());
        // It goes on when nobody waits for it any more: the same question may be asked again.
        let asked = tokio::spawn(async move {
            let _place = place;
            let vector = Arc::new(desk.embed(&[text]).await?.pop().ok_or_else(|| ModelError("there is none".into()))?);
            desk.cache.lock().put(key, vector.clone());
            Ok::<_, ModelError>(vector)
        });
        let (vector, problem) = match timeout(wait, asked).await {
            Ok(Ok(Ok(vector))) => (Some(vector), None),
            Ok(Ok(Err(error))) => (None, Some(error.0)),
            Ok(Err(_)) => (None, Some("the call was given up".to_owned())),
            Err(_) => {
                count(&self.late);
                if wait < self.wait {
                    // It had little time, which says nothing of the endpoint.
                    return None;
                }
                (None, Some(format!("it took longer than {} ms", wait.as_millis())))
            }
        };
        match problem {
            None => self.breaker.succeeded(),
            Some(problem) => {
                self.breaker.failed();
                let message = format!("a question goes without its embedding: {problem}");
                self.log.report(LogLevel::Warn, "keepline.embedding", &message);
            }
        }
        leave.reported(&self.breaker);
        vector
    }

    pub(crate) fn metrics(&self) -> EmbeddingMetrics {
        EmbeddingMetrics {
            requests: self.requests.read(),
            failures: self.failures.load(Ordering::Relaxed),
            cache_hits: self.cache_hits.load(Ordering::Relaxed),
            late: self.late.load(Ordering::Relaxed),
            left_alone: self.left_alone.load(Ordering::Relaxed),
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
