//! What an index keeps beside a passage's terms: 16 bits.

/// What ranking and selecting must know of a passage without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// How many terms it has; 255: as many or more.
    pub terms: u8,
    /// How many tokens it takes as it is shown (with its speaker, without the run's header): 1 to 127, where 127 is as
    /// many or more.
    pub tokens: u8,
    /// Whether it is the first of its session: what is before it is not its neighbour.
    pub first: bool,
}

impl Mark {
    /// Too large counts are cut. No tokens count as one, so that no mark is 0, which is none to a store.
    pub fn new(terms: usize, tokens: usize, first: bool) -> Self {
        let terms = u8::try_from(terms).unwrap_or(u8::MAX);
        Self { terms, tokens: u8::try_from(tokens.clamp(1, 127)).unwrap_or(127), first }
    }

    /// As a store keeps it: first (1 bit), tokens (7), terms (8). Never 0.
    pub fn encode(self) -> u16 {
        u16::from(self.first) << 15 | u16::from(self.tokens.clamp(1, 127)) << 8 | u16::from(self.terms)
    }

    /// None of 0: there is no document.
    pub fn decode(mark: u16) -> Option<Self> {
        let [high, terms] = mark.to_be_bytes();
        (mark != 0).then_some(Self { terms, tokens: high & 127, first: high & 128 != 0 })
    }
}
