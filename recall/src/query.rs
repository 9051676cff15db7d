//! What a question asks a store for.

use crate::terms::{self, each_word};

/// How many terms a question asks for at most: a store's limit. Of a longer question the first words count.
pub const QUERY_TERMS: usize = 256;

/// What besides words may count. Both are, by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hints {
    /// Whose name the question has, spoke.
    pub speaker: bool,
    /// Months, days and years that the question names; words of time if it asks when. Names in English only.
    pub time: bool,
}

impl Default for Hints {
    fn default() -> Self {
        Self { speaker: true, time: true }
    }
}

/// What a term of a question is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Of the text.
    Word,
    /// A hint: this word may be who spoke.
    Speaker,
    /// A hint: the passage's date is named.
    Date,
    /// A hint: the passage has a word of time, and the question asks for one.
    Time,
}

/// The terms of a question, each once, in the order to ask a store for them.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// At most [`QUERY_TERMS`], each below [`terms::TERMS`].
    pub terms: Vec<u32>,
    /// What each of them is.
    pub kinds: Vec<Kind>,
}

impl Query {
    /// The terms of a question. Linear in it.
    pub fn new(text: &str, hints: Hints) -> Self {
        let mut query = Self::default();
        if hints.time {
            query.dates(text);
        }
        each_word(text, |word| {
            query.add(word.term(), Kind::Word);
            if hints.speaker {
                query.add(word.speaker(), Kind::Speaker);
            }
        });
        query
    }

    fn add(&mut self, term: u32, kind: Kind) {
        if self.terms.len() < QUERY_TERMS && !self.terms.contains(&term) {
            self.terms.push(term);
            self.kinds.push(kind);
        }
    }

    /// The dates named, and whether it asks when. Of `3 May 2023`, `May 3rd, 2023`, `2023-05-03`, any part may be missing.
    fn dates(&mut self, text: &str) {
        let mut named = Named::default();
        each_word(text, |word| {
            if word.text == "when" {
                self.add(terms::timed_facet(), Kind::Time);
            }
            self.dated(&mut named, word.text);
        });
        self.close(&mut named);
    }

    fn dated(&mut self, named: &mut Named, word: &str) {
        let number = number(word);
        match (month(word), number) {
            (Some(month), _) => {
                // A second month begins another date.
                if named.month != 0 {
                    self.close(named);
                }
                named.month = month;
            }
            (_, Some(year @ 1900..=2199)) => {
                if named.year != 0 {
                    self.close(named);
                }
                named.year = i32::from(year);
                if named.month != 0 {
                    self.close(named);
                }
            }
            // 2023-05-03
            (_, Some(month @ 1..=12)) if named.year != 0 && named.month == 0 => named.month = small(month),
            (_, Some(day @ 1..=31)) => named.day = small(day),
            _ if named.month == 0 => {
                self.close(named);
            }
            _ => {
                named.since += 1;
                if named.since > 1 {
                    self.close(named);
                }
            }
        }
    }

    fn close(&mut self, named: &mut Named) {
        let Named { year, month, day, .. } = std::mem::take(named);
        if year != 0 || month != 0 {
            // What happened on a day is often told some days later: its month counts, too.
            self.add(terms::date(year, month, if month == 0 { 0 } else { day }), Kind::Date);
            self.add(terms::date(year, month, 0), Kind::Date);
        }
    }
}

#[derive(Default)]
struct Named {
    year: i32,
    month: u8,
    day: u8,
    /// Words since the month.
    since: u8,
}

/// The number that a word spells, also as `3rd`.
fn number(word: &str) -> Option<u16> {
    let digits = word.trim_end_matches(['s', 't', 'n', 'd', 'r', 'h']);
    digits.parse().ok()
}

fn small(number: u16) -> u8 {
    u8::try_from(number).unwrap_or(0)
}

/// The month that a word in lower case names: in full, or by its first three letters. The verb `may` is one, too: what
/// was said in a May counts more then, which is a hint gone wrong, not a miss.
pub(crate) fn month(word: &str) -> Option<u8> {
    let mut months = 1..;
    MONTHS
        .split(' ')
        .zip(&mut months)
        .find(|(name, _)| *name == word || (word.len() == 3 && name.starts_with(word)))
        .map(|(_, month)| month)
}

const MONTHS: &str = "january february march april may june july august september october november december";
