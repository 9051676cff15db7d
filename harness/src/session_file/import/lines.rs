//! Reads numbered lines of a file or of standard input, in bounded memory.
//!
//! Lines that are not UTF-8, or too long, are refused, and reading continues after them.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use keepline_json::{for_each_member, is_value};

use crate::terminal::progress_bar;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The longest line: a text of 8 MiB, of which each byte takes eight.
const LINE_BYTES: usize = 64 << 20;
/// The longest document that is not lines.
const DOCUMENT_BYTES: usize = 1 << 30;

/// Lines of a file, numbered from 1.
pub struct InputLines {
    from: Box<dyn BufRead>,
    /// Number of the last line.
    pub number: u64,
    is_held: bool,
    line: Vec<u8>,
    bar: Option<ProgressBar>,
}

impl InputLines {
    pub fn open(path: &Path) -> Result<Self> {
        let (from, bar): (Box<dyn BufRead>, _) = if path == Path::new("-") {
            (Box::new(io::stdin().lock()), None)
        } else {
            let file = File::open(path).with_context(|| format!("can't read {}", path.display()))?;
            let length = file.metadata().map_or(0, |about| about.len());
            (Box::new(BufReader::with_capacity(1 << 16, file)), Some(progress_bar(length)))
        };
        Ok(Self { from, number: 0, is_held: false, line: Vec::new(), bar })
    }

    /// Returns the last line again next time.
    pub fn repeat_line(&mut self) {
        self.is_held = true;
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
        let mut bytes = std::mem::take(&mut self.line);
        let limit = DOCUMENT_BYTES.saturating_sub(bytes.len()) as u64;
        self.from.by_ref().take(limit).read_to_end(&mut bytes).context("can't read the file")?;
        if let Ok(text) = std::str::from_utf8(&bytes)
            && is_value(text)
        {
            let text = text.trim().to_owned();
            if let Some(bar) = &self.bar {
                bar.finish_and_clear();
            }
            return Ok(Some(text));
        }
        // Lines after all, and the first one is invalid.
        let rest = std::mem::replace(&mut self.from, Box::new(io::empty()));
        self.from = Box::new(BufReader::new(io::Read::chain(io::Cursor::new(bytes), rest)));
        self.number -= 1;
        Ok(None)
    }

    /// The next line that is not blank. The inner error says why it can't be read.
    pub fn next_line(&mut self) -> Result<Option<Result<&str, String>>> {
        while !std::mem::take(&mut self.is_held) {
            self.line.clear();
            let limit = LINE_BYTES as u64 + 1;
            let read = io::Read::take(&mut *self.from, limit).read_until(b'\n', &mut self.line);
            let length = read.context("can't read the file")?;
            if length == 0 {
                if let Some(bar) = &self.bar {
                    bar.finish_and_clear();
                }
                return Ok(None);
            }
            self.number += 1;
            if let Some(bar) = &self.bar {
                bar.inc(length as u64);
            }
            if length > LINE_BYTES && !self.line.ends_with(b"\n") {
                self.from.skip_until(b'\n').context("can't read the file")?;
                return Ok(Some(Err(format!("it is longer than {LINE_BYTES} bytes"))));
            }
            if self.number == 1 && self.line.starts_with(BYTE_ORDER_MARK) {
                self.line.drain(..BYTE_ORDER_MARK.len());
            }
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        let line = self.line.trim_ascii();
        Ok(Some(std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())))
    }
}
