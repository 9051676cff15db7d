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

impl Rung {
    /// A filter and a store of this build.
    pub fn of_this_version(filter: &[u8], store: &[u8]) -> Self {
        Self { version: "this build".to_owned(), filter: filter.to_vec(), store: store.to_vec() }
    }

    /// A filter and a store of the version that comes after this one: what is added to the contract changes the version in the
    /// names of all interfaces, and nothing else of those that were there.
    pub fn of_next_version(filter: &[u8], store: &[u8]) -> Self {
        let version = contract_version();
        let (rest, patch) = version.rsplit_once('.').unwrap();
        let next = format!("{rest}.{}", patch.parse::<u32>().unwrap() + 1);
        assert_eq!(next.len(), version.len(), "names of another length are not put in their place");
        let renamed = |component| with_text_replaced(component, &format!("@{version}"), &format!("@{next}"));
        Self { filter: renamed(filter), store: renamed(store), version: next }
    }
}

fn with_text_replaced(component: &[u8], old: &str, new: &str) -> Vec<u8> {
    let mut bytes = component.to_vec();
    let mut rest = bytes.as_mut_slice();
    while let Some(at) = rest.windows(old.len()).position(|window| window == old.as_bytes()) {
        rest[at..at + new.len()].copy_from_slice(new.as_bytes());
        rest = &mut rest[at + new.len()..];
    }
    assert_ne!(bytes, component, "it has no {old}");
    bytes
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
