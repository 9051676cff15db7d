//! Errors of loading a plugin.

use std::{io, path::PathBuf};

use crate::{
    contract::IMPORTS,
    logging::{MAX_MESSAGE, make_printable},
    sandbox::Measured,
};

/// Why a plugin can't be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// The file can't be read, or is no regular file.
    #[error("can't read the plugin {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It can't be read from an OCI image layout, or written as one.
    #[error("the OCI image layout {}: {problem}", path.display())]
    Layout {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The bytes are not those that were pinned.
    #[error("its SHA-256 is {found}, but {pinned} was pinned")]
    Changed {
        /// The SHA-256 that was pinned, in base 16.
        pinned: String,
        /// That of the bytes.
        found: String,
    },
    /// The bytes are no component.
    #[error("not a WebAssembly component: {0}")]
    NotAComponent(String),
    /// It is larger than [`PluginLimits`](super::PluginLimits) allow.
    #[error(
        "refused: the plugin has {} {} or more; at most {} are allowed ({} raises that limit)",
        .0.found, .0.measure.name(), .0.limit, .0.measure.option()
    )]
    TooLarge(Measured),
    /// It instantiates something of unknown size.
    #[error(
        "refused: the plugin instantiates a component that it is passed or that another one exports: its size is unknown"
    )]
    Unbounded,
    /// To compile it took more processor time, or twice as long, as allowed.
    #[error(
        "refused: compiling the plugin takes longer than {limit_ms} ms of processor time (plugin_compile_ms raises \
         that limit)"
    )]
    CompileTime {
        /// What is allowed.
        limit_ms: u128,
    },
    /// To compile it took more memory than allowed.
    #[error(
        "refused: compiling the plugin takes more than {limit_bytes} bytes of memory (plugin_compile_memory_bytes \
         raises that limit)"
    )]
    CompileMemory {
        /// What is allowed.
        limit_bytes: u64,
    },
    /// It asks for more than the contract's imports: the names of those, each printable and 256 bytes long at most.
    #[error("refused: the plugin imports {}; this host provides only {}", join_names(.0), join_names(&IMPORTS))]
    ForbiddenImports(Vec<String>),
    /// It does not fit the contract.
    #[error("the plugin does not fit the world keepline:memory/memory-filter: {0}")]
    Misfit(String),
    /// wasmtime failed where it should have refused the plugin.
    #[error("the plugin can't be compiled because of a defect in the WebAssembly engine: {0}")]
    EngineDefect(String),
    /// Others could have put code into the directory of compiled code.
    #[error(
        "compiled code in {} can't be trusted: {problem}. {remedy}, or set cache_dir to another directory or to \"off\"",
        path.display()
    )]
    UntrustedCache {
        /// The directory or the file at fault.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do about it: `chmod 700 DIRECTORY`.
        remedy: String,
    },
    /// wasmtime can't be set up as wanted.
    #[error("can't set up the sandbox: {0}")]
    Sandbox(String),
}

/// An engine's message about untrusted bytes, which may hold names from them, as one line of bounded length.
pub(super) fn printable_text(problem: impl ToString) -> String {
    let mut text = problem.to_string();
    make_printable(&mut text, MAX_MESSAGE);
    text
}

/// A name that a component gives to what it imports or exports: one line, and no longer than such names are. Those of
/// addresses (`url=<…>`) may hold anything.
pub(super) fn printable_name(name: &str) -> String {
    const MOST: usize = 256;
    let mut name = name.to_owned();
    make_printable(&mut name, MOST);
    name
}

/// Names in a message that has to stay readable.
fn join_names(names: &[impl AsRef<str>]) -> String {
    const MOST: usize = 12;
    let mut shown: Vec<_> = names.iter().take(MOST).map(|name| printable_name(name.as_ref())).collect();
    if let Some(more @ 1..) = names.len().checked_sub(MOST) {
        shown.push(format!("and {more} more"));
    }
    shown.join(", ")
}
