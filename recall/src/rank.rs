//! Ranks documents by their relevance to a question.
//!
//! BM25 on sets: a document has a term or has it not. What its neighbours in the session have counts as well, the less
//! the farther away they are: people name a thing once and then talk about "it"; unless the query asks for documents
//! scored on their own.
//!
//! The steps are never inlined: as a part of one large function, an engine for WebAssembly keeps their loops' numbers in
//! memory instead of in registers.

use std::ops::Range;

use crate::ascending;
use crate::mark::DocumentMark;
use crate::query::{PassageQuery, TermKind};

/// Neighbours so far away count.
const RADIUS: usize = 5;
/// How much a term counts in a document and in its neighbours, from 5 before to 5 after: 0.65 to the power of the
/// distance. And nothing in one more: they are added four at a time.
const KERNEL: [f32; 2 * RADIUS + 2] = [
    0.116_029_06,
    0.178_506_25,
    0.274_625,
    0.4225,
    0.65,
    1.0,
    0.65,
    0.4225,
    0.274_625,
    0.178_506_25,
    0.116_029_06,
    0.0,
];
/// BM25: how soon more of a term adds nothing.
const SATURATION: f32 = 1.2;
/// BM25: how much the length matters.
const LENGTH: f32 = 0.75;
/// From so many documents on, terms that more than a quarter of them have are ignored.
const ENOUGH: usize = 64;
const SPEAKER: f32 = 1.3;
const DATE: f32 = 2.0;
const TIME: f32 = 1.3;
/// Scores are told apart so finely, in parts of the best, before any are compared with each other.
const STEPS: usize = 1024;

/// What an index answered.
#[derive(Clone, Copy, Debug)]
pub struct IndexMatches<'a> {
    /// The position of the first mark.
    pub first: u64,
    /// One for each position; 0 where there is no document. A document's neighbours end there: what is forgotten
    /// makes no neighbours of what it kept apart.
    pub marks: &'a [u16],
    /// One for each term of the query: ascending offsets into `marks`. Others are ignored.
    pub rows: &'a [&'a [u32]],
}

/// Why a document was found: a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatchReasons(u8);

impl MatchReasons {
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
    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What the score is multiplied by.
    fn factor(self) -> f32 {
        let factor = |(why, factor)| if self.contains(why) { factor } else { 1.0 };
        [(Self::SPEAKER, SPEAKER), (Self::DATE, DATE), (Self::TIME, TIME)].map(factor).iter().product()
    }

    /// Whether all of `other` are in it.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A document that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassageCandidate {
    /// Its position in the index.
    pub position: u64,
    /// Above 0; the higher, the better. Comes from the documents as a whole: scores of two indexes don't compare.
    pub score: f32,
    /// What its mark tells.
    pub mark: DocumentMark,
    /// What speaks for it.
    pub why: MatchReasons,
}

/// The best documents, at most `most`, in order of score and then of position.
///
/// Cost: linear in the marks and in the offsets; what is returned is sorted. 21 bytes for each mark and 48 for each session.
#[inline(never)]
pub fn rank_documents(query: &PassageQuery, found: IndexMatches<'_>, most: usize) -> Vec<PassageCandidate> {
    let mut ranking = Ranking::new(found.marks, if query.is_own_only { 0 } else { RADIUS });
    // Where all that is asked about is what everything is about, that is all there is to go by.
    let words = query.rows.iter().zip(found.rows).filter(|(row, _)| row.kind == TermKind::Word);
    ranking.counts_all = words.map(|(_, offsets)| offsets).all(|word| word.is_empty() || ranking.everywhere(word));
    let mut rows = query.rows.iter().zip(found.rows).peekable();
    while let Some((row, offsets)) = rows.next() {
        match row.kind {
            TermKind::Word => {
                let said_by = rows.peek().filter(|(row, _)| row.kind == TermKind::Speaker);
                ranking.word(offsets, said_by.map_or(&[][..], |(_, offsets)| offsets));
            }
            TermKind::Speaker => ranking.hint(offsets, MatchReasons::SPEAKER),
            TermKind::Date => ranking.hint(offsets, MatchReasons::DATE),
            TermKind::Time => ranking.hint(offsets, MatchReasons::TIME),
        }
    }
    ranking.best(found.first, most)
}

/// Scores of the documents of some sessions, term by term. Three lists of all positions, so that four of them are worked
/// on at a time.
struct Ranking<'a> {
    marks: &'a [u16],
    /// How far away neighbours count.
    radius: usize,
    documents: usize,
    /// Whether terms count that are in very many documents.
    counts_all: bool,
    /// The sessions: documents that are neighbours of each other, ascending.
    sessions: Vec<Range<u32>>,
    /// What a term's weight is divided by, beside the weight itself.
    lengths: Vec<f32>,
    /// The sums over the terms.
    scores: Vec<f32>,
    hints: Vec<MatchReasons>,
    /// How much of the term at hand each position has; 0 between terms. Longer by what the kernel is.
    weights: Vec<f32>,
    /// Where there is something of the term at hand, ascending.
    touched: Vec<Range<u32>>,
}

impl<'a> Ranking<'a> {
    #[inline(never)]
    fn new(marks: &'a [u16], radius: usize) -> Self {
        let count = marks.len();
        let mut ranking = Self {
            marks,
            radius,
            documents: 0,
            counts_all: false,
            sessions: sessions(marks),
            lengths: vec![0.0; count],
            scores: vec![0.0; count],
            hints: vec![MatchReasons::default(); count],
            weights: vec![0.0; count + KERNEL.len()],
            touched: Vec::new(),
        };
        ranking.documents = ranking.sessions.iter().map(ExactSizeIterator::len).sum();
        ranking.measure();
        ranking
    }

    /// Lengths are smoothed as terms are, and taken relative to their mean.
    #[inline(never)]
    fn measure(&mut self) {
        // One session behind the other, so far apart that none reaches the next.
        let mut terms = Vec::with_capacity(self.documents + RADIUS * self.sessions.len());
        for session in &self.sessions {
            let marks = self.marks.get(session.start as usize..session.end as usize).unwrap_or_default();
            terms.extend([0.0; RADIUS]);
            terms.extend(marks.iter().map(|mark| f32::from(*mark >> 8)));
        }
        let smoothed = match self.radius {
            0 => terms.split_off(RADIUS.min(terms.len())),
            _ => smoothed(terms),
        };
        let mut rest = &smoothed[..];
        for session in &self.sessions {
            let lengths = self.lengths.get_mut(session.start as usize..session.end as usize).unwrap_or_default();
            let (of_session, behind) = rest.split_at_checked(lengths.len()).unwrap_or_default();
            lengths.iter_mut().zip(of_session).for_each(|(length, smoothed)| *length = *smoothed);
            rest = behind.get(RADIUS..).unwrap_or_default();
        }
        let mean = (sum(&self.lengths) / self.documents.max(1) as f64).max(1.0) as f32;
        for length in &mut self.lengths {
            *length = SATURATION * (1.0 - LENGTH) + SATURATION * LENGTH / mean * *length;
        }
    }

    /// Score a term: the documents that hold it, and those that a speaker of that name says.
    #[inline(never)]
    fn word(&mut self, holding: &[u32], said_by: &[u32]) {
        if self.everywhere(holding) {
            return;
        }
        let having = self.weigh([holding, if self.everywhere(said_by) { &[] } else { said_by }]) as f32;
        let documents = self.documents as f32;
        let rarity = (1.0 + (documents - having + 0.5) / (having + 0.5)).ln();
        let scale = rarity * (SATURATION + 1.0);
        for touched in self.touched.drain(..) {
            let touched = touched.start as usize..touched.end as usize;
            let scores = self.scores.get_mut(touched.clone()).unwrap_or_default();
            let lengths = self.lengths.get(touched.clone()).unwrap_or_default();
            let weights = self.weights.get_mut(touched).unwrap_or_default();
            for ((score, weight), length) in scores.iter_mut().zip(weights.iter()).zip(lengths) {
                *score += scale * weight / (weight + length);
            }
            weights.fill(0.0);
        }
    }

    /// Weigh a term: 1 for each document of these ascending lists, and a share of it for its neighbours. Returns how many
    /// have some of it.
    #[inline(never)]
    fn weigh(&mut self, mut lists: [&[u32]; 2]) -> usize {
        let mut sessions = self.sessions.iter();
        let mut session = 0..0;
        // Up to here, all is done: what comes below it is not in order.
        let mut done = 0;
        let (mut touched, mut having) = (0..0, 0);
        while let Some(at) = least(&mut lists) {
            while session.end <= at {
                let Some(next) = sessions.next() else { break };
                session = next.clone();
            }
            if at < done || !session.contains(&at) {
                continue;
            }
            done = at + 1;
            let radius = self.radius as u32;
            let reached = at.saturating_sub(radius).max(session.start)..(done + radius).min(session.end);
            spread(&mut self.weights, at as usize, reached.start as usize..reached.end as usize);
            if reached.start > touched.end {
                having += touched.len();
                self.touched.push(std::mem::replace(&mut touched, reached));
            } else {
                touched.end = reached.end;
            }
        }
        having += touched.len();
        self.touched.push(touched);
        having
    }

    /// Whether a term is in so many documents that it tells nothing.
    fn everywhere(&self, offsets: &[u32]) -> bool {
        !self.counts_all && self.documents >= ENOUGH && offsets.len() > self.documents / 4
    }

    fn hint(&mut self, offsets: &[u32], why: MatchReasons) {
        for offset in offsets {
            if let Some(hints) = self.hints.get_mut(*offset as usize) {
                *hints = hints.union(why);
            }
        }
    }

    #[inline(never)]
    fn best(mut self, first: u64, most: usize) -> Vec<PassageCandidate> {
        for (score, hints) in self.scores.iter_mut().zip(&self.hints) {
            if *hints != MatchReasons::default() {
                *score *= hints.factor();
            }
        }
        let enough = enough(&self.scores, most);
        let scored = (0u32..).zip(&self.scores).filter(|(_, score)| **score >= enough);
        let mut best = ascending(scored.map(|(at, score)| u64::from(!score.to_bits()) << 32 | u64::from(at)).collect());
        best.truncate(most);
        let candidate = |key: &u64| {
            let at = *key as u32;
            let mark = DocumentMark::decode(*self.marks.get(at as usize)?)?;
            let why = self.hints.get(at as usize)?.union(MatchReasons::TERMS);
            let score = f32::from_bits(!((*key >> 32) as u32));
            Some(PassageCandidate { position: first.saturating_add(u64::from(at)), score, mark, why })
        };
        best.iter().filter_map(candidate).collect()
    }
}

/// Where documents are neighbours: up to a hole, and up to the first of the next session.
#[inline(never)]
fn sessions(marks: &[u16]) -> Vec<Range<u32>> {
    let mut sessions: Vec<Range<u32>> = Vec::new();
    let (mut at, mut rest) = (0, marks);
    while let Some((mark, others)) = rest.split_first() {
        let mut end = at + 1;
        rest = others;
        if *mark != 0 {
            let neighbours = others.iter().take_while(|mark| DocumentMark::is_neighbour(**mark)).count();
            end += neighbours as u32;
            rest = others.get(neighbours..).unwrap_or_default();
            sessions.push(at..end);
        }
        at = end;
    }
    sessions
}

/// Give a place 1, and its neighbours their shares, as far as it reaches.
fn spread(weights: &mut [f32], at: usize, reached: Range<usize>) {
    if reached.len() > 2 * RADIUS {
        // All of the kernel: as many as the compiler knows.
        let reached: Option<&mut [f32; KERNEL.len()]> =
            weights.get_mut(reached.start..).and_then(|weights| weights.first_chunk_mut());
        for (weight, share) in reached.into_iter().flatten().zip(KERNEL) {
            *weight += share;
        }
        return;
    }
    let shares = KERNEL.get(RADIUS + reached.start - at..).unwrap_or_default();
    for (weight, share) in weights.get_mut(reached).unwrap_or_default().iter_mut().zip(shares) {
        *weight += share;
    }
}

/// The numbers with their neighbours' shares, but for the first ones, which are neighbours only.
#[inline(never)]
fn smoothed(mut numbers: Vec<f32>) -> Vec<f32> {
    /// At a time, so that the kernel is gone through once for all of them.
    const BLOCK: usize = 16;
    let blocks = numbers.len().div_ceil(BLOCK);
    numbers.resize(blocks * BLOCK + KERNEL.len(), 0.0);
    let mut smoothed = Vec::with_capacity(blocks * BLOCK);
    for reached in numbers.windows(BLOCK + 2 * RADIUS).step_by(BLOCK) {
        let mut sums = [0.0; BLOCK];
        for (neighbours, share) in reached.windows(BLOCK).zip(KERNEL) {
            for (sum, number) in sums.iter_mut().zip(neighbours) {
                *sum += share * number;
            }
        }
        smoothed.extend(sums);
    }
    smoothed
}

/// Four sums at a time, none of which has to wait for another.
fn sum(numbers: &[f32]) -> f64 {
    let (fours, rest) = numbers.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for four in fours {
        for (sum, number) in sums.iter_mut().zip(four) {
            *sum += f64::from(*number);
        }
    }
    sums.iter().sum::<f64>() + rest.iter().copied().map(f64::from).sum::<f64>()
}

/// A score above 0 that at least `most` reach, if so many are above 0, but not many more.
#[inline(never)]
fn enough(scores: &[f32], most: usize) -> f32 {
    // Floats that are not below 0 are ordered as their bits are.
    let best = scores.iter().map(|score| score.to_bits()).max().map_or(0.0, f32::from_bits);
    let (step, steps) = (best / STEPS as f32, STEPS as f32 / best);
    let mut counts = [0_usize; STEPS + 1];
    for score in scores {
        if let Some(count) = counts.get_mut((score * steps) as usize) {
            *count += 1;
        }
    }
    let mut reached = 0;
    let steps = counts.iter().rev().take_while(|count| {
        reached += **count;
        reached < most
    });
    let lowest = STEPS.saturating_sub(steps.count());
    // One step below, for what was rounded.
    (lowest.saturating_sub(1) as f32 * step).max(f32::MIN_POSITIVE)
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
