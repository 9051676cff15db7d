//! Formats texts, quantities and times for people, without control characters.

use std::{
    borrow::Cow,
    time::{Duration, SystemTime},
};

use keepline::logging::is_printable;

/// Escapes control characters and invisible characters as in JSON. Line feeds stay.
pub fn escape_unprintable(text: &str) -> String {
    escaped_where(text, |c| !is_printable(c) && c != '\n').into_owned()
}

/// Escapes line feeds, too.
pub fn escape_to_one_line(text: &str) -> String {
    escaped_where(text, |c| !is_printable(c)).into_owned()
}

/// Escapes all characters that a program may take for the end of a line.
pub fn escape_line_breaks(text: &str) -> String {
    let is_break = |c| matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    escaped_where(text, is_break).into_owned()
}

/// Escapes some characters as in JSON.
pub fn escaped_where(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            c if !is_escaped(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Two units beyond U+FFFF.
            c => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    Cow::Owned(out)
}

/// Quotes a plugin's text as one shell argument, to be copied.
pub fn quote_for_shell(text: &str) -> String {
    format!("'{}'", escape_to_one_line(text).replace('\'', "'\\''"))
}

/// `1 session`, `2 sessions`.
pub fn format_count(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A duration in its largest unit.
pub fn format_rough_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// The first `most` characters of a text, with an ellipsis if it is longer.
pub fn truncate_text(mut text: String, most: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(most) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// A duration to three digits.
pub fn format_duration(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        ..99.95 => format!("{micros:.1} µs"),
        ..999.5 => format!("{micros:.0} µs"),
        ..99_950.0 => format!("{:.1} ms", micros / 1e3),
        ..999_500.0 => format!("{:.0} ms", micros / 1e3),
        _ => format!("{:.1} s", micros / 1e6),
    }
}

/// `5 min ago`, by this machine's clock; `milliseconds` since 1970.
pub fn format_age(milliseconds: u64) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{} ago", format_rough_duration(now.saturating_sub(Duration::from_millis(milliseconds))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_texts_have_no_control_characters() {
        assert_eq!(escape_unprintable("a\x1b[2J\u{9b}b\nc\r\t"), "a\\u001b[2J\\u009bb\nc\\r\\t");
        assert_eq!(escape_unprintable("a\u{202e}b\u{2028}é\u{e0001}"), "a\\u202eb\\u2028é\\udb40\\udc01");
        assert_eq!(escape_to_one_line("a\nb\rc\x1b"), "a\\nb\\rc\\u001b");
        assert_eq!(escape_line_breaks("a\nb\rc\u{2028}\t\u{85}é"), "a\\nb\\rc\\u2028\t\\u0085é");
        assert_eq!(quote_for_shell("a'; b\n"), r"'a'\''; b\n'");
    }
}
