//! Values of a namespace, and those of the asking session or user.

use std::rc::Rc;

use keepline_options::bucket_names::{is_key_name, to_map_key};
use keepline_store_client::{Entry, VALUES, kind};

use super::{
    DataKind,
    reader::{Ask, Asker, Bucket, ReadTask, Reply},
};
use crate::{run::Found, value::Value};

/// The map of a namespace.
pub(super) const ENTRIES: &str = "entries";

/// Where a read has its values. The instances `session` and `user` are the asking ones, whose namespace is `values`.
pub(super) fn read(
    asker: &Asker,
    instance: &str,
    namespace: &str,
    keys: &[Rc<str>],
) -> Option<(Bucket, Box<dyn ReadTask>)> {
    let own = match instance {
        "session" => Some((kind::SESSION, asker.session.clone())),
        "user" => Some((kind::USER, asker.user.clone())),
        _ => None,
    };
    let keys = keys.to_vec();
    match own {
        Some((kind, bucket)) if namespace == VALUES => {
            Some(((kind, bucket?), Box::new(ValuesRead { map: VALUES, keys })))
        }
        Some(_) => None,
        None => {
            let name = asker.owner.dataset_bucket(DataKind::Values, &[instance, namespace]);
            Some(((kind::DATASET, name), Box::new(ValuesRead { map: ENTRIES, keys })))
        }
    }
}

struct ValuesRead {
    map: &'static str,
    keys: Vec<Rc<str>>,
}

impl ValuesRead {
    /// What a key is called in the map; none: it can't be there.
    fn entry_key(&self, key: &str) -> Option<String> {
        match self.map {
            VALUES => is_key_name(key).then(|| key.to_owned()),
            _ => Some(to_map_key(key).into_owned()),
        }
    }

    /// The value that an entry holds.
    fn value(&self, entry: &Entry) -> Option<Value> {
        if self.map == VALUES {
            // What is too deep for others to read again is the text that it is.
            return Some(Value::parse_input(&entry.text).unwrap_or_else(|_| Value::from(&*entry.text)));
        }
        Value::parse(&entry.text).ok()?.member("value").cloned()
    }
}

impl ReadTask for ValuesRead {
    fn asks(&self) -> Vec<Ask> {
        let mut keys: Vec<_> = self.keys.iter().filter_map(|key| self.entry_key(key)).collect();
        keys.sort();
        keys.dedup();
        vec![Ask::Entries { map: self.map, keys }]
    }

    fn take(&mut self, replies: Vec<Reply>) -> Option<Found> {
        let Some(Reply::Entries(entries)) = replies.into_iter().next() else { return Some(Found::default()) };
        let bytes = entries.iter().map(|entry| entry.text.len()).sum();
        let item = |key: &Rc<str>| {
            let stored = self.entry_key(key)?;
            let entry = entries.iter().find(|entry| entry.key == stored)?;
            Some(Value::object([("key", Value::Text(Rc::clone(key))), ("value", self.value(entry)?)]))
        };
        let items = self.keys.iter().filter_map(item).collect();
        Some(Found { items: Some(Rc::new(items)), bytes, is_cut: false })
    }
}
