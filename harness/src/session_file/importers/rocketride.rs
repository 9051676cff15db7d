//! Assembles sessions of RocketRide's node `memory_persistent` from a dump of their keys.
//!
//! RocketRide stores sessions as Keepline does, so from a Redis they are copied as they are.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{SourceItem, SourceValue};

/// A session, from the keys read so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RocketRideSession {
    /// The fields of its metadata, once read.
    pub metadata: Option<BTreeMap<String, String>>,
    pub values: BTreeMap<String, String>,
    pub history: Vec<String>,
}

impl RocketRideSession {
    /// Milliseconds since 1970; `None`: never. Its time runs from its creation.
    pub fn expires_at(&self) -> Option<u64> {
        let seconds = |name: &str| self.metadata.as_ref()?.get(name)?.parse::<f64>().ok();
        let (created, lives) = (seconds("created_at")?, seconds("ttl_seconds").filter(|lives| *lives > 0.0)?);
        let at = (created + lives) * 1000.0;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
        at.is_finite().then_some(at.ceil() as u64)
    }
}

/// Adds a key to its session. The error says why it belongs to none.
pub fn add_dump_key(
    sessions: &mut BTreeMap<String, RocketRideSession>,
    item: SourceItem,
    prefix: &str,
) -> Result<(), String> {
    let rest = item.key.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(':'));
    if rest == Some("__sessions__") {
        return Ok(());
    }
    // Keys have no colon in them.
    let (name, key) =
        rest.and_then(|rest| rest.rsplit_once(':')).ok_or_else(|| format!("its key does not begin with {prefix}:"))?;
    let session = sessions.entry(name.to_owned()).or_default();
    match (key, item.value) {
        ("__keys__", _) => {}
        ("__meta__", SourceValue::Text(text)) => {
            let fields: BTreeMap<String, Value> = crate::terminal::json_text::parse_lenient(&text)
                .map_err(|_| "its metadata is not an object".to_owned())?;
            let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            session.metadata = Some(fields.into_iter().map(|(name, value)| (name, text(value))).collect());
        }
        ("__history__", SourceValue::List(records)) => session.history = records,
        (key, SourceValue::Text(text)) if !key.starts_with("__") => _ = session.values.insert(key.to_owned(), text),
        _ => return Err("it is not what RocketRide stores under such a key".to_owned()),
    }
    Ok(())
}
