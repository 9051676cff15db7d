//! Reads the Redis keys of other programs, from a server (read-only) or from a dump.
//!
//! A dump has a line for each key: `{"key": "message_store:anna", "value": […]}`, whose value is a text, a list of
//! texts, or a JSON document. A document that names its session may stand on a line by itself.

use anyhow::{Context, Result};
use keepline::store::{RedisOptions, RedisStore};
use redis::{AsyncCommands, aio::MultiplexedConnection};
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq)]
pub struct SourceItem {
    pub key: String,
    pub value: SourceValue,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SourceValue {
    Text(String),
    List(Vec<String>),
    /// Messages that are stored one by one; the key is their session.
    Documents(Vec<Value>),
    /// Anything else, which is not read: its type.
    Other(String),
}

impl SourceItem {
    /// Parses a line of a dump.
    pub fn parse_dump_line(line: &str) -> Result<Self, String> {
        let document: Map<String, Value> = crate::terminal::json_text::parse_lenient(line)
            .map_err(|error| format!("it is not a JSON object: {error}"))?;
        if let (Some(Value::String(session)), true) = (document.get("session_id"), document.contains_key("data")) {
            return Ok(Self { key: session.clone(), value: SourceValue::Documents(vec![Value::Object(document)]) });
        }
        let (Some(Value::String(key)), Some(value)) = (document.get("key"), document.get("value")) else {
            return Ok(Self { key: String::new(), value: SourceValue::Text(line.to_owned()) });
        };
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let value = match value {
            Value::Array(elements) => SourceValue::List(elements.iter().map(text).collect()),
            value => SourceValue::Text(text(value)),
        };
        Ok(Self { key: key.clone(), value })
    }
}

pub async fn connect(url: &str) -> Result<MultiplexedConnection> {
    // Checked as the address of a store of ours, whose errors show no password.
    let options = RedisOptions { url: Some(url.to_owned().into()), ..RedisOptions::default() };
    RedisStore::new(options).context("--from-redis")?;
    let client = redis::Client::open(url).context("--from-redis is not the URL of a Redis server")?;
    let connection = client.get_multiplexed_async_connection().await;
    connection.context("can't reach the Redis server of --from-redis")
}

/// The pattern of the keys with a prefix.
pub fn key_pattern(prefix: &str) -> String {
    let escaped = prefix.chars().flat_map(|c| "*?[]\\".contains(c).then_some('\\').into_iter().chain([c]));
    escaped.chain(['*']).collect()
}

/// Reads a key. The inner error says why it can't be read.
pub async fn read_key(connection: &mut MultiplexedConnection, key: String) -> Result<Result<SourceItem, String>> {
    let failed = || format!("can't read {key}");
    let kind: String = redis::cmd("TYPE").arg(&key).query_async(connection).await.with_context(failed)?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned());
    let value = match &*kind {
        "string" => {
            let bytes: Vec<u8> = connection.get(&key).await.with_context(failed)?;
            text(bytes).map(SourceValue::Text)
        }
        "list" => {
            let all: Vec<Vec<u8>> = connection.lrange(&key, 0, -1).await.with_context(failed)?;
            all.into_iter().map(text).collect::<Result<_, _>>().map(SourceValue::List)
        }
        _ => Ok(SourceValue::Other(kind)),
    };
    Ok(value.map(|value| SourceItem { key, value }))
}
