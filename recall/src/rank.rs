//! Which documents a question is about.
//!
//! BM25 on sets: a document has a term or has it not. What its neighbours in the session have counts as well, the less
//! the farther away they are: people name a thing once and then talk about "it".

use std::collections::BinaryHeap;
use std::ops::Range;

use crate::mark::Mark;
use crate::query::{Kind, Query};

/// Neighbours so far away count.
const RADIUS: usize = 5;
/// How much a term counts in the neighbours from 5 before to 5 after: 0.65 to the power of the distance.
const KERNEL: [f32; 2 * RADIUS + 1] =
    [0.116_029_06, 0.178_506_25, 0.274_625, 0.4225, 0.65, 1.0, 0.65, 0.4225, 0.274_625, 0.178_506_25, 0.116_029_06];
const DECAY: f32 = 0.65;
/// What one that is too far away would have.
const OUT_OF_REACH: f32 = 0.075_418_89;
/// BM25: how soon more of a term adds nothing.
const SATURATION: f32 = 1.2;
/// BM25: how much the length matters.
const LENGTH: f32 = 0.75;
/// From so many documents on, terms that more than a quarter of them have are ignored.
const ENOUGH: usize = 64;
const SPEAKER: f32 = 1.3;
const DATE: f32 = 2.0;
const TIME: f32 = 1.3;

/// What an index answered.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a, Offsets> {
    /// The position of the first mark.
    pub first: u64,
    /// One for each position; 0 where there is no document. A document's neighbours end there: what is forgotten
    /// makes no neighbours of what it kept apart.
    pub marks: &'a [u16],
    /// One for each term of the query: ascending offsets into `marks`. Others are ignored.
    pub rows: &'a [Offsets],
}

/// Why a document was found: a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Why(u8);

impl Why {
    /// It, or a neighbour in its session, has words of the question.
    pub const TERMS: Self = Self(1);
    /// The question names its speaker.
    pub const SPEAKER: Self = Self(2);
    /// The question names its month or day.
    pub const DATE: Self = Self(4);
    /// The question asks when, and it has a word of time.
    pub const TIME: Self = Self(8);
    /// Its vector is more like the question's than those of others.
    pub const VECTOR: Self = Self(16);

    /// All that is in one of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are in it.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A document that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Its position in the index.
    pub position: u64,
    /// Above 0; the higher, the better. Comes from the documents as a whole: scores of two indexes don't compare.
    pub score: f32,
    /// What its mark tells.
    pub mark: Mark,
    /// What speaks for it.
    pub why: Why,
}

/// The best documents, at most `most`, in order of score and then of position, but for those in `excluded` (ascending
/// ranges of positions), which still count as neighbours.
///
/// Cost: linear in the marks and in the offsets, times the logarithm of `most`; 20 bytes for each mark.
pub fn rank<Offsets: AsRef<[u32]>>(
    query: &Query,
    found: Found<'_, Offsets>,
    excluded: &[Range<u64>],
    most: usize,
) -> Vec<Candidate> {
    let mut ranking = Ranking::new(found.marks);
    let mut rows = query.rows.iter().zip(found.rows).peekable();
    while let Some((row, offsets)) = rows.next() {
        let offsets = offsets.as_ref();
        match row.kind {
            Kind::Word => {
                let said_by = rows.peek().filter(|(row, _)| row.kind == Kind::Speaker);
                ranking.word(offsets, said_by.map_or(&[], |(_, offsets)| offsets.as_ref()));
            }
            Kind::Speaker => ranking.hint(offsets, Why::SPEAKER),
            Kind::Date => ranking.hint(offsets, Why::DATE),
            Kind::Time => ranking.hint(offsets, Why::TIME),
        }
    }
    ranking.best(found.first, excluded, most)
}

/// What is known of one position.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The sum over the terms.
    score: f32,
    /// What a term's weight is divided by, beside the weight itself.
    length: f32,
    /// How many neighbours it has before and after it, at most `RADIUS`.
    before: u8,
    after: u8,
    why: Why,
}

struct Ranking<'a> {
    marks: &'a [u16],
    places: Vec<Place>,
    /// How much of the term at hand each position has; 0 between terms.
    weights: Vec<f32>,
    documents: usize,
    /// The positions that have something of the term at hand, ascending.
    touched: Vec<u32>,
}

impl<'a> Ranking<'a> {
    fn new(marks: &'a [u16]) -> Self {
        let mut places = vec![Place::default(); marks.len()];
        // Distances to the borders, from both sides.
        let mut run = 0;
        for (place, mark) in places.iter_mut().zip(marks) {
            run = match Mark::decode(*mark) {
                Some(mark) if !mark.first => run,
                _ => 0,
            };
            place.before = run;
            run = (run + u8::from(*mark != 0)).min(RADIUS as u8);
        }
        let mut run = 0;
        for (place, mark) in places.iter_mut().zip(marks).rev() {
            let decoded = Mark::decode(*mark);
            place.after = if decoded.is_some() { run } else { 0 };
            run = match decoded {
                Some(mark) if !mark.first => (run + 1).min(RADIUS as u8),
                _ => 0,
            };
        }
        let weights = vec![0.0; marks.len()];
        let mut ranking = Self { marks, places, weights, documents: 0, touched: Vec::new() };
        ranking.lengths();
        ranking
    }

    /// Lengths are smoothed as terms are, and taken relative to their mean.
    fn lengths(&mut self) {
        self.documents = self.marks.iter().filter(|mark| **mark != 0).count();
        self.smooth(false);
        self.smooth(true);
        let sum: f64 = self.places.iter().map(|place| f64::from(place.length)).sum();
        let mean = (sum / self.documents.max(1) as f64).max(1.0) as f32;
        for place in &mut self.places {
            place.length = SATURATION * (1.0 - LENGTH + LENGTH * place.length / mean);
        }
    }

    /// Add the lengths of what lies on one side, and half of the own one. Every document has one, so that it pays to make
    /// each sum out of its neighbour's: that times the decay, with one length more and one less.
    fn smooth(&mut self, is_behind: bool) {
        let terms = |at: usize| self.marks.get(at).map_or(0.0, |mark| f32::from(mark >> 8));
        let count = self.marks.len();
        let (mut sum, mut reach) = (0.0, 0);
        for step in 0..count {
            let at = if is_behind { count - 1 - step } else { step };
            let Some(place) = self.places.get_mut(at) else { continue };
            let next_reach = usize::from(if is_behind { place.after } else { place.before });
            let own = terms(at);
            sum = if next_reach == 0 { own } else { own + DECAY * sum };
            if reach == RADIUS && next_reach == RADIUS {
                sum -= OUT_OF_REACH * terms(if is_behind { at + RADIUS + 1 } else { at - RADIUS - 1 });
            }
            reach = next_reach;
            place.length += sum - own / 2.0;
        }
    }

    /// Give a place and its neighbours their share of an amount.
    fn spread(&mut self, at: usize, amount: f32) {
        let Some(place) = self.places.get(at) else { return };
        let (before, after) = (usize::from(place.before), usize::from(place.after));
        let reached = self.weights.get_mut(at.saturating_sub(before)..=at + after).unwrap_or_default();
        let shares = KERNEL.get(RADIUS.saturating_sub(before)..).unwrap_or_default();
        for (weight, share) in reached.iter_mut().zip(shares) {
            *weight += amount * share;
        }
    }

    /// Score a term: the documents that hold it, and those that somebody of that name says.
    fn word(&mut self, holding: &[u32], said_by: &[u32]) {
        if self.everywhere(holding) {
            return;
        }
        let mut lists = [holding, if self.everywhere(said_by) { &[] } else { said_by }];
        let mut touched = std::mem::take(&mut self.touched);
        touched.clear();
        let mut next = 0;
        while let Some(at) = least(&mut lists) {
            let at = at as usize;
            if self.marks.get(at).is_none_or(|mark| *mark == 0) {
                continue;
            }
            self.spread(at, 1.0);
            let Some(place) = self.places.get(at) else { continue };
            let from = next.max(at - usize::from(place.before));
            next = at + usize::from(place.after) + 1;
            touched.extend((from as u32)..(next as u32));
        }
        let (documents, having) = (self.documents as f32, touched.len() as f32);
        let rarity = (1.0 + (documents - having + 0.5) / (having + 0.5)).ln();
        let scale = rarity * (SATURATION + 1.0);
        for at in &touched {
            let at = *at as usize;
            let (Some(place), Some(weight)) = (self.places.get_mut(at), self.weights.get_mut(at)) else { continue };
            let weight = std::mem::take(weight);
            place.score += scale * weight / (weight + place.length);
            place.why.0 |= Why::TERMS.0;
        }
        self.touched = touched;
    }

    /// Whether a term is in so many documents that it tells nothing.
    fn everywhere(&self, offsets: &[u32]) -> bool {
        self.documents >= ENOUGH && offsets.len() > self.documents / 4
    }

    fn hint(&mut self, offsets: &[u32], why: Why) {
        for offset in offsets {
            if let Some(place) = self.places.get_mut(*offset as usize) {
                place.why.0 |= why.0;
            }
        }
    }

    fn best(self, first: u64, excluded: &[Range<u64>], most: usize) -> Vec<Candidate> {
        let mut excluded = excluded.iter().peekable();
        // The worst of the best so far is on top.
        let mut best: BinaryHeap<u64> = BinaryHeap::new();
        for (at, place) in (0u32..).zip(&self.places) {
            let position = first.saturating_add(u64::from(at));
            while excluded.next_if(|range| range.end <= position).is_some() {}
            if place.score > 0.0 && excluded.peek().is_none_or(|range| !range.contains(&position)) {
                // Floats above 0 are ordered as their bits are.
                let key = u64::from(!hinted(place).to_bits()) << 32 | u64::from(at);
                if best.len() < most {
                    best.push(key);
                } else if let Some(mut worst) = best.peek_mut()
                    && key < *worst
                {
                    *worst = key;
                }
            }
        }
        let candidate = |key: &u64| {
            let at = *key as u32;
            let place = self.places.get(at as usize)?;
            let mark = Mark::decode(*self.marks.get(at as usize)?)?;
            let score = f32::from_bits(!((*key >> 32) as u32));
            Some(Candidate { position: first.saturating_add(u64::from(at)), score, mark, why: place.why })
        };
        best.into_sorted_vec().iter().filter_map(candidate).collect()
    }
}

/// The next of two ascending lists, taken off both.
fn least(lists: &mut [&[u32]; 2]) -> Option<u32> {
    let least = lists.iter().filter_map(|list| list.first().copied()).min()?;
    for list in lists {
        if let [first, rest @ ..] = *list
            && *first == least
        {
            *list = rest;
        }
    }
    Some(least)
}

fn hinted(place: &Place) -> f32 {
    let mut score = place.score;
    for (why, factor) in [(Why::SPEAKER, SPEAKER), (Why::DATE, DATE), (Why::TIME, TIME)] {
        if place.why.contains(why) {
            score *= factor;
        }
    }
    score
}
