//! Creates temporary folders that only their owner can read, for staged imports.
//!
//! The folder of a process that was killed is removed by the next process that creates one in the same place.

use std::{
    fs::{self, DirBuilder, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

/// Prefix of the folders' names; other files beside them are never removed.
const PREFIX: &str = "import-";
/// Name of the lock files: in each folder, held while its process lives; beside the folders, held while one is created
/// or removed.
const LOCK: &str = "lock";

/// A folder that is removed with its process.
pub struct PrivateFolder {
    path: PathBuf,
    _lock: File,
}

impl PrivateFolder {
    /// Creates a folder in the first place where that is possible, or else among the system's temporary files.
    pub fn make(places: &[PathBuf]) -> io::Result<Self> {
        for place in places {
            if let Ok(folder) = Self::make_in(place) {
                return Ok(folder);
            }
        }
        // Without locks, folders in use could not be told apart: each run has a place of its own.
        let place = std::env::temp_dir().join(format!("keepline-{:016x}", fastrand::u64(..)));
        Self::make_in(&place)
    }

    fn make_in(place: &Path) -> io::Result<Self> {
        builder().recursive(true).create(place)?;
        let making = lock(&place.join(LOCK))?;
        making.lock()?;
        sweep(place);
        let path = place.join(format!("{PREFIX}{:016x}", fastrand::u64(..)));
        builder().create(&path)?;
        let alive = lock(&path.join(LOCK))?;
        alive.lock()?;
        Ok(Self { path, _lock: alive })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // The next process tries again.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of processes that are gone.
fn sweep(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let is_one = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if !is_one || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        // One without a lock was never finished: it is made while the place is locked.
        let is_used = File::open(entry.path().join(LOCK))
            .is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)));
        if !is_used {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn lock(path: &Path) -> io::Result<File> {
    File::options().create(true).truncate(false).read(true).write(true).open(path)
}

fn builder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_its_owner_s_alone_and_one_that_was_left_goes_with_the_next() {
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("staging");
        let first = PrivateFolder::make(std::slice::from_ref(&inner)).unwrap();
        #[cfg(unix)]
        for folder in [&inner, first.path()] {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
        }
        let left = inner.join("import-left");
        fs::create_dir(&left).unwrap();
        fs::write(left.join(LOCK), "").unwrap();
        fs::write(left.join("keepline.db"), "a conversation").unwrap();
        fs::create_dir(inner.join("another")).unwrap();
        let second = PrivateFolder::make(std::slice::from_ref(&inner)).unwrap();
        assert!(!left.exists() && first.path().exists() && inner.join("another").exists());
        let path = second.path().to_owned();
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn where_no_place_can_be_made_it_is_private_among_temporary_files() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        let folder = PrivateFolder::make(&[file.join("below")]).unwrap();
        assert!(folder.path().exists());
    }
}
