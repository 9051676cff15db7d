//! What keeps callers safe from a store, whatever it does: a deadline, a circuit breaker, and no panic that passes.
//!
//! Promises that a call ends by its deadline, and costs next to nothing while the store keeps failing. Counts how
//! calls end and how long they are waited for. A store that answers at once, as one in memory does, is asked without
//! a timer and without a look at the clock.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures::future::poll_fn;
use tokio::time::{Instant, timeout_at};

use crate::{
    Deadline, Failure, FailureCode, Histogram, Latencies, Store,
    breaker::{Breaker, BreakerOptions},
};

/// What a store gets beyond the deadline. One that keeps to it answers first, and says more than can be said here.
const MARGIN: Duration = Duration::from_millis(20);
/// Calls that had less time than this say little about the store, unless that goes on for so long.
const PATIENCE: Duration = Duration::from_secs(1);

/// A call of a store, as it is made.
pub type Call<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why there is no answer of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// The store has failed time after time, and is left alone for a while: it was not asked.
    LeftAlone,
    /// The deadline came and went while the store was at work: what was asked for may or may not be done.
    Abandoned,
    /// The store panicked: what was asked for may or may not be done.
    Panicked,
}

/// What a store answers a call with.
pub trait Answer {
    /// The failures in it.
    fn failures(&self) -> impl Iterator<Item = &Failure>;
}

impl<T> Answer for Result<T, Failure> {
    fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.as_ref().err().into_iter()
    }
}

impl<T> Answer for Vec<Result<T, Failure>> {
    fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.iter().filter_map(|result| result.as_ref().err())
    }
}

/// A store, guarded.
#[derive(Debug)]
pub struct Guard {
    store: Arc<dyn Store>,
    /// None: the store has one itself.
    breaker: Option<Breaker>,
    /// Whether the breaker knows of any failure: else it need not be asked.
    is_troubled: AtomicBool,
    calls: AtomicU64,
    failures: [AtomicU64; FailureCode::ALL.len()],
    left_alone: AtomicU64,
    abandoned: AtomicU64,
    panicked: AtomicU64,
    waits: Histogram,
}

/// How calls of a store have ended so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreCounters {
    /// Calls that were made.
    pub calls: u64,
    /// Calls that were not made, because the store had failed time after time.
    pub left_alone: u64,
    /// Calls without an answer by their deadline.
    pub abandoned: u64,
    /// Calls in which the store panicked.
    pub panicked: u64,
    /// How long the calls took that were not answered at once.
    pub waits: Latencies,
    /// Whether the store is left alone now. None: it has a circuit breaker of its own.
    pub is_left_alone: Option<bool>,
    failures: [u64; FailureCode::ALL.len()],
}

impl StoreCounters {
    /// How many failures of each kind the store has answered with.
    pub fn failures(&self) -> impl Iterator<Item = (FailureCode, u64)> {
        FailureCode::ALL.into_iter().zip(self.failures)
    }
}

impl Guard {
    /// Guards a store. The options are for one without a circuit breaker of its own.
    pub fn new(store: Arc<dyn Store>, options: BreakerOptions) -> Self {
        let breaker = (!store.has_breaker()).then(|| Breaker::new(options));
        Self {
            store,
            breaker,
            is_troubled: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            failures: Default::default(),
            left_alone: AtomicU64::new(0),
            abandoned: AtomicU64::new(0),
            panicked: AtomicU64::new(0),
            waits: Histogram::default(),
        }
    }

    /// The store itself.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Makes a call, and has its answer by the deadline, or none.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn call<'a, T: Answer>(
        &'a self,
        deadline: Deadline,
        begin: impl FnOnce(&'a dyn Store) -> Call<'a, T>,
    ) -> Result<T, Missed> {
        let leave = match &self.breaker {
            Some(breaker) if self.is_troubled.load(Ordering::Relaxed) => {
                let Some(leave) = breaker.admit(Instant::now()) else {
                    self.left_alone.fetch_add(1, Ordering::Relaxed);
                    return Err(Missed::LeftAlone);
                };
                Some(leave)
            }
            _ => None,
        };
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut call = catch_unwind(AssertUnwindSafe(|| begin(&*self.store))).ok();
        let mut began = None;
        let answered = poll_fn(|context| {
            let polled = call.as_mut().map(|call| catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context))));
            match polled {
                Some(Ok(Poll::Pending)) => {
                    began.get_or_insert_with(Instant::now);
                    Poll::Pending
                }
                Some(Ok(Poll::Ready(answer))) => Poll::Ready(Ok(answer)),
                Some(Err(_)) | None => Poll::Ready(Err(Missed::Panicked)),
            }
        });
        let mut answered = std::pin::pin!(answered);
        // A store that keeps everything in memory answers at once, and needs no timer.
        let answer = match (futures::poll!(&mut answered), deadline.instant()) {
            (Poll::Ready(answer), _) => answer,
            (Poll::Pending, None) => answered.await,
            (Poll::Pending, Some(end)) => {
                let end = end.checked_add(MARGIN).unwrap_or(end);
                timeout_at(end, answered).await.unwrap_or(Err(Missed::Abandoned))
            }
        };
        if let Some(began) = began {
            self.waits.record(began.elapsed());
        }
        self.report(&answer, began);
        if let (Some(leave), Some(breaker)) = (leave, &self.breaker) {
            leave.reported(breaker);
        }
        answer
    }

    /// Counts how a call has ended, and tells the breaker.
    fn report<T: Answer>(&self, answer: &Result<T, Missed>, began: Option<Instant>) {
        let (mut failed, mut cut_short) = (false, false);
        match answer {
            Ok(answer) => {
                for failure in answer.failures() {
                    let places = FailureCode::ALL.iter().zip(&self.failures);
                    for (_, count) in places.filter(|(code, _)| **code == failure.code) {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    failed |= failure.code == FailureCode::Unavailable;
                    cut_short |= failure.code == FailureCode::TimedOut;
                }
            }
            Err(Missed::Panicked) => {
                failed = true;
                self.panicked.fetch_add(1, Ordering::Relaxed);
            }
            Err(Missed::Abandoned) => {
                cut_short = true;
                self.abandoned.fetch_add(1, Ordering::Relaxed);
            }
            Err(Missed::LeftAlone) => {}
        }
        let Some(breaker) = &self.breaker else { return };
        if failed {
            breaker.failed();
        } else if cut_short {
            breaker.cut_short(began.unwrap_or_else(Instant::now), PATIENCE);
        } else {
            if self.is_troubled.swap(false, Ordering::Relaxed) {
                breaker.succeeded();
            }
            return;
        }
        self.is_troubled.store(true, Ordering::Relaxed);
    }

    /// How calls have ended so far.
    pub fn counters(&self) -> StoreCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StoreCounters {
            calls: read(&self.calls),
            left_alone: read(&self.left_alone),
            abandoned: read(&self.abandoned),
            panicked: read(&self.panicked),
            waits: self.waits.read(),
            is_left_alone: self.breaker.as_ref().map(Breaker::is_open),
            failures: self.failures.each_ref().map(read),
        }
    }
}
