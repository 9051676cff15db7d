//! Embeddings: who makes them, and how a question gets one in time.
//!
//! A filter that wants them ([`Keepline::wants_vectors`](crate::Keepline::wants_vectors)) gets the question's with the
//! question, if it is there within [`Options::embedding_wait`](crate::Options::embedding_wait); a question never fails or
//! waits longer for want of it. Those of what was said come off the entries' path, with
//! [`Maintenance`](crate::maintenance::Maintenance).

mod cache;
mod desk;

use async_trait::async_trait;

pub(crate) use self::desk::Desk;
pub use self::desk::EmbeddingMetrics;
use crate::{contract::filter::Vector, maintenance::ModelError};

/// Dimensions that the contract allows.
const MAX_DIMENSIONS: usize = 4096;

/// A model for embeddings.
///
/// It is called on and off the entries' path, from several tasks at a time. A call may be dropped at any time. Its own
/// time-outs and retries are its business: on the path nobody waits for them.
#[async_trait]
pub trait Embedder: Send + Sync + 'static {
    /// One for each text, in order: at most 64 texts, of some hundred bytes as a rule; a question may be longer.
    ///
    /// # Errors
    /// When the model could not be asked or its answer is of no use. Everything stays as it was, and will be due again.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, ModelError>;
}

/// What a model makes of a text.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "made by embedders")]
pub struct Embedding {
    /// The model's name. Those of different models, or of another number of dimensions, are never compared.
    pub model: String,
    /// At most 4,096, all finite.
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
fn checked(embeddings: &[Embedding], texts: usize) -> Result<Vec<Vector>, ModelError> {
    if embeddings.len() != texts {
        return Err(ModelError(format!("the model gave {} embeddings for {texts} texts", embeddings.len())));
    }
    let is_good = |one: &Embedding| {
        (1..=MAX_DIMENSIONS).contains(&one.values.len()) && one.values.iter().all(|value| value.is_finite())
    };
    if !embeddings.iter().all(is_good) {
        return Err(ModelError(format!("an embedding has no dimensions, more than {MAX_DIMENSIONS}, or no numbers")));
    }
    Ok(embeddings.iter().map(Vector::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_what_the_contract_says() {
        let vector = Vector::from(&Embedding { model: "small".into(), values: vec![1.0, -2.5] });
        assert_eq!((&*vector.model, &*vector.data), ("small", "AACAPwAAIMA="));
        assert_eq!([base64(b""), base64(b"a"), base64(b"ab"), base64(b"abc")], ["", "YQ==", "YWI=", "YWJj"]);
    }

    #[test]
    fn what_is_of_no_use_is_refused() {
        let of = |values: Vec<f32>| Embedding { model: "m".into(), values };
        assert_eq!(checked(&[of(vec![1.0]), of(vec![2.0])], 2).unwrap().len(), 2);
        let useless = [vec![of(vec![1.0])], vec![of(vec![1.0]), of(vec![])], vec![of(vec![1.0]), of(vec![f32::NAN])]];
        for wrong in useless.into_iter().chain([vec![of(vec![1.0]), of(vec![0.5; 4097])]]) {
            assert!(checked(&wrong, 2).is_err(), "{wrong:?}");
        }
    }
}
