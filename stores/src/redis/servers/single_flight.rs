//! Runs work once for all requests that wait for it: a connection attempt, a look at the cluster's map.
//!
//! The work goes on when the request that began it leaves, ends by a limit of its own, and stops when its server is dropped.
//! A request that comes meanwhile waits for the same work, for as long as its own deadline allows.

use std::future::Future;

use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{Instant, timeout_at},
};

/// One piece of work at a time.
pub(crate) struct SingleFlight<T> {
    under_way: Mutex<Option<UnderWay<T>>>,
}

struct UnderWay<T> {
    outcome: watch::Receiver<Option<T>>,
    task: AbortHandle,
}

/// Why nothing came of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlightError {
    /// The time was up; the work goes on.
    Deadline,
    /// It was stopped: the runtime that it ran on is gone.
    Stopped,
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self { under_way: Mutex::new(None) }
    }
}

impl<T> UnderWay<T> {
    fn has_ended(&self) -> bool {
        self.outcome.borrow().is_some() || self.outcome.has_changed().is_err()
    }
}

impl<T> Drop for UnderWay<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<T: Clone + Send + Sync + 'static> SingleFlight<T> {
    /// Has it done, and does not wait. Needs a tokio runtime.
    pub(crate) fn start_if_idle<F>(&self, begin: impl FnOnce() -> F)
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.subscribe_or_start(begin);
    }

    /// Waits for the work under way, or for `begin` where there is none. Needs a tokio runtime.
    pub(crate) async fn join_or_start<F>(&self, begin: impl FnOnce() -> F, deadline: Instant) -> Result<T, FlightError>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut outcome = self.subscribe_or_start(begin);
        // An outcome that is there counts, however late it is asked for.
        match timeout_at(deadline, outcome.wait_for(Option::is_some)).await {
            Ok(Ok(outcome)) => outcome.clone().ok_or(FlightError::Stopped),
            Ok(Err(_)) => Err(FlightError::Stopped),
            Err(_) => Err(FlightError::Deadline),
        }
    }

    fn subscribe_or_start<F>(&self, begin: impl FnOnce() -> F) -> watch::Receiver<Option<T>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut under_way = self.under_way.lock();
        if let Some(work) = under_way.as_ref().filter(|work| !work.has_ended()) {
            return work.outcome.clone();
        }
        let (tell, outcome) = watch::channel(None);
        let work = begin();
        let task = tokio::spawn(async move {
            let outcome = work.await;
            tell.send_replace(Some(outcome));
        });
        *under_way = Some(UnderWay { outcome: outcome.clone(), task: task.abort_handle() });
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, ready},
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
        },
        time::Duration,
    };

    use tokio::sync::oneshot;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(10)
    }

    fn late() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    #[tokio::test]
    async fn shared_work_outlives_its_initiator_and_later_callers_get_its_result() {
        let (flight, begun) = (SingleFlight::default(), Arc::new(AtomicU32::new(0)));
        let (land, landed) = oneshot::channel::<u32>();
        let first = || {
            begun.fetch_add(1, Ordering::Relaxed);
            async { landed.await.unwrap() }
        };
        let again = || {
            begun.fetch_add(1, Ordering::Relaxed);
            ready(0)
        };
        assert_eq!(flight.join_or_start(first, soon()).await, Err(FlightError::Deadline));
        flight.start_if_idle(again);
        let (waited, ()) = tokio::join!(flight.join_or_start(again, late()), async { land.send(7).unwrap() });
        assert_eq!((waited, begun.load(Ordering::Relaxed)), (Ok(7), 1));
        // It has ended: the next begins again.
        assert_eq!(flight.join_or_start(again, late()).await, Ok(0));
    }

    #[tokio::test]
    async fn dropping_a_single_flight_stops_its_work() {
        let (alive, flight) = (Arc::new(()), SingleFlight::<()>::default());
        let held = alive.clone();
        let work = || async move {
            let _held = held;
            pending().await
        };
        assert_eq!(flight.join_or_start(work, soon()).await, Err(FlightError::Deadline));
        drop(flight);
        let end = late();
        while Arc::strong_count(&alive) > 1 {
            assert!(Instant::now() < end);
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn work_that_ended_with_its_runtime_is_started_again() {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let flight = SingleFlight::<u32>::default();
        assert_eq!(runtime().block_on(flight.join_or_start(pending, soon())), Err(FlightError::Deadline));
        assert_eq!(runtime().block_on(flight.join_or_start(|| ready(1), late())), Ok(1));
    }
}
