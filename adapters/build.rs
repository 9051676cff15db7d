//! Builds the adapters as components and composes the filter with them: `keepline-store-keyvalue.wasm`, and for each log
//! `keepline-kv-LOG.wasm` and `keepline-kv-http-LOG.wasm` in `$OUT_DIR`.

#[path = "../component/build/component.rs"]
mod component;
#[path = "../component/build/target_dir.rs"]
mod target_dir;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, exit},
};

/// The adapters that are logs.
const LOGS: [&str; 3] = ["log-stderr", "log-wasi-logging", "log-none"];

fn main() {
    for input in [
        "build.rs",
        "compose/src",
        "compose/Cargo.toml",
        "compose/Cargo.lock",
        "wit",
        "../component/build",
        "../wit",
        "../Cargo.toml",
        "../Cargo.lock",
        "../examples/stores/rust/src/convert.rs",
    ] {
        println!("cargo::rerun-if-changed={input}");
    }
    for adapter in ["store-keyvalue", "front-http"].iter().chain(&LOGS) {
        for input in ["src", "Cargo.toml", "Cargo.lock"] {
            println!("cargo::rerun-if-changed={adapter}/{input}");
        }
    }
    for folder in ["guest", "json", "options", "recall", "store-client", "stores"] {
        println!("cargo::rerun-if-changed=../{folder}/src");
        println!("cargo::rerun-if-changed=../{folder}/Cargo.toml");
    }
    if let Err(error) = build() {
        for line in error.lines() {
            println!("cargo::error={line}");
        }
        exit(1);
    }
}

fn build() -> Result<(), String> {
    let wasm = target_dir::wasm_target_dir()?;
    let adapter = |name: &str| {
        let manifest = Path::new(name).join("Cargo.toml");
        component::build(&wasm, &manifest, &format!("keepline-{name}"), true)
    };
    // As `component/` has built it, so that nothing is compiled twice.
    let filter = component::build(&wasm, Path::new("../guest/Cargo.toml"), "keepline-filter", true)?;
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let write = |name: &str, bytes: &[u8]| {
        let file = out_dir.join(format!("{name}.wasm"));
        fs::write(&file, bytes)
            .map(|()| file.clone())
            .map_err(|error| format!("can't write {}: {error}", file.display()))
    };
    let filter = write("keepline", &filter)?;
    let store = write("keepline-store-keyvalue", &adapter("store-keyvalue")?)?;
    let front = write("keepline-front-http", &adapter("front-http")?)?;
    for log in LOGS {
        let keyvalue = out_dir.join(format!("keepline-kv-{log}.wasm"));
        let log_file = write(&format!("keepline-{log}"), &adapter(log)?)?;
        compose(&wasm, &keyvalue, &filter, &[&store, &log_file])?;
        compose(&wasm, &out_dir.join(format!("keepline-kv-http-{log}.wasm")), &front, &[&keyvalue, &log_file])?;
    }
    Ok(())
}

/// Runs the composing program. Its target directory is its own: this one's is locked by the running cargo.
fn compose(wasm: &Path, output: &Path, socket: &Path, plugs: &[&Path]) -> Result<(), String> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["run", "--quiet", "--manifest-path", "compose/Cargo.toml", "--target-dir"])
        .arg(wasm)
        .arg("--")
        .arg(output)
        .arg(socket)
        .args(plugs)
        // The parent's are for the parent.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER");
    let done = cargo.output().map_err(|error| format!("can't start cargo: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("the filter can't be composed with its adapters:\n{}", String::from_utf8_lossy(&done.stderr)))
}
