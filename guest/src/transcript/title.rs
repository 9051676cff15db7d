//! Titles made from a first message, and where a stored title came from.

use crate::text;
use crate::transcript::record::{RecordKind, Role, StoredRecord};

/// What [`UNTITLED`] says then: the title, or that there is none, stays as far as deferred work is concerned.
pub(crate) const SETTLED: &str = "0";

/// The first message as a title.
pub(crate) fn title_from_message(text: &str, max: u64) -> String {
    // Nothing that moves a terminal's cursor, or turns around what is written.
    let is_plain = |c: &char| !c.is_control() && !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let words = text.split_whitespace().map(|word| word.chars().filter(is_plain).collect::<String>());
    let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
    shortened(&text::join(&words, " "), max)
}

/// What a title was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TitleOrigin<'a> {
    /// Of the message with this key, by its first words or by a model.
    Message(&'a str),
    /// Somebody gave it.
    Given,
    /// Not recorded: it is of a version that did not.
    Unknown,
}

impl<'a> TitleOrigin<'a> {
    /// Of a title, by what [`TITLE_OF`] says.
    pub(crate) fn parse(recorded: Option<&'a str>, title: &str) -> Self {
        match recorded.and_then(|text| text.split_once(' ')) {
            Some((key, of)) if of == title => {
                if key.is_empty() {
                    Self::Given
                } else {
                    Self::Message(key)
                }
            }
            _ => Self::Unknown,
        }
    }

    /// Whether the title goes with a message. `is_settled`: deferred work is done with it, so that it may be a model's,
    /// which tells of the conversation's first question.
    pub(crate) fn is_of(self, title: &str, record: &StoredRecord<'_>, is_settled: bool) -> bool {
        match self {
            Self::Message(key) => record.id.as_deref() == Some(key),
            Self::Given => false,
            Self::Unknown => is_words_of(title, &record.content) || (is_settled && is_first_question(record)),
        }
    }
}

/// What [`TITLE_OF`] says of a title.
pub(crate) fn format_origin(key: &str, title: &str) -> String {
    [key, " ", title].concat()
}

/// Whether a title is the beginning of a text, whatever its longest length was when it was made.
pub(crate) fn is_words_of(title: &str, text: &str) -> bool {
    let line = title_from_message(text, u64::MAX);
    let begin = title.strip_suffix("...").filter(|begin| !begin.is_empty());
    line == title || begin.is_some_and(|begin| line.starts_with(begin))
}

fn is_first_question(record: &StoredRecord<'_>) -> bool {
    record.kind == RecordKind::Message && record.role == Role::User && record.begins && record.total.unwrap_or(0) == 0
}

/// With three dots in place of what is too much.
fn shortened(text: &str, max: u64) -> String {
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    if text.chars().nth(max).is_none() {
        return text.to_owned();
    }
    let kept: String = text.chars().take(max.saturating_sub(3)).collect();
    format!("{}...", kept.trim_end())
}
