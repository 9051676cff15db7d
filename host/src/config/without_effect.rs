//! Finds fields that were set although another field makes them meaningless.

use serde_json::{Map, Value};

use super::{Config, FIELDS, Origin};

/// A field that was set and has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithoutEffect {
    /// The field.
    pub name: String,
    /// Who set it.
    pub origin: Origin,
    /// The field and value that it needs, such as `recall="session"`; none: an option of the filter that its
    /// configuration does not contain.
    pub needs: Option<&'static str>,
}

#[allow(clippy::multiple_inherent_impl, reason = "methods of the same room's type, by what they are for")]
impl Config {
    /// Fields that were set and have no effect. `effective` is what the filter's `configure` answered.
    pub fn without_effect(&self, effective: &str) -> Vec<WithoutEffect> {
        let effective: Map<String, Value> = serde_json::from_str(effective).unwrap_or_default();
        let host = FIELDS.iter().filter_map(|field| {
            let (_, origin) = self.settings.get(field.name).filter(|(_, origin)| origin.is_chosen())?;
            let needs = self.host_needs(field.name, origin)?;
            Some(WithoutEffect { name: field.name.to_owned(), origin: origin.clone(), needs: Some(needs) })
        });
        let filter = self.filter.iter().filter_map(|(name, (_, origin))| {
            let is_recall_off = effective.get("recall").is_some_and(|recall| recall == "off");
            let needs = match effective.contains_key(name) {
                false => None,
                true if name.starts_with("recall_") && is_recall_off => Some("recall=\"session\" or \"user\""),
                true => return None,
            };
            origin.is_chosen().then(|| WithoutEffect { name: name.clone(), origin: origin.clone(), needs })
        });
        host.chain(filter).collect()
    }

    fn host_needs(&self, name: &str, origin: &Origin) -> Option<&'static str> {
        // Of the backend's fields these have warnings of their own.
        const NAMES_A_STORE: [&str; 4] = ["redis_url", "redis_host", "redis_nodes", "directory"];
        // Variables are set for all commands of a machine, whichever store each of them uses.
        let is_for_one_command = !matches!(origin, Origin::Environment(_)) && !NAMES_A_STORE.contains(&name);
        let backend = |needed: &str| is_for_one_command && self.host.backend != needed;
        match name {
            _ if name.starts_with("model_") && self.host.model == "none" => Some("model=\"openai\""),
            _ if name.starts_with("embedding_") && self.host.embedding == "none" => Some("embedding=\"openai\""),
            _ if name.starts_with("redis_") && backend("redis") => Some("backend=\"redis\""),
            _ if name.starts_with("directory_") && backend("directory") => Some("backend=\"directory\""),
            _ if name.starts_with("memory_max_") && backend("memory") => Some("backend=\"memory\""),
            _ => None,
        }
    }
}
