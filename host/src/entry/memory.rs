//! Reads the memory that was attached to a question's metadata.

use serde_json::{Map, Value};

/// A session's memory, as a question got it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    values: Map<String, Value>,
}

impl Memory {
    /// The memory in a question's metadata, if any.
    ///
    /// # Errors
    /// When the metadata is not JSON, as it may be if it came so: `NaN` is no JSON.
    pub fn read(metadata: &str) -> Result<Option<Self>, serde_json::Error> {
        let mut metadata: Value = serde_json::from_str(metadata.trim_start_matches('\u{feff}'))?;
        Ok(match metadata.get_mut("memory_context").map(Value::take) {
            Some(Value::Object(values)) => Some(Self { values }),
            _ => None,
        })
    }

    /// The newest answer of the session.
    pub fn last_answer(&self) -> Option<&str> {
        self.values.get("last_answer").and_then(Value::as_str)
    }

    /// How many answers the session has had.
    pub fn answer_count(&self) -> u64 {
        self.values.get("answer_count").and_then(Value::as_u64).unwrap_or(0)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// All values, those of the filter itself among them, sorted by key.
    pub fn values(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(key, value)| (key.as_str(), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_what_the_filter_attached() {
        let metadata = r#"{"session_id": "s", "memory_context": {"answer_count": 2, "last_answer": "é", "k": [1]}}"#;
        let memory = Memory::read(metadata).unwrap().unwrap();
        assert_eq!((memory.answer_count(), memory.last_answer()), (2, Some("é")));
        assert_eq!(memory.get("k"), Some(&serde_json::json!([1])));
        assert_eq!(memory.values().count(), 3);
        for none in ["{}", "[]", r#"{"memory_context": null}"#] {
            assert_eq!(Memory::read(none).unwrap(), None);
        }
        assert!(Memory::read(r#"{"a": NaN}"#).is_err());
    }
}
