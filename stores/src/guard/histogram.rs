//! A histogram of durations that is cheap enough to count every call.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// From a microsecond to more than two minutes.
const BUCKETS: usize = 28;

/// Counts durations, in buckets that double from a microsecond on. Counting is one atomic addition.
#[derive(Debug, Default)]
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    micros: AtomicU64,
}

impl Histogram {
    /// Count one.
    pub fn record(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = (u64::BITS - micros.leading_zeros()) as usize;
        if let Some(count) = self.counts.get(bucket).or(self.counts.last()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// What was counted so far. Durations that are counted meanwhile may be in it in part.
    pub fn read(&self) -> Latencies {
        let mut latencies =
            Latencies { counts: [0; BUCKETS], sum: Duration::from_micros(self.micros.load(Ordering::Relaxed)) };
        for (read, count) in latencies.counts.iter_mut().zip(&self.counts) {
            *read = count.load(Ordering::Relaxed);
        }
        latencies
    }
}

/// What a [`Histogram`] has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    counts: [u64; BUCKETS],
    sum: Duration,
}

impl Latencies {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Of all together, in whole microseconds each.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// How many took less than so long, and not less than the bucket before: each bucket twice as long as the one
    /// before, from a microsecond on. None: however long, the last one.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        let bound = |bucket| (bucket + 1 < BUCKETS).then(|| Duration::from_micros(1_u64 << bucket));
        self.counts.into_iter().enumerate().map(move |(bucket, count)| (bound(bucket), count))
    }

    /// A time that the given share (0 to 1) of them did not exceed: the bound of its bucket, so at most twice too
    /// long. None: there were none.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let mut seen = 0;
        for (bound, here) in self.buckets() {
            seen += here;
            #[allow(clippy::cast_precision_loss, reason = "a quantile of 2^53 and more needs no more digits")]
            if count > 0 && seen as f64 >= share.clamp(0.0, 1.0) * count as f64 && here > 0 {
                return Some(bound.unwrap_or(Duration::from_micros(1_u64 << BUCKETS)));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_duration_is_counted_below_its_bound() {
        let histogram = Histogram::default();
        for (micros, bound) in [(0, Some(1)), (1, Some(2)), (2, Some(4)), (1000, Some(1024)), (1 << 40, None)] {
            let before = histogram.read();
            histogram.record(Duration::from_micros(micros));
            let after = histogram.read();
            let grown: Vec<_> = after.buckets().zip(before.buckets()).filter(|(a, b)| a.1 != b.1).collect();
            assert_eq!(grown.len(), 1);
            assert_eq!(grown[0].0.0, bound.map(Duration::from_micros), "{micros}");
        }
        assert_eq!(histogram.read().count(), 5);
    }

    #[test]
    fn quantiles_are_bounds_of_buckets() {
        let histogram = Histogram::default();
        assert_eq!(histogram.read().quantile(0.5), None);
        (0..99).for_each(|_| histogram.record(Duration::from_micros(10)));
        histogram.record(Duration::from_millis(10));
        let read = histogram.read();
        assert_eq!(read.quantile(0.5), Some(Duration::from_micros(16)));
        assert_eq!(read.quantile(0.99), Some(Duration::from_micros(16)));
        assert_eq!(read.quantile(1.0), Some(Duration::from_micros(16384)));
        assert_eq!(read.sum(), Duration::from_micros(990 + 10_000));
    }
}
