//! Opens a file, or standard input, as numbered lines, with progress for people.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Cursor, Read},
    path::Path,
};

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use keepline_json::{for_each_member, is_value};
use keepline_session_file::NumberedLines;

use crate::terminal::progress_bar;

/// The longest document that is not lines.
const DOCUMENT_BYTES: usize = 1 << 30;

/// Lines of a file, numbered from 1.
pub struct InputLines {
    lines: NumberedLines<Box<dyn BufRead>>,
    bar: Option<ProgressBar>,
}

impl InputLines {
    pub fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self { lines: NumberedLines::new(Box::new(io::stdin().lock())), bar: None });
        }
        let file = File::open(path).with_context(|| format!("can't read {}", path.display()))?;
        let bar = progress_bar(file.metadata().map_or(0, |about| about.len()));
        let from = BufReader::with_capacity(1 << 16, bar.wrap_read(file));
        Ok(Self { lines: NumberedLines::new(Box::new(from)), bar: Some(bar) })
    }

    /// Number of the last line.
    pub fn number(&self) -> u64 {
        self.lines.number()
    }

    /// Returns the last line again next time.
    pub fn repeat_line(&mut self) {
        self.lines.repeat_line();
    }

    /// The lines themselves, for those who read all of them.
    pub fn all(&mut self) -> &mut NumberedLines<Box<dyn BufRead>> {
        &mut self.lines
    }

    /// Whether the next line is one of an export; true at the end.
    pub fn is_keepline_export(&mut self) -> Result<bool> {
        let is_own = match self.next_line()? {
            None => return Ok(true),
            Some(line) => line.is_ok_and(|line| {
                let mut is_own = false;
                for_each_member(line, |key, _| is_own |= key == "\"keepline\"").is_some() && is_own
            }),
        };
        self.repeat_line();
        Ok(is_own)
    }

    /// The whole file, if it is one JSON document that begins with an array, or does not end with its first line.
    pub fn read_document(&mut self) -> Result<Option<String>> {
        let is_document = match self.next_line()? {
            None => return Ok(None),
            Some(line) => line.is_ok_and(|line| line.starts_with('[') || (line.starts_with('{') && !is_value(line))),
        };
        if !is_document {
            self.repeat_line();
            return Ok(None);
        }
        let before = self.lines.number().saturating_sub(1);
        let blank: NumberedLines<Box<dyn BufRead>> = NumberedLines::new(Box::new(io::empty()));
        let (mut bytes, mut rest) = std::mem::replace(&mut self.lines, blank).into_parts();
        let limit = DOCUMENT_BYTES.saturating_sub(bytes.len()) as u64;
        rest.by_ref().take(limit).read_to_end(&mut bytes).context("can't read the file")?;
        if let Ok(text) = std::str::from_utf8(&bytes)
            && is_value(text)
        {
            let text = text.trim().to_owned();
            self.finish();
            return Ok(Some(text));
        }
        // Lines after all, and the first one is invalid.
        self.lines = NumberedLines::after(before, Box::new(BufReader::new(Cursor::new(bytes).chain(rest))));
        Ok(None)
    }

    /// The next line that is not blank. The inner error says why it can't be read.
    pub fn next_line(&mut self) -> Result<Option<Result<&str, String>>> {
        let next = self.lines.next_line().context("can't read the file")?;
        if let (None, Some(bar)) = (&next, &self.bar) {
            bar.finish_and_clear();
        }
        Ok(next)
    }

    /// Takes the progress away: all was read.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
