//! Reserves room on the disk for when it is full: without any, nothing could be deleted, and a closed store could not even
//! be opened, which takes a file or two.
//!
//! The reserve is a file. It is removed to free room or to open the store on a full disk, and made again as soon as there is
//! room. Until then, only calls that free room may write.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write as _},
};

use super::StoreFiles;
use crate::directory::error::DirectoryError;

const RESERVE: &str = "keepline.reserve";
/// Enough to have in the database what the log has collected since the last checkpoint (see `write`), and then to delete the
/// largest session and clear up after it, in steps.
const BYTES: u64 = 8 << 20;
static CHUNK: [u8; 64 << 10] = [0; 64 << 10];

impl StoreFiles {
    /// Makes the reserve if it is missing and there is room for it. False: there is no room, so the disk is practically full.
    pub(crate) fn ensure_reserve(&self) -> bool {
        let path = self.directory.join(RESERVE);
        if fs::metadata(&path).is_ok_and(|file| file.len() >= BYTES) {
            return true;
        }
        if self.free_bytes().is_some_and(|free| free < BYTES) {
            return false;
        }
        let made = make(&path);
        if made.is_err() {
            _ = fs::remove_file(&path);
        }
        // Where it can't be made for another reason, the disk will tell when it is full.
        !made.is_err_and(|error| matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
    }

    /// Gives the reserve back to the disk. False: there was no reserve.
    pub(crate) fn give_reserve(&self) -> bool {
        let is_given = fs::remove_file(self.directory.join(RESERVE)).is_ok();
        if is_given {
            tracing::warn!(
                "the disk is full: the directory store uses its reserve, and takes nothing new until there is room"
            );
        }
        is_given
    }

    #[cfg(target_os = "linux")]
    fn free_bytes(&self) -> Option<u64> {
        let disk = rustix::fs::statvfs(&self.directory).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    #[cfg(not(target_os = "linux"))]
    fn free_bytes(&self) -> Option<u64> {
        None
    }
}

/// Zeros that are written take room on every disk, unlike a length that is set.
fn make(path: &std::path::Path) -> io::Result<()> {
    let mut file = File::create(path)?;
    for _ in 0..BYTES / CHUNK.len() as u64 {
        file.write_all(&CHUNK)?;
    }
    Ok(())
}

/// Does work that needs room on the disk at first, with the reserve if need be.
pub(crate) fn with_reserve<T>(
    place: &StoreFiles,
    mut work: impl FnMut() -> Result<T, DirectoryError>,
) -> Result<T, DirectoryError> {
    match work() {
        Err(DirectoryError::Full) if place.give_reserve() => work(),
        done => done,
    }
}
