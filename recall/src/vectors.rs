//! Encodes and compares embeddings, and fuses their ranking with that of words.
//!
//! An embedding is cut to its first dimensions and kept as a character for each, of 57 steps: that is enough to compare it by
//! its angle, and nothing has to be decoded for that.
//! Those of different models are never compared. Fusing goes by ranks, so that it does not matter how a model's
//! similarities are spread; what has no vector keeps the rank that its words give it.

use crate::ascending;
use crate::mark::DocumentMark;
use crate::rank::{MatchReasons, PassageCandidate};

/// Dimensions that are kept: the first ones, which models that are made to be cut put the most into.
pub const DIMENSIONS: usize = 256;
/// More than any model has.
const DIMENSIONS_MAX: usize = 4096;
/// What a neighbour counts, beside the passage itself, and how many do on each side.
const NEIGHBOUR: f32 = 0.5;
const RADIUS: usize = 3;
/// By how much ranks are evened out: the first is worth no more than twice the twentieth.
const EVENNESS: f32 = 20.0;
/// What a rank by vectors counts, beside one by words.
const WEIGHT: f32 = 0.5;
/// So many standard deviations above the mean, a similarity stands out. Of three passages, none does.
const STANDS_OUT: f32 = 1.25;
/// Passages at most that vectors alone add.
const ADDED: usize = 64;
/// Candidates are numbered in so many bits; positions are below 2^53.
const NUMBER_BITS: u32 = 10;
/// A dimension's steps on each side of 0, and the character that stands for 0: all of them are printable, and none has to be
/// escaped.
const STEPS: f32 = 28.0;
const ZERO: u8 = b'?';

/// An embedding as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedding {
    /// The number that stands for the model, a blank, then a character for each dimension: at most [`DIMENSIONS`], at least
    /// one of which is not 0.
    text: String,
    model: u32,
    /// The model's own.
    dimensions: usize,
}

impl Embedding {
    /// Of a model's own: base64 of 32-bit little-endian floats. None: it is not that, or has no direction.
    pub fn new(model: &str, data: &str) -> Option<Self> {
        let bytes = decode(data)?;
        let (floats, rest) = bytes.as_chunks::<4>();
        let dimensions = floats.len();
        let floats = floats.get(..DIMENSIONS).unwrap_or(floats);
        let mut most = 0.0_f32;
        for bytes in floats {
            let value = f32::from_le_bytes(*bytes);
            if value.is_nan() {
                return None;
            }
            most = most.max(value.abs());
        }
        if !rest.is_empty() || dimensions > DIMENSIONS_MAX || !most.is_normal() {
            return None;
        }
        let model = identity(model, dimensions);
        let mut text = model.to_string();
        text.push(' ');
        for bytes in floats {
            let step = (f32::from_le_bytes(*bytes) / most * STEPS).round_ties_even() as i8;
            text.push(char::from(ZERO.wrapping_add_signed(step)));
        }
        Some(Self { text, model, dimensions })
    }

    /// Stands for the model, with its number of dimensions.
    pub fn model(&self) -> u32 {
        self.model
    }

    /// The model's own.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// As it is kept.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How alike it is to one that is kept ([`Embedding::as_str`]): the cosine, from -1 to 1. None: that is of another model,
    /// or can't be read.
    pub fn similarity(&self, kept: &str) -> Option<f32> {
        let ((model, values), (other_model, others)) = (self.text.split_once(' ')?, kept.split_once(' ')?);
        if model != other_model || values.len() != others.len() {
            return None;
        }
        let (mut product, mut one, mut other) = (0_i32, 0_i32, 0_i32);
        for (a, b) in values.as_bytes().iter().zip(others.as_bytes()) {
            let (a, b) = (i32::from(*a) - i32::from(ZERO), i32::from(*b) - i32::from(ZERO));
            product += a * b;
            one += a * a;
            other += b * b;
        }
        let lengths = (one as f32).sqrt() * (other as f32).sqrt();
        (lengths > 0.0).then(|| product as f32 / lengths)
    }
}

/// FNV-1a.
fn identity(model: &str, dimensions: usize) -> u32 {
    let mut hash = dimensions as u32 ^ 0x811c_9dc5;
    for byte in model.as_bytes() {
        hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    }
    hash
}

/// Base64, padded or not. None: it is something else.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut number, mut bits) = (0_u32, 0);
    for digit in text.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => break,
            _ => return None,
        };
        number = number << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((number >> bits) as u8);
        }
    }
    Some(bytes)
}

/// What vectors say of a passage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimilarPassage {
    /// Its position in the index.
    pub position: u64,
    /// To the question; finite.
    pub similarity: f32,
}

/// What words have found (the best first), with what vectors say of the passages that have one: of those, in any order and
/// each once, at most 1,024. `mark` tells of a position; none: there is no passage, or it is unknown. The best first; of more
/// than 1,024 that words have found, these.
///
/// A passage's neighbours in its session count with it, half as much at each step. Each rank r counts 1 / (20 + r) by words,
/// and half of that by vectors. A passage that has no vector counts as if its vector gave it the rank that words do; so
/// without vectors nothing changes. Those are added whose similarity stands out among all that are known.
///
/// Cost: linear in both, times the logarithm of their number.
pub fn fuse_rankings(
    candidates: &[PassageCandidate],
    similar: &[SimilarPassage],
    mark: &dyn Fn(u64) -> Option<DocumentMark>,
) -> Vec<PassageCandidate> {
    let least = standing_out(similar);
    let smoothed = smoothed(similar, mark);
    let mut fused = candidates.get(..1 << NUMBER_BITS).unwrap_or(candidates).to_vec();
    let mut places: Vec<u64> = Vec::with_capacity(fused.len());
    for (rank, candidate) in fused.iter_mut().enumerate() {
        places.push(candidate.position << NUMBER_BITS | rank as u64);
        candidate.score = (1.0 + WEIGHT) * worth(rank);
    }
    let places = ascending(places);
    let mut order: Vec<u64> = Vec::with_capacity(similar.len());
    for (index, similarity) in smoothed.iter().enumerate() {
        order.push(key(similarity + 1.0, index));
    }
    for (rank, key) in ascending(order).into_iter().enumerate() {
        let Some(one) = similar.get(key as u32 as usize) else { continue };
        let stands_out = rank < ADDED && one.similarity > least && one.similarity > 0.0;
        if let Some((place, candidate)) = find(&places, one.position).and_then(|at| Some((at, fused.get_mut(at)?))) {
            candidate.score = worth(place) + WEIGHT * worth(rank);
            if stands_out {
                candidate.why = candidate.why.union(MatchReasons::VECTOR);
            }
        } else if stands_out && let Some(mark) = mark(one.position) {
            fused.push(PassageCandidate {
                position: one.position,
                score: WEIGHT * worth(rank),
                mark,
                why: MatchReasons::VECTOR,
            });
        }
    }
    let mut order: Vec<u64> = Vec::with_capacity(fused.len());
    for (index, candidate) in fused.iter().enumerate() {
        order.push(key(candidate.score, index));
    }
    let mut best = Vec::with_capacity(fused.len());
    for key in ascending(order) {
        best.extend(fused.get(key as u32 as usize));
    }
    best
}

/// The similarity of each with its neighbours.
fn smoothed(similar: &[SimilarPassage], mark: &dyn Fn(u64) -> Option<DocumentMark>) -> Vec<f32> {
    let mut order: Vec<u64> = Vec::with_capacity(similar.len());
    for (index, one) in similar.iter().enumerate().take(1 << NUMBER_BITS) {
        order.push(one.position << NUMBER_BITS | index as u64);
    }
    let order = ascending(order);
    let mut smoothed = Vec::with_capacity(similar.len());
    for SimilarPassage { position, .. } in similar {
        let (mut sum, mut whole) = (0.0, 0.0);
        let mut add = |position, share| {
            if let Some(one) = find(&order, position).and_then(|at| similar.get(at)) {
                sum += share * one.similarity;
                whole += share;
            }
        };
        add(*position, 1.0);
        for step in [-1, 1] {
            let (mut here, mut share) = (*position, 1.0);
            for _ in 0..RADIUS {
                let next = here.wrapping_add_signed(step);
                // A session begins with the later of both, or one of them is no passage.
                let is_border = mark(here.max(next)).is_none_or(|mark| mark.first) || mark(here.min(next)).is_none();
                if is_border {
                    break;
                }
                (here, share) = (next, share * NEIGHBOUR);
                add(here, share);
            }
        }
        smoothed.push(if whole > 0.0 { sum / whole } else { 0.0 });
    }
    smoothed
}

/// The number that stands with a position, among those in order.
fn find(order: &[u64], position: u64) -> Option<usize> {
    let at = order.binary_search(&(position << NUMBER_BITS)).unwrap_or_else(|at| at);
    let found = order.get(at).filter(|found| **found >> NUMBER_BITS == position)?;
    Some((found & ((1 << NUMBER_BITS) - 1)) as usize)
}

/// The least similarity that stands out.
fn standing_out(similar: &[SimilarPassage]) -> f32 {
    let (mut sum, mut squares) = (0.0_f32, 0.0_f32);
    for one in similar {
        sum += one.similarity;
        squares += one.similarity * one.similarity;
    }
    let count = similar.len().max(1) as f32;
    let mean = sum / count;
    mean + STANDS_OUT * (squares / count - mean * mean).max(0.0).sqrt()
}

/// What a rank is worth, from 0 on.
fn worth(rank: usize) -> f32 {
    1.0 / (EVENNESS + 1.0 + rank as f32)
}

/// Puts scores from 0 on in order, the highest first, and equal ones as they come.
fn key(score: f32, index: usize) -> u64 {
    // Floats from 0 on are ordered as their bits are.
    u64::from(!score.max(0.0).to_bits()) << 32 | index as u64
}
