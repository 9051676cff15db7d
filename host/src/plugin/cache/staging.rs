//! A directory that a compiler process writes to: it becomes the cached code in one step, or is removed.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use super::{CacheSlot, PluginError, UNFINISHED, holds_code, private_directory, trust};

/// Removed when dropped, unless it was published.
pub(in super::super) struct Staging {
    directory: PathBuf,
    is_published: bool,
}

impl Staging {
    /// In the cache, if anything can be written there, else in the system's directory for temporary files.
    ///
    /// # Errors
    /// When there is neither.
    pub(in super::super) fn new(kept: Option<&CacheSlot>) -> Result<Self, PluginError> {
        let name = format!("{UNFINISHED}{:032x}", fastrand::u128(..));
        let in_cache = kept.map(|kept| kept.cache.join(&name));
        if let Some(directory) = in_cache.filter(|directory| private_directory().create(directory).is_ok()) {
            return Ok(Self { directory, is_published: false });
        }
        let temporary = env::temp_dir();
        let failed = |error: std::io::Error| {
            let place = temporary.display();
            PluginError::Sandbox(format!(
                "compiled code needs a directory, and {place} is none: {error}. Set cache_dir or TMPDIR to one that can \
                 be written to"
            ))
        };
        let parent = fs::canonicalize(&temporary).map_err(failed)?;
        trust::check_parents(&parent)?;
        let directory = parent.join(name);
        private_directory().create(&directory).map_err(failed)?;
        Ok(Self { directory, is_published: false })
    }

    pub(in super::super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Moves it to where it is kept, if it is.
    ///
    /// # Errors
    /// When no code came to it: the disk may be full.
    pub(in super::super) fn publish(mut self, kept: Option<&CacheSlot>) -> Result<Self, PluginError> {
        if !holds_code(&self.directory) {
            return Err(PluginError::Sandbox(format!(
                "compiled code can't be written to {}",
                self.directory.display()
            )));
        }
        if let Some(kept) = kept.filter(|kept| self.directory.parent() == Some(&*kept.cache)) {
            kept.evict_oldest();
            // Another process may have been first: then its is kept.
            if fs::rename(&self.directory, &kept.slot).is_ok() {
                self.directory.clone_from(&kept.slot);
                self.is_published = true;
            }
        }
        Ok(self)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.is_published {
            return;
        }
        // wasmtime notes the use of what it reads, in its own time and by this name.
        let gone = self.directory.with_extension("gone");
        let removed = fs::rename(&self.directory, &gone)
            .and_then(|()| fs::remove_dir_all(&gone).or_else(|_| fs::remove_dir_all(&gone)));
        if let Err(error) = removed {
            tracing::debug!(target: "keepline", "{} can't be removed: {error}", gone.display());
        }
    }
}
