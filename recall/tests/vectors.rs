//! Embeddings are kept small, compared by their angle, and fused by ranks.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use keepline_recall::{
    DIMENSIONS, DocumentMark, Embedding, MatchReasons, PassageCandidate, SimilarPassage, fuse_rankings,
};
use proptest::prelude::*;

/// Base64 as a server writes it.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let mut all = [0; 3];
        all[..chunk.len()].copy_from_slice(chunk);
        let number = u32::from_be_bytes([0, all[0], all[1], all[2]]);
        for place in 0..4 {
            let is_padding = place > chunk.len();
            out.push(if is_padding { '=' } else { DIGITS[(number >> (18 - 6 * place) & 63) as usize].into() });
        }
    }
    out
}

fn data(values: &[f32]) -> String {
    base64(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
}

fn embedding(values: &[f32]) -> Embedding {
    Embedding::new("small", &data(values)).unwrap()
}

fn cosine(one: &[f32], other: &[f32]) -> f64 {
    let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    product(one, other) / (product(one, one) * product(other, other)).sqrt()
}

/// A dimension's value, 0 as often as not.
fn sparse() -> impl Strategy<Value = f32> {
    prop_oneof![Just(0.0), -1.0_f32..1.0]
}

fn candidates(positions: &[u64]) -> Vec<PassageCandidate> {
    let mark = DocumentMark::new(5, 10, false);
    let scores = (0..positions.len()).map(|at| 100.0 - at as f32);
    positions
        .iter()
        .zip(scores)
        .map(|(&position, score)| PassageCandidate { position, score, mark, why: MatchReasons::TERMS })
        .collect()
}

fn positions(found: &[PassageCandidate]) -> Vec<u64> {
    found.iter().map(|candidate| candidate.position).collect()
}

#[test]
fn an_invalid_embedding_is_rejected() {
    for data in ["", "AAAA", "AAAAAA==", "no base64!", &data(&[f32::NAN, 1.0]), &data(&[1.0, f32::INFINITY])] {
        assert_eq!(Embedding::new("m", data), None, "{data}");
    }
    assert_eq!(Embedding::new("m", &data(&[0.0; 4])), None);
    assert_eq!(Embedding::new("m", &data(&[1.0; 4097])), None);
    assert!(Embedding::new("m", &data(&[1.0; 4096])).is_some());
}

#[test]
fn models_are_never_compared() {
    let written = embedding(&[1.0, 2.0]).as_str().to_owned();
    assert!(embedding(&[1.0, 2.0]).similarity(&written).unwrap() > 0.999);
    assert_eq!(Embedding::new("large", &data(&[1.0, 2.0])).unwrap().similarity(&written), None);
    // Also of one model in another size, though what is kept of it is as long.
    let (one, other) = (embedding(&[1.0; 300]), embedding(&[1.0; 400]));
    assert_eq!(one.similarity(other.as_str()), None);
    assert_ne!(one.model(), other.model());
    for broken in ["", "AAA", "? ?", &written[..written.len() - 1], &written.replace(' ', "")] {
        assert_eq!(embedding(&[1.0, 2.0]).similarity(broken), None, "{broken}");
    }
}

#[test]
fn an_embedding_is_truncated_to_its_first_dimensions() {
    let mut values = vec![0.5; DIMENSIONS];
    let one = embedding(&[&values[..], &[9.0; 100]].concat());
    values[0] = 0.25;
    let other = embedding(&[&values[..], &[-9.0; 100]].concat());
    assert!(one.similarity(other.as_str()).unwrap() > 0.99);
    assert!(one.as_str().len() <= 267 && !one.as_str().contains(['"', '\\']));
}

#[test]
fn vectors_add_passages_and_reorder_those_found_by_words() {
    let found = candidates(&[10, 11, 12]);
    let similar = |position, similarity| SimilarPassage { position, similarity };
    let all = [
        similar(10, 0.1),
        similar(11, 0.1),
        similar(12, 0.9),
        similar(20, 0.9),
        similar(21, 0.1),
        similar(22, 0.0),
        similar(23, 0.1),
        similar(24, 0.12),
    ];
    let mark = |position| (position != 21).then(|| DocumentMark::new(1, 1, true));
    let fused = fuse_rankings(&found, &all, &mark);
    assert_eq!(positions(&fused), [10, 12, 11, 20]);
    assert!(fused[1].why.contains(MatchReasons::VECTOR) && fused[1].why.contains(MatchReasons::TERMS));
    assert!(!fused[0].why.contains(MatchReasons::VECTOR));
    assert_eq!((fused[3].why, fused[3].mark), (MatchReasons::VECTOR, DocumentMark::new(1, 1, true)));
    // What nobody knows of is not added.
    assert_eq!(positions(&fuse_rankings(&found, &all, &|_| None)), [10, 12, 11]);
}

#[test]
fn a_passage_is_scored_with_its_neighbours_in_the_session() {
    let found = candidates(&[30, 10, 20]);
    let similar = |(position, similarity)| SimilarPassage { position, similarity };
    // Two are as like the question, but what stands beside one of them is not.
    let near = [(20, 0.5), (9, 0.1), (21, 0.9), (10, 0.5), (19, 0.9), (11, 0.1)];
    let all: Vec<SimilarPassage> = near.into_iter().chain((50..60).map(|at| (2 * at, 0.4))).map(similar).collect();
    let order = |first: u64| {
        let mark = |position| (position != 30).then(|| DocumentMark::new(1, 1, position % 10 == first));
        let fused = fuse_rankings(&found, &all, &mark);
        positions(&fused)
            .into_iter()
            .filter(|position| *position < 30 && position.is_multiple_of(10))
            .collect::<Vec<_>>()
    };
    assert_eq!(order(5), [20, 10]);
    // Nothing that another session says.
    let alone = |position| (position != 30).then(|| DocumentMark::new(1, 1, true));
    let fused = fuse_rankings(&found, &all, &alone);
    let kept: Vec<u64> = positions(&fused).into_iter().filter(|position| [10, 20].contains(position)).collect();
    assert_eq!(kept, [10, 20]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn stored_embeddings_preserve_similarity(pairs in prop::collection::vec((-1.0_f32..1.0, -1.0_f32..1.0), 64..300)) {
        let (one, other): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
        let kept = one.len().min(DIMENSIONS);
        let expected = cosine(&one[..kept], &other[..kept]);
        let (one, other) = (embedding(&one), embedding(&other));
        let found = f64::from(one.similarity(other.as_str()).unwrap());
        prop_assert!((found - expected).abs() < 0.02, "{found} {expected}");
        prop_assert_eq!(one.similarity(other.as_str()), other.similarity(one.as_str()));
    }

    /// Also of few dimensions, most of which are 0: rounding moves each by half a step at most, and so turns a vector by no
    /// more than that allows.
    #[test]
    fn rounding_turns_a_vector_no_further_than_half_a_step(pairs in prop::collection::vec((sparse(), sparse()), 1..64)) {
        let (one, other): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
        let expected = cosine(&one, &other);
        let turned = |values: &[f32]| {
            let most = values.iter().fold(0.0_f64, |most, value| most.max(f64::from(value.abs())));
            let moved = values.iter().filter(|value| **value != 0.0).count() as f64;
            let length = values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
            (moved.sqrt() * most / 56.0 / length).min(1.0).asin()
        };
        let most = turned(&one) + turned(&other);
        if let (Some(one), Some(other)) = (Embedding::new("m", &data(&one)), Embedding::new("m", &data(&other))) {
            let found = f64::from(one.similarity(other.as_str()).unwrap()).clamp(-1.0, 1.0);
            let angle = (found.acos() - expected.clamp(-1.0, 1.0).acos()).abs();
            prop_assert!(angle < most + 1e-3, "{found} {expected}: {angle} > {most}");
        }
    }

    #[test]
    fn arbitrary_embedding_data_cause_no_panic(text in ".{0,40}|[A-Za-z0-9+/=]{0,40}", stored in ".{0,20}|[0-9]{0,9} .{0,9}") {
        Embedding::new(&text, &text);
        embedding(&[1.0, 0.0, 0.5]).similarity(&stored);
    }

    #[test]
    fn without_vectors_the_ranking_is_unchanged(set in prop::collection::btree_set(0_u64..1 << 53, 0..100)) {
        let order: Vec<u64> = set.into_iter().rev().collect();
        let fused = fuse_rankings(&candidates(&order), &[], &|_| None);
        prop_assert_eq!(positions(&fused), order);
        prop_assert!(fused.is_sorted_by(|one, other| one.score >= other.score));
        prop_assert!(fused.iter().all(|candidate| candidate.why == MatchReasons::TERMS));
    }

    #[test]
    fn fusion_keeps_every_candidate_exactly_once(
        found in prop::collection::btree_set(0_u64..200, 0..60), known in prop::collection::btree_map(0_u64..200, -1.0_f32..1.0, 0..120),
    ) {
        let found: Vec<u64> = found.into_iter().collect();
        let similar: Vec<SimilarPassage> = known.iter().map(|(&position, &similarity)| SimilarPassage { position, similarity }).collect();
        let fused = fuse_rankings(&candidates(&found), &similar, &|_| Some(DocumentMark::new(1, 1, false)));
        let mut all = positions(&fused);
        all.sort_unstable();
        prop_assert!(all.is_sorted_by(|one, other| one < other));
        prop_assert!(found.iter().all(|position| all.binary_search(position).is_ok()));
        prop_assert!(fused.is_sorted_by(|one, other| one.score >= other.score));
        for candidate in &fused {
            let is_new = found.binary_search(&candidate.position).is_err();
            prop_assert!(candidate.score > 0.0);
            prop_assert_eq!(is_new, candidate.why == MatchReasons::VECTOR);
        }
    }
}
