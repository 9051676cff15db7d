//! Lists a user's sessions, the most recently used first.
//!
//! A page costs the same however many sessions there are, and shows each session as it is now; only the order is as of the last
//! record in the log of activity.

use std::slice::from_ref;

use crate::admin::transcripts::newest_record;
use crate::admin::user_values::read_user_bucket;
use crate::context::Context;
use crate::contract::users::{SessionList, SessionSummary};
use crate::contract::{
    BucketId, Host, IndexedReceipt, LogEnd, Operation, Precondition, Problem, Receipt, Span, Transaction,
};
use crate::entry::session_problem::SessionResult;
use crate::store;
use crate::store::{EntriesOutcome, Outcomes};
use crate::text::timestamp::parse_milliseconds;
use crate::text::truncate::head_within;
use crate::transcript::record::StoredRecord;
use crate::transcript::schema::{IMPORT, OWNER, SESSION, TITLE, TRANSCRIPT};
use crate::users::activity_log::ListedSession;
use crate::users::registry::{ACTIVITY, SESSIONS, checked_user_bucket_name};
use crate::values::session_id::{SESSION_ID_KEY, kept_id};

/// Sessions of a page.
const PAGE: u32 = 20;

const PAGE_MAX: u32 = 100;

/// Records that one page looks at.
const LOOK: u32 = 512;

const LOOK_BYTES: u64 = 1 << 20;

/// Stretches of logs in one call of the store.
const RANGES: usize = 16;

/// Characters of a message, and what is read of it.
pub(crate) const PREVIEW: usize = 100;

const PREVIEW_BYTES: u64 = 64 << 10;

/// The sessions of a user that are there, the one used last first.
pub fn list_user_sessions(
    context: &Context<impl Host>,
    user: &str,
    before: Option<u64>,
    limit: u32,
) -> SessionResult<SessionList> {
    let name = checked_user_bucket_name(user)?;
    let no_sessions = || SessionList { sessions: Vec::new(), older: None };
    let limit = if limit == 0 { PAGE } else { limit.min(PAGE_MAX) };
    let max_bytes = LOOK_BYTES;
    let span = before.map(|before| {
        let position = before.saturating_sub(LOOK.into());
        Span { position, count: u32::try_from(before - position).unwrap_or(LOOK) }
    });
    let read = match &span {
        None => Operation::read(ACTIVITY, LogEnd::Newest, LOOK.into(), max_bytes),
        Some(span) => Operation::read_at(ACTIVITY, from_ref(span), max_bytes),
    };
    let Some(mut outcomes) = read_user_bucket(context, &name, &[read])? else { return Ok(no_sessions()) };
    let run = outcomes.take_records()?;
    if before.is_some_and(|before| before > run.extent.next()) {
        return list_user_sessions(context, user, None, limit);
    }
    let mut noted: Vec<(u64, ListedSession)> = Vec::with_capacity(run.records.len());
    noted.extend((run.first..).zip(&run.records).filter_map(|(at, text)| Some((at, ListedSession::parse(text)?))));
    let mut names: Vec<String> = noted.iter().map(|(_, noted)| noted.session.clone()).collect();
    store::sort_names(&mut names);
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    let get = Operation::get_some(SESSIONS, &keys, max_bytes);
    let Some(mut outcomes) = read_user_bucket(context, &name, &[get])? else { return Ok(no_sessions()) };
    let EntriesOutcome::Entries(known) = outcomes.take_entries()? else {
        return Ok(no_sessions());
    };
    let mut page: Vec<&ListedSession> = Vec::new();
    let mut older = Some(run.first).filter(|first| !run.records.is_empty() && *first > run.extent.first);
    for (position, noted) in noted.iter().rev() {
        // In one wait each bucket comes once.
        if !noted.is_latest_in(&known) || page.iter().any(|other| other.session == noted.session) {
            continue;
        }
        page.push(noted);
        if page.len() as u64 == u64::from(limit) {
            older = Some(*position).filter(|position| *position > run.extent.first);
            break;
        }
    }
    let receipts = look_each(context, &page);
    let sessions = page
        .iter()
        .zip(receipts)
        .filter_map(|(noted, receipt)| summary_of(context, noted, receipt.ok()?.receipt, &name));
    Ok(SessionList { sessions: sessions.collect(), older })
}

/// In as few waits as a call's stretches of logs allow, one each.
fn look_each(context: &Context<impl Host>, sessions: &[&ListedSession]) -> Vec<Result<IndexedReceipt, Box<Problem>>> {
    let operations = [
        Operation::get_some(SESSION, &[OWNER, TITLE, SESSION_ID_KEY, IMPORT], 1 << 16),
        Operation::read(TRANSCRIPT, LogEnd::Newest, 1, PREVIEW_BYTES),
        Operation::describe(false),
    ];
    let mut receipts = Vec::with_capacity(sessions.len());
    for chunk in sessions.chunks(RANGES) {
        let mut transactions = Vec::with_capacity(chunk.len());
        for noted in chunk {
            let (bucket, precondition) = (BucketId::session(&noted.session), Precondition::LOOK);
            transactions.push(Transaction { bucket, precondition, expectations: &[], operations: &operations }.into());
        }
        receipts.extend(store::transact_each(&context.host, &transactions));
    }
    receipts
}

/// How a session is now, if it is there and this user's.
fn summary_of(
    context: &Context<impl Host>,
    listed: &ListedSession,
    receipt: Receipt,
    user: &str,
) -> Option<SessionSummary> {
    if !receipt.is_applied() {
        return None;
    }
    let mut outcomes = Outcomes::of(receipt);
    let EntriesOutcome::Entries(found) = outcomes.take_entries().ok()? else { return None };
    let of = |key: &str| found.entries.iter().find(|entry| entry.key == key).map(|entry| &*entry.text);
    if of(OWNER) != Some(user) {
        return None;
    }
    let run = outcomes.take_records().ok()?;
    let described = outcomes.take_description().ok()?;
    let newest = newest_record(context, BucketId::session(&listed.session), &run, of(IMPORT)).ok()?;
    let newest = newest.as_deref().and_then(StoredRecord::parse);
    let preview = newest.as_ref().filter(|record| !record.is_removed()).map(|record| {
        let end = record.content.char_indices().nth(PREVIEW).map_or(record.content.len(), |(at, _)| at);
        head_within(&record.content, end, usize::MAX).to_owned()
    });
    Some(SessionSummary {
        session: kept_id(&listed.session, of(SESSION_ID_KEY)).unwrap_or(&listed.session).to_owned(),
        generation: outcomes.generation,
        title: of(TITLE).map(ToOwned::to_owned),
        created_at: described.created_at,
        last_at: newest.and_then(|record| parse_milliseconds(&record.at)).unwrap_or(0),
        preview: preview.unwrap_or_default(),
        records: run.extent.length,
        extras: None,
    })
}
