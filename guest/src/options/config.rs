//! All options in force, read from JSON.
//!
//! A mistake is an error that names the field, what was given and what is allowed. Nothing is guessed: `"false"` is not a
//! boolean, and an unknown option is an error.

use keepline_json as json;
use keepline_options::bucket_names::SessionIds;
use keepline_options::kinds::{Boolean, DerivedInteger, Hours, Integer, Kind, OneOf, OptionValue, push_hours};
use keepline_options::words::{TtlMode, UnboundContext};
use keepline_options::{kind_of, session_options};
use std::sync::Arc;

use crate::contract::{Host, Precondition, Problem, StoreLimits, StoreProfile, TimeToLive, codes, lanes};
use crate::options::conversation::Options;
use crate::options::reader::{Read, Reader};
use crate::options::table::{OptionTable, list_option, option_struct};
use crate::text::quoting::{cut_to_line, python_repr};

session_options!(option_struct!(
    /// All options in force.
    Config {
        /// Whether the conversation is kept, and how. None: it is not.
        conversation: Option<Arc<Options>>,
        /// Those of the store.
        limits: StoreLimits,
    }
));

/// What a session with one value of full length holds beside it: keys, and the count of answers.
const BESIDE_A_VALUE: u64 = 1 << 10;

/// Listing and clearing name every key of a session in one reply.
pub(crate) const MAX_KEYS: u64 = kind_of::max_keys::MAX;

/// The bytes of so many keys.
pub(crate) const KEYS_BYTES: u64 = MAX_KEYS * 256;

impl Config {
    /// Read a JSON object of options. Absent and null ones have their defaults.
    pub fn parse(text: &str) -> Result<Self, Box<Problem>> {
        // No limit can be 0: that is one which was not given.
        let mut config = Self { max_context_bytes: 0, ..Self::default() };
        let mut problem = None;
        let (mut has_conversation, mut conversation) = (false, Options::default());
        let mut set = |reader: &Reader<'_>| match reader.field {
            "conversation" => Boolean::read(&mut has_conversation, reader, false),
            _ if config.set(reader)? || conversation.set(reader)? => Ok(()),
            unknown => {
                let first = Config::NAMES.get(2..).unwrap_or_default();
                let there_are = [first, ", conversation", Options::NAMES].concat();
                let message = ["Unknown option ", &python_repr(unknown), "; there are ", &there_are].concat();
                Err(Problem::invalid(&cut_to_line(unknown), message))
            }
        };
        let read = json::for_each_member(text, |key, raw| {
            if problem.is_none() {
                let field = json::decode_string(key).unwrap_or_else(|| key.into());
                problem = set(&Reader { field: &field, raw }).err();
            }
        });
        if read.is_none() {
            let message = format!("The configuration must be a JSON object, not {}", cut_to_line(text));
            return Err(Problem::invalid("", message));
        }
        if config.max_context_bytes == 0 {
            config.max_context_bytes = config.derived_context_bytes();
        }
        config.conversation = has_conversation.then(|| Arc::new(conversation));
        problem.map_or(Ok(config), Err)
    }

    /// Reads options for the store of this host. What needs a capability that the store lacks is refused; what is done
    /// without it is in the warnings.
    pub fn parse_for(host: &impl Host, text: &str) -> Result<(Self, Vec<Problem>), Box<Problem>> {
        let mut config = Self::parse(text)?;
        let store = host.store_profile();
        let mut warnings = missing_capabilities(&store);
        if !store.positions && config.conversation.is_some() {
            let message = "conversation must be false, not true: the store lacks the capability positions";
            return Err(Problem::new(codes::UNSUPPORTED, "conversation", message));
        }
        if !store.expiring && config.time_to_live().is_some() {
            let mut shown = String::new();
            push_hours(&mut shown, config.session_ttl_hours);
            let message = format!("session_ttl_hours must be 0 (for ever), not {shown}: the store lets nothing expire");
            return Err(Problem::new(codes::UNSUPPORTED, "session_ttl_hours", message));
        }
        if let Some(options) =
            config.conversation.as_mut().filter(|options| !store.expiring && options.node_ttl_hours > 0.0)
        {
            Arc::make_mut(options).node_ttl_hours = 0.0;
            let effect = "transcripts of nodes are kept for ever, as with node_ttl_hours 0";
            warnings.push(missing_capability("expiring", effect));
        }
        config.keep_to(store.limits);
        Ok((config, warnings))
    }

    /// Keeps to the limits of a store.
    fn keep_to(&mut self, limits: StoreLimits) {
        self.limits = limits;
        self.max_keys = self.max_keys.min(limits.values);
        if let Some(options) = &mut self.conversation {
            Arc::make_mut(options).limits = limits;
        }
    }

    /// All options in force, in the order of the table; those of conversations if that is on.
    pub fn options(&self) -> Vec<lanes::OptionValue> {
        let list = |config: &Self| {
            let mut options = Vec::new();
            config.list(&mut options);
            list_option(&mut options, "conversation", &config.conversation.is_some());
            if let Some(conversation) = &config.conversation {
                conversation.list(&mut options);
            }
            options
        };
        let mut options = list(self);
        let default = Self {
            max_context_bytes: self.derived_context_bytes(),
            conversation: self.conversation.as_ref().map(|_| Arc::default()),
            ..Self::default()
        };
        for (option, default) in options.iter_mut().zip(list(&default)) {
            option.is_default = option.value == default.value;
            // That of the defaults above is as this configuration has it.
            option.is_default &= option.name != "conversation" || option.value == "false";
        }
        options
    }

    /// The same as a JSON object, which is read back as this configuration.
    pub fn effective(&self) -> String {
        let options = self.options();
        let members: Vec<String> =
            options.iter().map(|option| format!("\"{}\": {}", option.name, option.value)).collect();
        ["{", &members.join(", "), "}"].concat()
    }

    /// What the lanes can use: names of the contract.
    pub fn wants(&self) -> Vec<String> {
        let Some(conversation) = &self.conversation else { return Vec::new() };
        let vectors = conversation.wants_vectors().then_some("vectors");
        vectors.into_iter().chain(["tokens", "turns"]).map(ToOwned::to_owned).collect()
    }

    /// The bytes of values that a question gets where that is not set: there is room for the longest answer.
    fn derived_context_bytes(&self) -> u64 {
        (self.max_value_bytes + BESIDE_A_VALUE).max(Self::default().max_context_bytes)
    }

    /// How long a session that is created now lives.
    pub fn time_to_live(&self) -> Option<TimeToLive> {
        let milliseconds = milliseconds(self.session_ttl_hours)?;
        Some(TimeToLive { milliseconds, sliding: self.session_ttl_mode == TtlMode::Sliding })
    }

    /// Open a session's bucket, or create it with the configured life.
    pub(crate) fn create(&self) -> Precondition<'static> {
        Precondition::create(self.time_to_live())
    }
}

/// What the store can't promise and the filter relies on.
fn missing_capabilities(store: &StoreProfile) -> Vec<Problem> {
    let all = [
        (store.atomic, "atomic", "a crash may leave half of what an entry writes, and readers may see it"),
        (store.compare, "compare", "updates are lost where a session has more than one writer at a time"),
        (store.exactly_once, "exactly-once", "the host must not send a write again"),
    ];
    let lacking = all.into_iter().filter(|(is_there, ..)| !is_there);
    lacking.map(|(_, name, effect)| missing_capability(name, effect)).collect()
}

fn missing_capability(name: &str, effect: &str) -> Problem {
    *Problem::new(codes::UNSUPPORTED, name, format!("The store lacks the capability {name}: {effect}"))
}

/// This many hours, at least one millisecond. `None`: it does not expire.
pub(crate) fn milliseconds(hours: f64) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and bounded by MAX_HOURS")]
    let milliseconds = (hours * 3_600_000.0).ceil() as u64;
    (hours > 0.0).then_some(milliseconds.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_and_null_options_have_their_defaults() {
        assert_eq!(Config::parse("{}").unwrap(), Config::default());
        let nulls = Config::NAMES
            .trim_start_matches(", ")
            .split(", ")
            .map(|name| format!("\"{name}\":null"))
            .collect::<Vec<_>>()
            .join(",");
        assert_eq!(Config::parse(&format!("{{{nulls}}}")).unwrap(), Config::default());
    }

    #[test]
    fn all_options_are_read_and_listed() {
        let text = r#"{"session_ttl_hours": 0.5, "session_ttl_mode": "sliding", "max_history": 100.0,
        "auto_summarize": false, "memory_enabled": false, "unbound_context": "strip", "session_ids": "hash",
        "max_value_bytes": 1e3,
        "max_context_bytes": 7, "max_keys": 3}"#;
        let config = Config::parse(text).unwrap();
        assert_eq!(
            config,
            Config {
                session_ttl_hours: 0.5,
                session_ttl_mode: TtlMode::Sliding,
                max_history: 100,
                auto_summarize: false,
                memory_enabled: false,
                unbound_context: UnboundContext::Strip,
                session_ids: SessionIds::Hash,
                max_value_bytes: 1000,
                max_context_bytes: 7,
                max_keys: 3,
                conversation: None,
                limits: StoreLimits::default(),
            }
        );
        assert_eq!(Config::parse(&config.effective()).unwrap(), config);
        assert_eq!(
            Config::default().effective(),
            r#"{"session_ttl_hours": 0, "session_ttl_mode": "fixed", "max_history": 100, "auto_summarize": true, "memory_enabled": true, "unbound_context": "keep", "session_ids": "strict", "max_value_bytes": 1048576, "max_context_bytes": 2097152, "max_keys": 1000, "conversation": false}"#
        );
    }

    #[test]
    fn mistakes_name_the_field_what_was_given_and_what_is_allowed() {
        let cases = [
            (r#"{"auto_summarize": "false"}"#, "auto_summarize", "\"false\"", "true or false"),
            (r#"{"auto_summarize": 0}"#, "auto_summarize", "0", "true or false"),
            (r#"{"max_history": 1.5}"#, "max_history", "1.5", "0 to 1000000"),
            (r#"{"max_history": -1}"#, "max_history", "-1", "0 to 1000000"),
            (r#"{"max_history": "100"}"#, "max_history", "\"100\"", "an integer"),
            (r#"{"max_history": 1e999}"#, "max_history", "1e999", "an integer"),
            (r#"{"max_history": NaN}"#, "max_history", "NaN", "an integer"),
            (r#"{"session_ttl_hours": Infinity}"#, "session_ttl_hours", "Infinity", "876000"),
            (r#"{"max_keys": 0}"#, "max_keys", "0", "2 to 10000"),
            (r#"{"session_ttl_hours": -0.1}"#, "session_ttl_hours", "-0.1", "876000"),
            (r#"{"session_ttl_hours": true}"#, "session_ttl_hours", "true", "a number"),
            (r#"{"session_ttl_mode": "Fixed"}"#, "session_ttl_mode", "\"Fixed\"", "\"sliding\""),
            (r#"{"unbound_context": []}"#, "unbound_context", "[]", "\"keep\""),
            (r#"{"session_ids": "any"}"#, "session_ids", "\"any\"", "\"strict\" or \"hash\""),
            (r#"{"redis_host": "x"}"#, "redis_host", "redis_host", "max_keys"),
        ];
        for (text, field, given, allowed) in cases {
            let problem = Config::parse(text).unwrap_err();
            assert_eq!(problem.subject, field);
            assert!(problem.message.contains(given), "{}", problem.message);
            assert!(problem.message.contains(allowed), "{}", problem.message);
        }
        for text in ["", "[]", "null", "{", "{\"max_keys\":nan}"] {
            assert_eq!(Config::parse(text).unwrap_err().subject, "");
        }
    }

    #[test]
    fn by_default_the_longest_answer_fits_into_the_attached_memory() {
        for value in ["1", "1000000", "2097152", "8388608"] {
            for null in ["", r#", "max_context_bytes": null"#] {
                let config = Config::parse(&format!("{{\"max_value_bytes\": {value}{null}}}")).unwrap();
                let whole = "last_answer".len() + "answer_count".len() + "-9223372036854775808".len();
                assert!(config.max_context_bytes >= config.max_value_bytes + whole as u64, "{value}");
                assert_eq!(Config::parse(&config.effective()).unwrap(), config);
            }
        }
        let config = Config::parse(r#"{"max_context_bytes": 7, "max_value_bytes": 9}"#).unwrap();
        assert_eq!(config.max_context_bytes, 7);
    }

    #[test]
    fn hours_are_written_as_they_are_read() {
        for (given, told) in [
            ("24", "24"),
            ("0.1", "0.1"),
            ("1.01", "1.01"),
            ("-0", "0"),
            ("1e-7", "0.0000001"),
            ("1e-300", "0.000000001"),
            ("0.30000000000000004", "0.3"),
            ("876000", "876000"),
            ("875999.123456789", "875999.123456789"),
            ("0.000277777777777", "0.000277778"),
        ] {
            let config = Config::parse(&format!("{{\"session_ttl_hours\":{given}}}")).unwrap();
            assert!(
                config.effective().starts_with(&format!("{{\"session_ttl_hours\": {told}, ")),
                "{}",
                config.effective()
            );
            assert_eq!(Config::parse(&config.effective()).unwrap(), config);
        }
    }

    #[test]
    fn a_life_is_never_shorter_than_a_millisecond() {
        let hours = |hours| Config { session_ttl_hours: hours, ..Config::default() }.time_to_live();
        assert_eq!(hours(0.0), None);
        assert_eq!(hours(1e-12).unwrap().milliseconds, 1);
        assert_eq!(hours(24.0).unwrap().milliseconds, 86_400_000);
        assert!(!hours(1.0).unwrap().sliding);
    }
}
