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
    store::{BucketKind, FailureCode},
};
use serde_json::json;

use crate::{
    app::with_keepline,
    args::{Access, Global, StatsArguments},
    operations::buckets::{Counts, KINDS, Scan, pages},
    terminal::{self, print_json},
};

/// Sessions that are read at a time.
const SIDE_BY_SIDE: usize = 16;
/// Unreadable sessions that are reported one by one.
const TOLD: u64 = 10;

/// Sums over all sessions.
#[derive(Default)]
struct Totals {
    owned: u64,
    answers: u64,
    messages: u64,
    tokens: u64,
    bytes: u64,
    /// Sessions that can't be read.
    unreadable: u64,
}

impl Totals {
    fn add_unreadable(&mut self, name: &str, error: &SessionError) {
        self.unreadable += 1;
        match self.unreadable {
            ..=TOLD => terminal::warning(&format!("session {name} can't be read: {}", error.message)),
            more if more == TOLD + 1 => terminal::warning("more sessions can't be read; the total is shown at the end"),
            _ => {}
        }
    }

    fn add(&mut self, state: &TranscriptState) {
        self.owned += u64::from(state.owner.is_some());
        self.answers = self.answers.saturating_add(state.answers);
        self.messages = self.messages.saturating_add(state.next.saturating_sub(state.oldest));
        self.tokens = self.tokens.saturating_add(state.weight);
        self.bytes = self.bytes.saturating_add(state.bytes);
    }
}

pub fn main(global: &Global, arguments: &StatsArguments) -> Result<ExitCode> {
    with_keepline(global, Access::Read, async |keepline, _, _| {
        let (counts, totals) = scan(&keepline).await?;
        let Counts { sessions, nodes, users } = counts;
        let Totals { owned, answers, messages, tokens, bytes, unreadable } = totals;
        if arguments.json {
            let all = json!({
                "sessions": sessions, "owned": owned, "nodes": nodes, "users": users, "answers": answers,
                "messages": messages, "tokens": tokens, "bytes": bytes, "unreadable": unreadable,
            });
            return print_json(&all);
        }
        let mut rows = vec![
            ("sessions", sessions.to_string()),
            ("with an owner", owned.to_string()),
            ("nodes", nodes.to_string()),
            ("users", users.to_string()),
            ("answers", answers.to_string()),
            ("messages", messages.to_string()),
            ("tokens", tokens.to_string()),
            ("bytes of messages", HumanBytes(bytes).to_string()),
        ];
        if unreadable > 0 {
            rows.push(("sessions that can't be read", unreadable.to_string()));
        }
        let rows = rows.into_iter().map(|(name, value)| [name.to_owned(), value]).collect();
        terminal::print_table(["", "Count"], rows)
    })
}

/// Whether the error is about the stored data of one session, so that other calls don't meet it.
fn is_broken(error: &SessionError) -> bool {
    use FailureCode::{CounterOverflow, NotACounter, TooLarge, WrongType};
    match error.code {
        SessionErrorCode::Store(code) => [CounterOverflow, NotACounter, TooLarge, WrongType].contains(&code),
        _ => error.code == SessionErrorCode::InvalidValue,
    }
}

async fn scan(keepline: &Keepline) -> Result<(Counts, Totals)> {
    let (mut counts, mut totals) = (Counts::default(), Totals::default());
    let scan = Scan::begin("counted");
    for kind in KINDS {
        let mut pages = pin!(pages(keepline.store(), kind));
        while let Some(names) = pages.try_next().await? {
            if kind == BucketKind::Session {
                let look = async |name: String| (keepline.sessions().describe((&*name).into()).await, name);
                let mut work = stream::iter(names).map(look).buffer_unordered(SIDE_BY_SIDE);
                while let Some((looked, name)) = work.next().await {
                    match looked {
                        Ok(state) => totals.add(&state),
                        // Gone meanwhile; or a name by which no entry can reach it.
                        Err(SessionError { code: SessionErrorCode::NotFound | SessionErrorCode::Expired, .. }) => {
                            continue;
                        }
                        Err(SessionError { code: SessionErrorCode::InvalidSession, .. }) => {}
                        Err(error) if is_broken(&error) => totals.add_unreadable(&name, &error),
                        Err(other) => return Err(other.into()),
                    }
                    counts.count(kind);
                    scan.tell(&counts);
                }
            } else {
                names.iter().for_each(|_| counts.count(kind));
                scan.tell(&counts);
            }
        }
    }
    Ok((counts, totals))
}
