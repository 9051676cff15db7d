//! Resolves a configuration from its sources, checking each field while its origin is known.

use serde_json::{Map, Value};

use super::{
    Config, ConfigError, ENVIRONMENT_PREFIX, Origin, Profile, Sources,
    error::{describe, shortened},
    layers::Layers,
    neurolink,
    store_name::{is_named_in_document, replaced_store},
};

#[allow(clippy::multiple_inherent_impl, reason = "methods of the same room's type, by what they are for")]
impl Config {
    /// Resolves the sources to a configuration.
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

/// The part of the command line that names a store, for messages; `None` if it names none.
fn typed_by(layers: &Layers, profile: Profile, profile_origin: &Origin, is_document_typed: bool) -> Option<String> {
    match profile_origin {
        Origin::CommandLine => Some(format!("profile {}", profile.name())),
        Origin::Document(name) if is_document_typed => Some(name.clone()),
        _ if is_document_typed && is_named_in_document(layers) => Some("the configuration file".to_owned()),
        _ => None,
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
/// none was chosen.
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
