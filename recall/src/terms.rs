//! A passage's terms: what an index holds of it, as numbers.
//!
//! No language is known here. Words are what lies between characters that are neither letters nor digits; in lower case,
//! and cut to [`PREFIX`] letters, which does a stemmer's work. Scripts without spaces give pairs of characters.
//! Facets (who spoke, when) are terms, too, of kinds of their own: they can't be taken for words but by chance, as any
//! two terms of 22 bits.

use crate::{script, time::Day};

/// How many letters of a word count. Words with digits count in full.
pub const PREFIX: usize = 4;

/// Terms are below this: 2^22, a store's limit.
pub const TERMS: u32 = 1 << 22;

/// What is indexed of a passage.
#[derive(Debug, Clone, Copy)]
pub struct Passage<'a> {
    /// As it was cut.
    pub text: &'a str,
    /// Name or role of who said it; may be empty.
    pub speaker: &'a str,
    /// When, in milliseconds since 1970, UTC.
    pub time: Option<u64>,
}

/// The terms of a passage, facets included: ascending, each once, all below [`TERMS`]. For texts as short as
/// passages: quadratic, with a small factor, in the terms.
pub fn of(passage: &Passage<'_>) -> Vec<u32> {
    let mut terms: Vec<u32> = Vec::new();
    // Inserted where they belong: a passage is short, and a second sort would cost kilobytes of code.
    let mut add = |term| {
        if let Err(at) = terms.binary_search(&term) {
            terms.insert(at, term);
        }
    };
    let mut timed = false;
    each_word(passage.text, |word| {
        timed |= word.is_time();
        add(word.term());
    });
    each_word(passage.speaker, |word| {
        add(word.term());
        add(word.speaker());
    });
    if let Some(time) = passage.time {
        let Day { year, month, day } = Day::of(time);
        for when in [(year, 0, 0), (year, month, 0), (year, month, day), (0, month, 0), (0, month, day)] {
            add(date(when.0, when.1, when.2));
        }
    }
    if timed {
        add(timed_facet());
    }
    terms
}

/// The facet of a date, of which parts may be 0, unknown.
pub(crate) fn date(year: i32, month: u8, day: u8) -> u32 {
    let [a, b, c, d] = year.to_be_bytes();
    number(b'd', [a, b, c, d, month, day].into_iter())
}

/// The facet of passages that have a word of time.
pub(crate) fn timed_facet() -> u32 {
    number(b't', std::iter::empty())
}

/// A word, or two characters of a script without spaces: in lower case.
pub(crate) struct Word<'a> {
    pub text: &'a str,
    whole: bool,
}

impl Word<'_> {
    pub fn term(&self) -> u32 {
        let end = if self.whole { None } else { self.text.char_indices().nth(PREFIX) };
        let text = end.and_then(|(end, _)| self.text.get(..end)).unwrap_or(self.text);
        number(b'w', text.bytes())
    }

    pub fn speaker(&self) -> u32 {
        number(b's', self.text.bytes())
    }

    /// Whether it tells a time. English only: a hint.
    fn is_time(&self) -> bool {
        TIMES.split(' ').any(|time| time == self.text) || crate::query::month(self.text).is_some()
    }
}

const TIMES: &str = "yesterday today tomorrow tonight ago last next week weeks weekend month months year years day days \
    monday tuesday wednesday thursday friday saturday sunday recently since";

/// Calls back for each word of a text, in order.
pub(crate) fn each_word(text: &str, mut each: impl FnMut(Word<'_>)) {
    let each: &mut dyn FnMut(Word<'_>) = &mut each;
    let mut word = String::new();
    // The last character of a script without spaces, and whether it stands alone so far.
    let mut unspaced = None;
    for c in text.chars() {
        if script::is_unspaced(c) && c.is_alphanumeric() {
            finish(&mut word, each);
            if let Some((last, _)) = unspaced {
                hand_out(&mut word, [last, c], each);
            }
            unspaced = Some((c, unspaced.is_none()));
        } else if script::extends(c) {
            // A mark never ends a word, and none begins with it.
            if !word.is_empty() {
                word.push(c);
            }
        } else {
            if let Some((last, true)) = unspaced.take() {
                hand_out(&mut word, [last], each);
            }
            if c.is_alphanumeric() {
                word.extend(c.to_lowercase());
            } else {
                finish(&mut word, each);
            }
        }
    }
    finish(&mut word, each);
    if let Some((last, true)) = unspaced {
        hand_out(&mut word, [last], each);
    }
}

fn finish(word: &mut String, each: &mut dyn FnMut(Word<'_>)) {
    if !word.is_empty() {
        each(Word { text: word, whole: word.bytes().any(|byte| byte.is_ascii_digit()) });
        word.clear();
    }
}

fn hand_out<const N: usize>(word: &mut String, chars: [char; N], each: &mut dyn FnMut(Word<'_>)) {
    finish(word, each);
    word.extend(chars);
    each(Word { text: word, whole: true });
    word.clear();
}

/// A term for something else that is known of a passage: what it is, which none of ours is (`d`, `s`, `t`, `w`), and
/// its bytes. By it the passages are found that have it, and few others: who asks compares.
pub fn facet(kind: u8, bytes: &[u8]) -> u32 {
    number(kind, bytes.iter().copied())
}

/// FNV-1a, folded to 22 bits.
fn number(kind: u8, bytes: impl Iterator<Item = u8>) -> u32 {
    let hash = std::iter::once(kind)
        .chain(bytes)
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3));
    let folded = (hash ^ hash >> 22 ^ hash >> 44) % u64::from(TERMS);
    u32::try_from(folded).unwrap_or(0)
}
