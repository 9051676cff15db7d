//! Which names sessions, keys and messages may have, and the hashes that stand for others.
//!
//! Promises the original node's rules and error messages, for the whole string: a trailing newline is refused. Keys that begin and
//! end with `__` are refused, as stores keep their bookkeeping there.

use keepline_options::bucket_names::{NAME_MAX, is_reserved};
pub use keepline_options::bucket_names::{SessionIds, hashed, is_hash, is_key_name, is_name as is_session};
pub(crate) use keepline_options::bucket_names::{is_key_shaped, is_map_key, to_map_key};
use std::borrow::Cow;

use crate::text::quoting::python_repr;

/// The filter's own two keys.
pub(crate) const LAST_ANSWER: &str = "last_answer";

pub(crate) const ANSWER_COUNT: &str = "answer_count";

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

/// The name of the session with this id, which is that of its bucket. Under [`SessionIds::Strict`], one that
/// [is a hash](is_hash) is still to be looked up.
pub fn session_name(ids: SessionIds, id: &str) -> Result<Cow<'_, str>, InvalidId> {
    ids.bucket_name(id).ok_or(match ids {
        SessionIds::Strict if id.len() <= NAME_MAX => InvalidId::Characters,
        _ => InvalidId::Length,
    })
}

/// What an id has to be.
pub(crate) fn allowed_ids(ids: SessionIds) -> &'static str {
    match ids {
        SessionIds::Strict => {
            "it must be 1-128 letters, digits, hyphens or underscores, and not have the form of a hash; with session_ids \
             \"hash\", any text of at most 1,024 bytes"
        }
        SessionIds::Hash => "it must be a text of 1-1,024 bytes (session_ids is \"hash\")",
    }
}

/// A session id, or what is wrong with it.
pub fn check_session_name(name: &str) -> Result<(), String> {
    if is_session(name) {
        return Ok(());
    }
    Err(format!(
        "Invalid session_id: {}. Must be 1-128 alphanumeric characters, hyphens, or underscores.",
        python_repr(name)
    ))
}

/// A key, or what is wrong with it.
pub fn check_key_name(name: &str) -> Result<(), String> {
    if !is_key_shaped(name) {
        return Err(format!(
            "Invalid key: {}. Must be 1-256 alphanumeric characters, hyphens, underscores, or dots.",
            python_repr(name)
        ));
    }
    if is_reserved(name) {
        return Err(format!(
            "Invalid key: {}. Names that begin and end with two underscores are reserved.",
            python_repr(name)
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
            assert!(check_session_name(good).is_ok(), "{good}");
        }
        let long = "x".repeat(129);
        for bad in ["", "a\n", "a b", "é", "a.b", "a:b", "٣", "a\0", &long] {
            assert!(check_session_name(bad).is_err(), "{bad}");
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
        assert_eq!(
            (session_name(strict, "a-B_9"), session_name(hash, "a-B_9")),
            (Ok("a-B_9".into()), Ok("a-B_9".into()))
        );
        assert_eq!((session_name(strict, "h-a"), session_name(hash, "h-a")), (Ok("h-a".into()), Ok("h-a".into())));
        let long = "x".repeat(129);
        for (id, why) in [
            ("telegram:42", InvalidId::Characters),
            ("eva@example.org", InvalidId::Characters),
            ("é\n\0", InvalidId::Characters),
            (&*long, InvalidId::Length),
        ] {
            assert_eq!((session_name(strict, id), session_name(hash, id)), (Err(why), Ok(hashed(id).into())), "{id}");
        }
        // The name made of a session's id does not reach it as an id.
        assert_eq!(
            (session_name(strict, &reserved), session_name(hash, &reserved)),
            (Ok((&*reserved).into()), Ok(hashed(&reserved).into()))
        );
        let longest = "é".repeat(512);
        assert_eq!(session_name(hash, &longest), Ok(hashed(&longest).into()));
        assert_eq!(
            (session_name(hash, &format!("{longest}x")), session_name(hash, "")),
            (Err(InvalidId::Length), Err(InvalidId::Length))
        );
    }

    #[test]
    fn messages_are_the_originals() {
        assert_eq!(
            check_session_name("a b").unwrap_err(),
            "Invalid session_id: 'a b'. Must be 1-128 alphanumeric characters, hyphens, or underscores."
        );
        assert_eq!(
            check_key_name("a/b\n").unwrap_err(),
            "Invalid key: 'a/b\\n'. Must be 1-256 alphanumeric characters, hyphens, underscores, or dots."
        );
    }

    #[test]
    fn keys_of_the_bookkeeping_are_reserved() {
        for name in ["__keys__", "__history__", "__meta__", "__x.y__", "____", "__", "___"] {
            let message = check_key_name(name).unwrap_err();
            assert!(message.contains("reserved"), "{message}");
            assert!(!is_key_name(name));
        }
        for name in ["__a", "a__", "_a_", "a", "..", "a.b-c_d"] {
            assert!(check_key_name(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn repr_is_like_pythons() {
        assert_eq!(python_repr("it's"), "\"it's\"");
        assert_eq!(python_repr("'\""), "'\\'\"'");
        assert_eq!(python_repr("\\\t\u{1}é\u{2028}\u{e000}\u{10ffff}🎉"), "'\\\\\\t\\x01é\\u2028\\ue000\\U0010ffff🎉'");
        assert_eq!(python_repr(&"y".repeat(5000)).chars().count(), 203);
        assert_eq!(repr_json("true"), "True");
        assert_eq!(repr_json("42"), "42");
        assert_eq!(repr_json(r#""a\u0020b""#), "'a b'");
    }
}
