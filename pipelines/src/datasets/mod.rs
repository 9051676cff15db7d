//! Data sets: what pipelines read, and where the store has it.
//!
//! Each owner's collections are buckets of the kind `dataset`, named by a hash of owner, kind and collection, so that no
//! collection of one owner is another's, whatever they are called.
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

use keepline_options::bucket_names::{hashed, to_map_key};
use keepline_store_client::{BucketId, kind};

use crate::named::named;

/// Positions of what was replaced and is not erased yet.
const STALE: &str = "stale";

/// Whose data sets and definitions: what the host knows, and no request says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    pub kind: OwnerKind,
    pub name: Rc<str>,
}

named! {
    /// What an owner is.
    OwnerKind { Project = "project", User = "user", Tenant = "tenant", }
}

impl Owner {
    /// The name of the bucket with the owner's definitions.
    pub fn definitions_bucket(&self) -> String {
        hashed_parts(&[self.kind.name(), &self.name])
    }

    /// The name of the bucket of a collection.
    fn dataset_bucket(&self, kind: DataKind, collection: &[&str]) -> String {
        let mut parts = vec![self.kind.name(), &*self.name, kind.bucket()];
        parts.extend(collection);
        hashed_parts(&parts)
    }
}

/// A data set's bucket.
fn dataset(name: &str) -> BucketId<'_> {
    BucketId { kind: kind::DATASET, name }
}

/// `h-` and a hash of these parts, whatever they hold: each is told by its length.
fn hashed_parts(parts: &[&str]) -> String {
    hashed(&parts.iter().map(|part| format!("{} {part}", part.len())).collect::<String>())
}

/// The keys under which these are kept, sorted, each once.
fn entry_keys(ids: &[Rc<str>]) -> Vec<String> {
    let keys: BTreeSet<_> = ids.iter().map(|id| to_map_key(id).into_owned()).collect();
    keys.into_iter().collect()
}

#[cfg(test)]
mod tests {
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
        names.extend(owners.iter().map(|owner| owner.dataset_bucket(DataKind::Documents, &["a", "b"])));
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().all(|name| name.len() == 54));
    }
}
