//! Builds the misbehaving test guests and the memory store as components: `hostile.wasm`, `hostile-pipelines.wasm` and
//! `memory-store.wasm` in `$OUT_DIR`.

#[path = "../component/build/component.rs"]
mod component;
#[path = "../component/build/target_dir.rs"]
mod target_dir;

use std::{env, fs, path::Path, process::exit};

fn main() {
    let inputs = [
        "build.rs",
        "../component/build",
        "guests/hostile/src",
        "guests/hostile/Cargo.toml",
        "guests/hostile/Cargo.lock",
        "guests/hostile-pipelines/src",
        "guests/hostile-pipelines/Cargo.toml",
        "guests/hostile-pipelines/Cargo.lock",
        "../wit",
        "../examples/stores/rust/src",
        "../examples/stores/rust/Cargo.toml",
        "../examples/stores/rust/Cargo.lock",
        "../stores/src",
        "../stores/Cargo.toml",
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
    let out_dir = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    let wasm = target_dir::wasm_target_dir()?;
    for (manifest, package, file) in [
        ("guests/hostile/Cargo.toml", "keepline-hostile", "hostile.wasm"),
        ("guests/hostile-pipelines/Cargo.toml", "keepline-hostile-pipelines", "hostile-pipelines.wasm"),
        ("../examples/stores/rust/Cargo.toml", "memory-store", "memory-store.wasm"),
    ] {
        let file = Path::new(&out_dir).join(file);
        let bytes = component::build(&wasm, Path::new(manifest), package, false)?;
        fs::write(&file, bytes).map_err(|error| format!("can't write {}: {error}", file.display()))?;
    }
    Ok(())
}
