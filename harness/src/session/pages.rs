//! How much a plugin's pages may come to.
//!
//! Any plugin may be behind a command, and none is believed: neither that its pages end, nor that each brings more.
//! Promises an error, in bounded time and memory, where they do not.

use anyhow::Result;

use crate::error::Coded;

/// What is kept of pages and values before it is shown, bytes.
const KEPT: usize = 256 << 20;
/// What an item takes beside its text, about.
const ITEM: usize = 64;
/// Pages with nothing new on them, one after the other: more than it takes to look through 20 million messages.
const IDLE: u32 = 10_000;
/// Pages for one command.
const MOST: u32 = 1_000_000;

/// Pages that were had so far, and what is kept of them.
#[derive(Debug, Default)]
pub struct Pages {
    had: u32,
    idle: u32,
    bytes: usize,
}

impl Pages {
    /// One more was had.
    ///
    /// # Errors
    /// When too many were, or too many brought nothing.
    pub fn turn(&mut self, is_new: bool) -> Result<()> {
        self.had = self.had.saturating_add(1);
        self.idle = if is_new { 0 } else { self.idle.saturating_add(1) };
        if self.idle > IDLE {
            return Err(stuck());
        }
        if self.had > MOST {
            return Err(Coded { code: "plugin", message: format!("the plugin made over {MOST} pages of it") }.into());
        }
        Ok(())
    }

    /// These are kept.
    ///
    /// # Errors
    /// When all together are too large; `instead` says what to do then.
    pub fn keep<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>, instead: &str) -> Result<()> {
        for text in texts {
            self.bytes = self.bytes.saturating_add(text.len()).saturating_add(ITEM);
        }
        if self.bytes <= KEPT {
            return Ok(());
        }
        Err(Coded { code: "limit", message: format!("more than {} MiB: {instead}", KEPT >> 20) }.into())
    }
}

/// The position that a page tells to go on from, `older`, against the one that it was asked for with.
///
/// # Errors
/// When it is not below: that page would come again.
pub fn falls(older: Option<u64>, before: Option<u64>) -> Result<()> {
    let repeats = older.zip(before).is_some_and(|(older, before)| older >= before);
    if repeats { Err(stuck()) } else { Ok(()) }
}

/// The same page again and again.
pub fn stuck() -> anyhow::Error {
    let message = "the plugin makes no progress: its pages repeat".to_owned();
    Coded { code: "plugin", message }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_end() {
        let mut pages = Pages::default();
        assert!((0..MOST).all(|_| pages.turn(true).is_ok()));
        assert!(pages.turn(true).is_err());

        let mut pages = Pages::default();
        for _ in 0..3 {
            assert!((0..IDLE).all(|_| pages.turn(false).is_ok()));
            pages.turn(true).unwrap();
        }
        assert!((0..IDLE).all(|_| pages.turn(false).is_ok()));
        assert!(pages.turn(false).unwrap_err().to_string().contains("makes no progress"));
    }

    #[test]
    fn a_long_conversation_is_kept_and_no_more_than_there_is_room_for() {
        let (mut pages, message) = (Pages::default(), "x".repeat(400));
        assert!((0..100_000).all(|_| pages.keep([&*message], "use --limit").is_ok()));
        let large = "x".repeat(KEPT / 4);
        assert!((0..3).all(|_| pages.keep([&*large], "use --limit").is_ok()));
        assert_eq!(pages.keep([&*large], "use --limit").unwrap_err().to_string(), "more than 256 MiB: use --limit");
    }

    #[test]
    fn positions_fall() {
        for (older, before, is_well) in [
            (None, None, true),
            (Some(5), None, true),
            (None, Some(5), true),
            (Some(4), Some(5), true),
            (Some(5), Some(5), false),
            (Some(6), Some(5), false),
        ] {
            assert_eq!(falls(older, before).is_ok(), is_well, "{older:?} {before:?}");
        }
    }
}
