//! The encoding of an index in stores that keep bytes, by segments of 1,024 positions.
//!
//! A segment is a *field* of marks and up to 256 *shards*. The marks have four bytes for each document: ten bits of
//! position, six of nothing, sixteen of mark. A shard has the terms that leave its number when divided by 256, with three
//! bytes for each occurrence: ten bits of position, and fourteen that are the term's quotient. Both are in order of
//! position. So documents are added by appending to at most 257 fields, however many they are; terms are found by reading
//! their shards, a two hundred and fifty-sixth of everything for each; and documents can be taken out without knowing
//! their terms.
//!
//! Fields are named `SEGMENT` and `SEGMENT:SHARD`, the one in decimal and the other as two digits of base 16: `5`,
//! `5:0c`. No other program should write to them. What they are not meant to hold is not seen.

use std::collections::BTreeMap;

#[cfg(feature = "directory")]
use super::PositionRun;
use super::{HitCollector, SEGMENT, note_mark};
use crate::{Document, FoundDocuments};

/// Bytes of a document among the marks.
pub(crate) const MARK: usize = 4;
/// Bytes of an occurrence in a shard.
pub(crate) const OCCURRENCE: usize = 3;

/// A field: the marks of a segment, or one of its shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct IndexField {
    pub(crate) segment: u64,
    /// None: the marks.
    pub(crate) shard: Option<u8>,
}

impl IndexField {
    pub(crate) fn name(self) -> String {
        match self.shard {
            None => self.segment.to_string(),
            Some(shard) => format!("{}:{shard:02x}", self.segment),
        }
    }

    /// The field of this name, if it is one.
    #[cfg(feature = "directory")]
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let (segment, shard) = match name.split_once(':') {
            None => (name, None),
            Some((segment, shard)) => (segment, Some(u8::from_str_radix(shard, 16).ok()?)),
        };
        let field = Self { segment: segment.parse().ok()?, shard };
        // As it would be spelled here, and not otherwise.
        (field.segment < super::POSITIONS / SEGMENT && field.name() == name).then_some(field)
    }
}

/// What is appended to which fields for documents, in order of the fields.
pub(crate) fn appended_fields(documents: &[Document]) -> Vec<(IndexField, Vec<u8>)> {
    let mut appended = Vec::new();
    for documents in documents.chunk_by(|one, other| one.position / SEGMENT == other.position / SEGMENT) {
        let Some(segment) = documents.first().map(|first| first.position / SEGMENT) else { continue };
        let mut marks = Vec::with_capacity(documents.len() * MARK);
        let mut shards = BTreeMap::<u8, Vec<u8>>::new();
        for Document { position, mark, terms } in documents {
            let [high, low] = of_position(position % SEGMENT);
            marks.extend([high, low]);
            marks.extend(mark.to_be_bytes());
            for term in terms {
                let [_, quotient_high, quotient_low, shard] = term.to_be_bytes();
                shards.entry(shard).or_default().extend([high, low | quotient_high, quotient_low]);
            }
        }
        appended.push((IndexField { segment, shard: None }, marks));
        let shards = shards.into_iter().map(|(shard, bytes)| (IndexField { segment, shard: Some(shard) }, bytes));
        appended.extend(shards);
    }
    appended
}

/// How an entry of a field begins that is about this position.
fn of_position(offset: u64) -> [u8; 2] {
    #[expect(clippy::cast_possible_truncation, reason = "below 1,024")]
    let shifted = (offset as u16) << 6;
    shifted.to_be_bytes()
}

/// The position that an entry of a field is about.
fn position(high: u8, low: u8) -> u64 {
    u64::from(u16::from_be_bytes([high, low]) >> 6)
}

/// Takes the entries of these runs of positions out of a field whose entries are so wide. Tells how many they were.
#[cfg(feature = "directory")]
pub(crate) fn remove_runs(field: &mut Vec<u8>, width: usize, runs: &[PositionRun]) -> u64 {
    let before = field.len();
    let kept = field.chunks_exact(width).filter(|entry| match entry {
        [high, low, ..] => {
            let offset = position(*high, *low);
            !runs.iter().any(|run| (run.low..=run.high).contains(&offset))
        }
        _ => false,
    });
    *field = kept.flatten().copied().collect();
    ((before - field.len()) / width) as u64
}

/// What is looked for, by shard.
pub(crate) struct SoughtTerms {
    /// Shards that are read, in ascending order, and of each the quotients of terms, with their places among those asked for.
    shards: Vec<(u8, Vec<(u16, usize)>)>,
}

impl SoughtTerms {
    pub(crate) fn new(terms: &[u32]) -> Self {
        let mut shards = BTreeMap::<u8, Vec<(u16, usize)>>::new();
        for (place, term) in terms.iter().enumerate() {
            let [_, high, low, shard] = term.to_be_bytes();
            shards.entry(shard).or_default().push((u16::from_be_bytes([high, low]), place));
        }
        Self { shards: shards.into_iter().collect() }
    }

    /// The shards to be read of each segment.
    pub(crate) fn shards(&self) -> impl ExactSizeIterator<Item = u8> {
        self.shards.iter().map(|(shard, _)| *shard)
    }

    /// Notes what a segment holds, given those of the [shards](Self::shards) that are there. Segments come in ascending
    /// order.
    pub(crate) fn collect_segment<B: AsRef<[u8]>>(&self, segment: u64, shards: &[Option<B>], hits: &mut HitCollector) {
        let begin = segment.saturating_mul(SEGMENT);
        for ((_, sought), shard) in self.shards.iter().zip(shards) {
            let Some(shard) = shard else { continue };
            for entry in shard.as_ref().chunks_exact(OCCURRENCE) {
                let [high, low, quotient] = entry else { continue };
                let quotient = u16::from_be_bytes([low & 0x3f, *quotient]);
                for (_, place) in sought.iter().filter(|(of_term, _)| *of_term == quotient) {
                    hits.record(*place, begin.saturating_add(position(*high, *low)));
                }
            }
        }
    }
}

/// Notes the marks of a segment in an answer that has some of its positions.
pub(crate) fn collect_marks(segment: u64, marks: &[u8], found: &mut FoundDocuments) {
    let begin = segment.saturating_mul(SEGMENT);
    for entry in marks.chunks_exact(MARK) {
        if let [high, low, mark @ ..] = entry
            && let Ok(mark) = mark.try_into()
        {
            note_mark(found, begin.saturating_add(position(*high, *low)), u16::from_be_bytes(mark));
        }
    }
}

/// The segments whose marks an answer needs, ascending.
#[cfg(feature = "directory")]
pub(crate) fn marked_segments(found: &FoundDocuments) -> Vec<u64> {
    let mut segments: Vec<u64> = Vec::new();
    for run in &found.runs {
        let begin = found.from_position + u64::from(run.offset);
        let after = segments.last().map_or(0, |last| last + 1);
        segments.extend((begin / SEGMENT).max(after)..(begin + run.marks.len() as u64).div_ceil(SEGMENT));
    }
    segments
}
