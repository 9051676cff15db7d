//! Forgets a user: deletes their sessions, nodes, values and copies, a batch per call.
//!
//! Promises that an answer in flight stores nothing for a user forgotten meanwhile: the tombstone is written first, and each
//! registration expects the tombstone that its question saw. A user who comes back during the call is kept for the next one.

use crate::admin::delete::remove_bucket;
use crate::context::Context;
use crate::contract::users::UserForgotten;
use crate::contract::{
    BucketId, BucketKind, Entry, Expectation, Failure, FailureCode, Host, LogEnd, Operation, Precondition, PutEntry,
    Receipt, Status, Transaction, VALUES,
};
use crate::entry::session_problem::{SessionResult, write_problem};
use crate::options::config::{KEYS_BYTES, MAX_KEYS};
use crate::recall::{copies, remove};
use crate::store;
use crate::store::{EntriesOutcome, Outcomes};
use crate::text::ids::is_session;
use crate::text::timestamp;
use crate::transcript::schema::{OWNER, SESSION};
use crate::users::registry::{ACTIVITY, FORGOTTEN, NODES, SESSIONS, USER, checked_user_bucket_name};
use crate::users::{activity_log, registry};

/// What one call deletes: sessions, and nodes.
const BATCH: usize = 32;

/// Of the map of what there is once of a user: when nothing of them was left.
const ERASED: &str = "erased";

/// How often to look again at what was registered meanwhile, and at how many of that.
const TRIES: u32 = 8;

const ANEW: u64 = 1000;

const ANEW_BYTES: u64 = 1 << 20;

/// What leaves the user's lists.
struct RemovedEntries {
    sessions: Vec<Entry>,
    nodes: Vec<Entry>,
}

/// Forget a user, a batch of sessions and nodes at a time.
pub fn forget_user(context: &Context<impl Host>, user: &str) -> SessionResult<UserForgotten> {
    let name = checked_user_bucket_name(user)?;
    forget_batch(context, &name).map_err(|failure| write_problem(&name, failure))
}

fn forget_batch(context: &Context<impl Host>, name: &str) -> Result<UserForgotten, Failure> {
    let mut done = UserForgotten { sessions: 0, nodes: 0, remaining: 1 };
    let (stamp, before) = next_stamp(context, name)?;
    let page = |map| Operation::page_keys(map, "", BATCH as u64, KEYS_BYTES);
    // What the index has of them are numbers, which go in the end.
    let [passages, terms, vectors] = remove::RESET_PASSAGES;
    let tombstone = [PutEntry { key: FORGOTTEN, text: &stamp }];
    let operations = [
        Operation::put(USER, &tombstone),
        Operation::reset_map(VALUES, &[]),
        Operation::reset_log(ACTIVITY, &[]),
        passages,
        terms,
        vectors,
        page(NODES),
        page(SESSIONS),
    ];
    let expectations = [registry::expect_not_forgotten(before.as_deref())];
    let receipt = of_bucket(context, name, Precondition::create(None), &expectations, &operations)?;
    if receipt.status == Status::Unmet {
        // Somebody else has just begun: this one is called again.
        return Ok(done);
    }
    let mut outcomes = applied(receipt)?;
    for _ in 0..2 {
        outcomes.take_changed_count()?;
    }
    // Whatever is registered or noted from here on moves it.
    let mut next = outcomes.take_extent()?.next();
    for _ in 0..2 {
        outcomes.take_extent()?;
    }
    outcomes.take_changed_count()?;
    let (mut nodes, mut sessions) = (outcomes.take_key_page()?.keys, outcomes.take_key_page()?.keys);
    // Stores give about as many as they are asked for.
    nodes.truncate(BATCH);
    sessions.truncate(BATCH);
    let get = |map, keys| Operation::get_some(map, keys, KEYS_BYTES);
    let (nodes, sessions) = (borrowed(&nodes), borrowed(&sessions));
    let operations = [get(NODES, &nodes), get(SESSIONS, &sessions)];
    let mut outcomes = applied(of_bucket(context, name, Precondition::LOOK, &[], &operations)?)?;
    let (EntriesOutcome::Entries(nodes), EntriesOutcome::Entries(sessions)) =
        (outcomes.take_entries()?, outcomes.take_entries()?)
    else {
        return Err(Failure::out_of_turn());
    };
    let mut gone = RemovedEntries { sessions: Vec::new(), nodes: Vec::new() };
    let mut broken = None;
    // An unreadable one does not hold up the others: it stays in the lists, and is reported at the end.
    let mut is_gone = |name: &str, looked: Result<(), Failure>| match looked {
        Err(failure) if failure.code == FailureCode::WrongType => {
            broken.get_or_insert_with(|| (name.to_owned(), failure));
            Ok(false)
        }
        looked => looked.map(|()| true),
    };
    // Nodes first: whose they are, their session may know.
    for node in nodes.entries {
        if is_gone(&node.text, forget_node(context, name, &node, &mut done))? {
            gone.nodes.push(node);
        }
    }
    for session in sessions.entries {
        if is_gone(&session.key, forget_session(context, name, &session, &mut done))? {
            gone.sessions.push(session);
        }
    }
    for _ in 0..TRIES {
        if let Some(remaining) = unlist(context, name, &gone, &expected(&stamp, next))? {
            done.remaining = remaining;
            break;
        }
        // They came back: that stays in the lists, for the next call. Or somebody else forgets them.
        next = retain_returned_entries(context, name, &mut gone, next)?;
    }
    if let Some((session, failure)) = broken {
        let message = format!(
            "Session {session} can't be read (its {} has the wrong type), so nobody knows whose it is. Delete it, then \
                 forget the user again; their other sessions were dealt with",
            failure.subject
        );
        return Err(Failure { message, ..failure });
    }
    if done.remaining == 0 {
        let tombstone = [FORGOTTEN, ERASED].map(|key| PutEntry { key, text: &stamp });
        let operations = [Operation::put(USER, &tombstone)];
        // Unless they are being forgotten again, or came back: the next call handles that.
        let receipt = of_bucket(context, name, Precondition::REPLACE, &expected(&stamp, next), &operations)?;
        done.remaining = u64::from(receipt.status == Status::Unmet);
    }
    Ok(done)
}

/// When they are forgotten: later than whoever did that before, whatever the clocks say, for what is expected of a
/// tombstone depends on no two being the same. And what the one before says.
fn next_stamp(context: &Context<impl Host>, name: &str) -> Result<(String, Option<String>), Failure> {
    let before = store::read_entry_text(&context.host, registry::user_bucket(name), USER, FORGOTTEN)?;
    let after = before.as_deref().and_then(timestamp::parse_micros).map_or(0, |before| before.saturating_add(1));
    Ok((timestamp::format_timestamp(context.host.now_micros().max(after)), before))
}

/// Take what is gone from the user's lists, and count what is left. None: it is not as expected.
fn unlist<'g>(
    context: &Context<impl Host>,
    name: &str,
    gone: &'g RemovedEntries,
    expectations: &[Expectation<'_>],
) -> Result<Option<u64>, Failure> {
    let keys = |entries: &'g [Entry]| entries.iter().map(|entry| &*entry.key).collect::<Vec<&str>>();
    let (nodes, sessions) = (keys(&gone.nodes), keys(&gone.sessions));
    let count = |map| Operation::page_keys(map, "", MAX_KEYS, KEYS_BYTES);
    // What was copied since the tombstone is of what is gone, too.
    let [passages, terms, vectors] = remove::RESET_PASSAGES;
    let operations = [
        Operation::remove(NODES, &nodes),
        Operation::remove(SESSIONS, &sessions),
        count(NODES),
        count(SESSIONS),
        count(VALUES),
        copies::RAISE_REVISION,
        copies::RESET_COPY_STATES,
        passages,
        terms,
        vectors,
    ];
    let receipt = of_bucket(context, name, Precondition::LOOK, expectations, &operations)?;
    if receipt.status == Status::Unmet {
        return Ok(None);
    }
    let mut outcomes = applied(receipt)?;
    for _ in 0..2 {
        outcomes.take_changed_count()?;
    }
    let mut remaining = 0;
    for _ in 0..3 {
        let page = outcomes.take_key_page()?;
        remaining += page.keys.len() as u64 + u64::from(!page.cursor.is_empty());
    }
    Ok(Some(remaining))
}

/// Whatever was registered since a position is not gone; where the list stands now.
fn retain_returned_entries(
    context: &Context<impl Host>,
    name: &str,
    gone: &mut RemovedEntries,
    since: u64,
) -> Result<u64, Failure> {
    let (log, end) = (ACTIVITY, LogEnd::Newest);
    let read = [Operation::read(log, end, ANEW, ANEW_BYTES)];
    let run = applied(of_bucket(context, name, Precondition::LOOK, &[], &read)?)?.take_records()?;
    let back: Vec<String> = run.records.iter().filter_map(|record| activity_log::parse_session(record)).collect();
    let is_known = run.first <= since.max(run.extent.first) && back.len() == run.records.len();
    gone.sessions.retain(|entry| is_known && !back.contains(&entry.key));
    gone.nodes.retain(|entry| is_known && !back.contains(&entry.text));
    Ok(run.extent.next())
}

/// Delete a node if it is this user's: by its own owner or, without one, by that of its session, if that is there.
fn forget_node(
    context: &Context<impl Host>,
    user: &str,
    Entry { key: node, text: session }: &Entry,
    done: &mut UserForgotten,
) -> Result<(), Failure> {
    if !is_session(node) || !is_session(session) {
        return Ok(());
    }
    let own = owner_of(context, BucketId { kind: BucketKind::Node, name: node })?;
    let owner = if own.is_some() { own } else { owner_of(context, BucketId::session(session))? };
    if owner.is_none_or(|owner| owner == user) {
        done.nodes += u64::from(remove_bucket(context, BucketKind::Node, node, None)?);
    }
    Ok(())
}

/// Delete a session, and its nodes, if it is this user's, or about to be.
fn forget_session(
    context: &Context<impl Host>,
    user: &str,
    Entry { key: session, text: entry }: &Entry,
    done: &mut UserForgotten,
) -> Result<(), Failure> {
    if !is_session(session) {
        return Ok(());
    }
    let operations = [Operation::get(SESSION, &OWNER, 256), Operation::page_keys(NODES, "", MAX_KEYS, KEYS_BYTES)];
    let (bucket, precondition) = (BucketId::session(session), Precondition::LOOK);
    let Some(mut outcomes) = store::read_bucket(&context.host, bucket, precondition, &operations)? else {
        return Ok(());
    };
    let EntriesOutcome::Entries(owner) = outcomes.take_entries()? else { return Ok(()) };
    let is_theirs = match owner.entries.first() {
        Some(owner) => owner.text == user,
        None => owner.unreadable.is_empty() && activity_log::entry_has_generation(entry, &outcomes.generation),
    };
    if !is_theirs {
        return Ok(());
    }
    for node in outcomes.take_key_page()?.keys.iter().filter(|node| is_session(node)) {
        done.nodes += u64::from(remove_bucket(context, BucketKind::Node, node, None)?);
    }
    let life = Some(&*outcomes.generation).filter(|life| !life.is_empty());
    done.sessions += u64::from(remove_bucket(context, BucketKind::Session, session, life)?);
    Ok(())
}

fn owner_of(context: &Context<impl Host>, bucket: BucketId<'_>) -> Result<Option<String>, Failure> {
    store::read_entry_text(&context.host, bucket, SESSION, OWNER)
}

fn of_bucket(
    context: &Context<impl Host>,
    name: &str,
    precondition: Precondition<'_>,
    expectations: &[Expectation<'_>],
    operations: &[Operation<'_>],
) -> Result<Receipt, Failure> {
    store::transact(
        &context.host,
        &Transaction { bucket: registry::user_bucket(name), precondition, expectations, operations },
    )
}

fn borrowed(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn applied(receipt: Receipt) -> Result<Outcomes, Failure> {
    if receipt.is_applied() { Ok(Outcomes::of(receipt)) } else { Err(Failure::out_of_turn()) }
}

/// No other call has begun to forget them since, and nothing was registered or noted.
fn expected(stamp: &str, next: u64) -> [Expectation<'_>; 2] {
    [Expectation::equal(USER, FORGOTTEN, stamp), Expectation::log(ACTIVITY, None, Some(next))]
}
