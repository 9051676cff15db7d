//! What people see: messages on standard error, tables on standard output.
//!
//! Promises that nothing from a store, a line or a plugin reaches a terminal as a control character, or as one that
//! is invisible or turns the direction of others, that
//! colour and ornaments appear on terminals only, and that a progress bar and messages don't disturb each
//! other. For a command that answers in JSON, each message is a JSON object on a line of its own.

mod table;

use std::{
    io::{self, BufWriter, IsTerminal, Write},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use indicatif::ProgressBar;
use keepline::logging::is_printable;
use owo_colors::OwoColorize;
use serde::Serialize;
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

pub use self::table::print_table;
use crate::{error::Usage, json_text};

/// The bar that messages must be written above.
static BAR: OnceLock<ProgressBar> = OnceLock::new();

/// Whether messages are JSON.
static AS_JSON: AtomicBool = AtomicBool::new(false);

/// What the library says in this context is not said.
static LEFT_OUT: OnceLock<&str> = OnceLock::new();

/// Let what the library says in a context be left out from now on: the command's error says it.
pub fn leave_out(context: &'static str) {
    // The first one stays: a process runs one command.
    let _ = LEFT_OUT.set(context);
}

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

/// Things for standard output, each on one line, whatever is in it.
pub fn print_lines(lines: impl IntoIterator<Item = impl AsRef<str>>) -> io::Result<()> {
    let mut output = BufWriter::new(io::stdout().lock());
    for line in lines {
        writeln!(output, "{}", one_line(line.as_ref()))?;
    }
    output.flush()
}

/// JSON on a line of standard output, the same value as given, without anything that a terminal would obey. It is not
/// put together before: there may be much of it.
pub fn print_json(json: &impl Serialize) -> io::Result<()> {
    let mut output = JsonOutput(BufWriter::new(io::stdout().lock()));
    serde_json::to_writer(&mut output, json)?;
    output.end()
}

/// The same on several lines, for people.
pub fn print_json_in_lines(json: &impl Serialize) -> io::Result<()> {
    let mut output = JsonOutput(BufWriter::new(io::stdout().lock()));
    serde_json::to_writer_pretty(&mut output, json)?;
    output.end()
}

/// Lets JSON through as [`json_text::printable`] spells it.
struct JsonOutput<W>(W);

impl<W: Write> JsonOutput<W> {
    fn end(mut self) -> io::Result<()> {
        self.0.write_all(b"\n")?;
        self.0.flush()
    }
}

impl<W: Write> Write for JsonOutput<W> {
    fn write(&mut self, json: &[u8]) -> io::Result<usize> {
        // Characters come whole: it is written in texts.
        let text = std::str::from_utf8(json).map_err(io::Error::other)?;
        self.0.write_all(json_text::printable(text).as_bytes())?;
        Ok(json.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
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

/// Text without anything that a terminal would obey, or that people can't see for what it is: it is spelt as in JSON. New
/// lines stay.
pub fn printable(text: &str) -> String {
    let is_shown = |c: char| is_printable(c) || c == '\n';
    if text.chars().all(is_shown) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            c if is_shown(c) => out.push(c),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push_str(&json_text::escaped(c)),
        }
    }
    out
}

/// The same on one line.
pub fn one_line(text: &str) -> String {
    printable(text).replace('\n', "\\n")
}

/// A text for a pipe with all that a program could take for the end of a line spelt as in JSON.
pub fn without_breaks(text: &str) -> String {
    let is_break = |c| matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c if is_break(c) => out.push_str(&json_text::escaped(c)),
            c => out.push(c),
        }
    }
    out
}

/// A text of a plugin's as an argument that a person may copy into a shell: it ends where its quotes do.
pub fn quoted(text: &str) -> String {
    format!("'{}'", one_line(text).replace('\'', "'\\''"))
}

/// `1 session`, `2 sessions`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
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
    // The server of metrics warns of each HEAD that it answers as it should.
    let filter = Targets::new()
        .with_default(LevelFilter::WARN)
        .with_target("keepline", ours)
        .with_target("xitca_http::h1::proto::encode", LevelFilter::ERROR);
    // Fails only when somebody started logging before, and nobody does.
    let _ = tracing_subscriber::registry().with(Messages.with_filter(filter)).try_init();
}

/// What begins the context of what a plugin says.
const PLUGIN: &str = "plugin: ";

/// Events as one line each, in the voice of the other messages.
struct Messages;

impl<S: Subscriber> Layer<S> for Messages {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let Line { message, context, mut fields } = line;
        let kind = context.strip_prefix(PLUGIN).unwrap_or(&context);
        if LEFT_OUT.get().is_some_and(|left_out| *left_out == context || *left_out == kind) {
            return;
        }
        // Whose words a plugin's are comes first: the end of a long line is not where people look.
        let mut label = String::new();
        if context.starts_with(PLUGIN) {
            label = format!("[{context}] ");
        } else if !context.is_empty() {
            fields.insert_str(0, &format!(" [{context}]"));
        }
        let message = format!("{label}{message}{fields}").replace('\n', "\\n");
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
            // Where in its source a library says it, which is of no use to people.
            name if name.starts_with("log.") => {}
            name => self.fields.push_str(&format!(" {name}={value:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_can_drive_the_terminal() {
        assert_eq!(printable("a\x1b[2J\u{9b}b\nc\r\t"), "a\\u001b[2J\\u009bb\nc\\r\\t");
        assert_eq!(printable("a\u{202e}b\u{2028}é\u{e0001}"), "a\\u202eb\\u2028é\\udb40\\udc01");
        assert_eq!(one_line("a\nb\rc\x1b"), "a\\nb\\rc\\u001b");
        assert_eq!(without_breaks("a\nb\rc\u{2028}\t\u{85}é"), "a\\nb\\rc\\u2028\t\\u0085é");
        assert_eq!(quoted("a'; b\n"), r"'a'\''; b\n'");
    }

    #[test]
    fn where_a_library_says_something_is_left_out() {
        tracing::subscriber::with_default(tracing_subscriber::registry().with(Kept), || {
            tracing::warn!(log.file = "/root/.cargo/registry/x.rs", log.line = 259, reason = "r", "damaged");
        });
    }

    /// Holds an event against what is expected of it.
    struct Kept;

    impl<S: Subscriber> Layer<S> for Kept {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let mut line = Line::default();
            event.record(&mut line);
            assert_eq!((line.message.as_str(), line.fields.as_str()), ("damaged", " reason=\"r\""));
        }
    }

    #[test]
    fn no_json_can_drive_the_terminal_and_it_is_the_same_value() {
        let value = json!({"a\u{9b}": ["\u{202e}\u{7f}é\n\"\\", 1.5, null], "b": {}});
        let mut output = JsonOutput(Vec::new());
        serde_json::to_writer(&mut output, &value).unwrap();
        let text = String::from_utf8(output.0).unwrap();
        assert_eq!(text, r#"{"a\u009b":["\u202e\u007fé\n\"\\",1.5,null],"b":{}}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
