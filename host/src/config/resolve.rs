//! Putting the sources together: layer over layer, each field checked where its origin is known.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    Config, ConfigError, ENVIRONMENT_PREFIX, FIELDS, Field, HostFields, Kind, Origin, Profile, Setting, Sources,
    error::{describe, shortened},
    field, neurolink,
    store_name::{StoreName, is_named_in_document, replaced_store},
};

impl Config {
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
        let mut typed =
            typed_by(&layers, profile, &profile_origin, sources.is_document_typed).map(|by| (by, layers.clone()));
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
            if let Some((_, typed)) = &mut typed {
                typed.set_text(&field, &text, Origin::CommandLine)?;
            }
        }
        let foreign = neurolink::fall_back(&mut layers, &sources.neurolink, profile_origin.is_chosen())?;
        let replaced = typed.and_then(|(by, typed)| replaced_store(&typed, &layers, &by));
        let mut config = layers.finish(profile, profile_origin)?;
        config.warnings.extend(foreign);
        config.warnings.extend(replaced.as_ref().map(ToString::to_string));
        config.replaced_store = replaced;
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
}

/// What of a command line names a store, for people; none if nothing does.
fn typed_by(layers: &Layers, profile: Profile, profile_origin: &Origin, is_document_typed: bool) -> Option<String> {
    match profile_origin {
        Origin::CommandLine => Some(format!("profile {}", profile.name())),
        Origin::Document(name) if is_document_typed => Some(name.clone()),
        _ if is_document_typed && is_named_in_document(layers) => Some("the configuration file".to_owned()),
        _ => None,
    }
}

/// Values while they are being put together.
#[derive(Clone)]
pub(super) struct Layers {
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

    /// Whether somebody set a field, whoever's field it is.
    pub(super) fn is_chosen(&self, name: &str) -> bool {
        let of_host = self.settings.get(name).map(|(_, origin)| origin);
        of_host.or_else(|| self.filter.get(name).map(|(_, origin)| origin)).is_some_and(Origin::is_chosen)
    }

    /// Whether a filter's option is on, whoever set it.
    pub(super) fn is_on(&self, name: &str) -> bool {
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
            // Nobody set it before: hand the null on, so that an unknown name is still refused.
            self.filter.insert(name.to_owned(), (value, origin));
        }
    }

    fn finish(self, profile: Profile, profile_origin: Origin) -> Result<Config, ConfigError> {
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
        let store_name = StoreName::of(&host);
        let Self { settings, filter, .. } = self;
        Ok(Config { profile, profile_origin, host, store_name, replaced_store: None, warnings, settings, filter })
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
