//! Embeddings: the trait of models that make them, and how a question gets one in time.
//!
//! A filter that wants them ([`Keepline::wants_vectors`](crate::Keepline::wants_vectors)) gets a question with its
//! embedding if that is there within [`Options::embedding_wait`](crate::Options::embedding_wait); a question never
//! fails, and never waits longer, for lack of one. Stored messages are embedded off the entries' path, by
//! [`Maintenance`](crate::maintenance::Maintenance).

mod cache;
mod narrow;
mod scheduler;

use async_trait::async_trait;

pub use self::scheduler::EmbeddingMetrics;
pub(crate) use self::scheduler::EmbeddingScheduler;
use crate::entry::Vector;

/// Dimensions that the contract allows.
const MAX_DIMENSIONS: usize = 4096;

/// A model for embeddings.
///
/// It is called on and off the entries' path, from several tasks at a time. A call may be dropped at any time. Its own
/// time-outs and retries are its business: the path never waits for them.
#[async_trait]
pub trait Embedder: Send + Sync + 'static {
    /// One for each text, in order: at most 64 texts, of some hundred bytes as a rule; a question may be longer.
    ///
    /// # Errors
    /// When the model could not be asked or its answer is of no use. Everything stays as it was, and will be due again, but
    /// for texts that it [refuses](EmbeddingError::Refused): the others get theirs.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbeddingError>;
}

/// Why there are no embeddings: for people, one sentence without a full stop. Secrets must not be in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbeddingError {
    /// It won't pass by itself, and one of the texts may be the reason: they are asked for in halves, down to single ones.
    #[error("{0}")]
    Refused(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// What a model makes of a text.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "made by embedders")]
pub struct Embedding {
    /// The model's name. Those of different models, or of another number of dimensions, are never compared.
    pub model: String,
    /// At most 4,096, all finite, and not all 0. If they are anything else, the text counts as refused.
    pub values: Vec<f32>,
}

impl From<&Embedding> for Vector {
    fn from(embedding: &Embedding) -> Self {
        let bytes: Vec<u8> = embedding.values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self { model: embedding.model.clone(), data: base64(&bytes) }
    }
}

/// With padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let number = [16, 8, 0].iter().zip(chunk).fold(0, |number, (shift, byte)| number | u32::from(*byte) << shift);
        for (place, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let digit = DIGITS.get((number >> shift & 63) as usize).filter(|_| place <= chunk.len());
            out.push(digit.map_or('=', |digit| char::from(*digit)));
        }
    }
    out
}

/// As the filter takes them. `Err`: they are of no use.
fn to_checked_vectors(embeddings: &[Embedding], texts: usize) -> Result<Vec<Vector>, EmbeddingError> {
    if embeddings.len() != texts {
        let message = format!("the model gave {} embeddings for {texts} texts", embeddings.len());
        return Err(EmbeddingError::Failed(message));
    }
    let is_good = |Embedding { values, .. }: &Embedding| {
        values.len() <= MAX_DIMENSIONS
            && values.iter().all(|value| value.is_finite())
            && values.iter().any(|value| value.is_normal())
    };
    if !embeddings.iter().all(is_good) {
        let message =
            format!("an embedding is empty, too long (over {MAX_DIMENSIONS} dimensions), not numeric, or all zeros");
        return Err(EmbeddingError::Refused(message));
    }
    Ok(embeddings.iter().map(Vector::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_encoded_as_the_contract_specifies() {
        let vector = Vector::from(&Embedding { model: "small".into(), values: vec![1.0, -2.5] });
        assert_eq!((&*vector.model, &*vector.data), ("small", "AACAPwAAIMA="));
        assert_eq!([base64(b""), base64(b"a"), base64(b"ab"), base64(b"abc")], ["", "YQ==", "YWI=", "YWJj"]);
    }

    #[test]
    fn unusable_embeddings_are_refused() {
        let of = |values: Vec<f32>| Embedding { model: "m".into(), values };
        assert_eq!(to_checked_vectors(&[of(vec![1.0]), of(vec![2.0])], 2).unwrap().len(), 2);
        assert!(matches!(to_checked_vectors(&[of(vec![1.0])], 2), Err(EmbeddingError::Failed(_))));
        for wrong in [vec![], vec![f32::NAN], vec![f32::INFINITY], vec![0.0, -0.0], vec![0.5; 4097]] {
            let checked = to_checked_vectors(&[of(vec![1.0]), of(wrong.clone())], 2);
            assert!(matches!(checked, Err(EmbeddingError::Refused(_))), "{wrong:?}");
        }
    }
}
