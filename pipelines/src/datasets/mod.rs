//! Data sets: what pipelines read, and where the store has it.
//!
//! Each owner's collections are buckets of the kind `dataset`, named by a hash of owner, kind and collection, so that no
//! collection of one owner is another's, whatever they are called. What there is, an owner's bucket of the kind `definition`
//! lists in its map `datasets`.
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

use std::rc::Rc;

use keepline_store_client::{BucketId, kind};
use sha2::{Digest as _, Sha256};

/// Positions of what was replaced and is not erased yet.
const STALE: &str = "stale";

/// Whose data sets and definitions: what the host knows, and no request says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    pub kind: OwnerKind,
    pub name: Rc<str>,
}

/// What an owner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnerKind {
    Project,
    User,
    Tenant,
}

impl OwnerKind {
    /// Its registered name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
            Self::Tenant => "tenant",
        }
    }

    /// The kind of that registered name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Project, Self::User, Self::Tenant].into_iter().find(|kind| kind.name() == name)
    }
}

impl Owner {
    /// The name of the bucket with the owner's definitions.
    pub fn definitions_bucket(&self) -> String {
        hashed(&[self.kind.name(), &self.name])
    }

    /// The name of the bucket of a collection.
    fn dataset_bucket(&self, kind: DataKind, collection: &[&str]) -> String {
        let mut parts = vec![self.kind.name(), &*self.name, kind.bucket()];
        parts.extend(collection);
        hashed(&parts)
    }
}

/// A data set's bucket.
fn dataset(name: &str) -> BucketId<'_> {
    BucketId { kind: kind::DATASET, name }
}

/// `h-` and a hash of these parts, whatever they hold: each is told by its length.
fn hashed(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    base32(&digest.finalize())
}

/// `h-` and bytes in lower-case base32 without padding.
fn base32(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut text = String::from("h-");
    let (mut number, mut bits) = (0_u32, 0_u32);
    for byte in bytes {
        number = number << 8 | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.extend(DIGITS.get((number >> bits) as usize & 31).map(|digit| char::from(*digit)));
        }
    }
    if bits > 0 {
        text.extend(DIGITS.get((number << (5 - bits)) as usize & 31).map(|digit| char::from(*digit)));
    }
    text
}

/// The key under which something of this id is kept: the id, if it can be a key, else `h-` and its hash.
fn entry_key(id: &str) -> String {
    let is_key =
        (1..=256).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()) && !id.starts_with("h-");
    if is_key { id.to_owned() } else { hashed(&[id]) }
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

    #[test]
    fn ids_that_are_no_keys_are_hashed_and_no_id_is_taken_for_a_hash() {
        assert_eq!(entry_key("conv:p7/ü".trim_end_matches("/ü")), "conv:p7");
        for id in ["", "a b", "ü", &"x".repeat(257), &entry_key("")] {
            assert!(entry_key(id).starts_with("h-") && entry_key(id) != id, "{id}");
        }
    }
}
