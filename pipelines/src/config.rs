//! The component's options, read from JSON.

use keepline_options::bucket_names::SessionIds;
use keepline_store_client::Problem;

use crate::{definition::DefinitionLimits, run::RunLimits, value::Value};

/// All options in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineConfig {
    pub session_ids: SessionIds,
    pub limits: RunLimits,
    pub definitions: DefinitionLimits,
}

/// A limit: its name, and the greatest value that it may have.
type LimitOption = (&'static str, u64, fn(&mut PipelineConfig) -> &mut usize);

/// The least is 1.
const LIMITS: [LimitOption; 7] = [
    ("max_items", 100_000, |config| &mut config.limits.items),
    ("max_run_bytes", 64 << 20, |config| &mut config.limits.bytes),
    ("max_reads", 256, |config| &mut config.limits.reads),
    ("max_definition_bytes", 1 << 20, |config| &mut config.definitions.bytes),
    ("max_steps", 1_000, |config| &mut config.definitions.steps),
    ("max_levels", 16, |config| &mut config.definitions.levels),
    ("max_pattern_characters", 10_000, |config| &mut config.definitions.pattern_characters),
];

impl PipelineConfig {
    /// What holds where nothing is configured.
    pub const DEFAULT: Self =
        Self { session_ids: SessionIds::Strict, limits: RunLimits::DEFAULT, definitions: DefinitionLimits::DEFAULT };

    /// Read a JSON object of options. Absent and null ones have their defaults.
    ///
    /// # Errors
    /// `invalid` names the option.
    pub fn parse(text: &str) -> Result<Self, Box<Problem>> {
        let value = Value::parse(text).map_err(|error| Problem::invalid("", format!("not JSON: {error}")))?;
        let options = value.as_object().ok_or_else(|| Problem::invalid("", "an object of options is required"))?;
        let mut config = Self::DEFAULT;
        for (name, value) in options.iter().filter(|(_, value)| !value.is_null()) {
            if &**name == "session_ids" {
                config.session_ids = match value.as_text() {
                    Some("strict") => SessionIds::Strict,
                    Some("hash") => SessionIds::Hash,
                    _ => return Err(Problem::invalid(name, format!("{} is none of strict and hash", value.to_json()))),
                };
                continue;
            }
            let Some((_, most, limit)) = LIMITS.iter().find(|(known, ..)| *known == &**name) else {
                let known: Vec<_> = LIMITS.iter().map(|(known, ..)| *known).collect();
                let message = format!("no such option; there are session_ids, {}", known.join(", "));
                return Err(Problem::invalid(name, message));
            };
            let given = value.as_whole().filter(|given| (1..=*most).contains(given));
            let message = || format!("{} where a whole number from 1 to {most} is required", value.to_json());
            let given = given.and_then(|given| usize::try_from(given).ok());
            *limit(&mut config) = given.ok_or_else(|| Problem::invalid(name, message()))?;
        }
        Ok(config)
    }

    /// Name and value, as JSON, of each option in force, and whether it is the default.
    pub fn options(mut self) -> Vec<(&'static str, String, bool)> {
        let mut defaults = Self::DEFAULT;
        let ids = if self.session_ids == SessionIds::Hash { "\"hash\"" } else { "\"strict\"" };
        let mut options = vec![("session_ids", ids.to_owned(), self.session_ids == defaults.session_ids)];
        for (name, _, limit) in LIMITS {
            let value = *limit(&mut self);
            options.push((name, value.to_string(), value == *limit(&mut defaults)));
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_in_force_are_read_and_told() {
        let config = PipelineConfig::parse(r#"{"session_ids":"hash","max_items":5,"max_reads":null}"#).unwrap();
        assert_eq!((config.session_ids, config.limits.items, config.limits.reads), (SessionIds::Hash, 5, 64));
        let told = config.options();
        assert_eq!(told.first().unwrap(), &("session_ids", "\"hash\"".to_owned(), false));
        assert_eq!(told.get(1).unwrap(), &("max_items", "5".to_owned(), false));
        assert_eq!(told.get(3).unwrap(), &("max_reads", "64".to_owned(), true));
    }

    #[test]
    fn a_wrong_option_is_named_with_what_is_allowed() {
        for (options, subject, message) in [
            (r#"{"max_items":0}"#, "max_items", "0 where a whole number from 1 to 100000 is required"),
            (r#"{"max_reads":257}"#, "max_reads", "257 where a whole number from 1 to 256 is required"),
            (r#"{"session_ids":"none"}"#, "session_ids", "\"none\" is none of strict and hash"),
            ("[]", "", "an object of options is required"),
        ] {
            let problem = PipelineConfig::parse(options).unwrap_err();
            assert_eq!((&*problem.code, &*problem.subject, &*problem.message), ("invalid", subject, message));
        }
        assert_eq!(PipelineConfig::parse(r#"{"max":1}"#).unwrap_err().subject, "max");
    }
}
