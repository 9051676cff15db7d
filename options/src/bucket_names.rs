//! Names the buckets of sessions, users and nodes after their ids, and keys after what they stand for.
//!
//! An id that can be a name is one; of any other, its hash is. So two ids never share a bucket.

use std::borrow::Cow;

use keepline_json::{self as json, push_base32};
use sha2::{Digest as _, Sha256};

/// The prefix of names that are hashes.
pub const HASHED: &str = "h-";
/// Bytes of a name.
pub const NAME_MAX: usize = 128;
/// Bytes of a key.
pub const KEY_MAX: usize = 256;
/// Bytes of a session's id that is hashed: it is kept with its session.
pub const ID_MAX: usize = 1024;
/// Bytes of a user's id that is a name: with room for the prefix of a hash.
const PLAIN_USER_MAX: usize = NAME_MAX - HASHED.len();

/// Which ids sessions may have: the filter's option `session_ids`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionIds {
    /// 1 to 128 letters, digits, hyphens and underscores. Of the form of a hash (`h-` and 52 characters of lower-case
    /// base32), only those of sessions that exist and keep no other id.
    #[default]
    Strict,
    /// Any text of 1 to 1,024 bytes. What is no id otherwise, or has the form of a hash, is hashed; the id as it came is
    /// kept with its session.
    Hash,
}

impl SessionIds {
    /// The option's value among a filter's options, a JSON object.
    pub fn of_options(options: &str) -> Self {
        let value = json::member(options, "session_ids").and_then(json::decode_string);
        if value.as_deref() == Some("hash") { Self::Hash } else { Self::Strict }
    }

    /// The name of the bucket of the session with this id: the id itself, or its hash. `None`: no session can have this id.
    /// Under [`Strict`](Self::Strict), a session whose id [is a hash](is_hash) is still to be looked up.
    ///
    /// A program that writes a bucket whose name is a hash without the filter must keep the id in it: in map `session`,
    /// under `id`.
    #[inline]
    pub fn bucket_name(self, id: &str) -> Option<Cow<'_, str>> {
        match self {
            _ if is_name(id) && !is_hash(id) => Some(id.into()),
            Self::Strict => is_name(id).then_some(id.into()),
            Self::Hash => (1..=ID_MAX).contains(&id.len()).then(|| hashed(id).into()),
        }
    }

    /// As [`Self::bucket_name`]; what can't be an id stays as it is, and names no bucket.
    pub fn bucket_name_or_id(self, id: &str) -> Cow<'_, str> {
        self.bucket_name(id).unwrap_or(Cow::Borrowed(id))
    }
}

/// Whether this can be the name of a session, user or node.
#[inline]
pub fn is_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Whether a name has the form of those that are made of ids.
#[inline]
pub fn is_hash(name: &str) -> bool {
    name.strip_prefix(HASHED).is_some_and(is_hash_digits)
}

#[inline]
fn is_hash_digits(digits: &str) -> bool {
    digits.len() == 52 && digits.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'))
}

/// The name of a user's bucket.
#[inline]
pub fn user_bucket_name(user: &str) -> Cow<'_, str> {
    if is_plain_user(user) { user.into() } else { hashed(user).into() }
}

/// Whether a user's id is the name of their bucket.
pub fn is_plain_user(user: &str) -> bool {
    user.len() <= PLAIN_USER_MAX && is_name(user) && !user.starts_with(HASHED)
}

/// The name of the bucket of a session's node.
#[inline]
pub fn node_bucket_name(app: Option<&str>, session: &str, node: &str) -> String {
    let app = app.unwrap_or_default();
    if app.contains('\0') || node.contains('\0') {
        // The length keeps the separators apart from those that the ids contain. Other names have two separators.
        return hashed(&[&*app.len().to_string(), "\0\0", app, "\0", session, "\0", node].concat());
    }
    hashed(&[app, "\0", session, "\0", node].concat())
}

/// Whether a text is the id of a definition, and so can name its file: 1 to 128 of `A-Za-z0-9_.-`, not beginning with a dot.
pub fn is_definition_id(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(is_part) && !text.starts_with('.')
}

/// The name of the bucket with the definitions of an owner: a project, user or tenant.
pub fn definitions_bucket_name(owner_kind: &str, owner: &str) -> String {
    hashed_parts(&[owner_kind, owner])
}

/// The name of the bucket of one of an owner's data sets: that of their definitions, a hyphen, and a hash of what the data
/// set is called. So whose a data set is shows in its name.
pub fn dataset_bucket_name(definitions_bucket: &str, parts: &[&str]) -> String {
    let hash = hashed_parts(parts);
    [definitions_bucket, "-", hash.strip_prefix(HASHED).unwrap_or(&hash)].concat()
}

/// Whether this is the name of a data set of the owner whose definitions are in that bucket.
pub fn is_dataset_of(name: &str, definitions_bucket: &str) -> bool {
    name.strip_prefix(definitions_bucket).and_then(|rest| rest.strip_prefix('-')).is_some_and(is_hash_digits)
}

/// `h-` and a hash of these parts, whatever they hold: each is preceded by its length.
fn hashed_parts(parts: &[&str]) -> String {
    hashed(&parts.iter().map(|part| format!("{} {part}", part.len())).collect::<String>())
}

/// `h-` and the text's SHA-256 in lower-case base32: a name for a bucket, or a key.
#[inline]
pub fn hashed(text: &str) -> String {
    let mut out = String::with_capacity(HASHED.len() + 52);
    out.push_str(HASHED);
    push_base32(&mut out, &Sha256::digest(text));
    out
}

/// Whether this can be a key of a session's or user's values.
pub fn is_key_name(name: &str) -> bool {
    is_key_shaped(name) && !is_reserved(name)
}

/// Whether this is spelt like a key. History of other writers may tell of keys that we refuse.
pub fn is_key_shaped(name: &str) -> bool {
    (1..=KEY_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

/// Whether it is of the names that stores keep for their bookkeeping.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with("__") && name.ends_with("__")
}

/// A name for any text, as the key of a map that is not `values`: the text itself if it is 1 to 256 characters from
/// `!` to `~` and does not begin with `h-`; else `h-` and its SHA-256 in lower-case base32.
#[inline]
pub fn to_map_key(text: &str) -> Cow<'_, str> {
    if is_map_key(text) && !text.starts_with(HASHED) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(hashed(text))
}

/// Whether this can be the key of a map that is not `values`.
pub fn is_map_key(text: &str) -> bool {
    (1..=KEY_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_or_its_hash_is_the_bucket_name() {
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
    fn the_session_ids_option_is_read_as_the_filter_reads_it() {
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

    #[test]
    fn no_two_users_share_a_bucket() {
        let long = "x".repeat(127);
        assert_eq!(user_bucket_name("anna_1"), "anna_1");
        assert_eq!(user_bucket_name(&"x".repeat(126)).len(), 126);
        let others =
            ["anna@example.org", "h-anna", "a b", "", &long, "h-4oymiquy7qobjgx36tejs35zeqt24qpemsnzgtfeswmrw6csxbkq"];
        for (index, user) in others.iter().enumerate() {
            let hashed = user_bucket_name(user);
            assert!(hashed.starts_with("h-") && hashed.len() == 54, "{user}");
            assert!(others.iter().take(index).all(|other| user_bucket_name(other) != hashed));
        }
    }

    #[test]
    fn any_text_has_a_token_of_its_own() {
        let long = "x".repeat(256);
        for kept in ["a", "msg_01!~", "{\"k\":1}", "h", &long] {
            assert_eq!(to_map_key(kept), kept);
        }
        // The digests of "" and "h-" as `sha256sum | xxd -r -p | base32` has them.
        assert_eq!(to_map_key(""), "h-4oymiquy7qobjgx36tejs35zeqt24qpemsnzgtfeswmrw6csxbkq");
        let long = "x".repeat(257);
        let others = ["h-", "h-4oymiquy7qobjgx36tejs35zeqt24qpemsnzgtfeswmrw6csxbkq", "a b", "é", "a\n", &long];
        let tokens: std::collections::HashSet<_> = others.iter().map(|text| to_map_key(text)).collect();
        assert_eq!(tokens.len(), others.len());
        assert!(tokens.iter().all(|token| is_map_key(token) && token.len() == 54 && token.starts_with("h-")));
    }
}
