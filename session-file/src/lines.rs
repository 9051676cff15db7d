//! Reads numbered lines in bounded memory.
//!
//! Lines that are not UTF-8, or too long, are refused, and reading continues after them.

use std::io::{self, BufRead};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The longest line: a text of 8 MiB, of which each byte takes eight.
const LINE_BYTES: usize = 64 << 20;

/// Lines, numbered from 1.
#[derive(Debug)]
pub struct NumberedLines<R> {
    from: R,
    number: u64,
    is_held: bool,
    line: Vec<u8>,
}

impl<R: BufRead> NumberedLines<R> {
    /// The lines of what is read from there.
    pub fn new(from: R) -> Self {
        Self::after(0, from)
    }

    /// The lines of what is read from there, which follow as many others.
    pub fn after(number: u64, from: R) -> Self {
        Self { from, number, is_held: false, line: Vec::new() }
    }

    /// Number of the last line; 0 before the first one.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the last line again next time.
    pub fn repeat_line(&mut self) {
        self.is_held = true;
    }

    /// The last line, with its end, and what the lines after it are read from.
    pub fn into_parts(self) -> (Vec<u8>, R) {
        (self.line, self.from)
    }

    /// The next line that is not blank. The inner error says why it can't be read.
    ///
    /// # Errors
    /// When reading fails.
    pub fn next_line(&mut self) -> io::Result<Option<Result<&str, String>>> {
        while !std::mem::take(&mut self.is_held) {
            self.line.clear();
            let limit = LINE_BYTES as u64 + 1;
            let length = io::Read::take(&mut self.from, limit).read_until(b'\n', &mut self.line)?;
            if length == 0 {
                return Ok(None);
            }
            self.number += 1;
            if length > LINE_BYTES && !self.line.ends_with(b"\n") {
                self.from.skip_until(b'\n')?;
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
