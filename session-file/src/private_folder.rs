//! Creates temporary folders that only their owner can read, for staged imports.
//!
//! The folder of a process that was killed is removed by the next process that creates one in the same place.

use std::{
    fs::{self, DirBuilder, File, Permissions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// Prefix of the folders' names; other files beside them are never removed.
const PREFIX: &str = "import-";
/// Name of the lock files: in each folder, held while its process lives; beside the folders, held while one is created
/// or removed.
const LOCK: &str = "lock";

const OWNER_ONLY: u32 = 0o700;

/// A folder that is removed with its process.
#[derive(Debug)]
pub struct PrivateFolder {
    folder: TempDir,
    _lock: Option<File>,
}

impl PrivateFolder {
    /// Creates a folder in the first place where that is possible, or else among the system's temporary files.
    pub fn create_in_any(places: &[PathBuf]) -> io::Result<Self> {
        if let Some(folder) = places.iter().find_map(|place| Self::create_under(place).ok()) {
            return Ok(folder);
        }
        // Nothing is removed there later: without a lock, folders in use could not be told apart.
        let folder = private_folder_builder("keepline-").tempdir()?;
        Ok(Self { folder, _lock: None })
    }

    fn create_under(place: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(OWNER_ONLY).create(place)?;
        let making = open_lock_file(&place.join(LOCK))?;
        making.lock()?;
        remove_stale_folders(place);
        let folder = private_folder_builder(PREFIX).tempdir_in(place)?;
        let alive = open_lock_file(&folder.path().join(LOCK))?;
        alive.lock()?;
        Ok(Self { folder, _lock: Some(alive) })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes what killed processes have left in this place, if there is one.
pub fn remove_abandoned(place: &Path) {
    // Whoever makes a folder there holds it.
    let making = File::open(place.join(LOCK)).and_then(|making| making.lock().map(|()| making));
    if making.is_ok() {
        remove_stale_folders(place);
    }
}

/// Removes the folders of processes that are gone.
fn remove_stale_folders(place: &Path) {
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

fn open_lock_file(path: &Path) -> io::Result<File> {
    File::options().create(true).truncate(false).read(true).write(true).open(path)
}

fn private_folder_builder(prefix: &str) -> tempfile::Builder<'_, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).permissions(Permissions::from_mode(OWNER_ONLY));
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_folder_is_owner_only_and_the_next_one_removes_abandoned_ones() {
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("staging");
        let first = PrivateFolder::create_in_any(std::slice::from_ref(&inner)).unwrap();
        for folder in [&inner, first.path()] {
            assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
        }
        let left = inner.join("import-left");
        fs::create_dir(&left).unwrap();
        fs::write(left.join(LOCK), "").unwrap();
        fs::write(left.join("keepline.db"), "a conversation").unwrap();
        fs::create_dir(inner.join("another")).unwrap();
        let second = PrivateFolder::create_in_any(std::slice::from_ref(&inner)).unwrap();
        assert!(!left.exists() && first.path().exists() && inner.join("another").exists());
        let path = second.path().to_owned();
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn abandoned_folders_are_removed_without_a_new_one_and_those_in_use_stay() {
        let place = tempfile::tempdir().unwrap();
        let used = PrivateFolder::create_in_any(&[place.path().to_owned()]).unwrap();
        let left = place.path().join("import-left");
        fs::create_dir(&left).unwrap();
        fs::write(left.join(LOCK), "").unwrap();
        remove_abandoned(place.path());
        assert!(!left.exists() && used.path().exists());
        let none = place.path().join("none");
        remove_abandoned(&none);
        assert!(!none.exists());
    }

    #[test]
    fn a_private_folder_falls_back_to_the_temporary_directory() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        let folder = PrivateFolder::create_in_any(&[file.join("below")]).unwrap();
        assert!(folder.path().exists());
    }
}
