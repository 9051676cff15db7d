//! What is there before a curve is measured.

use std::sync::Arc;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use keepline::{
    Keepline,
    store::{
        AppendOperation, Entry, NewLife, Opening, Operation, PutOperation, Store, TimeToLive, Writer, names::VALUES,
    },
};
use keepline_filter::values::{history, history_summary};

use super::visitors::{HISTORY, Sessions, apply, metadata};
use crate::contenders::{TTL_MS, answer, answer_of};

/// Pipes that create sessions side by side.
const PIPES: u64 = 64;
/// Records that one transaction appends.
const RECORDS_AT_ONCE: usize = 5_000;
const TIMESTAMP: &str = "1795186917.032595";

/// Creates all sessions through pipes, as their first answers do.
pub async fn sessions(keepline: &Keepline, sessions: &Sessions, text: &Arc<str>, progress: &ProgressBar) -> Result<()> {
    progress.set_style(ProgressStyle::with_template("{msg}: filling {bar:40} {human_pos}/{human_len}, {eta} left")?);
    progress.set_length(sessions.count());
    progress.set_position(0);
    let tasks: Vec<_> = (0..PIPES)
        .map(|first| {
            let mut pipe = keepline.pipe();
            let (sessions, text, progress) = (sessions.clone(), text.clone(), progress.clone());
            tokio::spawn(async move {
                let mut n = first;
                while n < sessions.count() {
                    answer(&mut pipe, &text, &metadata(&sessions.name(n))).await?;
                    progress.inc(1);
                    n += PIPES;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    progress.set_style(ProgressStyle::default_spinner());
    Ok(())
}

/// One answer in each session.
pub async fn answers(keepline: &Keepline, sessions: &Sessions, text: &str) -> Result<()> {
    let mut pipe = keepline.pipe();
    for session in sessions.all() {
        answer(&mut pipe, text, &metadata(&session)).await?;
    }
    Ok(())
}

/// So many keys in each session, with values of so many characters.
pub async fn keys(store: &dyn Store, sessions: &Sessions, keys: u64, characters: usize) -> Result<()> {
    let value = format!("\"{}\"", answer_of(characters));
    let entry = |n| Entry { key: format!("key-{n:04}"), text: value.clone() };
    let put = PutOperation { map_name: VALUES.into(), entries: (0..keys).map(entry).collect() };
    for session in sessions.all() {
        apply(store, &mut Writer::new(), &session, create(), vec![Operation::Put(put.clone())]).await?;
    }
    Ok(())
}

/// So many operations in the history of each session: all of them, or, where `folded_to` are kept, the rest
/// as one summary.
pub async fn history(store: &dyn Store, sessions: &Sessions, operations: u64, folded_to: Option<u64>) -> Result<()> {
    let record = |n| match n % 2 {
        0 => history::record("put", "last_answer", TIMESTAMP),
        _ => history::record("increment", "answer_count", TIMESTAMP),
    };
    let mut records: Vec<String> = (0..operations).map(record).collect();
    if let Some(kept) = folded_to
        && operations > kept
    {
        let newest = records.split_off(records.len().saturating_sub(kept as usize));
        records = vec![history_summary::summarize(&records, TIMESTAMP)];
        records.extend(newest);
    }
    for session in sessions.all() {
        for part in records.chunks(RECORDS_AT_ONCE) {
            let append = AppendOperation { log: HISTORY.into(), records: part.to_vec(), marks: Vec::new() };
            apply(store, &mut Writer::new(), &session, create(), vec![Operation::Append(append)]).await?;
        }
    }
    Ok(())
}

fn create() -> Opening {
    Opening::Create(NewLife { time_to_live: Some(TimeToLive { milliseconds: TTL_MS, sliding: false }) })
}
