//! Delays tasks that the model has failed more than once in a row.
//!
//! A task is tried again with the next answer after its first failure, and then at growing intervals of up to an hour.
//! The number of tasks that are remembered is bounded; others are tried with each answer.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use super::queue::TaskQueueKey;

const FIRST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(3600);
const MAX_REMEMBERED_TASKS: usize = 4096;

/// The failures of each task in a row.
#[derive(Default)]
pub(super) struct Backoff(HashMap<TaskQueueKey, Failures>);

struct Failures {
    count: u32,
    until: Instant,
}

impl Backoff {
    /// Whether a task has to wait.
    pub fn is_waiting(&self, key: &TaskQueueKey, now: Instant) -> bool {
        self.0.get(key).is_some_and(|failures| now < failures.until)
    }

    /// It failed; how long it has to wait.
    pub fn record_failure(&mut self, key: &TaskQueueKey, now: Instant) -> Duration {
        if self.0.len() >= MAX_REMEMBERED_TASKS && !self.0.contains_key(key) {
            self.0.retain(|_, failures| now < failures.until);
            if self.0.len() >= MAX_REMEMBERED_TASKS {
                return Duration::ZERO;
            }
        }
        let failures = self.0.entry(key.clone()).or_insert(Failures { count: 0, until: now });
        let pause = match failures.count {
            0 => Duration::ZERO,
            count => FIRST.saturating_mul(1 << (count - 1).min(6)).min(LONGEST),
        };
        failures.count = failures.count.saturating_add(1);
        failures.until = now + pause;
        pause
    }

    /// It went well.
    pub fn record_success(&mut self, key: &TaskQueueKey) {
        self.0.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(subject: &str) -> TaskQueueKey {
        (subject.to_owned(), "title".to_owned())
    }

    #[test]
    fn a_task_that_keeps_failing_is_retried_at_growing_intervals() {
        let (mut backoff, now) = (Backoff::default(), Instant::now());
        let pauses: Vec<u64> = (0..10).map(|_| backoff.record_failure(&key("s"), now).as_secs()).collect();
        assert_eq!(pauses, [0, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]);
        assert!(backoff.is_waiting(&key("s"), now + LONGEST - Duration::from_secs(1)));
        assert!(!backoff.is_waiting(&key("s"), now + LONGEST) && !backoff.is_waiting(&key("t"), now));
        backoff.record_success(&key("s"));
        assert!(!backoff.is_waiting(&key("s"), now));
        assert_eq!(backoff.record_failure(&key("s"), now), Duration::ZERO);
        assert!(!backoff.is_waiting(&key("s"), now), "the next answer tries it again");
    }

    #[test]
    fn the_number_of_remembered_failures_is_bounded() {
        let (mut backoff, now) = (Backoff::default(), Instant::now());
        for number in 0..MAX_REMEMBERED_TASKS + 10 {
            for _ in 0..2 {
                backoff.record_failure(&key(&number.to_string()), now);
            }
        }
        assert_eq!(backoff.0.len(), MAX_REMEMBERED_TASKS);
        backoff.record_failure(&key("new"), now + LONGEST);
        assert_eq!(backoff.0.len(), 1);
    }
}
