//! The directory itself: where its files are, what kind of disk it is on, and who has it open.
//!
//! Every open store holds `keepline.lock` together with the others; whoever makes, migrates or repairs a store holds it
//! alone. The kernel gives it back when a process ends, however it ends.
//!
//! The database itself, on which there are locks, is never opened but by SQLite: POSIX takes all locks of a process on a
//! file away when the process closes any handle of it.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::{connection::PAGE_BYTES, error::DirectoryError, log_file::LogFile};

const DATABASE: &str = "keepline.db";
/// As SQLite calls it.
const LOG: &str = "keepline.db-wal";
const LOCK: &str = "keepline.lock";
const POLL: Duration = Duration::from_millis(2);

/// A directory that is open, shared with others or alone.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) directory: PathBuf,
    lock: File,
}

impl Place {
    /// Looks at a directory, and creates it if it is not there.
    pub(super) fn prepare(path: &Path) -> Result<Self, DirectoryError> {
        let unusable = |path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| match source.kind() {
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => DirectoryError::ReadOnly,
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => DirectoryError::Full,
                _ => DirectoryError::Unusable { path, source },
            }
        };
        let missing = path.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()).count();
        let mut builder = DirBuilder::new();
        // What people say to a model is nobody else's.
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(path).map_err(unusable(path))?;
        let directory = fs::canonicalize(path).map_err(unusable(path))?;
        // Else a power cut takes the directory with all that is on disk in it. A parent that may not be opened can't be
        // synced.
        for parent in directory.ancestors().skip(1).take(missing) {
            if let Ok(handle) = File::open(parent) {
                handle.sync_all().map_err(unusable(parent))?;
            }
        }
        if let Some(kind) = network_file_system(&directory) {
            return Err(DirectoryError::NetworkFileSystem { kind });
        }
        let lock = directory.join(LOCK);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock).map_err(unusable(&lock))?;
        Ok(Self { directory, lock })
    }

    /// A directory that has a store, as far as its files tell.
    pub(super) fn existing(path: &Path) -> Result<Self, DirectoryError> {
        if path.join(DATABASE).exists() {
            return Self::prepare(path);
        }
        Err(DirectoryError::Missing { path: path.to_owned() })
    }

    pub(super) fn database(&self) -> PathBuf {
        self.directory.join(DATABASE)
    }

    /// Of a database that ends within a page SQLite takes the rest of that page for zeros, so that whatever stood there is
    /// gone without a word. Where there is a log, it may have the page.
    pub(super) fn check_length(&self) -> Result<(), DirectoryError> {
        let length = |name: &str| fs::metadata(self.directory.join(name)).map_or(0, |file| file.len());
        if length(LOG) == 0 && length(DATABASE) % PAGE_BYTES != 0 {
            return Err(DirectoryError::Damaged { detail: format!("{DATABASE} ends within a page") });
        }
        Ok(())
    }

    /// The database's write-ahead log, once somebody has read from that.
    pub(super) fn log(&self) -> Result<LogFile, DirectoryError> {
        let path = self.directory.join(LOG);
        LogFile::open(&path).map_err(|source| DirectoryError::Unusable { path, source })
    }

    /// Hold it together with others.
    pub(super) fn share(&self, wait: Duration) -> Result<(), DirectoryError> {
        self.hold(wait, "it can't be opened", File::try_lock_shared)
    }

    /// Hold it alone.
    pub(super) fn own(&self, wait: Duration, what: &'static str) -> Result<(), DirectoryError> {
        self.hold(wait, what, File::try_lock)
    }

    /// Hold it no longer.
    pub(super) fn release(&self) -> Result<(), DirectoryError> {
        self.lock.unlock().map_err(|source| DirectoryError::Unusable { path: self.directory.join(LOCK), source })
    }

    fn hold(
        &self,
        wait: Duration,
        what: &'static str,
        lock: impl Fn(&File) -> Result<(), TryLockError>,
    ) -> Result<(), DirectoryError> {
        let began = Instant::now();
        loop {
            match lock(&self.lock) {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) if began.elapsed() < wait => thread::sleep(POLL),
                Err(TryLockError::WouldBlock) => return Err(DirectoryError::InUse { what }),
                Err(TryLockError::Error(source)) => {
                    return Err(DirectoryError::Unusable { path: self.directory.join(LOCK), source });
                }
            }
        }
    }
}

/// The name of a file system whose files are on another machine.
#[cfg(target_os = "linux")]
fn network_file_system(directory: &Path) -> Option<&'static str> {
    let magic = rustix::fs::statfs(directory).ok()?.f_type;
    match u32::try_from(magic & 0xffff_ffff).ok()? {
        0x6969 => Some("NFS"),
        0x517b => Some("SMB"),
        0xff53_4d42 | 0xfe53_4d42 => Some("CIFS"),
        0x00c3_6400 => Some("Ceph"),
        0x5346_414f | 0x6b41_4653 => Some("AFS"),
        0x7375_7245 => Some("Coda"),
        0x0bd0_0bd0 => Some("Lustre"),
        0x0102_1997 => Some("9P"),
        0x4750_4653 => Some("GPFS"),
        0x0116_1970 => Some("GFS2"),
        0x7461_636f => Some("OCFS2"),
        _ => None,
    }
}

/// The same: macOS says of each file system whether it is local.
#[cfg(target_os = "macos")]
fn network_file_system(directory: &Path) -> Option<&'static str> {
    /// `MNT_LOCAL` of `sys/mount.h`.
    const LOCAL: u32 = 0x1000;
    let flags = rustix::fs::statfs(directory).ok()?.f_flags;
    (flags & LOCAL == 0).then_some("a remote volume")
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn network_file_system(_: &Path) -> Option<&'static str> {
    None
}
