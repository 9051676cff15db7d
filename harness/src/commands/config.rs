//! `keepline config`: shows the effective configuration and where each value came from.

use std::{process::ExitCode, sync::Arc};

use anyhow::Result;
use clap::Args;
use keepline::{
    config::{Config, Shown},
    store::MemoryStore,
};
use serde_json::{Value, json};

use crate::{
    app::{self, error::usage_error, runtime},
    args::{GlobalArguments, help::JSON_HELP},
    terminal,
};

#[derive(Debug, Args)]
pub struct ConfigArguments {
    #[arg(long, help = JSON_HELP)]
    pub json: bool,
    /// Print the ACL command for a least-privilege Redis user instead, for redis-cli (with --json: as a list of words)
    ///
    /// It fits the configured key_prefix, user and database. Replace PASSWORD with a password; before Redis 7, omit
    /// +pexpiretime.
    #[arg(long)]
    pub acl: bool,
    /// With --acl: include what `keepline migrate --scan` needs
    ///
    /// Grant it only for as long as needed: SCAN reveals the names of all keys in the database, including other tenants'.
    #[arg(long, requires = "acl")]
    pub scan: bool,
}

/// The ACL's user when none is configured: restricting the default user could lock its owner out.
const ACL_USER: &str = "keepline";

/// Asks the filter for its own fields, so that a wrong one is an error here as in a run. The store is not touched, and no
/// directory is created.
pub fn main(global: &GlobalArguments, arguments: &ConfigArguments) -> Result<ExitCode> {
    let config = app::load_config(global)?;
    let plugin = app::load_plugin(global, &config)?;
    let nowhere = Arc::new(MemoryStore::default());
    let keepline = runtime::build_single_threaded()?.block_on(app::open_keepline_on(nowhere, plugin, &config))?;
    if arguments.acl {
        let command = acl_command(&config, arguments.scan)?;
        if arguments.json {
            terminal::print_json(&command)?;
        } else {
            terminal::print_line(&quote_command_words(&command)?)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
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
        terminal::print_indented_json(&all)?;
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

/// The command that creates a Redis user with the least permissions that the configured store needs.
fn acl_command(config: &Config, to_scan: bool) -> Result<Vec<String>> {
    let options = config.redis_options();
    let user = options.acl_user()?.unwrap_or_else(|| ACL_USER.to_owned());
    let mut command = vec!["ACL".to_owned(), "SETUSER".to_owned(), user, "on".to_owned(), ">PASSWORD".to_owned()];
    command.extend(if to_scan { options.least_acl_to_scan()? } else { options.least_acl()? });
    Ok(command)
}

/// Quotes words so that redis-cli and a shell read them alike.
fn quote_command_words(words: &[String]) -> Result<String> {
    let is_plain = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-+_.:@".contains(&byte));
    let quote = |word: &String| match word {
        word if word.chars().any(|c| c.is_control() || matches!(c, '\'' | '\\')) => {
            Err(usage_error("this user name can't be quoted on a command line; use --json"))
        }
        word if is_plain(word) => Ok(word.clone()),
        word => Ok(format!("'{word}'")),
    };
    let words: Result<Vec<_>> = words.iter().map(quote).collect();
    Ok(words?.join(" "))
}
