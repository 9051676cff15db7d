//! Reads a plugin's file, if it is a regular one and no longer than a plugin may be.
//!
//! A path may lead to a device, a pipe or a file of terabytes: none of them is waited for or read to its end.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    path::Path,
};

use super::error::PluginError;
use crate::sandbox::{Measure, Measured, PluginLimits};

/// The bytes of a plugin's file.
///
/// # Errors
/// When it can't be read, is no regular file, or is longer than [`PluginLimits::max_bytes`].
pub fn read(path: &Path, limits: &PluginLimits) -> Result<Vec<u8>, PluginError> {
    let failed = |source| PluginError::Read { path: path.to_owned(), source };
    let file = open(path).map_err(failed)?;
    read_bounded(file, limits.max_bytes)
        .map_err(failed)?
        .map_err(|found| PluginError::TooLarge(Measured { measure: Measure::Bytes, found, limit: limits.max_bytes }))
}

/// All bytes of a regular file, or, if there are more than `most`, how many were found.
///
/// # Errors
/// When it can't be read, or is no regular file.
pub(super) fn read_bounded(file: File, most: u64) -> io::Result<Result<Vec<u8>, u64>> {
    // Of what was opened: the path may lead elsewhere by now.
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if metadata.len() > most {
        return Ok(Err(metadata.len()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    // It may have grown, and files of a kernel say that they are empty.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    Ok(if length > most { Err(length) } else { Ok(bytes) })
}

/// Without waiting: opening a named pipe would block until a writer opens it.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::OFlags;

    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
    OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}
