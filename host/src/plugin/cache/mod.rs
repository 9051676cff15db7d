//! Caches compiled code: a directory per component, which wasmtime reads and writes as its cache.
//!
//! What is read from there runs as native code, so it is used only if no one but this user or root could have written
//! it. A component whose code is found was checked against the same limits when it was compiled. The newest entries are
//! kept.

mod staging;
mod trust;

use std::{
    env,
    fs::{self, DirBuilder},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    sync::Once,
    time::Duration,
};

use sha2::{Digest as _, Sha256};

pub(super) use self::staging::Staging;
use super::{
    digest::{hexadecimal, is_sha256},
    engine::{Setup, engine},
    error::PluginError,
};
use crate::sandbox::{CodeCache, Sandbox};

/// How many components' code is kept.
const MAX_CACHED_COMPONENTS: usize = 32;
/// What begins the name of a directory that a compiler writes into, and how long that may take at the very most.
const UNFINISHED: &str = ".unfinished-";
const ABANDONED: Duration = Duration::from_secs(3600);

/// The place of one component's compiled code.
pub(super) struct CacheSlot {
    cache: PathBuf,
    slot: PathBuf,
}

impl CacheSlot {
    /// Where it is kept, if it is to be kept anywhere.
    ///
    /// # Errors
    /// When the directory that was asked for can't be trusted.
    pub(super) fn for_component(
        bytes: &[u8],
        sandbox: &Sandbox,
        setup: Setup<'_>,
    ) -> Result<Option<Self>, PluginError> {
        let found = match &sandbox.cache {
            CodeCache::Off => None,
            CodeCache::At(directory) => trust::usable(directory)?,
            CodeCache::Default => user_cache().and_then(|directory| {
                trust::usable(&directory).unwrap_or_else(|error| {
                    static TOLD: Once = Once::new();
                    TOLD.call_once(|| tracing::warn!(target: "keepline", "compiled code is not cached: {error}"));
                    None
                })
            }),
        };
        let Some(cache) = found else { return Ok(None) };
        let slot = cache.join(cache_key(bytes, sandbox, setup)?);
        Ok(Some(Self { cache, slot }))
    }

    /// The compiled code, if it is there.
    ///
    /// # Errors
    /// When others could have written it.
    pub(super) fn find_code(&self) -> Result<Option<&Path>, PluginError> {
        if !holds_code(&self.slot) {
            return Ok(None);
        }
        trust::check_entries(&self.slot)?;
        Ok(Some(&self.slot))
    }

    /// An empty place for it. None: nothing can be written there.
    pub(super) fn create(&self) -> Option<&Path> {
        self.evict_oldest();
        match private_directory().create(&self.slot) {
            Ok(()) => Some(&self.slot),
            Err(error) => {
                tracing::debug!(target: "keepline", "compiled code is not cached: {}: {error}", self.slot.display());
                None
            }
        }
    }

    /// Removes the oldest ones, what compilers left behind, and what is in this place without being compiled code.
    fn evict_oldest(&self) {
        if !holds_code(&self.slot) {
            // A file that can't be removed is reported when it gets in the way.
            let _ = fs::remove_dir_all(&self.slot);
        }
        let mut slots = Vec::new();
        for entry in fs::read_dir(&self.cache).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let Ok(since) = entry.metadata().and_then(|metadata| metadata.modified()) else { continue };
            let Some(name) = name.to_str() else { continue };
            if is_sha256(name) {
                slots.push((since, path));
            } else if name.starts_with(UNFINISHED) && since.elapsed().is_ok_and(|age| age > ABANDONED) {
                let _ = fs::remove_dir_all(path);
            }
        }
        slots.sort_unstable();
        let surplus = slots.len().saturating_sub(MAX_CACHED_COMPONENTS - 1);
        for (_, slot) in slots.drain(..surplus) {
            // Another process may do the same.
            let _ = fs::remove_dir_all(slot);
        }
    }
}

/// What makes compiled code another: the component, the engine and its settings; and the limits that it was held to.
fn cache_key(bytes: &[u8], sandbox: &Sandbox, setup: Setup<'_>) -> Result<String, PluginError> {
    let mut settings = DefaultHasher::new();
    engine(setup)?.precompile_compatibility_hash().hash(&mut settings);
    sandbox.plugin.hash(&mut settings);
    let digest = Sha256::new().chain_update(settings.finish().to_le_bytes()).chain_update(bytes).finalize();
    Ok(hexadecimal(&digest))
}

/// Whether wasmtime has put code there: a file without an extension, in the directory of its version.
fn holds_code(slot: &Path) -> bool {
    let versions = fs::read_dir(slot.join("modules")).into_iter().flatten().flatten();
    let files = versions.flat_map(|version| fs::read_dir(version.path()).into_iter().flatten().flatten());
    files.map(|file| file.path()).any(|file| file.extension().is_none())
}

/// In this user's directory for caches.
fn user_cache() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = if cfg!(windows) {
        absolute("LOCALAPPDATA")
    } else {
        absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))
    };
    Some(caches?.join("keepline"))
}

/// For this user alone.
fn private_directory() -> DirBuilder {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}
