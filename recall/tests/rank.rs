//! Ranking against the reference, and selection, on arbitrary memories.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod reference;

use std::collections::BTreeSet;

use keepline_recall::{
    DocumentMark, IndexMatches, MatchReasons, PassageCandidate, PassageDocument, PassageQuery, rank_documents,
    select_passages,
};
use proptest::prelude::*;
use reference::{Index, Said, WORDS, scores, stems, text};

fn said() -> impl Strategy<Value = Option<Said>> {
    let words = prop::collection::vec(0..WORDS.len(), 1..6);
    let said = (words, prop::sample::select(vec!["Anna", "Tea", "Nobody"]), prop::bool::weighted(0.1))
        .prop_map(|(words, speaker, first)| Said { words, speaker, first });
    prop::option::weighted(0.93, said)
}

fn index(memory: &[Option<Said>]) -> Index {
    let texts: Vec<String> =
        memory.iter().map(|said| said.as_ref().map_or(String::new(), |said| text(&said.words))).collect();
    Index::of(memory.iter().zip(&texts).map(|(said, text)| {
        said.as_ref().map(|said| PassageDocument { text, speaker: said.speaker, time: 0, first: said.first, tokens: 9 })
    }))
}

proptest! {
    #[test]
    fn ranks_as_the_reference_does(
        memory in prop::collection::vec(said(), 0..120),
        question in prop::collection::vec(0..WORDS.len(), 0..8),
        has_hints: bool,
        first in 0u64..1 << 40,
    ) {
        let index = index(&memory);
        let query = PassageQuery::new(&text(&question), 0, has_hints);
        let rows = index.rows(&query);
        let found = rank_documents(&query, IndexMatches { first, marks: &index.marks, rows: &rows }, usize::MAX);
        // What is written with a capital may be a name; where nothing is, so may all.
        let written: Vec<&str> = question.iter().map(|word| WORDS[*word].0).collect();
        let cased = written.iter().any(|word| word.contains(char::is_uppercase));
        let names = question.iter().filter(|word| !cased || WORDS[**word].0.starts_with(char::is_uppercase));
        let names = if has_hints { stems(&names.copied().collect::<Vec<_>>()) } else { BTreeSet::new() };
        let expected = scores(&memory, &stems(&question), &names);
        prop_assert_eq!(found.len(), expected.len());
        for pair in found.windows(2) {
            prop_assert!((pair[0].score, pair[1].position) > (pair[1].score, pair[0].position));
        }
        for candidate in &found {
            let score = expected.get(&(candidate.position - first)).copied().unwrap_or(0.0);
            prop_assert!((f64::from(candidate.score) - score).abs() < 1e-4 * score.max(1.0), "{candidate:?}, {score}");
            let said = memory[(candidate.position - first) as usize].as_ref().unwrap();
            prop_assert_eq!(candidate.why.contains(MatchReasons::SPEAKER), names.contains(said.speaker.to_lowercase().as_str()));
            prop_assert_eq!(usize::from(candidate.mark.terms), stems(&said.words).len());
        }
        // Fewer are the best of them.
        let most = found.len() / 2;
        let best = rank_documents(&query, IndexMatches { first, marks: &index.marks, rows: &rows }, most);
        prop_assert_eq!(&best[..], &found[..most]);
    }

    #[test]
    fn arbitrary_index_answers_yield_positive_finite_scores(
        question in "\\PC{0,80}",
        marks in prop::collection::vec(any::<u16>(), 0..60),
        rows in prop::collection::vec(prop::collection::vec(prop_oneof![0u32..80, any::<u32>()], 0..20), 0..12),
    ) {
        let query = PassageQuery::new(&question, 1_700_000_000_000, true);
        let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
        for candidate in rank_documents(&query, IndexMatches { first: 7, marks: &marks, rows: &rows }, 10) {
            prop_assert!(candidate.score > 0.0 && candidate.score.is_finite());
            prop_assert_ne!(marks[(candidate.position - 7) as usize], 0);
        }
    }

    #[test]
    fn a_budget_is_filled_by_score_and_never_exceeded(
        given in prop::collection::vec((0u64..60, 1usize..100, any::<bool>()), 0..60),
        budget in 0u32..1500,
        header in 0u32..20,
    ) {
        // One document a position, the first of each counts.
        let mut candidates: Vec<PassageCandidate> = Vec::new();
        for (position, tokens, first) in given {
            let known = candidates.iter().find(|other| other.position == position).map(|other| other.mark);
            let mark = known.unwrap_or(DocumentMark::new(3, tokens, first));
            candidates.push(PassageCandidate { position, score: 1.0, mark, why: MatchReasons::TERMS });
        }
        let cost = |taken: &[PassageCandidate]| -> u32 {
            let runs = taken.iter().enumerate().filter(|(at, candidate)| {
                candidate.mark.first || *at == 0 || taken[at - 1].position + 1 != candidate.position
            });
            taken.iter().map(|candidate| u32::from(candidate.mark.tokens)).sum::<u32>() + header * runs.count() as u32
        };
        // One after the other, with everything counted anew each time.
        let mut expected: Vec<PassageCandidate> = Vec::new();
        for candidate in &candidates {
            let mut more = expected.clone();
            more.push(*candidate);
            more.sort_by_key(|candidate| candidate.position);
            more.dedup();
            if cost(&more) <= budget {
                expected = more;
            }
        }
        let taken = select_passages(&candidates, budget, header);
        prop_assert!(cost(&taken) <= budget);
        prop_assert!(taken.windows(2).all(|pair| pair[0].position < pair[1].position));
        prop_assert_eq!(taken, expected);
    }
}

#[test]
fn a_hundred_thousand_positions_are_ranked() {
    let marks = vec![DocumentMark::new(20, 40, false).encode(); 100_000];
    let query = PassageQuery::new("boat tea", 0, false);
    let many: Vec<u32> = (0..100_000).step_by(7).collect();
    let rows = [&*many, &[99_999]];
    let found = rank_documents(&query, IndexMatches { first: 0, marks: &marks, rows: &rows }, 512);
    assert_eq!(found.len(), 512);
    assert_eq!(found[0].position, 99_999);
}

/// Scores and reasons of two documents alike but for their time and a word of time.
fn two(question: &str) -> Vec<(u64, f32, MatchReasons)> {
    const JUNE_3: u64 = 1_685_793_600_000;
    let said = [("the boat sank early", JUNE_3), ("the boat sank yesterday", JUNE_3 + 40 * 86_400_000)];
    let index = Index::of(
        said.iter()
            .map(|(text, time)| Some(PassageDocument { text, speaker: "", time: *time, first: true, tokens: 5 })),
    );
    let query = PassageQuery::new(question, 0, true);
    let rows = index.rows(&query);
    let found = rank_documents(&query, IndexMatches { first: 0, marks: &index.marks, rows: &rows }, 9);
    found.iter().map(|candidate| (candidate.position, candidate.score, candidate.why)).collect()
}

#[test]
fn hints_multiply_the_score() {
    let ratio = |found: &[(u64, f32, MatchReasons)]| (100.0 * found[0].1 / found[1].1).round();
    let plain = two("which boat?");
    assert_eq!((plain[0].0, ratio(&plain)), (0, 100.0));
    assert!(!plain[0].2.contains(MatchReasons::DATE) && !plain[1].2.contains(MatchReasons::TIME));
    let dated = two("which boat in July 2023?");
    assert_eq!((dated[0].0, ratio(&dated)), (1, 200.0));
    assert!(
        dated[0].2.contains(MatchReasons::DATE)
            && dated[0].2.contains(MatchReasons::TERMS)
            && !dated[1].2.contains(MatchReasons::DATE)
    );
    let timely = two("when did the boat sink?");
    assert_eq!((timely[0].0, ratio(&timely)), (1, 130.0));
    assert!(timely[0].2.contains(MatchReasons::TIME));
    // A hint alone finds nothing.
    assert_eq!(two("what happened in July 2023?"), []);
}

#[test]
fn a_document_scored_on_its_own_gains_nothing_from_its_neighbours() {
    let texts = ["The capital of France is Paris.", "My dog is called Bruno.", "I like tea.", "The capital, again."];
    let index = reference::index(&texts);
    let mut query = PassageQuery::new("capital of France", 0, true);
    assert_eq!(index.ask(&query).len(), 4);
    query.is_own_only = true;
    assert_eq!(index.ask(&query), [0, 3]);
}
