//! Ranks candidates by embeddings as well as by words.
//!
//! Map `vectors` has an embedding for each passage, by position. Vectors of another model than the question's count as absent.

use keepline_recall::{DocumentMark, Embedding, PassageCandidate, SimilarPassage, fuse_rankings};

use crate::contract::{Entry, Operation, Problem};
use crate::store::{EntriesOutcome, Outcomes};
use crate::text::json_values::parse_count;

/// The map of them.
pub(crate) const VECTORS: &str = "vectors";

/// Where there are no more than so many, a question looks at all of them; otherwise at those of the best candidates.
const SMALL: u64 = 512;

const SMALL_BYTES: u64 = SMALL * 300;

const LOOKED_AT: usize = 256;

/// To be read with the rest of what a question needs.
pub(crate) const READ_ALL_VECTORS: Operation<'static> = Operation::get_all(VECTORS, SMALL, SMALL_BYTES);

/// With passages that go.
pub(crate) const RESET_VECTORS: Operation<'static> = Operation::reset_map(VECTORS);

/// What a question has seen of the vectors.
pub(crate) enum VectorSnapshot {
    /// Nothing, for the question has none.
    Unasked,
    All(Vec<Entry>),
    /// There are too many to look at them all.
    Many,
}

impl VectorSnapshot {
    pub(crate) fn of(outcomes: &mut Outcomes) -> Result<Self, Box<Problem>> {
        Ok(match outcomes.take_entries()? {
            EntriesOutcome::Entries(found) => Self::All(found.entries),
            EntriesOutcome::Oversize { .. } => Self::Many,
        })
    }

    /// Of which passages the vectors are to be read with their texts.
    pub(crate) fn keys(&self, candidates: &[PassageCandidate]) -> Vec<String> {
        let looked_at = if matches!(self, Self::Many) { LOOKED_AT } else { 0 };
        vector_keys(candidates.iter().take(looked_at).map(|candidate| candidate.position))
    }
}

/// The names of passages' vectors.
pub(crate) fn vector_keys(positions: impl Iterator<Item = u64>) -> Vec<String> {
    let mut keys = Vec::new();
    for position in positions {
        keys.push(position.to_string());
    }
    keys
}

/// The vectors of some passages.
pub(crate) fn read_vectors_operation<'a>(keys: &'a [&'a str]) -> Operation<'a> {
    Operation::get_some(VECTORS, keys, SMALL_BYTES)
}

/// Candidates in the order in which words and vectors have them together.
pub(crate) fn rerank_by_vectors(
    candidates: &[PassageCandidate],
    question: &Embedding,
    vectors: &[Entry],
    mark: &dyn Fn(u64) -> Option<DocumentMark>,
) -> Vec<PassageCandidate> {
    let mut similar = Vec::with_capacity(vectors.len());
    for entry in vectors {
        if let (Some(position), Some(similarity)) = (parse_count(&entry.key), question.similarity(&entry.text))
            && mark(position).is_some()
        {
            similar.push(SimilarPassage { position, similarity });
        }
    }
    fuse_rankings(candidates, &similar, mark)
}
