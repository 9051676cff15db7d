//! Makes the terms that an index is asked for from a question.

use crate::ascending;
use crate::fold::is_capital;
use crate::terms::{self, Word, visit_words};
use crate::time::CalendarDate;

/// A query has at most so many terms: two fewer than stores match in a call, which the caller needs for further terms.
pub const MAX_TERMS: usize = 254;

/// Of a long question, so many words count at its beginning, and as many at its end.
const WORDS_EACH_END: usize = 64;
/// So many different words may name a speaker.
const MAX_NAMES: usize = 32;

/// What a term stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermKind {
    /// A word of the question: scored.
    Word,
    /// A speaker of that name: a hint.
    Speaker,
    /// A month or day: a hint.
    Date,
    /// Words of time: a hint.
    Time,
}

/// A term to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryTerm {
    /// Below [`crate::TERM_LIMIT`].
    pub term: u32,
    /// What it stands for.
    pub kind: TermKind,
}

/// A question, as an index understands it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassageQuery {
    /// Whether a passage is scored by its own words alone, and not also by those of its neighbours.
    pub is_own_only: bool,
    /// At most [`MAX_TERMS`], each term once. A speaker's follows the row of the same word; where speakers are many,
    /// the two are scored as one term.
    pub rows: Vec<QueryTerm>,
}

impl PassageQuery {
    /// Read a question. `now` in milliseconds since 1970 is what "yesterday" is relative to; 0: not known. With `has_hints`,
    /// what a speaker said whom the question names is preferred, what was said in a month or on a day that it names, and
    /// what says when if it asks for that. Cost: linear in the text, but for a sort of its words.
    pub fn new(text: &str, now: u64, has_hints: bool) -> Self {
        let mut said = Vec::new();
        visit_words(text, &mut |word| said.push(word));
        let mut query = Self::default();
        // Words with a capital may be names; so may all, where nothing is written with capitals.
        let cased = text.chars().any(is_capital);
        let mut names = if has_hints { MAX_NAMES } else { 0 };
        for word in distinct(&said) {
            query.add(word.term, TermKind::Word);
            if names > 0 && (!cased || word.text.starts_with(is_capital)) {
                query.add(terms::speaker_term(&word), TermKind::Speaker);
                names -= 1;
            }
        }
        if has_hints {
            dates(&said, now, &mut |term| query.add(term, TermKind::Date));
            if said.iter().any(|word| word.text.eq_ignore_ascii_case("when")) {
                query.add(terms::TIME, TermKind::Time);
            }
        }
        query
    }

    /// The terms to ask for, in the order of the rows.
    pub fn terms(&self) -> Vec<u32> {
        self.rows.iter().map(|row| row.term).collect()
    }

    fn add(&mut self, term: u32, kind: TermKind) {
        if self.rows.len() < MAX_TERMS && self.rows.iter().all(|row| row.term != term) {
            self.rows.push(QueryTerm { term, kind });
        }
    }
}

/// The words, each term once, in the order of the text; of very many, those at both ends.
fn distinct<'a>(said: &[Word<'a>]) -> Vec<Word<'a>> {
    let keys = said.iter().zip(0u64..).map(|(word, at)| u64::from(word.term) << 32 | at);
    let mut keys = ascending(keys.collect());
    keys.dedup_by_key(|key| *key >> 32);
    let mut keys = ascending(keys.iter().map(|key| key & u64::from(u32::MAX)).collect());
    if keys.len() > 2 * WORDS_EACH_END {
        keys.drain(WORDS_EACH_END..keys.len() - WORDS_EACH_END);
    }
    keys.iter().filter_map(|at| said.get(*at as usize).copied()).collect()
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// Tell the terms of the days and months that a question names.
fn dates(said: &[Word], now: u64, tell: &mut dyn FnMut(u32)) {
    let word = |at: usize| said.get(at).map_or("", |word| word.text);
    for at in 0..said.len() {
        let before = |steps: usize| at.checked_sub(steps).map_or("", word);
        let here = word(at);
        if let Some(month) = month_named(here) {
            let of_day = if before(1).eq_ignore_ascii_case("of") { before(2) } else { before(1) };
            let (day, year) = match (day_of(of_day), day_of(word(at + 1))) {
                (Some(day), _) => (Some(day), year_of(word(at + 1))),
                (None, Some(day)) => (Some(day), year_of(word(at + 2))),
                (None, None) => (None, year_of(word(at + 1))),
            };
            // "may" and "march" are verbs, too.
            let capital = here.starts_with(|first: char| first.is_ascii_uppercase()) && at > 0;
            if capital || day.is_some() || year.is_some() {
                tell_date(year.unwrap_or(0), month, day, tell);
            }
        } else if let (Some(year), Some(month), Some(day)) = (year_of(here), number(word(at + 1)), day_of(word(at + 2)))
            && (1..=12).contains(&month)
        {
            tell_date(year, month, Some(day), tell);
        } else if now != 0 {
            relative(here, before(1), now, tell);
        }
    }
}

fn tell_date(year: u32, month: u32, day: Option<u32>, tell: &mut dyn FnMut(u32)) {
    if let Some(day) = day {
        tell(terms::day_term(year, month, day));
    }
    tell(terms::month_term(year, month));
}

fn relative(word: &str, before: &str, now: u64, tell: &mut dyn FnMut(u32)) {
    let days = match word {
        _ if word.eq_ignore_ascii_case("today") => 0..1,
        _ if word.eq_ignore_ascii_case("yesterday") => 1..2,
        _ if word.eq_ignore_ascii_case("week") && before.eq_ignore_ascii_case("last") => 1..14,
        _ => return,
    };
    for days in days {
        let date = CalendarDate::before(now, days);
        tell(terms::day_term(date.year, date.month, date.day));
    }
}

/// The month of an English name or its first three letters, 1 to 12.
fn month_named(word: &str) -> Option<u32> {
    let names = |name: &&str| {
        name.eq_ignore_ascii_case(word) || name.get(..3).is_some_and(|short| short.eq_ignore_ascii_case(word))
    };
    MONTHS.iter().zip(1..).find(|(name, _)| names(name)).map(|(_, month)| month)
}

fn number(word: &str) -> Option<u32> {
    word.parse().ok()
}

/// A day of a month: "3", "03" or "3rd".
fn day_of(word: &str) -> Option<u32> {
    let digits = ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
    number(digits).filter(|day| (1..=31).contains(day))
}

fn year_of(word: &str) -> Option<u32> {
    number(word).filter(|year| (1970..2200).contains(year))
}
