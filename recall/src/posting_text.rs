//! The text form of a [`Posting`]: four characters for the mark and for each term, so that a store of texts can hold it.

use crate::terms::{Posting, TERM_LIMIT};

/// A number of 24 bits takes so many characters.
const DIGITS: usize = 4;

/// The characters from here on stand for 0 to 63, so that numbers are in the order of their texts.
const ZERO: u8 = b'0';

/// A number as it stands in the text. Numbers are in the order of these.
pub type PostingNumber = [u8; DIGITS];

/// A number of at most 24 bits as it stands in the text.
pub fn encode_posting_number(number: u32) -> PostingNumber {
    [18, 12, 6, 0].map(|shift| ZERO + u8::try_from(number >> shift & 63).unwrap_or(0))
}

fn decode_number(digits: &PostingNumber) -> u32 {
    digits.iter().fold(0, |number, digit| number << 6 | u32::from(digit.wrapping_sub(ZERO) & 63))
}

/// The mark, and the terms as they stand in the text. None: the passage was taken out.
pub fn split_posting(text: &str) -> Option<(u16, &[PostingNumber])> {
    let (mark, terms) = text.as_bytes().as_chunks().0.split_first()?;
    let mark = u16::try_from(decode_number(mark)).ok().filter(|mark| *mark > 0)?;
    Some((mark, terms))
}

impl Posting {
    /// The mark, then the terms in ascending order.
    pub fn to_text(&self) -> String {
        let mut out = String::with_capacity(DIGITS * (self.terms.len() + 1));
        for number in std::iter::once(u32::from(self.mark)).chain(self.terms.iter().copied()) {
            out.extend(encode_posting_number(number).map(char::from));
        }
        out
    }

    /// Reads what [`Self::to_text`] wrote. None: the passage was taken out, or the text is none of these.
    pub fn from_text(text: &str) -> Option<Self> {
        let (mark, terms) = split_posting(text)?;
        let terms: Vec<u32> = terms.iter().map(decode_number).collect();
        let is_good =
            terms.is_sorted_by(|one, other| one < other) && terms.last().is_none_or(|last| *last < TERM_LIMIT);
        is_good.then_some(Self { mark, terms })
    }
}
