//! Checks that no one but this user or root can have put code into a directory, as ssh checks its keys.

use std::{
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
};

use super::PluginError;

/// The directory itself, wherever links lead; made if it is missing. None: it is neither there nor can it be made.
///
/// # Errors
/// When it is no directory, or others can write to it or to one that it is in.
pub(super) fn usable(directory: &Path) -> Result<Option<PathBuf>, PluginError> {
    let made = make(directory).and_then(|()| fs::canonicalize(directory));
    let path = match made {
        Ok(path) => path,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists) => {
            return Err(untrusted(directory, "it is not a directory", "Remove it"));
        }
        Err(error) => {
            tracing::debug!(target: "keepline", "compiled code is not cached: {}: {error}", directory.display());
            return Ok(None);
        }
    };
    let metadata = read_metadata(&path)?;
    if !metadata.is_dir() {
        return Err(untrusted(&path, "it is not a directory", "Remove it"));
    }
    check(&path, &metadata, false)?;
    check_parents(&path)?;
    Ok(Some(path))
}

/// Checks that only this user or root can replace what is in these directories.
///
/// # Errors
/// When others can.
pub(super) fn check_parents(path: &Path) -> Result<(), PluginError> {
    // Of one that everybody may write to but only owners may remove from, such as /tmp, only what is in it counts.
    path.ancestors().try_for_each(|parent| check(parent, &read_metadata(parent)?, true))
}

/// Everything in the place of one component's code.
///
/// # Errors
/// When one of the files, or of the directories in it, is not this user's.
pub(super) fn check_entries(slot: &Path) -> Result<(), PluginError> {
    /// Code, and notes on its use; a few versions of wasmtime at most.
    const MOST: usize = 1000;
    let mut ahead = vec![slot.to_owned()];
    let mut is_private = false;
    let mut seen = 0;
    while let Some(path) = ahead.pop() {
        let metadata = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            // Another process that writes here has given it its final name, or removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound && path != slot => continue,
            Err(error) => return Err(unreadable(&path, &error)),
        };
        // To open anything else than a file may wait for a writer, and a link leads elsewhere.
        if !(metadata.is_file() || metadata.is_dir()) || seen > MOST {
            return Err(untrusted(&path, "it is not what this program writes", "Remove it"));
        }
        // What others can't reach, they can't write to, whatever its mode.
        is_private = is_private || (path == slot && is_closed(&metadata));
        if !is_private || !is_own(&metadata) {
            check(&path, &metadata, false)?;
        }
        if metadata.is_dir() {
            let failed = |error| unreadable(&path, &error);
            for entry in fs::read_dir(&path).map_err(failed)? {
                ahead.push(entry.map_err(failed)?.path());
                seen += 1;
            }
        }
    }
    Ok(())
}

fn read_metadata(path: &Path) -> Result<Metadata, PluginError> {
    fs::symlink_metadata(path).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &io::Error) -> PluginError {
    untrusted(path, error, "Mend that")
}

fn untrusted(path: &Path, problem: impl ToString, remedy: impl Into<String>) -> PluginError {
    PluginError::UntrustedCache { path: path.to_owned(), problem: problem.to_string(), remedy: remedy.into() }
}

/// For this user alone, with what leads there.
fn make(directory: &Path) -> io::Result<()> {
    super::private_directory().recursive(true).create(directory)
}

#[cfg(unix)]
fn is_own(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    let owner = metadata.uid();
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

#[cfg(unix)]
fn is_closed(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    metadata.mode() & 0o077 == 0
}

#[cfg(unix)]
fn check(path: &Path, metadata: &Metadata, may_be_sticky: bool) -> Result<(), PluginError> {
    use std::os::unix::fs::MetadataExt as _;

    let mode = metadata.mode();
    if !is_own(metadata) {
        let problem = format!("it belongs to another user (uid {})", metadata.uid());
        return Err(untrusted(path, problem, "Remove it"));
    }
    let is_writable = mode & 0o022 != 0;
    if is_writable && !(may_be_sticky && mode & 0o1000 != 0) {
        let problem = format!("others can write to it (mode {:04o})", mode & 0o7777);
        let remedy = if may_be_sticky { "Run chmod go-w" } else { "Run chmod 700" };
        return Err(untrusted(path, problem, format!("{remedy} {}", path.display())));
    }
    Ok(())
}

#[cfg(not(unix))]
fn is_own(_: &Metadata) -> bool {
    true
}

#[cfg(not(unix))]
fn is_closed(_: &Metadata) -> bool {
    true
}

/// On other systems a user's directories belong to that user alone by default.
#[cfg(not(unix))]
fn check(_: &Path, _: &Metadata, _: bool) -> Result<(), PluginError> {
    Ok(())
}
