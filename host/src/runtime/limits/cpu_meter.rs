//! Measures how long an instance computes for one call.
//!
//! Everything counts that keeps a thread busy for the instance: its own code, the host's copies for it, a store that
//! works synchronously. Time in which the call rests, because it waits for a store or has made way for other tasks,
//! does not. Nothing resets the meter within a call.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::poll_fn;
use tokio::task::yield_now;

use super::{
    cpu_scheduler::ComputeSlot,
    epoch::{Ticks, duration_to_ticks},
};

/// Shared by an instance and its state, which is out of reach while a call is under way. Not contended: one call at a
/// time.
#[derive(Debug)]
pub(in crate::runtime) struct CpuMeter {
    ticks: Arc<Ticks>,
    /// When the call was last given a thread.
    resumed: AtomicU64,
    /// Ticks that it computed before that.
    computed: AtomicU64,
    slot: ComputeSlot,
}

/// The most that one stretch with a thread counts for, in ticks. It makes way at the first tick, so one that lasts longer
/// was without a processor, on a busy machine, or in one long copy. That is the entry's time, not the instance's.
const MAX_STRETCH: u64 = 2;

impl CpuMeter {
    pub(in crate::runtime) fn new(ticks: Arc<Ticks>) -> Self {
        Self { ticks, resumed: AtomicU64::new(0), computed: AtomicU64::new(0), slot: ComputeSlot::default() }
    }

    /// A new call begins.
    pub(in crate::runtime) fn begin(&self) {
        self.computed.store(0, Ordering::Relaxed);
        self.resume();
    }

    /// Has the call run, and measures how long it has a thread.
    pub(in crate::runtime) async fn run_measured<F: Future>(&self, mut call: Pin<&mut F>) -> F::Output {
        poll_fn(|context| {
            self.resume();
            let polled = call.as_mut().poll(context);
            self.computed.store(self.computed_ticks(), Ordering::Relaxed);
            self.slot.release_place();
            polled
        })
        .await
    }

    /// The call has computed for a tick: others come first now, for so long at most. Whether it may go on then is to be
    /// asked again.
    pub(in crate::runtime) async fn make_way(&self, patience: Duration) {
        let computed = self.computed_ticks();
        if computed > 1 {
            // tokio's own: it has a look at sockets, timers and signals before it goes on with this call. That may last
            // until all other tasks of the thread had their turn, which is nothing for one that a tick met by chance.
            yield_now().await;
        }
        self.slot.wait_for_place(&self.ticks, computed, duration_to_ticks(patience)).await;
    }

    /// Whether the call has just made way, and it is its turn again.
    pub(in crate::runtime) fn has_made_way(&self) -> bool {
        self.slot.take_new_place()
    }

    fn resume(&self) {
        self.resumed.store(self.now(), Ordering::Relaxed);
    }

    pub(in crate::runtime) fn now(&self) -> u64 {
        self.ticks.now()
    }

    /// How long the call has computed so far, in ticks. For the call itself, while it has a thread.
    pub(in crate::runtime) fn computed_ticks(&self) -> u64 {
        let since = self.now().saturating_sub(self.resumed.load(Ordering::Relaxed));
        self.computed.load(Ordering::Relaxed).saturating_add(since.min(MAX_STRETCH))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn computing_time_adds_up_across_waits_and_waiting_is_not_counted() {
        let ticks = Arc::new(Ticks::default());
        let meter = CpuMeter::new(ticks.clone());
        meter.begin();
        let compute = |count| (0..count).for_each(|_| ticks.advance());
        let call = async {
            for part in 1..=5 {
                compute(1);
                assert_eq!(meter.computed_ticks(), part);
                tokio::task::yield_now().await;
            }
        };
        let other = async {
            for _ in 0..5 {
                compute(100);
                tokio::task::yield_now().await;
            }
        };
        let call = pin!(call);
        tokio::join!(meter.run_measured(call), other);
        meter.begin();
        assert_eq!(meter.computed_ticks(), 0);
        // It was without a processor.
        compute(100);
        assert_eq!(meter.computed_ticks(), MAX_STRETCH);
    }
}
