//! Writes a component as a layout, which has the same bytes whenever and wherever it is written.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::json;

use super::{
    super::{
        digest::sha256,
        error::PluginError,
        meter::Meter,
        walk::{Interfaces, walk_component},
    },
    ARCHITECTURE, COMPONENT_TYPE, CONFIG_TYPE, Descriptor, INDEX_TYPE, Index, LAYOUT_VERSION, MANIFEST_TYPE, Manifest,
    Marker, SCHEMA_VERSION, SHA256, fault,
};
use crate::sandbox::PluginLimits;

/// What the CNCF's types call a component of this generation.
const SYSTEM: &str = "wasip2";
/// The config must have a time. The real one would make each layout another one.
const CREATED: &str = "1970-01-01T00:00:00Z";
/// Annotations: the name of a file to pull to, and the versions of the artifact and of what it is tagged with.
const TITLE: &str = "org.opencontainers.image.title";
const VERSION: &str = "org.opencontainers.image.version";
const TAG: &str = "org.opencontainers.image.ref.name";

/// Writes a component as an OCI image layout into a directory that is new or empty. `title` is a file's name, `version`
/// becomes the tag. Returns the digest of the manifest.
///
/// # Errors
/// When the bytes are no component, or the directory is not empty or can't be written to.
pub fn write_layout(directory: &Path, component: &[u8], title: &str, version: &str) -> Result<String, PluginError> {
    let mut interfaces = Interfaces::default();
    // The contract, as a WIT package, has more types than a plugin may have.
    let limits = PluginLimits { max_type_size: u64::MAX, ..PluginLimits::DEFAULT };
    walk_component(component, &mut Meter::new(&limits), &mut interfaces)?;
    let failed = |error: std::io::Error| fault(directory, error);
    let blobs = directory.join("blobs/sha256");
    fs::create_dir_all(directory).map_err(failed)?;
    if fs::read_dir(directory).map_err(failed)?.next().is_some() {
        return Err(fault(directory, "it is not empty: name a new directory"));
    }
    fs::create_dir_all(&blobs).map_err(failed)?;
    let write = |media_type: &str, bytes: &[u8], annotations: BTreeMap<&'static str, String>| {
        let hexadecimal = sha256(bytes);
        fs::write(blobs.join(&hexadecimal), bytes).map_err(failed)?;
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Ok(Descriptor {
            media_type: media_type.to_owned(),
            digest: format!("{SHA256}{hexadecimal}"),
            size,
            annotations,
        })
    };
    let layer = write(COMPONENT_TYPE, component, BTreeMap::from([(TITLE, title.to_owned())]))?;
    let config = json!({
        "created": CREATED,
        "architecture": ARCHITECTURE,
        "os": SYSTEM,
        "layerDigests": [layer.digest],
        "component": {"exports": interfaces.exports, "imports": interfaces.imports},
    });
    let config = write(CONFIG_TYPE, config.to_string().as_bytes(), BTreeMap::new())?;
    let manifest = Manifest {
        schema_version: SCHEMA_VERSION,
        media_type: Some(MANIFEST_TYPE.to_owned()),
        config,
        layers: vec![layer],
        annotations: BTreeMap::from([(TITLE, title.to_owned()), (VERSION, version.to_owned())]),
    };
    let as_json = |document: serde_json::Result<Vec<u8>>| document.map_err(|error| fault(directory, error));
    let manifest = as_json(serde_json::to_vec(&manifest))?;
    let manifest = write(MANIFEST_TYPE, &manifest, BTreeMap::from([(TAG, version.to_owned())]))?;
    let digest = manifest.digest.clone();
    let marker = as_json(serde_json::to_vec(&Marker { image_layout_version: LAYOUT_VERSION.to_owned() }))?;
    fs::write(directory.join("oci-layout"), marker).map_err(failed)?;
    let index =
        Index { schema_version: SCHEMA_VERSION, media_type: Some(INDEX_TYPE.to_owned()), manifests: vec![manifest] };
    // Last: what was interrupted is no layout.
    fs::write(directory.join("index.json"), as_json(serde_json::to_vec(&index))?).map_err(failed)?;
    Ok(digest)
}
