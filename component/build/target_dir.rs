//! Finds where the build scripts build components: beside the profile's folder in the workspace's target directory.

use std::{env, path::PathBuf};

/// `target/[triple/]wasm`, found from `OUT_DIR` (`target/[triple/]profile/build/package-hash/out`).
pub fn wasm_target_dir() -> Result<PathBuf, String> {
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let target = out_dir.ancestors().nth(4).ok_or_else(|| format!("OUT_DIR is {out_dir:?}, in no target directory"))?;
    Ok(target.join("wasm"))
}
