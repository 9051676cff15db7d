//! What people see: messages on standard error, tables on standard output.
//!
//! Promises that nothing from a store, a line or a plugin reaches a terminal as a control character, or as one that
//! is invisible or turns the direction of others, that
//! colour and ornaments appear on terminals only, and that a progress bar and messages don't disturb each
//! other. For a command that answers in JSON, each message is a JSON object on a line of its own.

use std::{
    io::{self, IsTerminal, Write},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use comfy_table::{ContentArrangement, Table, presets};
use indicatif::ProgressBar;
use keepline::lend::is_printable;
use owo_colors::OwoColorize;
use serde_json::json;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::{Context, Layer, SubscriberExt},
    util::SubscriberInitExt,
};

use crate::error::Usage;

/// The bar that messages must be written above.
static BAR: OnceLock<ProgressBar> = OnceLock::new();

/// Whether messages are JSON.
static AS_JSON: AtomicBool = AtomicBool::new(false);

/// Let messages be JSON from now on.
pub fn speak_json() {
    AS_JSON.store(true, Ordering::Relaxed);
}

/// Let messages be written above this bar from now on.
pub fn write_above(bar: &ProgressBar) {
    // The first one stays: a process shows one.
    let _ = BAR.set(bar.clone());
}

/// One line on standard error.
pub fn say(line: &str) {
    // Nobody is left to be told that standard error is closed.
    let write = || _ = writeln!(io::stderr().lock(), "{line}");
    match BAR.get() {
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
const FAILED: &str = "failed";

/// What went wrong.
pub fn error(message: &str) {
    error_with_code(FAILED, message);
}

/// What went wrong; scripts are told the code, too.
pub fn error_with_code(code: &str, message: &str) {
    tell("error", Some(code), |label| label.red().bold().to_string(), message);
}

/// Something that was probably not meant.
pub fn warning(message: &str) {
    tell("warning", None, |label| label.yellow().bold().to_string(), message);
}

/// Good to know.
pub fn note(message: &str) {
    tell("note", None, |label| label.cyan().bold().to_string(), message);
}

fn tell(kind: &str, code: Option<&str>, coloured: impl Fn(&str) -> String, message: &str) {
    let message = printable(message);
    if AS_JSON.load(Ordering::Relaxed) {
        let body = match code {
            Some(code) => json!({"code": code, "message": message}),
            None => json!({"message": message}),
        };
        return say(&json!({kind: body}).to_string());
    }
    let label = format!("{kind}:");
    say(&format!("{} {message}", if has_colour() { coloured(&label) } else { label }));
}

/// Bytes for standard output, whole.
pub fn print(bytes: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(bytes)?;
    output.flush()
}

/// A line for standard output.
pub fn print_line(line: &str) -> io::Result<()> {
    print(format!("{line}\n").as_bytes())
}

/// Ask a person to type a word before something is done that can't be undone; a script has to say `--yes`.
pub fn confirm(warning: &str, what_to_type: &str, word: &str) -> anyhow::Result<()> {
    if !is_for_people() || !io::stdin().is_terminal() {
        return Err(Usage(format!("{warning}: use --yes to confirm")).into());
    }
    say(&printable(&format!("{warning}. Type {what_to_type} to confirm:")));
    let mut typed = String::new();
    io::stdin().read_line(&mut typed)?;
    if typed.trim_end_matches(['\n', '\r']) == word { Ok(()) } else { Err(Usage("nothing was deleted".into()).into()) }
}

/// Whether results are read by a person.
pub fn is_for_people() -> bool {
    io::stdout().is_terminal()
}

/// Text without anything that a terminal would obey, or that people can't see for what it is. New lines stay.
pub fn printable(text: &str) -> String {
    let is_shown = |c: char| is_printable(c) || c == '\n';
    let escape = |c: char| if is_shown(c) { c.to_string() } else { c.escape_default().to_string() };
    if text.chars().all(is_shown) { text.to_owned() } else { text.chars().map(escape).collect() }
}

/// Rows with a heading: a table for people, tab-separated fields without the heading for programs. A tab or a
/// new line in a field is escaped for both.
pub fn print_table<const N: usize>(heading: [&str; N], rows: Vec<[String; N]>) -> io::Result<()> {
    let clean = |cell: &String| printable(cell).replace('\n', "\\n");
    if is_for_people() {
        let mut table = Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header(heading);
        table.add_rows(rows.iter().map(|row| row.each_ref().map(clean)));
        return print_line(&table.to_string());
    }
    let mut text = String::new();
    for row in &rows {
        text.push_str(&row.each_ref().map(clean).join("\t"));
        text.push('\n');
    }
    print(text.as_bytes())
}

/// A time in its largest unit.
pub fn rough(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Warnings on standard error, and with `verbose` what is being done.
pub fn start_logging(verbose: bool) {
    let ours = if verbose { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let filter = Targets::new().with_default(LevelFilter::WARN).with_target("keepline", ours);
    // Fails only when somebody started logging before, and nobody does.
    let _ = tracing_subscriber::registry().with(Messages.with_filter(filter)).try_init();
}

/// Events as one line each, in the voice of the other messages.
struct Messages;

impl<S: Subscriber> Layer<S> for Messages {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let Line { message, context, mut fields } = line;
        if !context.is_empty() {
            fields.insert_str(0, &format!(" [{context}]"));
        }
        let message = format!("{message}{fields}").replace('\n', "\\n");
        match *event.metadata().level() {
            Level::ERROR => error(&message),
            Level::WARN => warning(&message),
            level => tell(&level.as_str().to_ascii_lowercase(), None, str::to_owned, &message),
        }
    }
}

#[derive(Default)]
struct Line {
    message: String,
    context: String,
    fields: String,
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "context" => value.clone_into(&mut self.context),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.fields.push_str(&format!(" {name}={value:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_can_drive_the_terminal() {
        assert_eq!(printable("a\x1b[2J\u{9b}b\nc\r"), "a\\u{1b}[2J\\u{9b}b\nc\\r");
        assert_eq!(printable("a\u{202e}b\u{2028}é"), "a\\u{202e}b\\u{2028}é");
    }
}
