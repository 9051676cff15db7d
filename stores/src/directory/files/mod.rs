//! Finds, checks and locks the files of a store: they must belong together, and be on a local disk.
//!
//! Open stores share a lock on `keepline.lock`. Creating, migrating, restoring and repairing a store takes it exclusively,
//! as does the first process that opens it, for a moment. The kernel releases it when a process ends, however it ends.
//!
//! Only SQLite opens the database, on which it holds locks, while others may have it open: when a process closes any
//! handle of a file, POSIX drops all of the process's locks on it.
//!
//! A write-ahead log that lies beside another database than its own would be written into that without a word. So each
//! database is marked with a random number of its own, a copy of it with another one, and `keepline.lock` holds the number
//! of the database that the log belongs to. The number is SQLite's schema cookie: it stands in the file's header, where it
//! can be read whatever state a killed checkpoint left the pages in.

pub(crate) mod log_file;
pub(crate) mod reserve;

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use self::log_file::LogFile;
use crate::directory::{connection::PAGE_BYTES, error::DirectoryError};

const DATABASE: &str = "keepline.db";
/// As SQLite calls it.
const LOG: &str = "keepline.db-wal";
const LOCK: &str = "keepline.lock";
/// What SQLite keeps beside a database.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];
/// A database that is not whole yet.
const PARTIAL: &str = "keepline.db.partial";
/// What `keepline.lock` holds before and after the number of the database.
const MARK: (&str, &str) = ("keepline.db ", "\n");
/// How a database begins, and where its schema cookie stands.
const MAGIC: &[u8] = b"SQLite format 3\0";
const COOKIE: std::ops::Range<usize> = 40..44;
const POLL: Duration = Duration::from_millis(2);

/// A directory that is open, shared with others or alone.
#[derive(Debug)]
pub(crate) struct StoreFiles {
    pub(crate) directory: PathBuf,
    lock: File,
}

impl Drop for StoreFiles {
    /// Closing the file is not enough: a process that is just being started from another thread has inherited it, and would
    /// hold the lock until it runs its own program.
    fn drop(&mut self) {
        let _ = self.unlock();
    }
}

impl StoreFiles {
    /// Looks at a directory, and creates it if it is not there.
    pub(crate) fn open_or_create(path: &Path) -> Result<Self, DirectoryError> {
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
        // What people say to a model is private.
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
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&lock)
            .map_err(unusable(&lock))?;
        Ok(Self { directory, lock })
    }

    /// A directory that has a store, or had one, as far as its files tell.
    pub(crate) fn open_existing(path: &Path) -> Result<Self, DirectoryError> {
        if path.join(DATABASE).exists() || path.join(LOG).exists() {
            return Self::open_or_create(path);
        }
        Err(DirectoryError::Missing { path: path.to_owned() })
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.directory.join(DATABASE)
    }

    /// The length of a file; none: it isn't there.
    fn file_length(&self, name: &str) -> Option<u64> {
        fs::metadata(self.directory.join(name)).ok().map(|file| file.len())
    }

    /// Whether the write-ahead log holds anything.
    pub(crate) fn has_log(&self) -> bool {
        self.file_length(LOG).is_some_and(|length| length > 0)
    }

    /// Whether there is a log, or a journal, of whatever database.
    pub(crate) fn has_leftovers(&self) -> bool {
        BESIDE
            .iter()
            .any(|suffix| *suffix != "-shm" && self.file_length(&format!("{DATABASE}{suffix}")).unwrap_or(0) > 0)
    }

    /// Whether there is a database.
    ///
    /// # Errors
    /// When it is empty, or missing beside its log: SQLite would begin a new one then, and delete the log.
    pub(crate) fn has_database(&self) -> Result<bool, DirectoryError> {
        let damaged = |detail: String| Err(DirectoryError::Damaged { detail });
        match self.file_length(DATABASE) {
            None if self.has_log() => damaged(format!("{DATABASE} is missing, and its log {LOG} is there")),
            None => Ok(false),
            Some(0) if self.has_log() => damaged(format!("{DATABASE} is empty, and its log {LOG} is not")),
            Some(0) => damaged(format!("{DATABASE} is empty; if nothing was ever stored there, remove it")),
            Some(_) => Ok(true),
        }
    }

    /// Of a database that ends within a page SQLite takes the rest of that page for zeros, so that whatever stood there is
    /// gone without a word. Where there is a log, it may have the page.
    pub(crate) fn check_length(&self) -> Result<(), DirectoryError> {
        if !self.has_log() && !self.file_length(DATABASE).unwrap_or(0).is_multiple_of(PAGE_BYTES) {
            return Err(DirectoryError::Damaged { detail: format!("{DATABASE} ends within a page") });
        }
        Ok(())
    }

    /// Refuses a log beside a database that it does not belong to. Where there is no log, any database will do, and the one
    /// that is there is noted as the one that the log to come belongs to. The directory must be held alone.
    ///
    /// False: the database has no number of its own yet.
    pub(crate) fn check_log_matches_database(&self) -> Result<bool, DirectoryError> {
        let (noted, number) = (self.noted_number(), self.database_number());
        let (Some(noted), Some(number)) = (noted, number) else { return Ok(number.is_none() || self.has_log()) };
        if noted == number {
            return Ok(true);
        }
        if self.has_log() {
            return Err(DirectoryError::Replaced);
        }
        self.note_number()?;
        Ok(true)
    }

    /// The number that the database is marked with; none: it is no database, or can't be read. No process may have it open.
    fn database_number(&self) -> Option<u32> {
        let mut header = [0; 100];
        File::open(self.database()).and_then(|mut file| file.read_exact(&mut header)).ok()?;
        let number: [u8; 4] = header.get(COOKIE)?.try_into().ok()?;
        header.starts_with(MAGIC).then(|| u32::from_be_bytes(number))
    }

    /// The number of the database that the log belongs to; none: it was not recorded.
    fn noted_number(&self) -> Option<u32> {
        let (mut text, mut lock) = (String::new(), &self.lock);
        lock.seek(SeekFrom::Start(0)).ok()?;
        lock.take(64).read_to_string(&mut text).ok()?;
        text.strip_prefix(MARK.0)?.strip_suffix(MARK.1)?.parse().ok()
    }

    /// Notes the database that is there, all of it in its file, as the one that the log belongs to.
    pub(crate) fn note_number(&self) -> Result<(), DirectoryError> {
        let Some(number) = self.database_number() else { return self.forget_number() };
        let (mut lock, (before, after)) = (&self.lock, MARK);
        let mut note = || {
            lock.set_len(0)?;
            lock.seek(SeekFrom::Start(0))?;
            lock.write_all(format!("{before}{number}{after}").as_bytes())?;
            // Before the first write to a log.
            lock.sync_all()
        };
        match note() {
            // Then it is unknown, which does no harm.
            Err(error) if error.kind() == ErrorKind::StorageFull => self.forget_number(),
            noted => noted.map_err(DirectoryError::unusable(&self.directory.join(LOCK))),
        }
    }

    /// From now on any database will do, until one is noted.
    pub(crate) fn forget_number(&self) -> Result<(), DirectoryError> {
        let emptied = self.lock.set_len(0).and_then(|()| self.lock.sync_all());
        emptied.map_err(DirectoryError::unusable(&self.directory.join(LOCK)))
    }

    /// Where a database is written that is not whole yet, after what is left of another such one has been removed. The
    /// directory must be held alone.
    pub(crate) fn begin_partial(&self) -> Result<PathBuf, DirectoryError> {
        self.remove_file(PARTIAL)?;
        BESIDE.iter().try_for_each(|suffix| self.remove_file(&format!("{PARTIAL}{suffix}")))?;
        Ok(self.directory.join(PARTIAL))
    }

    /// Replaces the database, if there is one, with the partial one, which must be complete and closed, and removes the log
    /// of the former one. A process that is killed in between leaves a database that is refused beside that log, or all of
    /// it.
    pub(crate) fn finish_partial(&self) -> Result<(), DirectoryError> {
        let partial = self.directory.join(PARTIAL);
        let synced = File::open(&partial).and_then(|file| file.sync_all());
        let renamed = synced.and_then(|()| fs::rename(&partial, self.database()));
        renamed.map_err(DirectoryError::unusable(&self.directory))?;
        self.sync_directory()?;
        BESIDE.iter().try_for_each(|suffix| self.remove_file(&format!("{DATABASE}{suffix}")))?;
        self.sync_directory()?;
        self.note_number()
    }

    fn sync_directory(&self) -> Result<(), DirectoryError> {
        let synced = File::open(&self.directory).and_then(|directory| directory.sync_all());
        synced.map_err(DirectoryError::unusable(&self.directory))
    }

    fn remove_file(&self, name: &str) -> Result<(), DirectoryError> {
        let path = self.directory.join(name);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(DirectoryError::unusable(&path)(source)),
            _ => Ok(()),
        }
    }

    /// The database's write-ahead log, once somebody has read from that.
    pub(crate) fn open_wal_file(&self) -> Result<LogFile, DirectoryError> {
        let path = self.directory.join(LOG);
        LogFile::open(&path).map_err(DirectoryError::unusable(&path))
    }

    /// Hold it together with others.
    pub(crate) fn lock_shared(&self, wait: Duration) -> Result<(), DirectoryError> {
        self.hold(wait, "it can't be opened", File::try_lock_shared)
    }

    /// Hold it alone.
    pub(crate) fn lock_exclusive(&self, wait: Duration, what: &'static str) -> Result<(), DirectoryError> {
        self.hold(wait, what, File::try_lock)
    }

    /// Takes the exclusive lock, if it is free.
    pub(crate) fn try_own(&self) -> Result<bool, DirectoryError> {
        match self.lock_exclusive(Duration::ZERO, "") {
            Err(DirectoryError::InUse { .. }) => Ok(false),
            owned => owned.map(|()| true),
        }
    }

    /// Hold it no longer.
    pub(crate) fn unlock(&self) -> Result<(), DirectoryError> {
        self.lock.unlock().map_err(DirectoryError::unusable(&self.directory.join(LOCK)))
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
                    return Err(DirectoryError::unusable(&self.directory.join(LOCK))(source));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_although_a_child_process_has_inherited_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let store = StoreFiles::open_or_create(folder.path()).unwrap();
        store.lock_exclusive(Duration::ZERO, "it is free").unwrap();
        // What a fork does to the descriptor.
        let _inherited = store.lock.try_clone().unwrap();
        assert!(!StoreFiles::open_or_create(folder.path()).unwrap().try_own().unwrap());
        drop(store);
        assert!(StoreFiles::open_or_create(folder.path()).unwrap().try_own().unwrap());
    }
}
