//! The variables by which NeuroLink's memory factory chooses its backend, as fallbacks of our own fields.
//!
//! They are read only where `STORAGE_TYPE` is set, and those of Redis only where it says so and Redis is what is used in
//! the end: a variable that stands there for another program never redirects memory. Every field of ours that somebody
//! sets is stronger, and so is the backend of a profile that somebody chose. Where ours name a server, nothing of theirs
//! is used to reach it: a password goes to nobody but the server it was meant for.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    ConfigError, Origin,
    error::{describe, shortened},
    resolve::Layers,
};

/// What decides whether any of them is read.
pub(super) const STORAGE_TYPE: &str = "STORAGE_TYPE";

/// How Redis is reached, and the fields that this stands for.
const CONNECTION: [(&str, &str); 6] = [
    ("REDIS_URL", "redis_url"),
    ("REDIS_HOST", "redis_host"),
    ("REDIS_PORT", "redis_port"),
    ("REDIS_PASSWORD", "redis_password"),
    ("REDIS_DB", "redis_database"),
    ("REDIS_TLS_ENABLED", "redis_tls"),
];
const KEY_PREFIX: &str = "REDIS_KEY_PREFIX";
/// In seconds; since the last use, as there.
const TIME_TO_LIVE: &str = "REDIS_TTL";
/// What has no counterpart: an entry has one deadline, for connecting and all retries.
const IGNORED: [&str; 3] = ["REDIS_CONNECT_TIMEOUT", "REDIS_MAX_RETRIES", "REDIS_RETRY_DELAY"];
const MAX_SESSIONS: &str = "NEUROLINK_MEMORY_MAX_SESSIONS";

/// Whether a variable is one of them.
pub(super) fn is_known(name: &str) -> bool {
    [STORAGE_TYPE, KEY_PREFIX, TIME_TO_LIVE, MAX_SESSIONS].contains(&name)
        || IGNORED.contains(&name)
        || CONNECTION.iter().any(|(variable, _)| *variable == name)
}

/// Lets them stand in for fields that nobody set. Returns what somebody probably did not mean.
pub(super) fn fall_back(
    layers: &mut Layers,
    variables: &BTreeMap<String, String>,
    is_profile_chosen: bool,
) -> Result<Vec<String>, ConfigError> {
    let Some(storage) = variables.get(STORAGE_TYPE) else { return Ok(Vec::new()) };
    let mut warnings = Vec::new();
    let is_redis = storage.trim().eq_ignore_ascii_case("redis");
    let decides = !is_profile_chosen && !layers.is_chosen("backend");
    if decides {
        if !is_redis && !storage.trim().eq_ignore_ascii_case("memory") {
            let given = Value::from(shortened(storage.trim()));
            let told = "which is neither \"memory\" nor \"redis\"; using memory";
            warnings.push(format!("{STORAGE_TYPE} is {given}, {told}"));
        }
        let backend = if is_redis { "redis" } else { "memory" };
        layers.set_text("backend", backend, origin(STORAGE_TYPE))?;
    }
    let set = Fallbacks { layers, variables };
    match set.layers.backend() {
        "redis" if is_redis => set.redis(decides, &mut warnings)?,
        "memory" => set.memory()?,
        _ => {}
    }
    Ok(warnings)
}

struct Fallbacks<'a> {
    layers: &'a mut Layers,
    variables: &'a BTreeMap<String, String>,
}

impl Fallbacks<'_> {
    fn redis(mut self, decides: bool, warnings: &mut Vec<String>) -> Result<(), ConfigError> {
        const SERVERS: [&str; 3] = ["redis_url", "redis_host", "redis_nodes"];
        if !SERVERS.iter().any(|field| self.layers.is_chosen(field)) {
            for (variable, field) in CONNECTION {
                let text = |text: &str| match field {
                    "redis_tls" => text.trim().to_ascii_lowercase(),
                    _ => text.to_owned(),
                };
                self.text(variable, field, text)?;
            }
        }
        if decides && !SERVERS.iter().any(|field| self.layers.is_chosen(field)) {
            return Err(ConfigError::NoServer);
        }
        // There it ends with the colon, which here is put after it.
        self.text(KEY_PREFIX, "key_prefix", |prefix| prefix.trim_end_matches(':').to_owned())?;
        if let Some(text) = self.variables.get(TIME_TO_LIVE) {
            let seconds: u64 = text.trim().parse().map_err(|_| ConfigError::Value {
                field: "session_ttl_hours".to_owned(),
                allowed: "a whole number of seconds".to_owned(),
                given: describe(&Value::from(text.as_str())),
                origin: origin(TIME_TO_LIVE),
            })?;
            self.filter(TIME_TO_LIVE, "session_ttl_hours", hours(seconds));
            self.filter(TIME_TO_LIVE, "session_ttl_mode", Value::from("sliding"));
        }
        let ignored = IGNORED.into_iter().filter(|name| self.variables.contains_key(*name));
        warnings.extend(ignored.map(|name| {
            format!(
                "{name} has no effect here: store_timeout_ms limits connecting and all retries of an entry together"
            )
        }));
        Ok(())
    }

    fn memory(mut self) -> Result<(), ConfigError> {
        self.text(MAX_SESSIONS, "memory_max_sessions", str::to_owned)?;
        // As there.
        self.text(MAX_SESSIONS, "session_limit_policy", |_| "evict".to_owned())
    }

    fn text(&mut self, variable: &str, field: &str, read: impl Fn(&str) -> String) -> Result<(), ConfigError> {
        match self.variables.get(variable) {
            Some(text) if !self.layers.is_chosen(field) => self.layers.set_text(field, &read(text), origin(variable)),
            _ => Ok(()),
        }
    }

    fn filter(&mut self, variable: &str, field: &str, value: Value) {
        if !self.layers.is_chosen(field) {
            self.layers.set_filter(field, value, origin(variable));
        }
    }
}

fn origin(variable: &str) -> Origin {
    Origin::Environment(variable.to_owned())
}

/// Whole hours as a whole number, as a person would write them.
fn hours(seconds: u64) -> Value {
    #[allow(clippy::cast_precision_loss, reason = "2^53 seconds are longer than any session lives")]
    match seconds % 3600 {
        0 => Value::from(seconds / 3600),
        _ => Value::from(seconds as f64 / 3600.0),
    }
}
