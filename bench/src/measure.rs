//! Times pairs of a question and an answer.
//!
//! Contenders take turns, round by round, in one process, so that a machine whose speed drifts treats them alike; medians
//! are quoted.

use std::time::Instant;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;

/// Something that passes a question and its answer.
pub trait Contender {
    /// Prepares the next pair, untimed.
    async fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    async fn question(&mut self) -> Result<()>;
    async fn answer(&mut self) -> Result<()>;
}

/// The results of a contender's rounds. Times are nanoseconds.
pub struct Samples {
    pub question: Histogram<u64>,
    pub answer: Histogram<u64>,
    pub pair: Histogram<u64>,
    /// Pairs a second, of each round.
    rates: Vec<f64>,
}

impl Samples {
    pub fn new() -> Result<Self> {
        Ok(Self { question: histogram()?, answer: histogram()?, pair: histogram()?, rates: Vec::new() })
    }

    /// Times `pairs` pairs, one by one.
    pub async fn round(&mut self, contender: &mut impl Contender, pairs: u64) -> Result<()> {
        let begin = Instant::now();
        for _ in 0..pairs {
            contender.prepare().await?;
            let started = Instant::now();
            contender.question().await?;
            let asked = Instant::now();
            contender.answer().await?;
            let answered = Instant::now();
            self.question.saturating_record(nanos(asked - started));
            self.answer.saturating_record(nanos(answered - asked));
            self.pair.saturating_record(nanos(answered - started));
        }
        self.add_rate(pairs, begin);
        Ok(())
    }

    /// A round that was timed elsewhere.
    pub fn add_rate(&mut self, pairs: u64, begin: Instant) {
        #[allow(clippy::cast_precision_loss, reason = "a rate is no exact figure")]
        self.rates.push(pairs as f64 / begin.elapsed().as_secs_f64());
    }

    /// Pairs a second, of the last round.
    pub fn last_rate(&self) -> f64 {
        self.rates.last().copied().unwrap_or(0.0)
    }

    /// Pairs a second, of each round.
    pub fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// Pairs a second: the median of the rounds.
    pub fn rate(&self) -> f64 {
        median(&self.rates)
    }
}

/// Of nanoseconds up to a minute, in three digits.
pub fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).context("can't make a histogram")
}

pub fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Microseconds at a quantile.
pub fn micros(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "three digits are kept")]
    let nanos = histogram.value_at_quantile(quantile) as f64;
    nanos / 1000.0
}

/// The middle one; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}
