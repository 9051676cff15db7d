//! A command's result on standard output, as JSON or as plain lines.

use anyhow::Result;
use serde::Serialize;

use super::{print_json, print_line, print_lines, printable};

/// JSON or a plain text; nothing if that is empty.
pub fn print_result(as_json: bool, json: &impl Serialize, plain: &str) -> Result<()> {
    if as_json {
        return Ok(print_json(json)?);
    }
    if !plain.is_empty() {
        print_line(&printable(plain))?;
    }
    Ok(())
}

/// JSON, or one item a line: line breaks within an item are escaped.
pub fn print_result_lines(
    as_json: bool,
    json: &impl Serialize,
    lines: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<()> {
    if as_json {
        return Ok(print_json(json)?);
    }
    Ok(print_lines(lines)?)
}
