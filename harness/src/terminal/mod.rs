//! Prints messages on standard error and results on standard output.
//!
//! Nothing from a store, a line or a plugin reaches a terminal as a control character, or as one that is invisible or
//! reverses the direction of text. Colours and ornaments appear on terminals only. A progress bar and messages don't
//! disturb each other. For a command that answers in JSON, each message is a JSON object on its own line.

pub mod json_text;
pub mod logging;
mod progress;
mod result;
pub mod table;
mod text;

use std::{
    io::{self, BufWriter, IsTerminal, Write},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::Result;
use indicatif::ProgressBar;
use owo_colors::OwoColorize;
use serde::Serialize;
use serde_json::{Map, Value, json};

pub(crate) use self::result::object;
pub use self::{
    progress::{bytes_bar, percent_bar, progress_bar, spinner},
    result::{print_result, print_result_lines},
    table::{fact_rows, print_list, print_table},
    text::{
        escape_line_breaks, escape_to_one_line, escape_unprintable, format_age, format_count, format_duration,
        format_rough_duration, quote_for_shell, truncate_text,
    },
};

/// The progress bar above which messages are printed.
static PROGRESS_BAR: OnceLock<ProgressBar> = OnceLock::new();

static AS_JSON: AtomicBool = AtomicBool::new(false);

pub fn print_messages_as_json() {
    AS_JSON.store(true, Ordering::Relaxed);
}

/// Prints messages above this bar from now on.
fn set_progress_bar(bar: &ProgressBar) {
    // The first one stays: a process shows one.
    let _ = PROGRESS_BAR.set(bar.clone());
}

pub fn print_to_stderr(line: &str) {
    // A closed standard error can't be reported anywhere.
    let write = || _ = writeln!(io::stderr().lock(), "{line}");
    match PROGRESS_BAR.get() {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Whether standard error may have colours.
fn has_colour() -> bool {
    let unset = |name: &str| std::env::var_os(name).is_none_or(|value| value.is_empty());
    io::stderr().is_terminal() && unset("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The code of an error that has none of its own.
const DEFAULT_ERROR_CODE: &str = "failed";

pub fn print_error(message: &str) {
    print_error_with_code(DEFAULT_ERROR_CODE, message);
}

/// Prints an error, for scripts with its code.
pub fn print_error_with_code(code: &str, message: &str) {
    print_error_with_details(code, message, Vec::new());
}

/// Prints an error, for scripts with more members of its JSON object.
pub fn print_error_with_details(code: &str, message: &str, details: Vec<(&str, Value)>) {
    let members = [("code", json!(code))].into_iter().chain(details).collect();
    print_message("error", members, |label| label.red().bold().to_string(), message);
}

/// Prints a warning: something was probably not intended.
pub fn print_warning(message: &str) {
    print_message("warning", Vec::new(), |label| label.yellow().bold().to_string(), message);
}

pub fn print_note(message: &str) {
    print_message("note", Vec::new(), |label| label.cyan().bold().to_string(), message);
}

/// `members`: of the JSON object, beside the message.
fn print_message(kind: &str, members: Vec<(&str, Value)>, coloured: impl Fn(&str) -> String, message: &str) {
    let message = escape_unprintable(message);
    if AS_JSON.load(Ordering::Relaxed) {
        let members = members.into_iter().chain([("message", json!(message))]);
        let body: Map<String, Value> = members.map(|(name, value)| (name.to_owned(), value)).collect();
        let line = json!({kind: body}).to_string();
        return print_to_stderr(&json_text::escape_unprintable_json(&line));
    }
    let label = format!("{kind}:");
    print_to_stderr(&format!("{} {message}", if has_colour() { coloured(&label) } else { label }));
}

pub fn print_bytes(bytes: &[u8]) -> Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(bytes)?;
    Ok(output.flush()?)
}

pub fn print_line(line: &str) -> Result<()> {
    print_bytes(format!("{line}\n").as_bytes())
}

/// Prints a text as it is; on a terminal, escaped.
pub fn print_raw_text(text: &str) -> Result<()> {
    if is_terminal_output() { print_line(&escape_unprintable(text)) } else { print_line(text) }
}

/// Prints items on standard output, each escaped to one line.
pub fn print_lines(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Result<()> {
    let mut output = BufWriter::new(io::stdout().lock());
    for line in lines {
        writeln!(output, "{}", escape_to_one_line(line.as_ref()))?;
    }
    Ok(output.flush()?)
}

/// Prints JSON on one line of standard output, with control characters escaped: the same value. It is written as a stream,
/// since it may be large.
pub fn print_json(json: &impl Serialize) -> Result<()> {
    let mut output = JsonOutput(BufWriter::new(io::stdout().lock()));
    serde_json::to_writer(&mut output, json)?;
    output.end()
}

/// Prints indented JSON, for people.
pub fn print_indented_json(json: &impl Serialize) -> Result<()> {
    let mut output = JsonOutput(BufWriter::new(io::stdout().lock()));
    serde_json::to_writer_pretty(&mut output, json)?;
    output.end()
}

/// Writes JSON as [`json_text::escape_unprintable_json`] escapes it.
struct JsonOutput<W>(W);

impl<W: Write> JsonOutput<W> {
    fn end(mut self) -> Result<()> {
        self.0.write_all(b"\n")?;
        Ok(self.0.flush()?)
    }
}

impl<W: Write> Write for JsonOutput<W> {
    fn write(&mut self, json: &[u8]) -> io::Result<usize> {
        // serde_json writes whole characters.
        let text = std::str::from_utf8(json).map_err(io::Error::other)?;
        self.0.write_all(json_text::escape_unprintable_json(text).as_bytes())?;
        Ok(json.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

pub fn is_terminal_output() -> bool {
    io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_json_has_no_control_characters_and_is_the_same_value() {
        let value = json!({"a\u{9b}": ["\u{202e}\u{7f}é\n\"\\", 1.5, null], "b": {}});
        let mut output = JsonOutput(Vec::new());
        serde_json::to_writer(&mut output, &value).unwrap();
        let text = String::from_utf8(output.0).unwrap();
        assert_eq!(text, r#"{"a\u009b":["\u202e\u007fé\n\"\\",1.5,null],"b":{}}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
