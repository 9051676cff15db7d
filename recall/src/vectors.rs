//! Embeddings: how they are kept, compared, and what they add to what words have found.
//!
//! An embedding is cut to its first dimensions and kept with 8 bits for each, which is enough to compare it by its angle.
//! Those of different models are never compared. Fusing goes by ranks, so that it does not matter how a model's
//! similarities are spread; what has no vector keeps the rank that its words give it.

use crate::ascending;
use crate::mark::Mark;
use crate::rank::{Candidate, Why};

/// Dimensions that are kept: the first ones, which models that are made to be cut put the most into.
pub const DIMENSIONS: usize = 256;
/// More than any model has.
const DIMENSIONS_MAX: usize = 4096;
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
/// Bytes that tell models apart.
const MODEL_BYTES: usize = 4;

/// An embedding as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedding {
    /// Stands for the model's name and its own number of dimensions.
    model: [u8; MODEL_BYTES],
    dimensions: usize,
    /// At most [`DIMENSIONS`], at least one of which is not 0.
    values: Vec<i8>,
}

impl Embedding {
    /// Of a model's own: base64 of 32-bit little-endian floats. None: it is not that, or has no direction.
    pub fn new(model: &str, data: &str) -> Option<Self> {
        let bytes = decode(data)?;
        let (floats, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() || floats.len() > DIMENSIONS_MAX {
            return None;
        }
        let dimensions = floats.len();
        let floats: Vec<f32> = floats.iter().take(DIMENSIONS).map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let most = floats.iter().fold(0.0, |most: f32, value| if value.abs() > most { value.abs() } else { most });
        if !floats.iter().all(|value| value.is_finite()) || most < f32::MIN_POSITIVE {
            return None;
        }
        let values = floats.iter().map(|value| (value / most * 127.0).round_ties_even() as i8).collect();
        Some(Self { model: identity(model, dimensions), dimensions, values })
    }

    /// Stands for the model, with its number of dimensions.
    pub fn model(&self) -> u32 {
        u32::from_le_bytes(self.model)
    }

    /// The model's own.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// As text.
    pub fn write(&self) -> String {
        let values = self.values.iter().map(|value| value.to_le_bytes());
        let bytes: Vec<u8> = self.model.into_iter().chain(values.flatten()).collect();
        encode(&bytes)
    }

    /// How alike it is to one that [`Embedding::write`] wrote: the cosine, from -1 to 1. None: that is of another model, or
    /// can't be read.
    pub fn similarity(&self, written: &str) -> Option<f32> {
        let bytes = decode(written)?;
        let (model, values) = bytes.split_first_chunk::<MODEL_BYTES>()?;
        if *model != self.model || values.len() != self.values.len() {
            return None;
        }
        let (mut product, mut one, mut other) = (0_i32, 0_i32, 0_i32);
        for (&a, &b) in self.values.iter().zip(values) {
            let (a, b) = (i32::from(a), i32::from(i8::from_le_bytes([b])));
            product += a * b;
            one += a * a;
            other += b * b;
        }
        let lengths = (one as f32).sqrt() * (other as f32).sqrt();
        (lengths > 0.0).then(|| product as f32 / lengths)
    }
}

/// FNV-1a.
fn identity(model: &str, dimensions: usize) -> [u8; MODEL_BYTES] {
    let bytes = model.bytes().chain([0]).chain(dimensions.to_le_bytes().into_iter().take(4));
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.to_le_bytes()
}

/// The digits of base64.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 without padding.
fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let number = [16, 8, 0].iter().zip(chunk).fold(0, |number, (shift, byte)| number | u32::from(*byte) << shift);
        for shift in [18, 12, 6, 0].iter().take(chunk.len() + 1) {
            let digit = DIGITS.get((number >> shift & 63) as usize).copied().unwrap_or_default();
            out.push(char::from(digit));
        }
    }
    out
}

/// Base64, padded or not. None: it is something else.
fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for chunk in text.chunks(4) {
        let mut number = 0;
        for (shift, digit) in [18, 12, 6, 0].iter().zip(chunk) {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            number |= u32::from(value) << shift;
        }
        let [_, decoded @ ..] = u32::to_be_bytes(number);
        bytes.extend_from_slice(decoded.get(..chunk.len() - 1)?);
    }
    Some(bytes)
}

/// What vectors say of a passage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Similar {
    /// Its position in the index.
    pub position: u64,
    /// To the question; finite.
    pub similarity: f32,
}

/// What words have found (the best first), with what vectors say of the passages that have one: of those, in any order.
/// `mark` tells of a passage that words have not found; none, and it is not added. The best first; of more than 1,024 that
/// words have found, these.
///
/// Each rank r counts 1 / (20 + r) by words, and half of that by vectors. A passage that has no vector counts as if its
/// vector gave it the rank that words do; so without vectors nothing changes. Those are added whose similarity stands out
/// among all that are known.
///
/// Cost: linear in both, times the logarithm of their number.
pub fn fuse(candidates: &[Candidate], similar: &[Similar], mark: &dyn Fn(u64) -> Option<Mark>) -> Vec<Candidate> {
    let count = similar.len().max(1) as f32;
    let mean = similar.iter().map(|one| one.similarity).sum::<f32>() / count;
    let variance = similar.iter().map(|one| (one.similarity - mean) * (one.similarity - mean)).sum::<f32>() / count;
    let least = mean + STANDS_OUT * variance.sqrt();
    let mut fused: Vec<Candidate> = candidates.iter().take(1 << NUMBER_BITS).copied().collect();
    let mut places: Vec<u64> = Vec::with_capacity(fused.len());
    for (rank, candidate) in fused.iter_mut().enumerate() {
        places.push(candidate.position << NUMBER_BITS | rank as u64);
        candidate.score = (1.0 + WEIGHT) * worth(rank);
    }
    let places = ascending(places);
    let place_of = |position: u64| {
        let at = places.partition_point(|place| place >> NUMBER_BITS < position);
        let place = places.get(at).filter(|place| **place >> NUMBER_BITS == position)?;
        usize::try_from(place & ((1 << NUMBER_BITS) - 1)).ok()
    };
    for (rank, index) in by_score(similar.iter().map(|one| one.similarity + 1.0)).into_iter().enumerate() {
        let Some(one) = similar.get(index) else { continue };
        let stands_out = rank < ADDED && one.similarity > least && one.similarity > 0.0;
        if let Some((place, candidate)) = place_of(one.position).and_then(|at| Some((at, fused.get_mut(at)?))) {
            candidate.score = worth(place) + WEIGHT * worth(rank);
            if stands_out {
                candidate.why = candidate.why.and(Why::VECTOR);
            }
        } else if let Some(mark) = mark(one.position).filter(|_| stands_out) {
            fused.push(Candidate { position: one.position, score: WEIGHT * worth(rank), mark, why: Why::VECTOR });
        }
    }
    let order = by_score(fused.iter().map(|candidate| candidate.score));
    order.into_iter().filter_map(|index| fused.get(index).copied()).collect()
}

/// What a rank is worth, from 0 on.
fn worth(rank: usize) -> f32 {
    1.0 / (EVENNESS + 1.0 + rank as f32)
}

/// The places of scores from 0 on, the highest first, equal ones as they come.
fn by_score(scores: impl Iterator<Item = f32>) -> Vec<usize> {
    // Floats from 0 on are ordered as their bits are.
    let keys =
        (0_u32..).zip(scores).map(|(index, score)| u64::from(!score.max(0.0).to_bits()) << 32 | u64::from(index));
    ascending(keys.collect()).into_iter().map(|key| key as u32 as usize).collect()
}
