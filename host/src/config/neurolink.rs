//! Reads the variables by which NeuroLink's memory factory chooses its backend and rules, as fallbacks for our own
//! fields.
//!
//! They are read only where `STORAGE_TYPE` is set, and those of Redis only where it says so and Redis is used in the
//! end: a variable that is there for another program never redirects memory. Every field of ours that was set takes
//! precedence, and so does the backend of a chosen profile. Where our fields name a server, none of theirs is used to
//! reach it, so a password goes to no other server than its own.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    ConfigError, Origin,
    error::{describe, shortened},
    layers::Layers,
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
/// What keeps our keys from being among those that begin with their prefix.
const OUR_PREFIX: &str = "keepline:";
/// In seconds; since the last use, as there.
const TIME_TO_LIVE: &str = "REDIS_TTL";
/// What has no counterpart: an entry has one deadline, for connecting and all retries.
const IGNORED: [&str; 3] = ["REDIS_CONNECT_TIMEOUT", "REDIS_MAX_RETRIES", "REDIS_RETRY_DELAY"];
const MAX_SESSIONS: &str = "NEUROLINK_MEMORY_MAX_SESSIONS";
/// Whether there is memory; here, whether conversations are kept.
const ENABLED: &str = "NEUROLINK_MEMORY_ENABLED";
const SUMMARIZATION: &str = "NEUROLINK_SUMMARIZATION_ENABLED";
/// Over so many tokens, a conversation is summarised.
const THRESHOLD: &str = "NEUROLINK_TOKEN_THRESHOLD";
const TITLE_PROMPT: &str = "NEUROLINK_TITLE_PROMPT";
/// What stands in that prompt for the first message, which here comes after it.
const USER_MESSAGE: &str = "${userMessage}";
/// Models are named by their server's address here, not by a provider's name.
const MODELS: [&str; 2] = ["NEUROLINK_SUMMARIZATION_PROVIDER", "NEUROLINK_SUMMARIZATION_MODEL"];
/// What every one of theirs begins with that can't be another program's.
const NEUROLINK_PREFIX: &str = "NEUROLINK_";

/// Whether a variable is one of them.
pub(super) fn is_known_variable(name: &str) -> bool {
    [STORAGE_TYPE, KEY_PREFIX, TIME_TO_LIVE].contains(&name)
        || is_neurolink_only(name)
        || IGNORED.contains(&name)
        || CONNECTION.iter().any(|(variable, _)| *variable == name)
}

/// Whether a variable can only be meant for NeuroLink.
pub(super) fn is_neurolink_only(name: &str) -> bool {
    [MAX_SESSIONS, ENABLED, SUMMARIZATION, THRESHOLD, TITLE_PROMPT].contains(&name) || MODELS.contains(&name)
}

/// What earlier versions made of their prefix, of which this key prefix was made: it was theirs without its colon.
pub(super) fn earlier_key_prefix<'p>(prefix: &'p str, of: &Origin) -> Option<&'p str> {
    let is_theirs = matches!(of, Origin::Environment(variable) if variable == KEY_PREFIX);
    prefix.strip_prefix(OUR_PREFIX).filter(|earlier| is_theirs && !earlier.is_empty())
}

/// Uses them for fields that were not set. Returns warnings about probable mistakes.
pub(super) fn fall_back(
    layers: &mut Layers,
    variables: &BTreeMap<String, String>,
    is_profile_chosen: bool,
) -> Result<Vec<String>, ConfigError> {
    let mut warnings = Vec::new();
    let Some(storage) = variables.get(STORAGE_TYPE) else {
        let names: Vec<&str> =
            variables.keys().filter(|name| name.starts_with(NEUROLINK_PREFIX)).map(String::as_str).collect();
        if !names.is_empty() {
            let names = names.join(", ");
            warnings.push(format!("{STORAGE_TYPE} is not set, so NeuroLink's variables are not read: {names}"));
        }
        return Ok(warnings);
    };
    let is_redis = storage.trim().eq_ignore_ascii_case("redis");
    let decides = !is_profile_chosen && !layers.is_chosen("backend");
    if decides {
        if !is_redis && !storage.trim().eq_ignore_ascii_case("memory") {
            let given = Value::from(shortened(storage.trim()));
            let problem = "which is neither \"memory\" nor \"redis\"; using memory";
            warnings.push(format!("{STORAGE_TYPE} is {given}, {problem}"));
        }
        let backend = if is_redis { "redis" } else { "memory" };
        layers.set_text("backend", backend, environment_origin(STORAGE_TYPE))?;
    }
    let mut set = Fallbacks { layers, variables };
    set.conversations(&mut warnings)?;
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
    fn conversations(&mut self, warnings: &mut Vec<String>) -> Result<(), ConfigError> {
        let enabled = self.variables.get(ENABLED).map(|text| text.trim().to_owned());
        match enabled.as_deref() {
            Some("true") => self.filter(ENABLED, "conversation", Value::from(true)),
            Some(other) if !self.layers.is_chosen("memory_enabled") => {
                self.filter(ENABLED, "memory_enabled", Value::from(false));
                let given = Value::from(shortened(other));
                warnings.push(format!("{ENABLED} is {given}, not \"true\": entries pass without memory"));
            }
            _ => {}
        }
        for name in MODELS.into_iter().filter(|name| self.variables.contains_key(*name)) {
            warnings.push(format!(
                "{name} has no effect here: model, model_url and model_name say who writes titles and summaries"
            ));
        }
        if !self.layers.is_filter_flag_on("conversation") {
            let unread = [SUMMARIZATION, THRESHOLD, TITLE_PROMPT];
            for name in unread.into_iter().filter(|name| self.variables.contains_key(*name)) {
                warnings.push(format!("{name} has no effect without {ENABLED}=true or conversation=true"));
            }
            return Ok(());
        }
        if let Some(text) = self.variables.get(SUMMARIZATION) {
            // As there: all but "false" is yes.
            self.filter(SUMMARIZATION, "summaries", Value::from(text.trim() != "false"));
        }
        if let Some(text) = self.variables.get(THRESHOLD) {
            let tokens: u64 = text.trim().parse().map_err(|_| ConfigError::Value {
                field: "max_context_tokens".to_owned(),
                allowed: "a whole number of tokens".to_owned(),
                given: describe(&Value::from(text.as_str())),
                origin: environment_origin(THRESHOLD),
            })?;
            self.filter(THRESHOLD, "max_context_tokens", Value::from(tokens));
        }
        if let Some(text) = self.variables.get(TITLE_PROMPT) {
            let prompt = text.replace(USER_MESSAGE, "the message below");
            self.filter(TITLE_PROMPT, "title_prompt", Value::from(prompt));
        }
        Ok(())
    }

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
        // Its keys are what begins so, and ours are none of them.
        self.text(KEY_PREFIX, "key_prefix", |prefix| [OUR_PREFIX, prefix.trim_end_matches(':')].concat())?;
        if let Some(text) = self.variables.get(TIME_TO_LIVE) {
            let seconds: u64 = text.trim().parse().map_err(|_| ConfigError::Value {
                field: "session_ttl_hours".to_owned(),
                allowed: "a whole number of seconds".to_owned(),
                given: describe(&Value::from(text.as_str())),
                origin: environment_origin(TIME_TO_LIVE),
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
            Some(text) if !self.layers.is_chosen(field) => {
                self.layers.set_text(field, &read(text), environment_origin(variable))
            }
            _ => Ok(()),
        }
    }

    fn filter(&mut self, variable: &str, field: &str, value: Value) {
        if !self.layers.is_chosen(field) {
            self.layers.set_filter(field, value, environment_origin(variable));
        }
    }
}

fn environment_origin(variable: &str) -> Origin {
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
