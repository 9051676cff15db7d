//! A plain reference of the ranking: strings, maps and nested loops.

#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};

use keepline_recall::{IndexMatches, PassageDocument, PassageQuery, rank_documents};

/// Words of many scripts, each with the terms it stands for.
pub const WORDS: [(&str, &[&str]); 20] = [
    ("Anna", &["anna"]),
    ("boat", &["boat"]),
    ("Boats", &["boat"]),
    ("tea", &["tea"]),
    ("painted", &["pain"]),
    ("E0382", &["e0382"]),
    ("1234567", &["1234567"]),
    ("Über", &["uber"]),
    ("ÜBERALL", &["uber"]),
    ("Дорога", &["доро"]),
    ("ΟΔΟΣ", &["οδοσ"]),
    ("हिन्दी", &["हिन्"]),
    ("مدرسة", &["مدرس"]),
    ("猫", &["猫"]),
    ("東京都", &["東京", "京都"]),
    ("ひらがな", &["ひら", "らが", "がな"]),
    ("ไทย", &["ไท", "ทย"]),
    ("한국", &["한국"]),
    ("getUserName", &["getu", "get", "user", "name"]),
    ("a", &["a"]),
];

/// A document: its words, its speaker, and whether a session begins with it.
#[derive(Clone, Debug)]
pub struct Said {
    pub words: Vec<usize>,
    pub speaker: &'static str,
    pub first: bool,
}

pub fn text(words: &[usize]) -> String {
    words.iter().map(|word| WORDS[*word % WORDS.len()].0).collect::<Vec<_>>().join(" ")
}

pub fn stems(words: &[usize]) -> BTreeSet<&'static str> {
    words.iter().flat_map(|word| WORDS[*word % WORDS.len()].1.iter().copied()).collect()
}

/// An index, as a store has it; a hole where there is no document.
pub struct Index {
    pub marks: Vec<u16>,
    pub terms: BTreeMap<u32, Vec<u32>>,
}

impl Index {
    pub fn of<'a>(documents: impl IntoIterator<Item = Option<PassageDocument<'a>>>) -> Self {
        let mut index = Self { marks: Vec::new(), terms: BTreeMap::new() };
        for document in documents {
            let offset = index.marks.len() as u32;
            let Some(document) = document else {
                index.marks.push(0);
                continue;
            };
            let posting = document.to_posting();
            index.marks.push(posting.mark);
            for term in posting.terms {
                index.terms.entry(term).or_default().push(offset);
            }
        }
        index
    }

    pub fn rows(&self, query: &PassageQuery) -> Vec<&[u32]> {
        query.rows.iter().map(|row| self.terms.get(&row.term).map_or(&[][..], Vec::as_slice)).collect()
    }

    /// Positions in order of score.
    pub fn ask(&self, query: &PassageQuery) -> Vec<u64> {
        let rows = self.rows(query);
        let found = rank_documents(query, IndexMatches { first: 0, marks: &self.marks, rows: &rows }, 512);
        found.iter().map(|candidate| candidate.position).collect()
    }
}

/// The index of texts that one speaker says in one session, a day each.
pub fn index(texts: &[&str]) -> Index {
    Index::of(texts.iter().enumerate().map(|(at, text)| {
        Some(PassageDocument { text, speaker: "", time: 0, first: at == 0, tokens: text.len().div_ceil(4) })
    }))
}

/// Scores by position, of those above 0.
pub fn scores(memory: &[Option<Said>], question: &BTreeSet<&str>, names: &BTreeSet<&str>) -> BTreeMap<u64, f64> {
    let count = memory.iter().flatten().count() as f64;
    let near = |at: usize, other: usize| {
        let (low, high) = (at.min(other), at.max(other));
        if high - low > 5 {
            return 0.0;
        }
        let apart = memory[low..=high].iter().any(Option::is_none)
            || memory[low + 1..=high].iter().flatten().any(|said| said.first);
        if apart { 0.0 } else { 0.65_f64.powi((high - low) as i32) }
    };
    let smooth = |amount: &dyn Fn(&Said) -> f64| -> Vec<f64> {
        let all = 0..memory.len();
        let of = |other: usize| memory[other].as_ref().map_or(0.0, amount);
        all.clone().map(|at| all.clone().map(|other| near(at, other) * of(other)).sum()).collect()
    };
    let lengths = smooth(&|said| stems(&said.words).len() as f64);
    let mean = (lengths.iter().sum::<f64>() / count.max(1.0)).max(1.0);
    let mut scores = vec![0.0; memory.len()];
    let having = |has: &dyn Fn(&Said) -> bool| memory.iter().flatten().filter(|said| has(said)).count() as f64;
    let is_common = |number: f64| count >= 64.0 && number > (count / 4.0).floor();
    // Unless all that is asked about is what everything is about.
    let of = |term: &_| having(&|said| stems(&said.words).contains(term));
    let has_rare = question.iter().any(|term| of(term) > 0.0 && !is_common(of(term)));
    let everywhere = |number: f64| has_rare && is_common(number);
    for term in question {
        let holds = |said: &Said| stems(&said.words).contains(term);
        let says = |said: &Said| names.contains(term) && said.speaker.to_lowercase() == **term;
        if everywhere(having(&holds)) {
            continue;
        }
        let both = !everywhere(having(&says));
        let weights = smooth(&|said| f64::from(u8::from(holds(said) || (both && says(said)))));
        let documents = weights.iter().filter(|weight| **weight > 0.0).count() as f64;
        let rarity = (1.0 + (count - documents + 0.5) / (documents + 0.5)).ln();
        for ((score, weight), length) in scores.iter_mut().zip(&weights).zip(&lengths) {
            *score += rarity * weight * 2.2 / (weight + 1.2 * (0.25 + 0.75 * length / mean));
        }
    }
    for (score, said) in scores.iter_mut().zip(memory) {
        if said.as_ref().is_some_and(|said| names.contains(said.speaker.to_lowercase().as_str())) {
            *score *= 1.3;
        }
    }
    (0..).zip(scores).filter(|(_, score)| *score > 0.0).collect()
}
