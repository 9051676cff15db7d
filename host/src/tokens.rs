//! Counting tokens as a model does.

use std::fmt::Debug;

/// Counts tokens. Without one, tokens are estimated.
pub trait TokenCounter: Debug + Send + Sync {
    /// How many tokens a text is. Called on an answer's path, once for its question and once for itself, if
    /// conversations are kept: whatever it costs, the answer waits for it.
    fn count(&self, text: &str) -> u32;

    /// The same, for the model that is set for the session or the entry, by the name that it was given there. Without a
    /// counter of one's own for each model: what [`count`](Self::count) says.
    fn count_for(&self, model: &str, text: &str) -> u32 {
        let _ = model;
        self.count(text)
    }
}
