//! The key-value store that the host lends, opened once an instance.

use std::collections::HashMap;
use std::sync::OnceLock;

use keepline_stores::{KeyValue, KeyValueError};

use crate::bindings::wasi::keyvalue::{
    atomics, batch,
    store::{self, Bucket, Error},
};

/// What hosts call the store that they lend where nothing else was configured, by wasmtime and by wasmCloud.
const IDENTIFIERS: [&str; 2] = ["", "default"];

/// It is opened once: with some hosts (wasmtime's store in memory) each opening is a store of its own.
#[derive(Debug, Default)]
pub struct LentKeyValue(OnceLock<Bucket>);

impl LentKeyValue {
    fn bucket(&self) -> Result<&Bucket, KeyValueError> {
        if let Some(bucket) = self.0.get() {
            return Ok(bucket);
        }
        let [first, second] = IDENTIFIERS;
        let bucket = store::open(first).or_else(|_| store::open(second))?;
        Ok(self.0.get_or_init(|| bucket))
    }
}

impl From<Error> for KeyValueError {
    fn from(error: Error) -> Self {
        match error {
            Error::NoSuchStore => Self::NoSuchStore,
            Error::AccessDenied => Self::AccessDenied,
            Error::Other(_) => Self::Other,
        }
    }
}

impl KeyValue for LentKeyValue {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, KeyValueError> {
        Ok(self.bucket()?.get(key)?)
    }

    /// Whatever the order in which the host answers, and whether or not it tells what it has not.
    fn get_many(&self, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>, KeyValueError> {
        if let [key] = keys {
            return Ok(vec![self.get(key)?]);
        }
        let found = batch::get_many(self.bucket()?, keys)?;
        let mut found: HashMap<String, Vec<u8>> = found.into_iter().flatten().collect();
        Ok(keys.iter().map(|key| found.remove(key)).collect())
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<(), KeyValueError> {
        Ok(self.bucket()?.set(key, value)?)
    }

    fn set_many(&self, values: &[(String, Vec<u8>)]) -> Result<(), KeyValueError> {
        Ok(batch::set_many(self.bucket()?, values)?)
    }

    fn delete_many(&self, keys: &[String]) -> Result<(), KeyValueError> {
        Ok(batch::delete_many(self.bucket()?, keys)?)
    }

    fn increment(&self, key: &str, by: u64) -> Result<u64, KeyValueError> {
        Ok(atomics::increment(self.bucket()?, key, by)?)
    }

    fn list_keys(&self, cursor: Option<u64>) -> Result<(Vec<String>, Option<u64>), KeyValueError> {
        let page = self.bucket()?.list_keys(cursor)?;
        Ok((page.keys, page.cursor))
    }
}
