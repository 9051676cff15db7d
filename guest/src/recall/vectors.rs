//! Ranks candidates by embeddings as well as by words.
//!
//! Map `vectors` has an embedding for each passage, by position. Vectors of another model than the question's count as absent.

use keepline_recall::{Candidate, Embedding, Mark, Similar, fuse};

use crate::contract::{Entry, Failure, Operation};
use crate::store::{Found, Outcomes};
use crate::text::json_values::integer;

/// The map of them.
pub(crate) const VECTORS: &str = "vectors";

/// Where there are no more than so many, a question looks at all of them; otherwise at those of the best candidates.
const SMALL: u64 = 512;

const SMALL_BYTES: u64 = SMALL * 300;

const LOOKED_AT: usize = 256;

/// To be read with the rest of what a question needs.
pub(crate) const ALL: Operation<'static> = Operation::get_all(VECTORS, SMALL, SMALL_BYTES);

/// With passages that go.
pub(crate) const NONE: Operation<'static> = Operation::reset_map(VECTORS, &[]);

/// What a question has seen of the vectors.
pub(crate) enum Near {
    /// Nothing, for the question has none.
    Unasked,
    All(Vec<Entry>),
    /// There are too many to look at them all.
    Many,
}

impl Near {
    pub(crate) fn of(outcomes: &mut Outcomes) -> Result<Self, Failure> {
        Ok(match outcomes.entries()? {
            Found::Entries(found) => Self::All(found.entries),
            Found::Oversize { .. } => Self::Many,
        })
    }

    /// Of which passages the vectors are to be read with their texts.
    pub(crate) fn keys(&self, candidates: &[Candidate]) -> Vec<String> {
        let looked_at = if matches!(self, Self::Many) { LOOKED_AT } else { 0 };
        keys(candidates.iter().take(looked_at).map(|candidate| candidate.position))
    }
}

/// The names of passages' vectors.
pub(crate) fn keys(positions: impl Iterator<Item = u64>) -> Vec<String> {
    let mut keys = Vec::new();
    for position in positions {
        keys.push(position.to_string());
    }
    keys
}

/// The vectors of some passages.
pub(crate) fn some<'a>(keys: &'a [&'a str]) -> Operation<'a> {
    Operation::get_some(VECTORS, keys, SMALL_BYTES)
}

/// Candidates in the order in which words and vectors have them together.
pub(crate) fn reordered(
    candidates: &[Candidate],
    question: &Embedding,
    vectors: &[Entry],
    mark: &dyn Fn(u64) -> Option<Mark>,
) -> Vec<Candidate> {
    let mut similar = Vec::with_capacity(vectors.len());
    for entry in vectors {
        if let (Some(position), Some(similarity)) = (integer(&entry.key), question.similarity(&entry.text))
            && mark(position).is_some()
        {
            similar.push(Similar { position, similarity });
        }
    }
    fuse(candidates, &similar, mark)
}
