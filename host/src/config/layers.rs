//! Holds the values of all fields while one source after another is applied.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Config, ConfigError, FIELDS, Field, HostFields, Kind, Origin, Profile, Setting, StoreName,
    error::{describe, shortened},
    field,
};

/// The values of all fields so far.
#[derive(Clone)]
pub(super) struct Layers {
    /// Defaults and the profile: what `null` goes back to.
    base: BTreeMap<&'static str, (Setting, Origin)>,
    base_filter: BTreeMap<String, (Value, Origin)>,
    settings: BTreeMap<&'static str, (Setting, Origin)>,
    filter: BTreeMap<String, (Value, Origin)>,
}

impl Layers {
    pub(super) fn new(profile: Profile) -> Result<Self, ConfigError> {
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

    pub(super) fn set_json(&mut self, name: &str, value: Value, origin: &Origin) -> Result<(), ConfigError> {
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

    /// The backend as it is set so far.
    pub(super) fn backend(&self) -> &str {
        match self.settings.get("backend") {
            Some((Setting::Text(backend), _)) => backend,
            _ => "",
        }
    }

    /// The host's fields, not yet checked as a whole.
    pub(super) fn host_fields(&self) -> Option<HostFields> {
        HostFields::collect(|name| self.setting(name))
    }

    pub(super) fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.get(name).map(|(setting, _)| setting)
    }

    /// Where a field of the host's comes from.
    pub(super) fn origin(&self, name: &str) -> Origin {
        self.settings.get(name).map_or(Origin::Default, |(_, origin)| origin.clone())
    }

    /// Whether a field was set, the host's or the filter's.
    pub(super) fn is_chosen(&self, name: &str) -> bool {
        let of_host = self.settings.get(name).map(|(_, origin)| origin);
        of_host.or_else(|| self.filter.get(name).map(|(_, origin)| origin)).is_some_and(Origin::is_chosen)
    }

    /// Whether an option of the filter is on, from whichever source.
    pub(super) fn is_filter_flag_on(&self, name: &str) -> bool {
        self.filter.get(name).is_some_and(|(value, _)| *value == Value::Bool(true))
    }

    pub(super) fn set_text(&mut self, name: &str, text: &str, origin: Origin) -> Result<(), ConfigError> {
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

    pub(super) fn set_filter(&mut self, name: &str, value: Value, origin: Origin) {
        if !value.is_null() {
            self.filter.insert(name.to_owned(), (value, origin));
        } else if let Some(base) = self.base_filter.get(name) {
            self.filter.insert(name.to_owned(), base.clone());
        } else if self.filter.remove(name).is_none() {
            // Not set before: pass the null on, so that an unknown name is still refused.
            self.filter.insert(name.to_owned(), (value, origin));
        }
    }

    pub(super) fn finish(self, profile: Profile, profile_origin: Origin) -> Result<Config, ConfigError> {
        let mut warnings = Vec::new();
        let host = self.host_fields().ok_or_else(|| ConfigError::Unreadable {
            name: "configuration".to_owned(),
            problem: "the field table is inconsistent".to_owned(),
        })?;
        let origin = |name: &str| self.origin(name);
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
        if host.session_limit_policy == "evict" && host.backend != "memory" {
            let (backend, origin) = (host.backend, origin("session_limit_policy"));
            return Err(ConfigError::NoEviction { backend, origin });
        }
        if host.backend == "directory" && host.directory.is_empty() {
            return Err(ConfigError::NoDirectory { origin: origin("directory") });
        }
        if !origin("backend").is_chosen() {
            let unused = [
                ("redis_url", "redis", "Redis, add --profile redis or --set backend=redis"),
                ("redis_host", "redis", "Redis, add --profile redis or --set backend=redis"),
                ("redis_nodes", "redis", "Redis, add --profile redis or --set backend=redis"),
                ("directory", "directory", "the directory, add --dir PATH or --set backend=directory"),
            ];
            for (name, backend, how) in unused {
                let set = origin(name);
                if host.backend != backend && set.is_chosen() {
                    warnings
                        .push(format!("{name} is set ({set}), but the backend is \"{}\": to use {how}", host.backend));
                }
            }
        }
        let store_name = StoreName::from_host_fields(&host);
        let Self { settings, filter, .. } = self;
        Ok(Config { profile, profile_origin, host, store_name, replaced_store: None, warnings, settings, filter })
    }
}

fn checked(row: &Field, value: &Value, origin: &Origin) -> Result<Setting, ConfigError> {
    let setting = row.accept_json(value).ok_or_else(|| refused(row, value, origin))?;
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
                // "localhost:6379" is a URL, too: one of the scheme "localhost".
                Some("text that does not begin with redis:// or rediss://".to_owned())
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

/// Text from a command line or the environment for a field that is not the host's: a JSON scalar if it is
/// one, else itself.
fn scalar(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_))) => value,
        _ => Value::from(text),
    }
}
