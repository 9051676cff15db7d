//! Builds the misbehaving test guest as a component: `$OUT_DIR/hostile.wasm`.

#[path = "../component/build/component.rs"]
mod component;

use std::{env, fs, path::Path, process::exit};

fn main() {
    let inputs = [
        "build.rs",
        "../component/build",
        "guests/hostile/src",
        "guests/hostile/Cargo.toml",
        "guests/hostile/Cargo.lock",
        "../wit",
    ];
    for input in inputs {
        println!("cargo::rerun-if-changed={input}");
    }
    if let Err(error) = build() {
        for line in error.lines() {
            println!("cargo::error={line}");
        }
        exit(1);
    }
}

fn build() -> Result<(), String> {
    let bytes = component::build(Path::new("guests/hostile/Cargo.toml"), "keepline-hostile", false)?;
    let out_dir = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    let file = Path::new(&out_dir).join("hostile.wasm");
    fs::write(&file, bytes).map_err(|error| format!("can't write {}: {error}", file.display()))
}
