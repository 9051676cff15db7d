//! Names the store that a configuration uses: for people, and to notice when the environment replaces the store that a
//! command line asks for.

use std::fmt;

use super::{HostFields, Origin, layers::Layers};

/// The fields that decide which store is used.
const STORE_FIELDS: [&str; 9] = [
    "backend",
    "directory",
    "redis_url",
    "redis_host",
    "redis_port",
    "redis_cluster",
    "redis_nodes",
    "redis_database",
    "key_prefix",
];

/// Which store a configuration uses. Shown to people: it contains no user and no password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreName {
    /// The memory of this process.
    Memory,
    /// A directory; empty while none is named.
    Directory(String),
    /// A Redis server or cluster.
    Redis {
        /// `host:port` of the server, or of the cluster's known nodes; empty while none is named.
        addresses: Vec<String>,
        /// The database.
        database: u64,
        /// The prefix of all keys.
        key_prefix: String,
    },
}

impl StoreName {
    pub(super) fn from_host_fields(host: &HostFields) -> Self {
        match host.backend.as_str() {
            "redis" => {
                let (addresses, of_url) = redis_addresses(host);
                let database = of_url.unwrap_or(host.redis_database);
                Self::Redis { addresses, database, key_prefix: host.key_prefix.clone() }
            }
            "directory" => Self::Directory(host.directory.clone()),
            _ => Self::Memory,
        }
    }

    /// What to add to a command line so that it names this store itself.
    pub fn arguments(&self) -> String {
        match self {
            Self::Memory => "--set backend=memory".to_owned(),
            Self::Directory(directory) => format!("--dir {directory}"),
            Self::Redis { addresses, database, key_prefix } => {
                let server = match addresses.as_slice() {
                    [address] => format!("redis_url=redis://{address}/{database}"),
                    nodes => format!("redis_cluster=true --set redis_nodes={}", nodes.join(",")),
                };
                format!("--set backend=redis --set {server} --set key_prefix={key_prefix}")
            }
        }
    }
}

impl fmt::Display for StoreName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => formatter.write_str("the memory of this process"),
            Self::Directory(directory) => write!(formatter, "the directory {directory}"),
            Self::Redis { addresses, database, key_prefix } => {
                let kind = if addresses.len() > 1 { "the Redis Cluster" } else { "Redis" };
                write!(formatter, "{kind} at {}", addresses.join(", "))?;
                if *database != 0 {
                    write!(formatter, ", database {database}")?;
                }
                write!(formatter, ", key prefix {key_prefix}")
            }
        }
    }
}

/// The servers that are named, and the database if a URL names it. A URL takes precedence over host and port, as when
/// connecting.
fn redis_addresses(host: &HostFields) -> (Vec<String>, Option<u64>) {
    if host.redis_cluster && !host.redis_nodes.is_empty() {
        return (host.redis_nodes.clone(), None);
    }
    if let Ok(url) = url::Url::parse(host.redis_url.expose())
        && let Some(name) = url.host_str()
    {
        let address = format!("{name}:{}", url.port().unwrap_or(6379));
        return (vec![address], url.path().trim_start_matches('/').parse().ok());
    }
    let name = host.redis_host.trim();
    let addresses = if name.is_empty() { vec![] } else { vec![format!("{name}:{}", host.redis_port)] };
    (addresses, None)
}

/// Variables of the environment that replace the store which a typed profile or configuration file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplacedStore {
    /// The variables.
    pub variables: Vec<String>,
    /// The store that the command line names.
    pub named: String,
    /// The store in use.
    pub used: StoreName,
}

impl fmt::Display for ReplacedStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variables, named, used } = self;
        let verb = if variables.len() == 1 { "replaces" } else { "replace" };
        write!(formatter, "{} {verb} {named}: the store in use is {used}", variables.join(" and "))
    }
}

/// Compares what the command line alone says (`typed`) with what it says together with the environment (`used`). `by`: what
/// was typed, such as "profile redis".
pub(super) fn replaced_store(typed: &Layers, used: &Layers, by: &str) -> Option<ReplacedStore> {
    let (typed_host, used_host) = (typed.host_fields()?, used.host_fields()?);
    let (named, name) = (StoreName::from_host_fields(&typed_host), StoreName::from_host_fields(&used_host));
    // A field that was not chosen is filled in by the environment, not replaced.
    let is_chosen = |field: &str| typed.origin(field).is_chosen();
    let is_replaced = match (&named, &name) {
        (StoreName::Memory, StoreName::Memory) => false,
        (StoreName::Directory(named), StoreName::Directory(used)) => !named.is_empty() && named != used,
        (
            StoreName::Redis { addresses: named, database: named_database, key_prefix: named_prefix },
            StoreName::Redis { addresses, database, key_prefix },
        ) => {
            let names_database = is_chosen("redis_database") || is_chosen("redis_url");
            (!named.is_empty() && named != addresses)
                || (names_database && named_database != database)
                || (is_chosen("key_prefix") && named_prefix != key_prefix)
        }
        _ => true,
    };
    if !is_replaced {
        return None;
    }
    let variables = STORE_FIELDS.iter().filter_map(|field| match used.origin(field) {
        Origin::Environment(variable) if used.setting(field) != typed.setting(field) => Some(variable),
        _ => None,
    });
    let named = match &named {
        StoreName::Directory(directory) if directory.is_empty() => format!("the directory of {by}"),
        StoreName::Redis { addresses, .. } if addresses.is_empty() => format!("the Redis of {by}"),
        named => format!("the store of {by} ({named})"),
    };
    Some(ReplacedStore { variables: variables.collect(), named, used: name })
}

/// Whether any field that decides about the store comes from a configuration file.
pub(super) fn is_named_in_document(layers: &Layers) -> bool {
    STORE_FIELDS.iter().any(|field| matches!(layers.origin(field), Origin::Document(_)))
}
