//! Configuration: which store, how it is reached, what the sandbox allows, and the filter's options.
//!
//! A field's value comes from the first of these that names it:
//!
//! 1. `--set field=value` (the last one, if there are several),
//! 2. the environment, `KEEPLINE_<FIELD>` (an empty variable counts as not set),
//! 3. the configuration file, a JSON object,
//! 4. where `STORAGE_TYPE` is set, the variables of NeuroLink's that stand for it (`REDIS_URL` and others),
//! 5. the profile: `memory`, `redis`, `custom` or `chat`,
//! 6. the built-in default.
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

mod error;
mod field;
mod fields;
mod layers;
mod make;
mod neurolink;
mod profile;
mod resolve;
mod sources;
mod store_name;
mod without_effect;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

pub use self::{
    error::ConfigError,
    field::{Field, Kind, Preset, Setting},
    fields::{FIELDS, HostFields, field},
    make::StoreError,
    profile::Profile,
    sources::{ENVIRONMENT_PREFIX, Origin, Sources},
    store_name::{ReplacedStore, StoreName},
    without_effect::WithoutEffect,
};
pub use crate::store::{Secret, masked_url};

/// A configuration: checked as far as the host knows its fields.
#[derive(Debug, Clone)]
pub struct Config {
    /// The profile whose defaults are in force.
    pub profile: Profile,
    /// Where the profile came from.
    pub profile_origin: Origin,
    /// The host's fields.
    pub host: HostFields,
    /// The store that is used.
    pub store_name: StoreName,
    /// Whether the environment replaces the store that the command line names. Such a store may be read and written, but a
    /// person who names another one does not mean to delete from it.
    pub replaced_store: Option<ReplacedStore>,
    /// Warnings for people about probable mistakes.
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
    pub fn from_json(value: Value) -> Result<Self, ConfigError> {
        Self::resolve(Sources { document: Some(("configuration".to_owned(), value)), ..Sources::default() })
    }

    /// What goes to the filter's `configure`: a JSON object of everything that is not the host's. Where there are
    /// embeddings, recall uses them, unless `recall_vectors` says otherwise.
    pub fn filter_options(&self) -> String {
        let mut object: Map<String, Value> =
            self.filter.iter().map(|(name, (value, _))| (name.clone(), value.clone())).collect();
        let recalls = object.get("recall").is_some_and(|recall| recall != "off");
        if recalls && self.host.embedding != "none" {
            object.entry("recall_vectors").or_insert(true.into());
        }
        Value::Object(object).to_string()
    }

    /// What goes to the pipelines' `configure`: their limits, and the option that they share with the filter.
    pub fn pipeline_options(&self) -> String {
        let shared = self.filter.iter().filter(|(name, _)| *name == "session_ids");
        let mut options: Map<String, Value> = shared.map(|(name, (value, _))| (name.clone(), value.clone())).collect();
        for (field, (setting, _)) in &self.settings {
            if let Some(limit) = field.strip_prefix("pipeline_") {
                options.insert(limit.to_owned(), setting.shown());
            }
        }
        Value::Object(options).to_string()
    }

    /// Where a field's value came from, the host's or the filter's.
    pub fn origin(&self, name: &str) -> Origin {
        let of_host = self.settings.get(name).map(|(_, origin)| origin);
        let of_filter = || self.filter.get(name).map(|(_, origin)| origin);
        of_host.or_else(of_filter).cloned().unwrap_or(Origin::Default)
    }

    /// Whether one of these fields of the filter's has its default: neither set, nor from a profile.
    pub fn has_choice(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.origin(name) == Origin::Default)
    }

    /// Takes a value that the store shows for a field of the filter's, unless it was set or comes from the profile.
    pub fn adopt(&mut self, name: &str, value: Value) {
        if self.origin(name) == Origin::Default {
            self.filter.insert(name.to_owned(), (value, Origin::Store));
        }
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
