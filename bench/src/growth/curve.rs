//! A curve: the cost of an entry while something grows. Its points take turns, round by round, so that the noise of a
//! machine hits all of them alike.

use anyhow::Result;
use indicatif::ProgressBar;

use super::visitors::Visitor;
use crate::{
    measure::{Samples, median, micros},
    report::{Row, Section},
};

/// One point of one series.
pub struct Point {
    series: &'static str,
    at: u64,
    visitor: Visitor,
    /// How many pairs a round has.
    pairs: u64,
    rounds: Vec<Round>,
}

/// Microseconds in one round.
struct Round {
    question: f64,
    answer: f64,
    slowest_answers: f64,
}

/// Which figure of the rounds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    Question,
    Answer,
    /// What one answer in 50 takes: with those that fold history.
    SlowestAnswers,
}

/// A column of a curve's table.
pub struct Column {
    pub name: &'static str,
    pub series: &'static str,
    pub figure: Figure,
}

impl Point {
    pub fn new(series: &'static str, at: u64, visitor: impl Into<Visitor>, pairs: u64) -> Self {
        Self { series, at, visitor: visitor.into(), pairs: pairs.max(1), rounds: Vec::new() }
    }

    async fn round(&mut self) -> Result<Round> {
        let mut samples = Samples::new()?;
        samples.round(&mut self.visitor, self.pairs).await?;
        Ok(Round {
            question: micros(&samples.question, 0.5),
            answer: micros(&samples.answer, 0.5),
            slowest_answers: micros(&samples.answer, 0.98),
        })
    }

    fn figures(&self, figure: Figure) -> Vec<f64> {
        let of = |round: &Round| match figure {
            Figure::Question => round.question,
            Figure::Answer => round.answer,
            Figure::SlowestAnswers => round.slowest_answers,
        };
        self.rounds.iter().map(of).collect()
    }
}

/// Measures all points, `rounds` times in turn.
pub async fn take_turns(points: &mut [Point], rounds: u32, progress: &ProgressBar) -> Result<()> {
    // Once for nothing: what a first use makes is there.
    for point in points.iter_mut() {
        point.round().await?;
    }
    for _ in 0..rounds {
        for point in points.iter_mut() {
            let round = point.round().await?;
            point.rounds.push(round);
            progress.tick();
        }
    }
    Ok(())
}

/// The curve's table: a row for each place on the x axis, in the rounds' medians.
pub fn table(title: &str, heading: &str, label: fn(u64) -> String, points: &[Point], columns: &[Column]) -> Section {
    let mut section = Section::new(title, &columns.iter().map(|column| column.name).collect::<Vec<_>>());
    section.heading = heading.into();
    let find = |column: &Column, at: u64| points.iter().find(|point| point.series == column.series && point.at == at);
    let mut places: Vec<u64> = points.iter().map(|point| point.at).collect();
    places.sort_unstable();
    places.dedup();
    for at in places {
        let value = |column: &Column| find(column, at).map(|point| median(&point.figures(column.figure)));
        section.rows.push(Row { name: label(at), at: Some(at as f64), values: columns.iter().map(value).collect() });
    }
    let growth: Vec<_> = columns
        .iter()
        .filter_map(|column| {
            let of_series = || points.iter().filter(|point| point.series == column.series);
            let (first, last) = (of_series().min_by_key(|point| point.at)?, of_series().max_by_key(|point| point.at)?);
            let (first, last) = (first.figures(column.figure), last.figures(column.figure));
            let ratios: Vec<_> = first.iter().zip(&last).map(|(first, last)| last / first).collect();
            Some(format!("{} × {:.2}", column.name, median(&ratios)))
        })
        .collect();
    section.note(format!("from the first point to the last (median of the rounds): {}", growth.join(", ")));
    section
}
