//! What a component may use of the machine, and where its compiled code is kept.

use std::{path::PathBuf, time::Duration};

/// What a component may use of the machine. The defaults suit the bundled filter with room to spare.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sandbox {
    /// Linear memory of one instance, bytes. Default 64 MiB.
    pub memory_bytes: usize,
    /// Elements in an instance's tables. Default 10,000.
    pub table_elements: usize,
    /// Time that an instance may compute between two calls of the store. Default 1 s; checked every 10 ms,
    /// when it also makes way for other tasks. Waiting does not count.
    pub cpu_time: Duration,
    /// Bytes that an instance can make the host copy in one call. Default 32 MiB.
    pub copy_bytes: usize,
    /// Transactions, and other calls of the store, that one entry may cause. Default 256; the filter needs one or two.
    pub store_calls_per_entry: u32,
    /// Messages that one entry may log. Default 64; further ones are dropped.
    pub log_lines_per_entry: u32,
    /// Calls after which an instance is replaced by a fresh one. Default 10,000.
    pub calls_per_instance: u64,
    /// Where compiled code is kept between processes.
    pub cache: CodeCache,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            table_elements: 10_000,
            cpu_time: Duration::from_secs(1),
            copy_bytes: 32 << 20,
            store_calls_per_entry: 256,
            log_lines_per_entry: 64,
            calls_per_instance: 10_000,
            cache: CodeCache::Default,
        }
    }
}

/// Where compiled code is kept between processes: by the component's digest, wasmtime's version and its
/// settings. An entry that can't be read is compiled anew. Beyond that it is trusted as a program on disk
/// is: who can write there can make the host run anything, so it must be nobody's but the host's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CodeCache {
    /// In the user's cache directory.
    #[default]
    Default,
    /// Nowhere: each process compiles.
    Off,
    /// In this directory.
    At(PathBuf),
}
