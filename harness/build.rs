//! Lists the files of a plugin's project, which `keepline new plugin` writes: `$OUT_DIR/plugin_project.rs`. And encodes the
//! contract as a WIT package, `$OUT_DIR/keepline-wit.wasm`, with its version, `$OUT_DIR/wit_version`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::exit,
};

/// The crates that a plugin is built from, which import each other by their places beside `wit/`.
const CRATES: [&str; 5] = ["guest", "json", "options", "recall", "store-client"];

/// What marks the parts of the workspace's manifest.
const PACKAGE: &str = "[workspace.package]";
const PROFILES: &str = "[profile.release]";

fn main() {
    if let Err(error) = list_project().and_then(|()| encode_contract()) {
        println!("cargo::error={error}");
        exit(1);
    }
}

fn encode_contract() -> Result<(), String> {
    let failed = |error| format!("the contract in wit/ can't be encoded: {error:#}");
    let mut resolve = wit_parser::Resolve::default();
    let (package, _) = resolve.push_dir("../wit").map_err(failed)?;
    let bytes = wit_component::encode(&resolve, package).map_err(failed)?;
    let version = resolve.packages.get(package).and_then(|package| package.name.version.as_ref());
    let version = version.ok_or("the contract in wit/ has no version")?;
    let out_dir = out_dir()?;
    write(&out_dir.join("keepline-wit.wasm"), bytes)?;
    write(&out_dir.join("wit_version"), version.to_string())
}

fn out_dir() -> Result<PathBuf, String> {
    env::var_os("OUT_DIR").map(PathBuf::from).ok_or_else(|| "OUT_DIR is not set".to_owned())
}

fn list_project() -> Result<(), String> {
    let out_dir = out_dir()?;
    let root = fs::canonicalize("..").map_err(|error| format!("can't find the repository: {error}"))?;
    // As a name in the project, and where its contents are.
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    let mut add = |inside: &str, place: &Path| add_files(inside, place, &mut files);
    add("", &root.join("harness/plugin"))?;
    add("keepline/wit", &root.join("wit"))?;
    add("keepline/conformance/host", &root.join("conformance/host"))?;
    add("keepline/component.rs", &root.join("component/build/component.rs"))?;
    // The versions that this build was tested with.
    add("Cargo.lock", &root.join("Cargo.lock"))?;
    for name in CRATES {
        add(&format!("keepline/{name}/Cargo.toml"), &root.join(name).join("Cargo.toml"))?;
        add(&format!("keepline/{name}/src"), &root.join(name).join("src"))?;
    }
    let manifest = out_dir.join("plugin_workspace.toml");
    write(&manifest, workspace_manifest(&root.join("Cargo.toml"))?)?;
    files.push(("keepline/Cargo.toml".to_owned(), manifest));
    files.sort();
    let rows = files.iter().map(|(name, place)| {
        let name = name.strip_suffix(".template").unwrap_or(name).replace("gitignore", ".gitignore");
        format!("    ({name:?}, include_bytes!({:?})),\n", place.display().to_string())
    });
    write(&out_dir.join("plugin_project.rs"), format!("&[\n{}]\n", rows.collect::<String>()))
}

/// The workspace of those crates: versions, lints and dependencies as in this one.
fn workspace_manifest(path: &Path) -> Result<String, String> {
    println!("cargo::rerun-if-changed={}", path.display());
    let text = fs::read_to_string(path).map_err(|error| format!("can't read {}: {error}", path.display()))?;
    let kept = text.split_once(PACKAGE).and_then(|(_, rest)| rest.split_once(PROFILES));
    let (kept, _) = kept.ok_or_else(|| format!("{} has no {PACKAGE} before {PROFILES}", path.display()))?;
    // What is said of profiles stands before them.
    let kept = kept.trim_end().rsplit_once("\n\n").map_or(kept, |(kept, _)| kept);
    Ok(format!("[workspace]\nresolver = \"3\"\nmembers = {CRATES:?}\n\n{PACKAGE}{kept}\n"))
}

/// A file, or all files of a folder.
fn add_files(inside: &str, place: &Path, files: &mut Vec<(String, PathBuf)>) -> Result<(), String> {
    println!("cargo::rerun-if-changed={}", place.display());
    if !place.is_dir() {
        files.push((inside.to_owned(), place.to_owned()));
        return Ok(());
    }
    let failed = |error| format!("can't read {}: {error}", place.display());
    for entry in fs::read_dir(place).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().into_string().map_err(|name| format!("{name:?} is not UTF-8"))?;
        let name = if inside.is_empty() { name } else { format!("{inside}/{name}") };
        add_files(&name, &entry.path(), files)?;
    }
    Ok(())
}

fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<(), String> {
    fs::write(path, contents).map_err(|error| format!("can't write {}: {error}", path.display()))
}
