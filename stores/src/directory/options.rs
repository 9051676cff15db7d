//! Options of a store in a directory.

use std::{sync::Arc, time::Duration};

use crate::{Clock, SystemClock};

/// When a write counts as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectorySync {
    /// When it is on disk. Writers at one time share a sync; who only asks waits for none.
    #[default]
    Group,
    /// When it is on disk, each call by itself, and those that only create or renew a bucket, too. For measurements, and
    /// for disks whose sync costs nothing.
    Always,
    /// When the system has it: it survives the end of the process, however that comes about, but a power cut can take the
    /// latest writes. What is left is whole then, too.
    Off,
}

/// How a directory is used.
#[derive(Clone, Debug)]
pub struct DirectoryOptions {
    /// When a write counts as stored.
    pub sync: DirectorySync,
    /// Bytes that the database may take, from 1 MiB on; what was deleted is given back. The write-ahead log takes up to
    /// some 32 MiB beside it, more while a reader or a backup holds it. By default 64 GiB.
    pub max_bytes: u64,
    /// How long a call may take at most, whatever its own deadline: also how long a lock of another process is waited
    /// for. By default 5 s.
    pub timeout: Duration,
    /// Threads that read, 1 to 64. By default 2.
    pub readers: usize,
    /// The clock that it uses: the machine's.
    pub clock: Arc<dyn Clock>,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self {
            sync: DirectorySync::default(),
            max_bytes: 64 << 30,
            timeout: Duration::from_secs(5),
            readers: 2,
            clock: Arc::new(SystemClock),
        }
    }
}
