//! The filter's options.
//!
//! Promises that each has a default and bounds, and that a mistake is told with the field, what was
//! given and what is allowed. Refuses to guess: `"false"` is no boolean, an unknown option is an error.

use std::sync::Arc;

use keepline_json as json;

use crate::conversation::options::{self, Options};
use crate::log;
use crate::names::{SessionIds, cut, repr};
use crate::store::{Host, Level, Opening, TimeToLive};

/// When a session's time starts to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TtlMode {
    /// At its creation, as in the original node.
    Fixed,
    /// At its last use.
    Sliding,
}

/// What becomes of a `memory_context` in a question that has no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnboundContext {
    /// It stays, as in the original node.
    Keep,
    /// It is cut out: nothing that is called memory is ever a client's.
    Strip,
}

/// All options in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Hours that a session lives; 0: for ever.
    pub session_ttl_hours: f64,
    /// From when on.
    pub session_ttl_mode: TtlMode,
    /// How many history records a session may have before the older ones become a summary.
    pub max_history: u64,
    /// Whether they do.
    pub auto_summarize: bool,
    /// Whether entries get and leave memory. Without it, nothing is stored, and what a client forged is taken away.
    pub memory_enabled: bool,
    /// See [`UnboundContext`].
    pub unbound_context: UnboundContext,
    /// Which ids sessions may have.
    pub session_ids: SessionIds,
    /// The longest value, as JSON.
    pub max_value_bytes: u64,
    /// The most that is attached to a question: keys and values together. By default never less than the
    /// longest answer comes to.
    pub max_context_bytes: u64,
    /// The most keys a session may have.
    pub max_keys: u64,
    /// Whether the conversation is kept, and how. None: it is not.
    pub conversation: Option<Arc<Options>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            session_ttl_hours: 0.0,
            session_ttl_mode: TtlMode::Fixed,
            max_history: 100,
            auto_summarize: true,
            memory_enabled: true,
            unbound_context: UnboundContext::Keep,
            session_ids: SessionIds::Strict,
            max_value_bytes: 1 << 20,
            max_context_bytes: 2 << 20,
            max_keys: 1000,
            conversation: None,
        }
    }
}

/// Why a configuration was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The option, or empty when the text is not a JSON object.
    pub field: String,
    /// What was wrong and what is allowed.
    pub message: String,
}

/// A hundred years: beyond that, 0 (for ever) is the honest value.
const MAX_TTL_HOURS: f64 = 876_000.0;
const MAX_HISTORY: u64 = 1_000_000;
/// What a component's memory can take several times over.
/// An instance of 64 MiB, the host's default, has room for several copies of it.
const MAX_BYTES: u64 = 8 << 20;
/// What a session with one value of full length holds beside it: keys, and the count of answers.
const BESIDE_A_VALUE: u64 = 1 << 10;
/// The filter's own two.
const MIN_KEYS: u64 = 2;
/// Listing and clearing name every key of a session in one reply.
pub(crate) const MAX_KEYS: u64 = 10_000;
/// The bytes of so many keys.
pub(crate) const KEYS_BYTES: u64 = MAX_KEYS * 256;

const OPTIONS: &str = "session_ttl_hours, session_ttl_mode, max_history, auto_summarize, \
                       memory_enabled, unbound_context, session_ids, max_value_bytes, max_context_bytes, \
                       max_keys";

impl Config {
    /// Read a JSON object of options. Absent and null ones have their defaults.
    pub fn parse(text: &str) -> Result<Self, ConfigProblem> {
        // No limit can be 0: that is one which was not given.
        let mut config = Self { max_context_bytes: 0, ..Self::default() };
        let mut problem = None;
        let (mut has_conversation, mut conversation) = (false, Options::default());
        let read = json::members(text, |key, raw| {
            if problem.is_none() {
                problem = config.set(key, raw, &mut has_conversation, &mut conversation).err();
            }
        });
        if read.is_none() {
            return Err(ConfigProblem {
                field: String::new(),
                message: format!("The configuration must be a JSON object, not {}", cut(text)),
            });
        }
        if config.max_context_bytes == 0 {
            let least = config.max_value_bytes + BESIDE_A_VALUE;
            config.max_context_bytes = least.max(Self::default().max_context_bytes);
        }
        config.conversation = has_conversation.then(|| Arc::new(conversation));
        problem.map_or(Ok(config), Err)
    }

    /// Read options for the store of this host. A time to live is refused where nothing expires; what else a store
    /// can't promise is told.
    pub fn parse_for(host: &impl Host, text: &str) -> Result<Self, ConfigProblem> {
        let config = Self::parse(text)?;
        let capabilities = host.capabilities();
        if !capabilities.expiring && config.time_to_live().is_some() {
            return Err(ConfigProblem {
                field: "session_ttl_hours".to_owned(),
                message: format!(
                    "session_ttl_hours must be 0 (for ever), not {}: the store lets nothing expire",
                    in_decimal(config.session_ttl_hours)
                ),
            });
        }
        if !capabilities.atomic {
            let told = "The store does not apply transactions as a whole: counts may be off when several write at once";
            log::warn(host, log::STORE, &[told]);
        }
        if !capabilities.exactly_once && host.logs(Level::Debug) {
            let told = "The store can't tell a call that is sent again from a new one: the host must not retry writes";
            host.log(Level::Debug, log::STORE, told);
        }
        Ok(config)
    }

    fn set(
        &mut self,
        raw_key: &str,
        raw: &str,
        has_conversation: &mut bool,
        conversation: &mut Options,
    ) -> Result<(), ConfigProblem> {
        let default = Self::default();
        let key = json::string(raw_key).unwrap_or_else(|| raw_key.into());
        let reader = Reader { field: &key, raw };
        match &*key {
            "session_ttl_hours" => reader.hours(&mut self.session_ttl_hours, default.session_ttl_hours),
            "session_ttl_mode" => reader.choice(
                &mut self.session_ttl_mode,
                default.session_ttl_mode,
                &[("fixed", TtlMode::Fixed), ("sliding", TtlMode::Sliding)],
            ),
            "max_history" => reader.integer(&mut self.max_history, default.max_history, 0, MAX_HISTORY),
            "auto_summarize" => reader.boolean(&mut self.auto_summarize, default.auto_summarize),
            "memory_enabled" => reader.boolean(&mut self.memory_enabled, default.memory_enabled),
            "unbound_context" => reader.choice(
                &mut self.unbound_context,
                default.unbound_context,
                &[("keep", UnboundContext::Keep), ("strip", UnboundContext::Strip)],
            ),
            "session_ids" => reader.choice(
                &mut self.session_ids,
                default.session_ids,
                &[("strict", SessionIds::Strict), ("hash", SessionIds::Hash)],
            ),
            "max_value_bytes" => reader.integer(&mut self.max_value_bytes, default.max_value_bytes, 1, MAX_BYTES),
            "max_context_bytes" => reader.integer(&mut self.max_context_bytes, 0, 1, MAX_BYTES + BESIDE_A_VALUE),
            "max_keys" => reader.integer(&mut self.max_keys, default.max_keys, MIN_KEYS, MAX_KEYS),
            "conversation" => reader.boolean(has_conversation, false),
            _ if conversation.set(&reader)? => Ok(()),
            unknown => {
                let message =
                    ["Unknown option ", &repr(unknown), "; there are ", OPTIONS, ", ", options::NAMES].concat();
                Err(ConfigProblem { field: cut(unknown), message })
            }
        }
    }

    /// All options in force, as a JSON object.
    pub fn effective(&self) -> String {
        let mode = match self.session_ttl_mode {
            TtlMode::Fixed => "fixed",
            TtlMode::Sliding => "sliding",
        };
        let unbound = match self.unbound_context {
            UnboundContext::Keep => "keep",
            UnboundContext::Strip => "strip",
        };
        let ids = match self.session_ids {
            SessionIds::Strict => "strict",
            SessionIds::Hash => "hash",
        };
        let mut out = format!(
            "{{\"session_ttl_hours\": {}, \"session_ttl_mode\": \"{mode}\", \"max_history\": {}, \
             \"auto_summarize\": {}, \"unbound_context\": \"{unbound}\", \"session_ids\": \"{ids}\", \
             \"max_value_bytes\": {}, \"max_context_bytes\": {}, \"max_keys\": {}",
            in_decimal(self.session_ttl_hours),
            self.max_history,
            self.auto_summarize,
            self.max_value_bytes,
            self.max_context_bytes,
            self.max_keys,
        );
        if !self.memory_enabled {
            out.push_str(", \"memory_enabled\": false");
        }
        if let Some(conversation) = &self.conversation {
            conversation.write(&mut out);
        }
        out.push('}');
        out
    }

    /// How long a session that is created now lives.
    pub fn time_to_live(&self) -> Option<TimeToLive> {
        let milliseconds = milliseconds(self.session_ttl_hours)?;
        Some(TimeToLive { milliseconds, sliding: self.session_ttl_mode == TtlMode::Sliding })
    }

    /// Open a session's bucket, or create it with the configured life.
    pub(crate) fn create(&self) -> Opening<'static> {
        Opening::Create { time_to_live: self.time_to_live() }
    }
}

/// So many hours, at least one millisecond. None: for ever.
pub(crate) fn milliseconds(hours: f64) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and bounded by MAX_TTL_HOURS")]
    let milliseconds = (hours * 3_600_000.0).ceil() as u64;
    (hours > 0.0).then_some(milliseconds.max(1))
}

/// Rounded, so that what is told to be in force is read as the very same number again; but what is more than
/// nothing stays so. A billionth of an hour is 4 microseconds.
fn to_the_billionth(hours: f64) -> f64 {
    if hours <= 0.0 {
        // -0 as well.
        return 0.0;
    }
    #[allow(clippy::cast_precision_loss, reason = "below 2^53")]
    let billionths = billionths(hours).max(1) as f64;
    billionths / 1e9
}

/// Hours with at most nine decimals. (The standard library's writer of floats would be a tenth of the component.)
pub(crate) fn in_decimal(hours: f64) -> String {
    let billionths = billionths(hours);
    let text = format!("{}.{:09}", billionths / 1_000_000_000, billionths % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, bounded by MAX_TTL_HOURS, and below 2^53"
)]
fn billionths(hours: f64) -> u64 {
    (hours * 1e9 + 0.5) as u64
}

/// One option as it was given. It is stored where the caller says, and left as it was if it is refused: a value returned
/// to each of forty callers would make these half as large again.
pub(crate) struct Reader<'a> {
    pub(crate) field: &'a str,
    /// As it stands.
    pub(crate) raw: &'a str,
}

impl Reader<'_> {
    pub(crate) fn problem(&self, allowed: &str) -> ConfigProblem {
        ConfigProblem {
            field: self.field.to_owned(),
            message: format!("{} must be {allowed}, not {}", self.field, cut(self.raw)),
        }
    }

    pub(crate) fn hours(&self, option: &mut f64, default: f64) -> Result<(), ConfigProblem> {
        *option = match json::number(self.raw) {
            _ if self.raw == "null" => default,
            Some(hours) if (0.0..=MAX_TTL_HOURS).contains(&hours) => to_the_billionth(hours),
            _ => return Err(self.problem("a number from 0 (for ever) to 876000")),
        };
        Ok(())
    }

    pub(crate) fn integer(&self, option: &mut u64, default: u64, min: u64, max: u64) -> Result<(), ConfigProblem> {
        // All bounds are far below 2^53: a float holds what may be given exactly.
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "checked to be integral and within bounds that a float holds"
        )]
        let number = match json::number(self.raw) {
            _ if self.raw == "null" => default,
            Some(number) if number.fract() == 0.0 && (min as f64..=max as f64).contains(&number) => number as u64,
            _ => return Err(self.problem(&format!("an integer from {min} to {max}"))),
        };
        *option = number;
        Ok(())
    }

    pub(crate) fn boolean(&self, option: &mut bool, default: bool) -> Result<(), ConfigProblem> {
        *option = match self.raw {
            "null" => default,
            "true" => true,
            "false" => false,
            _ => return Err(self.problem("true or false")),
        };
        Ok(())
    }

    pub(crate) fn choice<T: Copy>(
        &self,
        option: &mut T,
        default: T,
        choices: &[(&str, T)],
    ) -> Result<(), ConfigProblem> {
        let given = json::string(self.raw);
        if self.raw == "null" {
            *option = default;
            return Ok(());
        }
        if let Some((_, choice)) = choices.iter().find(|(name, _)| given.as_deref() == Some(*name)) {
            *option = *choice;
            return Ok(());
        }
        let mut allowed = String::new();
        for (left, (name, _)) in (0..choices.len()).rev().zip(choices) {
            let after = if left > 1 { ", " } else { " or " };
            allowed.extend(["\"", name, "\"", if left > 0 { after } else { "" }]);
        }
        Err(self.problem(&allowed))
    }
}

#[cfg(test)]
mod tests;
