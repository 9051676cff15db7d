//! `keepline stats`: how much there is, counted now.
//!
//! Promises what is there, by looking at each bucket once, and that no use of one is counted. What comes or goes meanwhile
//! may be missed or counted twice; a session that can't be read is named, counted as one, and adds nothing else. What was skipped or failed is no matter of the store: a `keepline run` counts it.

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use futures::{StreamExt, stream};
use indicatif::{HumanBytes, ProgressBar};
use keepline::{
    Keepline,
    sessions::{SessionError, SessionErrorCode, TranscriptState},
    store::{BucketKind, BucketPage, Deadline, FailureCode, Store},
};
use serde_json::json;

use crate::{
    cli::{Access, Global, StatsArguments},
    session::{answer, watched},
    terminal::{self, counted},
};

/// What belongs to sessions, and in this order.
pub const KINDS: [BucketKind; 3] = [BucketKind::Session, BucketKind::Node, BucketKind::User];
/// Sessions that are looked at at one time.
const SIDE_BY_SIDE: usize = 16;
/// Sessions that can't be read of which each is told.
const TOLD: u64 = 10;

/// How many buckets of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub sessions: u64,
    pub nodes: u64,
    pub users: u64,
}

impl Counts {
    /// One more.
    pub fn count(&mut self, kind: BucketKind) {
        match kind {
            BucketKind::Session => self.sessions += 1,
            BucketKind::Node => self.nodes += 1,
            _ => self.users += 1,
        }
    }

    pub fn total(&self) -> u64 {
        self.sessions + self.nodes + self.users
    }

    /// For people.
    pub fn told(&self) -> String {
        let sessions = counted(self.sessions, "session", "sessions");
        let (nodes, users) = (counted(self.nodes, "node", "nodes"), counted(self.users, "user", "users"));
        format!("{sessions}, {nodes}, {users}")
    }
}

/// A walk through all buckets, with its progress on a terminal.
pub struct Scan {
    bar: ProgressBar,
    what: &'static str,
}

impl Scan {
    /// For a page or a bucket.
    pub const TIMEOUT: Duration = Duration::from_secs(30);

    pub fn begin(what: &'static str) -> Self {
        let bar = ProgressBar::new_spinner();
        terminal::write_above(&bar);
        Self { bar, what }
    }

    pub fn tell(&self, counts: &Counts) {
        self.bar.set_message(format!("{} {}", counts.told(), self.what));
        self.bar.tick();
    }

    /// Names of a kind, from a cursor on.
    pub async fn page(store: &Arc<dyn Store>, kind: BucketKind, cursor: &str) -> Result<BucketPage> {
        let page = store.list_buckets(kind, cursor, 1000, Deadline::after(Self::TIMEOUT)).await;
        page.context("can't list the store")
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// What sessions hold together.
#[derive(Default)]
struct Held {
    owned: u64,
    answers: u64,
    messages: u64,
    tokens: u64,
    bytes: u64,
    /// Sessions of which nothing of this can be told.
    unreadable: u64,
}

impl Held {
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

/// Run it.
pub fn main(global: &Global, arguments: &StatsArguments) -> Result<ExitCode> {
    watched(global, Access::Read, async |keepline, _, _| {
        let (counts, held) = scan(&keepline).await?;
        let Counts { sessions, nodes, users } = counts;
        let Held { owned, answers, messages, tokens, bytes, unreadable } = held;
        if arguments.json {
            let all = json!({
                "sessions": sessions, "owned": owned, "nodes": nodes, "users": users, "answers": answers,
                "messages": messages, "tokens": tokens, "bytes": bytes, "unreadable": unreadable,
            });
            return answer(true, &all, "");
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
        Ok(terminal::print_table(["", "Count"], rows)?)
    })
}

/// Whether it is about what is stored of a session, and so no other call would meet it.
fn is_broken(error: &SessionError) -> bool {
    use FailureCode::{CounterOverflow, NotACounter, TooLarge, WrongType};
    match error.code {
        SessionErrorCode::Store(code) => [CounterOverflow, NotACounter, TooLarge, WrongType].contains(&code),
        _ => error.code == SessionErrorCode::InvalidValue,
    }
}

async fn scan(keepline: &Keepline) -> Result<(Counts, Held)> {
    let (mut counts, mut held) = (Counts::default(), Held::default());
    let scan = Scan::begin("counted");
    for kind in KINDS {
        let mut cursor = String::new();
        loop {
            let page = Scan::page(keepline.store(), kind, &cursor).await?;
            if kind == BucketKind::Session {
                let look = async |name: String| (keepline.sessions().describe((&*name).into()).await, name);
                let mut work = stream::iter(page.names).map(look).buffer_unordered(SIDE_BY_SIDE);
                while let Some((looked, name)) = work.next().await {
                    match looked {
                        Ok(state) => held.add(&state),
                        // Gone meanwhile; or a name by which no entry can reach it.
                        Err(SessionError { code: SessionErrorCode::NotFound | SessionErrorCode::Expired, .. }) => {
                            continue;
                        }
                        Err(SessionError { code: SessionErrorCode::InvalidSession, .. }) => {}
                        Err(error) if is_broken(&error) => held.add_unreadable(&name, &error),
                        Err(other) => return Err(other.into()),
                    }
                    counts.count(kind);
                    scan.tell(&counts);
                }
            } else {
                page.names.iter().for_each(|_| counts.count(kind));
                scan.tell(&counts);
            }
            cursor = page.cursor;
            if cursor.is_empty() {
                break;
            }
        }
    }
    Ok((counts, held))
}
