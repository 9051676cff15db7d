//! Turns words into numbers, the terms of the index.
//!
//! Without knowledge of any language: a word is cut to its first letters, which stands for its stem; scripts that
//! write no spaces give pairs of characters.

use crate::fold::fold_letter;
use crate::mark::DocumentMark;
use crate::time::CalendarDate;

/// All terms are below this: 22 bits.
pub const TERM_LIMIT: u32 = 1 << 22;

/// A document has at most so many terms: a store takes no more.
pub const DOCUMENT_TERMS: usize = 512;

/// How many letters of a word count.
const PREFIX: usize = 4;

/// Words of so many letters may be compounds.
const LONG: usize = 12;

/// A passage, as it goes into the index.
#[derive(Clone, Copy, Debug)]
pub struct PassageDocument<'a> {
    /// The passage's text.
    pub text: &'a str,
    /// Who says it: a role or a name; empty if unknown. Each of its words is a hint.
    pub speaker: &'a str,
    /// When, in milliseconds since 1970; 0: not known.
    pub time: u64,
    /// Whether a session begins with it.
    pub first: bool,
    /// How many tokens it takes when shown: those of its text and of what stands before it in its own line.
    pub tokens: usize,
}

/// What an index is given for a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posting {
    /// An encoded [`DocumentMark`]; never 0.
    pub mark: u16,
    /// Ascending, each once, below [`TERM_LIMIT`]; at most [`DOCUMENT_TERMS`].
    pub terms: Vec<u32>,
}

impl PassageDocument<'_> {
    /// What the index is given. Cost: linear in the text, but for a sort of its words. A passage of
    /// [`crate::cut_passages`] has some 30 terms; of a text with more than [`DOCUMENT_TERMS`], some are left out.
    pub fn to_posting(&self) -> Posting {
        let mut found = Vec::new();
        let mut timely = false;
        visit_words(self.text, &mut |word| {
            found.push(word.term);
            compound(word.text, &mut found);
            timely |= is_time_word(&word);
        });
        let mut found = distinct(&found);
        let mark = DocumentMark::new(found.len(), self.tokens, self.first).encode();
        visit_words(self.speaker, &mut |word| found.push(speaker_term(&word)));
        if timely {
            found.push(TIME);
        }
        if self.time != 0 {
            let date = CalendarDate::of(self.time);
            found.extend([month_term(0, date.month), month_term(date.year, date.month)]);
            found.extend([day_term(0, date.month, date.day), day_term(date.year, date.month, date.day)]);
        }
        let mut terms = distinct(&found);
        terms.truncate(DOCUMENT_TERMS);
        Posting { mark, terms }
    }
}

/// The terms of a text: ascending, each once, below [`TERM_LIMIT`].
pub fn extract_terms(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    visit_words(text, &mut |word| found.push(word.term));
    distinct(&found)
}

/// Ascending, each once.
fn distinct(terms: &[u32]) -> Vec<u32> {
    let mut terms: Vec<u32> =
        crate::ascending(terms.iter().map(|term| u64::from(*term)).collect()).iter().map(|term| *term as u32).collect();
    terms.dedup();
    terms
}

/// What counts as one word.
#[derive(Clone, Copy)]
pub(crate) struct Word<'a> {
    /// As written; of scripts without spaces, one or two characters.
    pub(crate) text: &'a str,
    pub(crate) term: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CharacterKind {
    /// Between words.
    Gap,
    /// Part of a word.
    Letter,
    /// Of a script that writes no spaces between words, or not where a term should end.
    Dense,
}

fn kind(character: char) -> CharacterKind {
    let code = u32::from(character);
    match code {
        0..0x80 if character.is_ascii_alphanumeric() => CharacterKind::Letter,
        0..0x80 => CharacterKind::Gap,
        // Stops of Myanmar and Khmer.
        0x104A..=0x104F | 0x17D4..=0x17DA => CharacterKind::Gap,
        // Thai and Lao, Myanmar, Khmer, with their marks.
        0xE00..0xF00 | 0x1000..0x10A0 | 0x1780..0x1800
        // Hangul, which writes its particles to the word.
        | 0xAC00..0xD7B0
        // Kana, but for the dot and the dash between words; Bopomofo.
        | 0x3041..=0x309F | 0x30A1..=0x30FA | 0x30FC..=0x312F | 0x31F0..=0x31FF
        // Han.
        | 0x3005..0x3008 | 0x3400..0x4DC0 | 0x4E00..0xA000 | 0xF900..0xFB00 | 0x20000..0x32000 => CharacterKind::Dense,
        // Marks that join what they stand between: combining ones, and the viramas of the Indic blocks.
        0x300..0x370 => CharacterKind::Letter,
        0x900..0xE00 if code & 0x7F == 0x4D => CharacterKind::Letter,
        _ if character.is_alphanumeric() => CharacterKind::Letter,
        _ => CharacterKind::Gap,
    }
}

/// Visit the words of a text, in order.
pub(crate) fn visit_words<'a>(text: &'a str, visit: &mut dyn FnMut(Word<'a>)) {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let kind_of_run = kind(first);
        let end = rest.find(|character| kind(character) != kind_of_run).unwrap_or(rest.len());
        let Some((run, after)) = rest.split_at_checked(end) else { return };
        rest = after;
        match kind_of_run {
            CharacterKind::Gap => {}
            CharacterKind::Letter => {
                visit(Word { text: run, term: word(run) });
                parts(run, visit);
            }
            CharacterKind::Dense => pairs(run, visit),
        }
    }
}

/// Long words may be compounds: what begins anywhere inside is found by its prefix. The question's own words are not
/// taken apart, or a long one would outweigh the others.
fn compound(word: &str, found: &mut Vec<u32>) {
    if word.len() < LONG || word.chars().count() < LONG || word.contains(|character: char| !character.is_alphabetic()) {
        return;
    }
    let mut window = ['\0'; PREFIX];
    for (at, letter) in word.chars().filter_map(fold_letter).enumerate() {
        window.rotate_left(1);
        if let Some(last) = window.last_mut() {
            *last = letter;
        }
        // A first part has three letters at least.
        if at >= PREFIX + 2 {
            found.push(window.iter().fold(TermHash::new(), |hash, letter| hash.char(*letter)).term());
        }
    }
}

/// The parts of a name such as `getUserName`, which are looked for as well.
fn parts<'a>(run: &'a str, visit: &mut dyn FnMut(Word<'a>)) {
    let mut start = 0;
    let mut lower = false;
    for (at, character) in run.char_indices().chain([(run.len(), 'A')]) {
        let border = lower && character.is_ascii_uppercase() || at == run.len();
        lower = character.is_ascii_lowercase();
        if border && (start > 0 || at < run.len()) {
            let text = run.get(start..at).unwrap_or_default();
            visit(Word { text, term: word(text) });
            start = at;
        }
    }
}

/// A pair of characters from each on, and a single one by itself.
fn pairs<'a>(run: &'a str, visit: &mut dyn FnMut(Word<'a>)) {
    let mut starts = run.char_indices().map(|(at, _)| at).chain([run.len()]);
    let mut start = starts.next().unwrap_or(0);
    let mut middle = starts.next().unwrap_or(run.len());
    loop {
        let end = starts.next().unwrap_or(run.len());
        let text = run.get(start..end).unwrap_or_default();
        visit(Word { text, term: TermHash::new().bytes(text.as_bytes()).term() });
        if end == run.len() {
            return;
        }
        (start, middle) = (middle, end);
    }
}

/// The term of a word: its first letters in lower case. What holds a digit counts whole, for it is a number or a code.
fn word(text: &str) -> u32 {
    let mut whole = TermHash::new();
    let mut prefix = TermHash::new();
    let mut digit = false;
    for (at, character) in text.chars().filter_map(fold_letter).enumerate() {
        digit |= character.is_ascii_digit();
        whole = whole.char(character);
        if at < PREFIX {
            prefix = whole;
        }
    }
    if digit { whole.term() } else { prefix.term() }
}

/// FNV-1a in 64 bits.
#[derive(Clone, Copy)]
struct TermHash(u64);

impl TermHash {
    const fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    const fn bytes(mut self, mut bytes: &[u8]) -> Self {
        while let [byte, rest @ ..] = bytes {
            self.0 = (self.0 ^ *byte as u64).wrapping_mul(0x100_0000_01B3);
            bytes = rest;
        }
        self
    }

    fn char(self, character: char) -> Self {
        self.bytes(character.encode_utf8(&mut [0; 4]).as_bytes())
    }

    const fn term(self) -> u32 {
        (self.0 ^ self.0 >> 22 ^ self.0 >> 44) as u32 % TERM_LIMIT
    }
}

/// A term that is no word: no text holds this byte, so that no word is hashed from the same bytes.
const fn facet(tag: u8) -> TermHash {
    TermHash::new().bytes(&[0xFF, tag])
}

/// A term for something that the caller knows of a passage, by bytes of the caller's: no word's, and no hint's. By it the
/// passages are found that have it, and a few that don't: the caller compares.
pub fn facet_term(bytes: &[u8]) -> u32 {
    facet(b'k').bytes(bytes).term()
}

/// Says when: holds a word of time.
pub(crate) const TIME: u32 = facet(b't').term();

/// Said by a speaker with this word in the name.
///
/// The last byte is the word's: stores keep together what has that in common, and who asks for the one asks for the
/// other.
pub(crate) fn speaker_term(word: &Word) -> u32 {
    (facet(b's').bytes(&word.term.to_le_bytes()).term() & !0xFF) | (word.term & 0xFF)
}

/// Said in this month; year 0: of any year.
pub(crate) fn month_term(year: u32, month: u32) -> u32 {
    facet(b'm').bytes(&year.to_le_bytes()).bytes(&month.to_le_bytes()).term()
}

/// Said on this day; year 0: of any year.
pub(crate) fn day_term(year: u32, month: u32, day: u32) -> u32 {
    facet(b'd').bytes(&year.to_le_bytes()).bytes(&month.to_le_bytes()).bytes(&day.to_le_bytes()).term()
}

/// The term of a word of at most [`PREFIX`] lower-case ASCII letters.
const fn ascii(word: &str) -> u32 {
    TermHash::new().bytes(word.as_bytes()).term()
}

/// What is said with when something happens, cut as all words are.
const TIME_WORDS: [u32; 28] = [
    ascii("yest"),
    ascii("toda"),
    ascii("tomo"),
    ascii("toni"),
    ascii("last"),
    ascii("next"),
    ascii("ago"),
    ascii("week"),
    ascii("mont"),
    ascii("year"),
    ascii("mond"),
    ascii("tues"),
    ascii("wedn"),
    ascii("thur"),
    ascii("frid"),
    ascii("satu"),
    ascii("sund"),
    ascii("janu"),
    ascii("febr"),
    ascii("marc"),
    ascii("apri"),
    ascii("june"),
    ascii("july"),
    ascii("augu"),
    ascii("sept"),
    ascii("octo"),
    ascii("nove"),
    ascii("dece"),
];

fn is_time_word(word: &Word) -> bool {
    TIME_WORDS.contains(&word.term)
}
