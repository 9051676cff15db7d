//! Composes components: `compose OUTPUT SOCKET PLUG…`. What the plugs export takes the place of what the socket imports; what is
//! left is imported by the whole.

use std::{env, fs, path::PathBuf};

use anyhow::{Context as _, Result, anyhow};
use wac_graph::{CompositionGraph, EncodeOptions, PackageId, plug, types::Package};

fn main() -> Result<()> {
    let mut files = env::args_os().skip(1).map(PathBuf::from);
    let (Some(output), Some(socket)) = (files.next(), files.next()) else {
        return Err(anyhow!("usage: compose OUTPUT SOCKET PLUG…"));
    };
    let mut graph = CompositionGraph::new();
    let mut register = |file: PathBuf| -> Result<PackageId> {
        let bytes = fs::read(&file).with_context(|| format!("can't read {}", file.display()))?;
        let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or("component");
        let package = Package::from_bytes(&format!("composed:{name}"), None, bytes, graph.types_mut())?;
        Ok(graph.register_package(package)?)
    };
    let socket = register(socket)?;
    let plugs = files.map(register).collect::<Result<Vec<_>>>()?;
    plug(&mut graph, plugs, socket)?;
    let composed = graph.encode(EncodeOptions::default())?;
    fs::write(&output, composed).with_context(|| format!("can't write {}", output.display()))
}
