//! Says which process compiles plugins.

use std::{
    env,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

/// Who compiles plugins. The bundled filter is always compiled in this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compiler {
    /// This process, one function at a time. [`PluginLimits`](super::PluginLimits) bound what that takes, but for the limits of time and memory,
    /// which only a process of its own can have.
    #[default]
    InProcess,
    /// A process of its own, which may take as much time and memory as [`PluginLimits`](super::PluginLimits) say.
    Process(CompilerCommand),
}

/// A command that calls [`serve_compiler`](crate::plugin::serve_compiler) with the arguments that follow its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompilerCommand {
    /// The program.
    pub program: PathBuf,
    /// Its own arguments.
    pub arguments: Vec<OsString>,
}

impl Compiler {
    /// This program, which calls [`serve_compiler`](crate::plugin::serve_compiler) when its first arguments are these.
    ///
    /// # Errors
    /// When the system does not tell which program this is.
    pub fn this_program(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> io::Result<Self> {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Ok(Self::Process(CompilerCommand { program: running_program()?, arguments }))
    }
}

/// The running program, even if its file has been replaced meanwhile by a version that compiles differently.
pub(crate) fn running_program() -> io::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() { Ok(running.to_owned()) } else { env::current_exe() }
}
