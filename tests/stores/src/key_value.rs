//! A key-value store in memory, as a host lends one: it can be looked into, and its calls are counted.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use keepline_stores::{KeyValue, KeyValueError};
use parking_lot::Mutex;

/// Keys on a page.
const PAGE: usize = 10;

/// Clones share what is stored.
#[derive(Clone, Debug, Default)]
pub struct MemoryKeyValue {
    values: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    calls: Arc<AtomicU64>,
    /// How many more writes are carried out; none: all.
    writes_left: Arc<Mutex<Option<u64>>>,
}

impl MemoryKeyValue {
    /// All that is stored.
    pub fn values(&self) -> BTreeMap<String, Vec<u8>> {
        self.values.lock().clone()
    }

    /// What is stored is this.
    pub fn restore(&self, values: BTreeMap<String, Vec<u8>>) {
        *self.values.lock() = values;
    }

    /// How many calls there have been.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// From the write after the next so many, fail: as if the process had ended there.
    pub fn fail_after_writes(&self, writes: Option<u64>) {
        *self.writes_left.lock() = writes;
    }

    fn count(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    fn write<T>(&self, work: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T) -> Result<T, KeyValueError> {
        self.count();
        if let Some(left) = &mut *self.writes_left.lock() {
            *left = left.checked_sub(1).ok_or(KeyValueError::Other)?;
        }
        Ok(work(&mut self.values.lock()))
    }
}

impl KeyValue for MemoryKeyValue {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, KeyValueError> {
        self.count();
        Ok(self.values.lock().get(key).cloned())
    }

    fn get_many(&self, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>, KeyValueError> {
        self.count();
        let values = self.values.lock();
        Ok(keys.iter().map(|key| values.get(key).cloned()).collect())
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<(), KeyValueError> {
        self.write(|values| _ = values.insert(key.to_owned(), value.to_vec()))
    }

    fn set_many(&self, new: &[(String, Vec<u8>)]) -> Result<(), KeyValueError> {
        self.write(|values| values.extend(new.iter().cloned()))
    }

    fn delete_many(&self, keys: &[String]) -> Result<(), KeyValueError> {
        self.write(|values| keys.iter().for_each(|key| _ = values.remove(key)))
    }

    fn increment(&self, key: &str, by: u64) -> Result<u64, KeyValueError> {
        self.write(|values| {
            let before = values.get(key).and_then(|value| String::from_utf8(value.clone()).ok()?.parse().ok());
            let sum = before.unwrap_or(0_u64).wrapping_add(by);
            values.insert(key.to_owned(), sum.to_string().into_bytes());
            sum
        })
    }

    fn list_keys(&self, cursor: Option<u64>) -> Result<(Vec<String>, Option<u64>), KeyValueError> {
        self.count();
        let values = self.values.lock();
        let from = usize::try_from(cursor.unwrap_or(0)).unwrap_or(usize::MAX);
        let keys: Vec<String> = values.keys().skip(from).take(PAGE).cloned().collect();
        let next = from.saturating_add(keys.len());
        Ok((keys, (next < values.len()).then_some(next as u64)))
    }
}
