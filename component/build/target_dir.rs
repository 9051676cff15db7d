//! Finds where the build scripts build components: inside the workspace's target directory, one of its own.

use std::{env, path::PathBuf};

/// `target/wasm`, found from `OUT_DIR` (`target/[triple/]profile/build/package-hash/out`).
pub fn wasm_target_dir() -> Result<PathBuf, String> {
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let target = out_dir.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    Ok(target.unwrap_or(&out_dir).join("wasm"))
}
