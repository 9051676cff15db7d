//! A record's text, which may be copied without being read.
//!
//! Promises that what it appends spells the same as what it was read from, as this filter writes it. Refuses nothing: half
//! a surrogate pair is U+FFFD.

use keepline_json as json;
use keepline_json::push_string;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Deref;

/// A text. One that was read stays the JSON string that it is stored as until somebody looks at it: most are copied.
#[derive(Clone)]
pub struct RecordText<'a>(TextForm<'a>);

#[derive(Clone)]
enum TextForm<'a> {
    /// As JSON, without escapes.
    Plain(&'a str),
    /// As JSON, and what it spells.
    Escaped(&'a str, OnceCell<String>),
    Spelt(Cow<'a, str>),
}

impl<'a> RecordText<'a> {
    /// None: the value is no string.
    pub(crate) fn from_json(raw: &'a str) -> Option<Self> {
        let is_plain = json::is_plain_string(raw)?;
        Some(Self(if is_plain { TextForm::Plain(raw) } else { TextForm::Escaped(raw, OnceCell::new()) }))
    }

    /// Whether it says nothing.
    pub(crate) fn is_blank(&self) -> bool {
        let shows = |first: &u8| first.is_ascii_graphic() && *first != b'\\';
        match &self.0 {
            // Most begin with what tells it, and needn't be read for that.
            TextForm::Plain(raw) | TextForm::Escaped(raw, _)
                if raw.as_bytes().get(1).is_some_and(shows) && raw.len() > 2 =>
            {
                false
            }
            _ => self.trim().is_empty(),
        }
    }

    /// Append it as a JSON string.
    pub(crate) fn push_to(&self, out: &mut String) {
        match &self.0 {
            TextForm::Plain(raw) => out.push_str(raw),
            TextForm::Escaped(raw, _) => json::push_as_stored(out, raw),
            TextForm::Spelt(text) => push_string(out, text),
        }
    }
}

impl Deref for RecordText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            TextForm::Plain(raw) => raw.get(1..raw.len() - 1).unwrap_or_default(),
            TextForm::Escaped(raw, spelt) => {
                spelt.get_or_init(|| json::decode_string(raw).map(Cow::into_owned).unwrap_or_default())
            }
            TextForm::Spelt(text) => text,
        }
    }
}

impl<'a> From<Cow<'a, str>> for RecordText<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self(TextForm::Spelt(text))
    }
}

impl Default for RecordText<'_> {
    fn default() -> Self {
        "".into()
    }
}

impl<'a> From<&'a str> for RecordText<'a> {
    fn from(text: &'a str) -> Self {
        Cow::from(text).into()
    }
}

impl From<String> for RecordText<'_> {
    fn from(text: String) -> Self {
        Cow::from(text).into()
    }
}

impl PartialEq for RecordText<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for RecordText<'_> {}

impl std::fmt::Debug for RecordText<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(formatter)
    }
}
