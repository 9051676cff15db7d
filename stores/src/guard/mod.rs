//! Protects callers from a store that hangs, fails or panics.
//!
//! Promises that a call ends by its deadline, and costs next to nothing while the store keeps failing. Counts how
//! calls end and how long callers wait. A store that answers at once, as one in memory does, is called without a timer
//! and without reading the clock.

pub(crate) mod breaker;
pub(crate) mod histogram;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures::future::poll_fn;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use self::{
    breaker::{Breaker, BreakerOptions, BreakerState},
    histogram::{Histogram, Latencies},
};
use crate::{Deadline, Failure, FailureCode, Store, StoreInfo, failure};

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

impl Missed {
    /// As a failure of the store, for the caller.
    pub fn to_failure(self) -> Failure {
        let (code, message) = match self {
            Self::LeftAlone => {
                (FailureCode::Unavailable, "the store has failed several times in a row and is left alone for a moment")
            }
            Self::Abandoned => (FailureCode::TimedOut, "the store did not answer before the deadline"),
            Self::Panicked => (FailureCode::Other, "the store panicked"),
        };
        failure(code, "", message)
    }
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
pub struct StoreGuard {
    store: Arc<dyn Store>,
    /// None: the store has one itself.
    breaker: Option<Breaker>,
    about: OnceLock<StoreInfo>,
    /// Whether the breaker knows of any failure: else it need not be asked.
    is_troubled: AtomicBool,
    /// But for what is read elsewhere: how long calls took, and how the breaker stands.
    counts: Mutex<StoreCounters>,
    waits: Histogram,
}

/// How calls of a store have ended so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreCounters {
    /// Calls that were made. Those that are under way, or whose caller went away, have not ended in any of the ways
    /// below.
    pub calls: u64,
    /// Calls that were answered without a failure.
    pub succeeded: u64,
    /// Calls that were answered with a failure, or with several: [`failures`](Self::failures) has their codes.
    pub failed: u64,
    /// Calls in a row, up to now, of which nothing came for want of the store: it was not available, not in time, full,
    /// read-only, denied access or broke down, or was left alone. One that the store refused for what was in it does not
    /// count.
    pub consecutive_failures: u64,
    /// Calls that were not made, because the store had failed time after time.
    pub left_alone: u64,
    /// Calls without an answer by their deadline.
    pub abandoned: u64,
    /// Calls in which the store panicked.
    pub panicked: u64,
    /// How long the calls took that were not answered at once.
    pub waits: Latencies,
    /// How the store's circuit breaker stands: its own, or the guard's.
    pub breaker: BreakerState,
    failures: [u64; FailureCode::ALL.len()],
}

impl StoreCounters {
    /// How many failures of each kind the store has answered with.
    pub fn failures(&self) -> impl Iterator<Item = (FailureCode, u64)> {
        FailureCode::ALL.into_iter().zip(self.failures)
    }
}

/// How a store was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Why it can't be used. None: it can.
    pub problem: Option<Failure>,
    /// How long it took to find out: for a store over a network its round trip, and connecting where there was no
    /// connection.
    pub round_trip: Duration,
    /// How its circuit breaker stood afterwards.
    pub breaker: BreakerState,
}

impl Health {
    /// Whether it can be used.
    pub fn is_good(&self) -> bool {
        self.problem.is_none()
    }
}

impl StoreGuard {
    /// Guards a store. The options are for one without a circuit breaker of its own.
    pub fn new(store: Arc<dyn Store>, options: BreakerOptions) -> Self {
        let breaker = store.breaker().is_none().then(|| Breaker::new(options));
        Self {
            store,
            breaker,
            about: OnceLock::new(),
            is_troubled: AtomicBool::new(false),
            counts: Mutex::default(),
            waits: Histogram::default(),
        }
    }

    /// What the store can do. It is asked once, for that does not change.
    pub fn about(&self) -> &StoreInfo {
        self.about.get_or_init(|| self.store.about())
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
                    let mut counts = self.counts.lock();
                    counts.left_alone += 1;
                    counts.consecutive_failures += 1;
                    return Err(Missed::LeftAlone);
                };
                Some(leave)
            }
            _ => None,
        };
        self.counts.lock().calls += 1;
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
            leave.mark_reported(breaker);
        }
        answer
    }

    /// Counts how a call has ended, and tells the breaker.
    fn report<T: Answer>(&self, answer: &Result<T, Missed>, began: Option<Instant>) {
        let (mut failed, mut cut_short) = (false, false);
        // Whether all was answered without a failure, and whether one was for want of the store.
        let (mut is_whole, mut is_at_fault) = (true, answer.is_err());
        let mut counts = self.counts.lock();
        match answer {
            Ok(answer) => {
                for failure in answer.failures() {
                    if let Some(count) = counts.failures.get_mut(failure.code as usize) {
                        *count += 1;
                    }
                    failed |= failure.code == FailureCode::Unavailable && failure.is_store_failure();
                    cut_short |= failure.code == FailureCode::TimedOut;
                    is_whole = false;
                    is_at_fault |= failure.is_store_failure();
                }
                *(if is_whole { &mut counts.succeeded } else { &mut counts.failed }) += 1;
            }
            Err(Missed::Panicked) => {
                failed = true;
                counts.panicked += 1;
            }
            Err(Missed::Abandoned) => {
                cut_short = true;
                counts.abandoned += 1;
            }
            Err(Missed::LeftAlone) => {}
        }
        counts.consecutive_failures = if is_at_fault { counts.consecutive_failures + 1 } else { 0 };
        drop(counts);
        let Some(breaker) = &self.breaker else { return };
        if failed {
            breaker.record_failure(Instant::now());
        } else if cut_short {
            breaker.record_cut_short(began.unwrap_or_else(Instant::now), PATIENCE, Instant::now());
        } else {
            if self.is_troubled.swap(false, Ordering::Relaxed) {
                breaker.record_success();
            }
            return;
        }
        self.is_troubled.store(true, Ordering::Relaxed);
    }

    /// How the store's circuit breaker stands: its own, or this one.
    pub fn breaker(&self) -> BreakerState {
        self.breaker.as_ref().map(Breaker::state).or_else(|| self.store.breaker()).unwrap_or_default()
    }

    /// How many calls have been asked for so far, made or not.
    pub fn count_asked(&self) -> u64 {
        let counts = self.counts.lock();
        counts.calls + counts.left_alone
    }

    /// Looks whether the store can be used, as an entry would find it: through the circuit breaker, and by the deadline.
    /// It counts as a call. One request to each server; none where the breaker is open.
    pub async fn check(&self, deadline: Deadline) -> Health {
        let began = Instant::now();
        let answer = self.call(deadline, |store| store.check()).await;
        let round_trip = began.elapsed();
        let problem = answer.map_err(Missed::to_failure).and_then(|checked| checked).err();
        Health { problem, round_trip, breaker: self.breaker() }
    }

    /// How calls have ended so far.
    pub fn counters(&self) -> StoreCounters {
        StoreCounters { waits: self.waits.read(), breaker: self.breaker(), ..*self.counts.lock() }
    }
}
