//! What was published for each version of the contract: files in `data/ladder/`, one folder a version.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The filter of a version, in its folder.
pub const FILTER: &str = "keepline.wasm";
/// The memory store of a version, in its folder.
pub const STORE: &str = "memory-store.wasm";

/// A version of the contract, and what was published for it.
pub struct Rung {
    /// As the package has it: `0.3.0`.
    pub version: String,
    /// A component of the world `memory-filter`.
    pub filter: Vec<u8>,
    /// A component of the world `store-provider`.
    pub store: Vec<u8>,
}

/// The folder with all versions.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/ladder")
}

/// The version of the contract in `wit/`.
pub fn contract_version() -> String {
    let world = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit/lanes.wit")).unwrap();
    let version = world.split_once("package keepline:memory@").unwrap().1.split(';').next().unwrap();
    version.to_owned()
}

/// All that was published, oldest first.
pub fn published() -> Vec<Rung> {
    let versions = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut rungs: Vec<_> = versions
        .map(|path| Rung {
            version: path.file_name().unwrap().to_str().unwrap().to_owned(),
            filter: fs::read(path.join(FILTER)).unwrap(),
            store: fs::read(path.join(STORE)).unwrap(),
        })
        .collect();
    rungs.sort_by(|one, other| one.version.cmp(&other.version));
    rungs
}
