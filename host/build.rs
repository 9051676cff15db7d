//! Builds the filter as a component, for the library to bundle: `$OUT_DIR/keepline.wasm`.

#[path = "build/component.rs"]
mod component;

use std::{env, fs, path::Path, process::exit};

fn main() {
    for input in ["build", "build.rs", "../guest/src", "../guest/Cargo.toml", "../wit", "../Cargo.lock"] {
        println!("cargo::rerun-if-changed={input}");
    }
    if let Err(error) = bundle() {
        for line in error.lines() {
            println!("cargo::error={line}");
        }
        exit(1);
    }
}

fn bundle() -> Result<(), String> {
    let bytes = component::build(Path::new("../guest/Cargo.toml"), "keepline-filter")?;
    let out_dir = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    let file = Path::new(&out_dir).join("keepline.wasm");
    fs::write(&file, bytes).map_err(|error| format!("can't write {}: {error}", file.display()))
}
