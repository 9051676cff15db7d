//! `rank` against what BM25 and the kernel say, term by term and passage by passage, with words as strings.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};

use keepline_recall::{
    mark::Mark,
    query::{Hints, Kind, Query},
    rank::{Candidate, Found, Limits, Why, rank},
    terms::{self, Passage},
};
use proptest::prelude::*;

/// A passage, or a hole.
#[derive(Debug, Clone)]
struct Document {
    text: String,
    speaker: &'static str,
    first: bool,
    hole: bool,
}

fn unspaced(c: char) -> bool {
    "猫犬山กข".contains(c)
}

/// The words of a text, straightforwardly; only of what `text()` makes.
fn words(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let chars: Vec<char> = text.chars().collect();
    for run in chars.chunk_by(|a, b| a.is_alphanumeric() == b.is_alphanumeric() && unspaced(*a) == unspaced(*b)) {
        let word = run.iter().collect::<String>().to_lowercase();
        match run[0] {
            c if !c.is_alphanumeric() => {}
            c if unspaced(c) && run.len() > 1 => words.extend(run.windows(2).map(|pair| pair.iter().collect())),
            c if unspaced(c) || word.contains(|c: char| c.is_ascii_digit()) => drop(words.insert(word)),
            _ => drop(words.insert(word.chars().take(terms::PREFIX).collect())),
        }
    }
    words
}

fn number(word: &str) -> u32 {
    let terms = terms::of(&Passage { text: word, speaker: "", time: None });
    assert_eq!(terms.len(), 1, "{word:?}");
    terms[0]
}

fn index(documents: &[Document]) -> (Vec<u16>, BTreeMap<u32, Vec<u32>>) {
    let (mut marks, mut postings) = (Vec::new(), BTreeMap::<u32, Vec<u32>>::new());
    for (position, document) in documents.iter().enumerate() {
        if document.hole {
            marks.push(0);
            continue;
        }
        let terms = terms::of(&Passage { text: &document.text, speaker: document.speaker, time: None });
        marks.push(Mark::new(terms.len(), 10, document.first).encode());
        terms.into_iter().for_each(|term| postings.entry(term).or_default().push(position as u32));
    }
    (marks, postings)
}

fn ask(question: &str, documents: &[Document], limits: Limits) -> Vec<Candidate> {
    let (marks, postings) = index(documents);
    let query = Query::new(question, Hints::default());
    let terms: Vec<&[u32]> = query.terms.iter().map(|term| postings.get(term).map_or(&[][..], Vec::as_slice)).collect();
    rank(&query, &Found { first: 1_000, marks: &marks, terms: &terms }, &[], limits)
}

/// The scores by the formula, quadratic.
fn reference(question: &str, documents: &[Document]) -> BTreeMap<u64, f64> {
    let sets: Vec<BTreeSet<String>> =
        documents.iter().map(|document| &words(&document.text) | &words(document.speaker)).collect();
    let lengths: Vec<f64> = (documents.iter().zip(&sets))
        .map(|(document, set)| if document.speaker.is_empty() { set.len() } else { set.len() + 1 } as f64)
        .collect();
    let sessions: Vec<usize> = (0..documents.len())
        .map(|at| documents[..=at].iter().filter(|document| document.first && !document.hole).count())
        .collect();
    let smoothed = |value: &dyn Fn(usize) -> f64, at: usize| -> f64 {
        (0..documents.len())
            .filter(|other| at.abs_diff(*other) <= 5 && sessions[at] == sessions[*other] && !documents[*other].hole)
            .map(|other| 0.65_f64.powi(at.abs_diff(other) as i32) * value(other))
            .sum()
    };
    let there: Vec<usize> = (0..documents.len()).filter(|at| !documents[*at].hole).collect();
    let long = |at: usize| smoothed(&|other| lengths[other], at);
    let mean = (there.iter().map(|at| long(*at)).sum::<f64>() / there.len() as f64).max(1.0);
    let asked = words(question);
    let mut scores = BTreeMap::new();
    for word in &asked {
        let has = |at: usize| f64::from(u8::from(sets[at].contains(word)));
        if there.len() >= 40 && there.iter().filter(|at| sets[**at].contains(word)).count() * 4 > there.len() {
            continue;
        }
        let having = there.iter().filter(|at| smoothed(&has, **at) > 0.0).count() as f64;
        let weight = (1.0 + (there.len() as f64 - having + 0.5) / (having + 0.5)).ln();
        for at in &there {
            let count = smoothed(&has, *at);
            let score = weight * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * long(*at) / mean));
            *scores.entry(*at as u64 + 1_000).or_insert(0.0) += score;
        }
    }
    let lower = question.to_lowercase();
    let named = |speaker: &str| lower.split(|c: char| !c.is_alphanumeric() || unspaced(c)).any(|word| word == speaker);
    for (position, score) in &mut scores {
        if named(documents[*position as usize - 1_000].speaker)
            && !documents[*position as usize - 1_000].speaker.is_empty()
        {
            *score *= 1.3;
        }
    }
    scores.retain(|_, score| *score > 0.0);
    scores
}

/// Few letters, so that words meet; of several scripts.
fn text() -> impl Strategy<Value = String> {
    "([abAB7жßé]{1,6}|[猫犬山]{1,3}|[กข]{1,3}|anna|[ ,.\n-]){0,12}"
}

fn document() -> impl Strategy<Value = Document> {
    (text(), prop_oneof![Just("anna"), Just("bo"), Just("")], prop::bool::weighted(0.1), prop::bool::weighted(0.1))
        .prop_map(|(text, speaker, first, hole)| Document { text, speaker, first, hole })
}

proptest! {
    #[test]
    fn scores_are_those_of_the_formula(question in text(), documents in prop::collection::vec(document(), 1..70)) {
        let all: BTreeSet<String> = documents.iter().map(|document| words(&document.text)).fold(words(&question), |a, b| &a | &b);
        // Two words may be one number, by chance.
        prop_assume!(all.iter().map(|word| number(word)).collect::<BTreeSet<_>>().len() == all.len());
        let wanted = reference(&question, &documents);
        let found = ask(&question, &documents, Limits { candidates: 1_000, above: 0.0 });
        prop_assert_eq!(found.iter().map(|found| found.position).collect::<BTreeSet<_>>(), wanted.keys().copied().collect());
        prop_assert!(found.windows(2).all(|pair| pair[0].score >= pair[1].score));
        for found in &found {
            let wanted = wanted[&found.position];
            prop_assert!((f64::from(found.score) - wanted).abs() <= 1e-4 * wanted.max(1.0), "{found:?}: {wanted}");
        }
        let few = ask(&question, &documents, Limits { candidates: 5, above: 0.0 });
        prop_assert_eq!(&few[..], &found[..found.len().min(5)]);
    }

    #[test]
    fn whatever_a_store_answers_is_ranked(
        question in any::<String>(),
        marks in prop::collection::vec(any::<u16>(), 0..40),
        offsets in prop::collection::vec(any::<u32>().prop_map(|offset| offset % 50), 0..20),
    ) {
        let query = Query::new(&question, Hints::default());
        let mut offsets = offsets;
        offsets.sort_unstable();
        let terms = vec![&offsets[..]; query.terms.len()];
        let excluded = vec![2..4, 4..5];
        let ranked = rank(&query, &Found { first: 0, marks: &marks, terms: &terms }, &excluded, Limits::default());
        for found in &ranked {
            prop_assert!(!(2..5).contains(&found.position));
            prop_assert_eq!(Mark::decode(marks[found.position as usize]), Some(found.mark));
        }
    }

    #[test]
    fn terms_of_any_text_are_as_a_store_wants_them(text in any::<String>(), speaker in any::<String>(), time in any::<Option<u64>>()) {
        let terms = terms::of(&Passage { text: &text, speaker: &speaker, time });
        prop_assert!(terms.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert!(terms.iter().all(|term| *term < terms::TERMS));
        let query = Query::new(&text, Hints::default());
        prop_assert_eq!(query.terms.iter().collect::<BTreeSet<_>>().len(), query.terms.len());
        prop_assert!(query.terms.len() <= 256 && query.kinds.len() == query.terms.len());
        // A text finds itself.
        if query.terms.len() < 256 {
            let words = query.terms.iter().zip(&query.kinds).filter(|(_, kind)| **kind == Kind::Word);
            prop_assert!(words.into_iter().all(|(term, _)| terms.contains(term)));
        }
    }
}

fn said(texts: &[&str]) -> Vec<Document> {
    texts.iter().map(|text| Document { text: (*text).into(), speaker: "", first: true, hole: false }).collect()
}

/// The position that is found first, of sessions of one passage each.
fn best(question: &str, texts: &[&str]) -> Option<u64> {
    ask(question, &said(texts), Limits::default()).first().map(|found| found.position - 1_000)
}

#[test]
fn languages_have_words() {
    let german = ["Die Donaudampfschifffahrt ist alt.", "Straßenbahnen fahren oft.", "Übermut tut selten gut."];
    assert_eq!(best("Wer fährt auf der Donau?", &german), Some(0));
    assert_eq!(best("ÜBERMUT", &german), Some(2));
    let chinese = ["我昨天去了北京大学。", "上海的天气很好。", "他喜欢吃苹果。"];
    assert_eq!(best("北京有什么？", &chinese), Some(0));
    assert_eq!(best("苹果", &chinese), Some(2));
    let thai = ["ฉันชอบกินข้าวผัด", "เมื่อวานไปเชียงใหม่", "แมวนอนหลับ"];
    assert_eq!(best("เชียงใหม่อยู่ที่ไหน", &thai), Some(1));
    let code = ["fn open_store(path: &Path)", "error E0502: cannot borrow", "{\"exit\": 137, \"signal\": 9}"];
    assert_eq!(best("what was E0502?", &code), Some(1));
    assert_eq!(best("exit 137", &code), Some(2));
    assert_eq!(best("nothing of this", &["Entirely different."]), None);
}

#[test]
fn a_border_keeps_sessions_apart() {
    let mut documents = said(&["the ferry leaves", "at noon", "another talk"]);
    documents[1].first = false;
    let found = ask("ferry", &documents, Limits::default());
    assert_eq!(found.iter().map(|found| found.position).collect::<Vec<_>>(), [1_000, 1_001]);
}

#[test]
fn dates_are_hints() {
    // 8 May 2023, and 8 June.
    let times = [1_683_504_000_000, 1_686_182_400_000];
    let documents =
        times.map(|time| terms::of(&Passage { text: "we went to a museum", speaker: "", time: Some(time) }));
    let marks = documents.clone().map(|terms| Mark::new(terms.len(), 6, true).encode());
    for (question, wanted) in [
        ("museum in May", vec![0]),
        ("museum on 8 June, 2023", vec![1]),
        ("museum 2023-05-08?", vec![0]),
        ("museum on June 8th", vec![1]),
        ("museum in 2023", vec![0, 1]),
        ("museum in March", vec![]),
    ] {
        let query = Query::new(question, Hints::default());
        let postings: Vec<Vec<u32>> = query
            .terms
            .iter()
            .map(|term| (0..2).filter(|at| documents[*at as usize].contains(term)).collect())
            .collect();
        let terms: Vec<&[u32]> = postings.iter().map(Vec::as_slice).collect();
        let found = rank(&query, &Found { first: 0, marks: &marks, terms: &terms }, &[], Limits::default());
        let mut dated: Vec<u64> =
            found.iter().filter(|found| found.why.has(Why::DATE)).map(|found| found.position).collect();
        dated.sort_unstable();
        assert_eq!(dated, wanted, "{question}");
        assert!(!Query::new(question, Hints { speaker: true, time: false }).kinds.contains(&Kind::Date));
    }
}
