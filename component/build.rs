//! Gets hold of the components: `$OUT_DIR/keepline.wasm`, the filter, and `$OUT_DIR/keepline-pipelines.wasm`. In the
//! repository they are built from `guest/` and `pipelines/`; in a package they lie beside this file.

#[cfg(feature = "from-source")]
#[path = "build/component.rs"]
mod component;
#[cfg(feature = "from-source")]
#[path = "build/target_dir.rs"]
mod target_dir;

use std::{env, fs, path::Path, process::exit};

/// Only packages have it.
const PACKAGED: &str = "Cargo.toml.orig";

/// The file that each component is in.
const FILTER: &str = "keepline.wasm";
const PIPELINES: &str = "keepline-pipelines.wasm";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let bundled = if Path::new(PACKAGED).exists() { packaged() } else { built() };
    if let Err(error) = bundled {
        for line in error.lines() {
            println!("cargo::error={line}");
        }
        exit(1);
    }
}

fn packaged() -> Result<(), String> {
    for file in [FILTER, PIPELINES] {
        println!("cargo::rerun-if-changed={file}");
        let bytes = fs::read(file).map_err(|error| format!("this package lacks its component, {file}: {error}"))?;
        bundle(file, &bytes)?;
    }
    Ok(())
}

#[cfg(feature = "from-source")]
fn built() -> Result<(), String> {
    for folder in ["guest", "json", "options", "pipelines", "recall", "store-client"] {
        println!("cargo::rerun-if-changed=../{folder}/src");
        println!("cargo::rerun-if-changed=../{folder}/Cargo.toml");
    }
    // The last two hold the profile, and the versions.
    for input in ["build", "../wit", "../Cargo.toml", "../Cargo.lock"] {
        println!("cargo::rerun-if-changed={input}");
    }
    let wasm = target_dir::wasm_target_dir()?;
    bundle(FILTER, &component::build(&wasm, Path::new("../guest/Cargo.toml"), "keepline-filter", true)?)?;
    bundle(PIPELINES, &component::build(&wasm, Path::new("../pipelines/Cargo.toml"), "keepline-pipelines", true)?)
}

#[cfg(not(feature = "from-source"))]
fn built() -> Result<(), String> {
    Err("without a package, the components have to be built: turn on the feature `from-source`".into())
}

fn bundle(name: &str, bytes: &[u8]) -> Result<(), String> {
    let out_dir = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    let file = Path::new(&out_dir).join(name);
    // Other builds may hold the same file by another name.
    let _ = fs::remove_file(&file);
    fs::write(&file, bytes).map_err(|error| format!("can't write {}: {error}", file.display()))
}
