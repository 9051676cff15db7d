//! Which names sessions, keys and messages may have, and the hashes that stand for others.
//!
//! Promises the original node's rules and error messages, for the whole string: a trailing newline is refused. Keys that begin and
//! end with `__` are refused, as stores keep their bookkeeping there.

use keepline_json::push_base32;
use sha2::{Digest, Sha256};
use std::borrow::Cow;

use crate::text::quoting::repr;

/// What the names begin with that are hashes.
const HASHED: &str = "h-";

/// The filter's own two keys.
pub(crate) const LAST_ANSWER: &str = "last_answer";

pub(crate) const ANSWER_COUNT: &str = "answer_count";

const SESSION_MAX: usize = 128;

const KEY_MAX: usize = 256;

/// Whether this can be a session id.
pub fn is_session(name: &str) -> bool {
    (1..=SESSION_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Longer ids are refused where others are hashed, too: they are kept with their sessions.
const ID_MAX: usize = 1024;

/// Which ids sessions may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionIds {
    /// `[A-Za-z0-9_-]{1,128}`, as in the original node; of a hash's form only those of sessions that are there and keep no
    /// other id.
    #[default]
    Strict,
    /// Any text of at most 1,024 bytes: what is not allowed otherwise, or has a hash's form, is hashed.
    Hash,
}

/// Why a session can't have an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidId {
    /// It is not a text.
    Type,
    /// It is too long.
    Length,
    /// It has other characters than are allowed.
    Characters,
    /// It has the form of a hash.
    Reserved,
}

impl InvalidId {
    /// The code of the problem with which an entry is ignored.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Type => "session-id-type",
            Self::Length => "session-id-length",
            Self::Characters => "session-id-characters",
            Self::Reserved => "session-id-reserved",
        }
    }
}

impl SessionIds {
    /// The name of a session with this id, which is that of its bucket. Under [`Strict`](Self::Strict), one that
    /// [is a hash](is_hash) is still to be looked up.
    pub fn name(self, id: &str) -> Result<Cow<'_, str>, InvalidId> {
        match self {
            _ if is_session(id) && !is_hash(id) => Ok(id.into()),
            Self::Strict if is_session(id) => Ok(id.into()),
            Self::Strict if id.len() > SESSION_MAX => Err(InvalidId::Length),
            Self::Strict => Err(InvalidId::Characters),
            Self::Hash if (1..=ID_MAX).contains(&id.len()) => Ok(hashed(id).into()),
            Self::Hash => Err(InvalidId::Length),
        }
    }

    /// What an id has to be.
    pub(crate) fn allowed(self) -> &'static str {
        match self {
            Self::Strict => {
                "it must be 1-128 letters, digits, hyphens or underscores, and not have the form of a hash; with \
                 session_ids \"hash\", any text of at most 1,024 bytes"
            }
            Self::Hash => "it must be a text of 1-1,024 bytes (session_ids is \"hash\")",
        }
    }
}

/// Whether a name has the form of those that are made of ids.
pub fn is_hash(name: &str) -> bool {
    let digits = name.strip_prefix(HASHED);
    digits.is_some_and(|digits| {
        digits.len() == 52 && digits.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'))
    })
}

/// Whether this can be a key.
pub fn is_key(name: &str) -> bool {
    is_key_shaped(name) && !is_reserved(name)
}

/// Whether this is spelt like a key. History of other writers may tell of keys that we refuse.
pub(crate) fn is_key_shaped(name: &str) -> bool {
    (1..=KEY_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

fn is_reserved(name: &str) -> bool {
    name.starts_with("__") && name.ends_with("__")
}

/// A name for any text, as the key of a map that is not `values`: the text itself if it is 1 to 256 characters from
/// `!` to `~` and does not begin with `h-`; else `h-` and its SHA-256 in lower-case base32.
pub(crate) fn token(text: &str) -> Cow<'_, str> {
    if is_token(text) && !text.starts_with(HASHED) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(hashed(text))
}

/// `h-` and the text's SHA-256 in lower-case base32: a name for a bucket, too.
pub(crate) fn hashed(text: &str) -> String {
    let mut out = String::with_capacity(HASHED.len() + 52);
    out.push_str(HASHED);
    push_base32(&mut out, &Sha256::digest(text));
    out
}

/// Whether this can be the key of a map that is not `values`.
pub(crate) fn is_token(text: &str) -> bool {
    (1..=KEY_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A session id, or what is wrong with it.
pub fn check_session(name: &str) -> Result<(), String> {
    if is_session(name) {
        return Ok(());
    }
    Err(format!("Invalid session_id: {}. Must be 1-128 alphanumeric characters, hyphens, or underscores.", repr(name)))
}

/// A key, or what is wrong with it.
pub fn check_key(name: &str) -> Result<(), String> {
    if !is_key_shaped(name) {
        return Err(format!(
            "Invalid key: {}. Must be 1-256 alphanumeric characters, hyphens, underscores, or dots.",
            repr(name)
        ));
    }
    if is_reserved(name) {
        return Err(format!(
            "Invalid key: {}. Names that begin and end with two underscores are reserved.",
            repr(name)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::text::quoting::repr_json;

    #[test]
    fn session_ids_are_checked_as_a_whole() {
        for good in ["a", "A-_9", &"x".repeat(128), "__meta__", "-"] {
            assert!(check_session(good).is_ok(), "{good}");
        }
        let long = "x".repeat(129);
        for bad in ["", "a\n", "a b", "é", "a.b", "a:b", "٣", "a\0", &long] {
            assert!(check_session(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_id_is_a_name_or_is_hashed() {
        let reserved = hashed("telegram:42");
        assert!(is_hash(&reserved) && is_session(&reserved));
        for name in ["h-", "h-a", &reserved[..53], &format!("{reserved}a"), &reserved.to_uppercase(), "telegram:42"] {
            assert!(!is_hash(name), "{name}");
        }
        let (strict, hash) = (SessionIds::Strict, SessionIds::Hash);
        assert_eq!((strict.name("a-B_9"), hash.name("a-B_9")), (Ok("a-B_9".into()), Ok("a-B_9".into())));
        assert_eq!((strict.name("h-a"), hash.name("h-a")), (Ok("h-a".into()), Ok("h-a".into())));
        let long = "x".repeat(129);
        for (id, why) in [
            ("telegram:42", InvalidId::Characters),
            ("eva@example.org", InvalidId::Characters),
            ("é\n\0", InvalidId::Characters),
            (&*long, InvalidId::Length),
        ] {
            assert_eq!((strict.name(id), hash.name(id)), (Err(why), Ok(hashed(id).into())), "{id}");
        }
        // Nobody reaches another session by the name that was made of its id.
        assert_eq!(
            (strict.name(&reserved), hash.name(&reserved)),
            (Ok((&*reserved).into()), Ok(hashed(&reserved).into()))
        );
        let longest = "é".repeat(512);
        assert_eq!(hash.name(&longest), Ok(hashed(&longest).into()));
        assert_eq!(
            (hash.name(&format!("{longest}x")), hash.name("")),
            (Err(InvalidId::Length), Err(InvalidId::Length))
        );
    }

    #[test]
    fn messages_are_the_originals() {
        assert_eq!(
            check_session("a b").unwrap_err(),
            "Invalid session_id: 'a b'. Must be 1-128 alphanumeric characters, hyphens, or underscores."
        );
        assert_eq!(
            check_key("a/b\n").unwrap_err(),
            "Invalid key: 'a/b\\n'. Must be 1-256 alphanumeric characters, hyphens, underscores, or dots."
        );
    }

    #[test]
    fn keys_of_the_bookkeeping_are_reserved() {
        for name in ["__keys__", "__history__", "__meta__", "__x.y__", "____", "__", "___"] {
            let message = check_key(name).unwrap_err();
            assert!(message.contains("reserved"), "{message}");
            assert!(!is_key(name));
        }
        for name in ["__a", "a__", "_a_", "a", "..", "a.b-c_d"] {
            assert!(check_key(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn any_text_has_a_token_of_its_own() {
        let long = "x".repeat(256);
        for kept in ["a", "msg_01!~", "{\"k\":1}", "h", &long] {
            assert_eq!(token(kept), kept);
        }
        // The digests of "" and "h-" as `sha256sum | xxd -r -p | base32` has them.
        assert_eq!(token(""), "h-4oymiquy7qobjgx36tejs35zeqt24qpemsnzgtfeswmrw6csxbkq");
        let long = "x".repeat(257);
        let others = ["h-", "h-4oymiquy7qobjgx36tejs35zeqt24qpemsnzgtfeswmrw6csxbkq", "a b", "é", "a\n", &long];
        let tokens: std::collections::HashSet<_> = others.iter().map(|text| token(text)).collect();
        assert_eq!(tokens.len(), others.len());
        assert!(tokens.iter().all(|token| is_token(token) && token.len() == 54 && token.starts_with("h-")));
    }

    #[test]
    fn repr_is_like_pythons() {
        assert_eq!(repr("it's"), "\"it's\"");
        assert_eq!(repr("'\""), "'\\'\"'");
        assert_eq!(repr("\\\t\u{1}é\u{2028}\u{e000}\u{10ffff}🎉"), "'\\\\\\t\\x01é\\u2028\\ue000\\U0010ffff🎉'");
        assert_eq!(repr(&"y".repeat(5000)).chars().count(), 203);
        assert_eq!(repr_json("true"), "True");
        assert_eq!(repr_json("42"), "42");
        assert_eq!(repr_json(r#""a\u0020b""#), "'a b'");
    }
}
