//! Builds the component: `cargo run` writes PLUGIN_NAME.wasm beside Cargo.toml, `cargo run -- FILE` another file.

#[path = "../keepline/component.rs"]
mod component;

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = env::args_os().nth(1).map_or_else(|| folder.join("PLUGIN_NAME.wasm"), PathBuf::from);
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| folder.join("target"), PathBuf::from);
    let built = component::build(&target.join("wasm"), &folder.join("Cargo.toml"), "plugin", false)?;
    fs::write(&output, &built).map_err(|error| format!("can't write {}: {error}", output.display()))?;
    println!("{}: {} bytes", output.display(), built.len());
    Ok(())
}
