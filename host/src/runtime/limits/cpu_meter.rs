//! Measures how long an instance computes for one call.
//!
//! Everything counts that keeps a thread busy for the instance: its own code, the host's copies for it, a store that
//! works synchronously. Time in which the call rests, because it waits for a store or has made way for other tasks,
//! does not, nor does time in which a busy machine gave the thread no processor. Nothing resets the meter within a call.
//!
//! Most calls end before a tick and cost no look at a clock. From its first tick on, a call is measured by the processor
//! time of its thread, where the system tells it (Unix), and by ticks where it doesn't.

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
    epoch::{TICK, Ticks, duration_to_ticks},
};

/// Shared by an instance and its state, which is out of reach while a call is under way. Not contended: one call at a
/// time.
#[derive(Debug)]
pub(in crate::runtime) struct CpuMeter {
    ticks: Arc<Ticks>,
    /// The tick at which the call was last given a thread.
    resumed: AtomicU64,
    /// Nanoseconds of processor time that the thread had used by then; 0 in a call that no tick has met yet.
    thread_used: AtomicU64,
    /// Nanoseconds that the call computed before that.
    computed: AtomicU64,
    slot: ComputeSlot,
}

/// The most that one stretch with a thread counts for. It makes way at the first tick, so one that lasts longer was
/// without a processor, on a busy machine, or in one long copy. That is the entry's time, not the instance's.
const MAX_STRETCH: Duration = TICK.saturating_mul(2);

impl CpuMeter {
    pub(in crate::runtime) fn new(ticks: Arc<Ticks>) -> Self {
        Self {
            ticks,
            resumed: AtomicU64::new(0),
            thread_used: AtomicU64::new(0),
            computed: AtomicU64::new(0),
            slot: ComputeSlot::default(),
        }
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
            self.computed.store(nanoseconds(self.computed()), Ordering::Relaxed);
            self.slot.release_place();
            polled
        })
        .await
    }

    /// The call has computed for a tick: others come first now, for so long at most. Whether it may go on then is to be
    /// asked again.
    pub(in crate::runtime) async fn make_way(&self, patience: Duration) {
        let computed = duration_to_ticks(self.computed());
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
        let is_long = self.computed.load(Ordering::Relaxed) > 0;
        let used = if is_long { thread_time() } else { None };
        self.thread_used.store(used.map_or(0, nanoseconds), Ordering::Relaxed);
    }

    pub(in crate::runtime) fn now(&self) -> u64 {
        self.ticks.now()
    }

    /// How long the call has computed so far. For the call itself, while it has a thread.
    pub(in crate::runtime) fn computed(&self) -> Duration {
        let before = Duration::from_nanos(self.computed.load(Ordering::Relaxed));
        before.saturating_add(self.stretch().min(MAX_STRETCH))
    }

    /// How long it has computed since it was last given a thread.
    fn stretch(&self) -> Duration {
        let ticks = self.now().saturating_sub(self.resumed.load(Ordering::Relaxed));
        let in_ticks = TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX));
        match self.thread_used.load(Ordering::Relaxed) {
            0 => in_ticks,
            used => thread_time().map_or(in_ticks, |now| now.saturating_sub(Duration::from_nanos(used))),
        }
    }
}

/// The processor time of this thread.
#[cfg(unix)]
fn thread_time() -> Option<Duration> {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into().ok()
}

#[cfg(not(unix))]
fn thread_time() -> Option<Duration> {
    None
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn waiting_is_not_counted() {
        let ticks = Arc::new(Ticks::default());
        let meter = CpuMeter::new(ticks.clone());
        meter.begin();
        let call = async {
            ticks.advance();
            assert_eq!(meter.computed(), TICK);
            yield_now().await;
            compute_for(TICK);
        };
        let other = async {
            (0..100).for_each(|_| ticks.advance());
            compute_for(TICK * 20);
        };
        let call = pin!(call);
        tokio::join!(meter.run_measured(call), other);
        let computed = meter.computed();
        assert!((TICK * 2..TICK * 5).contains(&computed), "{computed:?}");
        meter.begin();
        assert_eq!(meter.computed(), Duration::ZERO);
    }

    /// Ticks pass, but the thread gets no processor: on a machine under load, most of a second may be like this.
    #[tokio::test]
    async fn time_without_a_processor_is_not_counted() {
        let ticks = Arc::new(Ticks::default());
        let meter = CpuMeter::new(ticks.clone());
        meter.begin();
        let call = async {
            for _ in 0..100 {
                (0..10).for_each(|_| ticks.advance());
                yield_now().await;
            }
        };
        meter.run_measured(pin!(call)).await;
        // Only the first stretch, in which nobody looked at the processor time.
        assert!(meter.computed() < MAX_STRETCH + TICK * 5, "{:?}", meter.computed());
    }

    /// Uses so much processor time of this thread.
    fn compute_for(time: Duration) {
        let start = thread_time().unwrap();
        while thread_time().unwrap() - start < time {}
    }
}
