//! `keepline inspect`: describes a component without running it.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::Args;
use keepline::plugin::{BUNDLED, Inspection, Measured, inspect, read};
use serde_json::{Value, json};

use crate::{app, args::GlobalArguments, args::help::JSON_HELP, terminal};

#[derive(Debug, Args)]
pub struct InspectArguments {
    /// The component; defaults to that of --plugin, else the bundled one
    #[arg(value_name = "PLUGIN")]
    pub file: Option<PathBuf>,
    #[arg(long, help = JSON_HELP)]
    pub json: bool,
}

/// The world that this host provides, of `wit/world.wit`.
const WORLD: &str = "keepline:memory/memory-filter@0.2.0";

/// A component that would not be loaded ends with the exit code of a plugin error.
pub fn main(global: &GlobalArguments, arguments: &InspectArguments) -> Result<ExitCode> {
    let sandbox = app::configured_sandbox(&app::load_config(global)?)?;
    let file = arguments.file.clone().or_else(|| app::plugin_file(global));
    let (name, found) = match &file {
        None => ("the bundled component".to_owned(), inspect(BUNDLED, &sandbox)?),
        Some(path) => {
            let found = read(path, &sandbox.plugin)
                .and_then(|bytes| inspect(&bytes, &sandbox))
                .with_context(|| path.display().to_string())?;
            (path.display().to_string(), found)
        }
    };
    if arguments.json {
        print_inspection_json(&name, &found)?
    } else {
        print_inspection_text(&name, &found)?
    }
    Ok(if found.refusal.is_none() { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

fn print_inspection_json(name: &str, found: &Inspection) -> Result<()> {
    let all = json!({
        "plugin": name,
        "size": found.size,
        "sha256": found.sha256,
        "imports": found.imports,
        "trapping": found.trapping,
        "exports": found.exports,
        "limits": found.measured.iter().map(limit_json).collect::<Vec<_>>(),
        "world": found.refusal.is_none().then_some(WORLD),
        "loads": found.refusal.is_none(),
        "refusal": found.refusal,
    });
    terminal::print_indented_json(&all)
}

fn limit_json(measured: &Measured) -> Value {
    json!({
        "name": measured.measure.name(),
        "found": measured.found,
        "limit": measured.limit,
        "option": measured.measure.option(),
        "near": measured.is_near_limit(),
    })
}

fn print_inspection_text(name: &str, found: &Inspection) -> Result<()> {
    let names = |heading: &str, names: &[String]| {
        let mut lines = Vec::new();
        for (at, name) in names.iter().enumerate() {
            lines.push(format!("{:<9}{name}", if at == 0 { heading } else { "" }));
        }
        if lines.is_empty() { vec![format!("{heading:<9}nothing")] } else { lines }
    };
    let mut lines = vec![
        format!("{:<9}{name}", "plugin"),
        format!("{:<9}{} bytes", "size", found.size),
        format!("{:<9}{}", "sha256", found.sha256),
    ];
    lines.extend(names("imports", &found.imports));
    if !found.trapping.is_empty() {
        lines.extend(names("traps", &found.trapping));
    }
    lines.extend(names("exports", &found.exports));
    match &found.refusal {
        None => lines.push(format!("{:<9}yes, as {WORLD}", "loads")),
        Some(why) => lines.push(format!("{:<9}no: {why}", "loads")),
    }
    terminal::print_line(&terminal::escape_unprintable(&lines.join("\n")))?;
    let rows = found.measured.iter().map(|measured| {
        let limit =
            if measured.is_near_limit() { format!("{} (near)", measured.limit) } else { measured.limit.to_string() };
        [measured.measure.name().to_owned(), measured.found.to_string(), limit, measured.measure.option().to_owned()]
    });
    terminal::print_table(["Contents", "Found", "Limit", "Option"], rows.collect())
}
