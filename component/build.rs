//! Gets hold of the component: `$OUT_DIR/keepline.wasm`. In the repository it is built from `guest/`; in a package it
//! lies beside this file.

#[cfg(feature = "from-source")]
#[path = "build/component.rs"]
mod component;

use std::{env, fs, path::Path, process::exit};

/// Only packages have it.
const PACKAGED: &str = "Cargo.toml.orig";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let bytes = if Path::new(PACKAGED).exists() { packaged() } else { built() };
    if let Err(error) = bytes.and_then(|bytes| bundle(&bytes)) {
        for line in error.lines() {
            println!("cargo::error={line}");
        }
        exit(1);
    }
}

fn packaged() -> Result<Vec<u8>, String> {
    println!("cargo::rerun-if-changed=keepline.wasm");
    fs::read("keepline.wasm").map_err(|error| format!("this package lacks its component, keepline.wasm: {error}"))
}

#[cfg(feature = "from-source")]
fn built() -> Result<Vec<u8>, String> {
    for input in [
        "build",
        "../guest/src",
        "../guest/Cargo.toml",
        "../json/src",
        "../json/Cargo.toml",
        "../options/src",
        "../options/Cargo.toml",
        "../recall/src",
        "../recall/Cargo.toml",
        "../store-client/src",
        "../store-client/Cargo.toml",
        "../wit",
    ] {
        println!("cargo::rerun-if-changed={input}");
    }
    // Which hold the profile, and the versions.
    for input in ["../Cargo.toml", "../Cargo.lock"] {
        println!("cargo::rerun-if-changed={input}");
    }
    component::build(Path::new("../guest/Cargo.toml"), "keepline-filter", true)
}

#[cfg(not(feature = "from-source"))]
fn built() -> Result<Vec<u8>, String> {
    Err("without a package, the component has to be built: turn on the feature `from-source`".into())
}

fn bundle(bytes: &[u8]) -> Result<(), String> {
    let out_dir = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    let file = Path::new(&out_dir).join("keepline.wasm");
    // Other builds may hold the same file by another name.
    let _ = fs::remove_file(&file);
    fs::write(&file, bytes).map_err(|error| format!("can't write {}: {error}", file.display()))
}
