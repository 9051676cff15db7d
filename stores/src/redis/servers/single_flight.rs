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
pub(crate) enum Missed {
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
    pub(crate) fn begin<F>(&self, begin: impl FnOnce() -> F)
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.board(begin);
    }

    /// Waits for the work under way, or for `begin` where there is none. Needs a tokio runtime.
    pub(crate) async fn join<F>(&self, begin: impl FnOnce() -> F, deadline: Instant) -> Result<T, Missed>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut outcome = self.board(begin);
        // An outcome that is there counts, however late it is asked for.
        match timeout_at(deadline, outcome.wait_for(Option::is_some)).await {
            Ok(Ok(outcome)) => outcome.clone().ok_or(Missed::Stopped),
            Ok(Err(_)) => Err(Missed::Stopped),
            Err(_) => Err(Missed::Deadline),
        }
    }

    fn board<F>(&self, begin: impl FnOnce() -> F) -> watch::Receiver<Option<T>>
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
    async fn it_goes_on_without_whoever_began_it_and_whoever_comes_later_gets_what_it_came_to() {
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
        assert_eq!(flight.join(first, soon()).await, Err(Missed::Deadline));
        flight.begin(again);
        let (waited, ()) = tokio::join!(flight.join(again, late()), async { land.send(7).unwrap() });
        assert_eq!((waited, begun.load(Ordering::Relaxed)), (Ok(7), 1));
        // It has ended: the next begins again.
        assert_eq!(flight.join(again, late()).await, Ok(0));
    }

    #[tokio::test]
    async fn it_is_stopped_with_what_it_is_about() {
        let (alive, flight) = (Arc::new(()), SingleFlight::<()>::default());
        let held = alive.clone();
        let work = || async move {
            let _held = held;
            pending().await
        };
        assert_eq!(flight.join(work, soon()).await, Err(Missed::Deadline));
        drop(flight);
        let end = late();
        while Arc::strong_count(&alive) > 1 {
            assert!(Instant::now() < end);
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn after_its_runtime_has_ended_it_is_begun_again() {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let flight = SingleFlight::<u32>::default();
        assert_eq!(runtime().block_on(flight.join(pending, soon())), Err(Missed::Deadline));
        assert_eq!(runtime().block_on(flight.join(|| ready(1), late())), Ok(1));
    }
}
