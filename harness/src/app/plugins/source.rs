//! Where a component comes from, as `--plugin` names it: `FILE`, `oci:DIR[@sha256:…]` or `@NAME`.
//!
//! It is read once, into one buffer. Of a pinned plugin the digest of that buffer is checked before anything looks into
//! it, and it is this buffer that is inspected or compiled: what happens to the file meanwhile changes nothing.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use keepline::{
    Plugin, Sandbox,
    plugin::{PluginLimits, check_pin, is_sha256, read, read_layout},
};

use super::{PinnedPlugin, TrustFile, check_plugin_name};
use crate::app::error::usage_error;

/// Where a component comes from.
#[derive(Clone, Debug)]
pub enum PluginSource {
    File(PathBuf),
    /// An OCI image layout.
    Layout {
        directory: PathBuf,
        /// Of the manifest; none: the only one.
        digest: Option<String>,
    },
    Pinned {
        name: String,
        /// Where it is pinned.
        trusted: TrustFile,
    },
}

/// A component's bytes, and what it is pinned as.
pub struct LoadedPlugin {
    pub bytes: Vec<u8>,
    pub pin: Option<PinnedPlugin>,
}

impl PluginSource {
    /// Reads what a user named. A file whose name begins with `@` or `oci:` is `./@…`. `trusted`: the trust file in use, which only
    /// a pinned plugin needs.
    pub fn parse(text: &OsStr, trusted: impl FnOnce() -> Result<TrustFile>) -> Result<Self> {
        let Some(named) = text.to_str() else { return Ok(Self::File(text.into())) };
        if let Some(name) = named.strip_prefix('@') {
            check_plugin_name(name)?;
            return Ok(Self::Pinned { name: name.to_owned(), trusted: trusted()? });
        }
        let Some(layout) = named.strip_prefix("oci:") else { return Ok(Self::File(text.into())) };
        let (directory, digest) = match layout.rsplit_once("@sha256:") {
            None => (layout, None),
            Some((directory, hexadecimal)) if is_sha256(hexadecimal) => {
                (directory, Some(format!("sha256:{hexadecimal}")))
            }
            Some((_, wrong)) => {
                let message = format!("sha256: must be followed by 64 characters out of 0-9 and a-f, not by {wrong:?}");
                return Err(usage_error(message));
            }
        };
        if directory.is_empty() {
            return Err(usage_error("oci: must be followed by a directory: oci:DIR or oci:DIR@sha256:…"));
        }
        Ok(Self::Layout { directory: directory.into(), digest })
    }

    /// The component's bytes, of a pinned plugin those that were pinned.
    pub fn read(&self, limits: &PluginLimits) -> Result<LoadedPlugin> {
        let (name, trusted) = match self {
            Self::File(path) => return Ok(LoadedPlugin { bytes: read(path, limits)?, pin: None }),
            Self::Layout { directory, digest } => {
                return Ok(LoadedPlugin { bytes: read_layout(directory, digest.as_deref(), limits)?, pin: None });
            }
            Self::Pinned { name, trusted } => (name, trusted),
        };
        let pin = trusted.find(name)?;
        let source = Self::parse(pin.source.as_ref(), || {
            let (path, source) = (trusted.path().display(), &pin.source);
            Err(usage_error(format!("the source of {name:?} in {path} must be a file, not {source}")))
        })?;
        let LoadedPlugin { bytes, .. } = source.read(limits).with_context(|| format!("the plugin @{name}"))?;
        check_pin(&bytes, &pin.sha256).with_context(|| {
            format!(
                "{source} has changed since it was pinned as @{name}. Restore it, or look at what it is now with \
                 `keepline inspect {source}`; to trust that, run `keepline plugin remove {name}` and `keepline plugin \
                 add {name} {source}`"
            )
        })?;
        Ok(LoadedPlugin { bytes, pin: Some(pin) })
    }

    /// Compiles it.
    pub fn load(&self, sandbox: &Sandbox) -> Result<Plugin> {
        let failed = || format!("{self} can't be loaded; `keepline inspect` shows details");
        let LoadedPlugin { bytes, .. } = self.read(&sandbox.plugin).with_context(failed)?;
        Plugin::from_bytes(&bytes, sandbox).with_context(failed)
    }

    /// As it is written in the trust file: text that means the same wherever a later process is started.
    pub fn to_pin(&self) -> Result<String> {
        let absolute = |path: &Path| {
            let unusable = || format!("can't tell where {} is", path.display());
            let absolute = std::path::absolute(path).with_context(unusable)?;
            let text = absolute.to_str().map(str::to_owned);
            text.ok_or_else(|| usage_error(format!("the path {} must be UTF-8", absolute.display())))
        };
        match self {
            Self::File(path) => absolute(path),
            Self::Layout { directory, digest } => {
                Ok(Self::Layout { directory: absolute(directory)?.into(), digest: digest.clone() }.to_string())
            }
            Self::Pinned { name, .. } => Err(usage_error(format!("@{name} is pinned already: name a file"))),
        }
    }

    /// The options that name it to another process of this program.
    pub fn options(&self) -> Vec<OsString> {
        match self {
            Self::File(path) => vec!["--plugin".into(), path.into()],
            Self::Layout { .. } => vec!["--plugin".into(), self.to_string().into()],
            Self::Pinned { trusted, .. } => {
                vec!["--plugin".into(), self.to_string().into(), "--trust".into(), trusted.path().into()]
            }
        }
    }
}

impl fmt::Display for PluginSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Layout { directory, digest: None } => write!(f, "oci:{}", directory.display()),
            Self::Layout { directory, digest: Some(digest) } => write!(f, "oci:{}@{digest}", directory.display()),
            Self::Pinned { name, .. } => write!(f, "@{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use keepline::plugin::{BUNDLED, BUNDLED_PIPELINES, PluginError, sha256};

    use super::*;

    /// Puts other bytes in its place at once, as a writer does who wants to be caught by nobody; or into the same file.
    fn swap(path: &Path, bytes: &[u8], in_place: bool) {
        if in_place {
            return fs::write(path, bytes).unwrap();
        }
        let new = path.with_extension("new");
        fs::write(&new, bytes).unwrap();
        fs::rename(&new, path).unwrap();
    }

    #[test]
    fn what_is_loaded_is_what_was_pinned_however_often_the_file_is_swapped() {
        /// At least so many loads, and then on until both outcomes have come.
        const LOADS: usize = 200;
        let folder = tempfile::tempdir().unwrap();
        let (file, trust) = (folder.path().join("plugin.wasm"), folder.path().join("trust/plugins.json"));
        let (pinned, other) = (BUNDLED, BUNDLED_PIPELINES);
        fs::write(&file, pinned).unwrap();
        let trusted = TrustFile::new(trust);
        let source = file.to_str().unwrap().to_owned();
        trusted.add(PinnedPlugin { name: "mine".to_owned(), sha256: sha256(pinned), source }).unwrap();
        let source = PluginSource::Pinned { name: "mine".to_owned(), trusted };
        let is_over = AtomicBool::new(false);
        let (mut loaded, mut refused) = (0, 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                // Neither thread waits for the other, so a swap falls between any two steps of a load.
                for (at, bytes) in [other, pinned, pinned, other].into_iter().cycle().enumerate() {
                    swap(&file, bytes, at % 3 == 0);
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            while loaded + refused < LOADS || loaded == 0 || refused == 0 {
                match source.read(&PluginLimits::DEFAULT) {
                    Ok(LoadedPlugin { bytes, .. }) => {
                        assert!(bytes == pinned);
                        loaded += 1;
                    }
                    Err(error) => {
                        let cause = error.chain().find_map(|cause| cause.downcast_ref());
                        assert!(matches!(cause, Some(PluginError::Changed { .. })), "{error:#}");
                        refused += 1;
                    }
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
