//! Data sets: what pipelines read, and where the store has it.
//!
//! Each owner's collections are buckets of the kind `dataset`, named by a hash of the owner and another of kind and
//! collection: no collection of one owner is another's, whatever they are called, and a host sees whose it is.
//!
//! | kind | bucket | places |
//! |---|---|---|
//! | values | a namespace of an instance | map `entries`: key → `{"key", "value"}` |
//! | events | an instance | log `events`; index `facets` of streams and types; map `state` |
//! | documents | a collection | logs `documents` and `vectors`, index `terms`, all by position; maps `positions` and `stale` |
//! | graph | one | maps `nodes`, `out`, `in`, `views`; log `nodes` and index `facets` by position; map `stale` |
//!
//! What is replaced or removed leaves a `null` at its position; until then `stale` names it.

mod documents;
mod events;
mod graph;
mod indexed;
mod reader;
mod values;
mod write;

pub use reader::{Asker, Reader};
pub use write::{Collection, DataItem, DataKind, ItemPage, ItemsChanged, list_items, put_items, remove_items};

use std::{collections::BTreeSet, rc::Rc};

use keepline_options::bucket_names::{dataset_bucket_name, definitions_bucket_name, to_map_key};
use keepline_store_client::{BucketId, kind};

use keepline_options::registered_names;

/// Positions of what was replaced and is not erased yet.
const STALE: &str = "stale";

/// Whose data sets and definitions: what the host knows, and no request says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    pub kind: OwnerKind,
    pub name: Rc<str>,
}

registered_names! {
    /// What an owner is.
    OwnerKind { Project = "project", User = "user", Tenant = "tenant", }
}

impl Owner {
    /// The name of the bucket with the owner's definitions.
    pub fn definitions_bucket(&self) -> String {
        definitions_bucket_name(self.kind.name(), &self.name)
    }

    /// The name of the bucket of a collection.
    fn dataset_bucket(&self, kind: DataKind, collection: &[&str]) -> String {
        let mut parts = vec![kind.bucket()];
        parts.extend(collection);
        dataset_bucket_name(&self.definitions_bucket(), &parts)
    }
}

/// A data set's bucket.
fn dataset(name: &str) -> BucketId<'_> {
    BucketId { kind: kind::DATASET, name }
}

/// The keys under which these are kept, sorted, each once.
fn entry_keys(ids: &[Rc<str>]) -> Vec<String> {
    let keys: BTreeSet<_> = ids.iter().map(|id| to_map_key(id).into_owned()).collect();
    keys.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use keepline_options::bucket_names::{is_dataset_of, is_name};

    use super::*;

    #[test]
    fn no_collection_of_one_owner_has_the_bucket_of_another() {
        let owner = |kind, name: &str| Owner { kind, name: name.into() };
        let owners = [
            owner(OwnerKind::Project, "a"),
            owner(OwnerKind::User, "a"),
            owner(OwnerKind::Project, "a\0values"),
            owner(OwnerKind::Project, ""),
        ];
        let collections: [&[&str]; 4] = [&["a", "b"], &["ab", ""], &["", "ab"], &["a", "b", ""]];
        let mut names: Vec<_> = owners
            .iter()
            .flat_map(|owner| collections.map(|parts| owner.dataset_bucket(DataKind::Values, parts)))
            .collect();
        names.extend(owners.iter().map(Owner::definitions_bucket));
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        let of = |owner: &Owner| names.iter().filter(|name| is_dataset_of(name, &owner.definitions_bucket())).count();
        assert_eq!(owners.each_ref().map(of), [4, 4, 4, 4]);
        assert!(names.iter().all(|name| is_name(name)));
    }
}
