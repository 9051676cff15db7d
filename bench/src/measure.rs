//! Times contenders in turn, round by round in one process, so that a machine whose speed drifts treats them alike.
//!
//! A [`Comparison`] becomes a table: p50 and p99 of each side, pairs per second, and the cost of a pair as a multiple of
//! the baseline's. Rates and multiples are medians of the rounds.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use futures::future::LocalBoxFuture;
use hdrhistogram::Histogram;

use crate::report::Section;

/// How long a comparison measures.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Whether figures may be imprecise, and large points are left out.
    pub is_quick: bool,
    pub rounds: u32,
    pub round: Duration,
}

impl Effort {
    pub fn of(is_quick: bool) -> Self {
        let (rounds, milliseconds) = if is_quick { (3, 50) } else { (9, 500) };
        Self { is_quick, rounds, round: Duration::from_millis(milliseconds) }
    }

    /// The points of a curve: the first two when quick.
    pub fn points<T: Copy>(self, all: &[T]) -> impl Iterator<Item = T> {
        all.iter().copied().take(if self.is_quick { 2 } else { all.len() })
    }
}

/// Passes pairs of a question and an answer.
pub trait Contender: Send {
    /// Prepares the next pair, untimed.
    fn prepare(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    fn question(&mut self) -> impl Future<Output = Result<()>> + Send;

    fn answer(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}

/// The end of a round, whichever comes first.
#[derive(Clone, Copy)]
pub struct Limit {
    pub time: Duration,
    pub pairs: u64,
}

/// Can be timed for a round.
pub trait Timed {
    fn round<'a>(&'a mut self, limit: Limit, samples: &'a mut Samples) -> LocalBoxFuture<'a, Result<()>>;
}

impl<C: Contender> Timed for C {
    /// One pair after the other. The rate leaves out what is untimed.
    fn round<'a>(&'a mut self, limit: Limit, samples: &'a mut Samples) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (begun, mut pairs, mut timed) = (Instant::now(), 0, Duration::ZERO);
            while pairs == 0 || (pairs < limit.pairs && begun.elapsed() < limit.time) {
                self.prepare().await?;
                let started = Instant::now();
                self.question().await?;
                let asked = Instant::now();
                self.answer().await?;
                let answered = Instant::now();
                samples.question.saturating_record(nanos(asked - started));
                samples.answer.saturating_record(nanos(answered - asked));
                samples.pair.saturating_record(nanos(answered - started));
                timed += answered - started;
                pairs += 1;
            }
            samples.add_rate(pairs, timed);
            Ok(())
        })
    }
}

/// Contenders at once, each on a task of its own.
pub struct SideBySide<C>(pub Vec<C>);

impl<C: Contender + 'static> Timed for SideBySide<C> {
    /// Times pairs. The rate is that of all together.
    fn round<'a>(&'a mut self, limit: Limit, samples: &'a mut Samples) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (begun, mut pairs) = (Instant::now(), 0);
            let tasks: Vec<_> =
                self.0.drain(..).map(|contender| tokio::spawn(pairs_until(contender, begun + limit.time))).collect();
            for task in tasks {
                let (contender, times) = task.await??;
                pairs += times.len() as u64;
                times.into_iter().for_each(|time| samples.pair.saturating_record(time));
                self.0.push(contender);
            }
            samples.add_rate(pairs, begun.elapsed());
            Ok(())
        })
    }
}

async fn pairs_until<C: Contender>(mut contender: C, end: Instant) -> Result<(C, Vec<u64>)> {
    let mut times = Vec::new();
    while times.is_empty() || Instant::now() < end {
        contender.prepare().await?;
        let started = Instant::now();
        contender.question().await?;
        contender.answer().await?;
        times.push(nanos(started.elapsed()));
    }
    Ok((contender, times))
}

/// Asks while writers store one answer after the other.
pub struct BesideWriters<C> {
    pub asking: C,
    pub writers: Vec<C>,
}

impl<C: Contender + 'static> Timed for BesideWriters<C> {
    /// Times the questions, and the answers of the writers.
    fn round<'a>(&'a mut self, limit: Limit, samples: &'a mut Samples) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (is_over, begun) = (Arc::new(AtomicBool::new(false)), Instant::now());
            let writers: Vec<_> =
                self.writers.drain(..).map(|writer| tokio::spawn(answers_until(writer, is_over.clone()))).collect();
            let mut asked = 0;
            while asked == 0 || begun.elapsed() < limit.time {
                self.asking.prepare().await?;
                let started = Instant::now();
                self.asking.question().await?;
                samples.question.saturating_record(nanos(started.elapsed()));
                asked += 1;
            }
            samples.add_rate(asked, begun.elapsed());
            is_over.store(true, Ordering::Relaxed);
            for writer in writers {
                let (writer, times) = writer.await??;
                times.into_iter().for_each(|time| samples.answer.saturating_record(time));
                self.writers.push(writer);
            }
            Ok(())
        })
    }
}

async fn answers_until<C: Contender>(mut contender: C, is_over: Arc<AtomicBool>) -> Result<(C, Vec<u64>)> {
    let mut times = Vec::new();
    contender.prepare().await?;
    contender.question().await?;
    while times.is_empty() || !is_over.load(Ordering::Relaxed) {
        let started = Instant::now();
        contender.answer().await?;
        times.push(nanos(started.elapsed()));
    }
    Ok((contender, times))
}

/// The results of a contender's rounds. Times are nanoseconds.
pub struct Samples {
    pub question: Histogram<u64>,
    pub answer: Histogram<u64>,
    pub pair: Histogram<u64>,
    /// Pairs per second, of each round.
    rates: Vec<f64>,
}

impl Samples {
    fn new() -> Result<Self> {
        // Up to a minute, in three digits.
        let histogram = || Histogram::new_with_bounds(1, 60_000_000_000, 3).context("can't make a histogram");
        Ok(Self { question: histogram()?, answer: histogram()?, pair: histogram()?, rates: Vec::new() })
    }

    fn add_rate(&mut self, pairs: u64, time: Duration) {
        self.rates.push(pairs as f64 / time.as_secs_f64());
    }
}

/// A table in the making.
pub struct Comparison<'a> {
    title: String,
    heading: &'static str,
    /// The names of what a pair consists of. Empty: there is no second side, and no pair.
    pub sides: [&'static str; 2],
    /// The name of what the contenders' counters count.
    pub counted: Option<&'static str>,
    pub notes: Vec<String>,
    entrants: Vec<Entrant<'a>>,
}

struct Entrant<'a> {
    name: String,
    timed: Box<dyn Timed + 'a>,
    /// The place of the one that it is compared with.
    baseline: usize,
    counter: Option<Box<dyn Fn() -> u64 + 'a>>,
    /// By how much the counter rose in all rounds.
    counted: u64,
    samples: Samples,
}

impl<'a> Comparison<'a> {
    /// `heading` names what the rows go by.
    pub fn new(title: impl Into<String>, heading: &'static str) -> Self {
        let (title, sides) = (title.into(), ["question", "answer"]);
        Self { title, heading, sides, counted: None, notes: Vec::new(), entrants: Vec::new() }
    }

    /// Adds a contender that those after it are compared with.
    pub fn baseline(&mut self, name: impl Into<String>, timed: impl Timed + 'a) -> Result<()> {
        self.enter(true, name, timed)
    }

    /// Adds a contender.
    pub fn add(&mut self, name: impl Into<String>, timed: impl Timed + 'a) -> Result<()> {
        self.enter(false, name, timed)
    }

    pub fn enter(&mut self, is_baseline: bool, name: impl Into<String>, timed: impl Timed + 'a) -> Result<()> {
        let baseline = self.entrants.last().filter(|_| !is_baseline).map(|last| last.baseline);
        let baseline = baseline.unwrap_or(self.entrants.len());
        let (name, timed, samples) = (name.into(), Box::new(timed), Samples::new()?);
        self.entrants.push(Entrant { name, timed, baseline, counter: None, counted: 0, samples });
        Ok(())
    }

    /// Counts something for the contender that was added last.
    pub fn count(&mut self, counter: impl Fn() -> u64 + 'a) {
        if let Some(last) = self.entrants.last_mut() {
            last.counter = Some(Box::new(counter));
        }
    }

    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Measures. The first round of each is not counted: sessions are created, instances and histories grow.
    pub async fn run(self, effort: Effort) -> Result<Section> {
        self.run_limited(effort, u64::MAX).await
    }

    /// With at most so many pairs in a round, where sessions must not grow much.
    pub async fn run_limited(mut self, effort: Effort, pairs: u64) -> Result<Section> {
        eprintln!("{}", self.title);
        let limit = Limit { time: effort.round, pairs };
        for entrant in &mut self.entrants {
            entrant.timed.round(limit, &mut Samples::new()?).await?;
        }
        for _ in 0..effort.rounds {
            for Entrant { timed, counter, counted, samples, .. } in &mut self.entrants {
                let before = counter.as_ref().map_or(0, |count| count());
                timed.round(limit, samples).await?;
                *counted += counter.as_ref().map_or(0, |count| count()) - before;
            }
        }
        Ok(self.table())
    }

    fn table(self) -> Section {
        let [question, answer] = self.sides;
        type Times = fn(&Samples) -> &Histogram<u64>;
        let lanes: [(&str, Times); 3] = [
            (question, |samples| &samples.question),
            (answer, |samples| &samples.answer),
            (if answer.is_empty() { "" } else { "pair" }, |samples| &samples.pair),
        ];
        let lanes = lanes.into_iter().filter(|(name, _)| !name.is_empty());
        let mut columns: Vec<_> =
            lanes.clone().flat_map(|(lane, _)| [format!("{lane}: p50 µs"), format!("{lane}: p99 µs")]).collect();
        columns.extend(["pairs/s".into(), "×".into()]);
        columns.extend(self.counted.map(str::to_owned));
        let mut section = Section::new(self.title, self.heading, columns);
        for Entrant { name, baseline, counter, counted, samples, .. } in &self.entrants {
            let quantile = |times: &Histogram<u64>, quantile| {
                (!times.is_empty()).then(|| times.value_at_quantile(quantile) as f64 / 1000.0)
            };
            let times = lanes.clone().map(|(_, times)| times(samples));
            let mut values: Vec<_> = times.flat_map(|times| [quantile(times, 0.5), quantile(times, 0.99)]).collect();
            let baseline = self.entrants.get(*baseline).map_or(&[][..], |baseline| &baseline.samples.rates);
            let multiples: Vec<_> = baseline.iter().zip(&samples.rates).map(|(baseline, own)| baseline / own).collect();
            values.extend([Some(median(&samples.rates)), Some(median(&multiples))]);
            if self.counted.is_some() {
                values.push(counter.as_ref().map(|_| *counted as f64 / samples.pair.len() as f64));
            }
            section.row(name, values);
        }
        section.notes = self.notes;
        section.without_empty_columns()
    }
}

pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The middle one; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}
