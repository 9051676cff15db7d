//! The names that a store accepts, and what it reserves for itself.
//!
//! The filter checks names too, with errors for its users. Here they are checked once more because
//! this is where a name becomes part of an address, and the component is not trusted.

use super::{BucketId, BucketKind, Failure, FailureCode, failure};

/// The map of what people see. Its keys have stricter names than those of other maps.
pub const VALUES: &str = "values";

impl BucketKind {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Session, Self::User, Self::Node, Self::Definition, Self::Dataset, Self::Service];

    /// Of what there is for each kind, in the order of [`Self::ALL`], that of this one.
    pub(crate) fn pick<T>(self, [session, user, node, definition, dataset, service]: [T; 6]) -> T {
        match self {
            Self::Session => session,
            Self::User => user,
            Self::Node => node,
            Self::Definition => definition,
            Self::Dataset => dataset,
            Self::Service => service,
        }
    }

    /// As the contract spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::User => "user",
            Self::Node => "node",
            Self::Definition => "definition",
            Self::Dataset => "dataset",
            Self::Service => "service",
        }
    }
}

/// `[A-Za-z0-9_-]{1,128}`
pub fn is_bucket(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// The key of a value: `[A-Za-z0-9_.-]{1,256}`, but nothing that is [reserved](is_reserved).
pub fn is_key(name: &str) -> bool {
    (1..=256).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
        && !is_reserved(name)
}

/// Names that begin and end with `__` hold bookkeeping: `__keys__`, `__meta__`, each log and map.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with("__") && name.ends_with("__")
}

/// A map, log, index or lease: `[a-z][a-z0-9-]{0,31}`
pub fn is_part(name: &str) -> bool {
    let lower_or_digit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&name.len())
        && name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase())
        && name.bytes().all(lower_or_digit)
}

/// A key of any map but `values`, the holder of a lease, an incarnation: 1 to 256 characters from `!` to `~`.
pub fn is_token(name: &str) -> bool {
    (1..=256).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Refuses a bucket name outside its rule.
pub fn check_bucket(bucket: &BucketId) -> Result<(), Failure> {
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

/// Refuses a key, a holder or an incarnation outside its rule.
pub fn check_token(what: &str, name: &str) -> Result<(), Failure> {
    refuse_unless(is_token(name), what, name, "1-256 printable ASCII characters without spaces")
}

/// Refuses the name of a map, log, index or lease outside its rule.
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
    fn bookkeeping_names_are_no_keys() {
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
