//! Runs work once for all requests that wait for it: a connection attempt, a look at the cluster's map.
//!
//! The work goes on when the request that began it leaves, ends by a limit of its own, and stops when its server is dropped.
//! A request that comes meanwhile waits for the same work, for as long as its own deadline allows.

use std::future::Future;

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use tokio::{
    task::AbortHandle,
    time::{Instant, timeout_at},
};

use super::node::{RequestError, broken_connection};

/// One piece of work at a time.
pub(crate) struct SingleFlight<T> {
    under_way: Mutex<Option<UnderWay<T>>>,
}

type Outcome<T> = Result<T, RequestError>;

struct UnderWay<T> {
    outcome: Shared<BoxFuture<'static, Outcome<T>>>,
    task: AbortHandle,
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self { under_way: Mutex::new(None) }
    }
}

impl<T> Drop for UnderWay<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<T: Clone + Send + Sync + 'static> SingleFlight<T> {
    /// Has `begin` done unless work is under way, and does not wait. Needs a tokio runtime.
    pub(crate) fn start_if_idle<F>(&self, begin: impl FnOnce() -> F)
    where
        F: Future<Output = Outcome<T>> + Send + 'static,
    {
        _ = self.subscribe_or_start(begin);
    }

    /// Waits for the work under way, or starts it with `begin`. Needs a tokio runtime.
    pub(crate) async fn join_or_start<F>(&self, begin: impl FnOnce() -> F, deadline: Instant) -> Outcome<T>
    where
        F: Future<Output = Outcome<T>> + Send + 'static,
    {
        let outcome = self.subscribe_or_start(begin);
        // An outcome that is there counts, however late it is asked for. Work that takes longer goes on.
        timeout_at(deadline, outcome).await.unwrap_or(Err(RequestError::NotConnected))
    }

    fn subscribe_or_start<F>(&self, begin: impl FnOnce() -> F) -> Shared<BoxFuture<'static, Outcome<T>>>
    where
        F: Future<Output = Outcome<T>> + Send + 'static,
    {
        let mut under_way = self.under_way.lock();
        if let Some(work) = under_way.as_ref().filter(|work| !work.task.is_finished()) {
            return work.outcome.clone();
        }
        let work = tokio::spawn(begin());
        let task = work.abort_handle();
        // It is stopped with the runtime that it runs on.
        let outcome = work.map(|ended| ended.unwrap_or_else(|_| Err(broken_connection()))).boxed().shared();
        *under_way = Some(UnderWay { outcome: outcome.clone(), task });
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
            async { Ok(landed.await.unwrap()) }
        };
        let again = || {
            begun.fetch_add(1, Ordering::Relaxed);
            ready(Ok(0))
        };
        assert!(matches!(flight.join_or_start(first, soon()).await, Err(RequestError::NotConnected)));
        flight.start_if_idle(again);
        let (waited, ()) = tokio::join!(flight.join_or_start(again, late()), async { land.send(7).unwrap() });
        assert!(matches!((waited, begun.load(Ordering::Relaxed)), (Ok(7), 1)));
        // It has ended: the next begins again.
        assert!(matches!(flight.join_or_start(again, late()).await, Ok(0)));
    }

    #[tokio::test]
    async fn dropping_a_single_flight_stops_its_work() {
        let (alive, flight) = (Arc::new(()), SingleFlight::<()>::default());
        let held = alive.clone();
        let work = || async move {
            let _held = held;
            pending().await
        };
        assert!(matches!(flight.join_or_start(work, soon()).await, Err(RequestError::NotConnected)));
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
        let stopped = runtime().block_on(flight.join_or_start(pending, soon()));
        assert!(matches!(stopped, Err(RequestError::NotConnected)));
        assert!(matches!(runtime().block_on(flight.join_or_start(|| ready(Ok(1)), late())), Ok(1)));
    }
}
