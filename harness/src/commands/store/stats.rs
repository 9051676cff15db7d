//! `keepline stats`: counts what the store holds.
//!
//! Each bucket is read once, without counting as a use of it. Data that come or go meanwhile may be missed or counted
//! twice. A session that can't be read is named and counted as one session, without its contents. Skipped and failed
//! entries are not the store's business: `keepline run` counts them.

use std::{pin::pin, process::ExitCode};

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use indicatif::HumanBytes;
use keepline::{
    Keepline,
    sessions::{SessionError, SessionErrorCode, TranscriptState},
    store::{FailureCode, kind},
};
use serde_json::{Map, Value};

use crate::{
    app::with_keepline,
    args::{GlobalArguments, JsonArguments, StoreAccess},
    operations::buckets::{BucketCounts, BucketScan, SESSION_BUCKET_KINDS, pages},
    terminal,
};

/// Sessions that are read at a time.
const CONCURRENT_READS: usize = 16;
/// Unreadable sessions that are reported one by one.
const MAX_UNREADABLE_WARNINGS: u64 = 10;

/// Sums over all sessions.
#[derive(Default)]
struct SessionTotals {
    owned: u64,
    answers: u64,
    messages: u64,
    tokens: u64,
    bytes: u64,
    /// Sessions that can't be read.
    unreadable: u64,
}

impl SessionTotals {
    fn add_unreadable(&mut self, name: &str, error: &SessionError) {
        self.unreadable += 1;
        match self.unreadable {
            ..=MAX_UNREADABLE_WARNINGS => {
                terminal::print_warning(&format!("session {name} can't be read: {}", error.message))
            }
            more if more == MAX_UNREADABLE_WARNINGS + 1 => {
                terminal::print_warning("more sessions can't be read; the total is shown at the end")
            }
            _ => {}
        }
    }

    fn add_session(&mut self, state: &TranscriptState) {
        self.owned += u64::from(state.owner.is_some());
        self.answers = self.answers.saturating_add(state.answers);
        self.messages = self.messages.saturating_add(state.next.saturating_sub(state.oldest));
        self.tokens = self.tokens.saturating_add(state.weight);
        self.bytes = self.bytes.saturating_add(state.bytes);
    }
}

pub fn main(global: &GlobalArguments, arguments: &JsonArguments) -> Result<ExitCode> {
    with_keepline(global, StoreAccess::Read, async |keepline, _, _| {
        let (counts, totals) = count_store_contents(&keepline).await?;
        let mut all = vec![
            ("sessions", "sessions", counts.sessions),
            ("owned", "with an owner", totals.owned),
            ("nodes", "nodes", counts.nodes),
            ("users", "users", counts.users),
            ("answers", "answers", totals.answers),
            ("messages", "messages", totals.messages),
            ("tokens", "tokens", totals.tokens),
            ("bytes", "bytes of messages", totals.bytes),
            ("unreadable", "sessions that can't be read", totals.unreadable),
        ];
        if arguments.json {
            let all: Map<String, Value> =
                all.into_iter().map(|(name, _, count)| (name.to_owned(), count.into())).collect();
            return terminal::print_json(&all);
        }
        all.retain(|(name, _, count)| *name != "unreadable" || *count > 0);
        let rows = all.into_iter().map(|(name, label, count)| {
            let shown = if name == "bytes" { HumanBytes(count).to_string() } else { count.to_string() };
            [label.to_owned(), shown]
        });
        terminal::print_table(["", "Count"], rows.collect())
    })
}

/// Whether the error is about the stored data of one session, so that other calls don't meet it.
fn is_damaged_session(error: &SessionError) -> bool {
    use FailureCode::{CounterOverflow, NotACounter, TooLarge, WrongType};
    match error.code {
        SessionErrorCode::Store(code) => [CounterOverflow, NotACounter, TooLarge, WrongType].contains(&code),
        _ => error.code == SessionErrorCode::InvalidValue,
    }
}

async fn count_store_contents(keepline: &Keepline) -> Result<(BucketCounts, SessionTotals)> {
    let (mut counts, mut totals) = (BucketCounts::default(), SessionTotals::default());
    let scan = BucketScan::start_spinner("counted");
    for kind in SESSION_BUCKET_KINDS {
        let mut pages = pin!(pages(keepline.store(), kind));
        while let Some(names) = pages.try_next().await? {
            if kind == kind::SESSION {
                let look = async |name: String| (keepline.sessions().describe((&*name).into()).await, name);
                let mut work = stream::iter(names).map(look).buffer_unordered(CONCURRENT_READS);
                while let Some((looked, name)) = work.next().await {
                    match looked {
                        Ok(state) => totals.add_session(&state),
                        // Gone meanwhile; or a name by which no entry can reach it.
                        Err(SessionError { code: SessionErrorCode::NotFound | SessionErrorCode::Expired, .. }) => {
                            continue;
                        }
                        Err(SessionError { code: SessionErrorCode::InvalidSession, .. }) => {}
                        Err(error) if is_damaged_session(&error) => totals.add_unreadable(&name, &error),
                        Err(other) => return Err(other.into()),
                    }
                    counts.count_bucket(kind);
                    scan.show_progress(&counts);
                }
            } else {
                names.iter().for_each(|_| counts.count_bucket(kind));
                scan.show_progress(&counts);
            }
        }
    }
    Ok((counts, totals))
}
