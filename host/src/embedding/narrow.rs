//! Finds which of several texts a model refuses, by asking for them in halves, down to single ones.
//!
//! Promises that a text which a model never accepts keeps no other from its embedding, within a bounded number of
//! requests and time. A server that refuses everything, such as one with a wrong model, is not taken for one that
//! refuses these texts: a text that any model accepts is tried first.

use std::time::Duration;

use tokio::time::Instant;

use super::{Embedder, EmbeddingError, to_checked_vectors};
use crate::entry::Vector;

/// Requests beyond the first, at most: enough to find one text among 64.
const MAX_REQUESTS: usize = 14;
/// No further request is begun after that time: the caller has about a minute.
const MAX_TIME: Duration = Duration::from_secs(25);
/// A text that any model accepts.
const PLAIN: &str = "Hello.";

/// The vectors of the texts, and how many were refused.
pub(super) struct Made {
    /// One for each of them, or for the first of them, at least one. Without data: the model refuses that text.
    pub vectors: Vec<Vector>,
    /// How many it refuses.
    pub refused: usize,
}

pub(super) async fn embed_with_bisection(embedder: &dyn Embedder, texts: &[String]) -> Result<Made, EmbeddingError> {
    let began = Instant::now();
    let mut made = Made { vectors: Vec::with_capacity(texts.len()), refused: 0 };
    let mut requests = 0;
    // The next part is the last one.
    let mut parts = vec![texts];
    while let Some(part) = parts.pop() {
        let has_room = requests <= MAX_REQUESTS && (requests == 0 || began.elapsed() < MAX_TIME);
        if !has_room && !made.vectors.is_empty() {
            break;
        }
        requests += 1;
        match request_vectors(embedder, part).await {
            Ok(vectors) => made.vectors.extend(vectors),
            Err(EmbeddingError::Refused(message)) if has_room => {
                if requests == 1 {
                    requests += 1;
                    let plain = request_vectors(embedder, &[PLAIN.to_owned()]).await;
                    plain.map_err(|_| EmbeddingError::Refused(message))?;
                }
                if part.len() > 1 {
                    let (first, second) = part.split_at(part.len().div_ceil(2));
                    parts.extend([second, first]);
                } else {
                    made.vectors.push(Vector { model: String::new(), data: String::new() });
                    made.refused += 1;
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(made)
}

async fn request_vectors(embedder: &dyn Embedder, texts: &[String]) -> Result<Vec<Vector>, EmbeddingError> {
    to_checked_vectors(&embedder.embed(texts).await?, texts.len())
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::{super::Embedding, *};

    /// Refuses texts with an "x", in one way or another, and knows how many each request had.
    #[derive(Default)]
    struct Picky {
        gives_zeros: bool,
        refuses_all: bool,
        asked: Mutex<Vec<usize>>,
    }

    #[async_trait::async_trait]
    impl Embedder for Picky {
        async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbeddingError> {
            self.asked.lock().push(texts.len());
            let is_refused = |text: &String| self.refuses_all || text.contains('x');
            if !self.gives_zeros && texts.iter().any(is_refused) {
                return Err(EmbeddingError::Refused("a status of 400".into()));
            }
            let value = |text| if is_refused(text) { 0.0 } else { 1.0 };
            Ok(texts.iter().map(|text| Embedding { model: "m".into(), values: vec![value(text)] }).collect())
        }
    }

    fn texts(count: usize, refused: &[usize]) -> Vec<String> {
        (0..count).map(|number| if refused.contains(&number) { "x".into() } else { number.to_string() }).collect()
    }

    fn has_none(made: &Made) -> Vec<usize> {
        let places = made.vectors.iter().enumerate();
        places.filter(|(_, vector)| vector.data.is_empty()).map(|(place, _)| place).collect()
    }

    #[tokio::test]
    async fn one_refused_text_does_not_cost_the_others_their_vectors() {
        for gives_zeros in [false, true] {
            for (count, refused) in [(1, 0), (2, 1), (3, 1), (64, 0), (64, 31), (64, 63)] {
                let picky = Picky { gives_zeros, ..Picky::default() };
                let made = embed_with_bisection(&picky, &texts(count, &[refused])).await.unwrap();
                assert_eq!((made.vectors.len(), has_none(&made), made.refused), (count, vec![refused], 1));
                assert!(picky.asked.lock().len() <= MAX_REQUESTS + 1, "{:?}", picky.asked.lock());
            }
        }
        let picky = Picky::default();
        assert_eq!(embed_with_bisection(&picky, &texts(64, &[])).await.unwrap().vectors.len(), 64);
        assert_eq!(*picky.asked.lock(), [64]);
    }

    #[tokio::test]
    async fn the_first_of_many_refused_texts_are_found_within_the_request_limit() {
        let all: Vec<usize> = (0..64).collect();
        for refused in [&[0, 63][..], &[5, 20, 40], &all] {
            let picky = Picky::default();
            let made = embed_with_bisection(&picky, &texts(64, refused)).await.unwrap();
            let found: Vec<usize> = refused.iter().copied().filter(|place| *place < made.vectors.len()).collect();
            assert!((1..64).contains(&made.vectors.len()) && !found.is_empty(), "{refused:?}");
            assert_eq!((has_none(&made), made.refused), (found.clone(), found.len()));
            assert_eq!(picky.asked.lock().len(), MAX_REQUESTS + 1);
        }
    }

    #[tokio::test]
    async fn no_text_counts_as_refused_if_the_server_refuses_everything() {
        for gives_zeros in [false, true] {
            let picky = Picky { gives_zeros, refuses_all: true, ..Picky::default() };
            assert!(matches!(embed_with_bisection(&picky, &texts(64, &[])).await, Err(EmbeddingError::Refused(_))));
            assert_eq!(*picky.asked.lock(), [64, 1]);
        }
    }
}
