//! The names that a store accepts, and what it reserves for itself.
//!
//! The filter checks names too, with errors for its users. Here they are checked once more because
//! this is where a name becomes part of an address, and the component is not trusted.

use super::{BucketId, Failure, FailureCode, failure};

/// The map of what people see. Its keys have stricter names than those of other maps.
pub const VALUES: &str = "values";

/// In which names a byte may be, each a bit. Every call has a score of names: to look their bytes up, all of each, takes
/// half of the time that comparing them does.
const ALLOWED: [u8; 256] = allowed();
const IN_BUCKETS: u8 = 1;
const IN_KEYS: u8 = 2;
const IN_PARTS: u8 = 4;
const IN_TOKENS: u8 = 8;

#[allow(clippy::indexing_slicing, reason = "the compiler does it, and would see it")]
const fn allowed() -> [u8; 256] {
    let mut allowed = [0; 256];
    let mut byte = 0_u8;
    while byte < u8::MAX {
        let is_word = byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let is_part = byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let rules = [
            (is_word, IN_BUCKETS),
            (is_word || byte == b'.', IN_KEYS),
            (is_part, IN_PARTS),
            (byte.is_ascii_graphic(), IN_TOKENS),
        ];
        let mut rule = 0;
        while rule < rules.len() {
            if rules[rule].0 {
                allowed[byte as usize] |= rules[rule].1;
            }
            rule += 1;
        }
        byte += 1;
    }
    allowed
}

/// Whether all bytes of a name may be there, and they are as many as allowed.
#[inline]
fn is_name(name: &str, place: u8, most: usize) -> bool {
    let allowed = |byte: &u8| ALLOWED.get(usize::from(*byte)).copied().unwrap_or_default();
    let in_all = || name.as_bytes().iter().fold(place, |places, byte| places & allowed(byte));
    (1..=most).contains(&name.len()) && in_all() != 0
}

/// `[A-Za-z0-9_-]{1,128}`
pub fn is_bucket(name: &str) -> bool {
    is_name(name, IN_BUCKETS, 128)
}

/// The key of a value: `[A-Za-z0-9_.-]{1,256}`, but nothing that is [reserved](is_reserved).
pub fn is_key(name: &str) -> bool {
    is_name(name, IN_KEYS, 256) && !is_reserved(name)
}

/// Names that begin and end with `__` hold bookkeeping: `__keys__`, `__meta__`, each log and map.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with("__") && name.ends_with("__")
}

/// A map, log, index, lease, or kind of buckets: `[a-z][a-z0-9-]{0,31}`
pub fn is_part(name: &str) -> bool {
    is_name(name, IN_PARTS, 32) && name.starts_with(|first: char| first.is_ascii_lowercase())
}

/// A key of any map but `values`, the holder of a lease, a generation: 1 to 256 characters from `!` to `~`.
pub fn is_token(name: &str) -> bool {
    is_name(name, IN_TOKENS, 256)
}

/// Refuses a kind of buckets outside its rule.
pub fn check_kind(kind: &str) -> Result<(), Failure> {
    check_part("kind", kind)
}

/// Refuses a bucket whose kind or name is outside its rule.
pub fn check_bucket(bucket: &BucketId) -> Result<(), Failure> {
    check_kind(&bucket.kind)?;
    refuse_unless(is_bucket(&bucket.name), "bucket", &bucket.name, "1-128 letters, digits, hyphens or underscores")
}

/// Refuses the key of an entry outside the rule of its map.
pub fn check_key(map: &str, key: &str) -> Result<(), Failure> {
    if map == VALUES {
        return refuse_unless(
            is_key(key),
            "key",
            key,
            "1-256 letters, digits, hyphens, underscores or dots, not beginning and ending with `__`",
        );
    }
    check_token("key", key)
}

/// Refuses a key, a holder or a generation outside its rule.
pub fn check_token(what: &str, name: &str) -> Result<(), Failure> {
    refuse_unless(is_token(name), what, name, "1-256 printable ASCII characters without spaces")
}

/// Refuses the name of a map, log, index, lease, or kind outside its rule.
pub fn check_part(what: &str, name: &str) -> Result<(), Failure> {
    refuse_unless(is_part(name), what, name, "a lower-case letter and up to 31 lower-case letters, digits and hyphens")
}

/// Refuses the name of a map outside its rule.
pub fn check_map(name: &str) -> Result<(), Failure> {
    // Nearly always.
    if name == VALUES { Ok(()) } else { check_part("map", name) }
}

#[inline]
fn refuse_unless(valid: bool, what: &str, name: &str, allowed: &str) -> Result<(), Failure> {
    if valid { Ok(()) } else { Err(refusal(what, name, allowed)) }
}

#[cold]
fn refusal(what: &str, name: &str, allowed: &str) -> Failure {
    let shown: String = name.chars().take(64).collect();
    failure(FailureCode::Invalid, what, format!("the {what} name {shown:?} is not allowed: {allowed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bookkeeping_names_are_not_valid_keys() {
        for name in ["__keys__", "__history__", "__meta__", "__writers__", "__x__", "____", "__"] {
            assert!(!is_key(name), "{name}");
        }
        assert!(is_key("__x") && is_key("_a_") && is_key("a.b-c_d"));
    }

    #[test]
    fn names_are_matched_whole() {
        assert!(!is_bucket("a\n") && !is_key("a\n") && !is_part("a\n") && !is_token("a\n"));
        assert!(!is_bucket("") && !is_key("") && !is_part("") && !is_token(""));
        assert!(!is_bucket("é") && !is_bucket("a:b") && !is_bucket(&"a".repeat(129)) && is_bucket(&"a".repeat(128)));
        assert!(!is_key(&"a".repeat(257)) && is_key(&"a".repeat(256)));
        assert!(!is_part("Upper") && !is_part("1st") && is_part("keys") && is_part("history"));
        assert!(!is_token("a b") && !is_token("é") && is_token("__a:b~!"));
    }
}
