//! `keepline user`: values, sessions and messages of one user, and forgetting them.

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::Result;
use clap::{Args, Subcommand};
use keepline::{
    Keepline, Sessions,
    memories::{display_title, preview},
    sessions::{FoundMessage, SessionSummary, user_bucket},
};
use keepline_json::ObjectWriter;
use serde_json::{Value, json};

use crate::{
    app::{self, error::coded_error, with_keepline},
    args::{GlobalArguments, PageArguments, StoreAccess, help::JSON_HELP},
    jsonl::value::read_json_value,
    operations::{
        confirm::confirm_deletion,
        pages::{PageLimits, default_limit, no_progress_error},
        records::{record_preview, text_member},
        transcripts::{known_time, to_seconds},
        users::{UserCounts, forget_in_batches, user_page},
    },
    terminal::{
        self, format_age, format_count,
        json_text::{self, EmbeddedJson, json_cell},
        object, print_json, print_result,
    },
};

#[derive(Debug, Args)]
pub struct UserArguments {
    #[arg(long, global = true, help = JSON_HELP)]
    pub json: bool,
    #[command(subcommand)]
    pub command: UserCommand,
}

/// What can be done to users.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Store a value that is attached to every question of the user
    Put {
        /// The user's id
        user: String,
        /// The key
        key: String,
        /// A JSON value, or - to read it from standard input
        #[arg(allow_hyphen_values = true)]
        value: String,
        /// Treat the value as plain text instead of JSON
        #[arg(long)]
        text: bool,
    },
    /// Print a value of a user
    Get {
        /// The user's id
        user: String,
        /// The key
        key: String,
    },
    /// List users: how many sessions, nodes and values each has
    ///
    /// A user whose id is not a plain name is listed by its hash (h-…). A session that was
    /// deleted is counted until the user's list is tidied. Each user is read once, 64 at a time.
    List {
        #[command(flatten)]
        page: PageArguments,
        /// List the values of this user, as `values` does
        #[arg(hide = true, conflicts_with_all = ["limit", "cursor", "all", "full"])]
        user: Option<String>,
    },
    /// List the values of a user
    Values {
        /// The user's id
        user: String,
    },
    /// Remove a value of a user
    Remove {
        /// The user's id
        user: String,
        /// The key
        key: String,
    },
    /// List the sessions of a user, most recently used first
    Sessions {
        /// The user's id
        user: String,
        /// Show at most this many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
        limit: u32,
        /// Continue from here: the position printed with the previous page
        #[arg(long, value_name = "POSITION")]
        before: Option<u64>,
        /// Do not cut what is wider than the terminal
        #[arg(long)]
        full: bool,
    },
    /// Find messages in the sessions of a user, newest first
    Search {
        /// The user's id
        user: String,
        /// Words that a message must contain, all of them; case is ignored
        #[arg(required = true)]
        words: Vec<String>,
        /// Show at most this many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        /// Continue from here: the place printed with the previous page
        #[arg(long, value_name = "PLACE")]
        after: Option<String>,
    },
    /// Delete everything about a user: values, sessions, nodes; only a mark that this was done remains
    Forget {
        /// The user's id
        user: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

impl UserCommand {
    /// What it does to the store.
    pub fn store_access(&self) -> StoreAccess {
        match self {
            Self::Get { .. }
            | Self::List { .. }
            | Self::Values { .. }
            | Self::Sessions { .. }
            | Self::Search { .. } => StoreAccess::Read,
            Self::Put { .. } => StoreAccess::Add,
            Self::Remove { .. } | Self::Forget { .. } => StoreAccess::Delete,
        }
    }
}

pub fn main(global: &GlobalArguments, arguments: &UserArguments) -> Result<ExitCode> {
    let json = arguments.json;
    let mut value = None;
    match &arguments.command {
        UserCommand::Put { value: given, text, .. } => value = Some(read_json_value(given, *text)?),
        UserCommand::Forget { yes: false, user } => {
            let store = app::quiet_config(global)?.store_name;
            let warning = format!("everything about user '{user}' would be deleted from {store}");
            confirm_deletion(&warning, "the user's id", user)?;
        }
        _ => {}
    }
    with_keepline(global, arguments.command.store_access(), async |keepline, _, _| {
        let mut sessions = keepline.sessions();
        match &arguments.command {
            UserCommand::Put { user, key, .. } | UserCommand::Remove { user, key } => {
                sessions.put_user_value(user, key, value.as_deref()).await?;
                print_result(json, &json!({"user": user, "bucket": user_bucket(user), "key": key}), "")
            }
            UserCommand::Get { user, key } => {
                let found = sessions.user_values(user, Some(key)).await?;
                let Some(found) = found.values.first() else {
                    return Err(coded_error("key-not-found", format!("User '{user}' has no key '{key}'")));
                };
                if json {
                    return print_json(&object! { user: user, key: key, value: EmbeddedJson(&found.value) });
                }
                terminal::print_line(&json_text::escape_unprintable_json(&found.value))
            }
            UserCommand::List { page, user: None } => list_users(&keepline, json, page).await,
            UserCommand::Values { user } | UserCommand::List { user: Some(user), .. } => {
                let found = sessions.user_values(user, None).await?;
                if json {
                    let values = found.values.iter().map(|value| (&*value.key, EmbeddedJson(&value.value)));
                    return print_json(&object! { user: user, values: values.collect::<BTreeMap<_, _>>() });
                }
                let rows = found.values.iter().map(|value| [value.key.clone(), json_cell(&value.value)]).collect();
                terminal::print_table(["Key", "Value"], rows)
            }
            UserCommand::Sessions { user, limit, before, full } => {
                let page = sessions.user_sessions(user, *before, *limit).await?;
                if json {
                    let sessions: Vec<String> = page.sessions.iter().map(session_json).collect();
                    let sessions: Vec<_> = sessions.iter().map(|session| EmbeddedJson(session)).collect();
                    return print_json(&object! { user: user, sessions: sessions, older: page.older });
                }
                let rows = page.sessions.iter().map(session_row).collect();
                let heading = ["Session", "Title", "Messages", "Begun", "Last", "Newest message"];
                terminal::print_list(heading, rows, *full)?;
                if let Some(older) = page.older {
                    terminal::print_note(&format!("more sessions follow: use --before {older} for the next page"));
                }
                Ok(())
            }
            UserCommand::Search { user, words, limit, after } => {
                let words = words.join(" ");
                search_user_messages(&mut sessions, json, user, &words, *limit, after.clone()).await
            }
            UserCommand::Forget { user, .. } => forget_and_report(&mut sessions, json, user).await,
        }
    })
}

/// Lists one page of users, or all of them. One that comes or goes meanwhile may be missed or listed twice.
async fn list_users(keepline: &Keepline, json: bool, arguments: &PageArguments) -> Result<()> {
    let PageArguments { limit, cursor, all, full } = arguments;
    let limit = limit.unwrap_or_else(|| default_limit(json));
    let (mut pages, mut listed) = (PageLimits::from(cursor), Vec::new());
    let cursor = loop {
        let page = user_page(keepline.store(), pages.cursor(), limit).await?;
        if json {
            pages.count_kept_texts(page.users.iter().map(|user| &*user.name), "use --cursor in place of --all")?;
            listed.extend(page.users.iter().cloned());
        } else if !page.users.is_empty() {
            let row = |user: &UserCounts| {
                let UserCounts { name, sessions, nodes, values } = user;
                [name.clone(), sessions.to_string(), nodes.to_string(), values.to_string()]
            };
            let rows = page.users.iter().map(row).collect();
            terminal::print_list(["User", "Sessions", "Nodes", "Values"], rows, *full)?;
        }
        if !*all || page.cursor.is_empty() {
            break page.cursor;
        }
        pages.turn_to(page.cursor, !page.users.is_empty())?;
    };
    if json {
        return print_json(&json!({"users": listed, "cursor": cursor}));
    }
    if !cursor.is_empty() {
        let cursor = terminal::quote_for_shell(&cursor);
        terminal::print_note(&format!("more users may follow: use --cursor {cursor} for the next page, or --all"));
    }
    Ok(())
}

/// Finds messages that contain all words, in as many calls as it takes: each call reads a bounded part.
async fn search_user_messages(
    sessions: &mut Sessions,
    json: bool,
    user: &str,
    words: &str,
    limit: u32,
    mut after: Option<String>,
) -> Result<()> {
    let mut found: Vec<FoundMessage> = Vec::new();
    let mut pages = PageLimits::default();
    loop {
        let missing = limit.saturating_sub(u32::try_from(found.len()).unwrap_or(limit));
        let page = sessions.search_user(user, words, after.as_deref(), missing).await?;
        if page.next.is_some() && page.next == after {
            return Err(no_progress_error());
        }
        let texts: Vec<String> = page.found.iter().map(|found| found.message.to_json()).collect();
        pages.count_kept_page(texts.iter().map(String::as_str), "use --limit, and --after for the rest")?;
        found.extend(page.found);
        after = page.next;
        if after.is_none() || found.len() as u64 >= u64::from(limit) {
            break;
        }
    }
    if json {
        let texts: Vec<String> = found.iter().map(|found| found.message.to_json()).collect();
        let found = found.iter().zip(&texts).map(|(found, text)| {
            let FoundMessage { session, title, message, .. } = found;
            object! { session: session, title: title, position: message.position, message: EmbeddedJson(text) }
        });
        return print_json(&object! { user: user, found: found.collect::<Vec<_>>(), next: after });
    }
    let rows = found.iter().map(found_message_row).collect();
    terminal::print_table(["Session", "Title", "Position", "Role", "Text"], rows)?;
    if let Some(next) = after {
        let next = terminal::quote_for_shell(&next);
        terminal::print_note(&format!("there may be more: use --after {next} to continue"));
    }
    Ok(())
}

async fn forget_and_report(sessions: &mut Sessions, json: bool, user: &str) -> Result<()> {
    let (gone, nodes) = forget_in_batches(sessions, user).await?;
    let told = format!(
        "forgotten; deleted: {}, {}; 0 are left",
        format_count(gone, "session", "sessions"),
        format_count(nodes, "node", "nodes")
    );
    print_result(json, &json!({"user": user, "sessions": gone, "nodes": nodes, "remaining": 0}), &told)
}

fn found_message_row(found: &FoundMessage) -> [String; 5] {
    let record: Value = json_text::parse_lenient(&found.message.to_json()).unwrap_or_default();
    let title = found.title.clone().unwrap_or_default();
    [
        found.session.clone(),
        title,
        found.message.position.to_string(),
        text_member(&record, "role"),
        record_preview(&record),
    ]
}

/// As `--json` has it; times in seconds. What is not known is left out.
fn session_json(summary: &SessionSummary) -> String {
    let SessionSummary { session, title, created_at, last_at, preview, records, .. } = summary;
    let time = |at: u64| known_time(at).map(to_seconds);
    let mut object = ObjectWriter::with_capacity(256);
    object.text("session", Some(session));
    object.text("title", title.as_deref());
    object.json("began_at", time(*created_at).as_deref());
    object.json("last_at", time(*last_at).as_deref());
    object.count("records", Some(*records));
    object.text("preview", Some(&**preview).filter(|preview| !preview.is_empty()));
    object.finish()
}

fn session_row(summary: &SessionSummary) -> [String; 6] {
    let SessionSummary { session, title, created_at, last_at, preview: newest, records, .. } = summary;
    let ago = |at: u64| known_time(at).map_or_else(|| "-".into(), format_age);
    // The preview does not say whose message it is.
    let (title, newest) = (display_title(title.as_deref(), Some(newest)), preview("", newest));
    [session.clone(), title, records.to_string(), ago(*created_at), ago(*last_at), newest]
}
