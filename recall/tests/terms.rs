//! Terms and questions, on arbitrary text.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod reference;

use std::collections::BTreeSet;

use keepline_recall::{DOCUMENT_TERMS, MAX_TERMS, PassageDocument, PassageQuery, TERM_LIMIT, TermKind, extract_terms};
use proptest::prelude::*;
use reference::WORDS;

const DAY: u64 = 86_400_000;
/// 2023-06-03, a time of that day.
const JUNE_3: u64 = 1_685_793_600_000;

fn ascending(terms: &[u32]) -> bool {
    terms.windows(2).all(|pair| pair[0] < pair[1]) && terms.iter().all(|term| *term < TERM_LIMIT)
}

fn document(text: &str, speaker: &str, time: u64) -> BTreeSet<u32> {
    PassageDocument { text, speaker, time, first: false, tokens: 1 }.to_posting().terms.into_iter().collect()
}

/// Whether a question's date is that of a document.
fn dated(question: &str, now: u64, time: u64) -> bool {
    let said = document("x", "", time);
    let query = PassageQuery::new(question, now, true);
    query.rows.iter().any(|row| row.kind == TermKind::Date && said.contains(&row.term))
}

fn has(question: &str, kind: TermKind) -> bool {
    PassageQuery::new(question, JUNE_3, true).rows.iter().any(|row| row.kind == kind)
}

proptest! {
    #[test]
    fn a_posting_has_ascending_terms_and_a_nonzero_mark(text in "\\PC{0,280}", speaker in "\\PC{0,20}", time: u64, first: bool) {
        let posting = PassageDocument { text: &text, speaker: &speaker, time, first, tokens: 70 }.to_posting();
        prop_assert!(ascending(&posting.terms));
        prop_assert_ne!(posting.mark, 0);
        prop_assert!(ascending(&extract_terms(&text)));
        let said: BTreeSet<u32> = posting.terms.into_iter().collect();
        prop_assert!(extract_terms(&text).iter().all(|term| said.contains(term)));
    }

    #[test]
    fn terms_of_a_word_do_not_depend_on_its_neighbours(left in "\\PC{0,40}", right in "\\PC{0,40}") {
        let both: BTreeSet<u32> = extract_terms(&left).into_iter().chain(extract_terms(&right)).collect();
        let together: BTreeSet<u32> = extract_terms(&format!("{left} {right}")).into_iter().collect();
        prop_assert_eq!(both, together);
    }

    #[test]
    fn a_question_asks_for_each_term_once(text in "(\\PC{0,9} |[A-Za-z]{1,9} ){0,200}", now: u64) {
        let query = PassageQuery::new(&text, now, true);
        prop_assert!(query.rows.len() <= MAX_TERMS);
        prop_assert!(query.terms().iter().all(|term| *term < TERM_LIMIT));
        prop_assert_eq!(query.terms().into_iter().collect::<BTreeSet<_>>().len(), query.rows.len());
        let plain = PassageQuery::new(&text, now, false);
        prop_assert!(plain.rows.iter().all(|row| row.kind == TermKind::Word));
        // What a text is asked with its own words, it has.
        if plain.rows.len() < 128 {
            prop_assert!(extract_terms(&text).into_iter().eq(plain.terms().into_iter().collect::<BTreeSet<_>>()));
        }
    }
}

#[test]
fn no_text_has_too_many_terms() {
    let text: String = (0..1000).map(|number| format!("word{number} ")).collect();
    let posting = PassageDocument { text: &text, speaker: &text, time: JUNE_3, first: true, tokens: 2000 }.to_posting();
    assert_eq!(posting.terms.len(), DOCUMENT_TERMS);
    assert!(ascending(&posting.terms));
    // What a passage can hold at most is far from it.
    let words: String = (0..140).map(|number| format!("{} ", char::from(b'!' + number % 90))).collect();
    for passage in [words, "aB".repeat(140), "abcdefg".repeat(40), "猫は".repeat(46)] {
        let posting =
            PassageDocument { text: &passage, speaker: "user", time: JUNE_3, first: true, tokens: 70 }.to_posting();
        assert!(posting.terms.len() < 300);
    }
}

#[test]
fn words_are_reduced_to_their_stems() {
    for (word, stems) in WORDS {
        let expected: BTreeSet<u32> = stems.iter().flat_map(|stem| extract_terms(stem)).collect();
        assert_eq!(extract_terms(word), expected.into_iter().collect::<Vec<_>>(), "{word}");
        assert_eq!(extract_terms(word).len(), stems.len(), "{word}");
    }
    assert_ne!(extract_terms("12345"), extract_terms("12346"));
    assert_eq!(extract_terms(" .,;—!? ။ ។ ・ "), [0; 0]);
}

#[test]
fn terms_of_hints_are_distinct_from_terms_of_words() {
    let facets = |speaker, time| &document("", speaker, time) - &document("", "", 0);
    let user = facets("user", 0);
    assert_eq!(user.len(), 1);
    assert!(!extract_terms("user").iter().any(|term| user.contains(term)));
    assert_eq!(facets("", JUNE_3).len(), 4);
    assert_eq!(facets("Anna Maria", 0).len(), 2);
    assert_eq!(document("it was last week", "", 0).len(), 5);
}

#[test]
fn a_day_is_known_however_it_is_written() {
    for question in [
        "What happened on 3 June, 2023?",
        "what happened on june 3rd",
        "on the 3rd of June 2023",
        "Jun 3, 2023",
        "on 2023-06-03",
    ] {
        assert!(dated(question, 0, JUNE_3), "{question}");
        assert!(!dated(question, 0, JUNE_3 + 30 * DAY), "{question}");
    }
    // The month's other days are nearer than no day at all.
    assert!(dated("on 3 June 2023", 0, JUNE_3 + 5 * DAY));
    assert!(dated("What did they plan in June?", 0, JUNE_3 + 365 * DAY));
    assert!(!dated("What did they plan in June 2023?", 0, JUNE_3 + 366 * DAY));
}

#[test]
fn a_relative_day_needs_a_clock() {
    assert!(dated("what did I say yesterday", JUNE_3 + DAY, JUNE_3));
    assert!(!dated("what did I say yesterday", JUNE_3, JUNE_3));
    assert!(!dated("what did I say yesterday", 0, JUNE_3));
    assert!(dated("and today?", JUNE_3, JUNE_3));
    assert!(dated("what was planned last week", JUNE_3 + 6 * DAY, JUNE_3));
}

#[test]
fn the_verbs_may_and_march_are_not_taken_for_months() {
    assert!(!has("what may happen if they march?", TermKind::Date));
    assert!(!has("May I ask?", TermKind::Date));
    assert!(has("what happened in May?", TermKind::Date));
    assert!(has("what happened on 2 may?", TermKind::Date));
}

#[test]
fn questions_about_speaker_and_time_are_recognised() {
    assert!(has("When did Anna leave?", TermKind::Time));
    assert!(!has("Where did Anna go?", TermKind::Time));
    let rows = PassageQuery::new("Where did Anna go?", 0, true).rows;
    let kinds: Vec<TermKind> = rows.iter().map(|row| row.kind).collect();
    assert_eq!(
        kinds,
        [TermKind::Word, TermKind::Speaker, TermKind::Word, TermKind::Word, TermKind::Speaker, TermKind::Word]
    );
    assert!(document("", "Anna", 0).contains(&rows[4].term));
}
