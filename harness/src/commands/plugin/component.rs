//! `keepline component`: writes a bundled component, or the contract, to a file or an OCI image layout, for other hosts.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use keepline::plugin::{BUNDLED, BUNDLED_PIPELINES, write_layout};

use crate::{app::error::usage_error, terminal};

#[derive(Debug, Args)]
pub struct ComponentArguments {
    /// Output file, or - for standard output
    #[arg(long, short, value_name = "FILE", required_unless_present = "oci")]
    pub output: Option<PathBuf>,
    /// Output directory, new or empty: an OCI image layout to push to a registry; prints what --plugin takes
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub oci: Option<PathBuf>,
    /// Which component
    #[arg(long, value_enum, default_value_t = World::Filter)]
    pub world: World,
    /// The contract instead, as a WIT package: keepline:memory, with all that it uses
    #[arg(long, conflicts_with = "world")]
    pub wit: bool,
    /// With --world keyvalue and keyvalue-http: where the log goes [default: stderr]
    #[arg(long, value_enum)]
    pub log: Option<Log>,
}

/// Where the log of a component for hosts without Keepline's log goes.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Log {
    /// Standard error: wasi:cli/stderr
    Stderr,
    /// The host's log: wasi:logging, which wasmCloud lends
    WasiLogging,
    /// Nowhere: for hosts that lend neither
    None,
}

impl From<Log> for keepline_adapters::Log {
    fn from(log: Log) -> Self {
        match log {
            Log::Stderr => Self::Stderr,
            Log::WasiLogging => Self::WasiLogging,
            Log::None => Self::None,
        }
    }
}

/// The contract as a WIT package, made by build.rs, and its version.
const CONTRACT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/keepline-wit.wasm"));
const CONTRACT_VERSION: &str = include_str!(concat!(env!("OUT_DIR"), "/wit_version"));

/// What a bundled component is.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum World {
    /// Questions and answers: the world memory-filter
    Filter,
    /// Declared retrieval: the world pipelines
    Pipelines,
    /// The filter on wasi:keyvalue, for hosts that lend that and nothing of Keepline's, such as wasmtime and wasmCloud
    Keyvalue,
    /// The same behind HTTP, for `wasmtime serve` and the like: the world wasi:http/proxy
    KeyvalueHttp,
    /// The store on wasi:keyvalue alone: the world store-provider
    StoreKeyvalue,
}

pub fn main(arguments: &ComponentArguments) -> Result<ExitCode> {
    let log = arguments.log.map_or(keepline_adapters::Log::Stderr, Into::into);
    if arguments.log.is_some() && !matches!(arguments.world, World::Keyvalue | World::KeyvalueHttp) {
        return Err(usage_error(
            "--log is for --world keyvalue and keyvalue-http; other components import keepline:host/log or none",
        ));
    }
    let (component, title) = match arguments.world {
        _ if arguments.wit => (CONTRACT, "keepline-wit.wasm"),
        World::Filter => (BUNDLED, "keepline.wasm"),
        World::Pipelines => (BUNDLED_PIPELINES, "keepline-pipelines.wasm"),
        World::Keyvalue => (keepline_adapters::keyvalue(log), "keepline-kv.wasm"),
        World::KeyvalueHttp => (keepline_adapters::keyvalue_http(log), "keepline-kv-http.wasm"),
        World::StoreKeyvalue => (keepline_adapters::STORE_KEYVALUE, "keepline-store-keyvalue.wasm"),
    };
    if let Some(directory) = &arguments.oci {
        // The contract has a version of its own. Registries' tools for WIT read it as the tag.
        let version = if arguments.wit { CONTRACT_VERSION } else { env!("CARGO_PKG_VERSION") };
        let digest = write_layout(directory, component, title, version)?;
        terminal::print_line(&terminal::escape_unprintable(&format!("oci:{}@{digest}", directory.display())))?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = arguments.output.as_deref().context("neither a file nor a directory was named")?;
    if path.as_os_str() == "-" {
        if terminal::is_terminal_output() {
            return Err(usage_error("not writing a binary component to a terminal; give a file or a pipe"));
        }
        terminal::print_bytes(component)?;
        return Ok(ExitCode::SUCCESS);
    }
    std::fs::write(path, component).with_context(|| format!("can't write {}", path.display()))?;
    terminal::print_to_stderr(&format!("{}: {} bytes", path.display(), component.len()));
    Ok(ExitCode::SUCCESS)
}
