//! Text that must not be shown: in no error, log line, table or `Debug` output.

use std::fmt;

/// What stands where a secret was.
const MASK: &str = "***";

/// A password, or text with a password inside. Only [`Secret::expose`] gives it away.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wrap it.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for sending it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.is_empty() { "" } else { MASK })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Secret({self})")
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// A URL without its password; masked as a whole when it can't be parsed, since the password may be anywhere in it.
pub fn masked_url(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let Ok(mut url) = url::Url::parse(text) else { return MASK.to_owned() };
    if url.password().is_some() && url.set_password(Some(MASK)).is_err() {
        return MASK.to_owned();
    }
    // Passwords also travel as parameters (`redis+unix://…?pass=…`); no parameter is worth that risk.
    if url.query().is_some() {
        url.set_query(Some(MASK));
    }
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_masked_wherever_it_is_formatted() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?} {secret:#?}"), "*** Secret(***) Secret(***)");
        assert_eq!(secret.expose(), "hunter2");
        assert_eq!(Secret::default().to_string(), "");
    }

    #[test]
    fn a_url_is_shown_without_its_password() {
        for (url, shown) in [
            ("", ""),
            ("redis://localhost:6379/0", "redis://localhost:6379/0"),
            ("redis://:hunter2@localhost", "redis://:***@localhost"),
            ("rediss://me:hunter2@host:1/2", "rediss://me:***@host:1/2"),
            ("redis+unix:///run/r.sock?pass=hunter2", "redis+unix:///run/r.sock?***"),
            ("hunter2@localhost", "***"),
            ("redis://me:hunter2@host:99999", "***"),
        ] {
            assert_eq!(masked_url(url), shown);
        }
    }
}
