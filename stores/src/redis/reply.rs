//! Takes a script's reply apart, piece by piece. A reply is not trusted: one of another shape is an error.

use std::string::FromUtf8Error;

use redis::{FromRedisValue, Value};

use crate::{
    Failure, FailureCode, IndexExtent, LogExtent, failure,
    names::{VALUES, is_key, is_token},
};

/// An array, taken apart from the front.
pub(super) struct ReplyReader {
    values: std::vec::IntoIter<Value>,
}

impl ReplyReader {
    pub(super) fn new(value: Value) -> Result<Self, Failure> {
        match value {
            Value::Array(values) => Ok(Self { values: values.into_iter() }),
            _ => Err(unexpected_reply()),
        }
    }

    pub(super) fn next_value(&mut self) -> Result<Value, Failure> {
        self.values.next().ok_or_else(unexpected_reply)
    }

    /// The next value, as redis reads it.
    pub(super) fn parse<T: FromRedisValue>(&mut self) -> Result<T, Failure> {
        redis::from_redis_value(self.next_value()?).map_err(|_| unexpected_reply())
    }

    pub(super) fn integer(&mut self) -> Result<i64, Failure> {
        match self.next_value()? {
            Value::Int(integer) => Ok(integer),
            _ => Err(unexpected_reply()),
        }
    }

    pub(super) fn unsigned(&mut self) -> Result<u64, Failure> {
        u64::try_from(self.integer()?).map_err(|_| unexpected_reply())
    }

    pub(super) fn text(&mut self) -> Result<String, Failure> {
        value_to_text(self.next_value()?)
    }

    /// Sorted.
    pub(super) fn keys(&mut self) -> Result<Vec<String>, Failure> {
        let mut keys: Vec<_> = self.parse::<Vec<_>>()?.into_iter().filter_map(key).collect();
        keys.sort_unstable();
        Ok(keys)
    }

    /// The next values, of which there must be so many.
    pub(super) fn next_values(&mut self, count: usize) -> Result<impl Iterator<Item = Value> + '_, Failure> {
        if count > self.values.len() { Err(unexpected_reply()) } else { Ok(self.values.by_ref().take(count)) }
    }

    pub(super) fn count(&mut self) -> Result<usize, Failure> {
        usize::try_from(self.integer()?).map_err(|_| unexpected_reply())
    }

    /// Records after their number.
    pub(super) fn records(&mut self) -> Result<Vec<String>, Failure> {
        let count = self.count()?;
        self.next_values(count)?.map(lossy_text).collect()
    }

    pub(super) fn extent(&mut self) -> Result<LogExtent, Failure> {
        Ok(LogExtent { first: self.unsigned()?, length: self.unsigned()? })
    }

    pub(super) fn index_extent(&mut self) -> Result<IndexExtent, Failure> {
        Ok(IndexExtent { next: self.unsigned()?, documents: self.unsigned()?, occurrences: self.unsigned()? })
    }

    /// Which server it is, as the scripts tell one from the other.
    pub(super) fn server(&mut self) -> Result<u32, Failure> {
        u32::from_str_radix(&self.text()?, 16).map_err(|_| unexpected_reply())
    }

    pub(super) fn into_remaining(self) -> impl Iterator<Item = Value> {
        self.values
    }
}

pub(super) fn value_to_bytes(value: Value) -> Result<Vec<u8>, Failure> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        _ => Err(unexpected_reply()),
    }
}

pub(super) fn value_to_text(value: Value) -> Result<String, Failure> {
    String::from_utf8(value_to_bytes(value)?).map_err(|_| unexpected_reply())
}

/// A name that somebody else put into a map, and that is no key of it, is not seen.
pub(super) fn key_of(map: &str, value: Value) -> Option<String> {
    let name = value_to_bytes(value).ok()?;
    if map == VALUES { key(name) } else { String::from_utf8(name).ok().filter(|name| is_token(name)) }
}

/// The same for the set of keys.
fn key(name: Vec<u8>) -> Option<String> {
    match String::from_utf8(name) {
        Ok(name) if is_key(&name) => Some(name),
        stranger => {
            let name = stranger.map_or_else(FromUtf8Error::into_bytes, String::into_bytes);
            let shown = name.get(..64).unwrap_or(&name).escape_ascii();
            tracing::debug!(target: "keepline", context = "keepline.store", "redis: no name of a key: \"{shown}\"");
            None
        }
    }
}

fn lossy_text(value: Value) -> Result<String, Failure> {
    let text = String::from_utf8(value_to_bytes(value)?);
    Ok(text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

pub(super) fn unexpected_reply() -> Failure {
    failure(FailureCode::Other, "", "unexpected reply from the Redis script")
}
