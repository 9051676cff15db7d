//! Bounds what a plugin's pages may add up to.
//!
//! A command can run any plugin, so neither the end of its pages nor their progress is taken for granted: pages that
//! repeat, never end or add up to too much end in an error, in bounded time and memory.

use anyhow::Result;

use crate::{app::error::Coded, terminal};

/// Lines of a page for a terminal, and for programs.
const SCREEN: u32 = 20;
const PAGE: u32 = 50;

/// Most bytes of pages and values that are held before they are shown.
const KEPT: usize = 256 << 20;
/// Approximate overhead of an item, bytes.
const ITEM: usize = 64;
/// Successive pages without anything new: more than a search through 20 million messages takes.
const IDLE: u32 = 10_000;
/// Pages of one command.
const MOST: u32 = 1_000_000;

#[derive(Debug, Default)]
pub struct Pages {
    cursor: String,
    had: u32,
    idle: u32,
    bytes: usize,
}

impl Pages {
    /// The pages of a list from a cursor on.
    pub fn from(cursor: &str) -> Self {
        Self { cursor: cursor.to_owned(), ..Self::default() }
    }

    pub fn cursor(&self) -> &str {
        &self.cursor
    }

    /// Counts a page, and moves on to the cursor that it names.
    ///
    /// # Errors
    /// As [`Self::turn`], and when the cursor is that of the same page.
    pub fn turn_to(&mut self, cursor: String, is_new: bool) -> Result<()> {
        if cursor == self.cursor {
            return Err(stuck());
        }
        self.cursor = cursor;
        self.turn(is_new)
    }

    /// Counts a page.
    ///
    /// # Errors
    /// When there were too many, or too many without anything new.
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

    /// Counts texts that are kept.
    ///
    /// # Errors
    /// When they are too large together; `instead` says what to do then.
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

/// The limit of a list's page, unless one is given.
pub fn default_limit(as_json: bool) -> u32 {
    if !as_json && terminal::is_for_people() { SCREEN } else { PAGE }
}

/// Checks that the positions of pages fall.
///
/// # Errors
/// When `older`, the position of the next page, is not below `before`, that of this page.
pub fn falls(older: Option<u64>, before: Option<u64>) -> Result<()> {
    let repeats = older.zip(before).is_some_and(|(older, before)| older >= before);
    if repeats { Err(stuck()) } else { Ok(()) }
}

pub fn stuck() -> anyhow::Error {
    let message = "the plugin makes no progress: its pages repeat".to_owned();
    Coded { code: "plugin", message }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_and_idle_pages_are_refused() {
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
    fn texts_are_kept_up_to_the_limit() {
        let (mut pages, message) = (Pages::default(), "x".repeat(400));
        assert!((0..100_000).all(|_| pages.keep([&*message], "use --limit").is_ok()));
        let large = "x".repeat(KEPT / 4);
        assert!((0..3).all(|_| pages.keep([&*large], "use --limit").is_ok()));
        assert_eq!(pages.keep([&*large], "use --limit").unwrap_err().to_string(), "more than 256 MiB: use --limit");
    }

    #[test]
    fn positions_must_fall() {
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
