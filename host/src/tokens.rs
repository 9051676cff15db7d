//! Counting tokens as a model does.

use std::fmt::Debug;

/// Counts tokens. Without one, tokens are estimated.
pub trait TokenCounter: Debug + Send + Sync {
    /// How many tokens a text is. Called on an entry's path, once for a question and once for its answer, if
    /// conversations are kept: whatever it costs, the entry waits for it.
    fn count(&self, text: &str) -> u32;
}
