//! `keepline key`: makes, lists and revokes the keys that a service asks for.

use std::{path::PathBuf, process::ExitCode, time::SystemTime};

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use keepline_service::{KeyFile, KeyRecord, KeySecret, Scope, TenantName};
use serde_json::{Value, json};

use crate::{
    app::{self, error::coded_error},
    args::help::JSON_HELP,
    terminal::{self, format_age, print_line, table::print_table},
};

#[derive(Debug, Args)]
pub struct KeyArguments {
    /// The file of keys [default: keys.json in ~/.local/share/keepline]
    #[arg(long, value_name = "FILE", global = true)]
    pub keys: Option<PathBuf>,
    #[arg(long, global = true, help = JSON_HELP)]
    pub json: bool,
    #[command(subcommand)]
    pub command: KeyCommand,
}

/// What can be done with keys.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a key, and print it: only its hash is kept, so this is the only time
    Create {
        /// What it may be used for (may be repeated): read, write (with read), admin (with both)
        #[arg(long, value_name = "SCOPE", default_value = "write")]
        scope: Vec<ScopeName>,
        /// The tenant whose memory it opens: 1 to 64 characters out of a-z, 0-9 and '-' [default: the configured store itself]
        #[arg(long, value_name = "NAME")]
        tenant: Option<TenantName>,
        /// The only user whose data it reaches [default: all]
        #[arg(long, value_name = "USER")]
        user: Option<String>,
        /// Whose definitions and data sets it uses
        #[arg(long, value_name = "NAME", default_value = KeyRecord::DEFAULT_PROJECT)]
        project: String,
        /// Whom or what it is for
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        note: String,
    },
    /// List the keys: ids, not secrets
    List,
    /// Revoke a key: services refuse it within a second, and its streams end
    Revoke {
        /// The key's id
        id: String,
    },
}

/// The scopes, each with what it is of no use without.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ScopeName {
    Read,
    Write,
    Admin,
}

impl ScopeName {
    fn scopes(self) -> &'static [Scope] {
        match self {
            Self::Read => &[Scope::Read],
            Self::Write => &[Scope::Read, Scope::Write],
            Self::Admin => &Scope::ALL,
        }
    }
}

pub fn main(arguments: &KeyArguments) -> Result<ExitCode> {
    let path = match &arguments.keys {
        Some(path) => path.clone(),
        None => app::data_folder()?.join("keys.json"),
    };
    let file = KeyFile::new(path);
    match &arguments.command {
        KeyCommand::Create { scope, tenant, user, project, note } => {
            let named: Vec<Scope> = scope.iter().flat_map(|scope| scope.scopes().iter().copied()).collect();
            let scopes: Vec<Scope> = Scope::ALL.into_iter().filter(|scope| named.contains(scope)).collect();
            let secret = KeySecret::generate()?;
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let record = KeyRecord {
                tenant: tenant.clone(),
                user: user.clone(),
                project: project.clone(),
                note: note.clone(),
                created_at_ms: u64::try_from(since.as_millis()).unwrap_or_default(),
                ..KeyRecord::new(&secret, &scopes)?
            };
            create(&file, record, &secret, arguments.json)?;
        }
        KeyCommand::List => list(&file.read()?, arguments.json)?,
        KeyCommand::Revoke { id } => {
            if !file.remove(id)? {
                let message =
                    format!("there is no key {id:?} in {}: `keepline key list` shows them", file.path().display());
                return Err(coded_error("not_found", message));
            }
            if arguments.json {
                terminal::print_json(&json!({"id": id, "revoked": true}))?;
            } else {
                terminal::print_note(&format!("{id} was revoked"));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn create(file: &KeyFile, record: KeyRecord, secret: &KeySecret, as_json: bool) -> Result<()> {
    let mut shown = record_json(&record)?;
    let id = record.id.clone();
    file.add(record)?;
    if as_json {
        if let Some(members) = shown.as_object_mut() {
            members.insert("key".to_owned(), secret.expose().into());
        }
        return terminal::print_json(&shown);
    }
    print_line(secret.expose())?;
    let path = file.path().display();
    terminal::print_note(&format!("{id} is in {path}; the key itself is shown only now"));
    terminal::print_note(&format!("use it with: keepline serve --keys {path}"));
    Ok(())
}

fn list(keys: &[KeyRecord], as_json: bool) -> Result<()> {
    if as_json {
        let keys: Vec<Value> = keys.iter().map(record_json).collect::<Result<_>>()?;
        return terminal::print_json(&json!({"keys": keys}));
    }
    let rows = keys.iter().map(|key| {
        let scopes: Vec<_> = key.scopes.iter().map(|scope| scope.name()).collect();
        let tenant = key.tenant.as_ref().map_or("-", TenantName::as_str);
        let made = if key.created_at_ms > 0 { format_age(key.created_at_ms) } else { "-".to_owned() };
        let user = key.user.as_deref().unwrap_or("-");
        [key.id.as_str(), &scopes.join(","), tenant, user, &key.project, &made, &key.note].map(str::to_owned)
    });
    print_table(["KEY", "SCOPES", "TENANT", "USER", "PROJECT", "MADE", "NOTE"], rows.collect())
}

/// A record for scripts: without its hash.
fn record_json(record: &KeyRecord) -> Result<Value> {
    let mut shown = serde_json::to_value(record)?;
    if let Some(members) = shown.as_object_mut() {
        members.remove("hash");
    }
    Ok(shown)
}
