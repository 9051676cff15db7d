//! Marks: the sixteen bits that an index keeps of a document beside its terms.

/// A document's mark: what ranking needs to know of every document, whether it matched or not.
///
/// 16 bits: 8 of terms, 7 of tokens, 1 for the first of a session. 0 is no document, but a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentMark {
    /// How many terms it has; 255: that many or more.
    pub terms: u8,
    /// How many tokens it takes, 1 to 127; 127: that many or more.
    pub tokens: u8,
    /// Whether a session begins with it.
    pub first: bool,
}

impl DocumentMark {
    /// The mark of a document. No document has 0 tokens: at least 1 is kept.
    pub fn new(terms: usize, tokens: usize, first: bool) -> Self {
        Self { terms: terms.min(255) as u8, tokens: tokens.clamp(1, 127) as u8, first }
    }

    /// As the index stores it; never 0.
    pub fn encode(self) -> u16 {
        u16::from(self.terms) << 8 | u16::from(self.tokens.clamp(1, 127)) << 1 | u16::from(self.first)
    }

    /// Of what [`DocumentMark::encode`] wrote: whether there is a document, and it follows the one before it in its session.
    pub(crate) fn is_neighbour(bits: u16) -> bool {
        bits != 0 && bits & 1 == 0
    }

    /// Read what [`DocumentMark::encode`] wrote; none if there is no document. Whatever else comes is some mark.
    pub fn decode(bits: u16) -> Option<Self> {
        let mark = Self { terms: (bits >> 8) as u8, tokens: (bits >> 1) as u8 & 127, first: bits & 1 == 1 };
        (bits != 0).then_some(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_decodes_to_what_was_encoded() {
        for terms in [0, 1, 254, 255] {
            for tokens in [1, 70, 127] {
                for first in [false, true] {
                    let mark = DocumentMark::new(terms, tokens, first);
                    assert_eq!(DocumentMark::decode(mark.encode()), Some(mark));
                    assert_eq!((mark.terms as usize, mark.tokens as usize), (terms, tokens));
                }
            }
        }
    }

    #[test]
    fn counts_saturate_and_no_mark_encodes_to_zero() {
        assert_eq!(DocumentMark::new(1000, 1000, true), DocumentMark { terms: 255, tokens: 127, first: true });
        assert_ne!(DocumentMark::new(0, 0, false).encode(), 0);
        assert_eq!(DocumentMark::decode(0), None);
    }
}
