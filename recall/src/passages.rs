//! Turns are cut into passages: long ones would hide what they hold from the ranking, and fill the budget with the rest.

use std::ops::Range;

use crate::script;

/// What a passage holds at most, in tokens, but for a single cluster of characters that is longer.
pub const PASSAGE_TOKENS: usize = 70;

/// How many characters a cut goes back to spare a cluster of them. Longer ones are no writing.
const CLUSTER: usize = 32;

/// About how many tokens a text takes: a quarter of its bytes, but one for each character of a script without spaces.
pub fn tokens(text: &str) -> usize {
    text.chars().map(quarters).sum::<usize>().div_ceil(4)
}

/// A character in quarters of a token.
fn quarters(c: char) -> usize {
    if script::is_unspaced(c) { 4 } else { c.len_utf8() }
}

/// Cut a text into passages of at most [`PASSAGE_TOKENS`], in order, without white space around them. Cuts lie at the
/// ends of sentences and lines, short ones stay together; a sentence too long is cut at spaces, or between characters.
/// All of the text that is not white space is in exactly one passage. Linear.
pub fn cut(text: &str) -> Passages<'_> {
    Passages { text, at: 0 }
}

/// The passages of a text, as ranges of bytes: see [`cut`].
#[derive(Debug, Clone)]
pub struct Passages<'a> {
    text: &'a str,
    at: usize,
}

impl Iterator for Passages<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let rest = self.text.get(self.at..)?;
        let start = self.at + (rest.len() - rest.trim_start().len());
        let rest = rest.trim_start();
        if rest.is_empty() {
            return None;
        }
        let length = first(rest);
        self.at = start + length;
        Some(start..start + rest.get(..length).map_or(length, |passage| passage.trim_end().len()))
    }
}

/// How many bytes the first passage takes. Of all places to cut within the limit, the last of the best kind.
fn first(text: &str) -> usize {
    let (mut taken, mut sentence, mut space, mut cluster) = (0, 0, 0, 0);
    let mut since_cluster = 0;
    let mut before = None;
    let mut ending = Ending::No;
    for (at, c) in text.char_indices() {
        if let Some(before) = before {
            ending = ending.then(before, c);
            since_cluster += 1;
            if script::may_part(before, c) || since_cluster > CLUSTER {
                (cluster, since_cluster) = (at, 0);
                if ending == Ending::Here {
                    sentence = at;
                }
                if before.is_whitespace() && !c.is_whitespace() {
                    space = at;
                }
            }
        }
        // White space at the end is not handed out, so it needs no room.
        if !c.is_whitespace() && taken + quarters(c) > 4 * PASSAGE_TOKENS && cluster > 0 {
            return [sentence, space, cluster].into_iter().find(|end| *end > 0).unwrap_or(text.len());
        }
        taken += quarters(c);
        before = Some(c);
    }
    text.len()
}

/// Whether a sentence ends between two characters.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    No,
    /// After a full stop, and what closes behind it: white space must follow.
    Stop,
    /// The same after a stop of a script without spaces: none need follow.
    WideStop,
    Here,
}

impl Ending {
    /// From what is between `before` and the character before it.
    fn then(self, before: char, after: char) -> Self {
        let closes = |c| matches!(c, '"' | '\'' | ')' | ']' | '”' | '’' | '»' | '」' | '』' | '）');
        let wide = |c| matches!(c, '。' | '！' | '？' | '｡');
        let stop = match before {
            '\n' | '\u{2028}' | '\u{2029}' => Self::Here,
            '.' | '!' | '?' | '…' | '।' | '॥' | '؟' | '۔' | '။' | ';' => Self::Stop,
            before if wide(before) => Self::WideStop,
            before if self != Self::Here && (closes(before) || before.is_whitespace()) => self,
            _ => Self::No,
        };
        match stop {
            Self::Stop if before.is_whitespace() && !after.is_whitespace() => Self::Here,
            Self::WideStop if !closes(after) && !wide(after) => Self::Here,
            stop => stop,
        }
    }
}
