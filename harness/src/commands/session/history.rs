//! `keepline session history`: shows the operations on a session, page by page.

use std::time::{Duration, SystemTime};

use anyhow::Result;
use keepline::{
    Sessions,
    sessions::{HistoryPage, HistoryRecord},
};
use keepline_json::for_each_member;
use keepline_service::jsonl::members::decode_json_string;

use crate::{
    operations::pages::{PageLimits, require_older_position},
    terminal::{
        self,
        json_text::{EmbeddedJson, json_cell},
        object, print_json,
    },
};

const TOO_LARGE_HINT: &str = "use --limit, and --before for the rest";

pub(super) async fn show_history(
    sessions: &mut Sessions,
    json: bool,
    session: &str,
    before: Option<u64>,
    limit: u32,
) -> Result<()> {
    let page = whole_history(sessions, session, before, limit).await?;
    let ShownHistory { entries, first, oldest, next } = &page;
    if json {
        let entries: Vec<_> = entries.iter().map(|entry| EmbeddedJson(entry)).collect();
        return print_json(&object! {
            session: session, entries: entries, first: first, oldest: oldest, next: next
        });
    }
    if terminal::is_terminal_output() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let rows = entries.iter().map(|entry| record_row(entry, now)).collect();
        terminal::print_table(["Ago", "Operation", "Key", "More"], rows)?;
    } else {
        terminal::print_lines(entries.iter().map(|entry| json_cell(entry)))?;
    }
    if first > oldest {
        terminal::print_note(&format!("there are older records: use --before {first}, or --limit 0 for all"));
    }
    Ok(())
}

/// Records as JSON, oldest first.
struct ShownHistory {
    entries: Vec<String>,
    first: u64,
    oldest: u64,
    next: u64,
}

/// Reads `limit` records, in as many pages as it takes.
async fn whole_history(
    sessions: &mut Sessions,
    session: &str,
    before: Option<u64>,
    limit: u32,
) -> Result<ShownHistory> {
    let mut pages = PageLimits::default();
    let HistoryPage { records, mut first, mut oldest, next } = sessions.history(session, before, limit).await?;
    let newest: Vec<String> = records.iter().map(HistoryRecord::to_json).collect();
    pages.count_kept_texts(newest.iter().map(String::as_str), TOO_LARGE_HINT)?;
    let mut count = newest.len();
    // The newest first.
    let mut found = vec![newest];
    loop {
        let missing = limit.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
        let is_enough = limit > 0 && missing == 0;
        if is_enough || first <= oldest || count == 0 {
            break;
        }
        let older = sessions.history(session, Some(first), missing).await?;
        if older.records.is_empty() {
            // They were summarised, or the session was recreated.
            oldest = first;
            break;
        }
        require_older_position(Some(older.first), Some(first))?;
        let records: Vec<String> = older.records.iter().map(HistoryRecord::to_json).collect();
        pages.count_kept_page(records.iter().map(String::as_str), TOO_LARGE_HINT)?;
        count += records.len();
        (first, oldest) = (older.first, older.oldest);
        found.push(records);
    }
    Ok(ShownHistory { entries: found.into_iter().rev().flatten().collect(), first, oldest, next })
}

/// A history record as a row: the usual members in columns, the others as JSON.
fn record_row(entry: &str, now: Duration) -> [String; 4] {
    let (mut operation, mut key, mut time, mut more) = ("", "", "", String::new());
    let read = for_each_member(entry, |name, value| match &*decode_json_string(name) {
        "op" => operation = value,
        "key" => key = value,
        "timestamp" => time = value,
        _ => {
            more.push_str(if more.is_empty() { "{" } else { "," });
            more.push_str(&format!("{name}:{value}"));
        }
    });
    if read.is_none() {
        return [String::new(), String::new(), String::new(), json_cell(entry)];
    }
    if !more.is_empty() {
        more.push('}');
    }
    let text = |raw: &str| match raw {
        "null" => String::new(),
        raw if raw.starts_with('"') => decode_json_string(raw).into_owned(),
        raw => json_cell(raw),
    };
    let ago = time.parse().ok().and_then(|time: f64| Duration::try_from_secs_f64(now.as_secs_f64() - time).ok());
    [ago.map(terminal::format_rough_duration).unwrap_or_default(), text(operation), text(key), json_cell(&more)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_records_are_shown_in_columns() {
        let now = Duration::from_secs(1000);
        assert_eq!(record_row(r#"{"op":"put","key":"a","timestamp":990.5}"#, now), ["9 s", "put", "a", ""]);
        let clear = record_row(r#"{"op":"clear","key":null,"cleared":["a"],"timestamp":2000}"#, now);
        assert_eq!(clear, ["", "clear", "", r#"{"cleared":["a"]}"#]);
        assert_eq!(record_row("x", now), ["", "", "", "x"]);
        let odd = record_row(r#"{"op":"\ud800","key":18446744073709551616,"n":1e400,"n":-0, "m":[1,	2]}"#, now);
        assert_eq!(odd, ["", "\u{fffd}", "18446744073709551616", r#"{"n":1e400,"n":-0,"m":[1, 2]}"#]);
    }
}
