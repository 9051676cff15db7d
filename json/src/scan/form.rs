//! The extensions to JSON's grammar that a text uses.

/// What in a text a reader of strict JSON, or one that reads line by line, would stumble over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_structs,
    clippy::struct_excessive_bools,
    reason = "these are all the liberties that there are"
)]
pub struct JsonForm {
    /// `NaN`, `Infinity` or `-Infinity`.
    pub has_words: bool,
    /// A byte order mark before the text.
    pub has_mark: bool,
    /// A line feed between two tokens. Within strings JSON has none.
    pub has_feeds: bool,
    /// A carriage return between two tokens.
    pub has_returns: bool,
    /// A number of more than [`MAX_NUMBER`] characters.
    pub has_long_numbers: bool,
    /// An escape that is half a surrogate pair.
    pub has_lone_surrogates: bool,
    /// How many arrays and objects are around the innermost, that one included; of members and elements that are handed
    /// out, within theirs.
    pub depth: usize,
}

/// Longer numbers are refused by readers: Python's stop at 4,300 digits.
pub const MAX_NUMBER: usize = 100;
/// How deep a value may go that becomes a part of a line: `serde_json` reads lines of up to 127 levels, `jq` of 256.
pub const MAX_DEPTH: usize = 120;
/// How many levels of a line are around such a value.
const AROUND: usize = 5;

impl JsonForm {
    /// Whether it takes no liberty that the other does not take.
    #[must_use]
    pub fn is_within(self, other: Self) -> bool {
        self.has_words <= other.has_words
            && self.has_mark <= other.has_mark
            && self.has_feeds <= other.has_feeds
            && self.has_returns <= other.has_returns
            && self.has_long_numbers <= other.has_long_numbers
            && self.has_lone_surrogates <= other.has_lone_surrogates
            && self.depth <= other.depth.max(MAX_DEPTH + AROUND)
    }

    /// Whether every reader takes it for what it is.
    pub(crate) fn is_portable(self) -> bool {
        !self.has_words && !self.has_long_numbers && !self.has_lone_surrogates && self.depth <= MAX_DEPTH
    }
}
