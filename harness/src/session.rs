//! `keepline session`: what an operator does to sessions, over the component's `sessions` export.
//!
//! The component checks and words everything; here is only how it looks. Plain output is for pipes: one
//! thing a line, fields separated by tabs. Promises that a stored value comes out as it is stored: no digit,
//! escape or member is lost on the way, in JSON or not.

use std::{
    collections::BTreeMap,
    io::Read,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result};
use keepline::{
    Sessions,
    sessions::{HistoryPage, SessionError, SessionErrorCode},
};
use keepline_filter::json::scan::members;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    cli::{GRACE, Global, SessionArguments, SessionCommand},
    ending::Ending,
    error::{Coded, Usage},
    json_text::{self, Stored},
    run::members::decoded,
    runtime, setup, terminal,
};

/// Run it.
pub fn main(global: &Global, arguments: &SessionArguments) -> Result<ExitCode> {
    let config = setup::config(global)?;
    let plugin = setup::plugin(global, &config)?;
    let put = match &arguments.command {
        // Before signals are heard: whoever waits for standard input can be ended by one.
        SessionCommand::Put { value, text, .. } => json_value(value, *text)?,
        _ => String::new(),
    };
    if !config.is_redis() {
        terminal::note(
            "the \"memory\" backend lives only as long as this process: there are no earlier sessions, and none will \
             be kept; for Redis, add --profile redis, or set KEEPLINE_PROFILE=redis and KEEPLINE_REDIS_URL",
        );
    }
    runtime::single()?.block_on(async {
        let keepline = setup::keepline(plugin, &config).await?;
        let mut desk = Desk { sessions: keepline.sessions(), json: arguments.json, put };
        let served = desk.serve(&arguments.command);
        if arguments.command.only_reads() {
            return served.await;
        }
        // What was sent to the store may be done already: its answer is waited for, and told.
        let ending = Ending::listen(GRACE)?;
        tokio::select! {
            served = served => served,
            () = ending.told(|| ()) => {
                let message = "interrupted before the store answered: the change may or may not have been applied";
                Err(Coded { code: "interrupted", message: message.to_owned() }.into())
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

struct Desk {
    sessions: Sessions,
    json: bool,
    /// The value to put.
    put: String,
}

impl Desk {
    async fn serve(&mut self, command: &SessionCommand) -> Result<()> {
        match command {
            SessionCommand::List { limit, cursor, all } => self.list(*limit, cursor.clone(), *all).await,
            SessionCommand::Show { session } => self.show(session).await,
            SessionCommand::Create { session } => {
                let created = self.sessions.create(session).await?;
                let json = json!({"session": created.session, "incarnation": created.incarnation});
                self.answer(&json, &created.session)
            }
            SessionCommand::Delete { session } => {
                let deleted = self.sessions.delete(session).await?;
                let (count, keys) = (deleted.key_count, deleted.keys_cleared);
                let json = json!({"session": deleted.session, "key_count": count, "keys_cleared": keys});
                self.answer(&json, &keys.join("\n"))?;
                let unnamed = count.saturating_sub(keys.len() as u64);
                if unnamed > 0 && !self.json {
                    terminal::note(&format!("{unnamed} more keys are not named"));
                }
                Ok(())
            }
            SessionCommand::Put { session, key, .. } => {
                let stored = self.sessions.put(session, key, &self.put).await?;
                self.answer(&json!({"session": stored.session, "key": stored.key}), "")
            }
            SessionCommand::Get { session, key, text } => self.get(session, key, *text).await,
            SessionCommand::Keys { session } => {
                let found = self.sessions.keys(session).await?;
                self.answer(&json!({"session": found.session, "keys": found.keys}), &found.keys.join("\n"))
            }
            SessionCommand::Clear { session, key, all: _ } => {
                let cleared = self.sessions.clear(session, key.as_deref()).await?;
                let json = json!({"session": cleared.session, "cleared": cleared.cleared});
                self.answer(&json, &cleared.cleared.join("\n"))
            }
            SessionCommand::Increment { session, key, amount } => {
                let counted = self.sessions.increment(session, key, *amount).await?;
                let json = json!({"session": counted.session, "key": counted.key, "value": counted.value});
                self.answer(&json, &counted.value.to_string())
            }
            SessionCommand::History { session, limit, before } => self.history(session, *before, *limit).await,
        }
    }

    /// JSON or plain lines; nothing when there are none.
    fn answer(&self, json: &impl Serialize, plain: &str) -> Result<()> {
        if self.json {
            return Ok(terminal::print_line(&serde_json::to_string(json)?)?);
        }
        if !plain.is_empty() {
            let shown = if terminal::is_for_people() { terminal::printable(plain) } else { plain.to_owned() };
            terminal::print_line(&shown)?;
        }
        Ok(())
    }

    async fn list(&mut self, limit: u32, mut cursor: String, all: bool) -> Result<()> {
        // A page at a time, also with --all: nobody knows how many sessions there are. A session that comes
        // or goes meanwhile may be listed twice; each page is sorted.
        let mut sessions = Vec::new();
        loop {
            let page = self.sessions.list(&cursor, limit).await?;
            cursor = page.cursor;
            if self.json {
                sessions.extend(page.sessions);
            } else if !page.sessions.is_empty() {
                let rows = page.sessions.into_iter().map(|session| [session]).collect();
                terminal::print_table(["Session"], rows)?;
            }
            if !all || cursor.is_empty() {
                break;
            }
        }
        if self.json {
            return self.answer(&json!({"sessions": sessions, "cursor": cursor}), "");
        }
        if !cursor.is_empty() {
            terminal::note(&format!("more sessions follow: use --cursor '{cursor}' for the next page, or --all"));
        }
        Ok(())
    }

    async fn show(&mut self, session: &str) -> Result<()> {
        let state = self.sessions.resume(session).await?;
        let keys = self.sessions.keys(session).await?.keys;
        let (mut values, mut unreadable) = (BTreeMap::new(), Vec::new());
        for key in keys {
            match self.sessions.get(session, &key).await {
                Ok(found) => {
                    // One that has gone since is left out.
                    if let Some(value) = found.value {
                        values.insert(key, value);
                    }
                }
                Err(SessionError {
                    code: SessionErrorCode::InvalidValue | SessionErrorCode::Limit, message, ..
                }) => {
                    terminal::warning(&format!("key '{key}' is left out: {message}"));
                    unreadable.push(key);
                }
                Err(other) => return Err(other.into()),
            }
        }
        if self.json {
            let shown = ShownSession {
                session: &state.session,
                incarnation: &state.incarnation,
                key_count: state.key_count,
                history_length: state.history_length,
                expires_in_ms: state.expires_in,
                values: values.iter().map(|(key, value)| (key.as_str(), Stored(value))).collect(),
                unreadable: &unreadable,
            };
            return self.answer(&shown, "");
        }
        let expiry = state.expires_in.map_or("never".to_owned(), |left| rough(Duration::from_millis(left)));
        let mut rows = vec![
            ["session".to_owned(), state.session],
            ["incarnation".to_owned(), state.incarnation],
            ["expires in".to_owned(), expiry],
            ["keys".to_owned(), state.key_count.to_string()],
            ["history".to_owned(), state.history_length.to_string()],
        ];
        rows.extend(values.into_iter().map(|(key, value)| [format!(".{key}"), cell(&value)]));
        Ok(terminal::print_table(["", "Value"], rows)?)
    }

    async fn get(&mut self, session: &str, key: &str, as_text: bool) -> Result<()> {
        let found = self.sessions.get(session, key).await?;
        let value = found.value.as_deref();
        if self.json {
            let shown = ShownValue { session: &found.session, key: &found.key, value: value.map(Stored) };
            self.answer(&shown, "")?;
        }
        let Some(value) = value else {
            let message = format!("Session '{session}' has no key '{key}'");
            return Err(Coded { code: "key-not-found", message }.into());
        };
        if self.json {
            return Ok(());
        }
        if as_text && value.starts_with('"') {
            return self.answer(&(), &decoded(value));
        }
        Ok(if terminal::is_for_people() {
            terminal::print_line(&json_text::printable(value))
        } else {
            terminal::print_line(value)
        }?)
    }

    async fn history(&mut self, session: &str, before: Option<u64>, limit: u32) -> Result<()> {
        let page = self.whole_history(session, before, limit).await?;
        let HistoryPage { session, entries, first, oldest, next, .. } = &page;
        if self.json {
            let entries = entries.iter().map(|entry| Stored(entry)).collect();
            return self.answer(&ShownHistory { session, entries, first: *first, oldest: *oldest, next: *next }, "");
        }
        if terminal::is_for_people() {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let rows = entries.iter().map(|entry| record_row(entry, now)).collect();
            terminal::print_table(["Ago", "Operation", "Key", "More"], rows)?;
        } else {
            let lines: Vec<_> = entries.iter().map(|entry| json_text::on_one_line(entry)).collect();
            self.answer(&(), &lines.join("\n"))?;
        }
        if first > oldest {
            terminal::note(&format!("older records precede: use --before {first} for them, or --limit 0 for all"));
        }
        Ok(())
    }

    /// So many records, in as many pages as it takes; a reply of the component is bounded.
    async fn whole_history(&mut self, session: &str, before: Option<u64>, limit: u32) -> Result<HistoryPage> {
        let mut whole = self.sessions.history(session, before, limit).await?;
        loop {
            let missing = limit.saturating_sub(u32::try_from(whole.entries.len()).unwrap_or(u32::MAX));
            let is_enough = limit > 0 && missing == 0;
            if is_enough || whole.first <= whole.oldest || whole.entries.is_empty() {
                return Ok(whole);
            }
            let mut older = self.sessions.history(session, Some(whole.first), missing).await?;
            if older.entries.is_empty() {
                // They were summarised, or the session is another one by now.
                return Ok(HistoryPage { oldest: whole.first, ..whole });
            }
            older.entries.append(&mut whole.entries);
            whole = HistoryPage { entries: older.entries, first: older.first, oldest: older.oldest, ..whole };
        }
    }
}

#[derive(Serialize)]
struct ShownSession<'a> {
    session: &'a str,
    incarnation: &'a str,
    key_count: u64,
    history_length: u64,
    expires_in_ms: Option<u64>,
    values: BTreeMap<&'a str, Stored<'a>>,
    /// Keys whose values can't be shown.
    unreadable: &'a [String],
}

#[derive(Serialize)]
struct ShownValue<'a> {
    session: &'a str,
    key: &'a str,
    value: Option<Stored<'a>>,
}

#[derive(Serialize)]
struct ShownHistory<'a> {
    session: &'a str,
    entries: Vec<Stored<'a>>,
    /// The position of the first one, and of the oldest that there is; the one that the next record gets.
    first: u64,
    oldest: u64,
    next: u64,
}

/// A stored value in a table, still the same value.
fn cell(json: &str) -> String {
    json_text::printable(&json_text::on_one_line(json)).into_owned()
}

/// A history record for people: its usual members in columns, all others as they are.
fn record_row(entry: &str, now: Duration) -> [String; 4] {
    let (mut operation, mut key, mut time, mut more) = ("", "", "", String::new());
    let read = members(entry, |name, value| match &*decoded(name) {
        "op" => operation = value,
        "key" => key = value,
        "timestamp" => time = value,
        _ => {
            more.push_str(if more.is_empty() { "{" } else { "," });
            more.push_str(&format!("{name}:{value}"));
        }
    });
    if read.is_none() {
        return [String::new(), String::new(), String::new(), cell(entry)];
    }
    if !more.is_empty() {
        more.push('}');
    }
    let text = |raw: &str| match raw {
        "null" => String::new(),
        raw if raw.starts_with('"') => decoded(raw).into_owned(),
        raw => cell(raw),
    };
    let ago = time.parse().ok().and_then(|time: f64| Duration::try_from_secs_f64(now.as_secs_f64() - time).ok());
    [ago.map(rough).unwrap_or_default(), text(operation), text(key), cell(&more)]
}

/// A time in its largest unit.
fn rough(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn json_value(given: &str, is_text: bool) -> Result<String> {
    let mut read = String::new();
    let given = if given == "-" {
        std::io::stdin().read_to_string(&mut read).context("can't read the value from standard input")?;
        if is_text { read.as_str() } else { read.trim_start_matches('\u{feff}').trim() }
    } else {
        given
    };
    if is_text {
        return Ok(Value::from(given).to_string());
    }
    // Handed on as it is written: numbers keep their digits.
    match serde_json::from_str::<&serde_json::value::RawValue>(given) {
        Ok(_) => Ok(given.to_owned()),
        Err(error) => Err(Usage(format!("the value is not valid JSON ({error}); use --text for plain text")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_records_are_told_in_columns() {
        let now = Duration::from_secs(1000);
        assert_eq!(record_row(r#"{"op":"put","key":"a","timestamp":990.5}"#, now), ["9 s", "put", "a", ""]);
        let clear = record_row(r#"{"op":"clear","key":null,"cleared":["a"],"timestamp":2000}"#, now);
        assert_eq!(clear, ["", "clear", "", r#"{"cleared":["a"]}"#]);
        assert_eq!(record_row("x", now), ["", "", "", "x"]);
        let odd = record_row(r#"{"op":"\ud800","key":18446744073709551616,"n":1e400,"n":-0, "m":[1,	2]}"#, now);
        assert_eq!(odd, ["", "\u{fffd}", "18446744073709551616", r#"{"n":1e400,"n":-0,"m":[1, 2]}"#]);
    }

    #[test]
    fn a_value_is_json_or_said_to_be_text() {
        assert_eq!(json_value("12345678901234567890123", false).unwrap(), "12345678901234567890123");
        assert_eq!(json_value("a \"b\"", true).unwrap(), r#""a \"b\"""#);
        assert!(json_value("a", false).unwrap_err().to_string().contains("--text"));
    }
}
