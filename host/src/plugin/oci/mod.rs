//! Reads and writes a component as an OCI image layout: a directory that registries' tools push and pull.
//!
//! The types are those of the CNCF for WebAssembly: a manifest with a config and one layer, which is the component.
//! Transport, registries and their passwords are left to tools such as skopeo, wkg and wash.

mod read;
mod write;

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};

pub use self::{read::read_layout, write::write_layout};
use super::{
    digest::is_sha256,
    error::{PluginError, printable_text},
};

const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE: &str = "application/vnd.wasm.config.v0+json";
const COMPONENT_TYPE: &str = "application/wasm";
const ARCHITECTURE: &str = "wasm";
const LAYOUT_VERSION: &str = "1.0.0";
const SCHEMA_VERSION: u32 = 2;
/// Begins a digest; 64 characters in base 16 follow.
const SHA256: &str = "sha256:";

/// The file `oci-layout`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Marker {
    image_layout_version: String,
}

/// The file `index.json`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    schema_version: u32,
    #[serde(default)]
    media_type: Option<String>,
    manifests: Vec<Descriptor>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    schema_version: u32,
    #[serde(default)]
    media_type: Option<String>,
    config: Descriptor,
    layers: Vec<Descriptor>,
    #[serde(skip_deserializing, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'static str, String>,
}

/// What a blob is, how long it is and what it is called by.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
    #[serde(skip_deserializing, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'static str, String>,
}

/// What is read of a config.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    architecture: String,
    layer_digests: Vec<String>,
}

/// The SHA-256 in a digest, in base 16 with small letters.
fn digest_hexadecimal(digest: &str) -> Option<&str> {
    digest.strip_prefix(SHA256).filter(|text| is_sha256(text))
}

fn fault(path: &Path, problem: impl ToString) -> PluginError {
    PluginError::Layout { path: path.to_owned(), problem: printable_text(problem) }
}
