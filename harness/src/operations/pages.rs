//! Bounds what a plugin's pages may add up to.
//!
//! A command can run any plugin, so neither the end of its pages nor their progress is taken for granted: pages that
//! repeat, never end or add up to too much end in an error, in bounded time and memory.

use anyhow::Result;

use crate::{app::error::coded_error, terminal};

/// Lines of a page for a terminal, and for programs.
const TERMINAL_PAGE_LINES: u32 = 20;
const PROGRAM_PAGE_LINES: u32 = 50;

/// Most bytes of pages and values that are held before they are shown.
const MAX_KEPT_BYTES: usize = 256 << 20;
/// Approximate overhead of an item, bytes.
const ITEM_OVERHEAD: usize = 64;
/// Successive pages without anything new: more than a search through 20 million messages takes.
const MAX_IDLE_PAGES: u32 = 10_000;
/// Pages of one command.
const MOST: u32 = 1_000_000;

#[derive(Debug, Default)]
pub struct PageLimits {
    cursor: String,
    had: u32,
    idle: u32,
    bytes: usize,
}

impl PageLimits {
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
    /// As [`Self::count_page`], and when the cursor is that of the same page.
    pub fn turn_to(&mut self, cursor: String, is_new: bool) -> Result<()> {
        if cursor == self.cursor {
            return Err(no_progress_error());
        }
        self.cursor = cursor;
        self.count_page(is_new)
    }

    /// Counts a page.
    ///
    /// # Errors
    /// When there were too many, or too many without anything new.
    pub fn count_page(&mut self, is_new: bool) -> Result<()> {
        self.had = self.had.saturating_add(1);
        self.idle = if is_new { 0 } else { self.idle.saturating_add(1) };
        if self.idle > MAX_IDLE_PAGES {
            return Err(no_progress_error());
        }
        if self.had > MOST {
            return Err(coded_error("plugin", format!("the plugin made over {MOST} pages of it")));
        }
        Ok(())
    }

    /// Counts a page whose texts are kept.
    ///
    /// # Errors
    /// As [`Self::count_page`] and [`Self::count_kept_texts`].
    pub fn count_kept_page<'a>(&mut self, texts: impl ExactSizeIterator<Item = &'a str>, instead: &str) -> Result<()> {
        self.count_page(texts.len() > 0)?;
        self.count_kept_texts(texts, instead)
    }

    /// Counts texts that are kept.
    ///
    /// # Errors
    /// When they are too large together; `instead` says what to do then.
    pub fn count_kept_texts<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>, instead: &str) -> Result<()> {
        for text in texts {
            self.bytes = self.bytes.saturating_add(text.len()).saturating_add(ITEM_OVERHEAD);
        }
        if self.bytes <= MAX_KEPT_BYTES {
            return Ok(());
        }
        Err(coded_error("limit", format!("more than {} MiB: {instead}", MAX_KEPT_BYTES >> 20)))
    }
}

/// The limit of a list's page, unless one is given.
pub fn default_limit(as_json: bool) -> u32 {
    if !as_json && terminal::is_terminal_output() { TERMINAL_PAGE_LINES } else { PROGRAM_PAGE_LINES }
}

/// Checks that the positions of pages fall.
///
/// # Errors
/// When `older`, the position of the next page, is not below `before`, that of this page.
pub fn require_older_position(older: Option<u64>, before: Option<u64>) -> Result<()> {
    let repeats = older.zip(before).is_some_and(|(older, before)| older >= before);
    if repeats { Err(no_progress_error()) } else { Ok(()) }
}

pub fn no_progress_error() -> anyhow::Error {
    let message = "the plugin makes no progress: its pages repeat".to_owned();
    coded_error("plugin", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_and_idle_pages_are_refused() {
        let mut pages = PageLimits::default();
        assert!((0..MOST).all(|_| pages.count_page(true).is_ok()));
        assert!(pages.count_page(true).is_err());

        let mut pages = PageLimits::default();
        for _ in 0..3 {
            assert!((0..MAX_IDLE_PAGES).all(|_| pages.count_page(false).is_ok()));
            pages.count_page(true).unwrap();
        }
        assert!((0..MAX_IDLE_PAGES).all(|_| pages.count_page(false).is_ok()));
        assert!(pages.count_page(false).unwrap_err().to_string().contains("makes no progress"));
    }

    #[test]
    fn texts_are_kept_up_to_the_limit() {
        let (mut pages, message) = (PageLimits::default(), "x".repeat(400));
        assert!((0..100_000).all(|_| pages.count_kept_texts([&*message], "use --limit").is_ok()));
        let large = "x".repeat(MAX_KEPT_BYTES / 4);
        assert!((0..3).all(|_| pages.count_kept_texts([&*large], "use --limit").is_ok()));
        assert_eq!(
            pages.count_kept_texts([&*large], "use --limit").unwrap_err().to_string(),
            "more than 256 MiB: use --limit"
        );
    }

    #[test]
    fn page_positions_must_decrease() {
        for (older, before, is_well) in [
            (None, None, true),
            (Some(5), None, true),
            (None, Some(5), true),
            (Some(4), Some(5), true),
            (Some(5), Some(5), false),
            (Some(6), Some(5), false),
        ] {
            assert_eq!(require_older_position(older, before).is_ok(), is_well, "{older:?} {before:?}");
        }
    }
}
