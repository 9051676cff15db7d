//! `keepline config`: what is in force, and where each value came from.

use std::process::ExitCode;

use anyhow::Result;
use keepline::config::Shown;
use serde_json::{Value, json};

use crate::{
    cli::{Global, OutputArguments},
    setup, terminal,
};

/// Run it. The filter is asked for its own fields, so that a wrong one is told here as in a run.
pub fn main(global: &Global, arguments: &OutputArguments) -> Result<ExitCode> {
    let config = setup::config(global)?;
    let plugin = setup::plugin(global, &config)?;
    let keepline = setup::single_runtime()?.block_on(setup::keepline(plugin, &config))?;
    let host = config.shown();
    let filter = config.shown_filter(Some(&keepline.filter_options()));
    if arguments.json {
        let fields = |rows: &[Shown]| -> serde_json::Map<String, Value> {
            let entry = |row: &Shown| (row.name.clone(), json!({"value": row.value, "source": row.origin.to_string()}));
            rows.iter().map(entry).collect()
        };
        let all = json!({
            "profile": {"value": config.profile.name(), "source": config.profile_origin.to_string()},
            "host": fields(&host),
            "filter": fields(&filter),
        });
        terminal::print_line(&format!("{all:#}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let profile = ["profile".to_owned(), config.profile.name().to_owned(), config.profile_origin.to_string()];
    let fields = host.into_iter().chain(filter).map(|row| {
        let value = match row.value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        [row.name, value, row.origin.to_string()]
    });
    terminal::print_table(["Field", "Value", "Source"], std::iter::once(profile).chain(fields).collect())?;
    Ok(ExitCode::SUCCESS)
}
