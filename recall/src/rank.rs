//! Score passages by what a store's `match` answers.
//!
//! BM25 on sets: a passage has a term or not. What is said is understood from what is said around it, so a term also
//! counts for the neighbours of its passage, less with each step and never in another session (the kernel).
//! A position without a document counts as a step: what was taken out leaves its distance. With the first passage of a
//! session goes its border, and scores leak by so many steps; whoever minds keeps a document without terms there.

use std::ops::Range;

use crate::{
    mark::Mark,
    query::{Kind, Query},
};

/// The kernel: what a term counts at a distance.
const KERNEL: [f32; 6] = [1.0, 0.65, 0.4225, 0.274_625, 0.178_506_25, 0.116_029_06];
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// What hints multiply with.
const SPEAKER: f32 = 1.3;
const DATE: f32 = 2.0;
const TIME: f32 = 1.3;
/// From so many documents on, terms that more than a quarter of them have are ignored.
const COMMON_FROM: usize = 40;

/// What a store answered to [`Query::terms`].
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// The position of the first mark.
    pub first: u64,
    /// One for each position.
    pub marks: &'a [u16],
    /// For each term, as asked for: offsets from `first`, ascending. Those beyond the marks are skipped.
    pub terms: &'a [&'a [u32]],
}

/// Why a passage was found: a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Why(pub u8);

impl Why {
    /// It or a neighbour has a word of the question. Always there.
    pub const TERMS: Self = Self(1);
    /// Who spoke is named.
    pub const SPEAKER: Self = Self(2);
    /// Its date is named.
    pub const DATE: Self = Self(4);
    /// It tells a time, as was asked for.
    pub const TIME: Self = Self(8);

    /// Whether all of these are among them.
    pub fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

/// A passage that bears on the question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Where.
    pub position: u64,
    /// Above the threshold; comparable within a question only.
    pub score: f32,
    /// By what.
    pub why: Why,
    /// Its mark.
    pub mark: Mark,
}

/// What is handed out.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// So many candidates at most, the best.
    pub candidates: usize,
    /// Only scores above this.
    pub above: f32,
}

impl Default for Limits {
    /// 512 candidates above 0.
    fn default() -> Self {
        Self { candidates: 512, above: 0.0 }
    }
}

/// The best passages for a question, by descending score, the newer first among equals. Those at `excluded` positions
/// (any order) are neighbours, but no candidates. Linear in positions and matches.
pub fn rank(query: &Query, found: &Found<'_>, excluded: &[Range<u64>], limits: Limits) -> Vec<Candidate> {
    let count = found.marks.len();
    let sessions = sessions(found.marks);
    let around = Around::new(found.marks, &sessions);
    let documents = around.documents;
    let mut scores = vec![0.0_f32; count];
    let mut hints = vec![0_u8; count];
    let mut counts = vec![0.0_f32; count];
    for (kind, offsets) in query.kinds.iter().zip(found.terms) {
        match hint(*kind) {
            Some(bit) => {
                for offset in *offsets {
                    if let Some(hints) = hints.get_mut(index(*offset)) {
                        *hints |= bit.0;
                    }
                }
            }
            None if documents >= COMMON_FROM && offsets.len() * 4 > documents => {}
            None => add_term(offsets, found.marks, &around, &mut counts, &mut scores),
        }
    }
    let mut best = Vec::new();
    for (offset, ((score, hints), mark)) in scores.iter_mut().zip(&hints).zip(found.marks).enumerate() {
        *score *= factor(Why(*hints));
        let position = found.first + offset as u64;
        if *mark != 0 && *score > limits.above.max(0.0) && !excluded.iter().any(|range| range.contains(&position)) {
            // Positive floats sort like their bits.
            best.push(u64::from(score.to_bits()) << 32 | offset as u64);
            if best.len() / 2 > limits.candidates {
                keep_best(&mut best, limits.candidates);
            }
        }
    }
    keep_best(&mut best, limits.candidates);
    best.iter().rev().filter_map(|key| candidate(*key, found, &hints)).collect()
}

/// Sort, and drop all but the last `count`. Called each time as many more have come, it costs less code than a selection
/// would, and hardly more time.
fn keep_best(keys: &mut Vec<u64>, count: usize) {
    keys.sort_unstable();
    keys.drain(..keys.len().saturating_sub(count));
}

fn candidate(key: u64, found: &Found<'_>, hints: &[u8]) -> Option<Candidate> {
    let offset = index(u32::try_from(key & u64::from(u32::MAX)).ok()?);
    Some(Candidate {
        position: found.first + offset as u64,
        score: f32::from_bits(u32::try_from(key >> 32).ok()?),
        why: Why(Why::TERMS.0 | hints.get(offset)?),
        mark: Mark::decode(*found.marks.get(offset)?)?,
    })
}

fn hint(kind: Kind) -> Option<Why> {
    match kind {
        Kind::Word => None,
        Kind::Speaker => Some(Why::SPEAKER),
        Kind::Date => Some(Why::DATE),
        Kind::Time => Some(Why::TIME),
    }
}

fn factor(why: Why) -> f32 {
    [(Why::SPEAKER, SPEAKER), (Why::DATE, DATE), (Why::TIME, TIME)]
        .into_iter()
        .fold(1.0, |product, (hint, factor)| if why.has(hint) { product * factor } else { product })
}

fn index(offset: u32) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// A number for each position's session.
fn sessions(marks: &[u16]) -> Vec<u32> {
    let mut session = 0;
    let number = |mark: &u16| {
        session += u32::from(Mark::decode(*mark).is_some_and(|mark| mark.first));
        session
    };
    marks.iter().map(number).collect()
}

/// Spread a value over the positions around `at`, within its session.
fn spread(at: usize, value: f32, sessions: &[u32], into: &mut [f32]) {
    let Some(session) = sessions.get(at) else { return };
    let from = at.saturating_sub(KERNEL.len() - 1);
    let to = into.len().min(at.saturating_add(KERNEL.len()));
    let (Some(into), Some(sessions)) = (into.get_mut(from..to), sessions.get(from..to)) else { return };
    for ((other, sum), of) in (from..).zip(into).zip(sessions) {
        if of == session
            && let Some(weight) = KERNEL.get(other.abs_diff(at))
        {
            *sum += weight * value;
        }
    }
}

/// What scores depend on besides the terms.
struct Around<'a> {
    sessions: &'a [u32],
    /// How many documents there are.
    documents: usize,
    /// For each position, the constant part of BM25's denominator: by the length of what is around it.
    lengths: Vec<f32>,
}

impl<'a> Around<'a> {
    fn new(marks: &[u16], sessions: &'a [u32]) -> Self {
        let mut lengths = vec![0.0; marks.len()];
        let mut documents = 0;
        for (at, mark) in marks.iter().enumerate() {
            if let Some(mark) = Mark::decode(*mark) {
                documents += 1;
                spread(at, f32::from(mark.terms), sessions, &mut lengths);
            }
        }
        // Summed up in f64: of a hundred thousand f32, the last would be rounded away.
        let total: f64 =
            lengths.iter().zip(marks).filter(|(_, mark)| **mark != 0).map(|(length, _)| f64::from(*length)).sum();
        let mean = ((total / documents as f64) as f32).max(1.0);
        for length in &mut lengths {
            *length = K1 * (1.0 - B + B * *length / mean);
        }
        Self { sessions, documents, lengths }
    }
}

/// Add what one term is worth to the scores. `counts` is all 0, before and after.
fn add_term(offsets: &[u32], marks: &[u16], around: &Around<'_>, counts: &mut [f32], scores: &mut [f32]) {
    for offset in offsets {
        spread(index(*offset), 1.0, around.sessions, counts);
    }
    let mut having = 0;
    each_around(offsets, |at| {
        let counted = counts.get(at).is_some_and(|count| *count > 0.0);
        having += usize::from(counted && marks.get(at).is_some_and(|mark| *mark != 0));
    });
    let rest = around.documents.saturating_sub(having) as f32;
    let weight = (1.0 + (rest + 0.5) / (having as f32 + 0.5)).ln() * (K1 + 1.0);
    each_around(offsets, |at| {
        if let (Some(count), Some(score), Some(length)) =
            (counts.get_mut(at), scores.get_mut(at), around.lengths.get(at))
        {
            *score += weight * *count / (*count + length);
            *count = 0.0;
        }
    });
}

/// All positions near these, ascending, each once.
fn each_around(offsets: &[u32], mut each: impl FnMut(usize)) {
    let reach = KERNEL.len() - 1;
    let mut next = 0;
    for offset in offsets {
        let at = index(*offset);
        for near in next.max(at.saturating_sub(reach))..=at.saturating_add(reach) {
            each(near);
        }
        next = next.max(at.saturating_add(reach + 1));
    }
}
