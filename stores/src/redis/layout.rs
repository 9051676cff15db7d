//! The keys of a bucket. On a single server, they are the original's:
//!
//! | key | type | content |
//! |---|---|---|
//! | `{prefix}:{bucket}:{key}` | string | JSON text; a counter is a bare integer |
//! | `{prefix}:{bucket}:__keys__` | set | the bucket's keys |
//! | `{prefix}:{bucket}:__history__` | list | the log `history`, oldest record first: the original's |
//! | `{prefix}:{bucket}:__log.{log}__` | list | any other log |
//! | `{prefix}:{bucket}:__map.{map}__` | hash | any map but `values`, which is the keys above |
//! | `{prefix}:{bucket}:__index.{index}__` | hash | an index: its segments' marks and shards, see `index/segments.rs` |
//! | `{prefix}:{bucket}:__meta__` | hash | `created_at`, `ttl_seconds`; ours: `sliding_ms`, `log:{log}` (the first position), `map:{map}` (1: it is there), `index:{index}` (one more than the highest position; documents; terms of all of them), `lease:{lease}` (when it ends, milliseconds; a space; who has it) |
//! | `{prefix}:{bucket}:__writers__` | hash | writer → `sequence.deadline`, until that is over; `~` → when it expires |
//! | `{prefix}:__sessions__` | set | names of the buckets |
//!
//! That is where sessions are. Any other kind of bucket has a prefix of its own within, `{prefix}:@{kind}`, which no
//! session can be, and under that the same: `rr:memory:@user:anna:__meta__`, registry `rr:memory:@user:__sessions__`.
//!
//! `{prefix}:~confirming` is written before replicas are waited for, and goes within a second.
//!
//! What arrives from another store waits under `{prefix}:~{bucket}`, which no bucket can be, and expires within a day there.
//!
//! In a cluster, all of it once for each of 4096 hash tags, with `{prefix}:{tag}` in the place of the prefix
//! and the braces written: `rr:memory:{0a3f}:s1:last_answer`, registry `rr:memory:{0a3f}:__sessions__`. A
//! tag's keys share a slot, so that a bucket and its registration are one transaction. The tag is the bucket
//! name's CRC16 (Redis's own, `CLUSTER KEYSLOT`) modulo 4096 in four digits of base 16; that of any other kind's
//! is of `@{kind}:{bucket}`, so that users of one name and their sessions do not meet. Braces are in no
//! prefix and in no bucket's name, so the two layouts can't meet.

use crc::{CRC_16_XMODEM, Crc};

use crate::{
    BucketId, kind,
    names::{is_bucket, is_part},
};

/// What Redis Cluster hashes keys with.
const CRC16: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);
/// Tags of a cluster, and so registries.
pub(super) const TAGS: u16 = 4096;

/// A slot of a cluster; on a single server all are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HashSlot(pub(super) u16);

/// The keys of one Redis that a store uses.
#[derive(Clone, Debug)]
pub(super) struct KeyLayout {
    /// Without the colon.
    prefix: String,
    is_cluster: bool,
}

/// What a kind is called behind the prefix, and in what is hashed before a bucket's name: an infix is `@`, the kind, `:`.
fn kind_infix(kind: &str) -> [&str; 3] {
    if kind == kind::SESSION { [""; 3] } else { ["@", kind, ":"] }
}

pub(super) struct BucketKeys {
    /// What a key's or a log's name is put after.
    pub(super) base: String,
    pub(super) meta: String,
    pub(super) keys: String,
    pub(super) writers: String,
    pub(super) registry: BucketRegistry,
}

/// A set of buckets' names, and what these are put after.
pub(super) struct BucketRegistry {
    pub(super) key: String,
    /// With the colon.
    pub(super) prefix: String,
    /// A key that never exists, in a cluster.
    ///
    /// While a slot moves to another node, a script sees part of a bucket's keys on the one and the rest on
    /// the other. Redis refuses one that *names* a key which is not there (`TRYAGAIN`, `ASK`): so each
    /// names this one, and is served again when all of the slot has arrived.
    pub(super) guard: Option<String>,
    pub(super) slot: HashSlot,
}

impl BucketRegistry {
    /// A key that belongs to no bucket, in the same slot.
    pub(super) fn confirming_key(&self) -> String {
        [&self.prefix, "~confirming"].concat()
    }
}

impl KeyLayout {
    /// The original's, on one server, or spread over the slots of a cluster.
    pub(super) fn new(prefix: &str, is_cluster: bool) -> Self {
        Self { prefix: prefix.to_owned(), is_cluster }
    }

    pub(super) fn with_prefix(&self, prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), ..*self }
    }

    pub(super) fn registry_count(&self) -> u16 {
        if self.is_cluster { TAGS } else { 1 }
    }

    pub(super) fn registry_at(&self, kind: &str, number: u16) -> BucketRegistry {
        let prefix = self.registry_prefix(kind, number);
        let slot = if self.is_cluster { CRC16.checksum(format!("{number:04x}").as_bytes()) % 16_384 } else { 0 };
        BucketRegistry {
            key: [&prefix, "__sessions__"].concat(),
            guard: self.is_cluster.then(|| [&prefix, "__none__"].concat()),
            prefix,
            slot: HashSlot(slot),
        }
    }

    fn registry_prefix(&self, kind: &str, number: u16) -> String {
        let (prefix, [at, kind, colon]) = (&*self.prefix, kind_infix(kind));
        match self.is_cluster {
            true => format!("{prefix}:{at}{kind}{colon}{{{number:04x}}}:"),
            false => [prefix, ":", at, kind, colon].concat(),
        }
    }

    fn registry_number(&self, kind: &str, bucket: &str) -> u16 {
        let mut digest = CRC16.digest();
        kind_infix(kind).iter().for_each(|part| digest.update(part.as_bytes()));
        digest.update(bucket.as_bytes());
        digest.finalize() % TAGS
    }

    pub(super) fn bucket_keys(&self, bucket: &BucketId) -> BucketKeys {
        let registry = self.registry_at(&bucket.kind, self.registry_number(&bucket.kind, &bucket.name));
        let base = [&registry.prefix, &*bucket.name, ":"].concat();
        BucketKeys {
            meta: [&base, "__meta__"].concat(),
            keys: [&base, "__keys__"].concat(),
            writers: [&base, "__writers__"].concat(),
            registry,
            base,
        }
    }

    /// The metadata of all buckets, as `SCAN` takes it, and keys of others that look like it. A prefix has nothing in
    /// it that would mean more than itself.
    pub(super) fn meta_pattern(&self) -> String {
        format!("{}:*:__meta__", self.prefix)
    }

    /// All keys of all buckets, as `SCAN` takes it, and keys of others that look like them.
    pub(super) fn pattern(&self) -> String {
        format!("{}:*", self.prefix)
    }

    /// The bucket whose metadata this key holds.
    pub(super) fn bucket_of(&self, meta: &str) -> Option<BucketId> {
        self.locate_key(meta).filter(|(_, name)| *name == "__meta__").map(|(bucket, _)| bucket)
    }

    /// The bucket that a key belongs to, and the key's name behind the bucket's.
    pub(super) fn locate_key<'k>(&self, key: &'k str) -> Option<(BucketId, &'k str)> {
        let (rest, name) = key.rsplit_once(':')?;
        let (_, bucket) = rest.rsplit_once(':')?;
        let prefix = rest.strip_suffix(bucket).filter(|_| is_bucket(bucket))?;
        let infix = prefix.strip_prefix(&*self.prefix)?.strip_prefix(":")?;
        let kind = match infix.strip_prefix('@') {
            None => kind::SESSION,
            Some(named) => named.split(':').next().filter(|kind| is_part(kind) && *kind != kind::SESSION)?,
        };
        let is_there = self.registry_prefix(kind, self.registry_number(kind, bucket)) == prefix;
        is_there.then(|| (BucketId::new(kind, bucket), name))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn session(name: &str) -> BucketId {
        BucketId::session(name)
    }

    #[test]
    fn a_single_server_has_the_original_s_layout() {
        let layout = KeyLayout::new("rr:memory", false);
        let keys = layout.bucket_keys(&session("s1"));
        assert_eq!(
            (keys.meta.as_str(), keys.registry.key.as_str()),
            ("rr:memory:s1:__meta__", "rr:memory:__sessions__")
        );
        assert_eq!(keys.registry.guard, None);
    }

    #[test]
    fn a_bucket_s_tag_and_slot_are_what_redis_computes() {
        let layout = KeyLayout::new("rr:memory", true);
        // CLUSTER KEYSLOT s1 → 15224, of which 4096 leave 2936: 0b78; CLUSTER KEYSLOT {0b78} → SLOT
        let keys = layout.bucket_keys(&session("s1"));
        assert_eq!(keys.base, "rr:memory:{0b78}:s1:");
        assert_eq!(keys.registry.key, "rr:memory:{0b78}:__sessions__");
        assert_eq!(keys.registry.guard.as_deref(), Some("rr:memory:{0b78}:__none__"));
    }

    #[test]
    fn kinds_have_prefixes_and_tags_of_their_own() {
        let user = BucketId::user("s1");
        let (single, cluster) = (KeyLayout::new("rr:memory", false), KeyLayout::new("rr:memory", true));
        let keys = single.bucket_keys(&user);
        assert_eq!(keys.meta, "rr:memory:@user:s1:__meta__");
        assert_eq!(keys.registry.key, "rr:memory:@user:__sessions__");
        // CLUSTER KEYSLOT @user:s1 modulo 4096
        let tag = CRC16.checksum(b"@user:s1") % TAGS;
        assert_ne!(tag, 0x0b78);
        assert_eq!(cluster.bucket_keys(&user).base, format!("rr:memory:@user:{{{tag:04x}}}:s1:"));
        assert_eq!(cluster.registry_at(kind::USER, tag).key, cluster.bucket_keys(&user).registry.key);
    }

    #[test]
    fn a_metadata_key_leads_to_its_bucket_and_a_foreign_key_to_none() {
        let (single, cluster) = (KeyLayout::new("rr:memory", false), KeyLayout::new("rr:memory", true));
        for kind in kind::REGISTERED.into_iter().chain(["x", "a-9"]) {
            for name in ["s1", "__sessions__", "__meta__", "-"] {
                let bucket = BucketId::new(kind, name);
                assert_eq!(single.bucket_of(&single.bucket_keys(&bucket).meta), Some(bucket.clone()));
                assert_eq!(cluster.bucket_of(&cluster.bucket_keys(&bucket).meta), Some(bucket.clone()));
                assert_eq!(single.bucket_of(&cluster.bucket_keys(&bucket).meta), None);
                assert_eq!(cluster.bucket_of(&single.bucket_keys(&bucket).meta), None);
                assert_eq!(single.bucket_of(&KeyLayout::new("rr:memory:b", false).bucket_keys(&bucket).meta), None);
            }
        }
        for key in ["rr:memory::__meta__", "rr:memory:__meta__", "rr:memory:a b:__meta__", "rr:memory:s1:k", ""] {
            assert_eq!(single.bucket_of(key), None, "{key}");
        }
        // Where it would not be found.
        assert_eq!(cluster.bucket_of("rr:memory:{0000}:s1:__meta__"), None);
        for kind in ["", "session", "User", "1", "a:b", "@a"] {
            assert_eq!(single.bucket_of(&format!("rr:memory:@{kind}:s1:__meta__")), None, "{kind}");
        }
        assert_eq!(single.meta_pattern(), "rr:memory:*:__meta__");
        assert_eq!(single.locate_key("rr:memory:@user:anna:k"), Some((BucketId::user("anna"), "k")));
        assert_eq!(single.locate_key("rr:memory:s1:__log.turns__"), Some((session("s1"), "__log.turns__")));
        for key in ["rr:memory:__sessions__", "rr:memory:@user:__sessions__", "rr:memory:~s1:k", "rr:memory:b:s1:k"] {
            assert_eq!(single.locate_key(key), None, "{key}");
        }
    }

    #[test]
    fn tags_spread_evenly_over_three_masters() {
        let layout = KeyLayout::new("p", true);
        let mut shares = BTreeMap::new();
        for tag in 0..TAGS {
            *shares.entry(layout.registry_at(kind::SESSION, tag).slot.0 / 5462).or_insert(0) += 1;
        }
        assert_eq!(shares.len(), 3);
        assert!(shares.values().all(|share| (1200..=1530).contains(share)), "{shares:?}");
    }
}
