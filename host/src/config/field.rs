//! A field of the configuration: what it may hold, and how a value for it is checked.

use serde_json::Value;

use crate::store::{Secret, masked_url};

/// What a field may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any text.
    Text,
    /// Text that is never shown.
    Secret,
    /// A Redis URL, shown without its password. Empty: none.
    Url,
    /// A whole number in this range, both ends included.
    Number {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// Yes or no.
    Flag,
    /// Texts: an array of them, or one text with commas between them.
    List,
}

/// A literal in a table: the default of a field, or what a profile sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// Text, a secret, a URL or a choice.
    Text(&'static str),
    /// A number.
    Number(u64),
    /// Yes or no.
    Flag(bool),
}

impl Preset {
    /// The same as JSON.
    pub fn json(self) -> Value {
        match self {
            Self::Text(text) => Value::from(text),
            Self::Number(number) => Value::from(number),
            Self::Flag(flag) => Value::from(flag),
        }
    }
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// As it is written in a file and after `--set`.
    pub name: &'static str,
    /// What it may hold.
    pub kind: Kind,
    /// Its default.
    pub default: Preset,
    /// One line for people.
    pub about: &'static str,
}

/// A checked value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// Text or a choice.
    Text(String),
    /// Never shown.
    Secret(Secret),
    /// Shown without its password.
    Url(Secret),
    /// In range.
    Number(u64),
    /// Yes or no.
    Flag(bool),
    /// Texts, none of them empty.
    List(Vec<String>),
}

impl Setting {
    /// For people and for `--json`: secrets are masked.
    pub fn shown(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(text.as_str()),
            Self::Secret(secret) => Value::from(secret.to_string()),
            Self::Url(url) => Value::from(masked_url(url.expose())),
            Self::Number(number) => Value::from(*number),
            Self::Flag(flag) => Value::from(*flag),
            Self::List(texts) => Value::from(texts.as_slice()),
        }
    }
}

impl Field {
    /// What is allowed, to go after "must be".
    pub fn allowed(&self) -> String {
        match self.kind {
            Kind::Choice(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                match quoted.split_last() {
                    Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
                    _ => quoted.concat(),
                }
            }
            Kind::Text | Kind::Secret => "a string".to_owned(),
            Kind::Url => "a redis:// or rediss:// URL, or empty".to_owned(),
            Kind::Number { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Flag => "true or false".to_owned(),
            Kind::List => "a list of strings, or one comma-separated string".to_owned(),
        }
    }

    /// Check a JSON value. None: not allowed.
    pub(super) fn accept_json(&self, value: &Value) -> Option<Setting> {
        match (self.kind, value) {
            (Kind::Number { .. }, Value::Number(number)) => {
                // 6379.0 is how some writers of JSON spell a whole number.
                let whole = number.as_u64().or_else(|| number.as_f64().and_then(whole_number))?;
                self.accept_number(whole)
            }
            (Kind::Flag, Value::Bool(flag)) => Some(Setting::Flag(*flag)),
            (Kind::List, Value::Array(texts)) => {
                let texts: Option<Vec<_>> = texts.iter().map(|text| Some(text.as_str()?.trim().to_owned())).collect();
                texts.filter(|texts| texts.iter().all(|text| !text.is_empty())).map(Setting::List)
            }
            (Kind::Choice(_) | Kind::Text | Kind::Secret | Kind::Url | Kind::List, Value::String(text)) => {
                self.accept_text(text)
            }
            _ => None,
        }
    }

    /// Check text from a command line or the environment, by the field's type: a password `12345` stays
    /// text. None: not allowed.
    pub(super) fn accept_text(&self, text: &str) -> Option<Setting> {
        match self.kind {
            Kind::Choice(words) => words.contains(&text).then(|| Setting::Text(text.to_owned())),
            Kind::Text => Some(Setting::Text(text.to_owned())),
            Kind::Secret => Some(Setting::Secret(Secret::new(text))),
            Kind::Url => Some(Setting::Url(Secret::new(text))),
            Kind::Number { .. } => text.trim().parse().ok().and_then(|whole| self.accept_number(whole)),
            Kind::Flag => text.trim().parse().ok().map(Setting::Flag),
            Kind::List => {
                let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
                Some(Setting::List(texts.map(str::to_owned).collect()))
            }
        }
    }

    fn accept_number(&self, whole: u64) -> Option<Setting> {
        match self.kind {
            Kind::Number { min, max } if (min..=max).contains(&whole) => Some(Setting::Number(whole)),
            _ => None,
        }
    }
}

/// A whole number that a float holds exactly. Beyond 2^53 a float can't tell neighbours apart.
fn whole_number(number: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked in the condition")]
    (number.fract() == 0.0 && (0.0..=EXACT).contains(&number)).then_some(number as u64)
}

/// The Rust type of a field, taken from its checked value.
pub(super) trait FromSetting: Sized {
    fn from_setting(setting: &Setting) -> Option<Self>;
}

impl FromSetting for String {
    fn from_setting(setting: &Setting) -> Option<Self> {
        match setting {
            Setting::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl FromSetting for Secret {
    fn from_setting(setting: &Setting) -> Option<Self> {
        match setting {
            Setting::Secret(secret) | Setting::Url(secret) => Some(secret.clone()),
            _ => None,
        }
    }
}

impl FromSetting for u64 {
    fn from_setting(setting: &Setting) -> Option<Self> {
        match setting {
            Setting::Number(number) => Some(*number),
            _ => None,
        }
    }
}

impl FromSetting for bool {
    fn from_setting(setting: &Setting) -> Option<Self> {
        match setting {
            Setting::Flag(flag) => Some(*flag),
            _ => None,
        }
    }
}

impl FromSetting for Vec<String> {
    fn from_setting(setting: &Setting) -> Option<Self> {
        match setting {
            Setting::List(texts) => Some(texts.clone()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::field;

    #[test]
    fn a_list_is_an_array_or_one_text_with_commas() {
        let nodes = field("redis_nodes").unwrap();
        let two = Some(Setting::List(vec!["a:1".into(), "b:2".into()]));
        assert_eq!(nodes.accept_json(&serde_json::json!(["a:1", " b:2 "])), two);
        assert_eq!(nodes.accept_text(" a:1, b:2,"), two);
        assert_eq!(nodes.accept_text(""), Some(Setting::List(vec![])));
        for bad in [serde_json::json!([1]), serde_json::json!(["a", ""]), serde_json::json!({}), serde_json::json!(7)] {
            assert_eq!(nodes.accept_json(&bad), None, "{bad}");
        }
    }

    #[test]
    fn numbers_are_whole_and_in_range() {
        let port = field("redis_port").unwrap();
        for good in ["1", "65535", "6379.0"] {
            assert!(port.accept_json(&serde_json::from_str(good).unwrap()).is_some(), "{good}");
        }
        for bad in ["0", "65536", "-1", "6379.5", "1e300", "\"6379\"", "true", "[]", "{}"] {
            assert!(port.accept_json(&serde_json::from_str(bad).unwrap()).is_none(), "{bad}");
        }
        for bad in ["", "abc", "-1", "0x10", "99999999999999999999"] {
            assert!(port.accept_text(bad).is_none(), "{bad}");
        }
    }
}
