//! The sources of a configuration, and the origin of each value.

use std::{collections::BTreeMap, ffi::OsString, fmt, path::Path};

use serde_json::Value;

use super::{ConfigError, Profile, neurolink};

/// What each variable of the environment begins with.
pub const ENVIRONMENT_PREFIX: &str = "KEEPLINE_";

/// Variables that begin like a field's but are the command line's.
const NOT_FIELDS: [&str; 4] = ["CONFIG", "PLUGIN", "PIPELINES", "TRUST"];

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It was not set.
    Default,
    /// The profile.
    Profile(Profile),
    /// What is in the store.
    Store,
    /// A configuration file, or an embedder's object.
    Document(String),
    /// This variable of the environment.
    Environment(String),
    /// `--set` (for a profile: `--profile`).
    CommandLine,
}

impl Origin {
    /// Whether it was chosen, in contrast to a default.
    pub fn is_chosen(&self) -> bool {
        !matches!(self, Self::Default | Self::Profile(_) | Self::Store)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::Store => formatter.write_str("store"),
            Self::Profile(profile) => write!(formatter, "profile {}", profile.name()),
            Self::Document(name) | Self::Environment(name) => formatter.write_str(name),
            Self::CommandLine => formatter.write_str("command line"),
        }
    }
}

/// What a configuration is made from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The profile, and who asks for it: wins over the document's.
    pub profile: Option<(String, Origin)>,
    /// The configuration file: what it is called, and what is in it.
    pub document: Option<(String, Value)>,
    /// Whether a person named that file on the command line: then a variable of the environment that sets another store
    /// than the file does is worth a warning.
    pub is_document_typed: bool,
    /// Field → text. Use [`Sources::with_environment`].
    pub environment: Vec<(String, String)>,
    /// Where `STORAGE_TYPE` is set: it, and the other variables of NeuroLink's that are fallbacks of fields. Use
    /// [`Sources::with_environment`].
    pub neurolink: BTreeMap<String, String>,
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
    /// `std::env::vars_os()`; where `STORAGE_TYPE` is set, NeuroLink's as well.
    ///
    /// # Errors
    /// When a variable that is read is not text.
    pub fn with_environment<N, V>(mut self, variables: impl IntoIterator<Item = (N, V)>) -> Result<Self, ConfigError>
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        let mut foreign: BTreeMap<String, OsString> = BTreeMap::new();
        for (name, value) in variables {
            let name: OsString = name.into();
            if let Some(name) = name.to_str().filter(|name| neurolink::is_known_variable(name)) {
                foreign.insert(name.to_owned(), value.into());
                continue;
            }
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
                Err(_) => return Err(not_text(format!("{ENVIRONMENT_PREFIX}{rest}"))),
            }
        }
        foreign.retain(|_, value| !value.is_empty());
        if foreign.contains_key(neurolink::STORAGE_TYPE) {
            for (name, value) in foreign {
                let text = value.into_string().map_err(|_| not_text(name.clone()))?;
                self.neurolink.insert(name, text);
            }
        } else {
            // A variable that is clearly meant for NeuroLink is reported, and not read.
            let own = foreign.into_keys().filter(|name| neurolink::is_neurolink_only(name));
            self.neurolink.extend(own.map(|name| (name, String::new())));
        }
        Ok(self)
    }
}

fn not_text(name: String) -> ConfigError {
    ConfigError::Unreadable { name, problem: "this variable is not UTF-8 text".to_owned() }
}

/// Whether a variable is one of those by which Kubernetes tells each pod of a service called `keepline`, or
/// `keepline-redis`: `KEEPLINE_SERVICE_HOST`, `KEEPLINE_PORT=tcp://10.0.0.1:80`, `KEEPLINE_PORT_80_TCP_ADDR`. They are
/// set by the cluster, and no field has such a name or value.
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
