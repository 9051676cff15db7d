//! Typed options of the bundled filter. The filter itself checks them and has the defaults.

use serde_json::{Map, Value};

use super::conversation::ConversationOptions;
use crate::contract::storage_names::SessionIds;

/// When a session's time to live starts to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TtlMode {
    /// At its creation.
    Fixed,
    /// At its last use.
    Sliding,
}

/// What becomes of a `memory_context` in a question without a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnboundContext {
    /// It stays.
    Keep,
    /// It is cut out: nothing that is called memory is ever a client's.
    Strip,
}

/// Options of the bundled filter, for [`Options::filter`](crate::Options::filter):
/// `options.filter = FilterOptions { max_keys: Some(50), ..FilterOptions::default() }.into()`. `None` means
/// the filter's default. Another plugin may have others: its options are written as JSON.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "made field by field, with the default for the rest")]
pub struct FilterOptions {
    /// Hours that a session lives, 0 (for ever) to 876,000. Default 0.
    pub session_ttl_hours: Option<f64>,
    /// Default fixed.
    pub session_ttl_mode: Option<TtlMode>,
    /// History records that a session may have before the older ones become a summary, 0 to 1,000,000. Default 100.
    pub max_history: Option<u64>,
    /// Whether they do. Default true.
    pub auto_summarize: Option<bool>,
    /// Default keep.
    pub unbound_context: Option<UnboundContext>,
    /// Default strict.
    pub session_ids: Option<SessionIds>,
    /// The longest value, as JSON, 1 to 8 MiB. Default 1 MiB.
    pub max_value_bytes: Option<u64>,
    /// The most that is attached to a question, keys and values together, 1 to 8 MiB. Default 2 MiB, or what the
    /// longest answer comes to.
    pub max_context_bytes: Option<u64>,
    /// The most keys a session may have, 2 to 10,000. Default 1,000.
    pub max_keys: Option<u64>,
    /// Whether conversations are kept, and how. Default none: they are not.
    pub conversation: Option<ConversationOptions>,
}

/// As `configure` takes it.
impl From<FilterOptions> for String {
    fn from(options: FilterOptions) -> Self {
        let mode = options.session_ttl_mode.map(|mode| match mode {
            TtlMode::Fixed => "fixed",
            TtlMode::Sliding => "sliding",
        });
        let unbound = options.unbound_context.map(|unbound| match unbound {
            UnboundContext::Keep => "keep",
            UnboundContext::Strip => "strip",
        });
        let ids = options.session_ids.map(|ids| match ids {
            SessionIds::Strict => "strict",
            SessionIds::Hash => "hash",
        });
        let all = [
            ("session_ttl_hours", options.session_ttl_hours.map(Value::from)),
            ("session_ttl_mode", mode.map(Value::from)),
            ("max_history", options.max_history.map(Value::from)),
            ("auto_summarize", options.auto_summarize.map(Value::from)),
            ("unbound_context", unbound.map(Value::from)),
            ("session_ids", ids.map(Value::from)),
            ("max_value_bytes", options.max_value_bytes.map(Value::from)),
            ("max_context_bytes", options.max_context_bytes.map(Value::from)),
            ("max_keys", options.max_keys.map(Value::from)),
        ];
        let given = all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let mut object: Map<_, _> = given.collect();
        if let Some(conversation) = options.conversation {
            conversation.add_to(&mut object);
        }
        Value::Object(object).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_given_is_left_to_the_filter() {
        assert_eq!(String::from(FilterOptions::default()), "{}");
        let options = FilterOptions {
            session_ttl_hours: Some(0.5),
            session_ttl_mode: Some(TtlMode::Sliding),
            max_keys: Some(50),
            ..FilterOptions::default()
        };
        let written: Value = serde_json::from_str(&String::from(options)).unwrap();
        assert_eq!(
            written,
            serde_json::json!({"session_ttl_hours": 0.5, "session_ttl_mode": "sliding", "max_keys": 50})
        );
    }
}
