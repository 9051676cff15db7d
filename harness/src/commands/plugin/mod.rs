//! Components: what they are, which of them are trusted, and the bundled ones for other hosts.
//!
//! `keepline plugin` pins the bytes of a component under a name. A pinned plugin is run only if it still has these bytes.

pub mod component;
pub mod inspect;
pub mod new;
mod picture;

use std::{ffi::OsString, process::ExitCode};

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use self::picture::Picture;
use crate::{
    app::{
        self, PinnedPlugin, PluginSource, TrustFile, check_plugin_name,
        error::{format_with_store_address, usage_error},
    },
    args::{GlobalArguments, help::JSON_HELP},
    operations::confirm::confirm,
    terminal,
};

#[derive(Debug, Args)]
pub struct PluginArguments {
    #[arg(long, global = true, help = JSON_HELP)]
    pub json: bool,
    #[command(subcommand)]
    pub command: PluginCommand,
}

/// What can be done with pinned plugins.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Show a component, and once that is confirmed, pin its bytes under a name: --plugin @NAME runs them and nothing else
    Add {
        /// Its name: 1 to 64 characters out of a-z, 0-9 and '-'
        name: String,
        /// The component: a file, or an OCI image layout (oci:DIR or oci:DIR@sha256:…); it stays where it is
        #[arg(value_name = "PLUGIN")]
        component: OsString,
        /// Pin it without asking
        #[arg(long)]
        yes: bool,
    },
    /// List the pinned plugins
    List,
    /// Show a pinned plugin: what it imports, and what it may cost
    Show {
        /// Its name
        #[arg(value_name = "NAME")]
        pinned: String,
    },
    /// Check that pinned plugins have not changed; the exit code is 3 if one has
    Verify {
        /// Their names [default: all]
        #[arg(value_name = "NAME")]
        pinned: Vec<String>,
    },
    /// Remove a pin; the component's file stays
    Remove {
        /// Its name
        #[arg(value_name = "NAME")]
        pinned: String,
    },
}

pub fn main(global: &GlobalArguments, arguments: &PluginArguments) -> Result<ExitCode> {
    let trusted = app::trust_file(global)?;
    let as_json = arguments.json;
    match &arguments.command {
        PluginCommand::Add { name, component, yes } => {
            if as_json && !yes {
                return Err(usage_error("with --json nobody is asked: use --yes to confirm"));
            }
            let source = app::parse_source(global, component)?;
            return add(global, &trusted, name, &source, *yes, as_json);
        }
        PluginCommand::List => list(&trusted.read()?, as_json)?,
        PluginCommand::Show { pinned } => {
            let source = PluginSource::Pinned { name: pinned.clone(), trusted };
            let picture = Picture::of(Some(&source), &app::load_config(global)?)?;
            picture.print(as_json)?;
            return Ok(picture.exit_code());
        }
        PluginCommand::Verify { pinned } => return verify(global, &trusted, pinned, as_json),
        PluginCommand::Remove { pinned } => {
            trusted.remove(pinned)?;
            if as_json {
                terminal::print_json(&json!({"name": pinned, "removed": true}))?;
            } else {
                terminal::print_note(&format!("{pinned} is no longer pinned"));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn add(
    global: &GlobalArguments,
    trusted: &TrustFile,
    name: &str,
    source: &PluginSource,
    yes: bool,
    as_json: bool,
) -> Result<ExitCode> {
    check_plugin_name(name)?;
    // A person isn't asked in vain.
    if let Some(other) = trusted.read()?.iter().find(|plugin| plugin.name == name) {
        return Err(usage_error(other.taken()));
    }
    let place = source.to_pin()?;
    let mut picture = Picture::of(Some(source), &app::load_config(global)?)?;
    if let Some(refusal) = &picture.found.refusal {
        picture.print(as_json)?;
        let message = format!("{name} was not pinned, because it would not be loaded: {refusal}");
        terminal::print_error_with_code("plugin", &message);
        return Ok(picture.exit_code());
    }
    let pin = PinnedPlugin { name: name.to_owned(), sha256: picture.found.sha256.clone(), source: place };
    if !yes {
        picture.print(false)?;
        confirm(&format!("{name} would stand for this component"), "\"yes\"", "yes", "nothing was pinned")?;
    }
    trusted.add(pin.clone())?;
    if yes {
        picture.pin = Some(pin);
        picture.print(as_json)?;
    }
    if !as_json {
        let path = trusted.path().display();
        terminal::print_note(&format!("{name} is pinned in {path}: use it with --plugin @{name}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn list(plugins: &[PinnedPlugin], as_json: bool) -> Result<()> {
    if as_json {
        return terminal::print_json(&json!({"plugins": plugins}));
    }
    let row = |plugin: &PinnedPlugin| [&plugin.name, &plugin.sha256, &plugin.source].map(String::to_owned);
    terminal::print_table(["Name", "SHA-256", "Source"], plugins.iter().map(row).collect())
}

fn verify(global: &GlobalArguments, trusted: &TrustFile, names: &[String], as_json: bool) -> Result<ExitCode> {
    let plugins = match names {
        [] => trusted.read()?,
        names => names.iter().map(|name| trusted.find(name)).collect::<Result<_>>()?,
    };
    let limits = app::configured_sandbox(&app::load_config(global)?)?.plugin;
    let mut results = Vec::new();
    for plugin in plugins {
        let source = PluginSource::Pinned { name: plugin.name.clone(), trusted: trusted.clone() };
        let problem = source.read(&limits).err();
        results.push((plugin, problem.map(|error| format_with_store_address(&error))));
    }
    if as_json {
        let result = |(plugin, problem): &(PinnedPlugin, Option<String>)| -> Value {
            let PinnedPlugin { name, sha256, source } = plugin;
            json!({"name": name, "sha256": sha256, "source": source, "unchanged": problem.is_none(), "problem": problem})
        };
        terminal::print_json(&json!({"plugins": results.iter().map(result).collect::<Vec<_>>()}))?;
    } else {
        let row = |(plugin, problem): &(PinnedPlugin, Option<String>)| {
            let state = if problem.is_none() { "unchanged" } else { "refused" };
            [plugin.name.clone(), state.to_owned(), plugin.source.clone()]
        };
        terminal::print_table(["Name", "State", "Source"], results.iter().map(row).collect())?;
        for problem in results.iter().filter_map(|(_, problem)| problem.as_ref()) {
            terminal::print_error_with_code("plugin", problem);
        }
    }
    let is_clean = results.iter().all(|(_, problem)| problem.is_none());
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::from(3) })
}
