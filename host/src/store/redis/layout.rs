//! Where a bucket's keys are: the original's layout, on a single server.
//!
//! | key | type | content |
//! |---|---|---|
//! | `{prefix}:{bucket}:{key}` | string | JSON text; a counter is a bare integer |
//! | `{prefix}:{bucket}:__keys__` | set | the bucket's keys |
//! | `{prefix}:{bucket}:__{log}__` | list | a log, oldest first; the original's is `__history__` |
//! | `{prefix}:{bucket}:__meta__` | hash | `created_at`, `ttl_seconds`; ours: `sliding_ms`, `log:{log}` (records replaced away) |
//! | `{prefix}:{bucket}:__writers__` | hash | writer → `sequence.milliseconds`; `~` → when it expires |
//! | `{prefix}:__sessions__` | set | names of the buckets |

/// The keys of one Redis database that a store uses.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// With the colon.
    prefix: String,
    registry: String,
}

/// The addresses that belong to one bucket.
pub(super) struct BucketKeys {
    /// What a key's or a log's name is put after.
    pub(super) base: String,
    pub(super) meta: String,
    pub(super) keys: String,
    pub(super) writers: String,
}

impl Layout {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: format!("{prefix}:"), registry: format!("{prefix}:__sessions__") }
    }

    /// What a bucket's name is put after.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn registry(&self) -> &str {
        &self.registry
    }

    pub(super) fn bucket(&self, bucket: &str) -> BucketKeys {
        let base = [&self.prefix, bucket, ":"].concat();
        BucketKeys {
            meta: [&base, "__meta__"].concat(),
            keys: [&base, "__keys__"].concat(),
            writers: [&base, "__writers__"].concat(),
            base,
        }
    }
}
