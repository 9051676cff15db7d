//! What a text takes beyond the grammar of JSON proper.

/// What in a text a reader of strict JSON, or one that reads line by line, would stumble over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_structs,
    clippy::struct_excessive_bools,
    reason = "these are all the liberties that there are"
)]
pub struct Form {
    /// `NaN`, `Infinity` or `-Infinity`.
    pub has_words: bool,
    /// A byte order mark before the text.
    pub has_mark: bool,
    /// A line feed between two tokens. Within strings JSON has none.
    pub has_feeds: bool,
    /// A carriage return between two tokens.
    pub has_returns: bool,
}

impl Form {
    /// Whether it takes no liberty that the other does not take.
    #[must_use]
    pub fn is_within(self, other: Self) -> bool {
        self.has_words <= other.has_words
            && self.has_mark <= other.has_mark
            && self.has_feeds <= other.has_feeds
            && self.has_returns <= other.has_returns
    }
}
