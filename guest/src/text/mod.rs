//! Rules for texts that know nothing of sessions: ids, truncation, redaction, token estimates, timestamps.

pub(crate) mod ascii;
pub mod ids;
pub(crate) mod json_values;
pub(crate) mod quoting;
pub(crate) mod redact;
pub(crate) mod timestamp;
pub mod tokens;
pub(crate) mod truncate;

/// Where the text has the other in it, which is not empty. The standard library's search is faster in long texts and is a
/// hundredth of the component.
pub(crate) fn find_substring(text: &str, wanted: &str) -> Option<usize> {
    let first = *wanted.as_bytes().first()?;
    let begins = |at: usize| text.get(at..).is_some_and(|rest| rest.starts_with(wanted));
    (0..).zip(text.bytes()).find(|(at, byte)| *byte == first && begins(*at)).map(|(at, _)| at)
}

/// Texts with another one between them. The standard library's is ten times as large for each kind of text.
pub(crate) fn join(texts: &[impl AsRef<str>], between: &str) -> String {
    let mut out = String::new();
    for (index, text) in texts.iter().enumerate() {
        out.extend([if index > 0 { between } else { "" }, text.as_ref()]);
    }
    out
}

/// What is before the other text, and what is behind it.
pub(crate) fn split_once<'a>(text: &'a str, wanted: &str) -> Option<(&'a str, &'a str)> {
    let (before, rest) = text.split_at_checked(find_substring(text, wanted)?)?;
    Some((before, rest.strip_prefix(wanted)?))
}
