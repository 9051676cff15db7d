//! Errors of a configuration, and how they show values.

use serde_json::Value;

use super::Origin;

/// Why a configuration is refused. Every message names the field, what was given and what is allowed, and
/// none of them holds a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A value of the wrong type, or out of range.
    #[error("{field} must be {allowed}, not {given} ({origin})")]
    Value {
        /// The field.
        field: String,
        /// What it may hold.
        allowed: String,
        /// What it was to hold.
        given: String,
        /// Who said so.
        origin: Origin,
    },
    /// An unknown backend, in the node's words.
    #[error("Unknown backend: {given}. Must be \"redis\", \"memory\" or \"directory\".")]
    Backend {
        /// What was given.
        given: String,
    },
    /// An unknown profile, in the node's words.
    #[error("Profile {given} is not defined in memory_persistent: use memory, redis, custom or chat")]
    Profile {
        /// What was given.
        given: String,
    },
    /// The Redis backend without a host: the profile `custom` as it comes.
    #[error(
        "redis_host is empty ({origin}), and the Redis backend needs a host: set redis_host, or redis_url \
         (for example KEEPLINE_REDIS_URL=redis://localhost:6379)"
    )]
    NoHost {
        /// Who emptied it.
        origin: Origin,
    },
    /// `STORAGE_TYPE=redis`, and nothing says where Redis is.
    #[error(
        "STORAGE_TYPE is redis, and nothing names the server: set REDIS_URL (for example redis://localhost:6379) or \
         REDIS_HOST, or one of redis_url, redis_host and redis_nodes"
    )]
    NoServer,
    /// Sessions are evicted in memory only.
    #[error(
        "session_limit_policy is \"evict\" ({origin}), which only the backend \"memory\" can do, and the backend is \
         \"{backend}\": leave it out, and let sessions expire (session_ttl_hours)"
    )]
    NoEviction {
        /// The backend.
        backend: String,
        /// Who asks for it.
        origin: Origin,
    },
    /// The directory backend without a directory.
    #[error("directory is empty ({origin}), and the directory backend needs one: add --dir PATH, or set directory")]
    NoDirectory {
        /// Who emptied it.
        origin: Origin,
    },
    /// Fields beside `profile`, where nothing reads them.
    #[error(
        "{origin}: with \"profile\", fields are read from the object \"{profile}\" only, so these belong inside it, \
         not beside it: {fields}. Write {{\"profile\": \"{profile}\", \"{profile}\": {{\"{first}\": …}}}}"
    )]
    BesideProfile {
        /// Their names, with commas between.
        fields: String,
        /// The first of them.
        first: String,
        /// The profile in force, whose object they belong in.
        profile: &'static str,
        /// Whose document it is.
        origin: Origin,
    },
    /// Fields for a profile that was not chosen, while the backend is Redis anyway.
    #[error(
        "{origin} has fields in the object \"{profile}\", which are read only when that profile is selected, but the \
         backend is Redis without it: add \"profile\": \"{profile}\" or --profile {profile}, or move the fields out \
         of the object"
    )]
    ProfileNotChosen {
        /// The first of the profiles that have fields.
        profile: &'static str,
        /// Whose document it is.
        origin: Origin,
    },
    /// The configuration as a whole can't be read.
    #[error("{name}: {problem}")]
    Unreadable {
        /// The file, or the variable.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// A value in an error: short, and without anything that a terminal would obey.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::String(text) => format!("the string {}", Value::from(shortened(text))),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        other => other.to_string(),
    }
}

pub(super) fn shortened(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut short: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    short
}
