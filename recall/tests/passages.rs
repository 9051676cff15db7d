//! Cutting, on arbitrary text.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use keepline_recall::{PASSAGE_TOKENS, WHOLE_TOKENS, count_tokens, cut_passages};
use proptest::prelude::*;

fn passages(text: &str) -> Vec<&str> {
    cut_passages(text).collect()
}

fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "\\PC{0,40}",
        "[a-z]{1,12}[.!?]? ",
        "[a-z]{200,400}",
        "[ \\n\\t]{1,9}",
        "(猫|は|。|！|ก|ि){1,60}",
        "(e\u{301}|👩🏽\u{200D}🚀|\u{1F1E9}\u{1F1EA}){1,50}",
    ];
    prop::collection::vec(piece, 0..15).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn all_but_white_space_is_in_a_passage(text in texts()) {
        let mut rest = text.as_str();
        for passage in cut_passages(&text) {
            prop_assert!(count_tokens(passage) <= WHOLE_TOKENS);
            prop_assert!(!passage.is_empty());
            prop_assert_eq!(passage, passage.trim());
            let at = rest.find(passage).unwrap();
            prop_assert!(rest[..at].trim().is_empty());
            rest = &rest[at + passage.len()..];
            prop_assert!(count_tokens(passage) <= PASSAGE_TOKENS || rest.trim().is_empty());
        }
        prop_assert!(rest.trim().is_empty());
    }

    #[test]
    fn cutting_a_passage_again_leaves_it_whole(text in texts()) {
        for passage in cut_passages(&text) {
            prop_assert_eq!(passages(passage), vec![passage]);
        }
    }

    #[test]
    fn no_passage_could_take_the_next_sentence(sentences in prop::collection::vec("[a-z]{1,20}( [a-z]{1,9}){1,12}\\.", 1..30)) {
        let text = sentences.join(" ");
        let cut = passages(&text);
        for pair in cut.windows(2) {
            let next = pair[1].split_inclusive('.').next().unwrap();
            prop_assert!(pair[0].len() + 1 + next.len() > 4 * PASSAGE_TOKENS);
            prop_assert!(pair[0].ends_with('.'));
        }
    }
}

#[test]
fn short_sentences_are_joined_into_one_passage() {
    assert_eq!(passages("Yes. No! Perhaps?\n\nGood."), ["Yes. No! Perhaps?\n\nGood."]);
    assert_eq!(passages(" \n "), [""; 0]);
}

#[test]
fn a_text_just_over_the_passage_size_stays_whole() {
    let text = "word ".repeat(4 * WHOLE_TOKENS / 5);
    assert_eq!(passages(&text), [text.trim()]);
    let longer = text.clone() + "and more";
    assert_eq!(passages(&longer).len(), 2);
    assert!(passages(&longer).iter().all(|passage| count_tokens(passage) <= PASSAGE_TOKENS));
}

#[test]
fn a_long_answer_is_cut_at_its_sentences() {
    let sentence = "The borrow checker refuses this because the reference outlives the value (see E0597). ";
    let text = sentence.repeat(12);
    let cut = passages(&text);
    assert_eq!(cut.len(), 4);
    assert!(cut.iter().all(|passage| *passage == sentence.repeat(3).trim()));
}

#[test]
fn scripts_without_spaces_are_cut_at_their_stops() {
    let text = "他昨天去了北京参加会议，并且见到了很多老朋友。".repeat(9);
    let cut = passages(&text);
    assert!(cut.len() > 1);
    assert!(cut.iter().all(|passage| passage.ends_with('。')));
}

#[test]
fn code_is_cut_at_its_lines() {
    let line = "    let value = self.table.get(key).copied().unwrap_or(Value::default());\n";
    let text = line.repeat(10);
    assert!(passages(&text).iter().all(|passage| passage.ends_with(';') && passage.starts_with("let")));
}

#[test]
fn text_without_sentence_ends_is_cut_at_spaces_or_between_characters() {
    let words = "word ".repeat(200);
    assert!(passages(&words).iter().all(|passage| passage.split(' ').all(|word| word == "word")));
    let one = "é".repeat(1000);
    assert!(passages(&one).iter().all(|passage| passage.chars().all(|character| character == 'é')));
    for whole in ["👩\u{200D}👩🏽\u{200D}👧", "e\u{301}", "\u{1F1E9}\u{1F1EA}", "น้ำ", "कि", "ក្ក"]
    {
        let text = whole.repeat(100);
        assert!(passages(&text).iter().all(|passage| passage.len() % whole.len() == 0), "{whole}");
    }
}

#[test]
fn an_overlong_grapheme_cluster_is_cut() {
    let marks = format!("e{}", "\u{301}".repeat(4000));
    let flags = "\u{1F469}\u{200D}".repeat(500);
    for text in [&marks, &flags] {
        let found = passages(text);
        assert!(
            found.len() > 10 && found.iter().all(|passage| count_tokens(passage) <= WHOLE_TOKENS),
            "{}",
            found.len()
        );
        assert_eq!(found.concat(), **text);
    }
}
