//! Counts tokens with an embedder's counter, within bounds.
//!
//! Promises that counting takes no more than a part of its entry's time and never blocks the host: texts are counted in
//! short pieces, and tokens are estimated for a text that is too long, takes too long or makes the counter panic.

use std::{fmt::Debug, time::Duration};

use tokio::{task::yield_now, time::Instant};

use crate::sandbox::catch_panic::catch_panic;

/// Counts tokens. Without one, tokens are estimated.
pub trait TokenCounter: Debug + Send + Sync {
    /// How many tokens a text is. Called on an answer's path for its question and for itself, if conversations are kept,
    /// with pieces of at most 4 KiB, which end before a blank where there is one. A text of more than 1 MiB, one for
    /// which there is no time left, and one at which this panics is estimated.
    fn count(&self, text: &str) -> u32;

    /// The same, for the model that is set for the session or the entry, by the name that it was given there: a client or
    /// a plugin may have chosen it. Without a counter of one's own for each model: what [`count`](Self::count) says.
    fn count_for(&self, model: &str, text: &str) -> u32 {
        let _ = model;
        self.count(text)
    }
}

/// Longer texts are estimated.
const LONGEST: usize = 1 << 20;
/// Tokenizers recurse over blanks, and take more than twice the time for twice the letters without one.
const PIECE: usize = 4 << 10;

/// Why a text was not counted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Uncounted {
    #[error("a text of {0} bytes is over 1 MiB, so its tokens are estimated")]
    TooLong(usize),
    #[error("counting the tokens of a text took more than {} ms, so they are estimated", .0.as_millis())]
    TooLate(Duration),
    #[error("the token counter panicked ({0}), so tokens are estimated")]
    Panicked(String),
}

/// How many tokens a text is, for this model if one is set, if that is counted within so much time.
pub(crate) async fn count_tokens_within(
    counter: &dyn TokenCounter,
    model: Option<&str>,
    text: &str,
    time: Duration,
) -> Result<u32, Uncounted> {
    if text.len() > LONGEST {
        return Err(Uncounted::TooLong(text.len()));
    }
    let (began, mut count, mut rest) = (Instant::now(), 0_u32, text);
    loop {
        let (piece, after) = split(rest);
        let counted = catch_panic(|| match model {
            Some(model) => counter.count_for(model, piece),
            None => counter.count(piece),
        });
        count = count.saturating_add(counted.map_err(Uncounted::Panicked)?);
        if after.is_empty() {
            return Ok(count);
        }
        if began.elapsed() >= time {
            return Err(Uncounted::TooLate(time));
        }
        rest = after;
        // Others on this thread go on.
        yield_now().await;
    }
}

/// A piece and the rest. Before a single blank no token of the known vocabularies goes on, so that the sum is exact.
fn split(text: &str) -> (&str, &str) {
    if text.len() <= PIECE {
        return (text, "");
    }
    let bytes = text.as_bytes();
    let is_place = |at: &usize| {
        let byte = |at: usize| bytes.get(at).copied().unwrap_or(b' ');
        byte(*at) == b' ' && !byte(at - 1).is_ascii_whitespace() && !byte(at + 1).is_ascii_whitespace()
    };
    let at = (PIECE / 2..PIECE).rev().find(is_place).unwrap_or_else(|| text.floor_char_boundary(PIECE));
    text.split_at_checked(at).unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Words;

    impl TokenCounter for Words {
        fn count(&self, text: &str) -> u32 {
            assert!(text.len() <= PIECE && !text.contains("panic"), "as told");
            u32::try_from(text.split_whitespace().count()).unwrap()
        }
    }

    async fn count(text: &str, time: Duration) -> Result<u32, Uncounted> {
        count_tokens_within(&Words, None, text, time).await
    }

    #[tokio::test]
    async fn a_text_is_counted_in_pieces_of_whole_words() {
        let time = Duration::from_secs(60);
        for length in [0, 1, 700, 5000, 60_000] {
            assert_eq!(count(&"some words ".repeat(length), time).await, Ok(u32::try_from(2 * length).unwrap()));
        }
        for text in [" ".repeat(LONGEST), "x".repeat(LONGEST), "é".repeat(LONGEST / 2), "\n ".repeat(LONGEST / 2)] {
            let mut rest = &*text;
            while !rest.is_empty() {
                let (piece, after) = split(rest);
                assert!((1..=PIECE).contains(&piece.len()) && piece.len() + after.len() == rest.len());
                rest = after;
            }
            assert!(count(&text, time).await.is_ok());
        }
    }

    #[tokio::test]
    async fn a_text_is_not_counted_if_it_is_too_long_or_its_counter_is_late_or_panics() {
        let time = Duration::from_secs(60);
        assert_eq!(count(&"x".repeat(LONGEST + 1), time).await, Err(Uncounted::TooLong(LONGEST + 1)));
        assert_eq!(count(&"x ".repeat(PIECE), Duration::ZERO).await, Err(Uncounted::TooLate(Duration::ZERO)));
        let panicked = count("a panic", time).await.unwrap_err();
        assert!(matches!(&panicked, Uncounted::Panicked(told) if told.contains("as told")), "{panicked}");
    }
}
