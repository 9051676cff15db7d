//! Reads the component of a layout that others have written.
//!
//! Nothing outside the directory is opened: names of blobs are digests, and no link is followed. Each file is read once,
//! within a limit, into one buffer, whose size and digest are checked before it is parsed.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use serde::de::DeserializeOwned;

use super::{
    super::{digest::sha256, error::PluginError, file::read_bounded},
    ARCHITECTURE, COMPONENT_TYPE, CONFIG_TYPE, Config, Descriptor, INDEX_TYPE, Index, LAYOUT_VERSION, MANIFEST_TYPE,
    Manifest, Marker, SCHEMA_VERSION, digest_hexadecimal, fault,
};
use crate::sandbox::{Measure, Measured, PluginLimits};

/// Bytes of an index, a manifest or a config.
const MAX_JSON_BYTES: u64 = 4 << 20;
/// Descriptors of an index.
const MAX_MANIFESTS: usize = 1000;

/// The component in a layout, of the manifest with this digest (`sha256:` and 64 characters in base 16). Without one, the
/// layout must have a single manifest.
///
/// # Errors
/// When the layout can't be read or is not as it should be, or one bit of what is read is not what its digest says.
pub fn read_layout(directory: &Path, manifest: Option<&str>, limits: &PluginLimits) -> Result<Vec<u8>, PluginError> {
    let layout = Layout { path: directory.to_owned(), root: open_root(directory).map_err(|e| fault(directory, e))? };
    let marker: Marker = layout.parse("oci-layout", &layout.read(&["oci-layout"], MAX_JSON_BYTES)?)?;
    if marker.image_layout_version != LAYOUT_VERSION {
        let found = marker.image_layout_version;
        return Err(layout.fault(format!("the version of the layout is {found:?}, not {LAYOUT_VERSION:?}")));
    }
    let index: Index = layout.parse("index.json", &layout.read(&["index.json"], MAX_JSON_BYTES)?)?;
    layout.check_document("index.json", index.schema_version, index.media_type.as_deref(), INDEX_TYPE)?;
    let descriptor = layout.choose(&index.manifests, manifest)?;
    let what = format!("the manifest {}", descriptor.digest);
    let manifest: Manifest =
        layout.parse(&what, &layout.blob("the manifest", descriptor, MANIFEST_TYPE, MAX_JSON_BYTES)?)?;
    layout.check_document(&what, manifest.schema_version, manifest.media_type.as_deref(), MANIFEST_TYPE)?;
    let [layer] = &*manifest.layers else {
        return Err(layout.fault(format!("{what} has {} layers; a component is one", manifest.layers.len())));
    };
    let config = layout.blob("the config", &manifest.config, CONFIG_TYPE, MAX_JSON_BYTES)?;
    let config: Config = layout.parse("the config", &config)?;
    if config.architecture != ARCHITECTURE {
        return Err(layout.fault(format!("the architecture is {:?}, not {ARCHITECTURE:?}", config.architecture)));
    }
    if config.layer_digests != [&*layer.digest] {
        return Err(layout.fault("the config and the manifest name different layers"));
    }
    if layer.size > limits.max_bytes {
        let measured = Measured { measure: Measure::Bytes, found: layer.size, limit: limits.max_bytes };
        return Err(PluginError::TooLarge(measured));
    }
    layout.blob("the component", layer, COMPONENT_TYPE, limits.max_bytes)
}

struct Layout {
    path: PathBuf,
    root: Root,
}

impl Layout {
    fn choose<'a>(&self, manifests: &'a [Descriptor], digest: Option<&str>) -> Result<&'a Descriptor, PluginError> {
        let count = manifests.len();
        if count > MAX_MANIFESTS {
            return Err(self.fault(format!("its index has {count} manifests; at most {MAX_MANIFESTS} are allowed")));
        }
        match (manifests, digest) {
            (_, Some(digest)) => manifests
                .iter()
                .find(|descriptor| descriptor.digest == digest)
                .ok_or_else(|| self.fault(format!("it has no manifest {digest}; it has {}", list_digests(manifests)))),
            ([only], None) => Ok(only),
            _ => Err(self.fault(format!(
                "it has {count} manifests, so one must be named by oci:DIR@DIGEST: {}",
                list_digests(manifests)
            ))),
        }
    }

    /// The bytes of a blob, once they are those that its descriptor promises.
    fn blob(&self, what: &str, descriptor: &Descriptor, media_type: &str, most: u64) -> Result<Vec<u8>, PluginError> {
        let Descriptor { media_type: found, digest, size, .. } = descriptor;
        if found != media_type {
            return Err(self.fault(format!("{what} has the media type {found:?}; it must be {media_type:?}")));
        }
        let Some(hexadecimal) = digest_hexadecimal(digest) else {
            let problem =
                format!("{what} has the digest {digest:?}; it must be sha256: and 64 characters out of 0-9 and a-f");
            return Err(self.fault(problem));
        };
        if *size > most {
            return Err(self.fault(format!("{what} has {size} bytes; at most {most} are allowed")));
        }
        let bytes = self.read(&["blobs", "sha256", hexadecimal], most)?;
        if u64::try_from(bytes.len()).ok() != Some(*size) {
            return Err(self.fault(format!("{what} has {} bytes, but its descriptor says {size}", bytes.len())));
        }
        let actual = sha256(&bytes);
        if actual != hexadecimal {
            return Err(self.fault(format!("{what} has changed: its SHA-256 is {actual}, not {hexadecimal}")));
        }
        Ok(bytes)
    }

    fn read(&self, place: &[&str], most: u64) -> Result<Vec<u8>, PluginError> {
        let name = || place.join("/");
        let file = self.root.open(place).map_err(|error| self.fault(format!("{}: {error}", name())))?;
        let read = read_bounded(file, most).map_err(|error| self.fault(format!("{}: {error}", name())))?;
        read.map_err(|found| self.fault(format!("{} has {found} bytes; at most {most} are allowed", name())))
    }

    fn parse<T: DeserializeOwned>(&self, what: &str, json: &[u8]) -> Result<T, PluginError> {
        serde_json::from_slice(json).map_err(|error| self.fault(format!("{what}: {error}")))
    }

    fn check_document(&self, what: &str, version: u32, found: Option<&str>, expected: &str) -> Result<(), PluginError> {
        if version != SCHEMA_VERSION {
            return Err(self.fault(format!("{what} has schemaVersion {version}, not {SCHEMA_VERSION}")));
        }
        match found.filter(|found| *found != expected) {
            Some(found) => Err(self.fault(format!("{what} has the media type {found:?}; it must be {expected:?}"))),
            None => Ok(()),
        }
    }

    fn fault(&self, problem: impl ToString) -> PluginError {
        fault(&self.path, problem)
    }
}

/// Names in a message that has to stay readable.
fn list_digests(manifests: &[Descriptor]) -> String {
    const MOST: usize = 4;
    let shown: Vec<&str> = manifests.iter().take(MOST).map(|descriptor| &*descriptor.digest).collect();
    match manifests.len() {
        0 => "none".to_owned(),
        count if count > MOST => format!("{} and {} more", shown.join(", "), count - MOST),
        _ => shown.join(", "),
    }
}

/// The directory of a layout, opened, so that it stays the same one.
#[cfg(unix)]
struct Root(File);

#[cfg(unix)]
fn open_root(directory: &Path) -> io::Result<Root> {
    let root = File::open(directory)?;
    if root.metadata()?.is_dir() { Ok(Root(root)) } else { Err(io::Error::other("it is not a directory")) }
}

#[cfg(unix)]
impl Root {
    /// Opens a file without following a link, and without waiting: a named pipe would block until a writer opens it.
    fn open(&self, place: &[&str]) -> io::Result<File> {
        use rustix::fs::{Mode, OFlags, openat};

        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let mut opened = self.0.try_clone()?;
        for (at, name) in place.iter().enumerate() {
            let flags = if at + 1 < place.len() { flags | OFlags::DIRECTORY } else { flags };
            opened = match openat(&opened, *name, flags, Mode::empty()) {
                Ok(file) => File::from(file),
                Err(rustix::io::Errno::LOOP) => return Err(io::Error::other("it is a link")),
                Err(error) => return Err(error.into()),
            };
        }
        Ok(opened)
    }
}

#[cfg(not(unix))]
struct Root(PathBuf);

#[cfg(not(unix))]
fn open_root(directory: &Path) -> io::Result<Root> {
    std::fs::canonicalize(directory).map(Root)
}

#[cfg(not(unix))]
impl Root {
    fn open(&self, place: &[&str]) -> io::Result<File> {
        let mut path = self.0.clone();
        for name in place {
            path.push(name);
            if std::fs::symlink_metadata(&path)?.is_symlink() {
                return Err(io::Error::other("it is a link"));
            }
        }
        File::open(path)
    }
}
