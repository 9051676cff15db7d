//! `keepline new plugin`: makes a project that builds a filter of one's own.
//!
//! It holds the sources of the bundled filter, the contract and the host kit of this build, so it needs nothing but Rust. The
//! folder appears under its name when it is whole, and not at all otherwise.

use std::{fs, io, os::unix::fs::PermissionsExt as _, path::Path, process::ExitCode};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};

use crate::{app::error::usage_error, terminal};

/// The files of a project, made by build.rs: each one's name, and what is in it.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/plugin_project.rs"));
/// Stands for the project's name in its own files.
const PLACEHOLDER: &str = "PLUGIN_NAME";
/// What is here is of this build, and not the author's.
const BUNDLED_FOLDER: &str = "keepline/";

const NAME_CHARACTERS: usize = 64;
/// Crates that a project is built with, what cargo keeps for itself, and words of Rust.
const TAKEN: [&str; 64] = [
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "build",
    "component",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "incremental",
    "keepline",
    "keepline-filter",
    "keepline-json",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "plugin",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
    "serde-json",
    "static",
    "std",
    "struct",
    "super",
    "tempfile",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "unsafe",
    "use",
    "where",
    "while",
    "wit-component",
];

#[derive(Debug, Args)]
pub struct NewArguments {
    #[command(subcommand)]
    pub what: NewProject,
}

/// What can be made.
#[derive(Debug, Subcommand)]
pub enum NewProject {
    /// Make a project that builds a filter of your own: the example redacts card numbers before they are stored
    Plugin {
        /// Its name, and that of the new folder: 1 to 64 characters out of a-z, 0-9 and '-', the first a letter
        name: String,
    },
}

pub fn main(arguments: &NewArguments) -> Result<ExitCode> {
    let NewProject::Plugin { name } = &arguments.what;
    check_name(name)?;
    let folder = Path::new(name);
    if fs::symlink_metadata(folder).is_ok() {
        return Err(exists(name));
    }
    let failed = || format!("can't make the project {name}");
    // Beside it, so that it can be put in place by renaming. It is removed when this function fails.
    let open_to_umask = fs::Permissions::from_mode(0o777);
    let mut builder = tempfile::Builder::new();
    let staged = builder.prefix(".keepline-new-").permissions(open_to_umask).tempdir_in(".").with_context(failed)?;
    for (file, contents) in FILES {
        write(staged.path(), file, contents, name).with_context(|| format!("{}: {file}", failed()))?;
    }
    put_in_place(staged.path(), folder).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => exists(name),
        _ => anyhow::Error::from(error).context(failed()),
    })?;
    // What it was is the project now.
    let _ = staged.keep();
    terminal::print_note(&format!(
        "{name}/ is made: `cd {name}`, then `cargo run` builds {name}.wasm; README.md says more"
    ));
    Ok(ExitCode::SUCCESS)
}

fn check_name(name: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_allowed = (1..=NAME_CHARACTERS).contains(&name.len())
        && name.bytes().all(is_plain)
        && name.starts_with(|first: char| first.is_ascii_lowercase());
    if !is_allowed {
        return Err(usage_error(format!(
            "{name:?} is no plugin's name: 1 to {NAME_CHARACTERS} characters out of a-z, 0-9 and '-', the first a letter"
        )));
    }
    if TAKEN.contains(&name) {
        let message =
            format!("{name:?} is a word of Rust or a crate's that the project is built with: choose another name");
        return Err(usage_error(message));
    }
    Ok(())
}

fn exists(name: &str) -> anyhow::Error {
    usage_error(format!("{name} is there already: choose another name, or remove it"))
}

fn write(project: &Path, file: &str, contents: &[u8], name: &str) -> io::Result<()> {
    let path = project.join(file);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    match std::str::from_utf8(contents) {
        Ok(text) if !file.starts_with(BUNDLED_FOLDER) => fs::write(path, text.replace(PLACEHOLDER, name)),
        _ => fs::write(path, contents),
    }
}

/// Gives the folder its name, unless something has it by now.
fn put_in_place(staged: &Path, folder: &Path) -> io::Result<()> {
    match renameat_with(CWD, staged, CWD, folder, RenameFlags::NOREPLACE) {
        // Not all file systems know it. To rename by itself replaces nothing but an empty folder.
        Err(Errno::INVAL | Errno::NOSYS) => fs::rename(staged, folder),
        done => Ok(done?),
    }
}
