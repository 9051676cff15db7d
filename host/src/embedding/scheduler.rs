//! Schedules calls of the embedder: in time or not at all on an entry's path, without a limit of its own off it.
//!
//! Promises that a question waits no longer than its budget, and not at all for an endpoint that was late or failed
//! several times in a row. An embedding that comes too late is cached for the next time. No text is ever logged.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::Instant, time::timeout};

use super::{Embedder, cache::Cache, narrow};
use crate::{
    entry::Vector,
    entry::task::ModelError,
    logging::{LogLevel, RateLimitedLog},
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

/// Asks for embeddings, within bounds.
pub(crate) struct EmbeddingScheduler {
    embedder: Arc<dyn Embedder>,
    wait: Duration,
    log: Arc<RateLimitedLog>,
    cache: Mutex<Cache>,
    breaker: Breaker,
    places: Arc<Semaphore>,
    requests: Histogram,
    /// Without the requests.
    counts: Mutex<EmbeddingMetrics>,
}

impl EmbeddingScheduler {
    pub(crate) fn new(embedder: Arc<dyn Embedder>, wait: Duration, log: Arc<RateLimitedLog>) -> Arc<Self> {
        Self::leaving_alone(embedder, wait, log, BREAKER)
    }

    fn leaving_alone(
        embedder: Arc<dyn Embedder>,
        wait: Duration,
        log: Arc<RateLimitedLog>,
        breaker: BreakerOptions,
    ) -> Arc<Self> {
        Arc::new(Self {
            embedder,
            wait,
            log,
            cache: Mutex::default(),
            breaker: Breaker::new(breaker),
            places: Arc::new(Semaphore::new(MAX_ASKED)),
            requests: Histogram::default(),
            counts: Mutex::default(),
        })
    }

    /// One for each text, or for the first of them, however long it takes. Without data: the model refuses that text.
    pub(crate) async fn embed(&self, texts: &[String]) -> Result<Vec<Vector>, ModelError> {
        let began = Instant::now();
        let made = narrow::embed_with_bisection(&*self.embedder, texts).await;
        self.requests.record(began.elapsed());
        let made = made.map_err(|error| {
            self.counts.lock().failures += 1;
            ModelError(error.to_string())
        })?;
        if made.refused > 0 {
            // Why, the server may say in words of the text.
            let message =
                format!("the model refuses {} of {} texts, which get no embedding", made.refused, texts.len());
            self.log.log_from_host(LogLevel::Warn, "keepline.embedding", &message);
        }
        Ok(made.vectors)
    }

    /// A question's, if it is there in time: `most` may be less than what is configured. Whose it is, a session's or a
    /// user's name, is for the cache.
    pub(crate) async fn embed_question(
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
            (key, cache.get(key, Instant::now()))
        };
        if known.is_some() {
            self.counts.lock().cache_hits += 1;
            return known;
        }
        let leave = self.breaker.admit(Instant::now());
        let place = self.places.clone().try_acquire_owned().ok();
        let (Some(leave), Some(place)) = (leave, place) else {
            self.counts.lock().left_alone += 1;
            return None;
        };
        let (desk, text) = (self.clone(), text.to_owned());
        // It goes on when the question no longer waits: the same question may be asked again.
        let asked = tokio::spawn(async move {
            let _place = place;
            // That the model refuses the question says nothing of the endpoint.
            let vector = desk.embed(&[text]).await?.pop().filter(|vector| !vector.data.is_empty()).map(Arc::new);
            if let Some(vector) = &vector {
                desk.cache.lock().put(key, vector.clone(), Instant::now());
            }
            Ok::<_, ModelError>(vector)
        });
        let (vector, problem) = match timeout(wait, asked).await {
            Ok(Ok(Ok(vector))) => (vector, None),
            Ok(Ok(Err(error))) => (None, Some(error.0)),
            Ok(Err(_)) => (None, Some("the call was given up".to_owned())),
            Err(_) => {
                self.counts.lock().late += 1;
                if wait < self.wait {
                    // It had little time, which says nothing of the endpoint.
                    return None;
                }
                (None, Some(format!("it took longer than {} ms", wait.as_millis())))
            }
        };
        match problem {
            None => self.breaker.record_success(),
            Some(problem) => {
                self.breaker.record_failure(Instant::now());
                let message = format!("a question goes without its embedding: {problem}");
                self.log.log_from_host(LogLevel::Warn, "keepline.embedding", &message);
            }
        }
        leave.mark_reported(&self.breaker);
        vector
    }

    pub(crate) fn metrics(&self) -> EmbeddingMetrics {
        EmbeddingMetrics { requests: self.requests.read(), ..*self.counts.lock() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::{
        super::{Embedding, EmbeddingError},
        *,
    };
    use crate::logging::Log;

    /// Lines that were logged.
    #[derive(Default)]
    struct Lines(Mutex<Vec<String>>);

    impl Log for Lines {
        fn enabled(&self, _: LogLevel) -> bool {
            true
        }

        fn log(&self, _: LogLevel, _: &str, message: &str) {
            self.0.lock().push(message.to_owned());
        }
    }

    /// Answers when the gate is open, or fails.
    struct Gated {
        gate: Semaphore,
        fails: AtomicBool,
        asked: Mutex<Vec<String>>,
    }

    impl Gated {
        fn open(&self) {
            self.gate.add_permits(1000);
        }

        fn asked(&self) -> usize {
            self.asked.lock().len()
        }
    }

    #[async_trait::async_trait]
    impl Embedder for Arc<Gated> {
        async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbeddingError> {
            self.asked.lock().extend_from_slice(texts);
            self.gate.acquire().await.unwrap().forget();
            if self.fails.load(Ordering::Relaxed) {
                return Err(EmbeddingError::Failed("it broke".into()));
            }
            Ok(texts.iter().map(|_| Embedding { model: "m".into(), values: vec![1.0] }).collect())
        }
    }

    const LONG: Duration = Duration::from_hours(1);
    const SHORT: Duration = Duration::from_millis(2);

    /// Once left alone, it is for long.
    fn desk(wait: Duration) -> (Arc<EmbeddingScheduler>, Arc<Gated>, Arc<Lines>) {
        let (fails, asked) = (AtomicBool::new(false), Mutex::default());
        let (gated, lines) = (Arc::new(Gated { gate: Semaphore::new(0), fails, asked }), Arc::new(Lines::default()));
        let log = Arc::new(RateLimitedLog::new(lines.clone()));
        let breaker = BreakerOptions { cooldown: LONG, ..BREAKER };
        (EmbeddingScheduler::leaving_alone(Arc::new(gated.clone()), wait, log, breaker), gated, lines)
    }

    #[tokio::test]
    async fn an_embedding_that_comes_in_time_is_asked_for_once() {
        let (desk, gated, _) = desk(LONG);
        gated.open();
        let first = desk.embed_question("anna", "dog?", None).await.unwrap();
        assert_eq!(desk.embed_question("anna", "dog?", None).await.unwrap(), first);
        assert_eq!(gated.asked(), 1);
        // The time it takes reveals nothing about others' questions.
        assert!(desk.embed_question("bob", "dog?", None).await.is_some());
        assert_eq!(gated.asked(), 2);
        let metrics = desk.metrics();
        assert_eq!((metrics.cache_hits, metrics.requests.count(), metrics.late), (1, 2, 0));
    }

    #[tokio::test]
    async fn a_late_endpoint_is_left_alone_and_its_late_vectors_are_cached() {
        let (desk, gated, lines) = desk(SHORT);
        for text in ["secret 1", "secret 2", "secret 3", "secret 4", "secret 5"] {
            assert_eq!(desk.embed_question("anna", text, None).await, None);
        }
        assert_eq!((gated.asked(), desk.metrics().late, desk.metrics().left_alone), (3, 3, 2));
        gated.open();
        while desk.metrics().requests.count() < 3 {
            tokio::task::yield_now().await;
        }
        assert!(desk.embed_question("anna", "secret 3", None).await.is_some(), "it has come meanwhile");
        assert_eq!(desk.embed_question("anna", "secret 4", None).await, None);
        assert!(lines.0.lock().iter().all(|line| line.contains("2 ms") && !line.contains("secret")));
    }

    #[tokio::test]
    async fn a_failing_endpoint_is_logged_and_left_alone() {
        let (desk, gated, lines) = desk(LONG);
        gated.open();
        gated.fails.store(true, Ordering::Relaxed);
        for number in 0..10 {
            assert_eq!(desk.embed_question("anna", &number.to_string(), None).await, None);
        }
        assert_eq!((gated.asked(), desk.metrics().failures, desk.metrics().left_alone), (3, 3, 7));
        assert!(lines.0.lock()[0].contains("it broke"));
        assert!(desk.embed(&["a".into()]).await.is_err(), "who may wait asks on");
        assert_eq!(gated.asked(), 4);
    }

    #[tokio::test]
    async fn a_question_with_little_time_does_not_count_against_the_endpoint() {
        let (desk, gated, lines) = desk(LONG);
        for number in 0..10 {
            assert_eq!(desk.embed_question("anna", &number.to_string(), Some(SHORT)).await, None);
            assert_eq!(desk.embed_question("anna", "?", Some(Duration::ZERO)).await, None);
        }
        gated.open();
        assert!(desk.embed_question("anna", "?", None).await.is_some());
        assert_eq!((desk.metrics().left_alone, lines.0.lock().len()), (0, 0));
    }

    #[tokio::test]
    async fn questions_that_are_embedded_at_a_time_are_bounded() {
        let (desk, gated, _) = desk(LONG);
        let all = (0..100).map(|number| {
            let desk = desk.clone();
            tokio::spawn(async move { desk.embed_question("anna", &number.to_string(), None).await.is_some() })
        });
        let all: Vec<_> = all.collect();
        while desk.metrics().left_alone < 100 - MAX_ASKED as u64 {
            tokio::task::yield_now().await;
        }
        gated.open();
        let had = futures::future::join_all(all).await.into_iter().filter(|had| *had.as_ref().unwrap()).count();
        assert_eq!((had, gated.asked()), (MAX_ASKED, MAX_ASKED));
    }
}
