//! Shows what a component is before anybody runs it: its digest, its imports, its size and what it may cost.

use std::process::ExitCode;

use anyhow::{Context, Result};
use keepline::{
    config::{Config, Shown},
    plugin::{BUNDLED, Inspection, Measured, inspect},
};
use serde_json::{Map, Value, json};

use crate::{
    app::{self, PinnedPlugin, PluginSource},
    terminal,
};

/// The world that this host provides, of `wit/world.wit`, in the version of that file.
const WORLD: &str = concat!("keepline:memory/memory-filter@", include_str!(concat!(env!("OUT_DIR"), "/wit_version")));

/// A component as this host sees it.
pub struct Picture {
    /// What it was named.
    pub name: String,
    pub pin: Option<PinnedPlugin>,
    pub found: Inspection,
    /// The limits in effect while it runs.
    pub allowed: Vec<Shown>,
}

impl Picture {
    /// Looks at a component, the bundled filter by default, without running any of it.
    pub fn of(source: Option<&PluginSource>, config: &Config) -> Result<Self> {
        let sandbox = app::configured_sandbox(config)?;
        let is_limit = |row: &Shown| row.name.starts_with("sandbox_") || row.name == "store_timeout_ms";
        let allowed = config.shown().into_iter().filter(is_limit).collect();
        let Some(source) = source else {
            let (name, found) = ("the bundled component".to_owned(), inspect(BUNDLED, &sandbox)?);
            return Ok(Self { name, pin: None, found, allowed });
        };
        let name = source.to_string();
        let read = source.read(&sandbox.plugin).with_context(|| name.clone())?;
        let found = inspect(&read.bytes, &sandbox).with_context(|| name.clone())?;
        Ok(Self { name, pin: read.pin, found, allowed })
    }

    /// A component that would not be loaded ends with the exit code of a plugin error.
    pub fn exit_code(&self) -> ExitCode {
        if self.found.refusal.is_none() { ExitCode::SUCCESS } else { ExitCode::from(3) }
    }

    pub fn print(&self, as_json: bool) -> Result<()> {
        if as_json { terminal::print_indented_json(&self.json()) } else { self.print_text() }
    }

    fn json(&self) -> Value {
        let Self { name, pin, found, allowed } = self;
        let allowed: Map<String, Value> = allowed.iter().map(|row| (row.name.clone(), row.value.clone())).collect();
        json!({
            "plugin": name,
            "pin": pin,
            "size": found.size,
            "sha256": found.sha256,
            "imports": found.imports,
            "trapping": found.trapping,
            "exports": found.exports,
            "limits": found.measured.iter().map(limit_json).collect::<Vec<_>>(),
            "sandbox": allowed,
            "world": found.refusal.is_none().then_some(WORLD),
            "loads": found.refusal.is_none(),
            "refusal": found.refusal,
        })
    }

    fn print_text(&self) -> Result<()> {
        let Self { name, pin, found, allowed } = self;
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
        if let Some(pin) = pin {
            lines.push(format!("{:<9}as {}, of {}", "pinned", pin.name, pin.source));
        }
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
            let limit = if measured.is_near_limit() {
                format!("{} (near)", measured.limit)
            } else {
                measured.limit.to_string()
            };
            let (found, option) = (measured.found.to_string(), measured.measure.option().to_owned());
            [measured.measure.name().to_owned(), found, limit, option]
        });
        terminal::print_table(["Contents", "Found", "Limit", "Option"], rows.collect())?;
        let rows = allowed.iter().map(|row| {
            let value = row.value.as_str().map_or_else(|| row.value.to_string(), str::to_owned);
            [row.about.strip_prefix("Sandbox: ").unwrap_or(row.about).to_owned(), value, row.name.clone()]
        });
        terminal::print_table(["At work", "Limit", "Option"], rows.collect())
    }
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
