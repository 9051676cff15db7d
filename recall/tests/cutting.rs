//! Cutting texts into passages, marks, and filling a budget.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use keepline_recall::{
    mark::Mark,
    passages::{PASSAGE_TOKENS, cut, tokens},
    rank::{Candidate, Why},
    select::select,
    time::Day,
};
use proptest::prelude::*;

fn passages(text: &str) -> Vec<&str> {
    cut(text).map(|range| &text[range]).collect()
}

/// Sentences of several scripts, code, and whatever else.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z]{1,12}[ .!?\n]{0,2}",
        "[猫犬山。！？」]{1,40}",
        "[กขคั่]{1,30}",
        "(👩🏽‍💻|🇩🇪|é|क्ष|\r\n){1,20}",
        "\\PC{0,30}",
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn passages_cover_the_text(text in text()) {
        let mut end = 0;
        for range in cut(&text) {
            prop_assert!(text[end..range.start].trim().is_empty());
            let passage = &text[range.clone()];
            prop_assert!(!passage.is_empty() && passage.trim() == passage);
            prop_assert!(tokens(passage) <= PASSAGE_TOKENS + 1, "{passage:?}");
            end = range.end;
        }
        prop_assert!(text[end..].trim().is_empty());
    }

    #[test]
    fn marks_come_back(terms in 0_usize..1_000, tokens in 0_usize..1_000, first: bool, any: u16) {
        let mark = Mark::new(terms, tokens, first);
        prop_assert_eq!(Mark::decode(mark.encode()), Some(mark));
        prop_assert_eq!(usize::from(mark.terms), terms.min(255));
        prop_assert_eq!(usize::from(mark.tokens), tokens.clamp(1, 127));
        prop_assert_eq!(Mark::decode(any).is_none(), any == 0);
    }

    #[test]
    fn a_budget_is_kept(
        candidates in prop::collection::vec((0_u64..60, 1_usize..100, prop::bool::weighted(0.2)), 0..80),
        budget in 0_usize..1_500,
        header in 0_usize..20,
    ) {
        let candidates: Vec<Candidate> = candidates
            .into_iter()
            .map(|(position, tokens, first)| Candidate {
                position,
                score: 1.0,
                why: Why::TERMS,
                mark: Mark::new(3, tokens, first),
            })
            .collect();
        let taken = select(&candidates, budget, header);
        prop_assert!(taken.windows(2).all(|pair| pair[0].position < pair[1].position));
        prop_assert!(taken.iter().all(|taken| candidates.contains(taken)));
        let cost = |taken: &[Candidate]| -> usize {
            let runs = taken.windows(2).filter(|pair| pair[0].position + 1 != pair[1].position || pair[1].mark.first);
            let headers = if taken.is_empty() { 0 } else { runs.count() + 1 };
            taken.iter().map(|taken| usize::from(taken.mark.tokens)).sum::<usize>() + headers * header
        };
        prop_assert!(cost(&taken) <= budget);
        // Greedy: each candidate is there, or did not fit when its turn came.
        let mut wanted: Vec<Candidate> = Vec::new();
        for candidate in &candidates {
            let mut with = wanted.clone();
            with.push(*candidate);
            with.sort_by_key(|candidate| candidate.position);
            if wanted.iter().all(|taken| taken.position != candidate.position) && cost(&with) <= budget {
                wanted = with;
            }
        }
        prop_assert_eq!(taken, wanted);
    }
}

#[test]
fn cuts_lie_at_the_ends_of_sentences() {
    let sentence = format!("It was {}3.14 (see e.g. above). ", "very ".repeat(30));
    let text = sentence.repeat(3);
    assert_eq!(passages(&text), [sentence.trim_end(); 3]);
    let line = format!("let x = {}1;", "a + ".repeat(40));
    assert_eq!(passages(&format!("{line}\n{line}\n")), [&line[..], &line]);
    let wide = format!("「{}。」", "山".repeat(40));
    assert_eq!(passages(&wide.repeat(2)), [&wide[..], &wide]);
    let hindi = format!("{}नमस्ते। ", "क ".repeat(40));
    assert_eq!(passages(&hindi.repeat(2)), [hindi.trim_end(), hindi.trim_end()]);
    assert_eq!(passages("Short. Ones! Stay?\nTogether."), ["Short. Ones! Stay?\nTogether."]);
    assert_eq!(passages(" \n "), [""; 0]);
}

#[test]
fn a_sentence_without_end_is_cut_at_spaces_or_between_clusters() {
    let text = "word ".repeat(200);
    let cut = passages(&text);
    assert!(cut.iter().all(|passage| passage.split(' ').all(|word| word == "word")), "{cut:?}");
    for cluster in ["👩🏽‍💻", "é", "क्ष", "กั่"] {
        let text = cluster.repeat(150);
        let cut = passages(&text);
        assert!(cut.len() > 1);
        assert!(cut.iter().all(|passage| passage.len() % cluster.len() == 0 && passage.starts_with(cluster)));
    }
}

#[test]
fn days_are_those_of_the_calendar() {
    for (time, year, month, day) in [
        (0, 1970, 1, 1),
        (951_782_400_000, 2000, 2, 29),
        (951_868_799_999, 2000, 2, 29),
        (951_868_800_000, 2000, 3, 1),
        (1_735_603_200_000, 2024, 12, 31),
        (4_107_542_400_000, 2100, 3, 1),
    ] {
        assert_eq!(Day::of(time), Day { year, month, day });
    }
}
