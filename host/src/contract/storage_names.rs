//! Names in storage that the host shares with the bundled filter: of sessions' and users' buckets, and of maps.
//!
//! Which ids sessions may have follows from the operator's option, never from what a plugin says. Which sessions exist
//! is not known here.

use std::borrow::Cow;

use keepline_json::{self as json, push_base32};
use sha2::{Digest as _, Sha256};

/// The map of a user's bucket that lists the user's sessions.
pub(crate) const SESSIONS: &str = "sessions";
/// The map of a user's or a session's bucket that lists nodes.
pub(crate) const NODES: &str = "nodes";
/// The map of a bucket that holds what there is once of it, such as its owner.
pub(crate) const SESSION: &str = "session";
/// The key of the owner in [`SESSION`].
pub(crate) const OWNER: &str = "owner";
/// The prefix of names that are hashes.
const HASHED: &str = "h-";
/// Of a session's bucket: the map and the key under which an id is kept that is not the session's name.
pub(crate) const ID: (&str, &str) = ("session", "id");
/// Longer ids are refused.
pub(crate) const ID_MAX: usize = 1024;

/// Which ids sessions may have: the filter's option `session_ids`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionIds {
    /// 1 to 128 letters, digits, hyphens and underscores. Of the form of a hash (`h-` and 52 characters of lower-case
    /// base32), only those of sessions that are there and keep no other id.
    #[default]
    Strict,
    /// Any text of 1 to 1,024 bytes. What is no id otherwise, or has the form of a hash, is hashed; the id as it came is
    /// kept with its session.
    Hash,
}

impl SessionIds {
    /// The option's value among a filter's options, a JSON object.
    pub fn of_options(options: &str) -> Self {
        let mut ids = Self::default();
        let _ = json::members(options, |key, value| {
            if json::key_is(key, "session_ids") {
                ids = if json::string(value).as_deref() == Some("hash") { Self::Hash } else { Self::Strict };
            }
        });
        ids
    }

    /// The name of the bucket of the session with this id: the id itself, or its hash. None: no session can have this id.
    ///
    /// A program that writes a bucket whose name is a hash without the filter must keep the id in it: in map `session`,
    /// under `id`.
    pub fn bucket_name(self, id: &str) -> Option<Cow<'_, str>> {
        let is_name = (1..=128).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        match self {
            _ if is_name && !is_hash(id) => Some(id.into()),
            Self::Strict => is_name.then_some(id.into()),
            Self::Hash => (1..=ID_MAX).contains(&id.len()).then(|| hashed(id).into()),
        }
    }

    /// As [`Self::bucket_name`]; what can't be an id stays as it is, and names no bucket.
    pub(crate) fn name(self, id: &str) -> Cow<'_, str> {
        self.bucket_name(id).unwrap_or(Cow::Borrowed(id))
    }
}

/// Whether a session's name has the form of those that are made of ids.
pub fn is_hash(name: &str) -> bool {
    let digits = name.strip_prefix(HASHED).map(str::as_bytes);
    digits
        .is_some_and(|digits| digits.len() == 52 && digits.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7')))
}

/// A user's id that is the name of their bucket.
pub(crate) fn is_plain_user(user: &str) -> bool {
    (1..=126).contains(&user.len())
        && !user.starts_with(HASHED)
        && user.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// `h-` and the text's SHA-256 in lower-case base32.
pub(crate) fn hashed(text: &str) -> String {
    let mut name = String::from(HASHED);
    push_base32(&mut name, &Sha256::digest(text));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_name_of_a_bucket_or_its_hash_is() {
        let (strict, hash) = (SessionIds::Strict, SessionIds::Hash);
        for plain in ["s", "A-b_9", "h-", "h-4oymiquy"] {
            assert_eq!((strict.bucket_name(plain), hash.bucket_name(plain)), (Some(plain.into()), Some(plain.into())));
        }
        // The digest as `printf telegram:42 | sha256sum | xxd -r -p | base32` has it.
        let name = hashed("telegram:42");
        assert!(is_hash(&name) && strict.bucket_name(&name) == Some((&*name).into()));
        assert_eq!(hash.bucket_name(&name), Some(hashed(&name).into()));
        for odd in ["telegram:42", "eva@example.org", "é", "a b", &"x".repeat(129), &"x".repeat(1024)] {
            assert_eq!((strict.bucket_name(odd), hash.bucket_name(odd)), (None, Some(hashed(odd).into())), "{odd}");
        }
        for none in ["", &"x".repeat(1025)] {
            assert_eq!((strict.bucket_name(none), hash.bucket_name(none)), (None, None));
        }
    }

    #[test]
    fn the_option_is_read_as_the_filter_reads_it() {
        for (options, ids) in [
            ("{}", SessionIds::Strict),
            (r#"{"session_ids":"hash"}"#, SessionIds::Hash),
            (r#"{"session_ids":"hash","session_ids":null}"#, SessionIds::Strict),
            (r#"{"session\u005fids":"h\u0061sh"}"#, SessionIds::Hash),
            (r#"{"max_keys":3,"session_ids":"strict"}"#, SessionIds::Strict),
            ("nonsense", SessionIds::Strict),
        ] {
            assert_eq!(SessionIds::of_options(options), ids, "{options}");
        }
    }
}
