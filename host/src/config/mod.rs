//! Configuration: which store, how it is reached, what the sandbox allows, and the filter's options.
//!
//! A field's value comes from the first of these that names it:
//!
//! 1. `--set field=value` (the last one, if there are several),
//! 2. the environment, `KEEPLINE_<FIELD>` (an empty variable counts as not set),
//! 3. the configuration file, a JSON object,
//! 4. the profile: `memory`, `redis` or `custom`,
//! 5. the built-in default.
//!
//! The profile is that of `--profile`, else of `KEEPLINE_PROFILE`, else the file's, else `memory`.
//!
//! A file is read as the node reads its configuration. One that has `"profile": P` takes its fields from
//! the object of the profile in force, as a rule `P`, and the objects of other profiles are ignored. The node
//! ignores fields beside `profile` as well; here they are an error, for a `key_prefix` that is not used is
//! another tenant's memory. One that names no profile holds its fields directly, and those of the object of
//! the profile in force win over them. `null` means the default.
//!
//! The host knows its own fields ([`FIELDS`]) and no others. Everything else is handed to the filter as it
//! is, and the filter refuses what it does not know: so a plugin may have options that no host has heard of.

mod fields;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde_json::{Map, Value};

use crate::{
    keepline::{OnStoreError, Options},
    plugin::{CodeCache, Sandbox},
    store::{MemoryLimits, MemoryStore, RedisOptions, RedisOptionsError, RedisStore, Store},
};

pub use self::fields::{FIELDS, Field, HostFields, Kind, Preset, Profile, Setting, field};
pub use crate::store::{Secret, masked_url};

/// What each variable of the environment begins with.
pub const ENVIRONMENT_PREFIX: &str = "KEEPLINE_";

/// Variables that begin like a field's but are the command line's.
const NOT_FIELDS: [&str; 2] = ["CONFIG", "PLUGIN"];

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The profile.
    Profile(Profile),
    /// A configuration file, or an embedder's object.
    Document(String),
    /// This variable of the environment.
    Environment(String),
    /// `--set` (for a profile: `--profile`).
    CommandLine,
}

impl Origin {
    /// Whether somebody asked for it, in contrast to a default.
    pub fn is_chosen(&self) -> bool {
        !matches!(self, Self::Default | Self::Profile(_))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::Profile(profile) => write!(formatter, "profile {}", profile.name()),
            Self::Document(name) | Self::Environment(name) => formatter.write_str(name),
            Self::CommandLine => formatter.write_str("command line"),
        }
    }
}

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
    /// A backend that nobody has heard of; in the node's words.
    #[error("Unknown backend: {given}. Must be \"redis\" or \"memory\".")]
    Backend {
        /// What was given.
        given: String,
    },
    /// A profile that nobody has heard of; in the node's words.
    #[error("Profile {given} is not defined in memory_persistent: use memory, redis or custom")]
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
    /// Fields for a profile that nobody chose, while the backend is Redis all the same.
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

/// What a configuration is made from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The profile, and who asks for it: wins over the document's.
    pub profile: Option<(String, Origin)>,
    /// The configuration file: what it is called, and what is in it.
    pub document: Option<(String, Value)>,
    /// Field → text. Use [`Sources::with_environment`].
    pub environment: Vec<(String, String)>,
    /// `--set`: field → text, in order.
    pub set: Vec<(String, String)>,
}

impl Sources {
    /// Read a configuration file.
    ///
    /// # Errors
    /// When the file can't be read or holds no JSON.
    pub fn with_file(mut self, path: &Path) -> Result<Self, ConfigError> {
        let name = path.display().to_string();
        let unreadable = |problem: String| ConfigError::Unreadable { name: name.clone(), problem };
        let bytes =
            std::fs::read(path).map_err(|error| unreadable(format!("can't read this configuration: {error}")))?;
        // Some editors begin a file with a byte order mark.
        let json = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
        let value = serde_json::from_slice(json)
            .map_err(|error| unreadable(format!("a configuration must be a JSON object: {error}")))?;
        self.document = Some((name, value));
        Ok(self)
    }

    /// Take the fields, and the profile unless there is one, from variables of the environment, such as
    /// `std::env::vars_os()`.
    ///
    /// # Errors
    /// When a variable of ours is not text.
    pub fn with_environment<N, V>(mut self, variables: impl IntoIterator<Item = (N, V)>) -> Result<Self, ConfigError>
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        for (name, value) in variables {
            let name: OsString = name.into();
            let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(ENVIRONMENT_PREFIX)) else { continue };
            let value: OsString = value.into();
            if value.is_empty() || rest.is_empty() || NOT_FIELDS.contains(&rest) {
                continue;
            }
            match value.into_string() {
                Ok(text) if is_service_link(rest, &text) => {}
                Ok(text) if rest == "PROFILE" => {
                    let origin = Origin::Environment(format!("{ENVIRONMENT_PREFIX}{rest}"));
                    self.profile.get_or_insert((text, origin));
                }
                Ok(text) => self.environment.push((rest.to_ascii_lowercase(), text)),
                Err(_) => {
                    return Err(ConfigError::Unreadable {
                        name: format!("{ENVIRONMENT_PREFIX}{rest}"),
                        problem: "this variable is not UTF-8 text".to_owned(),
                    });
                }
            }
        }
        Ok(self)
    }
}

/// Whether a variable is one of those by which Kubernetes tells each pod of a service called `keepline`, or
/// `keepline-redis`: `KEEPLINE_SERVICE_HOST`, `KEEPLINE_PORT=tcp://10.0.0.1:80`, `KEEPLINE_PORT_80_TCP_ADDR`. Nobody asked
/// for them, and no field is called or valued like that.
fn is_service_link(name: &str, value: &str) -> bool {
    let is_port = |rest: &str| rest.split('_').next().is_some_and(|port| port.parse::<u16>().is_ok());
    let of_service = |part: &str| name == part || name.ends_with(&format!("_{part}"));
    of_service("SERVICE_HOST")
        || of_service("SERVICE_PORT")
        || name.contains("SERVICE_PORT_")
        || name.split_once("PORT_").is_some_and(|(before, rest)| {
            (before.is_empty() || before.ends_with('_'))
                && is_port(rest)
                && (rest.contains("_TCP") || rest.contains("_UDP"))
        })
        || (of_service("PORT") && ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme)))
}

/// One line of what `keepline config` prints.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// The field.
    pub name: String,
    /// Its value, masked when secret.
    pub value: Value,
    /// Where it came from.
    pub origin: Origin,
    /// One line for people; empty for the filter's fields.
    pub about: &'static str,
}

/// A configuration: checked as far as the host knows its fields.
#[derive(Debug, Clone)]
pub struct Config {
    /// The profile whose defaults are in force.
    pub profile: Profile,
    /// Who chose it.
    pub profile_origin: Origin,
    /// The host's fields.
    pub host: HostFields,
    /// What somebody probably did not mean; for people.
    pub warnings: Vec<String>,
    settings: BTreeMap<&'static str, (Setting, Origin)>,
    filter: BTreeMap<String, (Value, Origin)>,
}

impl Config {
    /// The defaults of a profile.
    ///
    /// # Errors
    /// `custom` has no host.
    pub fn of_profile(profile: Profile) -> Result<Self, ConfigError> {
        Self::resolve(Sources { profile: Some((profile.name().to_owned(), Origin::Default)), ..Sources::default() })
    }

    /// From a JSON object, as the node would be given it.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn from_json(value: Value) -> Result<Self, ConfigError> {
        Self::resolve(Sources { document: Some(("configuration".to_owned(), value)), ..Sources::default() })
    }

    /// Put the sources together.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn resolve(sources: Sources) -> Result<Self, ConfigError> {
        let document = match sources.document {
            None => None,
            Some((name, Value::Object(object))) => Some((name, object)),
            Some((name, other)) => {
                let problem = format!("a configuration must be a JSON object, not {}", describe(&other));
                return Err(ConfigError::Unreadable { name, problem });
            }
        };
        let (profile, profile_origin) = choose_profile(sources.profile, document.as_ref())?;
        let mut layers = Layers::new(profile)?;
        let mut not_chosen = None;
        if let Some((name, object)) = document {
            let origin = Origin::Document(name);
            let (fields, others) = document_fields(profile, &profile_origin, object, &origin)?;
            for (field, value) in fields {
                layers.set_json(&field, value, &origin)?;
            }
            not_chosen = (!others.is_empty()).then_some((others, origin));
        }
        for (field, text) in sources.environment {
            let origin = Origin::Environment(format!("{ENVIRONMENT_PREFIX}{}", field.to_ascii_uppercase()));
            layers.set_text(&field, &text, origin)?;
        }
        for (field, text) in sources.set {
            if field == "profile" {
                return Err(ConfigError::Unreadable {
                    name: "profile".to_owned(),
                    problem: "the profile is chosen by --profile, not by --set".to_owned(),
                });
            }
            layers.set_text(&field, &text, Origin::CommandLine)?;
        }
        let mut config = layers.finish(profile, profile_origin)?;
        if let Some((profiles, origin)) = not_chosen {
            if let (true, Some(profile)) = (config.is_redis(), profiles.first()) {
                return Err(ConfigError::ProfileNotChosen { profile, origin });
            }
            config.warnings.push(format!(
                "{origin} has fields for the profile {}, which is not selected: add \"profile\" to it, or use --profile",
                profiles.join(" and ")
            ));
        }
        Ok(config)
    }

    /// What goes to the filter's `configure`: a JSON object of everything that is not the host's.
    pub fn filter_options(&self) -> String {
        let object: Map<String, Value> =
            self.filter.iter().map(|(name, (value, _))| (name.clone(), value.clone())).collect();
        Value::Object(object).to_string()
    }

    /// Where a field's value came from, whoever's field it is.
    pub fn origin(&self, name: &str) -> Origin {
        let of_host = self.settings.get(name).map(|(_, origin)| origin);
        let of_filter = || self.filter.get(name).map(|(_, origin)| origin);
        of_host.or_else(of_filter).cloned().unwrap_or(Origin::Default)
    }

    /// The host's fields for people, in the order of the table, secrets masked.
    pub fn shown(&self) -> Vec<Shown> {
        let row = |field: &Field| {
            let (value, origin) = self.settings.get(field.name)?;
            let (value, origin) = (value.shown(), origin.clone());
            Some(Shown { name: field.name.to_owned(), value, origin, about: field.about })
        };
        FIELDS.iter().filter_map(row).collect()
    }

    /// The filter's fields for people. `effective` is what its `configure` answered; without it only what
    /// was set is known.
    pub fn shown_filter(&self, effective: Option<&str>) -> Vec<Shown> {
        let effective = effective.and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
        let object = effective
            .unwrap_or_else(|| self.filter.iter().map(|(name, (value, _))| (name.clone(), value.clone())).collect());
        let row = |(name, value): (String, Value)| {
            let origin = self.origin(&name);
            Shown { name, value, origin, about: "" }
        };
        object.into_iter().map(row).collect()
    }

    /// What the plugin may use of the machine.
    pub fn sandbox(&self) -> Sandbox {
        let host = &self.host;
        Sandbox {
            memory_bytes: size(host.sandbox_memory_bytes),
            table_elements: size(host.sandbox_table_elements),
            cpu_time: Duration::from_millis(host.sandbox_cpu_ms),
            copy_bytes: size(host.sandbox_copy_bytes),
            store_calls_per_entry: u32::try_from(host.sandbox_store_calls).unwrap_or(u32::MAX),
            log_lines_per_entry: u32::try_from(host.sandbox_log_lines).unwrap_or(u32::MAX),
            calls_per_instance: host.sandbox_calls_per_instance,
            cache: match host.cache_dir.as_str() {
                "" | "default" => CodeCache::Default,
                "off" => CodeCache::Off,
                path => CodeCache::At(PathBuf::from(path)),
            },
        }
    }

    /// How entries are treated, and what the filter is configured with.
    pub fn options(&self) -> Options {
        let host = &self.host;
        Options {
            filter: self.filter_options(),
            on_store_error: if host.on_store_error == "fail" { OnStoreError::Fail } else { OnStoreError::Forward },
            max_entry_bytes: size(host.max_entry_bytes),
            max_instances: u32::try_from(host.max_instances).unwrap_or(u32::MAX),
            max_waiting: size(host.max_waiting),
            max_wait: Duration::from_millis(host.max_wait_ms),
            entry_timeout: Duration::from_millis(host.store_timeout_ms),
            ..Options::default()
        }
    }

    /// How much the memory backend takes.
    pub fn memory_limits(&self) -> MemoryLimits {
        MemoryLimits { max_sessions: self.host.memory_max_sessions, max_bytes: self.host.memory_max_bytes }
    }

    /// How Redis is reached.
    pub fn redis_options(&self) -> RedisOptions {
        let host = &self.host;
        RedisOptions {
            url: (!host.redis_url.is_empty()).then(|| self.completed_url()),
            host: host.redis_host.trim().to_owned(),
            port: u16::try_from(host.redis_port).unwrap_or(u16::MAX),
            username: (!host.redis_username.is_empty()).then(|| host.redis_username.clone()),
            password: (!host.redis_password.is_empty()).then(|| host.redis_password.clone()),
            database: i64::try_from(host.redis_database).unwrap_or(i64::MAX),
            tls: host.redis_tls,
            tls_ca: (!host.redis_tls_ca.is_empty()).then(|| host.redis_tls_ca.clone().into()),
            cluster: host.redis_cluster,
            nodes: host.redis_nodes.clone(),
            wait_replicas: u32::try_from(host.redis_wait_replicas).unwrap_or(u32::MAX),
            key_prefix: host.key_prefix.clone(),
            store_timeout: Duration::from_millis(host.store_timeout_ms),
            breaker_failures: u32::try_from(host.breaker_failures).unwrap_or(u32::MAX),
            breaker_cooldown: Duration::from_millis(host.breaker_cooldown_ms),
        }
    }

    /// The URL, with what it leaves out taken from the single fields: so a password can travel by itself.
    fn completed_url(&self) -> Secret {
        let host = &self.host;
        let Ok(mut url) = url::Url::parse(host.redis_url.expose()) else { return host.redis_url.clone() };
        // None of these can fail on a URL that has a host, which was checked.
        if url.username().is_empty() && !host.redis_username.is_empty() {
            let _ = url.set_username(&host.redis_username);
        }
        if url.password().is_none() && !host.redis_password.is_empty() {
            let _ = url.set_password(Some(host.redis_password.expose()));
        }
        if url.path().trim_matches('/').is_empty() && host.redis_database != 0 {
            url.set_path(&host.redis_database.to_string());
        }
        if host.redis_tls {
            let _ = url.set_scheme("rediss");
        }
        Secret::new(url)
    }

    /// The store. Redis is connected to when it is first needed, not here.
    ///
    /// # Errors
    /// When the options of Redis make no sense together.
    pub fn store(&self) -> Result<Arc<dyn Store>, RedisOptionsError> {
        if self.is_redis() {
            return Ok(Arc::new(RedisStore::new(self.redis_options())?));
        }
        Ok(Arc::new(MemoryStore::new(self.memory_limits())))
    }

    /// Whether sessions outlive the process.
    pub fn is_redis(&self) -> bool {
        self.host.backend == "redis"
    }
}

/// A 32-bit machine has no more than this.
fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Values while they are being put together.
struct Layers {
    /// Defaults and the profile: what `null` goes back to.
    base: BTreeMap<&'static str, (Setting, Origin)>,
    base_filter: BTreeMap<String, (Value, Origin)>,
    settings: BTreeMap<&'static str, (Setting, Origin)>,
    filter: BTreeMap<String, (Value, Origin)>,
}

impl Layers {
    fn new(profile: Profile) -> Result<Self, ConfigError> {
        let mut base = BTreeMap::new();
        let mut base_filter = BTreeMap::new();
        for row in FIELDS {
            base.insert(row.name, (checked(row, &row.default.json(), &Origin::Default)?, Origin::Default));
        }
        let origin = Origin::Profile(profile);
        for (name, preset) in profile.presets() {
            match field(name) {
                Some(row) => {
                    base.insert(row.name, (checked(row, &preset.json(), &origin)?, origin.clone()));
                }
                None => {
                    base_filter.insert((*name).to_owned(), (preset.json(), origin.clone()));
                }
            }
        }
        Ok(Self { settings: base.clone(), filter: base_filter.clone(), base, base_filter })
    }

    fn set_json(&mut self, name: &str, value: Value, origin: &Origin) -> Result<(), ConfigError> {
        let Some(row) = field(name) else {
            self.set_filter(name, value, origin.clone());
            return Ok(());
        };
        if value.is_null() {
            if let Some(base) = self.base.get(row.name) {
                self.settings.insert(row.name, base.clone());
            }
            return Ok(());
        }
        self.settings.insert(row.name, (checked(row, &value, origin)?, origin.clone()));
        Ok(())
    }

    fn set_text(&mut self, name: &str, text: &str, origin: Origin) -> Result<(), ConfigError> {
        match field(name) {
            Some(row) => {
                let accepted = row.accept_text(text);
                let setting = accepted.ok_or_else(|| refused(row, &Value::from(text), &origin))?;
                self.settings.insert(row.name, (checked_url(row, setting, &origin)?, origin));
            }
            None => self.set_filter(name, scalar(text), origin),
        }
        Ok(())
    }

    fn set_filter(&mut self, name: &str, value: Value, origin: Origin) {
        if !value.is_null() {
            self.filter.insert(name.to_owned(), (value, origin));
        } else if let Some(base) = self.base_filter.get(name) {
            self.filter.insert(name.to_owned(), base.clone());
        } else if self.filter.remove(name).is_none() {
            // Nobody set it before: hand the null on, so that an unknown name is still refused.
            self.filter.insert(name.to_owned(), (value, origin));
        }
    }

    fn finish(self, profile: Profile, profile_origin: Origin) -> Result<Config, ConfigError> {
        let Self { settings, filter, .. } = self;
        let mut warnings = Vec::new();
        let host = HostFields::collect(|name| settings.get(name).map(|(setting, _)| setting)).ok_or_else(|| {
            ConfigError::Unreadable {
                name: "configuration".to_owned(),
                problem: "the field table is inconsistent".to_owned(),
            }
        })?;
        let origin = |name: &str| settings.get(name).map_or(Origin::Default, |(_, origin)| origin.clone());
        let redis = host.backend == "redis";
        let names_server = !host.redis_url.is_empty() || !host.redis_host.trim().is_empty();
        if redis && !names_server && host.redis_nodes.is_empty() {
            return Err(ConfigError::NoHost { origin: origin("redis_host") });
        }
        if redis && !host.redis_url.is_empty() {
            for name in ["redis_host", "redis_port"] {
                let beside = origin(name);
                if beside.is_chosen() {
                    let url = origin("redis_url");
                    warnings.push(format!("redis_url ({url}) takes precedence: {name} ({beside}) is ignored"));
                }
            }
        }
        if !redis && !origin("backend").is_chosen() {
            for name in ["redis_url", "redis_host", "redis_nodes"] {
                let set = origin(name);
                if set.is_chosen() {
                    warnings.push(format!(
                        "{name} is set ({set}), but the backend is \"memory\": to use Redis, add --profile redis \
                         or --set backend=redis"
                    ));
                }
            }
        }
        Ok(Config { profile, profile_origin, host, warnings, settings, filter })
    }
}

fn choose_profile(
    asked: Option<(String, Origin)>,
    document: Option<&(String, Map<String, Value>)>,
) -> Result<(Profile, Origin), ConfigError> {
    if let Some((name, origin)) = asked {
        let profile = Profile::named(&name).ok_or(ConfigError::Profile { given: shortened(&name) })?;
        return Ok((profile, origin));
    }
    match document.and_then(|(name, object)| Some((name, object.get("profile")?))) {
        None | Some((_, Value::Null)) => Ok((Profile::Memory, Origin::Default)),
        Some((file, Value::String(name))) => {
            let profile = Profile::named(name).ok_or(ConfigError::Profile { given: shortened(name) })?;
            Ok((profile, Origin::Document(file.clone())))
        }
        Some((_, other)) => Err(ConfigError::Profile { given: describe(other) }),
    }
}

/// The fields of a document, by the node's way of resolving, and the profiles that it has fields for although
/// nobody chose any.
fn document_fields(
    profile: Profile,
    profile_origin: &Origin,
    mut object: Map<String, Value>,
    origin: &Origin,
) -> Result<(Map<String, Value>, Vec<&'static str>), ConfigError> {
    let has_profile = object.remove("profile").is_some_and(|named| !named.is_null());
    let mut own = Map::new();
    let mut others = Vec::new();
    for of in Profile::ALL {
        match (object.remove(of.name()), of == profile) {
            (None, _) | (Some(Value::Null), _) => {}
            (Some(Value::Object(fields)), true) if profile_origin.is_chosen() => own = fields,
            (Some(Value::Object(_)), _) => others.push(of.name()),
            (Some(other), _) => {
                return Err(ConfigError::Value {
                    field: of.name().to_owned(),
                    allowed: "an object: the fields of that profile".to_owned(),
                    given: describe(&other),
                    origin: origin.clone(),
                });
            }
        }
    }
    if has_profile {
        // A null asks for nothing.
        let beside: Vec<String> =
            object.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| shortened(name)).collect();
        if let Some(first) = beside.first() {
            return Err(ConfigError::BesideProfile {
                fields: beside.join(", "),
                first: first.clone(),
                profile: profile.name(),
                origin: origin.clone(),
            });
        }
        return Ok((own, Vec::new()));
    }
    if profile_origin.is_chosen() {
        others.clear();
    }
    // Names no profile itself: its plain fields hold for whichever was chosen, that profile's own before them.
    object.extend(own);
    Ok((object, others))
}

fn checked(row: &Field, value: &Value, origin: &Origin) -> Result<Setting, ConfigError> {
    let setting = row.accept(value).ok_or_else(|| refused(row, value, origin))?;
    checked_url(row, setting, origin)
}

/// A URL that can't be one is refused here, where its origin is known; the store looks at the details.
fn checked_url(row: &Field, setting: Setting, origin: &Origin) -> Result<Setting, ConfigError> {
    if let Setting::Url(url) = &setting
        && !url.is_empty()
    {
        let problem = match url::Url::parse(url.expose()) {
            Err(error) => Some(format!("an invalid URL: {error}")),
            Ok(parsed) if !matches!(parsed.scheme(), "redis" | "rediss") => {
                Some("a URL with another scheme".to_owned())
            }
            Ok(parsed) if parsed.host_str().unwrap_or_default().is_empty() => Some("a URL without a host".to_owned()),
            Ok(_) => None,
        };
        if let Some(given) = problem {
            let (field, allowed) = (row.name.to_owned(), row.allowed());
            return Err(ConfigError::Value { field, allowed, given, origin: origin.clone() });
        }
    }
    Ok(setting)
}

fn refused(row: &Field, value: &Value, origin: &Origin) -> ConfigError {
    if row.name == "backend" {
        let given = match value {
            Value::String(text) => format!("'{}'", shortened(text)),
            other => describe(other),
        };
        return ConfigError::Backend { given };
    }
    let given = match (row.kind, value) {
        // Whatever it is, it may be a password in the wrong clothes.
        (Kind::Secret | Kind::Url, Value::Number(_)) => "a number (put it in quotes)".to_owned(),
        (Kind::Secret | Kind::Url, _) => "this".to_owned(),
        _ => describe(value),
    };
    ConfigError::Value { field: row.name.to_owned(), allowed: row.allowed(), given, origin: origin.clone() }
}

/// A value in an error: short, and without anything that a terminal would obey.
fn describe(value: &Value) -> String {
    match value {
        Value::String(text) => format!("the string {}", Value::from(shortened(text))),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        other => other.to_string(),
    }
}

fn shortened(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut short: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    short
}

/// Text from a command line or the environment for a field that is not the host's: a JSON scalar if it is
/// one, else itself.
fn scalar(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_))) => value,
        _ => Value::from(text),
    }
}
