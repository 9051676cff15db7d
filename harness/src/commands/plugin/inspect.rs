//! `keepline inspect`: describes a component without running it.

use std::{ffi::OsString, process::ExitCode};

use anyhow::Result;
use clap::Args;

use super::picture::Picture;
use crate::{
    app,
    args::{GlobalArguments, help::JSON_HELP},
};

#[derive(Debug, Args)]
pub struct InspectArguments {
    /// The component: a file, oci:DIR[@sha256:…], or the @NAME of a pinned plugin; defaults to that of --plugin, else the bundled one
    #[arg(value_name = "PLUGIN")]
    pub component: Option<OsString>,
    #[arg(long, help = JSON_HELP)]
    pub json: bool,
}

/// A component that would not be loaded ends with the exit code of a plugin error.
pub fn main(global: &GlobalArguments, arguments: &InspectArguments) -> Result<ExitCode> {
    let config = app::load_config(global)?;
    let source = match &arguments.component {
        Some(named) => Some(app::parse_source(global, named)?),
        None => app::plugin_source(global)?,
    };
    let picture = Picture::of(source.as_ref(), &config)?;
    picture.print(arguments.json)?;
    Ok(picture.exit_code())
}
