//! Terms and questions, on arbitrary text.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod reference;

use std::collections::BTreeSet;

use keepline_recall::{DOCUMENT_TERMS, Document, Hints, Kind, MAX_TERMS, Query, TERM_LIMIT, terms};
use proptest::prelude::*;
use reference::WORDS;

const DAY: u64 = 86_400_000;
/// 2023-06-03, a time of that day.
const JUNE_3: u64 = 1_685_793_600_000;

fn ascending(terms: &[u32]) -> bool {
    terms.windows(2).all(|pair| pair[0] < pair[1]) && terms.iter().all(|term| *term < TERM_LIMIT)
}

fn document(text: &str, speaker: &str, time: u64) -> BTreeSet<u32> {
    Document { text, speaker, time, first: false, tokens: 1 }.posting().terms.into_iter().collect()
}

/// Whether a question's date is that of a document.
fn dated(question: &str, now: u64, time: u64) -> bool {
    let said = document("x", "", time);
    let query = Query::new(question, now, Hints::default());
    query.rows.iter().any(|row| row.kind == Kind::Date && said.contains(&row.term))
}

fn has(question: &str, kind: Kind) -> bool {
    Query::new(question, JUNE_3, Hints::default()).rows.iter().any(|row| row.kind == kind)
}

proptest! {
    #[test]
    fn a_posting_is_what_a_store_takes(text in "\\PC{0,280}", speaker in "\\PC{0,20}", time: u64, first: bool) {
        let posting = Document { text: &text, speaker: &speaker, time, first, tokens: 70 }.posting();
        prop_assert!(ascending(&posting.terms));
        prop_assert_ne!(posting.mark, 0);
        prop_assert!(ascending(&terms(&text)));
        let said: BTreeSet<u32> = posting.terms.into_iter().collect();
        prop_assert!(terms(&text).iter().all(|term| said.contains(term)));
    }

    #[test]
    fn words_stand_for_themselves(left in "\\PC{0,40}", right in "\\PC{0,40}") {
        let both: BTreeSet<u32> = terms(&left).into_iter().chain(terms(&right)).collect();
        let together: BTreeSet<u32> = terms(&format!("{left} {right}")).into_iter().collect();
        prop_assert_eq!(both, together);
    }

    #[test]
    fn a_question_asks_for_each_term_once(text in "(\\PC{0,9} |[A-Za-z]{1,9} ){0,200}", now: u64) {
        let query = Query::new(&text, now, Hints::default());
        prop_assert!(query.rows.len() <= MAX_TERMS);
        prop_assert!(query.terms().iter().all(|term| *term < TERM_LIMIT));
        prop_assert_eq!(query.terms().into_iter().collect::<BTreeSet<_>>().len(), query.rows.len());
        let plain = Query::new(&text, now, Hints { speaker: false, time: false });
        prop_assert!(plain.rows.iter().all(|row| row.kind == Kind::Word));
        // What a text is asked with its own words, it has.
        if plain.rows.len() < 128 {
            prop_assert!(terms(&text).into_iter().eq(plain.terms().into_iter().collect::<BTreeSet<_>>()));
        }
    }
}

#[test]
fn no_text_has_too_many_terms() {
    let text: String = (0..1000).map(|number| format!("word{number} ")).collect();
    let posting = Document { text: &text, speaker: &text, time: JUNE_3, first: true, tokens: 2000 }.posting();
    assert_eq!(posting.terms.len(), DOCUMENT_TERMS);
    assert!(ascending(&posting.terms));
    // What a passage can hold at most is far from it.
    let words: String = (0..140).map(|number| format!("{} ", char::from(b'!' + number % 90))).collect();
    for passage in [words, "aB".repeat(140), "abcdefg".repeat(40), "猫は".repeat(46)] {
        let posting = Document { text: &passage, speaker: "user", time: JUNE_3, first: true, tokens: 70 }.posting();
        assert!(posting.terms.len() < 300);
    }
}

#[test]
fn words_are_known_by_their_beginnings() {
    for (word, stems) in WORDS {
        let expected: BTreeSet<u32> = stems.iter().flat_map(|stem| terms(stem)).collect();
        assert_eq!(terms(word), expected.into_iter().collect::<Vec<_>>(), "{word}");
        assert_eq!(terms(word).len(), stems.len(), "{word}");
    }
    assert_ne!(terms("12345"), terms("12346"));
    assert_eq!(terms(" .,;—!? ။ ។ ・ "), [0; 0]);
}

#[test]
fn hints_are_no_words() {
    let facets = |speaker, time| &document("", speaker, time) - &document("", "", 0);
    let user = facets("user", 0);
    assert_eq!(user.len(), 1);
    assert!(!terms("user").iter().any(|term| user.contains(term)));
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
fn verbs_are_no_months() {
    assert!(!has("what may happen if they march?", Kind::Date));
    assert!(!has("May I ask?", Kind::Date));
    assert!(has("what happened in May?", Kind::Date));
    assert!(has("what happened on 2 may?", Kind::Date));
}

#[test]
fn who_and_when_are_asked_for() {
    assert!(has("When did Anna leave?", Kind::Time));
    assert!(!has("Where did Anna go?", Kind::Time));
    let rows = Query::new("Where did Anna go?", 0, Hints::default()).rows;
    let kinds: Vec<Kind> = rows.iter().map(|row| row.kind).collect();
    assert_eq!(kinds, [Kind::Word, Kind::Speaker, Kind::Word, Kind::Word, Kind::Speaker, Kind::Word]);
    assert!(document("", "Anna", 0).contains(&rows[4].term));
}
