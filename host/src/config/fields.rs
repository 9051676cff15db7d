//! The host's own fields: one table that everything else follows.
//!
//! A field is added in [`host_fields!`] below and nowhere else: parsing, ranges, errors, `keepline config`
//! and its help all read the table. What is not in it belongs to the filter, which knows its own rules.

use serde_json::Value;

use crate::store::{Secret, masked_url};

/// What a field may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any text.
    Text,
    /// Text that is never shown.
    Secret,
    /// A Redis URL, shown without its password. Empty: none.
    Url,
    /// A whole number in this range, both ends included.
    Number {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// Yes or no.
    Flag,
    /// Texts: an array of them, or one text with commas between them.
    List,
}

/// A literal in a table: the default of a field, or what a profile sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// Text, a secret, a URL or a choice.
    Text(&'static str),
    /// A number.
    Number(u64),
    /// Yes or no.
    Flag(bool),
}

impl Preset {
    /// The same as JSON.
    pub fn json(self) -> Value {
        match self {
            Self::Text(text) => Value::from(text),
            Self::Number(number) => Value::from(number),
            Self::Flag(flag) => Value::from(flag),
        }
    }
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// As it is written in a file and after `--set`.
    pub name: &'static str,
    /// What it may hold.
    pub kind: Kind,
    /// What it holds when nobody says otherwise.
    pub default: Preset,
    /// One line for people.
    pub about: &'static str,
}

/// A checked value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// Text or a choice.
    Text(String),
    /// Never shown.
    Secret(Secret),
    /// Shown without its password.
    Url(Secret),
    /// In range.
    Number(u64),
    /// Yes or no.
    Flag(bool),
    /// Texts, none of them empty.
    List(Vec<String>),
}

impl Setting {
    /// For people and for `--json`: secrets are masked.
    pub fn shown(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(text.as_str()),
            Self::Secret(secret) => Value::from(secret.to_string()),
            Self::Url(url) => Value::from(masked_url(url.expose())),
            Self::Number(number) => Value::from(*number),
            Self::Flag(flag) => Value::from(*flag),
            Self::List(texts) => Value::from(texts.as_slice()),
        }
    }
}

impl Field {
    /// What is allowed, to go after "must be".
    pub fn allowed(&self) -> String {
        match self.kind {
            Kind::Choice(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                quoted.join(" or ")
            }
            Kind::Text | Kind::Secret => "a string".to_owned(),
            Kind::Url => "a redis:// or rediss:// URL, or empty".to_owned(),
            Kind::Number { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Flag => "true or false".to_owned(),
            Kind::List => "a list of strings, or one comma-separated string".to_owned(),
        }
    }

    /// Check a JSON value. None: not allowed.
    pub(super) fn accept(&self, value: &Value) -> Option<Setting> {
        match (self.kind, value) {
            (Kind::Number { .. }, Value::Number(number)) => {
                // 6379.0 is how some writers of JSON spell a whole number.
                let whole = number.as_u64().or_else(|| number.as_f64().and_then(whole_number))?;
                self.accept_number(whole)
            }
            (Kind::Flag, Value::Bool(flag)) => Some(Setting::Flag(*flag)),
            (Kind::List, Value::Array(texts)) => {
                let texts: Option<Vec<_>> = texts.iter().map(|text| Some(text.as_str()?.trim().to_owned())).collect();
                texts.filter(|texts| texts.iter().all(|text| !text.is_empty())).map(Setting::List)
            }
            (Kind::Choice(_) | Kind::Text | Kind::Secret | Kind::Url | Kind::List, Value::String(text)) => {
                self.accept_text(text)
            }
            _ => None,
        }
    }

    /// Check text from a command line or the environment, by the field's type: a password `12345` stays
    /// text. None: not allowed.
    pub(super) fn accept_text(&self, text: &str) -> Option<Setting> {
        match self.kind {
            Kind::Choice(words) => words.contains(&text).then(|| Setting::Text(text.to_owned())),
            Kind::Text => Some(Setting::Text(text.to_owned())),
            Kind::Secret => Some(Setting::Secret(Secret::new(text))),
            Kind::Url => Some(Setting::Url(Secret::new(text))),
            Kind::Number { .. } => text.trim().parse().ok().and_then(|whole| self.accept_number(whole)),
            Kind::Flag => text.trim().parse().ok().map(Setting::Flag),
            Kind::List => {
                let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
                Some(Setting::List(texts.map(str::to_owned).collect()))
            }
        }
    }

    fn accept_number(&self, whole: u64) -> Option<Setting> {
        match self.kind {
            Kind::Number { min, max } if (min..=max).contains(&whole) => Some(Setting::Number(whole)),
            _ => None,
        }
    }
}

/// A whole number that a float holds exactly. Beyond 2^53 a float can't tell neighbours apart.
fn whole_number(number: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked in the condition")]
    (number.fract() == 0.0 && (0.0..=EXACT).contains(&number)).then_some(number as u64)
}

/// The Rust type of a field, taken from its checked value.
trait Typed: Sized {
    fn typed(setting: &Setting) -> Option<Self>;
}

impl Typed for String {
    fn typed(setting: &Setting) -> Option<Self> {
        match setting {
            Setting::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl Typed for Secret {
    fn typed(setting: &Setting) -> Option<Self> {
        match setting {
            Setting::Secret(secret) | Setting::Url(secret) => Some(secret.clone()),
            _ => None,
        }
    }
}

impl Typed for u64 {
    fn typed(setting: &Setting) -> Option<Self> {
        match setting {
            Setting::Number(number) => Some(*number),
            _ => None,
        }
    }
}

impl Typed for bool {
    fn typed(setting: &Setting) -> Option<Self> {
        match setting {
            Setting::Flag(flag) => Some(*flag),
            _ => None,
        }
    }
}

impl Typed for Vec<String> {
    fn typed(setting: &Setting) -> Option<Self> {
        match setting {
            Setting::List(texts) => Some(texts.clone()),
            _ => None,
        }
    }
}

macro_rules! host_fields {
    ($( #[doc = $about:literal] $name:ident: $type:ty = $default:expr, $kind:expr; )+) => {
        /// The values of the host's fields, checked.
        #[derive(Debug, Clone)]
        pub struct HostFields {
            $( #[doc = $about] pub $name: $type, )+
        }

        /// The host's fields, in the order in which they are shown.
        pub static FIELDS: &[Field] = &[
            $( Field { name: stringify!($name), kind: $kind, default: $default, about: $about.trim_ascii() }, )+
        ];

        impl HostFields {
            /// None: a row of the table has a type that its kind does not yield. A test rules it out.
            pub(super) fn collect<'a>(value: impl Fn(&str) -> Option<&'a Setting>) -> Option<Self> {
                Some(Self { $( $name: Typed::typed(value(stringify!($name))?)?, )+ })
            }
        }
    };
}

const HOUR_MS: u64 = 3_600_000;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

host_fields! {
    /// Where sessions are kept: in this process ("memory"), or in Redis.
    backend: String = Preset::Text("memory"), Kind::Choice(&["redis", "memory"]);
    /// Redis server: host name or address.
    redis_host: String = Preset::Text("localhost"), Kind::Text;
    /// Redis server: port.
    redis_port: u64 = Preset::Number(6379), Kind::Number { min: 1, max: 65_535 };
    /// Redis server: password. Empty: none.
    redis_password: Secret = Preset::Text(""), Kind::Secret;
    /// Redis server: ACL user. Empty: the default user.
    redis_username: String = Preset::Text(""), Kind::Text;
    /// Redis server: number of the database.
    redis_database: u64 = Preset::Number(0), Kind::Number { min: 0, max: 1_000_000 };
    /// Redis server: encrypt the connection.
    redis_tls: bool = Preset::Flag(false), Kind::Flag;
    /// Redis server: PEM file of the CA certificates to trust instead of the public ones. Empty: the public ones.
    redis_tls_ca: String = Preset::Text(""), Kind::Text;
    /// Redis server as one URL, redis://user:password@host:port/database (rediss:// for TLS), instead of host and port.
    redis_url: Secret = Preset::Text(""), Kind::Url;
    /// Whether Redis is a Redis Cluster; its keys are then spread over 4096 hash tags.
    redis_cluster: bool = Preset::Flag(false), Kind::Flag;
    /// Redis Cluster: a few of its nodes as host:port, instead of host and port; the rest are discovered.
    redis_nodes: Vec<String> = Preset::Text(""), Kind::List;
    /// Redis: how many replicas must have what an entry writes before it counts as stored.
    redis_wait_replicas: u64 = Preset::Number(0), Kind::Number { min: 0, max: 100 };
    /// Prefix of all keys in Redis: one per tenant, and none that is another one followed by a colon and more.
    key_prefix: String = Preset::Text("rr:memory"), Kind::Text;
    /// How long an entry may wait in total: for an instance, and for the store including retries and reconnects (ms).
    store_timeout_ms: u64 = Preset::Number(1000), Kind::Number { min: 1, max: 300_000 };
    /// Consecutive failed transactions after which requests to the store are suspended for a while.
    breaker_failures: u64 = Preset::Number(3), Kind::Number { min: 1, max: 1_000_000 };
    /// How long they are suspended at first (ms); this doubles, up to ten times as long.
    breaker_cooldown_ms: u64 = Preset::Number(500), Kind::Number { min: 1, max: HOUR_MS };
    /// What to do with an entry when the store fails: forward it unchanged, or fail it.
    on_store_error: String = Preset::Text("forward"), Kind::Choice(&["forward", "fail"]);
    /// Largest entry that is passed to the filter (bytes). A larger one is forwarded unchanged.
    max_entry_bytes: u64 = Preset::Number(4 * MIB), Kind::Number { min: 1, max: GIB };
    /// Instances of the filter, which is how many entries are served at a time; at least one per pipe of keepline run.
    max_instances: u64 = Preset::Number(256), Kind::Number { min: 1, max: 1_000_000 };
    /// How many entries may wait for an instance; further ones are forwarded unchanged.
    max_waiting: u64 = Preset::Number(4096), Kind::Number { min: 0, max: 1_000_000 };
    /// How much of its time an entry may wait for an instance (ms); after that it is forwarded unchanged.
    max_wait_ms: u64 = Preset::Number(1000), Kind::Number { min: 1, max: 300_000 };
    /// Backend "memory": maximum number of sessions.
    memory_max_sessions: u64 = Preset::Number(1000), Kind::Number { min: 1, max: 1_000_000_000 };
    /// Backend "memory": maximum size (bytes).
    memory_max_bytes: u64 = Preset::Number(256 * MIB), Kind::Number { min: 1, max: 1024 * GIB };
    /// Sandbox: memory of an instance (bytes).
    sandbox_memory_bytes: u64 = Preset::Number(64 * MIB), Kind::Number { min: 2 * MIB, max: 4 * GIB };
    /// Sandbox: elements of an instance's tables.
    sandbox_table_elements: u64 = Preset::Number(10_000), Kind::Number { min: 1, max: 10_000_000 };
    /// Sandbox: how long the filter may compute between two calls to the host (ms).
    sandbox_cpu_ms: u64 = Preset::Number(1000), Kind::Number { min: 10, max: HOUR_MS };
    /// Sandbox: what one call may copy out of an instance (bytes).
    sandbox_copy_bytes: u64 = Preset::Number(32 * MIB), Kind::Number { min: 65_536, max: 4 * GIB };
    /// Sandbox: how many store calls one entry may make.
    sandbox_store_calls: u64 = Preset::Number(256), Kind::Number { min: 2, max: 1_000_000 };
    /// Sandbox: how many messages one entry may log; further ones are dropped.
    sandbox_log_lines: u64 = Preset::Number(64), Kind::Number { min: 0, max: 1_000_000 };
    /// Sandbox: entries that an instance serves before it is replaced.
    sandbox_calls_per_instance: u64 = Preset::Number(10_000), Kind::Number { min: 1, max: 1_000_000_000 };
    /// Where compiled plugins are cached: a directory, "default" or "off".
    cache_dir: String = Preset::Text("default"), Kind::Text;
}

/// The field of that name.
pub fn field(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.name == name)
}

/// The node's three profiles: its names, its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// In this process; nothing to set up.
    Memory,
    /// Redis on this machine, sessions live for a day.
    Redis,
    /// A Redis whose host is still to be filled in.
    Custom,
}

impl Profile {
    /// All of them, the default first.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Redis, Self::Custom];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Redis => "redis",
            Self::Custom => "custom",
        }
    }

    /// The profile of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// What it sets, the filter's fields among it.
    pub fn presets(self) -> &'static [(&'static str, Preset)] {
        match self {
            Self::Memory => &[
                ("backend", Preset::Text("memory")),
                ("session_ttl_hours", Preset::Number(0)),
                ("max_history", Preset::Number(100)),
                ("auto_summarize", Preset::Flag(true)),
            ],
            Self::Redis => &[
                ("backend", Preset::Text("redis")),
                ("redis_host", Preset::Text("localhost")),
                ("redis_port", Preset::Number(6379)),
                ("redis_password", Preset::Text("")),
                ("session_ttl_hours", Preset::Number(24)),
                ("max_history", Preset::Number(100)),
                ("auto_summarize", Preset::Flag(true)),
            ],
            Self::Custom => &[
                ("backend", Preset::Text("redis")),
                ("redis_host", Preset::Text("")),
                ("redis_port", Preset::Number(6379)),
                ("redis_password", Preset::Text("")),
                ("session_ttl_hours", Preset::Number(0)),
                ("max_history", Preset::Number(100)),
                ("auto_summarize", Preset::Flag(true)),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_and_preset_is_allowed_by_its_own_field() {
        for row in FIELDS {
            assert!(row.accept(&row.default.json()).is_some(), "{}", row.name);
        }
        for (name, preset) in Profile::ALL.iter().flat_map(|profile| profile.presets()) {
            if let Some(row) = field(name) {
                assert!(row.accept(&preset.json()).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn every_row_yields_the_type_that_its_member_has() {
        let defaults: Vec<(&str, Setting)> =
            FIELDS.iter().map(|row| (row.name, row.accept(&row.default.json()).unwrap())).collect();
        let found = HostFields::collect(|name| defaults.iter().find(|(of, _)| *of == name).map(|(_, value)| value));
        assert!(found.is_some());
    }

    #[test]
    fn a_list_is_an_array_or_one_text_with_commas() {
        let nodes = field("redis_nodes").unwrap();
        let two = Some(Setting::List(vec!["a:1".into(), "b:2".into()]));
        assert_eq!(nodes.accept(&serde_json::json!(["a:1", " b:2 "])), two);
        assert_eq!(nodes.accept_text(" a:1, b:2,"), two);
        assert_eq!(nodes.accept_text(""), Some(Setting::List(vec![])));
        for bad in [serde_json::json!([1]), serde_json::json!(["a", ""]), serde_json::json!({}), serde_json::json!(7)] {
            assert_eq!(nodes.accept(&bad), None, "{bad}");
        }
    }

    #[test]
    fn numbers_are_whole_and_in_range() {
        let port = field("redis_port").unwrap();
        for good in ["1", "65535", "6379.0"] {
            assert!(port.accept(&serde_json::from_str(good).unwrap()).is_some(), "{good}");
        }
        for bad in ["0", "65536", "-1", "6379.5", "1e300", "\"6379\"", "true", "[]", "{}"] {
            assert!(port.accept(&serde_json::from_str(bad).unwrap()).is_none(), "{bad}");
        }
        for bad in ["", "abc", "-1", "0x10", "99999999999999999999"] {
            assert!(port.accept_text(bad).is_none(), "{bad}");
        }
    }
}
