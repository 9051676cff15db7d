//! The names that a store accepts, and what it reserves for itself.
//!
//! The filter checks names too, with errors for its users. Here they are checked once more because
//! this is where a name becomes part of an address, and the component is not trusted.

use super::{Failure, FailureCode, failure};

/// `[A-Za-z0-9_-]{1,128}`
pub fn is_bucket(name: &str) -> bool {
    (1..=128).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// `[A-Za-z0-9_.-]{1,256}`, but nothing that is [reserved](is_reserved).
pub fn is_key(name: &str) -> bool {
    (1..=256).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
        && !is_reserved(name)
}

/// Names that begin and end with `__` hold bookkeeping: `__keys__`, `__meta__`, each log's list.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with("__") && name.ends_with("__")
}

/// `[a-z][a-z0-9-]{0,31}`, and not the name of other bookkeeping.
pub fn is_log(name: &str) -> bool {
    let lower_or_digit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&name.len())
        && name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase())
        && name.bytes().all(lower_or_digit)
        && !["keys", "meta", "writers", "sessions"].contains(&name)
}

/// Refuses a bucket name outside its rule.
pub fn check_bucket(name: &str) -> Result<(), Failure> {
    refuse_unless(is_bucket(name), "bucket", name, "1-128 letters, digits, hyphens or underscores")
}

/// Refuses a key outside its rule.
pub fn check_key(name: &str) -> Result<(), Failure> {
    refuse_unless(
        is_key(name),
        "key",
        name,
        "1-256 letters, digits, hyphens, underscores or dots, not beginning and ending with `__`",
    )
}

/// Refuses a log name outside its rule.
pub fn check_log(name: &str) -> Result<(), Failure> {
    refuse_unless(
        is_log(name),
        "log",
        name,
        "a lower-case letter and up to 31 of lower-case letters, digits and hyphens, but not keys, meta, \
         writers or sessions",
    )
}

fn refuse_unless(valid: bool, what: &str, name: &str, allowed: &str) -> Result<(), Failure> {
    if valid {
        return Ok(());
    }
    let shown: String = name.chars().take(64).collect();
    Err(failure(FailureCode::Invalid, what, format!("the {what} name {shown:?} is not allowed: {allowed}")))
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
        assert!(!is_bucket("a\n") && !is_key("a\n") && !is_log("a\n"));
        assert!(!is_bucket("") && !is_key("") && !is_log(""));
        assert!(!is_bucket("é") && !is_bucket("a:b") && !is_bucket(&"a".repeat(129)) && is_bucket(&"a".repeat(128)));
        assert!(!is_key(&"a".repeat(257)) && is_key(&"a".repeat(256)));
        assert!(!is_log("Upper") && !is_log("1st") && !is_log("keys") && is_log("history"));
    }
}
